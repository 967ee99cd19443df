"""A PostgreSQL standby in another region: what a commit costs, how far behind the standby is, and how it comes back after a cut.

    python3 replication.py [PATH/TO/causeway]     # needs PostgreSQL's servers (Debian: postgresql) and causeway on the PATH

The primary is in eu, the standby in us. The standby copies the primary and follows it by way of a simulated WAN; neither knows of it. As root, it
runs them as `nobody`, for PostgreSQL does not run as root.
"""
import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from causeway.wan import Wan

SCENARIO = pathlib.Path(__file__).with_name("wan.toml")
PROGRAMS = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))  # Debian's, of every version; elsewhere they are on the PATH
PATH = os.pathsep.join([os.environ["PATH"], *map(str, reversed(PROGRAMS))])
AS_USER = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
START_S = 60
BULK_BYTES = 2_000_000
SETTINGS = ["-c", "fsync=off", "-c", "shared_buffers=16MB", "-c", "wal_receiver_timeout=2s", "-c", "wal_retrieve_retry_interval=100ms"]


def run(*words):
    return subprocess.run(list(map(str, words)), cwd="/", env={**os.environ, "PATH": PATH}, text=True, stdout=subprocess.PIPE, check=True, **AS_USER).stdout


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Database:
    """A server, which tools reach by a Unix socket beside its directory."""

    def __init__(self, directory, port, addresses):
        self.place = ["--host", directory.parent, "--port", port, "--username", "postgres"]
        with (directory / "log").open("w") as log:
            self.child = subprocess.Popen(["postgres", "-D", directory, "-k", directory.parent, "-p", str(port), "-c", f"listen_addresses={addresses}", *SETTINGS],
                                          env={**os.environ, "PATH": PATH}, cwd="/", stdout=log, stderr=log, **AS_USER)
        end = time.monotonic() + START_S
        while subprocess.run(["pg_isready", "--quiet", *map(str, self.place)], env={**os.environ, "PATH": PATH}, check=False).returncode:
            if self.child.poll() is not None or time.monotonic() > end:
                raise SystemExit("a server did not start:\n" + (directory / "log").read_text())
            time.sleep(0.01)

    def ask(self, *statements):
        """Each is a transaction of its own, on one connection. What they answer."""
        commands = [word for statement in statements for word in ("--command", statement)]
        return run("psql", "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", *self.place, "--dbname", "postgres", *commands).strip()

    def seconds(self, statement):
        """As the server's own clock has it, without the start of psql."""
        begin, end = self.ask("select extract(epoch from clock_timestamp())", statement, "select extract(epoch from clock_timestamp())").split()
        return float(end) - float(begin)

    def close(self):
        self.child.kill()
        self.child.wait()


def make_primary(directory):
    run("initdb", "--pgdata", directory, "--username", "postgres", "--auth", "trust", "--no-sync")
    return Database(directory, free_port(), "127.0.0.1")


def make_standby(directory, host, port):
    """A copy over the WAN, which knows where it came from. Seconds, and the server."""
    begin = time.monotonic()
    run("pg_basebackup", "--pgdata", directory, "--host", host, "--port", port, "--username", "postgres", "--checkpoint", "fast", "--wal-method", "stream",
        "--write-recovery-conf", "--no-sync")
    return time.monotonic() - begin, Database(directory, free_port(), "")


def seconds_until_followed(primary, standby):
    """Until the standby has all that the primary has written so far."""
    begin = time.monotonic()
    written = primary.ask("select pg_current_wal_lsn()")
    while standby.ask(f"select pg_last_wal_replay_lsn() >= '{written}'") != "t":
        if time.monotonic() > begin + START_S:
            raise SystemExit(f"the standby has not caught up within {START_S} s")
        time.sleep(0.01)
    return time.monotonic() - begin


def show(primary, standby, wan):
    primary.ask("create table facts (id serial, text text)")
    seconds_until_followed(primary, standby)
    insert = "insert into facts (text) values ('one')"
    print(f"a commit, standby asynchronous    {primary.seconds(insert):7.3f} s")
    primary.ask("alter system set synchronous_standby_names = '*'", "select pg_reload_conf()")
    primary.ask("set synchronous_commit = remote_apply; " + insert)  # the standby counts as soon as it is known to be synchronous
    print(f"a commit that the standby applied {primary.seconds('set synchronous_commit = remote_apply; ' + insert):7.3f} s")
    wan.change("eu", "us", rate_mbit_s=10)
    bulk = f"insert into facts (text) select string_agg(md5(random()::text), '') from generate_series(1, {BULK_BYTES // 32}) group by generate_series % 1000"
    print(f"2 MB over 10 Mbit/s               {primary.seconds('set synchronous_commit = remote_apply; ' + bulk):7.3f} s")
    primary.ask("alter system reset synchronous_standby_names", "select pg_reload_conf()")
    wan.cut("eu", "us")
    for _ in range(3):
        primary.ask(insert)
    print(f"standby behind while cut          {primary.ask('select count(*) from facts') != standby.ask('select count(*) from facts')}")
    wan.heal()
    print(f"healed: caught up after           {seconds_until_followed(primary, standby):7.3f} s")
    print(f"standby has all rows              {primary.ask('select count(*) from facts') == standby.ask('select count(*) from facts')}")


def main():
    if shutil.which("initdb", path=PATH) is None:
        raise SystemExit("needs PostgreSQL's servers: apt install postgresql")
    with contextlib.ExitStack() as stack:
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if AS_USER:
            shutil.chown(directory, AS_USER["user"])
        primary = make_primary(directory / "primary")
        stack.callback(primary.close)
        port = primary.place[primary.place.index("--port") + 1]
        wan = stack.enter_context(Wan(SCENARIO, {("us", "eu"): f"127.0.0.1:{port}"}, program=(sys.argv[1:] or [None])[0]))
        copied_s, standby = make_standby(directory / "standby", *wan.address("us", "eu"))
        stack.callback(standby.close)
        print(f"a copy of the primary             {copied_s:7.3f} s")
        show(primary, standby, wan)
        print(wan.verdict()["text"])


if __name__ == "__main__":
    main()
