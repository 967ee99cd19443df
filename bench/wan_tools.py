"""The tools that bench/wan_peers.py measures, each put between a server and a client, and the processes of which they consist."""
import collections
import contextlib
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

import wan_ends

ENDS = [sys.executable, "-S", str(pathlib.Path(wan_ends.__file__).resolve())]
FILES_SOFT, FILES_HARD = 1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]
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
