"""Runs the real program: real processes, real TLS. CAUSEWAY names the binary."""
import contextlib
import json
import os
import pathlib
import random
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

# A shell that starts tests in the background has them, and all that they start, ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# And nohup has them ignore that the terminal closes.
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

CAUSEWAY = os.environ["CAUSEWAY"]
DEADLINE_S = int(os.environ.get("CAUSEWAY_DEADLINE_S", 240))  # of any single wait; a test that needs it has failed
REGIONS = ("us-east", "eu-west", "ap-northeast")

CONFIG = """
[run]
name = "e2e"
seed = 7
[model]
family = "{family}"
layers = 2
width = 32
heads = 2
kv_heads = 2
context = 32
[data]
files = ["{text}"]
[train]
batch = 6
steps = {steps}
k = {k}
checkpoint_rounds = 2
validation_sequences = 16
[inner]
lr = 3e-3
warmup_steps = 5
[outer]
optimizer = "{optimizer}"
lr = {outer_lr}
[codec]
matrix = "{codec}"
[sync]
exchange = "{exchange}"
grace_min_s = 2
[wan]
profile = "{wan}"
[certificates]
directory = "{certificates}"
"""

SPARSE = dict(codec="topk:k=64,chunk=4096,value=2bit,index=elias-fano", optimizer="sgd", outer_lr=1.0)
DENSE = dict(codec="dense:int8,block=128", optimizer="nesterov", outer_lr=0.6)


def wait_until(condition, what, still_alive=None):
    """Polls until the condition holds; fails naming what was waited for."""
    end = time.monotonic() + DEADLINE_S
    pause = threading.Event()
    while not (result := condition()):
        if still_alive is not None and still_alive.poll() is not None:
            raise AssertionError(f"the process ended with {still_alive.returncode} while waiting for {what}")
        if time.monotonic() > end:
            raise AssertionError(f"waited {DEADLINE_S} s for {what}")
        pause.wait(0.02)
    return result


def read_json(path):
    try:
        return json.loads(pathlib.Path(path).read_text())
    except (FileNotFoundError, ValueError):  # not there, or not whole
        return {}


ports_given = set()


def free_port():
    """One below those that connections get: until a program listens there, none takes it. Never the same one twice."""
    while True:
        port = random.randrange(10_000, 32_000)
        if port in ports_given:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            ports_given.add(port)
            return port


