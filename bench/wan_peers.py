"""Our relay and packet engine beside other programs that put a WAN between programs on one host, measured in one run.

    sudo python3 bench/wan_peers.py PATH/TO/causeway [--peers DIRECTORY] [--rounds 3] [--only rate,delay,connect,hold] [--json FILE]

The peers, each left out with the reason where it is not there:

- toxiproxy: DIRECTORY/toxiproxy-server. Version 2.1.4 has all that it needs in its repository, and Debian's golang-go builds it: with its tree
  in GOPATH/src/github.com/Shopify/toxiproxy, `GO111MODULE=off go build -o toxiproxy-server ./cmd`.
- mahimahi: mm-link and mm-delay of DIRECTORY, setuid root, which `make install` makes them; wants net.ipv4.ip_forward=1. It runs as `nobody`.
- tc: tbf between two network namespaces; with netem where the kernel has it.

Each round takes all tools in turn for one thing before it begins with the next. What is told is the median of the rounds. Exactness of a rate:
the last two thirds of three seconds of data over one connection with a round trip of 20 ms, one direction after the other; the worse one
counts, against what a tool promises (bytes of the stream; or of packets, of which a stream is less). Of a delay: a byte there and back.
CPU: what the tool's processes used, for all bits of both directions; "with ends" adds both ends, which is where the kernel works for tc
and for the packet engine's cables. The ends, bench/wan_ends.py, are the same for all, and so is the line "none": no tool at all.
Tools start with a soft limit of 1,024 open files, as a shell gives it, and the hard one that there is; 10,000 connections are held, or as many
as that allows a relay, which has two descriptors for each. As root all tools run in real time, as our relay
sets itself. The ends take two cores: with more work beside them, see what "none" says.
"""
import argparse
import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys

from wan_tools import ENDS, FILES_HARD, NotHere, TOOLS, as_an_end, cpu_s, descendants, memory_kib, read_until, running

