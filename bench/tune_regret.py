"""How much longer a run takes with what `causeway tune --calibrate` recommends than with the best of its choices.

    python3 bench/tune_regret.py PATH/TO/causeway PATH/TO/bench_trial RESULTS.jsonl --data FILE... [--calibrate 200] [--jobs 2]
    python3 bench/tune_regret.py --report RESULTS.jsonl

For every text, configs/overlap.toml with four regions: a tuning for each of LINKS, then whole runs of the choices that it holds for good (bench/trial.cc,
with a seed that no calibration has), of 360, 720 and 1,440 steps. From these follows in how many steps a choice reaches the loss of the
configuration as it is, and, with the time of a round that the tuning predicts (bench/tune_accuracy.py measures that), in what time.
Resumable: what is in RESULTS.jsonl is not done again.
"""
import argparse
import concurrent.futures
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import learning

LINKS = {"10 Mbit/s, 100 ms": (10, 100), "100 Mbit/s, 200 ms": (100, 200), "2 Mbit/s, 50 ms": (2, 50)}
REGIONS = [f"r{i}" for i in range(4)]
STEP_MS = 10
LENGTHS = [360, 720, 1440]
SEED = 101
OWN = {"inner": "adamw", "codec": "dense:int8,block=128", "variant": "synchronous", "k": 30}


def config(directory, data):
    text = pathlib.Path("configs/overlap.toml").read_text()
    text = text[:text.index("[[regions]]")].replace("data/kjv.txt", data).replace("steps = 2100", f"steps = {LENGTHS[-1]}")
    path = directory / "regret.toml"
    path.write_text(text + "".join(f'[[regions]]\nname = "{name}"\n' for name in REGIONS))
    return path


def tune(causeway, data, links, calibrate, cache):
    rate, rtt = LINKS[links]
    with tempfile.TemporaryDirectory() as temporary:
        directory = pathlib.Path(temporary)
        profile = directory / "links.toml"
        profile.write_text(f"regions = {REGIONS}\n[defaults]\nrtt_ms = {rtt}\nrate_mbit_s = {rate}\n")
        command = [causeway, "tune", config(directory, data), "--links", profile, "--step-ms", str(STEP_MS), "--cache", cache, "--json",
                   "--variant", "synchronous", "--variant", "eager"] + (["--calibrate", str(calibrate)] if calibrate else [])
        for codec in [OWN["codec"], "dense:2bit", "topk:k=128,chunk=4096,value=2bit,index=rice"]:
            command += ["--codec", codec]
        for setting in learning.INT8:
            command += ["--set", setting]
        done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:
        sys.exit(done.stderr)
    told = json.loads(done.stdout)
    return {"data": data, "links": links, "rows": [choice(row) | {"time_s": row["predicted_time_to_loss_s"], "round_s": row["predicted_round_s"]}
                                                   for row in told["rows"]],
            "recommended": choice(told["recommended"]), "confidence": told["confidence"], "seeds": told["calibration_seeds"]}


def choice(row):
    return {"inner": row["inner_optimizer"] or "adamw"} | {name: row[name] for name in OWN if name != "inner"}


def named(one):
    return json.dumps(one, sort_keys=True)


def candidates(tunings, best=5):
    """Of every tuning what it recommends, its `best` choices, and the best of each inner optimizer, codec and variant."""
    found = {named(OWN): OWN}
    for tuning in tunings:
        rows = sorted(tuning["rows"], key=lambda row: row["time_s"])
        kinds = set()
        for place, row in enumerate(rows):
            kind = row["inner"], row["codec"], row["variant"]
            if place < best or kind not in kinds or choice_of(row) == tuning["recommended"]:
                found[named(choice_of(row))] = choice_of(row)
            kinds.add(kind)
    return list(found.values())


def choice_of(row):
    return {name: row[name] for name in OWN}


def settings_of(one, steps, data):
    settings = learning.INNER[one["inner"]] + learning.codec(one["codec"], feedback=one["codec"] != OWN["codec"])
    settings += [f"run.seed={SEED}", f"train.k={one['k']}", f"train.steps={steps}", f"sync.variant='{one['variant']}'", f"data.files=['{data}']"]
    return settings


