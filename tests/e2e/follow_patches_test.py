"""`causeway follow --by patches`: the weights alone, exact, in few bytes."""
import contextlib
import hashlib
import os
import unittest

from followed_run import FollowedRun
from harness import DENSE, REGIONS, free_port, read_json, wait_until


def flip(path, place=0.5):
    """A bit of each of four bytes, so that a number is another one whatever it is rounded to."""
    with open(path, "r+b") as file:
        file.seek(int(path.stat().st_size * place))
        before = file.read(4)
        file.seek(-len(before), os.SEEK_CUR)
        file.write(bytes(byte ^ 1 for byte in before))


class FollowPatches(FollowedRun):
    def follow_by_patches(self, config, *flags):
        return self.follow(config, "--by", "patches", *flags)

    def another(self, config, *flags):
        """A second follower, whose directory is `whole`."""
        if not (self.directory / "certificates" / "other.key").exists():
            self.run_causeway("certs", "--directory", "certificates", "add-follower", "other")
        return self.start("follow", config, "--as", "other", "--directory", self.directory / "whole", *flags)

    def test_they_end_with_the_model_that_payloads_give(self):
        config = self.begin_that_ends(**DENSE)
        by_payloads = self.another(config, "--by", "payloads")
        by_patches = self.follow(config, "--every", "2")  # regions make a snapshot of every second round; payloads would be 6 bytes a parameter
        self.let_go(by_payloads, by_patches)
        self.finish_all(self.coordinators + self.workers)
        self.finish(by_payloads)
        log = self.finish(by_patches)
        self.assertIn("by patches", log)
        self.assertIn("fetched a patch to version", log)
        ours, theirs = self.published(), read_json(self.directory / "whole" / "current.json")
        for key in ("run", "version", "digest", "final", "dtype", "model_sha256"):
            self.assertEqual(ours[key], theirs[key], key)
        self.assertTrue(ours["final"])
        self.assertEqual(ours["version"], self.version(REGIONS[0]))
        self.assertGreaterEqual(len(ours["signatures"]), 2)
        self.assertIn("its last version is there. To follow another run, name another --directory",
                      self.finish(self.follow(config)))  # no region runs any more
        self.run_causeway("eval", self.served / "current", "--config", config)

    def test_one_that_is_killed_again_and_again_goes_on(self):
        config = self.begin()
        version = 0
        for _ in range(6):
            follower = self.follow_by_patches(config, "--every", "2")
            version = self.wait_for_version(version + 2, follower)["version"]
            follower.kill()
            follower.wait()
            self.assertEqual(hashlib.sha256(self.model()).hexdigest(), self.published()["model_sha256"])
        self.assertIn("goes on from version", follower.log.read_text())
        self.stop_run()

    def test_a_program_that_keeps_its_own_kind_of_weights_is_changed_over(self):
        config = self.begin()
        for way in ("payloads", "patches", "payloads"):
            before = (self.published() or {"version": 0})["version"]
            follower = self.follow(config, "--by", way)
            self.wait_for_version(before + 2, follower)
            follower.kill()
            follower.wait()
        self.stop_run()

    def test_what_a_disk_damaged_here_is_fetched_whole(self):
        config = self.begin()
        self.stand_still(3)
        follower = self.follow_by_patches(config)
        held = self.wait_for_version(1, follower)
        flip(self.served / "spool" / held["image"])
        self.let_go(follower)
        self.wait_for_version(held["version"] + 3, follower)
        self.assertIn("were damaged here", follower.log.read_text())
        follower.kill()
        self.stop_run()

    def test_a_region_that_sends_wrong_weights_is_found_and_another_one_asked(self):
        config = self.begin()
        self.stand_still(5)
        first = self.follow_by_patches(config, "--region", REGIONS[0])
        right = self.wait_for_version(1, first)
        first.kill()
        for image in (self.region_directory(REGIONS[0]) / "weights").iterdir():
            flip(image)
        follower = self.another(config, "--by", "patches", "--region", REGIONS[0])
        there = self.directory / "whole" / "current.json"
        wait_until(there.exists, "a version", follower)
        self.assertIn(f"{REGIONS[0]} sent wrong bytes for", follower.log.read_text())
        self.assertEqual(read_json(there)["model_sha256"], right["model_sha256"])
        follower.kill()
        for worker in self.workers:
            worker.kill()
        self.stop_run()

    def test_a_region_whose_snapshot_is_damaged_holds_up_nobody(self):
        config = self.begin()
        self.stand_still(5)
        for blob in (self.region_directory(REGIONS[0]) / "spool").glob("*-*[0-9]"):
            with contextlib.suppress(FileNotFoundError):  # a payload that no round needs any more
                flip(blob, 0.3)  # of a snapshot: in the anchor, before the momentum
        follower = self.follow_by_patches(config, "--region", REGIONS[0])
        version = self.wait_for_version(1, follower)
        other = self.another(config, "--by", "patches", "--region", REGIONS[1])
        there = self.directory / "whole" / "current.json"
        wait_until(there.exists, "a version by way of another region", other)
        theirs = read_json(there)
        self.assertEqual([version[key] for key in ("version", "digest", "model_sha256")], [theirs[key] for key in ("version", "digest", "model_sha256")])
        other.kill()
        follower.kill()
        for worker in self.workers:
            worker.kill()
        self.stop_run()

    def test_followers_share_the_patches_of_one_that_serves(self):
        config = self.begin_that_ends()
        port = free_port()
        serving = self.follow(config, "--serve", f"127.0.0.1:{port}")
        self.wait_for_version(1, serving)
        behind = self.another(config, "--by", "patches", "--from", f"reader=127.0.0.1:{port}")
        self.let_go(serving, behind)
        self.finish_all(self.coordinators + self.workers)
        self.finish(serving)
        log = self.finish(behind)
        self.assertIn("follows by way of reader.follower", log)
        self.assertIn("fetched a patch to version", log)
        self.assertEqual(read_json(self.directory / "whole" / "current.json")["model_sha256"], self.published()["model_sha256"])

    def test_what_needs_the_whole_state_is_refused(self):
        config = self.config(addresses=self.addresses)
        follow = ("follow", config, "--as", "reader", "--directory", self.served, "--by", "patches")
        self.assertIn("--dtype float32", self.run_causeway(*follow, "--dtype", "float32", code=2))
        self.assertIn("--serve", self.run_causeway(*follow, "--serve", "127.0.0.1:0", code=2))


if __name__ == "__main__":
    unittest.main()
