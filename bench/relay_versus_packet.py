"""The relay's model of TCP against the kernel's TCP in the packet engine, cell by cell; and the virtual engine.

    sudo python3 bench/relay_versus_packet.py PATH/TO/causeway RESULTS.jsonl [--engines packet,relay,virtual] [--jobs N]
    python3 bench/relay_versus_packet.py - RESULTS.jsonl... --report

Resumable: a line of RESULTS.jsonl is one sample, a cell through one engine with one seed, and is not run again. Small cells without
loss come first. Cells without loss are medians of 3 samples (256 MB: 1), cells with loss of 20 (1 MB) or 5. Cells predicted to last more than a
minute are left out. A run that its engine calls invalid, for it was late itself, is repeated. --jobs runs so many samples side by side, each
in a WAN of its own. "missed, in range": off by more than allowed, but within the range in which the median of so few samples of the kernel's
lies anyway. Root, because of the namespaces' names and so that ends and engines keep time on a busy machine.
"""
import argparse
import concurrent.futures
import itertools
import json
import os
import pathlib
import queue
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import transfer_ends

RATE_MBIT_S = 100
QUEUE_MS = 100
CELL_SECONDS_MAX = 60
MB = 1_000_000
TRIES = 5
LATE_MS_MAX = 1
CELL_KEYS = ["congestion", "mb", "loss", "rtt_ms", "connections", "state"]
ENDS = [sys.executable, "-S", str(pathlib.Path(transfer_ends.__file__).resolve())]


def all_cells():
    values = [["cubic", "bbr"], [1, 32, 256], [0, 1e-4, 1e-3], [20, 80, 200], [1, 8], ["cold", "warm", "idle"]]
    for cell in itertools.product(*values):
        yield dict(zip(CELL_KEYS, cell))


def predicted_s(cell):
    """Mathis' law for CUBIC under loss; the rate otherwise; and a few round trips."""
    rtt = cell["rtt_ms"] / 1000
    rate = RATE_MBIT_S * 1e6 / 8
    if cell["loss"] and cell["congestion"] == "cubic":
        rate = min(rate, cell["connections"] * 1448 * 1.22 / rtt / cell["loss"] ** 0.5)
    return cell["mb"] * MB / rate + 10 * rtt


def cells_to_run():
    cells = [cell for cell in all_cells() if predicted_s(cell) <= CELL_SECONDS_MAX]
    return sorted(cells, key=lambda cell: (cell["loss"] > 0, predicted_s(cell)))


def samples_of(cell):
    if not cell["loss"]:
        return 1 if cell["mb"] == 256 else 3
    return 20 if cell["mb"] == 1 else 5


# ---- One sample through each engine ----

def scenario(cell, seed, regions):
    return (f"regions = {regions}\nseed = {seed}\nlateness_max_ms = {LATE_MS_MAX}\n[defaults]\nrtt_ms = {cell['rtt_ms']}\n"
            f"rate_mbit_s = {RATE_MBIT_S}\nqueue_ms = {QUEUE_MS}\ncongestion = '{cell['congestion']}'\nloss = {cell['loss']:.6f}\n")


def send(inside, host, port, cell):
    out = subprocess.run(inside + ENDS + ["send", host, str(port), str(cell["mb"] * MB), str(cell["connections"]), cell["state"]],
                         stdout=subprocess.PIPE, text=True, timeout=30 + 4 * predicted_s(cell), check=True).stdout
    return float(out)


def read_until(stream, pattern):
    text = ""
    for line in stream:
        text += line
        if re.search(pattern, line):
            return text
    raise RuntimeError(f"the WAN ended: {text}")


def finish(wan):
    """Whether the engine kept up, and how late it was."""
    wan.terminate()
    out = wan.communicate(timeout=10)[0]
    late = re.search(r"([\d.]+) ms", out.splitlines()[-1])
    return "INVALID" not in out, float(late.group(1)) if late else None


def end(*processes):
    for process in processes:
        if process and process.poll() is None:
            process.terminate()  # and not killed: a WAN takes its namespaces with it
            process.wait(10)


