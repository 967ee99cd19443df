"""Ranks that hold parts as plain tensors, which look like copies, are refused or told of; FSDP2 and pipelines are in parallel_test.py."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch

from causeway.torch.parameters import Parameters
from causeway.torch.ranks import Solo
from causeway.torch.shards import beginnings, told_apart

FSDP1 = pathlib.Path(__file__).parent / "trainers" / "fsdp1.py"


class Fsdp1(unittest.TestCase):
    def check(self, strategy, use_orig_params, sentence):
        with tempfile.TemporaryDirectory() as directory:
            ranks = [subprocess.Popen([sys.executable, FSDP1, strategy, use_orig_params, f"{directory}/store", str(rank)], text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "OMP_NUM_THREADS": "1"})
                     for rank in range(2)]
            for rank in ranks:
                self.assertRegex(rank.communicate(timeout=300)[0], sentence)

    def test_it_is_refused_on_all_ranks_with_what_to_use(self):
        for use_orig_params in ("no", "yes"):
            self.check("FULL_SHARD", use_orig_params, r"refused: FSDP1 .* divides parameters .*: use fully_shard \(FSDP2\)")
        self.check("SHARD_GRAD_OP", "no", "refused: FSDP1")

    def test_with_copies_on_all_ranks_it_is_taken(self):
        self.check("NO_SHARD", "no", "took 1 step")


class Zero(unittest.TestCase):
    def refused(self, model):
        with self.assertRaisesRegex(ValueError, r"^DeepSpeed's ZeRO divides parameters.*use fully_shard \(FSDP2\)$"):
            Parameters(model, [], Solo(), 1, "average")

    def test_parameters_of_stage_3_are_refused(self):
        model = torch.nn.Linear(2, 2)
        model.weight.ds_id = 0
        self.refused(model)

    def test_an_engine_whose_optimizer_has_weights_of_its_own_is_refused(self):
        model = torch.nn.Sequential(torch.nn.Linear(2, 2))
        model.zero_optimization_stage = lambda: 0
        Parameters(model, [], Solo(), 1, "average")
        model.zero_optimization_stage = lambda: 1
        self.refused(model)


class Copies(unittest.TestCase):
    def model(self, seed):
        torch.manual_seed(seed)
        return dict(torch.nn.Linear(40, 30).named_parameters())

    def test_ranks_with_the_same_values_are_copies(self):
        self.assertIsNone(told_apart([beginnings(self.model(1)), beginnings(self.model(1))]))

    def test_ranks_with_other_values_are_told_by_name(self):
        self.assertRegex(told_apart([beginnings(self.model(1)), {}, beginnings(self.model(2))]),
                         "^rank 2 of this region has other values of weight than rank 0: .* use fully_shard")


if __name__ == "__main__":
    unittest.main()
