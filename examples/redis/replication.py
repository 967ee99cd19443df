"""A Redis replica in another region: how far behind it is, and how it comes back after a cut.

    python3 replication.py                     # needs redis-server and causeway on the PATH

The primary is in eu, the replica in us. The replica reaches the primary by way of a simulated WAN; neither knows of it.
"""
import contextlib
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from causeway.wan import Wan

SCENARIO = pathlib.Path(__file__).with_name("wan.toml")
START_S = 30
REPLICA_S = 60


class Redis:
    """A server that keeps nothing, and a connection to it over its Unix socket."""

    def __init__(self, directory, name, *options):
        self.path = str(pathlib.Path(directory) / f"{name}.sock")
        self.child = subprocess.Popen(["redis-server", "--unixsocket", self.path, "--dir", str(directory), "--save", "", *options],
                                      stdout=subprocess.DEVNULL)
        end = time.monotonic() + START_S
        while True:
            self.socket = socket.socket(socket.AF_UNIX)
            try:
                self.socket.connect(self.path)
                break
            except OSError:
                self.socket.close()
                if self.child.poll() is not None or time.monotonic() > end:
                    raise SystemExit(f"redis-server {name} did not start") from None
        self.answers = self.socket.makefile("rb")

    def ask(self, *words):
        """The first line of the answer, without its type."""
        self.socket.sendall((" ".join(words) + "\r\n").encode())
        return self.answers.readline().decode()[1:].strip()

    def close(self):
        self.answers.close()
        self.socket.close()
        self.child.terminate()
        self.child.wait()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def seconds_until_replicated(primary, key):
    """From a write until the primary knows that the replica has it."""
    begin = time.monotonic()
    primary.ask("SET", key, "value")
    if primary.ask("WAIT", "1", str(1000 * REPLICA_S)) != "1":
        raise SystemExit(f"the replica has not caught up within {REPLICA_S} s")
    return time.monotonic() - begin


def main():
    if shutil.which("redis-server") is None:
        raise SystemExit("needs redis-server: apt install redis-server")
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        port = free_port()
        primary = Redis(directory, "primary", "--port", str(port), "--repl-diskless-sync-delay", "0")
        stack.callback(primary.close)
        wan = stack.enter_context(Wan(SCENARIO, {("us", "eu"): f"127.0.0.1:{port}"}, program=(sys.argv[1:] or [None])[0]))
        replica = Redis(directory, "replica", "--port", "0", "--replicaof", *map(str, wan.address("us", "eu")))
        stack.callback(replica.close)
        print(f"first copy        {seconds_until_replicated(primary, 'first'):6.2f} s")
        print(f"a write           {seconds_until_replicated(primary, 'near'):6.2f} s")
        wan.change("eu", "us", delay_ms=250, for_s=5)
        print(f"with 500 ms       {seconds_until_replicated(primary, 'far'):6.2f} s")
        wan.cut("eu", "us", for_s=3)
        print(f"with a cut of 3 s {seconds_until_replicated(primary, 'later'):6.2f} s")
        print(wan.verdict()["text"])


if __name__ == "__main__":
    main()
