"""The relay's model of TCP against the kernel's TCP in the packet engine, cell by cell; and the virtual engine.

    sudo python3 bench/relay_versus_packet.py PATH/TO/causeway RESULTS.jsonl [--cells small|all] [--minutes N]

Resumable: a cell whose line is in RESULTS.jsonl is not run again. A time is from connect() (cold) or the first write (warm, after
3 s idle) until the receiver's one-byte answer to the last byte. Lossy cells are medians over seeds: 20 at 1 MB, 5 at others.
--report prints the table of what RESULTS.jsonl holds. Root, because of the namespaces' names.
"""
import argparse
import itertools
import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

RATE_MBIT_S = 100
QUEUE_MS = 100
IDLE_S = 3
CELL_SECONDS_MAX = 60
MB = 1_000_000


def cells(kind):
    sizes = [1, 32, 256] if kind == "all" else [1, 32]
    rtts = [20, 80, 200] if kind == "all" else [20, 80]
    for congestion, size, loss, rtt, connections, state in itertools.product(
            ["cubic", "bbr"], sizes, [0, 1e-4, 1e-3], rtts, [1, 8], ["cold", "warm", "idle"]):
        yield dict(congestion=congestion, mb=size, loss=loss, rtt_ms=rtt, connections=connections, state=state)


def predicted_s(cell):
    """Mathis' law for CUBIC under loss; the rate otherwise; and a few round trips."""
    rtt = cell["rtt_ms"] / 1000
    rate = RATE_MBIT_S * 1e6 / 8
    if cell["loss"] and cell["congestion"] == "cubic":
        rate = min(rate, cell["connections"] * 1448 * 1.22 / rtt / cell["loss"] ** 0.5)
    return cell["mb"] * MB / rate + 10 * rtt


def scenario(cell, seed):
    return (f"regions = ['a', 'b']\nseed = {seed}\nlateness_max_ms = 5\n[defaults]\nrtt_ms = {cell['rtt_ms']}\n"
            f"rate_mbit_s = {RATE_MBIT_S}\nqueue_ms = {QUEUE_MS}\ncongestion = '{cell['congestion']}'\nloss = {cell['loss']:.6f}\n"
            )


# ---- The two ends, run as processes of their own: `serve PORT`, `send HOST PORT BYTES CONNECTIONS STATE` ----

def serve(port):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("", port))
    listener.listen(64)
    print(listener.getsockname()[1], flush=True)

    def answer(connection):
        try:
            answer_each(connection)
        except ConnectionError:  # the sender is through
            pass

    def answer_each(connection):
        buffer = bytearray(1 << 18)
        while True:
            head = connection.recv(8, socket.MSG_WAITALL)
            if len(head) < 8:
                return
            left = int.from_bytes(head, "big")
            while left:
                got = connection.recv_into(buffer, min(left, len(buffer)))
                if not got:
                    return
                left -= got
            connection.sendall(b"k")

    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