def by_relay(causeway, file, cell, regions):
    wan = None
    server = subprocess.Popen(ENDS + ["serve", "0"], stdout=subprocess.PIPE, text=True)
    try:
        port = int(server.stdout.readline())
        route = f"{regions[0]}:{regions[1]}=127.0.0.1:{port}"
        wan = subprocess.Popen([causeway, "wan-sim", file, "--map", route], stdout=subprocess.PIPE, text=True)
        text = read_until(wan.stdout, "Ctrl-C")
        dial = re.search(r"dial 127\.0\.0\.1:(\d+)", text).group(1)
        return send([], "127.0.0.1", dial, cell), *finish(wan)
    finally:
        end(server, wan)


def by_packet(causeway, file, cell, regions):
    server = None
    wan = subprocess.Popen([causeway, "wan-sim", file, "--engine", "packet"], stdout=subprocess.PIPE, text=True)
    try:
        read_until(wan.stdout, f"^{regions[1]} ")
        a, b = (["ip", "netns", "exec", f"causeway-{region}"] for region in regions)
        server = subprocess.Popen(b + ENDS + ["serve", "7000"], stdout=subprocess.PIPE, text=True)
        server.stdout.readline()
        return send(a, "198.18.0.2", 7000, cell), *finish(wan)
    finally:
        end(server, wan)


def by_virtual(causeway, file, cell, regions):
    route = f"{regions[0]}:{regions[1]}"
    before = [] if cell["state"] == "cold" else ["--transfer", f"{route}={transfer_ends.WARM_BYTES}x{cell['connections']}"]
    idle = transfer_ends.IDLE_S if cell["state"] == "idle" else cell["rtt_ms"] / 2000
    out = subprocess.run([causeway, "wan-sim", file, "--engine", "virtual", *before, "--transfer",
                          f"{route}={cell['mb'] * MB}x{cell['connections']}", "--idle", str(idle)],
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    return float(re.findall(r": ([\d.]+) s,", out)[-1]) + cell["rtt_ms"] / 2000, True, None


ENGINES = {"packet": by_packet, "relay": by_relay, "virtual": by_virtual}


def run_sample(causeway, engine, cell, seed, job):
    """None if the engine never kept up."""
    # Names that no other job's namespaces have; elsewhere always the same, for chance is drawn by them.
    regions = [f"a{job}", f"b{job}"] if engine == "packet" else ["a", "b"]
    with tempfile.TemporaryDirectory() as directory:
        file = os.path.join(directory, "cell.toml")
        pathlib.Path(file).write_text(scenario(cell, seed, regions))
        for tries in range(1, TRIES + 1):
            try:
                seconds, valid, late_ms = ENGINES[engine](causeway, file, cell, regions)
            except (subprocess.SubprocessError, RuntimeError, OSError) as error:
                print(f"{name_of(cell)} {engine} {seed}: {error}", file=sys.stderr, flush=True)
                continue
            if valid:
                break
        else:
            return None
    return dict(cell, engine=engine, seed=seed, seconds=round(seconds, 6), late_ms=late_ms, tries=tries)


# ---- All samples ----

def key_of(cell):
    return tuple(cell[name] for name in CELL_KEYS)


def load(files):
    return [json.loads(line) for file in files if file.exists() for line in file.read_text().splitlines()]


def samples_to_run(flags):
    known = {(*key_of(row), row["engine"], row["seed"]) for row in load(flags.results)}
    for cell in cells_to_run():
        if flags.only and not re.search(flags.only, name_of(cell)):
            continue
        for engine, seed in itertools.product(flags.engines, range(1, samples_of(cell) + 1)):
            if (*key_of(cell), engine, seed) not in known:
                yield engine, cell, seed


def run_all(flags):
    end_at = time.monotonic() + 60 * flags.minutes
    jobs = queue.SimpleQueue()
    for job in range(flags.jobs):
        jobs.put(f"{os.getpid()}-{job}")
    writing = threading.Lock()

    def run(engine, cell, seed):
        while flags.hold and flags.hold.exists():
            time.sleep(1)
        if time.monotonic() > end_at:
            return
        job = jobs.get()
        row = run_sample(flags.causeway, engine, cell, seed, job)
        jobs.put(job)
        if row:
            with writing, flags.results[0].open("a") as file:
                file.write(json.dumps(row) + "\n")

    with concurrent.futures.ThreadPoolExecutor(flags.jobs) as pool:
        list(pool.map(lambda sample: run(*sample), samples_to_run(flags)))


# ---- What it says ----

def name_of(cell):
    return (f"{cell['congestion']} {cell['mb']} MB loss {cell['loss']:g} {cell['rtt_ms']} ms x{cell['connections']} {cell['state']}")


def samples(rows):
    """(cell, engine) -> its seconds, of cells whose samples are all there."""
    by_seed = {}
    for row in rows:
        by_seed.setdefault((key_of(row), row["engine"]), {})[row["seed"]] = row["seconds"]
    wanted = {key_of(cell): samples_of(cell) for cell in all_cells()}
    return {at: list(seconds.values()) for at, seconds in by_seed.items() if len(seconds) >= wanted[at[0]]}


def median_range(seconds):
    """Where 95 % of the medians of as many samples from the same lie (bootstrap): what the kernel itself might have said."""
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(seconds, k=len(seconds))) for _ in range(1000))
    return medians[25], medians[974]


