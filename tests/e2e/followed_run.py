"""A run of three regions that trains for as long as a test needs, and followers beside it."""
import itertools
import re
import signal

from harness import REGIONS, read_json, wait_until
from run_by_hand import RunByHand

CHECKPOINT_ROUNDS = 2  # from one snapshot to the next, as in the harness's configuration


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

    def begin_that_ends(self, **settings):
        """A run of some rounds that stands still, until let_go()."""
        config = self.begin(steps=300, **settings)
        self.stand_still(2)
        return config

    def let_go(self, *followers):
        """Once these have a link: who comes after the end of all others hears nothing of it."""
        for follower in followers:
            wait_until(lambda: "follows by way of" in follower.log.read_text(), "a link", follower)
        for worker in self.workers:
            worker.send_signal(signal.SIGCONT)

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
        """The run at some version or later: each region has the same snapshot, and no worker has reached the round of the next one."""
        wait_until(lambda: self.is_still(version), "the same snapshot in all regions", self.coordinators[0])

    def is_still(self, version):
        snapshots = {self.snapshot_version(region) for region in REGIONS}
        if len(snapshots) > 1 or min(snapshots) < version:
            return False
        for worker in self.workers:
            worker.send_signal(signal.SIGSTOP)
        if max(self.applied(worker) for worker in self.workers) < min(snapshots) + CHECKPOINT_ROUNDS:
            return True
        for worker in self.workers:
            worker.send_signal(signal.SIGCONT)
        return False

    def snapshot_version(self, region):
        """Of the snapshot that the region offers: the first field of ledger/snapshot, a Protobuf message after 12 bytes of checksum."""
        path = self.region_directory(region) / "ledger" / "snapshot"
        if not path.exists():
            return 0
        tag, *rest = path.read_bytes()[12:]
        self.assertEqual(tag, 0x08)
        digits = [*itertools.takewhile(lambda byte: byte & 0x80, rest)]
        return sum((byte & 0x7F) << 7 * place for place, byte in enumerate(rest[:len(digits) + 1]))

    def applied(self, worker):
        """The last round that the worker has applied. It says so before it writes what is to be saved."""
        return max(map(int, re.findall(r"round (\d+) applied", worker.log.read_text())), default=0)
