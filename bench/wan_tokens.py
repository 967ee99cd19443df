"""Tokens a second over a shaped WAN, beside those of the same run without one: what the exchange costs a real trainer.

    python3 bench/wan_tokens.py PATH/TO/causeway [--rate 100] [--rtt 100] [--k 100] [--steps 300] [--pairs 1]

The quickstart's model and sparse codec, two regions of one worker with a core each, real inner steps of 16 sequences. For each variant `causeway
simulate --wan none` and `--wan relay` take turns; a pair is a row. Tokens/s: a region's tokens over its compute and wait, the sum of both regions.
Run it on a machine that does nothing else: training on a busy one measures the others.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

VARIANTS = {
    "synchronous": [],
    "streaming": ["sync.variant='streaming'", "sync.fragments=2", "sync.overlap_steps=10"],
    "eager": ["sync.variant='eager'"],
}


def configuration(arguments, directory):
    (directory / "wan.toml").write_text(
        f'name = "pair"\nseed = 1\nregions = ["eu", "us"]\n[defaults]\nrate_mbit_s = {arguments.rate}\nrtt_ms = {arguments.rtt}\n')
    text = pathlib.Path("configs/quickstart.toml").read_text()
    text = text[:text.index("[wan]")]
    text += f'[wan]\nprofile = "{directory / "wan.toml"}"\n[[regions]]\nname = "eu"\n[[regions]]\nname = "us"\n'
    path = directory / "pair.toml"
    path.write_text(text)
    return path


def tokens_per_s(arguments, variant, wan):
    settings = VARIANTS[variant] + [f"train.k={arguments.k}", f"train.steps={arguments.steps}", "train.batch=16",
                                    "inner.warmup_steps=20"]
    with tempfile.TemporaryDirectory() as temporary:
        directory = pathlib.Path(temporary)
        command = [arguments.causeway, "simulate", configuration(arguments, directory), "--wan", wan, "--no-baseline",
                   "--sample-tokens", "0", "--out", directory / "run"]
        for setting in settings:
            command += ["--set", setting]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        regions = json.loads((directory / "run" / "summary.json").read_text())["regions"]
    return (sum(region["tokens"] / (region["compute_s"] + region["wait_s"]) for region in regions),
            min(region["utilisation"] for region in regions))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("causeway")
    parser.add_argument("--rate", type=float, default=100, help="Mbit/s")
    parser.add_argument("--rtt", type=float, default=100, help="ms")
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--pairs", type=int, default=1)
    arguments = parser.parse_args()
    print("| variant | tokens/s, no WAN | tokens/s, WAN | ratio | utilisation, no WAN | WAN |\n|---|---|---|---|---|---|", flush=True)
    for variant in VARIANTS:
        for _ in range(arguments.pairs):
            (bare, bare_used), (shaped, shaped_used) = (tokens_per_s(arguments, variant, wan) for wan in ("none", "relay"))
            print(f"| {variant} | {bare:.0f} | {shaped:.0f} | {shaped / bare:.3f} | {bare_used:.3f} | {shaped_used:.3f} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
