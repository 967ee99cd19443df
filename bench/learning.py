"""What training across regions costs in validation loss: inner optimizer, K, outer step and codec, at equal tokens.

    python3 bench/learning.py PATH/TO/bench_trial RESULTS.jsonl GRID... [--seeds 1,2,3] [--jobs 2] [--minutes N] [--data FILE] [--device cuda]
    python3 bench/learning.py --report RESULTS.jsonl

GRID: names of GRIDS below. Every run is configs/overlap.toml, or another file of configs/, with other settings, all regions in one process
(bench/trial.cc): the same inner steps, codec and outer rounds as a run of processes, without links. With --device cuda all regions step on one GPU, in
turn. Resumable: a run whose line is in RESULTS.jsonl is not run again.
"""
import argparse
import concurrent.futures
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

INNER = {
    "adamw": ["inner.optimizer='adamw'"],
    "muon": ["inner.optimizer='muon'", "inner.lr=8e-3"],
}
LARGE = {"adamw": [], "muon": ["inner.lr=2e-3"]}


def codec(matrix, vector="dense:int8,block=128", feedback=True, decay=None):
    settings = [f"codec.matrix='{matrix}'", f"codec.vector='{vector}'", f"codec.feedback={str(feedback).lower()}"]
    return settings + ([f"codec.feedback_decay={decay}"] if decay else [])


INT8 = codec("dense:int8,block=128", feedback=False)
CODECS = {
    "int8": INT8,
    "int4": codec("dense:int4,block=128"),
    "2bit": codec("dense:2bit"),
    "1bit": codec("dense:1bit,block=128"),
    "top106": codec("topk:k=106,chunk=4096,value=2bit,index=rice", vector="dense:1bit", decay=1.0),
    "top128": codec("topk:k=128,chunk=4096,value=2bit,index=rice"),
    "top256": codec("topk:k=256,chunk=4096,value=2bit,index=rice", decay=1.0),
    "top512": codec("topk:k=512,chunk=4096,value=2bit,index=rice", decay=1.0),
}


def outer(step):
    if step == "auto":
        return ["outer.optimizer='auto'"]
    if step[0] == "senders":
        return ["outer.optimizer='sgd'", f"outer.lr={step[1]}", "outer.mean='senders'"]
    if len(step) == 1:
        return ["outer.optimizer='sgd'", f"outer.lr={step[0]}"]
    return ["outer.optimizer='nesterov'", f"outer.lr={step[0]}", f"outer.momentum={step[1]}"]


def name_of(step):
    return step if step == "auto" else "sgd " + str(step[0]) if len(step) == 1 else "/".join(map(str, step))


def run(inner, regions, k, codec, step, **more):
    return dict(inner=inner, regions=regions, k=k, codec=codec, outer=name_of(step), step=step) | more


def lockstep(inner, regions, **more):
    return dict(inner=inner, regions=regions, k=1, codec="-", outer="-", step=None) | more


def as_one(inner, batch, **more):
    """Synchronised every step, as one region with the batch of all: for a GPU, which the regions of lockstep cannot share."""
    return lockstep(inner, 1, more=more.pop("more", []) + [f"train.batch={batch}"], **more)


def large(inner, k, codec):
    return run(inner, 4, k, codec, "auto", config="configs/large.toml", more=LARGE[inner])


MUON_QUICKSTART = ["train.batch=8", "train.steps=1200", "inner.warmup_steps=75"]


def quickstart(inner, k, codec, step, more=()):
    shape = dict(config="configs/quickstart.toml", more=["model.precision=fp32", "inner.lr=2.2e-3" if inner == "adamw" else "inner.lr=8e-3", *more])
    return run(inner, 3, k, codec, step, **shape) if step else lockstep(inner, 3, **shape)


