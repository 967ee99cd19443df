"""Predicted against measured round times: three bandwidths x two round trips x three K x two codecs, on real processes.

    python3 bench/tune_accuracy.py PATH/TO/causeway RESULTS.jsonl [--again] [--report]

Each cell is `causeway tune ... --measure-all`: what it predicts from its own probe, and what real coordinators and workers with
timed steps then take, through the relay. Resumable: a cell that is in RESULTS.jsonl is not run again. --again measures the cells
that are off by more than 10 % once more; the report takes the median of a cell's attempts, and says how many there were.
"""
import argparse
import itertools
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

RATES_MBIT_S = [10, 30, 100]
ROUND_TRIPS_MS = [40, 160]
KS = [10, 25, 60]
CODECS = ["dense:int8,block=128", "topk:k=64,value=2bit"]
STEP_MS = 60
CLOSE = 0.10


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def key(cell):
    return cell["rate_mbit_s"], cell["rtt_ms"], cell["codec"], cell["k"]


def attempts(rows):
    found = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def error(rows):
    return statistics.median(row["predicted_s"] / row["measured_s"] - 1 for row in rows)


def measure(causeway, rate, rtt, codec, ks, directory):
    profile = directory / "links.toml"
    profile.write_text(f"regions = ['us-east', 'eu-west', 'ap-northeast']\n[defaults]\nrtt_ms = {rtt}\nrate_mbit_s = {rate}\n")
    command = [causeway, "tune", "configs/quickstart.toml", "--links", profile, "--codec", codec, "--variant", "synchronous",
               "--measure-all", "--json", "--probe", "2", "--cache", directory / "cache", "--set",
               f"train.timed_step_ms={STEP_MS}"]
    for k in ks:
        command += ["--k", str(k)]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:
        sys.exit(done.stderr)
    for row in json.loads(done.stdout)["rows"]:
        if row["measured_round_s"]:
            yield dict(rate_mbit_s=rate, rtt_ms=rtt, codec=codec, k=row["k"], predicted_s=row["predicted_round_s"],
                       measured_s=row["measured_round_s"])


def run(causeway, results, again):
    for rate, rtt, codec in itertools.product(RATES_MBIT_S, ROUND_TRIPS_MS, CODECS):
        known = attempts(read(results))
        cells = {(rate, rtt, codec, k): k for k in KS}
        ks = [k for cell, k in cells.items() if cell not in known or again and abs(error(known[cell])) > CLOSE]
        if not ks:
            continue
        with tempfile.TemporaryDirectory() as directory:
            for row in measure(causeway, rate, rtt, codec, ks, pathlib.Path(directory)):
                with results.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(row, flush=True)


def report(results):
    known = attempts(read(results))
    print("| Mbit/s | RTT, ms | codec | K | predicted, s | measured, s | error | attempts |\n|---|---|---|---|---|---|---|---|")
    for cell, rows in sorted(known.items()):
        middle = statistics.median(row["measured_s"] for row in rows)
        predicted = statistics.median(row["predicted_s"] for row in rows)
        print(f"| {cell[0]} | {cell[1]} | {cell[2].split(',')[0]} | {cell[3]} | {predicted:.3f} | {middle:.3f} | {100 * error(rows):+.1f} % |"
              f" {len(rows)} |")
    errors = [abs(error(rows)) for rows in known.values()]
    first = [abs(error(rows[:1])) for rows in known.values()]
    print(f"\n{len(errors)} cells, {sum(e <= CLOSE for e in errors)} within {100 * CLOSE:.0f} %, median {100 * statistics.median(errors):.1f} %,"
          f" worst {100 * max(errors):.1f} %; at the first attempt {sum(e <= CLOSE for e in first)} within, worst {100 * max(first):.1f} %")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("causeway")
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    if not arguments.report:
        run(arguments.causeway, arguments.results, arguments.again)
    report(arguments.results)
