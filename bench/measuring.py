"""How bench/run.py measures: commands, what they need, how figures are read, and limits that no benchmark of ours has beside it."""
import dataclasses
import hashlib
import heapq
import json
import os
import pathlib
import re
import resource
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parents[1]
TIMEOUT_S = 900


class Broken(Exception):
    """A command failed, or did not print what it should."""


class Here:
    """This machine: the programs, and a directory that is fresh for each benchmark."""

    def __init__(self, build, torch_python, scratch=None):
        self.build, self.torch_python, self.scratch = build, torch_python, scratch
        self.cpu_s = 0  # of the last command

    def program(self, name):
        return self.build / ("apps" if name == "causeway" else "bench") / name

    def words(self, command):
        named = {name: str(self.program(name)) for name in programs_in(command)}
        named |= {"python3": sys.executable, "TORCH_PYTHON": self.torch_python}
        return [named.get(word, word.replace("SCRATCH", str(self.scratch)).replace("ROOT", str(ROOT))) for word in shlex.split(command)]

    def run(self, command):
        """What it prints. Raises Broken."""
        before = children_cpu_s()
        try:
            done = subprocess.run(self.words(command), cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise Broken(f"`{command}` did not end in {TIMEOUT_S} s") from None
        self.cpu_s = children_cpu_s() - before
        if done.returncode != 0:
            raise Broken(f"`{command}` ended with {done.returncode}: {(done.stderr.strip().splitlines() or ['it says nothing'])[-1]}")
        return done.stdout


def children_cpu_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def programs_in(command):
    return re.findall(r"(?<!\S)(?:bench_\w+|causeway)(?!\S)", command)


def succeeds(*words):
    return bool(shutil.which(words[0])) and subprocess.run(words, capture_output=True).returncode == 0


NEEDS = {  # whether it is here, and what is said if it is not
    "two cores": (lambda here: len(os.sched_getaffinity(0)) >= 2, "two cores"),
    "root": (lambda here: succeeds("unshare", "--net", "true"), "root, for network namespaces"),
    "iperf3": (lambda here: succeeds("iperf3", "--version"), "iperf3 (Debian: iperf3)"),
    "torch": (lambda here: succeeds(here.torch_python, "-c", "import torch"), "a --torch-python with PyTorch"),
    "module": (lambda here: succeeds(here.torch_python, "-c", "import causeway.torch"), "a --torch-python with PyTorch and our module"),
}


@dataclasses.dataclass(frozen=True)
class Bench:
    """Commands that run one after the other. `read` takes what the last one prints, and the machine, and returns {row: ratio}."""
    commands: tuple[str, ...]
    rows: dict[str, str]  # name: against what
    read: Callable[[str, Here], dict[str, float]]
    needs: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()  # rows of bytes, not of time: a busy machine does not change them

    @property
    def command(self):
        return " && ".join(self.commands)

    @property
    def programs(self):
        return programs_in(self.command)

    def lacks(self, here):
        """What it needs that is not here; empty if nothing."""
        return ", ".join(said for is_here, said in map(NEEDS.get, self.needs) if not is_here(here))

    def measure(self, here):
        """{row: ratio}. Raises Broken."""
        write_inputs(here.scratch)
        for command in self.commands:
            text = here.run(command)
        ratios = self.read(text, here)
        if ratios.keys() != self.rows.keys():
            raise Broken(f"`{self.command}` gave {sorted(ratios)}, not {sorted(self.rows)}")
        return ratios


def write_inputs(scratch, regions=16):
    """The quickstart over a text that is always here, and as a run of many regions with its links."""
    (scratch / "text").write_text("".join(f"In the beginning God created the heaven and the earth {i}\n" for i in range(30_000)))
    quickstart = (ROOT / "configs/quickstart.toml").read_text().replace("data/kjv.txt", str(scratch / "text"))
    (scratch / "quickstart.toml").write_text(quickstart)
    names = [f"r{i}" for i in range(regions)]
    (scratch / "regions.toml").write_text(quickstart.split("[wan]")[0] + "".join(f'[[regions]]\nname = "{name}"\n' for name in names))
    (scratch / "links.toml").write_text(f"regions = {json.dumps(names)}\n[defaults]\nrate_mbit_s = 100\nrtt_ms = 100\n")


def figures(pattern, text):
    """What the groups of each match have, as numbers."""
    found = [[float(group) for group in match.groups()] for match in re.finditer(pattern, text, re.M)]
    if not found:
        raise Broken(f"nothing that was printed is like {pattern!r}")
    return found


def figure(pattern, text):
    return figures(pattern, text)[0][0]


# ---- The machine ----

def cpu_kind(cpuinfo, cores):
    """As the table calls it; `cpuinfo` is the text of /proc/cpuinfo."""
    of = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in reversed(cpuinfo.splitlines()))}
    flags = of.get("flags", "").split()
    vectors = next((name for flag, name in (("amx_tile", "AMX"), ("avx512f", "AVX-512"), ("avx2", "AVX2")) if flag in flags), "SSE")
    family = of.get("cpu family", "")
    zen = {("25", "AVX2"): "Zen 3", ("25", "AVX-512"): "Zen 4", ("26", "AVX-512"): "Zen 5"}.get((family, vectors))
    if of.get("vendor_id") == "AuthenticAMD":
        name = f"AMD {zen}" if zen else f"AMD family {family}, {vectors}"
    elif of.get("vendor_id") == "GenuineIntel":
        name = f"Intel with {vectors}"
    else:
        name = f"{os.uname().machine} {of.get('CPU implementer', '')} {of.get('CPU part', '')}".strip()
    return f"{name}, {cores} core{'s' * (cores != 1)}"


