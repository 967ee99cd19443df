"""What Transformers and Lightning make of a run, with a worker's double: their own counts of epochs, batches and losses."""
import importlib.util
import logging
import math
import os
import signal
import tempfile
import unittest
import unittest.mock
import warnings

import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, ExponentialLR, LinearLR, SequentialLR
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
            data = [{"x": torch.tensor([float(row)])} for row in range(rows)]
            InOrder(Model(1, 1), arguments, train_dataset=data, callbacks=[callback]).train()
        return read

    def test_takes_all_steps_although_a_regions_part_is_shorter_than_the_data(self):
        read = self.train(*rounds(20, part=1, parts=3))
        self.assertEqual(len(read), 200)
        for begin in range(0, 200, 20):  # passes of this region's third
            self.assertEqual(len(set(sum(read[begin:begin + 20], []))), 80)


@needs("lightning")
class Lightning(unittest.TestCase):
    def fit(self, planned, training_step, schedule=lambda optimizer: None, automatic=True, batches=6, told=None, run=(), more=(), **settings):
        """The losses that the run hears. An epoch has `batches`; `schedule` gives what Lightning takes as an lr_scheduler."""
        import lightning

        from causeway.torch.lightning import RunCallback
        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

        class Module(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(1, 1)
                self.automatic_optimization = automatic

            def training_step(self, batch, index):
                self.run_step = callback.step
                return training_step(self, self.layer(batch).sum() * 0, index)

            def configure_optimizers(self):
                optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
                scheduler = schedule(optimizer)
                return {"optimizer": optimizer, **({"lr_scheduler": scheduler} if scheduler else {})}

        told = unittest.mock.patch.dict(os.environ, {"CAUSEWAY_STEPS": str(planned[-1].run_steps)} if told is None else told)
        with a_run(*planned) as (worker, directory), told:
            callback = RunCallback(directory=directory, **dict(run))
            self.trainer = lightning.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                                             enable_model_summary=False, default_root_dir=directory, callbacks=[callback, *more], **settings)
            self.trainer.fit(Module(), torch.utils.data.DataLoader(torch.ones(batches, 1)))
        return worker.losses

    def test_steps_that_are_not_known_before_are_told(self):
        def schedule(optimizer):
            self.assertEqual(self.trainer.estimated_stepping_batches, math.inf)

        with self.assertLogs("causeway", "WARNING") as said:
            self.fit(rounds(1), lambda module, loss, index: loss, schedule, told={}, run={"coordinator": "elsewhere:1"})
        self.assertIn("the run's steps are not known on this host", said.output[0])

    def test_samples_that_a_step_reads_and_the_run_does_not_count_are_told(self):
        for accumulate, counted, is_told in ((3, 1, True), (3, 3, False)):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                self.fit(rounds(1), lambda module, loss, index: loss, run={"samples_per_step": counted}, accumulate_grad_batches=accumulate)
            told = "a step of this Trainer reads 3 samples (batch_size=1 x accumulate_grad_batches=3 x 1 processes), and the run counts 1"
            self.assertEqual(any(told in str(one.message) for one in said), is_told)

    def test_an_average_of_weights_that_takes_the_results_place_is_told(self):
        from lightning.pytorch.callbacks import EMAWeightAveraging, StochasticWeightAveraging
        for more, is_told in (([], False), ([EMAWeightAveraging(decay=0.9)], True), ([StochasticWeightAveraging(0.1, 1)], True)):
            with self.subTest(more), warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                self.fit(rounds(2), lambda module, loss, index: module.layer(torch.ones(1, 1)).sum(), more=more)
                self.assertEqual(any("this region's values, not the run's" in str(one.message) for one in said), is_told)

    def told(self, accumulate, training_step, **settings):
        """With rounds of one step."""
        if accumulate is not None:
            settings["accumulate_grad_batches"] = accumulate
        return self.fit(rounds(4, k=1), training_step, **settings)

    def rates(self, planned):
        """Of each step of the run: warm-up and cosine."""
        found = {}

        def step(module, loss, index):
            found[module.run_step.schedule_step] = module.optimizers().param_groups[0]["lr"]
            return loss

        def schedule(optimizer):
            parts = [LinearLR(optimizer, 0.01, 1, 10), CosineAnnealingLR(optimizer, 90)]
            return {"scheduler": SequentialLR(optimizer, parts, [10]), "interval": "step"}

        self.fit(planned, step, schedule)
        return found

    def test_the_rate_of_a_region_that_joins_or_leaves_steps_out_is_that_of_the_others(self):
        every = rounds(10)
        right = self.rates(every)
        self.assertEqual(sorted(right), list(range(100)))
        for some in (every[5:], every[:4] + every[6:]):
            rates = self.rates(some)
            self.assertEqual(len(rates), 10 * len(some))
            self.assertEqual(rates, {step: right[step] for step in rates})

    def test_a_strategy_that_wraps_the_module_in_shards_is_refused(self):
        import lightning

        class InParts(lightning.pytorch.strategies.SingleDeviceStrategy):
            def setup(self, trainer):
                super().setup(trainer)
                self.model = torch.nn.Sequential(self.model)  # as an engine of DeepSpeed wraps it
                self.model.zero_optimization_stage = lambda: 2

        with self.assertRaisesRegex(ValueError, "DeepSpeed's ZeRO divides"):
            self.fit(rounds(1), lambda module, loss, index: loss, strategy=InParts("cpu"))

    def fit_until_sigterm(self, **settings):
        """How many steps were taken. It comes in the second of ten, and the run has no round after that."""
        taken = []

        def step(module, loss, index):
            taken.append(index)
            if len(taken) == 2:
                signal.raise_signal(signal.SIGTERM)
            return loss

        self.fit(rounds(1), step, **settings)
        return len(taken)

    def test_sigterm_ends_the_step_and_the_processes_that_lightning_started_get_it_too(self):
        """Its own handler would end the program there with exit code 0, as if the run were over."""
        import lightning
        killed = []

        class Launcher(lightning.pytorch.strategies.launchers.launcher._Launcher):
            is_interactive_compatible = True

            def launch(self, function, *given, trainer=None, **named):
                return function(*given, **named)

            def kill(self, number):
                killed.append(number)

        class Launched(lightning.pytorch.strategies.SingleDeviceStrategy):
            def _configure_launcher(self):
                self._launcher = Launcher()

        self.addCleanup(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, signal.SIG_DFL))
        self.assertEqual(self.fit_until_sigterm(strategy=Launched("cpu")), 2)
        self.assertEqual(killed, [signal.SIGTERM])

    def test_a_handler_of_sigterm_that_the_program_has_stays_beside_lightnings(self):
        came = []
        self.addCleanup(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, lambda *of: came.append(1)))
        with self.assertRaises(SystemExit):
            self.fit_until_sigterm()
        self.assertEqual(came, [1])

    def test_a_schedule_of_epochs_is_told_not_to_follow(self):
        with self.assertWarnsRegex(UserWarning, "scheduler ExponentialLR does not step with the run, as it is not of interval \"step\""):
            self.fit(rounds(1), lambda module, loss, index: loss, lambda optimizer: ExponentialLR(optimizer, 0.9))

    def test_the_loss_of_a_step_is_the_mean_of_its_batches(self):
        losses = self.told(4, lambda module, zero, index: zero + index)
        self.assertEqual(losses, [1.5, 4.5, 1.5, 4.5])  # batches 0 to 3; 4 and 5, the last of an epoch

    def test_without_accumulation_it_is_the_batchs(self):
        self.assertEqual(self.told(None, lambda module, zero, index: zero + index), [0, 1, 2, 3])

    def test_a_batch_without_a_loss_does_not_count(self):
        self.assertEqual(self.told(2, lambda module, zero, index: None if index % 2 else zero + index), [0, 2, 4, 0])

    def test_with_optimization_by_hand_it_is_what_the_module_gives(self):
        def by_hand(module, loss, index):
            self.assertEqual(module.trainer.accumulate_grad_batches, 1)
            module.manual_backward(loss)
            if index % 2:
                module.optimizers().step()
            return {"loss": loss + index}

        self.assertEqual(self.told(None, by_hand, automatic=False), [0.5, 2.5, 4.5, 0.5])


if __name__ == "__main__":
    unittest.main()
