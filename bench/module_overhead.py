"""Seconds of a round, and peak memory, of a region in PyTorch beside one in C++: the same tensors, hardly any work on them.

    build-python/bin/python bench/module_overhead.py CAUSEWAY BENCH_WORKER_ROUNDS [--parameters 100e6] [--rounds 20] [--turns 3]

Turns alternate. CAUSEWAY is the program; the module is that of the Python that runs this.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

CONFIG = """
[run]
name = "overhead"
seed = 1
[train]
steps = {rounds}
k = 1
[outer]
optimizer = "nesterov"
lr = 0.7
momentum = 0.9
[codec]
matrix = "dense:int8,block=128"
[sync]
spool_gib = 64
[[regions]]
name = "here"
[[regions]]
name = "there"
"""
COLUMNS = 1000


def measure(causeway, worker, rounds, scratch):
    """Seconds of a round, the first two left out, and the larger peak of both regions' trainers, in MB."""
    scratch.mkdir()
    config = scratch / "overhead.toml"
    config.write_text(CONFIG.format(rounds=rounds))
    out = scratch / "run"
    subprocess.run([causeway, "simulate", config, "--wan", "none", "--out", out, "--worker", worker], check=True,
                   stdout=subprocess.DEVNULL)
    events = (out / "regions/here/events.jsonl").read_text().splitlines()
    times = [line["time_unix_s"] for line in map(json.loads, events) if "participants" in line]
    peaks = [float(re.search(r"peak (\d+) MB", (out / f"regions/{name}/worker-0.log").read_text())[1])
             for name in ("here", "there")]
    return (times[-1] - times[1]) / (len(times) - 2), max(peaks)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("causeway")
    parser.add_argument("bench_worker_rounds")
    parser.add_argument("--parameters", type=float, default=100e6)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    shape = f"100 {round(given.parameters / 100 / COLUMNS)} {COLUMNS}"
    workers = {"C++": f"{pathlib.Path(given.bench_worker_rounds).resolve()} {shape}",
               "PyTorch": f"{sys.executable} {pathlib.Path(__file__).with_name('worker_rounds_torch.py')} {shape}"}
    measured = {name: [] for name in workers}
    with tempfile.TemporaryDirectory() as scratch:
        for turn in range(given.turns):
            for name, worker in workers.items():
                measured[name].append(measure(given.causeway, worker, given.rounds, pathlib.Path(scratch) / f"{name}{turn}"))
                print(f"{name}: {measured[name][-1][0]:.3f} s per round, peak {measured[name][-1][1]:.0f} MB", flush=True)
    seconds = {name: statistics.median(one for one, _ in turns) for name, turns in measured.items()}
    peaks = {name: max(peak for _, peak in turns) for name, turns in measured.items()}
    print(f"PyTorch / C++: {seconds['PyTorch'] / seconds['C++']:.3f} of the time of a round, "
          f"{peaks['PyTorch'] - peaks['C++']:+.0f} MB")


if __name__ == "__main__":
    main()