RATES_MBIT_S = (10, 100, 1000)
RATE_RTT_MS = 20
RATE_S = 3
RTTS_MS = {20: 300, 80: 100}  # round trip: how often
DELAY_RATE_MBIT_S = 100
FAST_MBIT_S = 1000
CONNECTIONS = 3000
HELD = min(10_000, FILES_HARD // 2 - 50)  # a relay has two descriptors for each


# ---- What is measured ----

class Client:
    """A run of wan_ends.py through a tool: what it says, and what that cost."""

    def __init__(self, way, *command):
        self.way = way
        self.words = [*way.client, *ENDS, command[0], way.host, way.port, *command[1:]]

    def __enter__(self):
        self.context = running(self.words, as_an_end)
        self.child = self.context.__enter__()
        read_until(self.child, "^ready")
        self.before, self.memory_before = self.spent(), memory_kib(self.way.tools(self.child))
        self.child.stdin.write("\n")
        self.child.stdin.flush()
        self.said = json.loads(read_until(self.child, r"^\{").splitlines()[-1])
        tool, ends = self.spent()
        self.tool_s, self.ends_s = tool - self.before[0], ends - self.before[1]
        self.memory_kib = memory_kib(self.way.tools(self.child)) - self.memory_before
        return self

    def spent(self):
        tools = self.way.tools(self.child)
        ends = [pid for pid in descendants(self.child.pid) if pid not in tools]
        return cpu_s(tools), cpu_s([*ends, *descendants(self.way.server.pid)])

    def __exit__(self, *failure):
        self.child.stdin.write("\n")
        self.child.stdin.flush()
        self.child.wait(20)
        self.context.__exit__(*failure)


def measure_rate(tool):
    rows = {}
    for rate in RATES_MBIT_S:
        count = int(rate * 1e6 / 8 * RATE_S)
        errors, tool_s, ends_s = [], 0, 0
        with tool.open(rate, RATE_RTT_MS, hurry=True) as way:
            for direction in ("up", "down"):
                with Client(way, "rate", count, direction) as client:
                    errors.append(client.said["mbit_s"] * tool.overhead / rate - 1)
                    tool_s += client.tool_s
                    ends_s += client.ends_s
        gbit = 2 * count * 8e-9
        rows[f"{rate} Mbit/s off by, %"] = 100 * max(errors, key=abs)
        rows[f"{rate} Mbit/s CPU s/Gbit"] = tool_s / gbit
        rows[f"{rate} Mbit/s CPU s/Gbit with ends"] = (tool_s + ends_s) / gbit
    return rows


def measure_delay(tool):
    rows = {}
    for rtt, count in RTTS_MS.items():
        with tool.open(DELAY_RATE_MBIT_S, rtt, hurry=True) as way:
            with Client(way, "ping", count) as client:
                times = sorted(client.said["rtt_ms"])
        set_ms = rtt if tool.delays else 0
        rows[f"{rtt} ms: median more, ms"] = statistics.median(times) - set_ms
        rows[f"{rtt} ms: p99 more, ms"] = times[int(0.99 * (len(times) - 1))] - set_ms
    return rows


def measure_connect(tool):
    with tool.open(FAST_MBIT_S, 0, hurry=False) as way:
        with Client(way, "connect", CONNECTIONS) as client:
            said = client.said
            return {"connections/s": said["connections_per_s"], "of which failed": sum(said["failed"].values()),
                    "CPU ms/connection": 1000 * client.tool_s / max(1, said["done"])}


def measure_hold(tool):
    with tool.open(FAST_MBIT_S, 0, hurry=False) as way:
        with Client(way, "hold", HELD) as client:
            said = client.said
            for why, times in said["failed"].items():
                print(f"{tool.name}: {times} of {HELD} connections: {why}", file=sys.stderr)
            return {"opened": said["opened"], "all opened after, s": said["open_s"], "then answered": said["answered"],
                    "all answered after, s": said["all_s"], "KiB/connection": client.memory_kib / max(1, said["opened"])}


MEASURES = {"rate": measure_rate, "delay": measure_delay, "connect": measure_connect, "hold": measure_hold}
NOT_OF_NOTHING = {"rate"}  # no rate is set


# ---- All of it ----

def measure_all(flags):
    """{measure: {tool: {figure: [one for each round]}}}, and why tools are left out."""
    tools = [tool(flags) for tool in TOOLS if not flags.tools or tool.name in flags.tools]
    figures = collections.defaultdict(lambda: collections.defaultdict(lambda: collections.defaultdict(list)))
    left_out = {}
    for round_, (name, measure) in ((round_, one) for round_ in range(flags.rounds) for one in MEASURES.items() if one[0] in flags.only):
        for tool in tools:
            if (tool.name, name) in left_out or (name in NOT_OF_NOTHING and tool.name == "none"):
                continue
            print(f"round {round_ + 1}: {name}, {tool.name}", file=sys.stderr, flush=True)
            try:
                for figure, value in measure(tool).items():
                    figures[name][tool.name][figure].append(value)
            except (NotHere, OSError, subprocess.TimeoutExpired) as problem:
                left_out[tool.name, name] = str(problem)
            if name == "delay" and not tool.delays and tool.name == "tc":
                left_out[tool.name, name] = "no netem in this kernel; told is tbf without a delay"
    return figures, left_out


def digits(value):
    if isinstance(value, int):
        return f"{value:,}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def report(figures, left_out):
    for name, by_tool in figures.items():
        titles = list(next(iter(by_tool.values())))
        print(f"\n**{name}**\n\n| | " + " | ".join(titles) + " |\n" + "|---" * (len(titles) + 1) + "|")
        for tool, values in by_tool.items():
            print(f"| {tool} | " + " | ".join(digits(statistics.median(values[title])) for title in titles) + " |")
    if left_out:
        print("\nLeft out:\n")
    for (tool, name), why in left_out.items():
        print(f"- {tool}, {name}: {why}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("causeway")
    parser.add_argument("--peers", type=pathlib.Path, help="where toxiproxy-server, mm-delay and mm-link are")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(MEASURES))
    parser.add_argument("--tools", type=lambda text: text.split(","), help="names as in the tables; all otherwise")
    parser.add_argument("--json", type=pathlib.Path, help="every figure of every round")
    flags = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench/wan_peers.py: network namespaces, limits and real time want root: use sudo")
    figures, left_out = measure_all(flags)
    if flags.json:
        flags.json.write_text(json.dumps(figures, indent=1))
    report(figures, left_out)


if __name__ == "__main__":
    main()