def lengths(one):
    """In whole rounds."""
    return sorted({one["k"] * round(steps / one["k"]) for steps in LENGTHS} - {0})


def train(trial, data, one, steps):
    with tempfile.TemporaryDirectory() as temporary:
        command = [trial, "rounds", config(pathlib.Path(temporary), data)] + settings_of(one, steps, data)
        done = subprocess.run(command, capture_output=True, text=True, env=learning.os.environ | {"OMP_NUM_THREADS": "1"})
    loss = json.loads(done.stdout)["loss"] if done.returncode == 0 else None
    if loss is None:
        print(named(one), done.stderr, file=sys.stderr)
    return {"data": data, "choice": one, "steps": steps, "loss": loss}


def keep(path, row):
    with path.open("a") as out:
        out.write(json.dumps(row) + "\n")


def measure(arguments):
    results, known = pathlib.Path(arguments.results), learning.read(pathlib.Path(arguments.results))
    with tempfile.TemporaryDirectory() as cache, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        def one_text(data):
            tunings = [row for row in known if row["data"] == data and "rows" in row]
            missing = [links for links in LINKS if all(row["links"] != links for row in tunings)]
            for links in missing:  # the first one calibrates, for all
                budget = arguments.calibrate if links == missing[0] else 0
                tunings.append(tune(arguments.causeway, data, links, budget, pathlib.Path(cache) / pathlib.Path(data).stem))
                keep(results, tunings[-1])
            done = {(named(row["choice"]), row["steps"]) for row in known if row["data"] == data and "choice" in row}
            return [pool.submit(train, arguments.trial, data, one, steps) for one in candidates(tunings) for steps in lengths(one)
                    if (named(one), steps) not in done]
        with concurrent.futures.ThreadPoolExecutor(len(arguments.data)) as texts:
            runs = [run for of_text in texts.map(one_text, arguments.data) for run in of_text]
        for run in concurrent.futures.as_completed(runs):
            keep(results, run.result())


def steps_to(target, losses):
    """By lines through the lengths on both sides of it, loss over the logarithm of steps; beyond all lengths, through the two that are nearest."""
    points = sorted(losses.items())
    after = next((place for place in range(1, len(points)) if points[place][1] <= target), len(points) - 1)
    (s1, l1), (s2, l2) = points[after - 1], points[after]
    slope = (l1 - l2) / math.log(s2 / s1)
    return s2 * math.exp((l2 - target) / slope) if slope > 0 else math.inf


def report(path):
    rows = learning.read(path)
    for data in sorted({row["data"] for row in rows}):
        losses = {}
        for row in rows:
            if row["data"] == data and row.get("loss") is not None:
                losses.setdefault(named(row["choice"]), {})[row["steps"]] = row["loss"]
        losses = {name: trained for name, trained in losses.items() if len(trained) > 1 and len(trained) == len(lengths(json.loads(name)))}
        if named(OWN) not in losses:
            continue
        target = losses[named(OWN)][max(losses[named(OWN)])]
        for tuning in (row for row in rows if row["data"] == data and "rows" in row):
            times = {named(choice_of(row)): row["round_s"] * steps_to(target, losses[named(choice_of(row))]) / row["k"]
                     for row in tuning["rows"] if named(choice_of(row)) in losses}
            chosen, best = named(tuning["recommended"]), min(times, key=times.get)
            regret = f"{100 * (times[chosen] / times[best] - 1):.1f} %" if chosen in times else "not run"
            print(f"{data}, {tuning['links']} ({len(times)} choices, {tuning['confidence']} confidence): regret {regret}; as configured "
                  f"{times.get(named(OWN), math.nan):.0f} s, recommended {times.get(chosen, math.nan):.0f} s {chosen}, best {times[best]:.0f} s {best}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", metavar="RESULTS")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="causeway, bench_trial, and the results' file")
    parser.add_argument("--data", nargs="+", default=["data/kjv.txt"])
    parser.add_argument("--calibrate", type=float, default=200)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    if arguments.report:
        return report(pathlib.Path(arguments.report))
    if len(arguments.programs) != 3:
        parser.error("which causeway, which bench_trial, and which file of results?")
    arguments.causeway, arguments.trial, arguments.results = arguments.programs
    measure(arguments)


if __name__ == "__main__":
    sys.exit(main())
