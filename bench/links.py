"""Rows 1, 2 and 3 of the link benchmarks: our links beside a plain TCP socket (and iperf3), in network namespaces.

    sudo python3 bench/links.py PATH/TO/causeway PATH/TO/bench_links RESULTS.jsonl [--rows 1,2,3,loss] [--only TEXT] [--times N]

Row 1 shapes a veth pair with the kernel's token bucket; the others use the packet engine of `causeway wan-sim`. Peer and ours take turns.
A case in which the packet engine declares itself late (INVALID) is marked so.
"""
import argparse
import contextlib
import json
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

MB = 1_000_000
PORT = 7400


def scenario(rate_mbit_s, rtt_ms, loss=0.0, queue_ms=100):
    return (f"regions = ['a', 'b']\nseed = 1\nlateness_max_ms = 20\n[defaults]\nrtt_ms = {rtt_ms}\nrate_mbit_s = {rate_mbit_s}\n"
            f"queue_ms = {queue_ms}\nloss = {loss:.6f}\n")


class Wan:
    """Namespaces causeway-a and causeway-b with the packet engine between them; the address of b."""

    def __init__(self, causeway, text):
        self.directory = tempfile.TemporaryDirectory()
        path = pathlib.Path(self.directory.name) / "wan.toml"
        path.write_text(text)
        self.process = subprocess.Popen([causeway, "wan-sim", path, "--engine", "packet"], stdout=subprocess.PIPE, text=True)
        self.addresses = {}
        while len(self.addresses) < 2:
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit("the packet engine did not start")
            if match := re.match(r"(\w+)\s+(\d+\.\d+\.\d+\.\d+)", line):
                self.addresses[match[1]] = match[2]

    def command(self, region, *words):
        return ["ip", "netns", "exec", f"causeway-{region}", *map(str, words)]

    def close(self):
        self.process.send_signal(2)
        rest = self.process.communicate(timeout=60)[0]
        self.directory.cleanup()
        return "INVALID" not in rest


class Veth:
    """Two namespaces joined by a pair of veths under a token bucket."""

    addresses = {"b": "198.18.9.2"}

    def __init__(self, rate_mbit_s):
        run = lambda line: subprocess.run(line.split(), check=True)
        for name in "ab":
            run(f"ip netns add bench-{name}")
        run("ip link add va netns bench-a type veth peer name vb netns bench-b")
        for name, last in (("a", 1), ("b", 2)):
            inside = f"ip netns exec bench-{name} "
            run(inside + f"ip address add 198.18.9.{last}/24 dev v{name}")
            run(inside + f"ip link set v{name} up")
            run(inside + f"tc qdisc add dev v{name} root tbf rate {rate_mbit_s}mbit burst 256kb latency 50ms")

    def command(self, region, *words):
        return ["ip", "netns", "exec", f"bench-{region}", *map(str, words)]

    def close(self):
        for name in "ab":
            subprocess.run(["ip", "netns", "delete", f"bench-{name}"], check=True)
        return True


@contextlib.contextmanager
def serving(command):
    server = subprocess.Popen(command)
    time.sleep(0.5)
    try:
        yield
    finally:
        server.terminate()
        server.wait()


