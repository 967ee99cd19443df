"""A run of three regions that trains for as long as a test needs, and followers beside it."""
import signal

from harness import REGIONS, read_json, wait_until
from run_by_hand import RunByHand


class FollowedRun(RunByHand):
    def setUp(self):
        super().setUp()
        self.run_causeway("certs", "--directory", "certificates", "add-follower", "reader")
        self.served = self.directory / "served"

    def begin(self, **settings):
        """A run of three regions that trains for as long as a test needs."""
        config = self.config(addresses=self.addresses, **{"steps": 1_000_000, **settings})
        text = config.read_text().replace("grace_min_s = 2", "grace_min_s = 0.5\ngrace_max_s = 2")
        config.write_text(text)
        self.coordinators = self.start_coordinators(config)
        self.workers = self.start_workers(config, (1, 1, 1))
        return config

    def follow(self, config, *flags):
        return self.start("follow", config, "--as", "reader", "--directory", self.served, *flags)

    def published(self):
        return read_json(self.served / "current.json")

    def wait_for_version(self, version, follower):
        return wait_until(lambda: (now := self.published()) and now["version"] >= version and now, f"version {version}", follower)

    def stop_run(self):
        for child in self.coordinators + self.workers:
            if child.poll() is None:
                child.send_signal(signal.SIGINT)
        for child in self.coordinators + self.workers:
            child.wait()

    def model(self, *place):
        return (self.served.joinpath(*(place or ("current",))) / "model.safetensors").read_bytes()

    def stand_still(self, version):
        """The run at some version, with what it needs to go on."""
        wait_until(lambda: self.version(REGIONS[0]) >= version and (self.region_directory(REGIONS[0]) / "ledger" / "snapshot").exists(),
                   "some rounds", self.coordinators[0])
        for worker in self.workers:
            worker.send_signal(signal.SIGSTOP)
        wait_until(self.settled, "what was under way from the workers to arrive", self.coordinators[0])

    def settled(self):
        """No snapshot came to a region from one answer of all coordinators to the next, and none is being copied."""
        places = [self.region_directory(region) for region in REGIONS]
        def snapshots():
            self.ask_all()
            return [(place / "ledger" / "snapshot").read_bytes() for place in places if (place / "ledger" / "snapshot").exists()]
        return snapshots() == snapshots() and not any(draft for place in places for draft in (place / "spool").glob("draft-*"))

    def ask_all(self):
        """A coordinator that has answered has read what its worker had said before, however busy the machine is."""
        self.assertRegex(self.run_causeway("status", *self.addresses.values(), "--as", REGIONS[0]), r"all: \d+ rounds")
