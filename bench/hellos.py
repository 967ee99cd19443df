#!/usr/bin/env python3
"""TLS 1.3 hellos of strangers, and what they cost a run.

  hellos.py knock HOST:PORT [--group x25519] [--rate 100] [--seconds 10]   says hello and never finishes; prints the answers
  hellos.py rounds OUT [--turns 5] [--seconds 30] [--rate 100]   rounds/s of three regions on one box, with ffdhe8192 hellos
                                                                 at one's port, with X25519 ones, and without before and after

The hellos are bytes put together here: no TLS library, no certificate. CAUSEWAY names the program (default:
build-release/apps/causeway).
"""
import argparse
import collections
import json
import os
import pathlib
import select
import signal
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time

CAUSEWAY = os.environ.get("CAUSEWAY", "build-release/apps/causeway")
REGIONS = ("us-east", "eu-west", "ap-northeast")
OPEN_MAX = 400  # hellos that wait at a time; the oldest is closed for the next

GROUPS = {"x25519": (0x001d, 32), "ffdhe2048": (0x0100, 256), "ffdhe8192": (0x0104, 1024)}  # number, bytes of a share
ED25519, ECDSA_P256, TLS_AES_128_GCM = 0x0807, 0x0403, 0x1301
ALERT, HANDSHAKE = 21, 22

CONFIG = """
[run]
name = "hellos"
seed = 7
[model]
layers = 1
width = 32
heads = 2
context = 32
[data]
files = ["{text}"]
[train]
batch = 2
steps = 100000000
k = 2
validation_sequences = 16
[inner]
lr = 3e-3
[outer]
optimizer = "nesterov"
lr = 0.6
[codec]
matrix = "dense:int8,block=128"
[wan]
profile = "{wan}"
"""


def vector(size_bytes, content):
    return len(content).to_bytes(size_bytes, "big") + content


def client_hello(group):
    """A record with a ClientHello that offers this group alone, with a share in it."""
    number, share_bytes = GROUPS[group]
    share = b"\0" + os.urandom(share_bytes - 1)  # below every prime
    extensions = b"".join(struct.pack(">H", kind) + vector(2, content) for kind, content in (
        (43, vector(1, struct.pack(">H", 0x0304))),  # supported_versions
        (10, vector(2, struct.pack(">H", number))),  # supported_groups
        (13, vector(2, struct.pack(">HH", ED25519, ECDSA_P256))),  # signature_algorithms
        (51, vector(2, struct.pack(">H", number) + vector(2, share)))))  # key_share
    body = (struct.pack(">H", 0x0303) + os.urandom(32) + vector(1, os.urandom(32)) +
            vector(2, struct.pack(">H", TLS_AES_128_GCM)) + vector(1, b"\0") + vector(2, extensions))
    return struct.pack(">BH", HANDSHAKE, 0x0301) + vector(2, b"\x01" + vector(3, body))


class Knocker:
    """Says hello at a steady rate and keeps the connections open; `answers` counts the first record that came back."""

    def __init__(self, host, port, group, rate):
        self.address, self.group, self.rate = (host, port), group, rate
        self.answers = collections.Counter()
        self.sent = 0
        self.waiting = collections.deque()
        self.ended = threading.Event()

    def say_hello(self):
        try:
            connection = socket.create_connection(self.address, timeout=5)
            connection.sendall(client_hello(self.group))
        except OSError:
            self.answers["unreachable"] += 1
            return
        self.sent += 1
        self.waiting.append(connection)
        if len(self.waiting) > OPEN_MAX:
            self.waiting.popleft().close()

    def look(self):
        """Takes what came back; a connection that was answered with an alert, or not at all, is over."""
        if not self.waiting:
            return
        for connection in select.select(list(self.waiting), [], [], 0)[0]:
            try:
                record = connection.recv(1 << 16)
            except OSError:
                record = b""
            kind = {ALERT: "alert", HANDSHAKE: "server hello"}.get(record[0], "else") if record else "closed"
            self.answers[kind] += 1
            if kind != "server hello":
                connection.close()
                self.waiting.remove(connection)

    def run(self, seconds):
        end = time.monotonic() + seconds
        due = time.monotonic()
        while not self.ended.is_set() and time.monotonic() < end:
            self.say_hello()
            self.look()
            due += 1 / self.rate
            self.ended.wait(max(0, due - time.monotonic()))
        while self.waiting:
            self.waiting.popleft().close()


