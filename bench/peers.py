"""Causeway beside its peers: one PyTorch script, four regions, the packet engine's links.

    sudo PYTHON bench/peers.py PATH/TO/causeway RESULTS.jsonl [--size small] [--links a] [--systems ddp,causeway-int8] [--steps N]
    python3 bench/peers.py - RESULTS.jsonl --report

PYTHON has PyTorch, the package `causeway` and, for its rows, torchft. Resumable: what RESULTS.jsonl has a row of is not run again; a row of
a run that failed says why. `seconds` are from when the regions had joined until the last had the last step's result.
`off_cpu` is the share of that in which the training thread was on no CPU: it waited for the others, for the network, or for a core.
`held_out` is the loss after all steps, on data that no region trains on: the worst of the regions. `target_s` is when the worst region
was first at or below --target, seen every K steps. `sent` is the most bytes that a region sent: at the sockets for Causeway, at the
interface, with TCP's headers, for its peers.
"""
import argparse
import json
import os
import pathlib
import signal
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "peers"))
import regions as four  # noqa: E402

PEERS = {"ddp": "ddp", "torchft-diloco": "diloco", "torchft-local-sgd": "local_sgd"}
SYSTEMS = [*four.CAUSEWAY, *PEERS]
LINKS = {
    "a": "rtt_ms = 80\nrate_mbit_s = 100\n",
    "b": "rtt_ms = 150\nrate_mbit_s = 20\nloss = 0.001\n",
}
SHOWN = ["system", "link", "parameters", "seconds", "target_s", "held_out", "off_cpu", "sent", "valid"]


def of_region(log, target):
    steps = [line for line in log[1:] if "loss" in line]
    seen = [line for line in log[1:] if "held_out" in line]
    reached = next((line["at_s"] for line in seen if line["held_out"] <= target), None)
    return dict(steps=len(steps), seconds=seen[-1]["at_s"], cpu_s=seen[-1]["cpu_s"], held_out=seen[-1]["held_out"], target_s=reached)


def figures(directory, flags, names):
    logs = [[json.loads(line) for line in (directory / f"log-{name}.jsonl").read_text().splitlines()] for name in names]
    each = [of_region(log, flags.target) for log in logs]
    if any(region["steps"] != flags.steps for region in each):
        raise four.Failed(f"steps in the logs: {[region['steps'] for region in each]}, not {flags.steps} in each")
    reached = [region["target_s"] for region in each]
    return dict(parameters=logs[0][0]["parameters"], seconds=round(max(region["seconds"] for region in each), 2),
                off_cpu=round(1 - sum(region["cpu_s"] for region in each) / sum(region["seconds"] for region in each), 3),
                held_out=round(max(region["held_out"] for region in each), 4),
                target_s=None if None in reached else round(max(reached), 2))


def measure(name, link, flags):
    regions = [f"p{os.getpid()}-{letter}" for letter in "abcd"]  # names that no other run's namespaces have
    run = dict(system=name, link=link, size=flags.size, steps=flags.steps, k=flags.k, target=flags.target)
    with tempfile.TemporaryDirectory() as path:
        directory = pathlib.Path(path)
        (directory / "wan.toml").write_text(f"regions = {regions}\nseed = 1\nlateness_max_ms = 20\n[defaults]\n{LINKS[link]}")
        environment = dict(os.environ, NAME=name, SYSTEM=PEERS.get(name, "causeway"), SIZE=flags.size, STEPS=str(flags.steps),
                           K=str(flags.k))
        start = four.by_peer if name in PEERS else four.by_causeway
        try:
            sent, valid = start(flags.causeway, directory, environment, regions, flags.limit)
            return dict(run, **figures(directory, flags, range(4) if name in PEERS else regions), sent=max(sent), valid=valid)
        except four.Failed as failed:
            return dict(run, failed=str(failed))


def key(row):
    return tuple(row[name] for name in ("system", "link", "size", "steps", "k", "target"))


def load(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def report(rows):
    print("| " + " | ".join(SHOWN) + " |\n" + "|---" * len(SHOWN) + "|")
    for row in rows:
        values = [row["system"], row["link"], row["failed"]] if "failed" in row else [row[name] for name in SHOWN]
        print("| " + " | ".join(map(str, values)) + " |")


def choices(known):
    def parse(text):
        if unknown := set(text.split(",")) - set(known):
            raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: not one of {', '.join(known)}")
        return text.split(",")
    return parse


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("causeway")
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--size", choices=["small", "medium", "full"], default="full", help="0.1, 0.8 and 10.7 million parameters")
    parser.add_argument("--links", type=choices(LINKS), default=list(LINKS))
    parser.add_argument("--systems", type=choices(SYSTEMS), default=SYSTEMS)
    parser.add_argument("--steps", type=int, default=200, help="of each region; a multiple of --k")
    parser.add_argument("--k", type=int, default=20, help="steps between two exchanges, but for DDP")
    parser.add_argument("--target", type=float, default=1.0, help="nats per token")
    parser.add_argument("--limit", type=float, default=3600, help="seconds after which a run is given up")
    parser.add_argument("--report", action="store_true", help="run nothing")
    flags = parser.parse_args()
    if flags.k < 1 or flags.steps < flags.k or flags.steps % flags.k:
        parser.error("--steps must be a multiple of --k, and both positive")
    return flags


def main():
    flags = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    wanted = [] if flags.report else [(name, link) for link in flags.links for name in flags.systems]
    for name, link in wanted:
        if (name, link, flags.size, flags.steps, flags.k, flags.target) not in map(key, load(flags.results)):
            row = measure(name, link, flags)
            with flags.results.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(row, flush=True)
    report(load(flags.results))


if __name__ == "__main__":
    main()
