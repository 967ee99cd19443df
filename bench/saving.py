"""For how long saving stops the steps, what it writes, and how fast beside what else is written to the same disk.

    python3 bench/saving.py PATH/TO/causeway [--millions 50] [--k 8] [--rounds 4] [--save-rounds 2] [--timed-ms 0] [--set key=value]...

One region with one worker, no WAN, small steps of the real model (or timed ones), AdamW, error feedback. A save is that of a state; with those
after an outer step goes a snapshot. Give two programs to compare them in turn: they run one after the other, --turns times.
"""
import argparse
import datetime
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from one_region import SHAPES, disk_rate, write_config


def worker_of(config):
    for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().decode().split("\0")
        except OSError:
            continue
        if "worker" in words and str(config) in words:
            return entry.parent
    return None


class Watch:
    """New files of a name, in the order in which they came: (name, when it was there, bytes)."""

    def __init__(self, region):
        self.files = [region / "checkpoints" / name for name in ("state.safetensors", "snapshot.safetensors")]
        self.seen, self.came = set(), []
        self.written = 0  # by the worker, as the kernel counts what goes to disks

    def look(self, process):
        for file in self.files:
            try:
                found = file.stat()
            except OSError:
                continue
            if (found.st_ino, found.st_mtime_ns) in self.seen:
                continue
            self.seen.add((found.st_ino, found.st_mtime_ns))
            self.came.append((file.stem, time.time(), found.st_size))
        try:
            self.written = int(re.search(r"write_bytes: (\d+)", (process / "io").read_text())[1])
        except (OSError, TypeError):
            pass


def applied(log):
    return [datetime.datetime.fromisoformat(line.split()[0]).timestamp() for line in log.read_text().splitlines() if " applied" in line]


def measure(program, flags):
    with tempfile.TemporaryDirectory(dir=flags.directory) as name:
        directory = pathlib.Path(name)
        region, config = directory / "run" / "regions" / "r0", write_config(
            directory, "saving", flags.millions, steps=flags.k * flags.rounds, k=flags.k, timed_step_ms=flags.timed_ms,
            checkpoint_rounds=flags.save_rounds, batch=flags.batch, codec="feedback = true", spool_gib=32)
        more = [word for setting in flags.set for word in ("--set", setting)]
        command = [program, "simulate", config, "--wan", "none", "--no-baseline", "--out", directory / "run", "--sample-tokens", "0", *more]
        before = disk_rate(directory, flags.disk_mib << 20)
        run = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        watch, process = Watch(region), None
        while run.poll() is None:
            process = process or worker_of(directory / "run" / "config.toml")
            watch.look(process or pathlib.Path("/nowhere"))
            time.sleep(0.01)
        if run.returncode != 0:
            raise SystemExit(f"the run ended with {run.returncode}")
        rate = (before + disk_rate(directory, flags.disk_mib << 20)) / 2
        result = json.loads((region / "result.json").read_text())
        show(program, watch, applied(region / "worker-0.log"), result, rate)


def show(program, watch, rounds, result, rate):
    states = [entry for entry in watch.came if entry[0] == "state"]
    snapshots = [entry for entry in watch.came if entry[0] == "snapshot"]
    print(f"{program}: {len(states)} states of {states[-1][2] / 1e9:.2f} GB, {len(snapshots)} snapshots of {snapshots[-1][2] / 1e9:.2f} GB, "
          f"{watch.written / 1e9:.1f} GB written by the worker; the disk takes {rate / 1e9:.2f} GB/s")
    print(f"  steps stood still for {result['save_s']:.2f} s, {result['save_s'] / len(states):.2f} s a save; the run computed {result['compute_s']:.1f} s, "
          f"waited {result['wait_s']:.1f} s; from the first applied round to the last {rounds[-1] - rounds[0]:.1f} s")
    for snapshot in snapshots:
        begun = max(when for when in rounds if when <= snapshot[1])
        state = next(entry for entry in states if begun <= entry[1] <= snapshot[1])
        both = state[2] + snapshot[2]
        print(f"  after an outer step: all saved after {snapshot[1] - begun:.2f} s, {both / (snapshot[1] - begun) / rate:.2f} of the disk's rate")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+")
    parser.add_argument("--millions", type=int, default=50, choices=SHAPES)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--k", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--save-rounds", type=int, default=2)
    parser.add_argument("--timed-ms", type=int, default=0)
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--disk-mib", type=int, default=2048, help="that are written to measure the disk, before and after")
    parser.add_argument("--directory", help="on the disk to measure; default the temporary one")
    parser.add_argument("--set", action="append", default=[])
    flags = parser.parse_args()
    for _ in range(flags.turns):
        for program in flags.programs:
            measure(program, flags)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
