"""A run comes out as DiLoCo in plain PyTorch does."""
import sys
import unittest

import torch
from plain_diloco import PlainDiLoCo
from region_run import TRAINERS, RegionRun

sys.path.insert(0, str(TRAINERS))
import own_samples  # noqa: E402

ROUNDS, K = 50, 4


class Plain(RegionRun):
    regions = 2
    settings = dict(RegionRun.settings, steps=ROUNDS * K, k=K)

    def test_fifty_rounds_end_with_the_same_parameters(self):
        results = [self.directory / f"{name}.pt" for name in self.names]
        regions = [self.trainer("own_samples.py", number, self.region(name), result)
                   for number, (name, result) in enumerate(zip(self.names, results))]
        plain = PlainDiLoCo(own_samples.make_model(), 2, self.settings["outer_lr"], 0.9, own_samples.make_optimizer)
        for number in range(ROUNDS):
            plain.round(range(number * K, (number + 1) * K), own_samples.loss_of)
        for region in regions:
            self.finish(region)
        self.finish_coordinators()
        first, second = map(torch.load, results)
        started = own_samples.make_model().state_dict()
        for name, expected in plain.model.state_dict().items():
            self.assertTrue(torch.equal(first[name], second[name]), name)
            self.assertGreater((expected - started[name]).norm(), 0.1 * started[name].norm())
            self.assertLess((first[name] - expected).norm() / expected.norm(), 1e-6, name)


if __name__ == "__main__":
    unittest.main()
