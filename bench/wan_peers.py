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
import contextlib
import json
import os
import pathlib
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

import wan_ends

ENDS = [sys.executable, "-S", str(pathlib.Path(wan_ends.__file__).resolve())]
RATES_MBIT_S = (10, 100, 1000)
RATE_RTT_MS = 20
RATE_S = 3
RTTS_MS = {20: 300, 80: 100}  # round trip: how often
DELAY_RATE_MBIT_S = 100
FAST_MBIT_S = 1000
CONNECTIONS = 3000
FILES_SOFT, FILES_HARD = 1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]
HELD = min(10_000, FILES_HARD // 2 - 50)  # a relay has two descriptors for each
START_S = 30
TICKS = os.sysconf("SC_CLK_TCK")


class NotHere(Exception):
    """Why a tool cannot be measured."""


# ---- Processes ----

def as_a_tool():
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES_SOFT, FILES_HARD))
    wan_ends.hurry()


def as_an_end():
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES_HARD, FILES_HARD))


def stat_of(pid):
    """What follows the name in /proc/PID/stat."""
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return None


def cpu_s(pids):
    stats = [stat_of(pid) for pid in pids]
    return sum(int(stat[11]) + int(stat[12]) for stat in stats if stat) / TICKS


def memory_kib(pids):
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1))
    return total


def descendants(root):
    children = collections.defaultdict(list)
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and (stat := stat_of(entry.name)):
            children[int(stat[1])].append(int(entry.name))
    found = [root]
    for pid in found:
        found += children[pid]
    return found


def name_of(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


@contextlib.contextmanager
def running(command, preexec=as_a_tool, **more):
    child = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=preexec, **more)
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        child.stdin.close()


def read_until(child, pattern):
    text = ""
    for line in child.stdout:
        text += line
        if re.search(pattern, line):
            return text
    raise NotHere(text.strip() or "it ended at once")


def drain(child):
    """Reads on, so that no tool stops at a full pipe."""
    threading.Thread(target=lambda: collections.deque(child.stdout, 0), daemon=True).start()


def run(*command):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise NotHere(done.stdout.strip().splitlines()[-1] if done.stdout.strip() else " ".join(map(str, command)))


# ---- The tools ----

class Way:
    """How a client reaches the server through a tool, and whose CPU that costs. `client`: what stands before its command."""

    def __init__(self, server, host, port, pids=(), client=(), client_tools=()):
        self.server, self.host, self.port = server, host, port
        self.client, self.pids, self.client_tools = list(client), list(pids), client_tools

    def tools(self, client):
        """Processes of the tool, with those that only live as long as a client."""
        return self.pids + [pid for pid in descendants(client.pid) if name_of(pid) in self.client_tools]


@contextlib.contextmanager
def server(host="127.0.0.1", inside=(), hurry=False):
    words = [*inside, *ENDS, "serve", host] + (["hurry"] if hurry else [])
    with running(words, as_an_end) as child:
        yield child, int(child.stdout.readline())


class Tool:
    overhead = 1  # bytes that it counts for each byte of a stream
    delays = True

    def __init__(self, flags):
        self.causeway, self.peers = flags.causeway, flags.peers


class Nothing(Tool):
    name = "none"
    delays = False

    @contextlib.contextmanager
    def open(self, rate_mbit_s, rtt_ms, hurry):
        with server(hurry=hurry) as (child, port):
            yield Way(child, "127.0.0.1", port)


class Ours(Tool):
    def scenario(self, directory, regions, rate_mbit_s, rtt_ms):
        file = pathlib.Path(directory) / "wan.toml"
        file.write_text(f"regions = {regions}\n[defaults]\nrtt_ms = {rtt_ms}\nrate_mbit_s = {rate_mbit_s}\n")
        return file


class Relay(Ours):
    name = "wan-sim relay"

    @contextlib.contextmanager
    def open(self, rate_mbit_s, rtt_ms, hurry):
        with tempfile.TemporaryDirectory() as directory, server(hurry=hurry) as (child, port):
            file = self.scenario(directory, ["a", "b"], rate_mbit_s, rtt_ms)
            with running([self.causeway, "wan-sim", file, "--map", f"a:b=127.0.0.1:{port}"], stderr=subprocess.STDOUT) as wan:
                said = read_until(wan, "Ctrl-C")
                drain(wan)
                yield Way(child, "127.0.0.1", int(re.search(r"dial 127\.0\.0\.1:(\d+)", said).group(1)), [wan.pid])


class Packet(Ours):
    name = "wan-sim packet"

    @contextlib.contextmanager
    def open(self, rate_mbit_s, rtt_ms, hurry):
        regions = [f"{end}{os.getpid()}" for end in "ab"]
        near, far = (["ip", "netns", "exec", f"causeway-{region}"] for region in regions)
        with tempfile.TemporaryDirectory() as directory:
            file = self.scenario(directory, regions, rate_mbit_s, rtt_ms)
            with running([self.causeway, "wan-sim", file, "--engine", "packet"], stderr=subprocess.STDOUT) as wan:
                read_until(wan, f"^{regions[1]} ")
                drain(wan)
                with server("198.18.0.2", far, hurry) as (child, port):
                    yield Way(child, "198.18.0.2", port, [wan.pid], near)


