#!/usr/bin/env python3
"""What faults cost a run on one box: real processes, real TLS, the relay as WAN.

  faults.py rounds OUT [--rounds 1000]   the same run without faults and with random ones: throughput, divergences, and the
                                         resident memory of every process over time
  faults.py nine OUT                     nine regions, four of which are killed at once: how long until the next commit

An interrupted run goes on where it was. CAUSEWAY names the program (default: build-release/apps/causeway).
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import threading
import time

CAUSEWAY = os.environ.get("CAUSEWAY", "build-release/apps/causeway")

ELECTION_S, GRACE_S = 2, 2  # sync.election_timeout_s, sync.grace_min_s

CONFIG = """
[run]
name = "faults"
seed = 7
[model]
layers = 1
width = 32
heads = 2
context = 32
[data]
files = ["{text}"]
[train]
batch = 2
steps = {steps}
k = 5
checkpoint_rounds = 10
validation_sequences = 16
[inner]
lr = 3e-3
warmup_steps = 5
[outer]
optimizer = "nesterov"
lr = 0.6
[codec]
matrix = "dense:int8,block=128"
[sync]
grace_min_s = {grace}
election_timeout_s = {election}
[wan]
profile = "{wan}"
"""


def write_inputs(directory, regions, rounds, events):
    directory.mkdir(parents=True, exist_ok=True)
    chance = random.Random(3)
    words = "the king of the land went up to the city and all the people saw him there".split()
    (directory / "text").write_text(" ".join(chance.choice(words) for _ in range(20_000)))
    names = json.dumps(regions)
    wan = f'name = "faults"\nseed = 1\nregions = {names}\n[defaults]\nrtt_ms = 8\nrate_mbit_s = 200\n'
    (directory / "wan.toml").write_text(wan + "".join(f"[[event]]\n{event}\n" for event in events))
    config = CONFIG.format(text=directory / "text", steps=5 * rounds, wan=directory / "wan.toml", grace=GRACE_S,
                           election=ELECTION_S)
    config += "".join(f'[[regions]]\nname = "{region}"\n' for region in regions)
    (directory / "config.toml").write_text(config)


def random_events(regions, seconds, seed):
    """A fault every two seconds or so. The first region's processes are spared: their memory has the whole run to grow."""
    chance = random.Random(seed)
    events, at = [], 3.0
    while at < seconds:
        a, b = chance.sample(regions, 2)
        victim = chance.choice(regions[1:])
        role = chance.choice(["any", "coordinator", "worker"])
        length = round(chance.uniform(0.3, 3), 1)
        process = f'region = "{victim}"\nrole = "{role}"'
        events.append(f"at_s = {at:.1f}\n" + chance.choice([
            f'process = "restart"\n{process}',
            f'process = "kill"\n{process}\nfor_s = {length}',
            f'process = "pause"\n{process}\nfor_s = {length}',
            f'fault = "black-hole"\npair = ["{a}", "{b}"]\nfor_s = {length}',
            f'fault = "black-hole"\nlink = ["{a}", "{b}"]\nfor_s = {length}',
            f'fault = "reset"\npair = ["{a}", "{b}"]',
            f'fault = "refuse"\npair = ["{a}", "{b}"]\nfor_s = {length}',
            f'rate_mbit_s = 2\npair = ["{a}", "{b}"]\nfor_s = {length}',
            f'fault = "corrupt"\nlink = ["{a}", "{b}"]\nafter_bytes = {chance.randrange(100_000)}',
            f'fault = "kill-after"\nlink = ["{a}", "{b}"]\nafter_bytes = {chance.randrange(100_000)}',
        ]))
        at += chance.uniform(1, 3)
    return events


