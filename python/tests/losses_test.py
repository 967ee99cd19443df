"""What is no loss, and NaN where values are due: told at once, by name."""
import unittest
import warnings

import numpy
import torch
from worker_double import a_run, steps

from causeway.torch import Run, arguments
from causeway.torch.ranks import Kind, Solo
from causeway.torch.steps import Told

PLAN = [steps(0, 1, 0, 0), steps(1, 1, 1, 1)]


class Losses(unittest.TestCase):
    def report(self, loss):
        with a_run(steps(0, 1, 0, 0)) as (worker, directory), Run(torch.nn.Linear(2, 2), directory=directory) as run:
            for step in run:
                run.report(loss)
        return worker.losses

    def test_that_are_no_real_number_are_refused_where_they_are_reported(self):
        for loss, sentence in ((torch.tensor(1j), "that has complex numbers"), (torch.zeros((), device="meta"), "on the meta device"),
                               (1j, "1j"), (numpy.complex64(1 + 2j), "1.*2j"), (numpy.zeros(2), "array")):
            with self.assertRaisesRegex(ValueError, r"report\(\) was given .*" + sentence):
                self.report(loss)

    def test_numbers_of_every_kind_are_taken(self):
        for loss in (2, 2.0, torch.tensor([2.0]), torch.tensor(2, dtype=torch.int8), numpy.float32(2), numpy.array(2.0)):
            self.assertEqual(self.report(loss), [2.0])

    def test_of_held_out_samples_too(self):
        asked = steps(0, 0, 0, 0)
        asked.validation_samples = 5
        for given in (None, "low", torch.zeros(2), 1j):
            with a_run(asked) as (_, directory):
                with self.assertRaisesRegex(ValueError, "evaluate gave .*: it must give the mean loss of the samples"):
                    with Run(torch.nn.Linear(2, 2), directory=directory, evaluate=lambda samples: given) as run:
                        run.step


class Reported(unittest.TestCase):
    def test_why_it_is_no_number_is_not_lost(self):
        class Fails:
            def __float__(self):
                raise RuntimeError("CUDA error: out of memory")

        for take in (arguments.loss, arguments.evaluated):
            with self.assertRaisesRegex(ValueError, "a number") as raised:
                take(Fails())
            self.assertEqual(str(raised.exception.__cause__), "CUDA error: out of memory")
            for no_number in ("3", None, numpy.complex64(1)):
                self.assertRaisesRegex(ValueError, "a number", take, no_number)


class NaN(unittest.TestCase):
    def test_in_a_buffer_is_named_with_what_to_do(self):
        model = torch.nn.BatchNorm1d(2)
        with a_run(*PLAN) as (_, directory), Run(model, directory=directory) as run:
            with self.assertWarnsRegex(UserWarning, r"round 0: the buffer running_var \(if it is meant, register it .*buffers=\"local\".* is NaN or "
                                                    "infinite after 1 steps. This region sits the round out"):
                for step in run:
                    model.running_var.fill_(float("inf") if step.round == 0 else 1.0)

    def done(self, ranks, model, not_finite=None):
        """One round of a rank, whose warnings these are."""
        with a_run(steps(0, 1, 0, 0)) as (_, directory), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with Run(model, directory=directory) as run:
                run._ranks = ranks
                run._parameters.not_finite = not_finite or run._parameters.not_finite
                run._done(Told.of(steps(0, 1, 0, 0)), 1)
        return [str(one.message) for one in said]

    def test_a_rank_that_does_not_know_the_name_says_so(self):
        """Rank 0 alone has the values, and may have found them in a buffer."""
        class Hears(Solo):
            leads, rank, world = False, 1, 2
            told = iter([(Kind.YES, []), (Kind.GO_ON, [])])

            def hear(self):
                return next(self.told)

            def gather(self, value):
                return [value] * 2

        (said,) = self.done(Hears(), torch.nn.BatchNorm1d(2))
        self.assertRegex(said, r"round 0: parameters or buffers \(rank 0 names one\) are NaN or infinite after 1 steps")

    def test_a_search_that_fails_is_told_to_the_other_ranks(self):
        class Tells(Solo):
            world, told = 2, None

            def tell_error(self, error):
                self.told = error

            def gather(self, value):
                return [value] * 2

        def interrupted():
            raise KeyboardInterrupt

        ranks = Tells()
        with self.assertRaises(KeyboardInterrupt):
            self.done(ranks, torch.nn.Linear(2, 2), interrupted)
        self.assertIsInstance(ranks.told, KeyboardInterrupt)

    def test_in_an_optimizer_that_run_does_not_know_is_named(self):
        model = torch.nn.Linear(2, 2)
        with a_run(*PLAN) as (_, directory), Run(model, directory=directory) as run:
            with self.assertWarnsRegex(UserWarning, "which Run was not given: what is NaN in it spoils every round to come"):
                for step in run:
                    with torch.no_grad():
                        model.weight.fill_(float("nan") if step.round == 0 else 1.0)


if __name__ == "__main__":
    unittest.main()
