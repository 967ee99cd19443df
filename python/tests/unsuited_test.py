"""Optimizers that do badly in a run, or cannot take part: told of when the run is entered."""
import unittest

import torch
from worker_double import a_run, steps

from causeway.torch import Run

PLAN = [steps(0, 1, 0, 0), steps(1, 1, 1, 1)]


class Unsuited(unittest.TestCase):
    def setUp(self):
        self.model = torch.nn.Linear(2, 2)
        self.plain = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def enter(self, optimizer):
        with a_run() as (_, directory), Run(self.model, optimizer, directory=directory):
            pass

    def told(self, optimizer):
        with self.assertLogs("causeway", "WARNING") as said:
            self.enter(optimizer)
        self.assertEqual(len(said.output), 1)
        return said.output[0]

    def test_ones_with_weights_of_their_own_are_told_of(self):
        class AdamWScheduleFree(torch.optim.SGD):
            pass

        class Ranger(torch.optim.SGD):
            """RAdam with Lookahead."""

        class Lookahead(torch.optim.Optimizer):
            def __init__(self, optimizer):
                super().__init__(optimizer.param_groups, {})
                self.optimizer = optimizer

        for optimizer in (*(kind(self.model.parameters(), lr=0.1) for kind in (AdamWScheduleFree, Ranger)), Lookahead(self.plain)):
            self.assertIn(f"{type(optimizer).__name__} keeps weights of its own, which do not cross", self.told(optimizer))

    def test_one_that_learns_from_how_far_it_came_is_told_of(self):
        self.assertIn("LBFGS takes every change of the parameters for its own step", self.told(torch.optim.LBFGS(self.model.parameters())))

    def test_others_are_not(self):
        with self.assertNoLogs("causeway", "WARNING"):
            self.enter(self.plain)


class DividedState(unittest.TestCase):
    def test_an_optimizer_that_gives_its_state_to_no_rank_alone_is_refused(self):
        class ZeroRedundancyOptimizer(torch.optim.SGD):
            """As PyTorch's."""

            def state_dict(self):
                raise RuntimeError("Optimizer state has not been consolidated on this rank")

        model = torch.nn.Linear(2, 2)
        with a_run() as (_, directory), self.assertRaisesRegex(ValueError, "the optimizer is a ZeroRedundancyOptimizer, which divides its state "
                                                                           "over the ranks.*fully_shard"):
            Run(model, ZeroRedundancyOptimizer(model.parameters(), lr=0.1), directory=directory)


class StrangeParameters(unittest.TestCase):
    def test_of_an_optimizer_are_refused_with_what_to_do(self):
        model, loss = torch.nn.Linear(2, 2), torch.nn.Linear(3, 1, bias=False)
        with self.assertRaisesRegex(ValueError, r"has 1 parameters that the model does not have, the first of shape \(1, 3\).*one ModuleDict"):
            Run(model, torch.optim.SGD([*model.parameters(), *loss.parameters()], lr=0.1), directory="r")
        both = torch.nn.ModuleDict({"model": model, "loss": loss})
        Run(both, torch.optim.SGD(both.parameters(), lr=0.1), directory="r")


if __name__ == "__main__":
    unittest.main()
