"""The two ends of what bench/wan_peers.py measures, as processes of their own.

    wan_ends.py serve HOST [hurry]                  # prints its port
    wan_ends.py rate HOST PORT BYTES up|down        # one connection carries so many bytes
    wan_ends.py ping HOST PORT COUNT                # a byte there and back, again and again
    wan_ends.py connect HOST PORT COUNT             # open, a byte there and back, close; 64 at once
    wan_ends.py hold HOST PORT COUNT                # open so many, then a byte there and back on all of them

A client prints "ready" and waits for a line before it begins; then it prints what it saw, as JSON, and waits for another line before it
ends. HOST "$NAME" is looked up in the environment. As root `rate`, `ping` and a server in a hurry run before whoever is in none.
"""
import collections
import json
import os
import selectors
import socket
import sys
import time

BLOCK_BYTES = 1 << 18
AT_ONCE = 64
PATIENCE_S = 30  # then whoever has not answered has failed
ECHO, SINK, SOURCE = b"e", b"s", b"d"


def hurry():
    if os.geteuid() == 0:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


# ---- What arrives, and how fast ----

class Arrivals:
    """When how many bytes were there. The start of a transfer says more about TCP than about the link, so that the rate is that of the
    last two thirds."""

    def __init__(self, total):
        self.total, self.bytes, self.mark = total, 0, None

    def add(self, count):
        self.bytes += count
        now = time.monotonic()
        if self.mark is None and self.bytes >= self.total // 3:
            self.mark = (self.bytes, now)
        self.last = now

    def report(self):
        count, begin = self.mark
        return {"bytes": self.bytes, "mbit_s": (self.bytes - count) * 8e-6 / (self.last - begin)}


# ---- The server ----

class Served:
    """A connection: its first byte says what it is for."""

    def __init__(self, server, connection):
        self.server, self.connection, self.kind = server, connection, None
        self.arrivals, self.left = None, 0

    def ready(self, events):
        if events & selectors.EVENT_WRITE:
            return self.write()
        data = self.connection.recv(BLOCK_BYTES)
        if not data:
            return self.server.drop(self)
        if self.kind is None:
            self.kind, data = data[:1], data[1:]
        if self.kind == ECHO:
            self.connection.send(data)
        elif self.arrivals is None and not self.left:
            self.begin(data)
        elif self.kind == SINK:
            self.take(len(data))

    def begin(self, data):
        """Eight bytes: how many follow, or are wanted."""
        total = int.from_bytes(data[:8], "big")
        if self.kind == SOURCE:
            self.left = total
            return self.server.watch(self, selectors.EVENT_WRITE)
        self.arrivals = Arrivals(total)
        self.take(len(data) - 8)

    def take(self, count):
        if count:
            self.arrivals.add(count)
        if self.arrivals.bytes == self.arrivals.total:
            self.connection.send(json.dumps(self.arrivals.report()).encode() + b"\n")
            self.server.drop(self)

    def write(self):
        self.left -= self.connection.send(memoryview(self.server.block)[:min(self.left, BLOCK_BYTES)])
        if not self.left:
            self.server.drop(self)


class Server:
    def __init__(self, host):
        self.listener = socket.create_server((host, 0), backlog=4096)
        self.listener.setblocking(False)
        self.selector = selectors.EpollSelector()
        self.selector.register(self.listener, selectors.EVENT_READ, None)
        self.block = bytes(BLOCK_BYTES)

    def run(self):
        print(self.listener.getsockname()[1], flush=True)
        while True:
            for key, events in self.selector.select():
                if key.data is None:
                    self.accept()
                    continue
                try:
                    key.data.ready(events)
                except BlockingIOError:
                    pass
                except OSError:  # the client is through
                    self.drop(key.data)

    def accept(self):
        try:
            while True:
                connection, _ = self.listener.accept()
                connection.setblocking(False)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.selector.register(connection, selectors.EVENT_READ, Served(self, connection))
        except BlockingIOError:
            pass

    def watch(self, served, events):
        self.selector.modify(served.connection, events, served)

    def drop(self, served):
        self.selector.unregister(served.connection)
        served.connection.close()


# ---- The clients ----