def processes(*words):
    """Pids of our processes whose command line has all the words."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                arguments = (entry / "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            if all(word in arguments for word in words):
                found.append(int(entry.name))
    return found


def kill(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def namespaces_allowed():
    return subprocess.run(["unshare", "--user", "--net", "--map-root-user", "true"], stderr=subprocess.DEVNULL,
                          check=False).returncode == 0


def large_data():
    """60 MB of which a sample, as regions compare it, looks at 1 MB."""
    text = EndToEnd.make_text().encode()
    return bytearray((text * (60_000_000 // len(text) + 1))[:60_000_000])


def change_a_byte(data):
    data[30_000_001] ^= 1


def zero_a_megabyte(data):
    data[20_500_000:21_500_000] = bytes(1_000_000)


class EndToEnd(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="causeway-e2e-"))
        self.children = []
        self.out = self.directory / "run"
        (self.directory / "text").write_text(self.make_text())
        (self.directory / "wan.toml").write_text(self.make_wan())

    def tearDown(self):
        told = self._outcome.result
        logs_missing = [test for test, text in told.failures + told.errors if "\n--- " not in text]  # finish() adds them itself
        if any(test is self for test in logs_missing):
            print(self.logs(), file=sys.stderr)
        for child in self.children:
            if child.poll() is None:
                child.kill()
            child.wait()
        if os.environ.get("CAUSEWAY_KEEP"):
            print("kept:", self.directory)
        else:
            shutil.rmtree(self.directory, ignore_errors=True)

    @staticmethod
    def make_text():
        chance = random.Random(3)
        words = "the king of the land went up to the city and all the people saw him there".split()
        return " ".join(chance.choice(words) for _ in range(20_000))

    def add_events(self, *events):
        """To the scenario: one TOML table each, without its header."""
        with open(self.directory / "wan.toml", "a") as file:
            for event in events:
                file.write("[[event]]\n" + event.replace("; ", "\n") + "\n")

    @staticmethod
    def make_wan():
        return ('name = "e2e"\nseed = 1\nregions = ["us-east", "eu-west", "ap-northeast"]\n'
                "[defaults]\nrtt_ms = 8\nrate_mbit_s = 200\n")

    def config(self, workers=(1, 1, 1), addresses=None, name="config.toml", **settings):
        values = dict(family="gpt2", steps=40, k=5, exchange="full", text=self.directory / "text",
                      wan=self.directory / "wan.toml", certificates=self.directory / "certificates",
                      **SPARSE)
        values.update(settings)
        text = CONFIG.format(**values)
        for region, count in zip(REGIONS, workers):
            text += f'[[regions]]\nname = "{region}"\nworkers = {count}\n'
            if addresses:
                text += f'listen = "{addresses[region]}"\nadvertise = "{addresses[region]}"\n'
        path = self.directory / name
        path.write_text(text)
        return path

    def start(self, *arguments, env=None):
        return self.start_program(CAUSEWAY, *arguments, env={"OMP_NUM_THREADS": "1", **(env or {})})

    def start_program(self, *arguments, env=None):
        """What it prints goes to a file: nobody reads a pipe while the test looks elsewhere, and a full one stops the program."""
        path = self.directory / f"{pathlib.Path(arguments[0]).name}-{len(self.children)}.log"
        with open(path, "w") as log:
            child = subprocess.Popen([*map(str, arguments)], stdout=log, stderr=subprocess.STDOUT, cwd=self.directory,
                                     env={**os.environ, **(env or {})})
        child.log = path
        self.children.append(child)
        return child

    def start_unread(self, redirections, *arguments):
        """`redirections` of its outputs lead to >(true), a pipe whose reader is gone."""
        words = shlex.join(map(str, (CAUSEWAY, *arguments)))
        return self.start_program("bash", "-c", f"exec {words} {redirections}", env={"OMP_NUM_THREADS": "1"})

    def finish(self, child, code=0):
        """Waits for the end, checks the exit code, returns what it printed."""
        try:
            child.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{child.log.name}: still running after {DEADLINE_S} s{self.logs()}") from None
        self.assertEqual(child.returncode, code, child.log.name + self.logs())
        return child.log.read_text(errors="replace")

    def run_causeway(self, *arguments, code=0):
        return self.finish(self.start(*arguments), code)

    def simulate(self, config, *more, code=0):
        self.run_causeway("simulate", config, "--out", self.out, *more, code=code)
        return read_json(self.out / "summary.json")

    def simulate_through_a_kill(self, config, region="eu-west"):
        """All processes of a region are killed after three rounds. The summary of the whole run."""
        child = self.start("simulate", config, "--out", self.out, "--no-baseline")
        wait_until(lambda: self.status(region).get("version", 0) >= 3, "three rounds", child)
        kill(processes(str(self.out / "regions" / region)))
        self.finish(child)
        summary = read_json(self.out / "summary.json")
        self.assert_identical(summary)
        self.assertEqual(summary["rounds"], 80)
        return summary

    def status(self, region):
        return read_json(self.out / "regions" / region / "status.json")

    def events_of(self, region):
        """The finished lines of its events.jsonl."""
        path = self.out / "regions" / region / "events.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def rounds_of(self, region):
        """Those of these that tell of an applied round."""
        return [event for event in self.events_of(region) if "participants" in event]

    def logs(self):
        # Not by rglob(): processes may remove directories meanwhile.
        logs = [pathlib.Path(place, file) for place, _, files in os.walk(self.directory) for file in files if file.endswith(".log")]
        text = ""
        for path in sorted(logs):
            tail = path.read_text(errors="replace").splitlines()[-15:]
            text += f"\n--- {path.relative_to(self.directory)}\n" + "\n".join(tail)
        return text

    def assert_identical(self, summary):
        self.assertTrue(summary["identical"], summary)
        self.assert_same_and_trained(summary["regions"])

    def assert_same_and_trained(self, regions):
        """Equal bits alone say nothing: a region that never trained adopts those of the others."""
        self.assertEqual(len({region["params_digest"] for region in regions}), 1, regions)
        self.assertTrue(all(region["steps"] > 0 for region in regions), regions)
