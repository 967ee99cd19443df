"""`causeway follow`: the weights of a run that trains, for those who only read it."""
import contextlib
import hashlib
import importlib.util
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import unittest
import urllib.request

try:
    import numpy
except ImportError:
    numpy = None

from followed_run import FollowedRun
from harness import DENSE, REGIONS, SPARSE, free_port, read_json, wait_until


class Follow(FollowedRun):
    def get(self, port, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()

    def assert_follows_to_the_end(self, **settings):
        config = self.begin_that_ends(**settings)
        follower = self.follow(config, "--dtype", "float32", "--after",
                               "echo $CAUSEWAY_VERSION $(sha256sum < $CAUSEWAY_MODEL/model.safetensors) >> seen")
        self.let_go(follower)
        self.finish_all(self.coordinators + self.workers)
        self.finish(follower)
        last = self.published()
        self.assertTrue(last["final"])
        self.assertEqual(last["version"], self.version(REGIONS[0]))
        self.assertGreaterEqual(len(last["signatures"]), 2)
        final = self.region_directory(REGIONS[0]) / "checkpoints" / "final"
        self.assertEqual(self.model(), (final / "model.safetensors").read_bytes())
        self.assertEqual(json.loads((self.served / "current" / "config.json").read_text()),
                         json.loads((final / "config.json").read_text()))
        self.assertEqual(hashlib.sha256(self.model()).hexdigest(), last["model_sha256"])
        seen = (self.directory / "seen").read_text().splitlines()[-1].split()
        self.assertEqual(seen[:2], [str(last["version"]), last["model_sha256"]])
        return config

    def test_a_follower_ends_with_the_weights_of_a_sparse_run(self):
        config = self.assert_follows_to_the_end(**SPARSE)
        self.finish(self.follow(config, "--dtype", "float32"))  # all is here, and no region runs any more

    def test_a_follower_ends_with_the_weights_of_a_dense_run(self):
        self.assert_follows_to_the_end(**DENSE)

    def test_a_follower_ends_with_the_weights_of_a_sharded_run(self):
        self.assert_follows_to_the_end(exchange="sharded", **DENSE)

    def test_a_follower_that_is_killed_again_and_again_goes_on(self):
        config = self.begin()
        version = 0
        for _ in range(6):
            follower = self.follow(config)
            version = self.wait_for_version(version + 1, follower)["version"]
            self.assertTrue(self.model())
            follower.kill()
            follower.wait()
        log = self.finish_killed_run(config)
        self.assertIn("goes on from version", log)

    def finish_killed_run(self, config):
        """The newest state of a follower, held against a replay's of what it has on its disk."""
        follower = self.follow(config)
        self.wait_for_version(self.published()["version"] + 3, follower)
        follower.send_signal(signal.SIGTERM)
        self.finish(follower, code=130)
        self.stop_run()
        return follower.log.read_text()

    def test_bf16_is_half_of_the_bytes_and_a_model_that_loads(self):
        config = self.begin()
        port = free_port()
        follower = self.follow(config, "--every", "3", "--http", f"127.0.0.1:{port}")
        first = self.wait_for_version(1, follower)["version"]
        status, text = self.get(port, f"/version?after={first}")
        self.assertEqual(status, 200)
        self.assertGreaterEqual(json.loads(text)["version"], first + 3)
        self.assertEqual(self.get(port, "/healthz")[1], "ok\n")
        self.assertRegex(self.get(port, "/metrics")[1], r"causeway_follower_published_version \d+")
        header_bytes = int.from_bytes(self.model()[:8], "little")
        header = json.loads(self.model()[8:8 + header_bytes])
        kinds = {tensor["dtype"] for name, tensor in header.items() if name != "__metadata__"}
        self.assertEqual(kinds, {"BF16"})
        self.assertEqual(json.loads((self.served / "current" / "config.json").read_text())["dtype"], "bfloat16")
        self.run_causeway("eval", self.served / "current", "--config", config)
        follower.kill()
        self.stop_run()

    @unittest.skipIf(numpy is None, "needs numpy")
    def test_python_has_the_newest_weights_in_place_and_ends_with_the_run(self):
        source = pathlib.Path(os.environ["CAUSEWAY_SOURCE"]) / "python" / "causeway" / "follow.py"
        spec = importlib.util.spec_from_file_location("follow", source)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        config = self.begin_that_ends()
        reader = module.Follower(self.served, framework="numpy", poll_s=0.01)
        self.assertIsNone(reader.newest())
        follower = self.follow(config, "--dtype", "float32")
        self.let_go(follower)
        versions = [(weights.version, float(weights["transformer.wte.weight"].sum())) for weights in reader]
        self.finish(follower)
        self.finish_all(self.coordinators + self.workers)
        self.assertEqual(versions, sorted(versions, key=lambda one: one[0]))
        self.assertGreater(len(versions), 1)
        self.assertEqual(versions[-1][0], self.version(REGIONS[0]))
        self.assertIsNone(reader.newest(), "it was given")
        self.assertTrue(reader.over())

    def test_another_region_is_asked_when_one_is_gone_and_members_change(self):
        config = self.begin()
        wait_until(lambda: self.version(REGIONS[1]) >= 1, "a round", self.coordinators[1])  # it is up, so that it is the first asked
        follower = self.follow(config, "--region", REGIONS[1])
        self.wait_for_version(1, follower)
        self.assertIn(f"follows by way of {REGIONS[1]}", follower.log.read_text())
        for child in (self.coordinators[1], self.workers[1]):
            child.kill()
        # Versions may be under way from the region that is gone, and either of the others is asked next.
        wait_until(lambda: re.search(f"follows by way of ({REGIONS[0]}|{REGIONS[2]})", follower.log.read_text()),
                   "the follower to ask another region", follower)
        self.wait_for_version(self.published()["version"] + 3, follower)
        self.run_causeway("members", "remove", REGIONS[1], "--directory", self.region_directory(REGIONS[0]))
        self.wait_for_version(self.published()["version"] + 3, follower)
        follower.kill()
        self.stop_run()

    def test_followers_follow_followers_and_no_region_sends_for_them(self):
        config = self.begin_that_ends()
        self.run_causeway("certs", "--directory", "certificates", "add-follower", "behind")
        port = free_port()
        first = self.follow(config, "--serve", f"127.0.0.1:{port}")
        nowhere = [flag for region in REGIONS for flag in ("--peer", f"{region}=127.0.0.1:{free_port()}")]
        second = self.start("follow", config, "--as", "behind", "--directory", self.directory / "behind", *nowhere,
                            "--from", f"reader=127.0.0.1:{port}")
        self.let_go(first, second)
        self.finish_all(self.coordinators + self.workers)
        self.finish(first)
        self.finish(second)
        theirs, ours = (read_json(place / "current.json") for place in (self.served, self.directory / "behind"))
        self.assertEqual(theirs["model_sha256"], ours["model_sha256"])
        self.assertEqual(ours["version"], self.version(REGIONS[0]))
        self.assertEqual(theirs["signatures"], ours["signatures"])
        self.assertIn("follows by way of reader.follower", second.log.read_text())

    def test_a_region_that_sends_wrong_bytes_is_found_and_another_one_asked(self):
        config = self.begin()
        self.stand_still(5)
        for blob in (self.region_directory(REGIONS[0]) / "spool").glob("*-*[0-9]"):
            with contextlib.suppress(FileNotFoundError), open(blob, "r+b") as file:  # a payload that no round needs any more is gone
                file.seek(blob.stat().st_size // 2)
                byte = file.read(1)
                file.seek(-1, os.SEEK_CUR)
                file.write(bytes([byte[0] ^ 1]))
        follower = self.follow(config, "--region", REGIONS[0])
        self.wait_for_version(1, follower)
        self.assertIn(f"{REGIONS[0]} sent wrong bytes for", follower.log.read_text())
        follower.kill()
        for worker in self.workers:
            worker.kill()
        self.stop_run()

    def test_a_full_disk_is_said_and_waited_out(self):
        config = self.begin()
        follower = self.follow(config)
        before = self.wait_for_version(1, follower)["version"]
        resource.prlimit(follower.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        wait_until(lambda: "the disk cannot be written to" in follower.log.read_text(), "the follower to say so", follower)
        self.assertTrue(self.model())
        resource.prlimit(follower.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        self.wait_for_version(before + 5, follower)
        follower.kill()
        self.stop_run()

    def test_who_may_not_follow_is_told_so(self):
        config = self.begin()
        wait_until(lambda: self.version(REGIONS[0]) >= 1, "a round", self.coordinators[0])
        follow = ("follow", config, "--directory", self.served, "--as")
        self.assertIn("reader.follower", self.run_causeway("certs", "--directory", "certificates", "show"))
        self.assertIn("certificate", self.run_causeway(*follow, REGIONS[0], code=2))  # a region's is for taking part
        self.assertIn("nobody.crt", self.run_causeway(*follow, "nobody", code=2))
        self.run_causeway("certs", "--directory", "certificates", "add-observer", "watch")
        self.assertIn("certificate", self.run_causeway(*follow, "watch", code=2))
        self.assertIn("--signatures: -1: must be a number", self.run_causeway(*follow, "reader", "--signatures", "-1", code=2))
        self.assertIn("no region of that name", self.run_causeway(*follow, "reader", "--region", "nowhere", code=2))
        self.assertIn("outer.lr", self.run_causeway(*follow, "reader", "--set", "outer.lr=0.5", code=2))
        region = self.region_directory(REGIONS[0])
        taken = self.addresses[REGIONS[0]]  # a port that the coordinator has: a mistake is not waited for
        self.assertIn("is a region's own directory", self.run_causeway(
            "follow", config, "--as", "reader", "--directory", region, "--http", taken, code=2))
        self.assertIn("programs (--http) and other followers (--serve)", self.run_causeway(
            *follow, "reader", "--http", taken, "--serve", taken, code=2))
        self.assertFalse((region / "follow.lock").exists())
        self.assertIn("is what `causeway follow` keeps", self.run_causeway(
            "coordinator", config, "--region", REGIONS[0], "--auto", "--directory", self.served, code=2))
        shutil.rmtree(self.served)
        follower = self.follow(config)
        self.wait_for_version(1, follower)
        self.assertIn("another follower uses", self.run_causeway(*follow, "reader", "--start-wait", "0", code=75))
        shutil.copytree(self.directory / "certificates", self.directory / "elsewhere")
        self.run_causeway("certs", "--directory", "certificates", "revoke", "reader")
        self.assertIn("most regions refuse this follower", self.finish(follower, code=3))
        self.assertIn("revoked", self.run_causeway(*follow, "reader", "--certificates", "elsewhere", code=3))
        self.stop_run()


if __name__ == "__main__":
    unittest.main()