class Toxiproxy(Tool):
    name = "toxiproxy"

    def ask(self, url, body):
        request = urllib.request.Request(url, json.dumps(body).encode(), {"User-Agent": "bench"})
        end = time.monotonic() + START_S
        while True:
            try:
                with urllib.request.urlopen(request) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as refusal:
                raise NotHere(refusal.read().decode()) from None
            except OSError:
                if time.monotonic() > end:
                    raise NotHere(f"{url} does not answer") from None
                time.sleep(0.01)

    @contextlib.contextmanager
    def open(self, rate_mbit_s, rtt_ms, hurry):
        program = self.peers and self.peers / "toxiproxy-server"
        if not program or not program.exists():
            raise NotHere("no toxiproxy-server in --peers")
        with wan_ends.socket.create_server(("127.0.0.1", 0)) as probe:
            api = probe.getsockname()[1]
        with server(hurry=hurry) as (child, port), running([program, "-host", "127.0.0.1", "-port", api], stderr=subprocess.DEVNULL) as proxy:
            drain(proxy)
            url = f"http://127.0.0.1:{api}/proxies"
            made = self.ask(url, {"name": "wan", "listen": "127.0.0.1:0", "upstream": f"127.0.0.1:{port}", "enabled": True})
            for stream in ("upstream", "downstream"):
                self.ask(f"{url}/wan/toxics", {"type": "latency", "stream": stream, "attributes": {"latency": rtt_ms // 2}})
                self.ask(f"{url}/wan/toxics", {"type": "bandwidth", "stream": stream, "attributes": {"rate": rate_mbit_s * 125}})
            yield Way(child, "127.0.0.1", int(made["listen"].rpartition(":")[2]), [proxy.pid])


class Mahimahi(Tool):
    name = "mahimahi"
    overhead = 1500 / 1448  # its opportunities are packets, with their IP and TCP headers

    def trace(self, directory, rate_mbit_s):
        """So many packets of 1500 bytes in 12 ms as there are Mbit/s."""
        file = pathlib.Path(directory) / "trace"
        file.write_text("".join(f"{-(-12 * (i + 1) // rate_mbit_s)}\n" for i in range(rate_mbit_s)))
        return file

    @contextlib.contextmanager
    def open(self, rate_mbit_s, rtt_ms, hurry):
        programs = [self.peers / name if self.peers and (self.peers / name).exists() else shutil.which(name) for name in ("mm-delay", "mm-link")]
        if not all(programs):
            raise NotHere("no mm-delay and mm-link in --peers")
        if pathlib.Path("/proc/sys/net/ipv4/ip_forward").read_text().strip() != "1":
            raise NotHere("wants sysctl net.ipv4.ip_forward=1")
        with tempfile.TemporaryDirectory() as directory, server("0.0.0.0", hurry=hurry) as (child, port):
            os.chmod(directory, 0o755)
            trace = self.trace(directory, rate_mbit_s)
            client = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", programs[0], rtt_ms // 2, programs[1], trace, trace, "--"]
            yield Way(child, "$MAHIMAHI_BASE", port, [], client, ("mm-delay", "mm-link"))


class Tc(Tool):
    name = "tc"
    overhead = 1514 / 1448

    def has_netem(self, inside):
        done = subprocess.run([*inside, "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"], capture_output=True, check=False)
        return done.returncode == 0

    @contextlib.contextmanager
    def namespaces(self):
        names = [f"tc-{end}-{os.getpid()}" for end in "ab"]
        try:
            for name in names:
                run("ip", "netns", "add", name)
                run("ip", "-n", name, "link", "set", "lo", "up")
            run("ip", "link", "add", "wan", "netns", names[0], "type", "veth", "peer", "name", "wan", "netns", names[1])
            for name, address in zip(names, ("198.18.1.1/24", "198.18.1.2/24")):
                run("ip", "-n", name, "addr", "add", address, "dev", "wan")
                run("ip", "-n", name, "link", "set", "wan", "up")
            yield names
        finally:
            for name in names:
                subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    @contextlib.contextmanager
    def open(self, rate_mbit_s, rtt_ms, hurry):
        with self.namespaces() as names:
            near, far = (["ip", "netns", "exec", name] for name in names)
            self.delays = self.has_netem(near)
            for inside in (near, far):
                tc = [*inside, "tc", "qdisc", "add", "dev", "wan"]
                place = ["root"]
                if self.delays:
                    run(*tc, "root", "handle", "1:", "netem", "delay", f"{rtt_ms / 2}ms", "limit", 100_000)
                    place = ["parent", "1:1"]
                # tbf wants as much as comes in a tick of the kernel's clock; 4 ms here at most.
                run(*tc, *place, "tbf", "rate", f"{rate_mbit_s}mbit", "burst", max(16_000, rate_mbit_s * 500), "latency", "100ms")
            with server("198.18.1.2", far, hurry) as (child, port):
                yield Way(child, "198.18.1.2", port, [], near)


TOOLS = [Nothing, Relay, Packet, Toxiproxy, Mahimahi, Tc]


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
