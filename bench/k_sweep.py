"""The K that `causeway tune` recommends, against a sweep of K on real processes.

    python3 bench/k_sweep.py PATH/TO/causeway RESULTS.jsonl [--report]

Two regions, configs/overlap.toml's model, dense int8, 5 Mbit/s and 80 ms. For each K: the validation losses of whole runs of two
lengths (`simulate --wan none`: real training, whose loss does not depend on the WAN), and what a round takes with labelled timed
steps through the relay (`tune --measure-all`). The steps that a K needs for the loss of lockstep training come from the line through
its two losses over the logarithm of steps; times what a step takes on average, they are its time to that loss. Resumable: what is in
RESULTS.jsonl is not measured again.
"""
import argparse
import json
import math
import pathlib
import subprocess
import tempfile

KS = [8, 16, 32, 64, 128, 256]
STEPS = [2304, 3072]  # multiples of every K; the first is the lockstep run's
STEP_MS = 60
LINKS = "regions = ['us', 'eu']\n[defaults]\nrtt_ms = 80\nrate_mbit_s = 5\n"
CODEC = "dense:int8,block=128"
SETTINGS = ["outer.optimizer=nesterov", "outer.lr=0.7", "outer.momentum=0.6", "codec.feedback=false", f"codec.matrix={CODEC}",
            f"codec.vector={CODEC}"]
CALIBRATION_S = 900


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def flags(*settings):
    return [part for setting in [*SETTINGS, *settings] for part in ("--set", setting)]


def loss(causeway, directory, k, steps):
    """Of the run and, of the lockstep run with K's shortest, of every-step synchronisation."""
    lockstep = k == KS[0] and steps == STEPS[0]
    command = [causeway, "simulate", "configs/overlap.toml", "--wan", "none", "--out", directory / "run",
               *flags(f"train.k={k}", f"train.steps={steps}")]
    subprocess.run(command + ([] if lockstep else ["--no-baseline"]), check=True, stdout=subprocess.DEVNULL)
    summary = json.loads((directory / "run" / "summary.json").read_text())
    return {"val_loss": summary["val_loss"], "lockstep_loss": summary["baseline_val_loss"]}


def tune(causeway, directory, *more):
    links = directory / "links.toml"
    links.write_text(LINKS)
    command = [causeway, "tune", "configs/overlap.toml", "--links", links, "--codec", CODEC, "--variant", "synchronous", "--json",
               "--step-ms", str(STEP_MS), "--cache", directory / "cache", *more, *flags("train.k=32", f"train.steps={STEPS[0]}")]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def round_times(causeway, directory):
    ks = [part for k in KS for part in ("--k", str(k))]
    rows = tune(causeway, directory, *ks, "--measure-all", "--set", f"train.timed_step_ms={STEP_MS}")["rows"]
    return {str(row["k"]): row["measured_round_s"] for row in rows}


def recommendation(causeway, directory):
    tuning = tune(causeway, directory, "--calibrate", str(CALIBRATION_S))
    return {name: tuning[name] for name in ("recommended_k", "interval", "lambda", "lambda_standard_error", "confidence")}


def measurements():
    for k in KS:
        for steps in STEPS:
            yield f"loss, K = {k}, {steps} steps", loss, (k, steps)
    yield "recommendation", recommendation, ()
    yield "round times", round_times, ()


def run(causeway, results):
    done = {row["what"] for row in read(results)}
    for what, measure, arguments in measurements():
        if what in done:
            continue
        with tempfile.TemporaryDirectory() as directory:
            row = {"what": what} | measure(causeway, pathlib.Path(directory), *arguments)
        with results.open("a") as out:
            out.write(json.dumps(row) + "\n")
        print(row, flush=True)


def steps_needed(losses, target):
    (short, long) = (math.log(steps) for steps in STEPS)
    slope = (losses[1] - losses[0]) / (long - short)
    return math.exp(short + (target - losses[0]) / slope)


def report(results):
    rows = {row["what"]: row for row in read(results)}
    lockstep = rows[f"loss, K = {KS[0]}, {STEPS[0]} steps"]["lockstep_loss"]
    times = {}
    print(f"lockstep: {lockstep:.4f} after {STEPS[0]} steps\n")
    print("| K | loss after " + " | after ".join(map(str, STEPS)) + " | steps needed | round, s | time to the loss, s |\n|---|---|---|---|---|---|")
    for k in KS:
        losses = [rows[f"loss, K = {k}, {steps} steps"]["val_loss"] for steps in STEPS]
        needed, took = steps_needed(losses, lockstep), rows["round times"][str(k)]
        times[k] = needed * took / k
        print(f"| {k} | {losses[0]:.4f} | {losses[1]:.4f} | {needed:.0f} | {took:.3f} | {times[k]:.0f} |")
    best = min(times, key=times.get)
    advice = rows["recommendation"]
    k = advice["recommended_k"]
    print(f"\nbest: K = {best}. Recommended: K = {k}, interval {advice['interval']}, lambda {advice['lambda']:.3f} +- "
          f"{advice['lambda_standard_error']:.3f}: {max(k / best, best / k):.2f} x off, time {between(times, k) / times[best]:.3f} of the best")


def between(times, k):
    """On the line between the swept K's around k, over log K."""
    low, high = max(j for j in KS if j <= k), min(j for j in KS if j >= k)
    share = 0 if low == high else math.log(k / low) / math.log(high / low)
    return times[low] * (1 - share) + times[high] * share


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("causeway")
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    if not arguments.report:
        run(arguments.causeway, arguments.results)
    report(arguments.results)
