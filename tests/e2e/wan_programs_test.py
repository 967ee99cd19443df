"""Programs that others wrote, behind the simulated WAN: each example of examples/ that has one, as it is."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from harness import CAUSEWAY
from wan_python_test import SOURCE as WAN_MODULE
from wan_test import WanCase

SOURCE = pathlib.Path(os.environ["CAUSEWAY_SOURCE"])
# ngtcp2's server is for administrators; etcd is fetched and not installed, so that no service begins to run.
PATH = f"{os.environ['PATH']}:/usr/sbin:{SOURCE / 'build-tools/etcd-server/usr/bin'}"
NEAREST_S = {"eu": 0.06, "us": 0.06, "asia": 0.12}  # round trip to the nearest other region, in examples/etcd/wan.toml


def needs(reason, *programs):
    return unittest.skipUnless(all(shutil.which(program, path=PATH) for program in programs), reason)


def has_namespaces():
    done = subprocess.run(["unshare", "--map-root-user", "--mount", "true"], capture_output=True, check=False)
    return done.returncode == 0


def has_grpc():
    return subprocess.run([sys.executable, "-c", "import grpc"], capture_output=True, check=False).returncode == 0


class WanPrograms(WanCase):
    def said_by(self, script):
        package = self.directory / "packages" / "causeway"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        shutil.copy(WAN_MODULE, package)
        return self.finish(self.start_program(sys.executable, SOURCE / "examples" / script, CAUSEWAY,
                                              env={"PYTHONPATH": str(package.parent), "PATH": PATH}))

    def find(self, pattern, said):
        found = re.search(f"^{pattern}", said, flags=re.M)
        self.assertTrue(found, f"{pattern}\n{said}")
        return found.groups()

    @needs("etcd is not here: ./check fetches it", "etcd")
    @unittest.skipUnless(has_namespaces(), "this system lets nobody make mount namespaces")
    def test_etcd_goes_on_without_the_region_that_is_cut_off(self):
        said = self.said_by("etcd/election.py")
        leader, first_s = self.find(r"leader +(\w+)\na write there +([0-9.]+) s", said)
        self.assertGreaterEqual(float(first_s), NEAREST_S[leader], "a write waits for a majority")
        self.assertEqual(self.find(r"cut off +(\w+)", said), (leader,))
        successor, _, write_s = self.find(r"new leader +(\w+) after ([0-9.]+) s\na write there +([0-9.]+) s", said)
        self.assertNotEqual(successor, leader)
        other = ({"eu", "us", "asia"} - {leader, successor}).pop()
        self.assertGreaterEqual(float(write_s), 0.12 if "asia" in (successor, other) else 0.06, "the other one that is left is asked")
        self.find(f"a write at {leader} +refused", said)
        self.find(r"healed: caught up after +[0-9.]+ s\nleader +\w+$", said)

    @unittest.skipUnless(has_grpc(), "python3-grpcio is not here: ./check installs it")
    def test_grpc_meets_the_deadlines_that_the_wan_allows(self):
        said = self.said_by("grpc/deadlines.py")
        self.assertGreaterEqual(float(*self.find(r"first call, connects +OK +([0-9.]+) s", said)), 0.16, "a round trip more")
        self.assertGreaterEqual(float(*self.find(r"a call +OK +([0-9.]+) s", said)), 0.08)
        self.find(r"a call, deadline 60 ms +DEADLINE_EXCEEDED", said)
        self.assertGreaterEqual(float(*self.find(r"a megabyte +OK +([0-9.]+) s", said)), 0.88)
        self.find(r"a megabyte, deadline .5 s +DEADLINE_EXCEEDED", said)
        self.find(r"while cut +UNAVAILABLE", said)
        self.find(r"healed, waits until ready +OK", said)

    @unittest.skipUnless(list(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb")) or shutil.which("initdb"),
                         "PostgreSQL is not here: ./check --launchers installs it")
    def test_a_postgresql_standby_follows_as_fast_as_the_wan_lets_it(self):
        said = self.said_by("postgresql/replication.py")
        alone, applied = (float(*self.find(rf"{line} +([0-9.]+) s", said)) for line in ("a commit, standby asynchronous", "a commit that the standby applied"))
        self.assertGreaterEqual(applied, 0.08, "a round trip")
        self.assertLess(alone, applied)
        self.assertGreaterEqual(float(*self.find(r"2 MB over 10 Mbit/s +([0-9.]+) s", said)), 1.6 + 0.08)
        self.find("standby behind while cut +True", said)
        self.find("standby has all rows +True", said)

    @needs("ngtcp2 is not here: ./check --launchers installs it", "gtlsserver", "gtlsclient", "openssl")
    def test_quic_brings_a_file_whole_and_slower_where_datagrams_are_lost(self):
        said = self.said_by("quic/goodput.py")
        for congestion in ("cubic", "bbr2"):
            whole_s, lost = self.find(rf"{congestion} +0 % lost .* ([0-9.]+) s  lost (\d+)", said)
            self.assertGreaterEqual(float(whole_s), 0.4 + 2 * 0.04, "the rate, and two round trips")
            self.assertEqual(int(lost), 0)
            lossy_s, lost = self.find(rf"{congestion} +5 % lost .* ([0-9.]+) s  lost (\d+)", said)
            self.assertGreater(int(lost), 0)
            self.assertGreaterEqual(float(lossy_s), 0.4 + 2 * 0.04)
            if congestion == "cubic":  # which takes a loss for a full queue: some 2 Mbit/s are left of 20
                self.assertGreater(float(lossy_s), float(whole_s))


if __name__ == "__main__":
    unittest.main()