STEPS = [(0.7, 0.6), (1.0, 0.4), (1.0, 0.6), (1.0, 0.8), (0.7, 0.8)]
BATCH_16, BATCH_64 = ["train.batch=16", "train.steps=1200"], ["train.batch=64", "train.steps=500", "inner.warmup_steps=50"]
GRIDS = {
    # The outer step by hand, from which the law of outer.optimizer = "auto" comes.
    "outer-muon-4": [run("muon", 4, k, "int8", step) for k, step in itertools.product([30, 100], STEPS + [(1.0,)])],
    "outer-muon-2": [run("muon", 2, k, "int8", step) for k, step in itertools.product([30, 100], STEPS[:3])],
    "outer-adamw-4": [run("adamw", 4, 100, "int8", step) for step in STEPS],
    # With the outer step that is chosen: three seeds are wanted of these.
    "lockstep": [lockstep(inner, r) for r, inner in itertools.product([2, 4], INNER)],
    "dense": [run(inner, r, k, "int8", "auto") for r, k, inner in itertools.product([2, 4], [30, 100], INNER)],
    "codecs-muon": [run("muon", 4, k, c, (0.7, 0.6)) for k, c in itertools.product([30, 100], ["2bit", "1bit", "int4"])],
    "codecs": [run(inner, 4, k, c, "auto") for inner, k, c in itertools.product(INNER, [30, 100], ["2bit", "1bit"])],
    "four-bits": [run(inner, 4, 30, c, "auto") for c, inner in itertools.product(["int4"], INNER)],
    "rare": [run("muon", 4, k, c, "auto") for k, c in itertools.product([210, 300], ["int8", "2bit"])],
    "sparse-muon": [run("muon", 4, 30, c, step) for c, step in itertools.product(["top128", "top512"], [(1.0,), (1.5,), (2.0,)])],
    "sparse": [run(inner, 4, 30, "top128", "auto") for inner in INNER],
    # Whose mean a value is, and how much of what was left over is kept.
    "senders": [run(inner, 4, 30, "top128", step, more=[f"codec.feedback_decay={decay}"])
                for inner in INNER for step, decay in itertools.product([(2.0,), ("senders", 1.0)], [0.95, 1.0])]
    + [run(inner, 4, 30, "top128", ("senders", lr), more=["codec.feedback_decay=0.95"]) for inner in INNER for lr in [0.7, 1.4]],
    "equal-bytes": [run(inner, 4, k, c, "auto") for inner in INNER for k, c in [(150, "2bit"), (84, "1bit"), (70, "2bit")]],
    "eager": [run(inner, 4, 30, "int8", "auto", more=["sync.variant='eager'"]) for inner in INNER],
    # Its outer step by hand: contributions that come a round late bear less of it.
    "outer-eager": [run("muon", 4, 30, "int8", step, more=["sync.variant='eager'"]) for step in [(1.0,), (0.6, 0.4), (0.5, 0.6), (0.7,)]]
    + [run("adamw", r, 30, "int8", step, more=["sync.variant='eager'"])
       for r, steps in [(2, ["auto", (0.7, 0.6), (0.7, 0.4)]), (4, [(1.0, 0.6), (1.0, 0.4), (0.7, 0.6)])] for step in steps],
    "missed": [run(inner, 4, 50, "int8", "auto", **({"missing": missing, "more": ["codec.feedback=true"]} if missing else {}))
               for inner in INNER for missing in [None, "late", "returned", "dropped"]],
    "batch-16": [run(inner, 4, k, "int8", "auto", more=BATCH_16) for inner in INNER for k in [30, 100]],
    "batch-64": [run(inner, 4, k, "int8", "auto", more=BATCH_64) for inner in INNER for k in [25, 50]],
    "outer-adamw-64": [run("adamw", 4, 25, "int8", step, more=BATCH_64) for step in [(1.0,), (0.7,), (0.7, 0.6), (1.0, 0.4)]],
    "as-one": [as_one(inner, 4 * r) for r, inner in itertools.product([2, 4], INNER)],
    "as-one-16": [as_one(inner, 64, more=BATCH_16[1:]) for inner in INNER],
    "as-one-64": [as_one(inner, 256, more=BATCH_64[1:]) for inner in INNER],
    "large": [large(inner, k, c) for inner in INNER for k, c in [(100, "int8"), (100, "2bit"), (25, "top128")]]
    + [as_one(inner, 32, config="configs/large.toml", more=LARGE[inner]) for inner in INNER]
    # AdamW at Muon's rate
    + [run("adamw", 4, 100, "int8", "auto", config="configs/large.toml", more=LARGE["muon"]),
       as_one("adamw", 32, config="configs/large.toml", more=LARGE["muon"])],
    # The quickstart's model, text and tokens: as it is, and with Muon and larger batches in fewer steps.
    "quickstart": [
        quickstart("adamw", 25, "top106", ("senders", 1.3), ["codec.feedback_decay=0.95"]),
        quickstart("adamw", 25, "top106", (1.7,)),
        quickstart("muon", 6, "top106", (1.7,), MUON_QUICKSTART),
        *[run("muon", 3, k, c, "auto", config="configs/muon.toml") for k, c in [(30, "2bit"), (60, "2bit"), (60, "1bit")]],
        quickstart("adamw", 1, "-", None),
        quickstart("muon", 1, "-", None, MUON_QUICKSTART),
    ],
}
FIELDS = ("config", "inner", "regions", "k", "codec", "outer", "missing", "seed", "more", "data", "device")