def region_directory(out, region):
    return out / "regions" / region


def wait_for(what, condition):
    end = time.monotonic() + 120
    while not (result := condition()):
        if time.monotonic() > end:
            sys.exit(f"waited two minutes for {what}")
        time.sleep(0.05)
    return result


def version(out):
    try:
        return json.loads((region_directory(out, "us-east") / "status.json").read_text()).get("version", 0)
    except (OSError, json.JSONDecodeError):
        return 0


def port_of(out, region):
    path = region_directory(out, region) / "listening_port"
    return int(path.read_text()) if path.exists() and path.read_text().strip() else 0


def rounds_per_s(out, seconds):
    first, began = version(out), time.monotonic()
    time.sleep(seconds)
    return (version(out) - first) / (time.monotonic() - began)


def under(out, group, rate, seconds):
    """Rounds per second while one coordinator's port hears `rate` hellos a second, and what they were answered."""
    knocker = Knocker("127.0.0.1", port_of(out, REGIONS[0]), group, rate)
    thread = threading.Thread(target=knocker.run, args=(seconds + 60,))
    thread.start()
    time.sleep(1)
    measured = rounds_per_s(out, seconds)
    knocker.ended.set()
    thread.join()
    return measured, dict(knocker.answers)


def measure(out, seconds, rate, turns):
    out.mkdir(parents=True, exist_ok=True)
    (out / "text").write_text("the king of the land went up to the city and all the people saw him there " * 2000)
    (out / "wan.toml").write_text('name = "loopback"\nseed = 1\nregions = ["us-east", "eu-west", "ap-northeast"]\n'
                                  "[defaults]\nrtt_ms = 1\nrate_mbit_s = 10000\n")
    regions = "".join(f'[[regions]]\nname = "{region}"\nworkers = 1\n' for region in REGIONS)
    (out / "config.toml").write_text(CONFIG.format(text=out / "text", wan=out / "wan.toml") + regions)
    run = out / "run"
    with open(out / "simulate.log", "w") as log:
        simulate = subprocess.Popen([CAUSEWAY, "simulate", out / "config.toml", "--out", run], stdout=log, stderr=log,
                                    env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        wait_for("the first rounds", lambda: version(run) > 20)
        shares = collections.defaultdict(list)
        before = rounds_per_s(run, seconds)
        for turn in range(turns):  # each between two without, so that what else the machine does meets all alike
            for group in ("ffdhe8192", "x25519"):
                measured, answers = under(run, group, rate, seconds)
                after = rounds_per_s(run, seconds)
                shares[group].append(measured / ((before + after) / 2))
                print(json.dumps({"turn": turn, "group": group, "hellos_per_s": rate, "answers": answers,
                                  "rounds_per_s": {"before": round(before, 2), "under": round(measured, 2),
                                                   "after": round(after, 2)}}), flush=True)
                before = after
        print(json.dumps({"median share of the rounds without":
                          {group: round(statistics.median(all_of), 3) for group, all_of in shares.items()}}))
    finally:
        simulate.send_signal(signal.SIGINT)
        simulate.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    knock = commands.add_parser("knock")
    knock.add_argument("address")
    knock.add_argument("--group", choices=GROUPS, default="x25519")
    rounds = commands.add_parser("rounds")
    rounds.add_argument("out", type=pathlib.Path)
    rounds.add_argument("--turns", type=int, default=5)
    for command, seconds in ((knock, 10), (rounds, 30)):
        command.add_argument("--rate", type=float, default=100)
        command.add_argument("--seconds", type=float, default=seconds)
    arguments = parser.parse_args()
    if arguments.command == "rounds":
        measure(arguments.out.absolute(), arguments.seconds, arguments.rate, arguments.turns)
        return
    host, port = arguments.address.rsplit(":", 1)
    knocker = Knocker(host, int(port), arguments.group, arguments.rate)
    knocker.run(arguments.seconds)
    print(json.dumps({"sent": knocker.sent, "answers": knocker.answers}))


if __name__ == "__main__":
    main()