def lines(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise SystemExit(f"{command}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]  # the others are logs


def ours(wan, bench, directory, size, times, idle_s, connections, congestion, port):
    spools = [tempfile.mkdtemp(dir=directory) for _ in range(2)]
    with serving(wan.command("b", bench, "serve", directory / "pki", spools[0], port, congestion)):
        return lines(wan.command("a", bench, "push", directory / "pki", spools[1], wan.addresses["b"], port, size, times, idle_s,
                                 connections, congestion))


def plain(wan, bench, size, times, idle_s, congestion, port):
    with serving(wan.command("b", bench, "tcp-serve", port)):
        return lines(wan.command("a", bench, "tcp-push", wan.addresses["b"], port, size, times, idle_s, congestion))


def slow_start_after_idle(wan, value):
    for region in "ab":
        subprocess.run(wan.command(region, "sysctl", "-qw", f"net.ipv4.tcp_slow_start_after_idle={value}"), check=True)


def report(out, row, case, ideal_s, figures, valid):
    """`figures` is {who: [transfer...]}; the first transfer of each is cold and left out."""
    result = dict(row=row, case=case, ideal_s=round(ideal_s, 4), valid=valid)
    for who, transfers in figures.items():
        seconds = [transfer["seconds"] for transfer in transfers[1:]]
        result[who] = dict(median_s=statistics.median(seconds), min_s=min(seconds), max_s=max(seconds),
                           of_ideal=round(ideal_s / statistics.median(seconds), 3), last=transfers[-1])
    out.write(json.dumps(result) + "\n")
    out.flush()
    print(row, case, f"ideal {ideal_s:.3f} s" + ("" if valid else " INVALID"),
          *(f"| {who} {figure['median_s']:.3f} s = {figure['of_ideal']:.2f}" for who, figure in result.items()
            if isinstance(figure, dict)))


def row_1(options, out, directory):
    for rate in (100, 1000, 5000):
        if options.only not in f"{rate} Mbit/s":
            continue
        size = min(rate, 1000) * MB
        wan = Veth(rate)
        try:
            with serving(wan.command("b", "iperf3", "-s", "-1")):
                text = subprocess.run(wan.command("a", "iperf3", "-c", wan.addresses["b"], "-t", "8", "-C", "bbr", "-J"),
                                      capture_output=True, text=True, check=True).stdout
            rate_bit_s = json.loads(text)["end"]["sum_received"]["bits_per_second"]
            transfers = ours(wan, options.bench, directory, size, 3, 1, 4, "bbr", PORT)
        finally:
            wan.close()
        report(out, 1, f"{rate} Mbit/s, against iperf3 -C bbr at {rate_bit_s / 1e6:.1f} Mbit/s", size * 8 / rate_bit_s,
               {"ours": transfers}, True)


def row_2(options, out, directory):
    rate, rtt_ms = 500, 80
    for size, (congestion, restart) in ((size, kind) for size in (32 * MB, 3 * MB)
                                        for kind in (("bbr", 1), ("cubic", 0), ("cubic", 1))):
        case = (f"{size // MB} MB after 3 s, {rate} Mbit/s, {rtt_ms} ms, {congestion}" + ("" if restart else " without restart"))
        if options.only not in case:
            continue
        wan = Wan(options.causeway, scenario(rate, rtt_ms))
        slow_start_after_idle(wan, restart)
        figures = {"plain cubic": [], "ours": []}
        figures["plain cubic"] = plain(wan, options.bench, size, options.times + 1, 3, "cubic", PORT)
        figures["ours"] = ours(wan, options.bench, directory, size, options.times + 3, 3, options.connections, congestion, PORT + 1)[2:]
        valid = wan.close()
        ideal_s = size * 8 / (rate * 1e6) + rtt_ms / 1000
        report(out, 2, case, ideal_s, figures, valid)


def row_3(options, out, directory):
    rate, rtt_ms, size = 100, 50, 64 * MB
    wan = Wan(options.causeway, scenario(rate, rtt_ms, loss=0.001))
    figures = {"plain cubic": plain(wan, options.bench, size // 4, 3, 1, "cubic", PORT)}
    for transfer in figures["plain cubic"]:
        transfer["seconds"] *= 4  # a quarter of the bytes: it is slow
    figures["plain bbr"] = plain(wan, options.bench, size, options.times, 1, "bbr", PORT + 1)
    for congestion in ("bbr", "cubic"):
        figures[f"ours {congestion}"] = ours(wan, options.bench, directory, size, options.times, 1, options.connections, congestion,
                                             PORT + 2 + len(congestion))
    valid = wan.close()
    report(out, 3, f"64 MB, {rate} Mbit/s, {rtt_ms} ms, 0.1 % loss", size * 8 / (rate * 1e6) + rtt_ms / 1000, figures, valid)


def row_loss(options, out, directory):
    """A path that loses at any rate: no limit on bursts may grow out of that."""
    rate, rtt_ms, size = 100, 20, 12 * MB
    wan = Wan(options.causeway, scenario(rate, rtt_ms, loss=0.01))
    figures = {f"ours {congestion}": ours(wan, options.bench, directory, size, options.times, 0.2, connections, congestion, PORT + connections)
               for congestion, connections in (("cubic", 16), ("bbr", 4))}
    report(out, "loss", f"12 MB, {rate} Mbit/s, {rtt_ms} ms, 1 % loss", size * 8 / (rate * 1e6) + rtt_ms / 1000, figures, wan.close())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("causeway")
    parser.add_argument("bench")
    parser.add_argument("results")
    parser.add_argument("--rows", default="1,2,3")
    parser.add_argument("--only", default="", help="of rows 1 and 2 the cases with this in their name")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--connections", type=int, default=0, help="0: what the mesh chooses")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name, open(options.results, "a") as out:
        directory = pathlib.Path(name)
        subprocess.run([options.bench, "pki", directory / "pki"], check=True)
        for row in options.rows.split(","):
            {"1": row_1, "2": row_2, "3": row_3, "loss": row_loss}[row](options, out, directory)


if __name__ == "__main__":
    main()
