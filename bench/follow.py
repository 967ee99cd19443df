#!/usr/bin/env python3
"""What following costs and how far behind it is: `causeway follow` beside a run of three regions on one box.

  follow.py bytes OUT       bytes that a follower receives for a version by payloads and by patches, dense and sparse rounds, against the
                            whole model as bf16, and its memory
  follow.py behind OUT      seconds from a region's having applied a round to the follower's having published it, both ways, by way of links
                            of 10 and 100 Mbit/s (`causeway wan-sim`) and of loopback
  follow.py rounds OUT      rounds/s of the run with 0, 1, 8 and 32 followers

CAUSEWAY names the program (default: build-release/apps/causeway). --width makes the model larger or smaller.
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import re
import signal
import socket
import statistics
import subprocess
import time

CAUSEWAY = os.environ.get("CAUSEWAY", "build-release/apps/causeway")
REGIONS = ("us-east", "eu-west", "ap-northeast")
CODECS = {"dense int8": ("dense:int8,block=128", "nesterov", 0.6),
          "sparse 2 bits": ("topk:k=64,chunk=4096,value=2bit,index=elias-fano", "sgd", 1.0)}

WAYS = {"payloads": ("--by", "payloads"), "patches": ("--by", "patches"), "patches, every 10th": ("--by", "patches", "--every", "10")}

CONFIG = """
[run]
name = "follow"
seed = 7
[model]
layers = 4
width = {width}
heads = 4
context = 32
[data]
files = ["{text}"]
[train]
batch = 2
steps = 120000000
k = {k}
timed_step_ms = {step_ms}
checkpoint_rounds = 1
validation_sequences = 16
[inner]
lr = 1e-3
[outer]
optimizer = "{optimizer}"
lr = {lr}
[codec]
matrix = "{codec}"
[certificates]
directory = "{certificates}"
"""


def free_port():
    while True:
        port = random.randrange(10_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def read_json(path):
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}


class Run:
    """Three regions on loopback, and programs beside them; all end with the `with` block."""

    def __init__(self, out, codec, width, k, step_ms):
        self.out = out
        out.mkdir(parents=True)
        self.children = []
        chance = random.Random(3)
        (out / "text").write_text(" ".join(chance.choice("the king of the land went up to all people".split()) for _ in range(20_000)))
        matrix, optimizer, lr = CODECS[codec]
        text = CONFIG.format(width=width, k=k, step_ms=step_ms, text=out / "text", codec=matrix, optimizer=optimizer, lr=lr,
                             certificates=out / "certificates")
        self.addresses = {region: f"127.0.0.1:{free_port()}" for region in REGIONS}
        for region, address in self.addresses.items():
            text += f'[[regions]]\nname = "{region}"\nlisten = "{address}"\nadvertise = "{address}"\n'
        self.config = out / "config.toml"
        self.config.write_text(text)
        self.causeway("certs", "--directory", out / "certificates", "init")
        self.causeway("certs", "--directory", out / "certificates", "add-region", *REGIONS)
        for region in REGIONS:
            self.start("coordinator", self.config, "--region", region, "--auto", "--directory", out / region)
            self.start("worker", self.config, "--region", region, "--directory", out / region)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for child in self.children:
            child.send_signal(signal.SIGKILL)
        for child in self.children:
            child.wait()

    def causeway(self, *arguments):
        subprocess.run([CAUSEWAY, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)

    def start(self, *arguments):
        with open(self.out / f"{len(self.children)}.log", "w") as log:
            child = subprocess.Popen([CAUSEWAY, *map(str, arguments)], stdout=log, stderr=log,
                                     env={**os.environ, "OMP_NUM_THREADS": "1"})
        self.children.append(child)
        return child

    def follow(self, name, *flags):
        if not (self.out / "certificates" / f"{name}.crt").exists():
            self.causeway("certs", "--directory", self.out / "certificates", "add-follower", name)
        return self.start("follow", self.config, "--as", name, "--directory", self.out / name, *flags)

    def version(self):
        return read_json(self.out / REGIONS[0] / "status.json").get("version", 0)

    def published(self, name):
        return read_json(self.out / name / "current.json").get("version", 0)

    def wait(self, condition, what):
        end = time.monotonic() + 300
        while not condition():
            if time.monotonic() > end:
                raise SystemExit(f"waited for {what} in vain; logs are in {self.out}")
            time.sleep(0.01)


def figures(port):
    """Of a follower's /metrics."""
    with socket.create_connection(("127.0.0.1", port)) as http:
        http.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        text = b"".join(iter(lambda: http.recv(65536), b"")).decode()
    return dict((name, float(value)) for name, value in re.findall(r"^causeway_follower_(\w+) (\S+)$", text, re.M))


def peak_bytes(child):
    status = pathlib.Path(f"/proc/{child.pid}/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\s+(\d+)", status)[1])


