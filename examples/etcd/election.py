"""Three members of etcd in three regions: what a write costs, and what happens when the leader's region is cut off.

    python3 election.py [PATH/TO/causeway]     # needs etcd (Debian: etcd-server) and causeway on the PATH

The members know each other by names: http://eu:PORT and so on, the same list everywhere, as etcd wants it. In each region a name leads
to the relay's port for the way from there. That takes a hosts file for each region, in a mount namespace of its own, which users may make
without being root. With containers it is `extra_hosts` (Compose) or `hostAliases` (Kubernetes).
"""
import base64
import contextlib
import itertools
import json
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from causeway.wan import Wan

SCENARIO = pathlib.Path(__file__).with_name("wan.toml")
REGIONS = ("eu", "us", "asia")
START_S = 60
ANSWER_S = 10
CUT_ANSWER_S = 1  # how long a client of the member that is cut off waits
IN_ITS_HOSTS = 'mount --bind "$0" /etc/hosts && exec "$@"'


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def way(source, target):
    """Where the relay listens for `source` on its way to `target`: all of loopback is this host's."""
    return f"127.1.{REGIONS.index(source)}.{REGIONS.index(target)}"


class Member:
    def __init__(self, directory, name, ports):
        self.name, self.client = name, f"http://127.0.0.1:{free_port()}"
        peer = f"http://127.0.0.1:{ports[name]}"
        hosts = pathlib.Path(directory) / f"hosts-{name}"
        places = [(way(name, other) if other != name else "127.0.0.1", other) for other in REGIONS]
        hosts.write_text("".join(f"{address} {other}\n" for address, other in [("127.0.0.1", "localhost"), *places]))
        self.log = (pathlib.Path(directory) / f"{name}.log").open("w")
        self.child = subprocess.Popen(
            ["unshare", "--map-root-user", "--mount", "sh", "-c", IN_ITS_HOSTS, hosts, "etcd", "--name", name,
             "--data-dir", pathlib.Path(directory) / name, "--listen-client-urls", self.client, "--advertise-client-urls", self.client,
             "--listen-peer-urls", peer, "--initial-advertise-peer-urls", f"http://{name}:{ports[name]}",
             "--initial-cluster", ",".join(f"{other}=http://{other}:{ports[other]}" for other in REGIONS),
             "--heartbeat-interval", "100", "--election-timeout", "1000"], stdout=self.log, stderr=subprocess.STDOUT)

    def ask(self, path, patience_s=ANSWER_S, **keys):
        """None if it does not answer, or answers that it cannot."""
        request = urllib.request.Request(self.client + path, json.dumps(keys).encode())
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(request, timeout=patience_s) as answer:
                return json.load(answer)
        return None

    def leader(self):
        """Its own idea of who leads: a number, and whether that is itself."""
        status = self.ask("/v3/maintenance/status") or {}
        leader = int(status.get("leader", 0))
        return leader, leader != 0 and leader == int(status["header"]["member_id"])

    def put(self, key, patience_s=ANSWER_S):
        """Whether a majority has it."""
        return self.ask("/v3/kv/put", patience_s, key=encoded(key), value=encoded("value")) is not None

    def has(self, key):
        """As far as this member knows, without asking the others."""
        answer = self.ask("/v3/kv/range", key=encoded(key), serializable=True) or {}
        return "kvs" in answer

    def close(self):
        self.child.kill()  # it would look for a successor first
        self.child.wait()
        self.log.close()


def encoded(text):
    return base64.b64encode(text.encode()).decode()


def wait_for(what, look):
    """What `look` finds, as soon as that is something."""
    end = time.monotonic() + START_S
    while not (found := look()):
        if time.monotonic() > end:
            raise SystemExit(f"no {what} within {START_S} s")
        time.sleep(0.01)
    return found


def leader_of(members):
    """The one that leads, once all of these know of it."""
    known = [(member, *member.leader()) for member in members]
    if len({leader for _, leader, _ in known}) == 1:
        return next((member for member, _, leads in known if leads), None)
    return None


def seconds(act):
    begin = time.monotonic()
    if not act():
        raise SystemExit("a write failed")
    return time.monotonic() - begin


def show(members, wan):
    leader = wait_for("leader", lambda: leader_of(members))
    print(f"leader                  {leader.name}")
    print(f"a write there           {seconds(lambda: leader.put('before')):6.2f} s")
    others = [member for member in members if member is not leader]
    for other in others:
        wan.cut(leader.name, other.name)
    begin = time.monotonic()
    successor = wait_for("new leader", lambda: leader_of(others))
    print(f"cut off                 {leader.name}")
    print(f"new leader              {successor.name} after {time.monotonic() - begin:.2f} s")
    print(f"a write there           {seconds(lambda: successor.put('during')):6.2f} s")
    print(f"a write at {leader.name:<12} {'taken' if leader.put('lost', CUT_ANSWER_S) else 'refused'}")
    wan.heal()
    begin = time.monotonic()
    wait_for("write at the member that was cut off", lambda: leader.has("during"))
    print(f"healed: caught up after {time.monotonic() - begin:6.2f} s")
    print(f"leader                  {wait_for('leader', lambda: leader_of(members)).name}")


def main():
    if shutil.which("etcd") is None:
        raise SystemExit("needs etcd: apt install etcd-server")
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        ports = {region: free_port() for region in REGIONS}
        maps = {(source, target): f"127.0.0.1:{ports[target]},listen={way(source, target)}:{ports[target]}"
                for source, target in itertools.permutations(REGIONS, 2)}
        wan = stack.enter_context(Wan(SCENARIO, maps, program=(sys.argv[1:] or [None])[0]))
        members = [Member(directory, region, ports) for region in REGIONS]
        for member in members:
            stack.callback(member.close)
        show(members, wan)
        print(wan.verdict()["text"])


if __name__ == "__main__":
    main()