def this_cpu():
    return cpu_kind(pathlib.Path("/proc/cpuinfo").read_text(), len(os.sched_getaffinity(0)))


def machine_cpu_s():
    """Of all programs, and what a hypervisor took. Not of interrupts, which loopback traffic of ours makes too."""
    user, nice, system, _, _, _, _, steal = map(int, pathlib.Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + steal) / os.sysconf("SC_CLK_TCK")


def own_cpu_s():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return children_cpu_s() + used.ru_utime + used.ru_stime


class Others:
    """The share of the machine that other programs take since this was made."""

    def __init__(self):
        self.began = time.monotonic(), machine_cpu_s(), own_cpu_s()

    def share(self):
        wall_s, all_s, own_s = (now - then for now, then in zip((time.monotonic(), machine_cpu_s(), own_cpu_s()), self.began))
        return max(0, (all_s - own_s) / (wall_s * os.cpu_count()))  # ticks of the two are not the same


# ---- Limits ----

def fastest_s(work, clock=time.perf_counter, times=3):
    """Seconds by `clock`, the shortest of a few."""
    spans = []
    for _ in range(times):
        began = clock()
        work()
        spans.append(clock() - began)
    return min(spans)


def events_per_s(clock=time.perf_counter, count=300_000):
    """Of an event queue and nothing else: heapq, with 64 events waiting."""
    queue = [(at, at) for at in range(64)]

    def events():
        for _ in range(count):
            at, flow = queue[0]
            heapq.heapreplace(queue, (at + 64, flow))
    return count / fastest_s(events, clock)


def openssl_sha256_gb_per_s():
    block = bytes(64 << 20)
    return len(block) / fastest_s(lambda: hashlib.sha256(block), time.process_time) * 1e-9


def write_gb_per_s(path, size):
    block = bytes(size)
    try:
        return size / fastest_s(lambda: path.write_bytes(block), times=7) * 1e-9
    finally:
        path.unlink()


def tcp_cpu_s_per_gb(size=1 << 29):
    """Of one connection over loopback, both ends."""
    block, buffer = bytes(1 << 18), bytearray(1 << 18)
    with socket.create_server(("127.0.0.1", 0)) as door, socket.create_connection(door.getsockname()) as near, door.accept()[0] as far:
        def send():
            for _ in range(size // len(block)):
                near.sendall(block)

        began = time.process_time()
        sender = threading.Thread(target=send)
        sender.start()
        left = size
        while left:
            left -= far.recv_into(buffer)
        sender.join()
        return (time.process_time() - began) / (size * 1e-9)
