"""What goes wrong between and in real processes: links, processes, disks. The run goes on, and ends with the same bits."""
import os
import subprocess
import sys
import unittest

from harness import CAUSEWAY, EndToEnd


class Processes(EndToEnd):
    def test_a_scenario_kills_restarts_and_pauses_processes(self):
        self.add_events('at_s = 1; process = "restart"; region = "eu-west"; role = "coordinator"',
                        'at_s = 1.5; process = "kill"; region = "us-east"; for_s = 1',
                        'at_s = 3; process = "restart"; region = "us-east"; role = "worker"; rank = 1',
                        'at_s = 3.5; process = "pause"; region = "ap-northeast"; for_s = 1')
        summary = self.simulate(self.config(workers=(2, 1, 1), steps=300), "--no-baseline")
        self.assert_identical(summary)
        self.assertEqual(summary["rounds"], 60)
        self.assertGreaterEqual(summary["restarts"], 5)  # a worker's death may take the other's

    def test_a_region_that_stays_down_fails_the_run_when_the_others_have_ended(self):
        self.add_events('at_s = 0.5; process = "kill"; region = "eu-west"')
        output = self.run_causeway("simulate", self.config(steps=20), "--out", self.out, "--no-baseline",
                                   "--set", "sync.grace_max_s=2", code=3)
        self.assertIn("eu-west", output)
        self.assertIn("killed on purpose", output)


def namespaces_allowed():
    return subprocess.run(["unshare", "--user", "--net", "--map-root-user", "true"], stderr=subprocess.DEVNULL,
                          check=False).returncode == 0


class PacketEngine(EndToEnd):
    @unittest.skipUnless(namespaces_allowed(), "network namespaces are not allowed here")
    def test_regions_in_namespaces_joined_by_packets_end_with_the_same_bits(self):
        self.add_events('at_s = 1; process = "restart"; region = "eu-west"; role = "coordinator"',
                        'at_s = 1.5; loss = 0.02; for_s = 1')
        summary = self.simulate(self.config(workers=(2, 1, 1), steps=100), "--wan", "packet")
        self.assert_identical(summary)
        self.assertEqual(summary["rounds"], 20)
        self.assertIsNotNone(summary["baseline_val_loss"])  # its workers meet outside the namespaces
        links = (self.out / "regions" / "eu-west" / "coordinator.log").read_text()
        self.assertNotIn("127.0.0.1", links)

    @unittest.skipUnless(namespaces_allowed(), "network namespaces are not allowed here")
    def test_without_privileges_it_says_what_is_missing(self):
        root_of_nothing = ["setpriv", "--bounding-set=-sys_admin,-net_admin", "--inh-caps=-all"]
        if os.geteuid() != 0:
            root_of_nothing = ["unshare", "--user", "--map-root-user", *root_of_nothing]
        done = subprocess.run([*root_of_nothing, CAUSEWAY, "simulate", self.config(), "--out", self.out, "--wan",
                               "packet"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("CAP_SYS_ADMIN", done.stdout)
        self.assertIn("--wan relay", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
