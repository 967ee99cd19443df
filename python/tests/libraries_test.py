"""What Transformers and Lightning make of a run, with a worker's double: their own counts of epochs, batches and losses."""
import importlib.util
import logging
import os
import tempfile
import unittest
import unittest.mock

import torch
from worker_double import a_run, steps

from causeway.torch.data import Samples


def needs(library):
    return unittest.skipIf(importlib.util.find_spec(library) is None, f"not installed: {library}")


def rounds(count, k=10, **division):
    return [steps(number, k, 4 * k * number, k * number, run_steps=count * k, **division) for number in range(count)]


@needs("transformers")
class ATrainer(unittest.TestCase):
    def train(self, *planned, rows=240):
        """What each step read."""
        from transformers import Trainer, TrainingArguments

        from causeway.torch.transformers import RunCallback
        read = []

        class Model(torch.nn.Linear):
            def forward(self, x):
                read.append(x.flatten().int().tolist())
                return {"loss": super().forward(x).mean()}

        class InOrder(Trainer):
            def _get_train_sampler(self, *rows_of):
                return Samples(callback, rows, 4)

        told = unittest.mock.patch.dict(os.environ, CAUSEWAY_STEPS=str(planned[-1].run_steps))
        with a_run(*planned) as (_, directory), tempfile.TemporaryDirectory() as output, told:
            callback = RunCallback(directory=directory, samples_per_step=4)
            arguments = TrainingArguments(output, per_device_train_batch_size=4, report_to=[], use_cpu=True, disable_tqdm=True,
                                          logging_steps=1000, save_strategy="no")
            InOrder(Model(1, 1), arguments, train_dataset=[{"x": torch.tensor([float(row)])} for row in range(rows)],
                    callbacks=[callback]).train()
        return read

    def test_takes_all_steps_although_a_regions_part_is_shorter_than_the_data(self):
        read = self.train(*rounds(20, part=1, parts=3))
        self.assertEqual(len(read), 200)
        for begin in range(0, 200, 20):  # passes of this region's third
            self.assertEqual(len(set(sum(read[begin:begin + 20], []))), 80)


if __name__ == "__main__":
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    unittest.main()
