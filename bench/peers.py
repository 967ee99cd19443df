"""Causeway beside its peers: one PyTorch script, four regions, the packet engine's links.

    sudo PYTHON bench/peers.py PATH/TO/causeway RESULTS.jsonl [--size small] [--links a] [--systems ddp,causeway-int8] [--fault kill]
    python3 bench/peers.py - RESULTS.jsonl --report

PYTHON has PyTorch, the package `causeway` and, for their rows, torchft and hivemind. Resumable: what RESULTS.jsonl has a row of is not run again; a row of
a run that failed says why. `seconds` are from when the regions had joined until the last had the last step's result.
`off_cpu` is the share of that in which the training thread was on no CPU: it waited for the others, for the network, or for a core.
`held_out` is the loss after all steps, on data that no region trains on: the worst of the regions. `target_s` is when the worst region
was first at or below --target, seen every K steps. `pause_s` is the longest time between two steps of a region that was not killed.
`sent` is the most bytes that a region sent: at the sockets for Causeway, at the interface, with TCP's headers, for its peers.
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

PEERS = {"ddp": "ddp", "torchft-diloco": "diloco", "torchft-local-sgd": "local_sgd", "hivemind": "hivemind"}
SYSTEMS = [*four.CAUSEWAY, *PEERS]
LINKS = {
    "a": "rtt_ms = 80\nrate_mbit_s = 100\n",
    "b": "rtt_ms = 150\nrate_mbit_s = 20\nloss = 0.001\n",
    # One region has a fifth of the others' rate and twice their delay.
    "c": "rtt_ms = 80\nrate_mbit_s = 100\n",
}
FAULTS = ["none", "kill", "black-hole"]
SHOWN = ["system", "link", "parameters", "steps", "seconds", "target_s", "held_out", "off_cpu", "sent", "valid"]
SHOWN_WITH_FAULT = ["system", "link", "fault", "parameters", "steps", "seconds", "pause_s", "held_out", "valid"]


def links(link, regions):
    slow = "".join(f'[[link]]\na = "{each}"\nb = "{regions[-1]}"\nrtt_ms = 160\nrate_mbit_s = 20\n' for each in regions[:-1])
    return f"[defaults]\n{LINKS[link]}{slow if link == 'c' else ''}"


def of_region(log, target):
    """What a region's log says; `pause_s` is the longest time between two of its steps."""
    first, last = log[0], log[-1]
    steps = [line["at_s"] for line in log if "loss" in line]
    seen = [line for line in log if "held_out" in line]
    reached = next((line["at_s"] - first["at_s"] for line in seen if line["held_out"] <= target), None)
    return dict(steps=len(steps), seconds=last["at_s"] - first["at_s"], cpu_s=last["cpu_s"] - first["cpu_s"],
                held_out=seen[-1]["held_out"], target_s=reached, pause_s=max(after - before for before, after in zip(steps, steps[1:])))


def figures(directory, flags, names):
    logs = [[json.loads(line) for line in (directory / f"log-{name}.jsonl").read_text().splitlines()] for name in names]
    each = [of_region(log, flags.target) for log in logs]
    steps = [region["steps"] for region in each]
    if flags.fault == "none" and set(steps) != {flags.steps}:
        raise four.Failed(f"steps in the logs: {steps}, not {flags.steps} in each")
    reached = [region["target_s"] for region in each]
    return dict(parameters=logs[0][0]["parameters"], steps_of_each=steps, seconds=round(max(region["seconds"] for region in each), 2),
                off_cpu=round(1 - sum(region["cpu_s"] for region in each) / sum(region["seconds"] for region in each), 3),
                held_out=round(max(region["held_out"] for region in each), 4),
                pause_s=round(max(region["pause_s"] for region in each[:-1]), 2),  # the last one is the one that is killed
                target_s=None if None in reached else round(max(reached), 2))


def measure(name, link, flags):
    regions = [f"p{os.getpid()}-{letter}" for letter in "abcd"]  # names that no other run's namespaces have
    run = dict(system=name, link=link, fault=flags.fault, size=flags.size, steps=flags.steps, k=flags.k, target=flags.target)
    with tempfile.TemporaryDirectory() as path:
        directory = pathlib.Path(path)
        events = "" if name in PEERS and flags.fault == "kill" else four.events(flags.fault, regions)
        (directory / "wan.toml").write_text(f"regions = {regions}\nseed = 1\nlateness_max_ms = 20\n{links(link, regions)}{events}")
        environment = dict(os.environ, NAME=name, SYSTEM=PEERS.get(name, "causeway"), SIZE=flags.size, STEPS=str(flags.steps),
                           K=str(flags.k), FAULT=flags.fault, MIN_REGIONS="4" if flags.fault == "none" else "2")
        start = four.by_peer if name in PEERS else four.by_causeway
        try:
            sent, valid = start(flags.causeway, directory, environment, regions, flags.limit)
            return dict(run, **figures(directory, flags, range(4) if name in PEERS else regions), sent=max(sent), valid=valid)
        except four.Failed as failed:
            return dict(run, failed=str(failed))


def key(row):
    return tuple(row[name] for name in ("system", "link", "fault", "size", "steps", "k", "target"))


def load(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def report(rows):
    for shown, of_table in ((SHOWN, lambda row: row["fault"] == "none"), (SHOWN_WITH_FAULT, lambda row: row["fault"] != "none")):
        print("| " + " | ".join(shown) + " |\n" + "|---" * len(shown) + "|")
        for row in filter(of_table, rows):
            values = [row["system"], row["link"], row["fault"], row["failed"]] if "failed" in row else [row[name] for name in shown]
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
    parser.add_argument("--fault", choices=FAULTS, default="none",
                        help=f"at {four.FAULT_AT_S} s, for {four.FAULT_FOR_S} s: the last region is killed, or the first two's link is cut")
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
        if (name, link, flags.fault, flags.size, flags.steps, flags.k, flags.target) not in map(key, load(flags.results)):
            row = measure(name, link, flags)
            with flags.results.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(row, flush=True)
    report(load(flags.results))


if __name__ == "__main__":
    main()
