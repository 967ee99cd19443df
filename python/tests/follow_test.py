"""What `causeway follow` publishes, in PyTorch and in the example server."""
import importlib.util
import json
import pathlib
import re
import signal
import sys
import tempfile
import unittest
import urllib.request

import torch
from causeway.follow import PART_BITS, Follower, Weights, _torch_array
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


class LoadInto(unittest.TestCase):
    """Files as `causeway follow` writes them, of a program's model in PyTorch."""

    def setUp(self):
        self.model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 2))
        self.model[2].weight = self.model[0].weight
        self.model[2].bias.requires_grad = False

    def weights(self, dtype=torch.float32, batches=300_060, **others):
        number = torch.tensor([batches & (1 << PART_BITS) - 1, batches >> PART_BITS, 0])
        tensors = {"0.weight": torch.ones(2, 2), "0.bias": torch.full((2,), 2.0), "1.weight": torch.full((2,), 3.0), "1.bias": torch.zeros(2),
                   "average:1.running_mean": torch.full((2,), 0.5), "average:1.running_var": torch.full((2,), 0.25),
                   "lowest:1.num_batches_tracked": number, "lowest:frozen:123456789012": torch.zeros(1)}
        tensors = {name: value.to(dtype) for name, value in {**tensors, **others}.items() if value is not None}
        directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        header, content = {}, b""
        for name, value in tensors.items():
            own = value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
            header[name] = {"dtype": "F32" if dtype == torch.float32 else "BF16", "shape": list(value.shape),
                            "data_offsets": [len(content), len(content) + len(own)]}
            content += own
        text = json.dumps(header).encode()
        (directory / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + content)
        (directory / "version.json").write_text('{"version": 3}')
        return Weights(directory, _torch_array)

    def test_sets_parameters_and_statistics_and_leaves_what_does_not_cross(self):
        frozen = self.model[2].bias.detach().clone()
        self.weights().load_into(self.model)
        self.assertTrue(torch.equal(self.model[2].weight, torch.ones(2, 2)))
        self.assertEqual(self.model[1].running_var.tolist(), [0.25, 0.25])
        self.assertEqual(self.model[1].num_batches_tracked.item(), 300_060)
        self.assertTrue(torch.equal(self.model[2].bias, frozen))

    def test_sets_a_model_that_is_wrapped_and_what_has_no_elements(self):
        self.model.empty = torch.nn.Parameter(torch.zeros(0))
        self.weights().load_into(torch.nn.ModuleDict({"module": self.model}))
        self.assertTrue(torch.equal(self.model[2].weight, torch.ones(2, 2)))

    def test_names_of_an_earlier_version_are_known(self):
        """Which did not take Lightning Fabric's wrapper off."""
        old = {"0.weight": None, "_forward_module.0.weight": torch.ones(2, 2), "average:1.running_var": None,
               "average:_forward_module.1.running_var": torch.full((2,), 0.75)}
        self.weights(**old).load_into(self.model)
        self.assertTrue(torch.equal(self.model[2].weight, torch.ones(2, 2)))
        self.assertEqual(self.model[1].running_var.tolist(), [0.75, 0.75])
        with self.assertRaisesRegex(ValueError, "has _forward_module.3.weight, but the model does not"):
            self.weights(**{"_forward_module.3.weight": torch.ones(1)}).load_into(self.model)

    def test_says_where_a_whole_number_is_rounded(self):
        with self.assertNoLogs("causeway"):
            self.weights(torch.bfloat16, batches=255).load_into(self.model)
        self.assertEqual(self.model[1].num_batches_tracked.item(), 255)
        with self.assertLogs("causeway", "WARNING") as said:
            self.weights(torch.bfloat16).load_into(self.model)
            self.weights(torch.bfloat16).load_into(self.model)
        self.assertEqual(len(said.output), 1)
        self.assertIn("1.num_batches_tracked is a whole number, and is rounded in the file: `causeway follow --dtype float32`", said.output[0])

    def test_refuses_another_model_by_name(self):
        with self.assertRaisesRegex(ValueError, "has 3.weight, but the model does not"):
            self.weights(**{"3.weight": torch.ones(1)}).load_into(self.model)
        with self.assertRaisesRegex(ValueError, "the model has the parameter 0.bias, but .* does not"):
            self.weights(**{"0.bias": None}).load_into(self.model)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
