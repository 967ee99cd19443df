"""What starting, rounds and saving cost a worker besides its steps, next to copies of the same bytes on the same machine.

    python3 bench/outer_round.py PATH/TO/causeway [--millions 300] [--rounds 3] [--set key=value]...

One region, timed steps, no WAN. Times are wall clock; CPU seconds are the worker's, all threads, and count where other work runs beside it.
"""
import argparse
import ctypes
import datetime
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time

from one_region import SHAPES, disk_rate, write_config

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def config(directory, millions, rounds):
    return write_config(directory, "outer-round", millions, steps=2 * rounds, k=2, timed_step_ms=1, checkpoint_rounds=rounds)


def copy_rate():
    """Bytes read per CPU second of one core's memmove of 256 MiB, the best of five; as many are written."""
    size = 256 << 20
    source, target = ctypes.create_string_buffer(size), ctypes.create_string_buffer(size)
    best = 1e9
    for _ in range(6):
        began = time.process_time()
        ctypes.memmove(target, source, size)
        best = min(best, time.process_time() - began)
    return size / best


class Watch:
    """Wall clock and the worker's CPU seconds at each event of its logs."""

    def __init__(self, region):
        self.region, self.marks, self.seen = region, [], set()

    def pid(self):
        for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = entry.read_bytes().decode().split("\0")
            except OSError:
                continue
            if "worker" in words and str(self.region.parent.parent / "config.toml") in words:
                return int(entry.parent.name)
        return None

    def look(self, pid):
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        cpu_s = (int(stat[11]) + int(stat[12])) / TICKS_PER_S
        for name in ("worker-0.log", "coordinator.log"):
            file = self.region / name
            for line in file.read_text().splitlines() if file.exists() else ():
                what = next((w for w in ("memory: at most", "workers attached", "applied", "the run is complete") if w in line), None)
                if what is None or line in self.seen or (what == "applied" and name != "worker-0.log"):
                    continue
                self.seen.add(line)
                at = datetime.datetime.fromisoformat(line.split()[0]).timestamp()
                self.marks.append((what, at, cpu_s))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("causeway")
    parser.add_argument("--millions", type=int, default=300, choices=SHAPES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[])
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        region = directory / "run" / "regions" / "r0"
        more = [word for setting in flags.set for word in ("--set", setting)]
        run = subprocess.Popen([flags.causeway, "simulate", config(directory, flags.millions, flags.rounds), "--wan", "none", "--no-baseline",
                                "--out", directory / "run", "--sample-tokens", "0", *more], stdout=subprocess.DEVNULL)
        watch, pid = Watch(region), None
        while run.poll() is None:
            pid = pid or watch.pid()
            try:
                watch.look(pid)
            except (OSError, TypeError):
                pass
            time.sleep(0.02)
        if run.returncode != 0:
            raise SystemExit(f"the run ended with {run.returncode}")
        result = json.loads((region / "result.json").read_text())
        printed = re.search(r"memory: at most ([0-9,]+) MiB", (region / "worker-0.log").read_text())[1]
        # One may have two names. The finished model, a directory, is no part of what is saved.
        files = {file.stat().st_ino: file.stat() for file in (region / "checkpoints").iterdir() if file.is_file()}.values()
        saved_bytes = sum(file.st_size for file in files)
        show(watch.marks, result, int(printed.replace(",", "")), saved_bytes, max(file.st_ctime for file in files), disk_rate(directory, saved_bytes), flags)


def show(marks, result, printed_mib, saved_bytes, saved_at, disk_rate, flags):
    at = {what: [(t, cpu) for w, t, cpu in marks if w == what] for what in {m[0] for m in marks}}
    begin, attached, rounds = at["memory: at most"][0], at["workers attached"][0], at["applied"]
    layers, width, _ = SHAPES[flags.millions]
    span = 4 * (layers * (4 * width**2 + 3 * width * ((8 * width // 3 + 63) // 64 * 64)) + 2 * 2560 * width)
    rate = copy_rate()
    print(f"{span / 4e6:.0f} million parameters, a span is {span / 1e9:.2f} GB; one core copies {rate / 1e9:.1f} GB per CPU second")
    print(f"memory: {printed_mib} MiB printed, {result['memory_peak_bytes'] / 2**20:.0f} at the peak")
    print(f"start: {attached[0] - begin[0]:.1f} s, {attached[1] - begin[1]:.1f} s of CPU = {(attached[1] - begin[1]) * rate / span:.1f} copies of a span")
    for before, after in zip(rounds, rounds[1:]):
        cpu_s = after[1] - before[1]
        print(f"round: {after[0] - before[0]:.1f} s, {cpu_s:.2f} s of CPU with two steps = {cpu_s * rate / span:.1f} copies of a span")
    print(f"saved {saved_bytes / 1e9:.1f} GB, the last of it {saved_at - rounds[-1][0]:.2f} s after the last round; the disk takes {disk_rate / 1e9:.2f} GB/s")


if __name__ == "__main__":
    main()
