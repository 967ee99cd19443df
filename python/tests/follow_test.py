"""What `causeway follow` publishes, in PyTorch and in the example server."""
import importlib.util
import json
import re
import signal
import sys
import unittest
import urllib.request

import torch
from causeway.follow import Follower
from run_test import REGIONS, SOURCE, EndToEnd, free_port, wait_until


class Follow(EndToEnd):
    """A run of three regions with the built-in trainer, started one by one as tests/e2e/run_by_hand.py does."""

    def begin(self, steps):
        self.run_causeway("certs", "--directory", "certificates", "init")
        self.run_causeway("certs", "--directory", "certificates", "add-region", *REGIONS)
        self.run_causeway("certs", "--directory", "certificates", "add-follower", "reader")
        config = self.config(addresses={region: f"127.0.0.1:{free_port()}" for region in REGIONS}, steps=steps)
        self.processes = [self.start(kind, config, "--region", region, "--directory", self.out / "regions" / region, *flags)
                    for region in REGIONS for kind, flags in (("coordinator", ("--auto",)), ("worker", ()))]
        self.served = self.directory / "served"
        return config, self.start("follow", config, "--as", "reader", "--directory", self.served)

    def test_tensors_are_views_of_the_file_and_the_last_ones_are_the_runs(self):
        _, follower = self.begin(steps=1500)
        versions = list(Follower(self.served, poll_s=0.01))
        for child in (*self.processes, follower):
            self.finish(child)
        last = versions[-1]
        self.assertTrue(json.loads((self.served / "current.json").read_text())["final"])
        self.assertEqual({tensor.dtype for tensor in last.values()}, {torch.bfloat16})
        self.assertGreater(len(versions), 1)
        self.assertFalse(torch.equal(versions[0]["transformer.wte.weight"], last["transformer.wte.weight"]))

    @unittest.skipIf(importlib.util.find_spec("transformers") is None, "not installed: transformers")
    def test_the_example_answers_while_versions_change(self):
        _, follower = self.begin(steps=1_000_000)
        wait_until(lambda: (self.served / "current.json").exists(), "a version", follower)
        server = self.start_program(sys.executable, f"{SOURCE}/examples/serving/serve.py", self.served, "--port", "0")
        port = wait_until(lambda: re.search(r"serves on port (\d+)", server.log.read_text()), "the server", server)[1]
        seen = set()

        def ask():
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/?prompt=the+king", timeout=60) as answer:
                seen.add(json.loads(answer.read())["version"])
            return len(seen) >= 4

        wait_until(ask, "answers of four versions", server)
        for child in (*self.processes, follower, server):
            child.send_signal(signal.SIGKILL)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