def key(row):
    return tuple(json.dumps(row.get(name)) for name in FIELDS)


def settings_of(row):
    settings = [f"run.seed={row['seed']}", f"train.k={row['k']}"] + INNER[row["inner"]]
    if row["step"]:
        settings += CODECS[row["codec"]] + outer(row["step"])
    if row.get("data"):
        settings.append(f"data.files=['{row['data']}']")
    return settings + row.get("more", [])


def train(trial, row):
    text = pathlib.Path(row.get("config", "configs/overlap.toml")).read_text()
    device = f'device = "{row["device"]}"\n' if row.get("device") else ""
    text = text[:text.index("[[regions]]")] + "".join(f'[[regions]]\nname = "r{i}"\n{device}' for i in range(row["regions"]))
    with tempfile.TemporaryDirectory() as temporary:
        config = pathlib.Path(temporary) / "overlap.toml"
        config.write_text(text)
        command = [trial, row.get("missing", "rounds") if row["step"] else "lockstep", config] + settings_of(row)
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=os.environ | {"OMP_NUM_THREADS": "1"})
    if done.returncode != 0:
        raise SystemExit(f"{row}: {done.stderr}")
    return row | json.loads(done.stdout)


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def measure(arguments):
    results = pathlib.Path(arguments.results)
    known = {key(row) for row in read(results)}
    everywhere = {name: value for name in ("data", "device") if (value := getattr(arguments, name))}
    rows = [row | {"seed": int(seed)} | everywhere
            for grid in arguments.grids for seed in arguments.seeds.split(",") for row in GRIDS[grid]]
    wanted = [row for row in rows if key(row) not in known]
    end = time.monotonic() + 60 * arguments.minutes
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        runs = [pool.submit(lambda row=row: train(arguments.trial, row) if time.monotonic() < end else None) for row in wanted]
        for done in concurrent.futures.as_completed(runs):
            row = done.result()
            if row is None:
                continue
            with results.open("a") as out:
                out.write(json.dumps(row) + "\n")
            print(name(row), f"{row['loss']:.4f}  {row['payload_bytes'] / 1e6:.2f} MB  {row['wall_s']:.0f} s", flush=True)


def name(row):
    words = [pathlib.Path(row["config"]).stem] if "config" in row else []
    words += [row["inner"], f"R={row['regions']}", "every step" if not row["step"] else f"K={row['k']} {row['codec']} {row['outer']}"]
    words += ["half " + row["missing"]] if row.get("missing") else []
    words += row.get("more", []) + [row[name] for name in ("data", "device") if row.get(name)]
    return " ".join(words + [f"seed {row['seed']}"])


def report(path):
    groups = {}
    for row in read(path):
        groups.setdefault(key(row | {"seed": 0}), []).append(row)
    for rows in sorted(groups.values(), key=lambda rows: (rows[0].get("data", ""), rows[0]["regions"], rows[0]["inner"], rows[0]["k"])):
        losses = [row["loss"] for row in rows]
        spread = f" +- {statistics.stdev(losses):.4f} ({len(losses)} seeds)" if len(losses) > 1 else ""
        print(f"{name(rows[0])}: {statistics.mean(losses):.4f}{spread}, {rows[0]['payload_bytes'] / 1e6:.2f} MB of payloads")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trial", nargs="?")
    parser.add_argument("results")
    parser.add_argument("grids", nargs="*")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--data", help="another text than the configuration's")
    parser.add_argument("--device", help="of all regions, instead of this machine's CPU")
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    if arguments.report:
        return report(pathlib.Path(arguments.results))
    if arguments.trial is None or not arguments.grids:
        parser.error("which bench_trial, and which grids? " + " ".join(GRIDS))
    measure(arguments)


if __name__ == "__main__":
    sys.exit(main())