def dial(host, port):
    connection = socket.create_connection((host, port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def rate(host, port, count, direction):
    with dial(host, port) as connection:
        connection.sendall((SINK if direction == "up" else SOURCE) + count.to_bytes(8, "big"))
        if direction == "down":
            return receive(connection, count)
        block, left = bytes(BLOCK_BYTES), count
        while left:
            left -= connection.send(memoryview(block)[:min(left, BLOCK_BYTES)])
        return json.loads(connection.makefile().readline())


def receive(connection, count):
    arrivals, buffer = Arrivals(count), bytearray(BLOCK_BYTES)
    while arrivals.bytes < count:
        got = connection.recv_into(buffer)
        if not got:
            raise ConnectionError(f"ended after {arrivals.bytes} bytes of {count}")
        arrivals.add(got)
    return arrivals.report()


def ping(host, port, count):
    seconds = []
    with dial(host, port) as connection:
        connection.sendall(ECHO)
        for i in range(count + 1):  # the first one pays for the connection, too
            begin = time.monotonic()
            connection.sendall(b"x")
            connection.recv(1)
            seconds.append(time.monotonic() - begin)
    return {"rtt_ms": [1000 * one for one in seconds[1:]]}


class Crowd:
    """Opens `count` connections, so many at once, and has a byte there and back on each. Those that fail are counted by why."""

    def __init__(self, host, port, count, at_once, keep):
        self.where, self.left, self.keep = (host, port), count, keep
        self.selector = selectors.EpollSelector()
        self.open, self.done, self.failed = [], 0, collections.Counter()
        self.pending = 0
        for _ in range(min(at_once, count)):
            self.start()

    def start(self):
        self.left -= 1
        self.pending += 1
        connection = socket.socket()
        connection.setblocking(False)
        connection.connect_ex(self.where)
        self.selector.register(connection, selectors.EVENT_WRITE, ECHO + b"x")

    def run(self, patience_s):
        begin = last = time.monotonic()
        while self.pending and time.monotonic() - begin < patience_s:
            for key, _ in self.selector.select(1):
                self.step(key)
                last = time.monotonic()
        if self.pending:
            self.failed[f"no answer within {patience_s} s"] += self.pending + self.left
            self.pending = self.left = 0
        return last - begin

    def step(self, key):
        connection = key.fileobj
        try:
            if key.data:
                connection.send(key.data)
                return self.selector.modify(connection, selectors.EVENT_READ, b"")
            if connection.recv(1) != b"x":
                raise ConnectionError("closed")
            self.done += 1
        except OSError as error:
            self.failed[error.strerror or str(error)] += 1
            self.end(connection, False)
        else:
            self.end(connection, self.keep)
        if self.left:
            self.start()

    def end(self, connection, keep):
        self.pending -= 1
        self.selector.unregister(connection)
        if keep:
            self.open.append(connection)
        else:
            connection.close()

    def ask_all(self, patience_s):
        """A byte on every connection that is open, all at once: how many answer, and after how long all did."""
        self.done, connections = 0, self.open
        self.open, self.pending = [], len(connections)
        for connection in connections:
            self.selector.register(connection, selectors.EVENT_WRITE, b"x")
        return self.run(patience_s)


def connect(host, port, count):
    crowd = Crowd(host, port, count, AT_ONCE, keep=False)
    seconds = crowd.run(patience_s=PATIENCE_S)
    return {"connections_per_s": crowd.done / seconds, "done": crowd.done, "failed": crowd.failed}


def hold(host, port, count):
    crowd = Crowd(host, port, count, AT_ONCE, keep=True)
    open_s = crowd.run(patience_s=PATIENCE_S)
    opened = crowd.done
    all_s = crowd.ask_all(patience_s=PATIENCE_S)
    hold.crowd = crowd  # open until this process ends
    return {"opened": opened, "open_s": open_s, "answered": crowd.done, "all_s": all_s, "failed": crowd.failed}


def main():
    command, host, *rest = sys.argv[1:]
    if command in ("rate", "ping") or "hurry" in rest:
        hurry()
    if command == "serve":
        Server(host).run()
    if host.startswith("$"):
        host = os.environ[host[1:]]
    client = {"rate": rate, "ping": ping, "connect": connect, "hold": hold}[command]
    numbers = [int(word) if word.isdigit() else word for word in rest]
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(client(host, *numbers)), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
