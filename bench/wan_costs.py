"""What it costs to watch a WAN: CPU time of `causeway wan-sim` for each gigabit that it carries, with --http and with --pcap.

    sudo python3 bench/wan_costs.py PATH/TO/causeway [--mb 150] [--rate 300] [--rounds 5]

One TCP connection over 20 ms round trip, all variants in turn. "http": whoever has the page open asks for /links and /verdict once a second.
"pcap": whole packets; "pcap 96": the first 96 bytes of each. The figure is CPU time of all the program's threads, kernel time included, over the bits
of the transfer: seconds for each Gbit, which is the share of a core at 1 Gbit/s. Median and range. Root, so that ends and engine keep time on a busy
machine (bench/transfer_ends.py).
"""
import argparse
import json
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import urllib.request

import transfer_ends
from relay_versus_packet import read_until

ENDS = [sys.executable, "-S", str(pathlib.Path(transfer_ends.__file__).resolve())]
PORT = 7000  # nobody else is in a region's network
VARIANTS = {"plain": [], "http": ["--http", "0"], "pcap": ["--pcap", "packets"], "pcap 96": ["--pcap", "packets", "--pcap-snap", "96"]}
ENGINES = {"packet": list(VARIANTS), "relay": ["plain", "http"]}


def cpu_s(process):
    """Of all threads that live; to the nanosecond, unlike /proc/PID/stat."""
    tasks = pathlib.Path(f"/proc/{process.pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


class Page(threading.Thread):
    """As a browser with the page open."""

    def __init__(self, url):
        super().__init__(daemon=True)
        self.url = url
        self.over = threading.Event()

    def run(self):
        while not self.over.wait(1):
            for path in ("/links", "/verdict"):
                with urllib.request.urlopen(self.url + path, timeout=30) as answer:
                    json.load(answer)


def transfer(said, engine, megabytes):
    """The seconds that it takes; `said`: what the WAN printed."""
    inside = {"eu": [], "us": []}
    if engine == "packet":
        inside = {region: shlex.split(re.search(rf"^{region}  .*enter with: (.*) COMMAND$", said, flags=re.M).group(1)) for region in inside}
    server = subprocess.Popen([*inside["us"], *ENDS, "serve", str(PORT)], stdout=subprocess.PIPE, text=True)
    try:
        server.stdout.readline()
        dial = re.search(r"dial 127\.0\.0\.1:(\d+)", said)
        host, port = ("127.0.0.1", dial.group(1)) if dial else ("198.18.0.2", str(PORT))
        out = subprocess.run([*inside["eu"], *ENDS, "send", host, port, str(megabytes * 1_000_000), "1", "cold"], stdout=subprocess.PIPE, text=True,
                             check=True).stdout
        return float(out)
    finally:
        server.kill()
        server.wait()


def sample(flags, engine, variant, directory):
    words = [flags.causeway, "wan-sim", directory / "wan.toml", "--engine", engine, *VARIANTS[variant]]
    words += ["--unnamed"] if engine == "packet" else ["--map", f"eu:us=127.0.0.1:{PORT}"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=directory) as wan:
        try:
            said = read_until(wan.stdout, "Ctrl-C")
            url = re.search(r"^(http://\S+)", said, flags=re.M)
            page = Page(url.group(1)) if url else None
            before = cpu_s(wan)
            if page:
                page.start()
            seconds = transfer(said, engine, flags.mb)
            used = cpu_s(wan) - before
            if page:
                page.over.set()
                page.join()
        finally:
            wan.terminate()
        verdict = wan.stdout.read().splitlines()[-1]
    return used / (flags.mb * 8 / 1000), flags.mb * 8 / seconds, verdict.startswith("valid")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("causeway", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--mb", type=int, default=150)
    parser.add_argument("--rate", type=float, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    flags = parser.parse_args()
    rows = {(engine, variant): [] for engine, variants in ENGINES.items() for variant in variants}
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        (directory / "wan.toml").write_text(
            f'regions = ["eu", "us"]\n[defaults]\nrtt_ms = 20\nrate_mbit_s = {flags.rate}\nqueue_ms = 100\ncongestion = "cubic"\n')
        for _ in range(flags.rounds):
            for key, samples in rows.items():
                samples.append(sample(flags, *key, directory))
                print(*key, *samples[-1], file=sys.stderr, flush=True)
    print("| engine | watched by | CPU s for each Gbit | Mbit/s | valid |\n|---|---|---|---|---|")
    for (engine, variant), samples in rows.items():
        costs, rates, valid = zip(*samples)
        print(f"| {engine} | {variant} | {statistics.median(costs):.3f} ({min(costs):.3f} to {max(costs):.3f}) | "
              f"{statistics.median(rates):.0f} | {sum(valid)} of {len(valid)} |")


if __name__ == "__main__":
    main()
