"""Two Runs of one region in one process, with a worker's double."""
import gc
import unittest

import torch
from worker_double import a_run

from causeway.torch import Run


class OneProcess(unittest.TestCase):
    def make(self, directory, **settings):
        model = torch.nn.Linear(2, 2)
        return Run(model, torch.optim.SGD(model.parameters(), lr=0.1), directory=directory, **settings)

    def test_a_second_one_is_refused_while_the_first_is_entered(self):
        with a_run() as (_, directory), self.make(directory, region="eu"):
            with self.assertRaisesRegex(ValueError, "this process already takes part as eu: put both models into one ModuleDict"):
                self.make(directory, region="eu").__enter__()
            with self.make(directory, region="us"):
                pass

    def test_one_that_was_left_or_dropped_does_not_count(self):
        with a_run() as (_, directory):
            with self.assertRaises(KeyError), self.make(directory):
                raise KeyError
            with self.make(directory):
                pass
            self.make(directory).__enter__()  # by a library, which ended without leaving it
            gc.collect()
            with self.make(directory):
                pass


if __name__ == "__main__":
    unittest.main()
