"""State of optimizers that is sparse, long, or not alike on all ranks."""
import tempfile
import tracemalloc
import unittest

import torch
from optimizer_doubles import Around, Sam, step
from worker_double import a_run, steps

from causeway.torch import Run
from causeway.torch.nested import tensors_of
from causeway.torch.ranks import Solo
from causeway.torch.trainer_state import TrainerState

PLAN = [steps(0, 1, 0, 0), steps(1, 1, 1, 1)]


class Sparse(unittest.TestCase):
    """Such a tensor has no one place in memory."""

    def train(self, make, **also):
        model = torch.nn.Embedding(4, 2, sparse=True)
        with a_run(*PLAN) as (_, directory), self.assertNoLogs("causeway", "WARNING"):
            optimizer = make(model.parameters())
            with Run(model, optimizer, directory=directory, also=also) as run:
                for one in run:
                    optimizer.zero_grad()
                    model(torch.tensor([0, 1])).sum().backward()
                    optimizer.step()

    def test_moments_are_kept(self):
        self.train(lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9))

    def test_so_they_are_in_an_optimizer_within_another_one_and_in_also(self):
        class Both(Around):
            def state_dict(self):
                return {"base": self.base_optimizer.state_dict()}

            def step(self, closure=None):
                self.base_optimizer.step()

        self.train(lambda parameters: Both(parameters, lambda groups, lr: torch.optim.SGD(groups, lr, momentum=0.9)),
                   graph=torch.nn.ParameterDict({"edges": torch.nn.Parameter(torch.eye(2).to_sparse(), requires_grad=False)}))


class Long(unittest.TestCase):
    """A list of numbers that a program keeps."""
    ELEMENTS = 300_000

    def test_is_walked_without_a_set_for_each_element(self):
        model = torch.nn.Linear(2, 2)
        sam = Sam(model.parameters(), torch.optim.AdamW)
        step(model, sam)
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        self.assertEqual(len(tensors_of({"order": list(range(self.ELEMENTS)), "rows": [torch.ones(1)]})), 1)
        self.assertLess(tracemalloc.get_traced_memory()[1], 60 * self.ELEMENTS)

    def test_is_not_walked_where_no_optimizer_has_another_in_it(self):
        class Order:
            asked = 0

            def state_dict(self):
                self.asked += 1
                return {}

            def load_state_dict(self, state):
                pass

        model, order = torch.nn.Linear(2, 2), Order()
        with tempfile.TemporaryDirectory() as directory:
            state = TrainerState(directory, Solo(), [torch.optim.AdamW(model.parameters())], {"order": order})
            before = order.asked
            state.tell_left_out()
            self.assertEqual(order.asked, before)


class OfSeveralRanks(unittest.TestCase):
    def test_what_one_cannot_walk_is_told_to_all(self):
        class Breaks:
            times = 0

            def state_dict(self):
                self.times += 1
                if self.times == 3:  # when the run is entered, and after a step by what looks before
                    raise KeyError("gone")
                return {}

            def load_state_dict(self, state):
                pass

        class Rank(Solo):
            world, told = 2, None

            def gather(self, value):
                self.told = value
                return [value, value]

        model, ranks = torch.nn.Linear(2, 2), Rank()
        sam = Sam(model.parameters(), torch.optim.AdamW)
        with tempfile.TemporaryDirectory() as directory:
            state = TrainerState(directory, ranks, [sam], {"breaks": Breaks()})
            step(model, sam)
            with self.assertRaises(KeyError):
                state.check_after_a_step()
            self.assertEqual(ranks.told, (None, "'gone'"))


if __name__ == "__main__":
    unittest.main()