class Memory:
    """Resident memory of the run's processes, once a second."""

    def __init__(self, out):
        self.out, self.samples, self.ended = str(out), {}, threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self):
        while not self.ended.wait(1):
            for entry in pathlib.Path("/proc").iterdir():
                if entry.name.isdigit():
                    self.look_at(entry)

    def look_at(self, entry):
        try:
            words = (entry / "cmdline").read_bytes().decode().split("\0")
            if len(words) < 5 or words[1] not in ("coordinator", "worker") or not words[2].startswith(self.out):
                return
            kib = int(next(line for line in (entry / "status").read_text().splitlines()
                           if line.startswith("VmRSS")).split()[1])
        except (OSError, StopIteration):
            return
        region = words[words.index("--region") + 1]
        self.samples.setdefault((region, words[1], int(entry.name)), []).append((time.monotonic(), kib))

    def stop(self):
        self.ended.set()
        self.thread.join()

    def growth(self, life_min_s):
        """Per process that lived so long: MiB in its second fifth and in its last one."""
        rows = []
        for (region, role, _), samples in sorted(self.samples.items()):
            life = samples[-1][0] - samples[0][0]
            if life < life_min_s:
                continue
            fifth = max(1, len(samples) // 5)
            early = statistics.median(kib for _, kib in samples[fifth:2 * fifth]) / 1024
            late = statistics.median(kib for _, kib in samples[-fifth:]) / 1024
            rows.append({"process": f"{region} {role}", "life_s": round(life), "early_mib": round(early, 2),
                         "late_mib": round(late, 2), "growth": round(late / early - 1, 4)})
        return rows


def commits(out, regions):
    """{round: when the first of the regions had applied it}."""
    first = {}
    for region in regions:
        for line in (out / "regions" / region / "events.jsonl").read_text().splitlines():
            event = json.loads(line)
            if "participants" in event:
                first[event["round"]] = min(first.get(event["round"], float("inf")), event["time_unix_s"])
    return first


def gaps_of(times):
    order = [times[key] for key in sorted(times)]
    return order, [b - a for a, b in zip(order, order[1:])]


def stalls(out):
    """Where a run with faults loses its time: rounds that took three times the median and more."""
    _, gaps = gaps_of(commits(out, ["us-east"]))
    median = statistics.median(gaps)
    long = sorted((gap for gap in gaps if gap > 3 * median), reverse=True)
    return {"median_s": round(median, 3), "count": len(long), "seconds": round(sum(gap - median for gap in long), 1),
            "longest_s": [round(gap, 1) for gap in long[:5]]}


def simulate(directory, resume):
    out = directory / "run"
    memory = Memory(out)
    try:
        done = subprocess.run([CAUSEWAY, "simulate", str(directory / "config.toml"), "--out", str(out), "--no-baseline",
                               "--sample-tokens", "0", *(["--resume"] if resume else [])],
                              stdout=open(directory / "log", "a"), stderr=subprocess.STDOUT, check=False)
    finally:
        memory.stop()
    if done.returncode != 0:
        sys.exit(f"simulate ended with {done.returncode}; see {directory / 'log'}")
    return json.loads((out / "summary.json").read_text()), memory


def run_rounds(directory, name, rounds, events):
    result = directory / f"{name}.json"
    if result.exists():
        return json.loads(result.read_text())
    here = directory / name
    resume = (here / "run").exists()
    if not resume:
        write_inputs(here, ["us-east", "eu-west", "ap-northeast"], rounds, events)
    summary, memory = simulate(here, resume)
    found = {"rounds": summary["rounds"], "wall_s": summary["wall_s"], "rounds_per_s": summary["rounds"] / summary["wall_s"],
             "identical": summary["identical"], "restarts": summary["restarts"], "events": len(events),
             "stalls": stalls(here / "run"), "memory": memory.growth(summary["wall_s"] / 2)}
    result.write_text(json.dumps(found, indent=1))
    return found


def rounds_command(directory, rounds, seed):
    quiet = run_rounds(directory, "quiet", rounds, [])
    # As long as the run with faults may take, ten times the quiet one at most.
    regions = ["us-east", "eu-west", "ap-northeast"]
    faulty = run_rounds(directory, "faulty", rounds, random_events(regions, 10 * quiet["wall_s"], seed))
    for name, found in (("quiet", quiet), ("faulty", faulty)):
        print(f"{name}: {found['rounds']} rounds in {found['wall_s']:.0f} s, {found['rounds_per_s']:.2f} rounds/s, "
              f"{found['restarts']} restarts, identical {found['identical']}")
        lost = found["stalls"]
        print(f"  a round takes {lost['median_s']} s (median); {lost['count']} of more than three times that cost "
              f"{lost['seconds']} s in all, the longest took {lost['longest_s']} s")
        for row in found["memory"]:
            print(f"  {row['process']}: {row['early_mib']} -> {row['late_mib']} MiB ({100 * row['growth']:+.1f} %) "
                  f"in {row['life_s']} s")
    print(f"throughput with faults: {faulty['rounds_per_s'] / quiet['rounds_per_s']:.2f} of without")


def nine_command(directory, rounds, seconds, trials):
    regions = [f"r{i}" for i in range(1, 10)]
    for trial in range(trials):
        here = directory / f"nine-{trial}"
        if not (here / "gap.json").exists():
            lost = random.Random(trial).sample(regions, 4)
            write_inputs(here, regions, rounds,
                         [f'at_s = {seconds}\nfor_s = 20\nprocess = "kill"\nregion = "{region}"' for region in lost])
            began = time.time()
            summary, _ = simulate(here, False)
            times = commits(here / "run", [region for region in regions if region not in lost])
            order, gaps = gaps_of(times)
            after = next((i for i, at in enumerate(order) if at > began + seconds), None)
            if after is None:
                sys.exit(f"{rounds} rounds were over within {seconds} s, before the loss: give more --rounds")
            # The kill falls into one of the gaps around its time.
            found = {"lost": lost, "gap_s": max(gaps[max(0, after - 3):after + 3]), "median_gap_s": statistics.median(gaps),
                     "identical": summary["identical"], "rounds": summary["rounds"]}
            (here / "gap.json").write_text(json.dumps(found))
        found = json.loads((here / "gap.json").read_text())
        # Noticing and electing, waiting once for the lost regions, and the round itself.
        bound = 2 * ELECTION_S + GRACE_S + found["median_gap_s"]
        print(f"nine regions lose {', '.join(found['lost'])}: {found['gap_s']:.2f} s between commits around the loss, "
              f"bound {bound:.2f} s {'met' if found['gap_s'] <= bound else 'MISSED'} (median {found['median_gap_s']:.2f} s), "
              f"identical {found['identical']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["rounds", "nine"])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, help="default: 1000, of nine 300")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trials", type=int, default=6)
    parser.add_argument("--at", type=float, default=12, help="nine: seconds until the loss")
    flags = parser.parse_args()
    flags.out.mkdir(parents=True, exist_ok=True)
    if flags.what == "rounds":
        rounds_command(flags.out.resolve(), flags.rounds or 1000, flags.seed)
    else:
        nine_command(flags.out.resolve(), flags.rounds or 300, flags.at, flags.trials)


if __name__ == "__main__":
    main()
