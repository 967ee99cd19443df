"""Validation loss of the overlap variants, and of Muon inside, at equal tokens, against training synchronised every step.

    python3 bench/overlap_grid.py PATH/TO/causeway RESULTS.jsonl [--minutes N] [--only TEXT]
    python3 bench/overlap_grid.py --report RESULTS.jsonl

Resumable: a run whose line is in RESULTS.jsonl is not run again. Every run is `causeway simulate configs/overlap.toml --wan none`: real
processes, rounds and codecs, no delay; what overlaps is decided by steps, not by time, so that the loss does not depend on the WAN. Per
number of regions one run with its baseline, and one with Muon's; seeds 2 and 3 for each variant's default codec (dense int8) with two
regions at K = 30, and for the synchronous variant and Muon everywhere.
"""
import argparse
import itertools
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

DENSE = ["outer.optimizer='nesterov'", "outer.lr=0.7", "outer.momentum=0.6", "codec.feedback=false"]
CODECS = {
    "int8": DENSE + ["codec.matrix='dense:int8,block=128'", "codec.vector='dense:int8,block=128'"],
    # 128 of 4096; the more regions, the longer the averaged step may be (configs/quickstart.toml).
    "sparse": ["outer.optimizer='sgd'", "codec.matrix='topk:k=128,chunk=4096,value=2bit,index=rice'",
               "codec.vector='dense:1bit'", "codec.feedback_decay=1.0"],
}
VARIANTS = {
    "synchronous": ["sync.variant='synchronous'"],
    "streaming": ["sync.variant='streaming'", "sync.fragments=2", "sync.overlap_steps=5"],
    "eager": ["sync.variant='eager'"],
    "muon": ["sync.variant='synchronous'", "inner.optimizer='muon'", "inner.lr=8e-3"],
}
INNER = ["synchronous", "muon"]  # of which three seeds and their own baselines are wanted everywhere
REGIONS = [2, 4]
KS = [30, 100]


def runs():
    for regions in REGIONS:
        for variant in INNER:
            yield dict(regions=regions, k=30, codec="int8", variant=variant, seed=1, baseline=True)
    for regions, k, codec, variant in itertools.product(REGIONS, KS, CODECS, VARIANTS):
        yield dict(regions=regions, k=k, codec=codec, variant=variant, seed=1, baseline=False)
    for variant, seed in itertools.product(VARIANTS, [2, 3]):
        yield dict(regions=2, k=30, codec="int8", variant=variant, seed=seed, baseline=variant in INNER)
    for regions, k, variant, seed in itertools.product(REGIONS, KS, INNER, [2, 3]):
        if (regions, k) != (2, 30):
            yield dict(regions=regions, k=k, codec="int8", variant=variant, seed=seed, baseline=k == 30)


def key(run):
    return tuple(run[name] for name in ("regions", "k", "codec", "variant", "seed", "baseline"))


def config(run, directory):
    text = pathlib.Path("configs/overlap.toml").read_text()
    text = text[:text.index("[[regions]]")]
    text += "".join(f'[[regions]]\nname = "r{i}"\n' for i in range(run["regions"]))
    path = directory / "overlap.toml"
    path.write_text(text)
    return path


def train(causeway, run):
    settings = [f"run.seed={run['seed']}", f"train.k={run['k']}"] + CODECS[run["codec"]] + VARIANTS[run["variant"]]
    if run["codec"] == "sparse":
        settings.append(f"outer.lr={run['regions'] ** 0.5:.3f}")
    with tempfile.TemporaryDirectory() as temporary:
        directory = pathlib.Path(temporary)
        command = [causeway, "simulate", config(run, directory), "--wan", "none", "--out", directory / "run"]
        command += [] if run["baseline"] else ["--no-baseline"]
        for setting in settings:
            command += ["--set", setting]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        summary = json.loads((directory / "run" / "summary.json").read_text())
    if not summary["identical"]:
        raise SystemExit(f"{run}: the regions do not hold the same bits")
    return {name: summary[name] for name in ("parameters", "rounds", "val_loss", "baseline_val_loss", "wan_bytes")}


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def measure(arguments):
    results = pathlib.Path(arguments.results)
    done = {key(row) for row in read(results)}
    end = time.monotonic() + 60 * arguments.minutes
    for run in runs():
        name = "-".join(str(part) for part in key(run))
        if key(run) in done or arguments.only not in name or time.monotonic() > end:
            continue
        row = run | train(arguments.causeway, run)
        with results.open("a") as out:
            out.write(json.dumps(row) + "\n")
        print(name, row["val_loss"], row["baseline_val_loss"] or "", flush=True)


def report(path):
    rows = read(path)
    baselines, muons = ({(row["regions"], row["seed"]): row["baseline_val_loss"] for row in rows
                         if row["baseline"] and row["variant"] == inner} for inner in INNER)
    print("| regions | K | codec | " + " | ".join(VARIANTS) + " |")
    print("|---|---|---|" + "---|" * len(VARIANTS))
    for regions, k, codec in itertools.product(REGIONS, KS, CODECS):
        cells = []
        for variant in VARIANTS:
            found = [row for row in rows if (row["regions"], row["k"], row["codec"], row["variant"], row["seed"],
                                             row["baseline"]) == (regions, k, codec, variant, 1, False)]
            base = baselines.get((regions, 1))
            cells.append(f"{found[0]['val_loss']:.4f} ({100 * (found[0]['val_loss'] / base - 1):+.2f} %)"
                         if found and base else "-")
        print(f"| {regions} | {k} | {codec} | " + " | ".join(cells) + " |")
    print("baselines:", {f"R={r}, seed {s}": round(loss, 4) for (r, s), loss in baselines.items()})
    print("Muon's:", {f"R={r}, seed {s}": round(loss, 4) for (r, s), loss in muons.items()})
    for regions, k, variant in itertools.product(REGIONS, KS, VARIANTS):
        losses = {row["seed"]: row["val_loss"] for row in rows
                  if (row["regions"], row["k"], row["codec"], row["variant"]) == (regions, k, "int8", variant)}
        cells = [f"{variant}, int8, R={regions}, K={k}"]
        for name, against in (("AdamW", baselines), ("Muon", muons)):
            gaps = [100 * (loss / against[regions, seed] - 1) for seed, loss in losses.items() if (regions, seed) in against]
            if len(gaps) > 1:
                cells.append(f"{statistics.mean(gaps):+.2f} % +- {statistics.stdev(gaps):.2f} against {name} synchronised "
                             f"({len(gaps)} seeds)")
        if len(cells) > 1:
            print(": ".join(cells[:1] + ["; ".join(cells[1:])]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("causeway", nargs="?")
    parser.add_argument("results")
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--only", default="", help="runs whose name has this in it, such as 2-30-int8")
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    if arguments.report:
        return report(pathlib.Path(arguments.results))
    if arguments.causeway is None:
        parser.error("which causeway?")
    measure(arguments)


if __name__ == "__main__":
    sys.exit(main())
