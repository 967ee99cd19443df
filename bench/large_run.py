"""One larger model (configs/large.toml, 10 million parameters, four regions) trained in several ways, to its end.

    python3 bench/large_run.py PATH/TO/causeway DIRECTORY [--only TEXT] [--minutes N]

Each way is one `causeway simulate` over no WAN in DIRECTORY, with real processes, rounds and codecs. What was stopped, by --minutes or by hand, goes on
where it was; what has ended is not run again. Prints a row for each way that has ended. "synchronised" is one region with four times the batch.
"""
import argparse
import json
import pathlib
import signal
import subprocess
import sys
import time

DENSE = ["codec.matrix='dense:int8,block=128'", "codec.vector='dense:int8,block=128'", "codec.feedback=false"]
TWO_BITS = ["codec.matrix='dense:2bit'", "codec.vector='dense:int8,block=128'", "codec.feedback=true"]
SPARSE = ["codec.matrix='topk:k=128,chunk=4096,value=2bit,index=rice'", "codec.vector='dense:1bit'", "codec.feedback=true",
          "codec.feedback_decay=1.0"]
INNER = {"adamw": [], "muon": ["inner.optimizer='muon'", "inner.lr=2e-3"]}
WAYS = {f"{inner} {name}": settings + more
        for inner, settings in INNER.items()
        for name, more in {"int8 K=100": DENSE, "2bit K=100": TWO_BITS, "sparse K=25": SPARSE + ["train.k=25"],
                           "synchronised": ["train.batch=32"]}.items()}


def summary(directory):
    path = directory / "summary.json"
    return json.loads(path.read_text()) if path.exists() else None


def config(directory, regions):
    text = pathlib.Path("configs/large.toml").read_text()
    head, *parts = text.split("[[regions]]")
    path = directory / f"large-{regions}.toml"
    path.write_text("[[regions]]".join([head, *parts[:regions]]))
    return path


def train(causeway, directory, name, end):
    """True once it has ended."""
    out = directory / name.replace(" ", "-").replace("=", "")
    if out.exists() and summary(out):
        return True
    command = [causeway, "simulate", config(directory, 1 if "synchronised" in name else 4), "--wan", "none", "--no-baseline",
               "--sample-tokens", "0", "--out", out] + (["--resume"] if out.exists() else [])
    for setting in WAYS[name]:
        command += ["--set", setting]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        child.wait(timeout=max(1, end - time.monotonic()))
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        child.send_signal(signal.SIGINT)
        child.wait()
    return summary(out) is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("causeway")
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--only", default="", help="ways whose name has this in it")
    parser.add_argument("--minutes", type=float, default=1e9)
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * arguments.minutes
    for name in [name for name in WAYS if arguments.only in name]:
        if time.monotonic() > end or not train(arguments.causeway, arguments.directory, name, end):
            continue
        row = summary(arguments.directory / name.replace(" ", "-").replace("=", ""))
        print(f"| {name} | {row['val_loss']:.4f} | {row['rounds']} | {row['wan_bytes'] / 1e6:.1f} MB | {row['wall_s'] / 60:.0f} min |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
