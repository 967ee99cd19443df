"""A model among what a program keeps with `also`: the parameters are the run's all the same. With a worker's double."""
import pathlib
import tempfile
import unittest

import torch
from worker_double import a_run, steps

from causeway.torch import Run

RUNS_VALUE = 7.0


class Holder:
    """Keeps a model, as trainers of the user's own do."""

    def __init__(self, model):
        self.model = model

    def state_dict(self):
        return {name: p.detach().clone() for name, p in self.model.named_parameters()}

    def load_state_dict(self, state):
        for name, p in self.model.named_parameters():
            p.data = state[name]


class Kept(unittest.TestCase):
    def life(self, directory, plan, kept):
        """Another start of the program. The values that its first step begins with."""
        model, begun = torch.nn.Linear(2, 2), set()
        with a_run(*plan) as (worker, _):
            give = worker.next

            def next_values():
                for tensor in worker.tensors.values():
                    tensor.fill_(RUNS_VALUE)
                return give()

            worker.next = next_values
            with Run(model, directory=directory, save_rounds=1, also={"kept": kept(model)}) as run:
                for step in run:
                    begun = begun or {value for p in model.parameters() for value in p.flatten().tolist()}
                    torch.nn.init.ones_(model.bias)
            self.assertTrue(all(torch.all(p == RUNS_VALUE) for p in model.parameters()))
            for name, p in model.named_parameters():  # the worker's memory is still the model's
                self.assertEqual(worker.tensors[name].data_ptr(), p.data_ptr())
        return begun

    def test_a_model_does_not_take_the_runs_values_away_at_a_restart(self):
        for kept in (lambda model: model, Holder):
            with tempfile.TemporaryDirectory() as directory:
                self.life(directory, [steps(0, 1, 0, 0)], kept)
                self.assertEqual(len(list(pathlib.Path(directory, "checkpoints").glob("trainer-1-*.pt"))), 1)
                with self.assertLogs("causeway", "WARNING") as said:
                    self.assertEqual(self.life(directory, [steps(1, 1, 1, 1)], kept), {RUNS_VALUE})
                self.assertEqual(len(said.output), 1)
                self.assertRegex(said.output[0], "`also` holds the parameter (weight|bias), which the run keeps itself")

    def test_a_state_that_an_object_does_not_take_up_is_told_with_its_file(self):
        def scaler(enabled):
            return lambda model: torch.amp.GradScaler("cpu", enabled=enabled)

        with tempfile.TemporaryDirectory() as directory:
            self.life(directory, [steps(0, 1, 0, 0)], scaler(False))
            with self.assertRaisesRegex(ValueError, r"/trainer-1-\S+ has a state of kept that the program's GradScaler does not take up "
                                                    r"\(RuntimeError: .*disabled.*\): give Run the same .* or delete the file"):
                self.life(directory, [steps(1, 1, 1, 1)], scaler(True))


if __name__ == "__main__":
    unittest.main()