def transfer(connections, total):
    share = total // len(connections)
    block = bytes(1 << 18)

    def one(connection):
        connection.sendall(share.to_bytes(8, "big"))
        left = share
        while left:
            left -= connection.send(block[:min(left, len(block))])
        connection.recv(1)

    threads = [threading.Thread(target=one, args=(c,)) for c in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def connect(host, port, count):
    """All at once: one after the other would cost a round trip each."""
    connections = []
    threads = [threading.Thread(target=lambda: connections.append(socket.create_connection((host, port)))) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return connections


def send(host, port, total, count, state):
    begin = time.monotonic()
    connections = connect(host, port, count)
    for connection in connections:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if state != "cold":
        transfer(connections, 8 * MB)
        if state == "idle":
            time.sleep(IDLE_S)
        begin = time.monotonic()
    transfer(connections, total)
    print(time.monotonic() - begin, flush=True)


# ---- One cell through each engine ----

ME = [sys.executable, str(pathlib.Path(__file__).resolve())]


def sender_arguments(host, port, cell):
    return ["send", host, str(port), str(cell["mb"] * MB), str(cell["connections"]), cell["state"]]


def read_until(stream, pattern):
    text = ""
    for line in stream:
        text += line
        if re.search(pattern, line):
            return text
    raise RuntimeError(f"the WAN ended: {text}")


def finish(wan):
    wan.terminate()
    out = wan.communicate(timeout=10)[0]
    return "INVALID" not in out


def by_relay(causeway, file, cell):
    server = subprocess.Popen(ME + ["serve", "0"], stdout=subprocess.PIPE, text=True)
    wan = None
    try:
        port = int(server.stdout.readline())
        wan = subprocess.Popen([causeway, "wan-sim", file, "--map", f"a:b=127.0.0.1:{port}"], stdout=subprocess.PIPE, text=True)
        text = read_until(wan.stdout, "Ctrl-C")
        dial = int(re.search(r"dial 127\.0\.0\.1:(\d+)", text).group(1))
        seconds = float(subprocess.run(ME + sender_arguments("127.0.0.1", dial, cell), capture_output=True, text=True,
                                       timeout=5 * CELL_SECONDS_MAX, check=True).stdout)
        valid = finish(wan)
        return seconds, valid
    finally:
        server.kill()
        if wan:
            wan.kill()


def by_packet(causeway, file, cell):
    wan = subprocess.Popen([causeway, "wan-sim", file, "--engine", "packet"], stdout=subprocess.PIPE, text=True)
    server = None
    try:
        read_until(wan.stdout, r"^b ")
        inside = ["ip", "netns", "exec"]
        server = subprocess.Popen(inside + ["causeway-b"] + ME + ["serve", "7000"], stdout=subprocess.PIPE, text=True)
        server.stdout.readline()
        seconds = float(subprocess.run(inside + ["causeway-a"] + ME + sender_arguments("198.18.0.2", 7000, cell),
                                       capture_output=True, text=True, timeout=5 * CELL_SECONDS_MAX, check=True).stdout)
        return seconds, finish(wan)
    finally:
        if server:
            server.kill()
        wan.kill() if wan.poll() is not None else (wan.terminate(), wan.wait(10))


def by_virtual(causeway, file, cell):
    total = f"a:b={cell['mb'] * MB}x{cell['connections']}"
    before = [] if cell["state"] == "cold" else ["--transfer", f"a:b={8 * MB}x{cell['connections']}"]
    idle = IDLE_S if cell["state"] == "idle" else cell["rtt_ms"] / 2000
    out = subprocess.run([causeway, "wan-sim", file, "--engine", "virtual", *before, "--transfer", total, "--idle", str(idle)],
                         capture_output=True, text=True, check=True).stdout
    return float(re.findall(r": ([\d.]+) s,", out)[-1]) + cell["rtt_ms"] / 2000


def run_cell(causeway, cell):
    seeds = 1 if not cell["loss"] else 20 if cell["mb"] == 1 else 5
    times = {"relay": [], "packet": [], "virtual": []}
    invalid = 0
    with tempfile.TemporaryDirectory() as directory:
        for seed in range(1, seeds + 1):
            file = os.path.join(directory, "cell.toml")
            pathlib.Path(file).write_text(scenario(cell, seed))
            for name, engine in [("relay", by_relay), ("packet", by_packet)]:
                seconds, valid = engine(causeway, file, cell)
                times[name].append(seconds)
                invalid += not valid
            times["virtual"].append(by_virtual(causeway, file, cell))
    medians = {name: statistics.median(values) for name, values in times.items()}
    return dict(cell, **medians, seeds=seeds, invalid=invalid,
                relay_to_packet=medians["relay"] / medians["packet"] - 1,
                virtual_to_relay=medians["virtual"] / medians["relay"] - 1)


def key_of(cell):
    return tuple(cell[name] for name in ["congestion", "mb", "loss", "rtt_ms", "connections", "state"])


def report(results):
    missed = 0
    for row in results:
        allowed = 0.20 if row["loss"] else 0.10
        miss = abs(row["relay_to_packet"]) > allowed
        missed += miss
        print(f"{row['congestion']:5} {row['mb']:3} MB loss {row['loss']:<6g} {row['rtt_ms']:3} ms x{row['connections']} {row['state']:4}  "
              f"packet {row['packet']:8.3f} s  relay {row['relay']:8.3f} s {row['relay_to_packet']:+7.1%}{' MISSED' if miss else ''}  "
              f"virtual {row['virtual']:8.3f} s {row['virtual_to_relay']:+7.1%}{'  invalid ' + str(row['invalid']) if row['invalid'] else ''}")
    print(f"{len(results)} cells, {missed} missed; virtual beyond 5 % of relay: "
          f"{sum(abs(r['virtual_to_relay']) > 0.05 for r in results)}")


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "serve":
        return serve(int(sys.argv[2]))
    if len(sys.argv) > 1 and sys.argv[1] == "send":
        return send(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]), sys.argv[6])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("causeway")
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--cells", choices=["small", "all"], default="all")
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--lossless", action="store_true", help="only cells without loss")
    parser.add_argument("--report", action="store_true", help="run nothing")
    flags = parser.parse_args()
    done = []
    if flags.results.exists():
        done = [json.loads(line) for line in flags.results.read_text().splitlines()]
    if flags.report:
        return report(done)
    known = {key_of(row) for row in done}
    end = time.monotonic() + 60 * flags.minutes
    for cell in cells(flags.cells):
        if key_of(cell) in known or predicted_s(cell) > CELL_SECONDS_MAX or (flags.lossless and cell["loss"]):
            continue
        if time.monotonic() > end:
            break
        row = run_cell(flags.causeway, cell)
        done.append(row)
        with flags.results.open("a") as file:
            file.write(json.dumps(row) + "\n")
        report([row])
    report(done)


if __name__ == "__main__":
    main()