def measure_bytes(options):
    print("| rounds | by | model as bf16 | bytes of a version | of the model | rounds in a version | peak memory |\n|---|---|---|---|---|---|---|")
    for codec in CODECS:
        for way, flags in WAYS.items():
            with Run(options.out / f"{codec}-{way}".replace(" ", "-"), codec, options.width, options.k, 0) as run:  # real steps
                port = free_port()
                reader = run.follow("reader", "--http", f"127.0.0.1:{port}", *flags)
                run.wait(lambda: run.published("reader") > 0, "the first version")
                first = run.published("reader")
                run.wait(lambda: run.published("reader") > first, "the next one")
                model = (run.out / "reader" / "current" / "model.safetensors").stat().st_size
                before, seen = figures(port), {run.published("reader")}
                while len(seen) <= options.rounds:
                    seen.add(run.published("reader"))
                    time.sleep(0.005)
                after, peak = figures(port), peak_bytes(reader)
            versions = len(seen) - 1
            each = (after["received_bytes_total"] - before["received_bytes_total"]) / versions
            print(f"| {codec} | {way} | {model / 1e6:.2f} MB | {each / 1e3:.1f} kB | {each / model:.4f} | "
                  f"{(max(seen) - min(seen)) / versions:.1f} | {peak / 1e6:.0f} MB |", flush=True)


def applied_at(run):
    """When the first region had applied each version."""
    times = {}
    for line in (run.out / REGIONS[0] / "events.jsonl").read_text().splitlines():
        event = json.loads(line)
        if "event" not in event:
            times[event["round"] + 1] = event["time_unix_s"]
    return times


def link_to(run, rate):
    """Where to dial the first region over a link of that rate; 40 ms of round trip."""
    scenario = run.out / "wan.toml"
    scenario.write_text(f'regions = ["reader", "{REGIONS[0]}"]\n[defaults]\nrate_mbit_s = {rate}\nrtt_ms = 40\n')
    child = run.start("wan-sim", scenario, "--map", f"reader:{REGIONS[0]}={run.addresses[REGIONS[0]]}")
    log = run.out / f"{run.children.index(child)}.log"
    run.wait(lambda: "dial " in log.read_text(), "the WAN")
    return re.search(r"dial (\S+)", log.read_text())[1]


def measure_behind(options):
    print("| rounds | by | link | versions | seconds behind: median | longest | rounds in a version |\n|---|---|---|---|---|---|---|")
    for codec in CODECS:
        for way in ("payloads", "patches"):
            for rate in (10, 100, None):
                name = f"{codec} {way} {rate or 'loopback'}".replace(" ", "-")
                with Run(options.out / name, codec, options.width, options.k, options.step_ms) as run:
                    run.wait(lambda: run.version() >= 1, "the run")
                    link = ("--peer", f"{REGIONS[0]}={link_to(run, rate)}") if rate else ()
                    run.follow("reader", *WAYS[way], *link)
                    run.wait(lambda: run.published("reader") > 0, "the first version")
                    seen, first = {}, run.published("reader")
                    while len(seen) < options.rounds:
                        version = run.published("reader")
                        if version > first and version not in seen:
                            seen[version] = time.time()
                        time.sleep(0.005)
                    times = applied_at(run)
                behind = [at - times[version] for version, at in seen.items() if version in times]
                print(f"| {codec} | {way} | {f'{rate} Mbit/s, 40 ms' if rate else 'loopback'} | {len(behind)} | {statistics.median(behind):.2f} s | "
                      f"{max(behind):.2f} s | {(max(seen) - first) / len(seen):.1f} |", flush=True)


def measure_rounds(options):
    print("| followers | rounds/s of the run |\n|---|---|")
    for turn in range(options.turns):
        for followers in (0, 1, 8, 32):
            with Run(options.out / f"{followers}-{turn}", "sparse 2 bits", options.width, options.k, options.step_ms) as run:
                run.wait(lambda: run.version() >= 3, "the run")
                for number in range(followers):
                    run.follow(f"reader{number}")
                run.wait(lambda: all(run.published(f"reader{number}") > 0 for number in range(followers)), "all followers")
                begin, version = time.monotonic(), run.version()
                time.sleep(options.seconds)
                rate = (run.version() - version) / (time.monotonic() - begin)
            print(f"| {followers} | {rate:.3f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("bytes", "behind", "rounds"))
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--width", type=int, default=128, help="of the model; 4 layers")
    parser.add_argument("--step-ms", type=int, default=100, help="of an inner step; 0: real steps, as patches of steps that compute nothing are empty")
    parser.add_argument("--k", type=int, default=30, help="steps of a round")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30)
    options = parser.parse_args()
    {"bytes": measure_bytes, "behind": measure_behind, "rounds": measure_rounds}[options.what](options)


if __name__ == "__main__":
    main()
