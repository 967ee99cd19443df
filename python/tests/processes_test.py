"""A run in a process that did not enter it, as a loader's worker is: it has a copy in which no step passes. With a worker's double."""
import copy
import multiprocessing
import pickle
import unittest

import torch
from worker_double import a_run, steps

from causeway.torch import Run

PLAN = [steps(0, 2, 0, 0), steps(1, 2, 2, 2)]


class Part(torch.utils.data.IterableDataset):
    """Asks for its part where it is read."""

    def __init__(self, run):
        self.run = run

    def __iter__(self):
        step = self.run.step
        yield from range(step.part, 8, step.parts)


class Asked(unittest.TestCase):
    def setUp(self):
        self.model = torch.nn.Linear(2, 2)

    def load(self, run, workers):
        context = multiprocessing.get_context("fork") if workers else None
        return list(torch.utils.data.DataLoader(Part(run), 4, num_workers=workers, multiprocessing_context=context))

    def test_in_a_loaders_worker_is_refused_before_and_after_the_first_step(self):
        for ask in (lambda run: None, lambda run: run.step):
            with a_run(*PLAN) as (_, directory), Run(self.model, directory=directory) as run:
                ask(run)
                with self.assertRaisesRegex(RuntimeError, "such as a DataLoader's worker, is not the one that entered the run"):
                    self.load(run, workers=1)
                self.assertEqual(self.load(run, workers=0)[0].tolist(), [0, 1, 2, 3])
                run.leave()

    def told_in_a_child(self, ask):
        said, tell = multiprocessing.Pipe(duplex=False)

        def child():
            try:
                tell.send(f"it gave {ask()}")
            except RuntimeError as error:
                tell.send(str(error))

        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        told = said.recv()
        process.join()
        return told

    def test_how_far_it_is_is_not_told_there_either(self):
        with a_run(*PLAN) as (_, directory), Run(self.model, directory=directory) as run:
            run.step
            for ask in (lambda: run.progress, lambda: run.over, run.after_step, lambda: next(iter(run))):
                self.assertIn("is not the one that entered the run", self.told_in_a_child(ask))
            run.leave()

    def test_what_does_not_change_is_told_there(self):
        with a_run(*PLAN) as (_, directory):
            run = Run(self.model, directory=directory)
            self.assertEqual(self.told_in_a_child(lambda: run.progress), "it gave 0.0")
            with run:
                for _ in run:
                    run.report(1.0)
                self.assertEqual(self.told_in_a_child(lambda: (run.progress, run.run_steps)), f"it gave (1.0, {run.run_steps})")

    def test_a_copy_of_what_knows_it_knows_the_same_run(self):
        with a_run(*PLAN) as (_, directory):
            run = Run(self.model, directory=directory)
            part = copy.deepcopy(Part(run))
            self.assertIs(part.run, run)
            self.assertIs(copy.copy(run), run)

    def test_a_run_cannot_be_sent_to_another_process(self):
        with a_run(*PLAN) as (_, directory):
            with self.assertRaisesRegex(TypeError, "such as a DataLoader's worker"):
                pickle.dumps(Part(Run(self.model, directory=directory)))


if __name__ == "__main__":
    unittest.main()
