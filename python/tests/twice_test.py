"""Two Runs of one region in one process, and a program that goes to another directory, with a worker's double."""
import gc
import os
import pathlib
import tempfile
import unittest

import torch
from worker_double import a_run, steps

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

    def test_one_that_finds_the_run_over_says_that_it_trains_nothing(self):
        with a_run(steps(0, 1, 0, 0)) as (_, directory):
            with self.assertNoLogs("causeway", "WARNING"), self.make(directory, region="eu") as run:
                self.assertEqual(len(list(run)), 1)
            with self.assertNoLogs("causeway", "WARNING"), self.make(directory, region="late") as run:
                self.assertEqual(len(list(run)), 0)  # it may have missed the end
            with self.assertLogs("causeway", "WARNING") as said, self.make(directory, region="eu") as run:
                self.assertEqual(len(list(run)), 0)
            self.assertRegex(said.output[0], "trained the run to its end before, so no step is left, .* second phase in a run of its own")

    def test_the_directory_stays_where_it_was(self):
        with a_run(steps(0, 1, 0, 0)) as (_, directory), tempfile.TemporaryDirectory() as other:
            before = os.getcwd()
            self.addCleanup(os.chdir, before)
            os.chdir(directory)
            with self.make("eu", save_rounds=1) as run:
                for step in run:
                    os.chdir(other)
            os.chdir(before)
            self.assertEqual(len(list(pathlib.Path(directory, "eu").glob("checkpoints/trainer-1-*.pt"))), 1)
            self.assertEqual(os.listdir(other), [])


if __name__ == "__main__":
    unittest.main()