def off_by(cell, times, engine, other):
    """How much longer `engine` takes than `other`; None where one was not run."""
    both = [times.get((key_of(cell), name)) for name in [engine, other]]
    return statistics.median(both[0]) / statistics.median(both[1]) - 1 if all(both) else None


def allowed(cell):
    return 0.20 if cell["loss"] else 0.10


def judge(cell, times):
    off = off_by(cell, times, "relay", "packet")
    if predicted_s(cell) > CELL_SECONDS_MAX:
        return "left out"
    if off is None:
        return "not run"
    if abs(off) <= allowed(cell):
        return "met"
    low, high = median_range(times[key_of(cell), "packet"])
    return "missed, in range" if low <= statistics.median(times[key_of(cell), "relay"]) <= high else "missed"


def describe(cell, times):
    low, high = median_range(times[key_of(cell), "packet"])
    theirs, ours = (statistics.median(times[key_of(cell), engine]) for engine in ["packet", "relay"])
    return f"{name_of(cell)}: packet {theirs:.3f} s ({low:.3f} to {high:.3f}), relay {ours:.3f} s, {ours / theirs - 1:+.1%}"


def report(rows, everything):
    times = samples(rows)
    verdicts = ["met", "missed, in range", "missed", "not run", "left out"]
    classes = {}
    for cell in all_cells():
        verdict = judge(cell, times)
        classes.setdefault(f"{cell['congestion']} {cell['mb']} MB, loss {cell['loss']:g}", []).append((cell, verdict))
        if verdict in verdicts[1:3] or (everything and verdict == "met"):
            print(f"{verdict}: {describe(cell, times)}")
    classes["all"] = sum(classes.values(), [])
    print("\n| class | " + " | ".join(verdicts) + " | virtual engine |\n" + "|---" * (len(verdicts) + 2) + "|")
    for name, of_class in classes.items():
        counts = [str(sum(verdict == each for _, verdict in of_class)) for each in verdicts]
        print(f"| {name} | " + " | ".join(counts) + f" | {virtual_within(of_class, times)} |")
    report_virtual(times)


def virtual_within(of_class, times):
    """The virtual engine runs the relay's model: it says how good that is where the relay was not run, too."""
    offs = [(cell, off_by(cell, times, "virtual", "packet")) for cell, _ in of_class]
    compared = [abs(off) <= allowed(cell) for cell, off in offs if off is not None]
    return f"{sum(compared)} of {len(compared)}"


def report_virtual(times):
    offs = {name_of(cell): off_by(cell, times, "virtual", "relay") for cell in all_cells()}
    compared = {name: off for name, off in offs.items() if off is not None}
    missed = {name: off for name, off in compared.items() if abs(off) > 0.05}
    print(f"\nvirtual within 5 % of relay: {len(compared) - len(missed)} of {len(compared)} cells")
    for name, off in missed.items():
        print(f"  {name}: {off:+.1%}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("causeway")
    parser.add_argument("results", type=pathlib.Path, nargs="+", help="the first is written; all are read")
    parser.add_argument("--engines", type=lambda text: text.split(","), default=list(ENGINES))
    parser.add_argument("--jobs", type=int, default=1, help="samples side by side")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin nothing after so long")
    parser.add_argument("--only", help="cells whose name has this regular expression, such as 'cubic 32 MB loss 0 80 ms'")
    parser.add_argument("--hold", type=pathlib.Path, help="begin nothing while this file exists")
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--everything", action="store_true", help="report every cell, not only the missed ones")
    flags = parser.parse_args()
    if not flags.report:
        run_all(flags)
    report(load(flags.results), flags.everything)


if __name__ == "__main__":
    main()
