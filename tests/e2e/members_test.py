"""Regions that come and go while a run goes on."""
import json
import signal
import sys
import unittest

from harness import REGIONS, free_port, wait_until
from run_by_hand import RunByHand


class Members(RunByHand):
    """A region that nobody knew of when the run began."""

    def setUp(self):
        super().setUp()
        self.newcomer = "sa-east"
        self.addresses[self.newcomer] = f"127.0.0.1:{free_port()}"

    def launch(self, config, region, *flags):
        return [self.coordinator(config, region, *flags), self.worker(config, region)]

    def ask_for_the_status(self):
        self.run_causeway("certs", "--directory", "certificates", "add-observer", "watch")
        address = self.addresses[REGIONS[0]]
        told = json.loads(self.run_causeway("status", address, "--as", "watch", "--json"))
        self.assertEqual((told["region"], told["run_id"]), (REGIONS[0], self.status(REGIONS[0])["run_id"]))
        self.assertIn(f"{REGIONS[0]} of run {told['run_id']}", self.run_causeway("status", address, "--as", REGIONS[1]))
        self.run_causeway("certs", "--directory", "foreign", "init")
        self.run_causeway("certs", "--directory", "foreign", "add-observer", "watch")
        self.assertIn("own authority", self.run_causeway("status", address, "--certificates", "foreign", code=3))
        self.assertIn("no coordinator listens there",
                      self.run_causeway("status", f"127.0.0.1:{free_port()}", "--as", "watch", code=3))
        self.assertRegex(self.run_causeway("status", "nowhere.invalid:1", "nowhere.invalid:2", "--as", "watch", code=3),
                         "cannot look up nowhere.invalid: [A-Za-z]")
        self.assertIn("--as NAME is needed", self.run_causeway("status", address, code=2))

    def test_a_region_joins_a_running_run_trains_on_its_share_and_leaves(self):
        config = self.config(addresses=self.addresses, steps=5 * 400)
        founder = self.region_directory(REGIONS[0])
        children = [child for region in REGIONS
                    for child in self.launch(config, region, "--found" if region == REGIONS[0] else "--join")]
        wait_until(lambda: self.status(REGIONS[0]).get("version", 0) >= 3, "three rounds", children[0])

        self.ask_for_the_status()
        self.run_causeway("certs", "--directory", "certificates", "add-region", self.newcomer)
        address = self.addresses[self.newcomer]
        self.run_causeway("members", "add", "--directory", founder, self.newcomer, address)
        larger = self.directory / "larger.toml"
        larger.write_text(config.read_text() +
                          f'[[regions]]\nname = "{self.newcomer}"\nlisten = "{address}"\nadvertise = "{address}"\n')
        coordinator, worker = self.launch(larger, self.newcomer, "--join")
        wait_until(lambda: any(self.newcomer in event["participants"] for event in self.rounds_of(self.newcomer)),
                   "its first contribution", coordinator)
        self.assertEqual(self.run_causeway("members", "list", "--directory", founder).count("votes"), 4)
        wait_until(lambda: all(self.status(region)["share"]["count"] == 4 for region in self.addresses),
                   "every region's status to show its new share", coordinator)
        shares = {region: self.status(region)["share"] for region in self.addresses}
        self.assertEqual({region: share["index"] for region, share in shares.items()},
                         {region: index for index, region in enumerate(sorted(self.addresses))})
        self.assertEqual({(share["count"], share["pass"]) for share in shares.values()}, {(4, 1)})
        self.assertEqual(shares[self.newcomer]["begin"], 0)
        self.assertGreater(shares[REGIONS[0]]["begin"], 0)

        self.run_causeway("members", "remove", "--directory", founder, self.newcomer)
        self.assertIn("removed from the run", self.finish(coordinator, code=3))
        self.assertIn("removed from the run", self.finish(worker, code=3))
        wait_until(lambda: self.status(REGIONS[0])["share"]["count"] == 3, "a record that shares among three", children[0])
        version = self.status(REGIONS[0])["version"]
        wait_until(lambda: self.status(REGIONS[0])["version"] >= version + 2, "two more rounds", children[0])
        self.assertEqual(self.status(REGIONS[0])["share"]["pass"], 2)

        mine, theirs = ({event["round"]: event["state"] for event in self.rounds_of(region)}
                        for region in (self.newcomer, REGIONS[0]))
        self.assertEqual(mine, {number: theirs[number] for number in mine})
        for child in children:
            child.send_signal(signal.SIGINT)
        for child in children:
            self.finish(child, code=130)
        self.assertIn("verified: one history", self.run_causeway(
            "verify", *map(self.region_directory, REGIONS), "--certificates", "certificates"))

    def ask_while_nobody_leads(self, *change):
        """The coordinators, of which all but the first are stopped, and the command, of which the first has heard."""
        config = self.config(addresses=self.addresses)
        directory = self.region_directory(REGIONS[0])
        first, *others = self.start_coordinators(config)
        wait_until((directory / "ledger" / "records").exists, "a ledger", first)
        wait_until(lambda: self.run_causeway("members", "list", "--directory", directory).count("votes") == 3, "three votes", first)
        wait_until(lambda: self.status(REGIONS[0])["leader"], "its status to name a leader", first)
        for child in others:
            child.send_signal(signal.SIGSTOP)
        wait_until(lambda: self.status(REGIONS[0])["leader"] == "", "nobody to lead", first)
        asking = self.start("members", change[0], "--directory", directory, *change[1:])
        wait_until(lambda: "cannot be changed while there is no leader" in first.log.read_text(), "it to be asked", asking)
        return first, others, asking

    def test_a_change_that_was_asked_for_while_nobody_led_is_asked_for_again(self):
        _, others, add = self.ask_while_nobody_leads("add", self.newcomer, self.addresses[self.newcomer])
        for child in others:
            child.send_signal(signal.SIGCONT)
        self.assertIn(self.newcomer, self.finish(add))

    def test_whoever_asked_a_coordinator_that_is_gone_is_told_where_to_look(self):
        first, _, remove = self.ask_while_nobody_leads("remove", REGIONS[2])
        first.kill()
        self.assertIn("was asked, and does not answer any more", self.finish(remove, code=3))

    def remove_while_its_worker_is_away(self, ranks):
        """Rank 0 of the last region comes back as its coordinator ends; further ranks are gone for good."""
        config = self.config(workers=(1, 1, ranks), addresses=self.addresses, steps=20_000)
        region, directory = REGIONS[2], self.region_directory(REGIONS[0])
        first, _, coordinator = self.start_coordinators(config)
        worker, *others = [self.worker(config, region, rank) for rank in range(ranks)]
        wait_until(lambda: self.status(region).get("progress", {}).get("phase"), "its worker to report", coordinator)
        wait_until(lambda: self.run_causeway("members", "list", "--directory", directory).count("votes") == 3, "three votes", first)
        worker.send_signal(signal.SIGSTOP)
        for child in (coordinator, *others):
            child.kill()
            child.wait()
        self.run_causeway("members", "remove", "--directory", directory, region)
        coordinator = self.coordinator(config, region)
        wait_until(lambda: "its worker, which is away" in coordinator.log.read_text(), "it to hear of that", coordinator)
        worker.send_signal(signal.SIGCONT)
        self.assertIn("removed from the run", self.finish(coordinator, code=3))
        self.assertIn("removed from the run", self.finish(worker, code=3))

    def test_a_worker_that_is_away_as_its_coordinator_hears_of_the_removal_is_told(self):
        self.remove_while_its_worker_is_away(ranks=1)

    def test_a_rank_that_comes_back_alone_as_its_coordinator_hears_of_the_removal_is_told(self):
        self.remove_while_its_worker_is_away(ranks=2)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
