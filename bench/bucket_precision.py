"""What gradients in bf16 between the workers of a region (train.bucket_precision) cost in validation loss, and save in bytes.

    python3 bench/bucket_precision.py PATH/TO/causeway RESULTS.jsonl [--steps N]
    python3 bench/bucket_precision.py --report RESULTS.jsonl

Resumable: a run whose line is in RESULTS.jsonl is not run again. Every run is `causeway simulate configs/overlap.toml --wan none` with two
regions of two or four workers, fp32 and bf16 with the same seeds: real processes, equal tokens. Each has a network namespace of its own, whose
loopback interface counts what goes between the workers, and between the regions, which is subtracted.
"""
import argparse
import itertools
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

OPTIMIZERS = {"adamw": [], "muon": ["inner.optimizer='muon'", "inner.lr=8e-3"]}
WORKERS = [2, 4]
SEEDS = [1, 2, 3]
PRECISIONS = ["fp32", "bf16"]
DENSE = ["outer.optimizer='nesterov'", "outer.lr=0.7", "outer.momentum=0.6", "codec.feedback=false", "codec.matrix='dense:int8,block=128'",
         "codec.vector='dense:int8,block=128'"]
IN_NAMESPACE = 'ip link set lo up && "$@" > /dev/null && cat /proc/net/dev'
KEY = ("optimizer", "workers", "seed", "precision")


def train(causeway, run, steps):
    settings = DENSE + OPTIMIZERS[run["optimizer"]] + [f"run.seed={run['seed']}", f"train.steps={steps}", f"train.bucket_precision='{run['precision']}'"]
    settings += [f"regions.{name}.workers={run['workers']}" for name in ("us", "eu")]
    with tempfile.TemporaryDirectory() as temporary:
        out = pathlib.Path(temporary) / "run"
        command = ["unshare", "--map-root-user", "--net", "sh", "-c", IN_NAMESPACE, "sh", causeway, "simulate", "configs/overlap.toml", "--wan", "none",
                   "--no-baseline", "--sample-tokens", "0", "--out", out]
        for setting in settings:
            command += ["--set", setting]
        devices = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        summary = json.loads((out / "summary.json").read_text())
    if not summary["identical"] or any(region["steps"] != steps for region in summary["regions"]):
        raise SystemExit(f"{run}: not the same bits, or not all steps")
    received = next(int(line.split()[1]) for line in devices.splitlines() if line.split()[0] == "lo:")
    return {"steps": steps, "val_loss": summary["val_loss"], "in_region_bytes": received - summary["wan_bytes"]}


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def measure(causeway, path, steps):
    done = {tuple(row[name] for name in KEY) for row in read(path)}
    for values in itertools.product(OPTIMIZERS, WORKERS, SEEDS, PRECISIONS):
        if values in done:
            continue
        run = dict(zip(KEY, values))
        row = run | train(causeway, run, steps)
        with path.open("a") as out:
            out.write(json.dumps(row) + "\n")
        print(*values, row["val_loss"], row["in_region_bytes"], flush=True)


def report(path):
    rows = {tuple(row[name] for name in KEY): row for row in read(path)}
    print("| inner optimizer | workers of a region | fp32, seeds 1 to 3 | bf16, seeds 1 to 3 | difference | bytes between workers |")
    print("|---|---|---|---|---|---|")
    for optimizer, workers in itertools.product(OPTIMIZERS, WORKERS):
        pairs = [[rows.get((optimizer, workers, seed, precision)) for precision in PRECISIONS] for seed in SEEDS]
        pairs = [pair for pair in pairs if all(pair)]
        if len(pairs) < 2:
            continue
        losses = [", ".join(f"{pair[i]['val_loss']:.4f}" for pair in pairs) for i in range(2)]
        gaps = [100 * (bf16["val_loss"] / fp32["val_loss"] - 1) for fp32, bf16 in pairs]
        sent = [statistics.mean(pair[i]["in_region_bytes"] for pair in pairs) for i in range(2)]
        print(f"| {optimizer} | {workers} | {losses[0]} | {losses[1]} | {statistics.mean(gaps):+.2f} % +- {statistics.stdev(gaps):.2f} | "
              f"{sent[0] / 1e6:.0f} MB, {sent[1] / 1e6:.0f} MB: {sent[1] / sent[0]:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("causeway", nargs="?")
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    if arguments.report:
        return report(arguments.results)
    if arguments.causeway is None:
        parser.error("which causeway?")
    measure(arguments.causeway, arguments.results, arguments.steps)


if __name__ == "__main__":
    sys.exit(main())
