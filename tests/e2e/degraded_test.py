"""A rank that dies or hangs costs its region that rank, and the other regions nothing."""
import os
import signal
import sys
import unittest

from harness import DENSE, REGIONS, EndToEnd, free_port, wait_until

HURT, OTHER, THIRD = REGIONS


class DegradedRegion(EndToEnd):
    def setUp(self):
        super().setUp()
        self.run_causeway("certs", "--directory", "certificates", "init")
        self.run_causeway("certs", "--directory", "certificates", "add-region", *REGIONS)
        addresses = {region: f"127.0.0.1:{free_port()}" for region in REGIONS}
        # Rounds that take longer than it takes to apply one, or whoever is behind never catches up.
        path = self.config(workers=(3, 1, 1), addresses=addresses, k=100, steps=100 * 100_000, **DENSE)
        text = path.read_text().replace("[train]", "[train]\nrank_deadline_s = 10\nrank_wait_s = 3")
        # The others never wait as long as a hung rank is waited for, however slow this host makes the rounds.
        path.write_text(text.replace("[sync]", "[sync]\ngrace_max_s = 4"))
        self.configuration = path

    def directory_of(self, region):
        return self.out / "regions" / region

    def launch(self, role, region, *flags):
        return self.start(role, self.configuration, "--region", region, "--directory", self.directory_of(region),
                          *flags)

    def worker(self, rank):
        return self.launch("worker", HURT, "--rank", rank)

    def wait_for_missing(self, ranks):
        def told():
            status = self.status(HURT)
            return (status.get("missing_ranks"), status.get("degraded")) == (ranks, bool(ranks))

        wait_until(told, f"ranks {ranks} to be missing", self.coordinators[0])

    def wait_for_rounds(self, region, count):
        """New ones to which the region contributes."""
        before = len(self.rounds_of(region))
        wait_until(lambda: sum(event["listed"] for event in self.rounds_of(region)[before:]) >= count,
                   f"{count} more rounds with {region}", self.coordinators[0])

    def test_t19_a_dead_and_a_hung_rank_are_left_out_and_taken_back(self):
        self.coordinators = [self.launch("coordinator", region, "--found" if region == HURT else "--join")
                             for region in REGIONS]
        workers = [self.worker(rank) for rank in range(3)]
        others = [self.launch("worker", region) for region in (OTHER, THIRD)]
        wait_until(lambda: self.status(HURT).get("version", 0) >= 3, "three rounds", self.coordinators[0])
        self.wait_for_missing([])

        workers[0].kill()  # the one that speaks for the region
        self.wait_for_missing([0])
        self.wait_for_rounds(HURT, 2)
        workers[0] = self.worker(0)
        self.wait_for_missing([])
        self.wait_for_rounds(HURT, 2)

        hung_at = self.status(OTHER)["version"]
        os.kill(workers[2].pid, signal.SIGSTOP)
        self.wait_for_missing([2])
        self.wait_for_rounds(HURT, 2)
        os.kill(workers[2].pid, signal.SIGCONT)
        self.wait_for_missing([])
        self.wait_for_rounds(HURT, 2)

        alone = [event["round"] for event in self.rounds_of(OTHER)
                 if event["round"] >= hung_at and HURT not in event["participants"]]
        self.assertTrue(alone, "the other regions waited for the one with a hung rank")
        told = [event["event"] for event in self.events_of(HURT) if event.get("event") in ("degraded", "whole")]
        # On a busy host another rank may come too late as well: then there are more.
        self.assertGreaterEqual(told.count("degraded"), 2)
        self.assertGreaterEqual(told.count("whole"), 2)
        self.assertEqual(told[-1], "whole")
        children = [*workers, *others, *self.coordinators]
        for child in children:
            child.send_signal(signal.SIGINT)
        for child in children:
            self.finish(child, code=130)
        self.assertIn("verified: one history", self.run_causeway(
            "verify", *map(self.directory_of, (HURT, OTHER, THIRD)), "--certificates", "certificates"))

    def test_a_rank_that_hung_until_the_run_was_over_ends_as_well(self):
        path = self.configuration
        path.write_text(path.read_text().replace("steps = 10000000", "steps = 1000"))
        coordinators = [self.launch("coordinator", region, "--found" if region == HURT else "--join")
                        for region in REGIONS]
        hung = self.worker(0)
        others = [self.worker(1), self.worker(2), *(self.launch("worker", region) for region in (OTHER, THIRD))]
        wait_until(lambda: self.status(HURT).get("version", 0) >= 1, "a round", coordinators[0])
        os.kill(hung.pid, signal.SIGSTOP)
        for child in (*others, *coordinators):
            self.finish(child)
        os.kill(hung.pid, signal.SIGCONT)
        self.assertIn("the run is over: another worker of this region left its result", self.finish(hung))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
