"""What a Hugging Face Trainer makes of a run, with a worker's double: its own counts of steps and epochs, and its checkpoints."""
import contextlib
import importlib.util
import os
import tempfile
import unittest
import unittest.mock
import warnings

import torch
from worker_double import a_run, steps

HAS_IT = importlib.util.find_spec("transformers") is not None
if HAS_IT:
    from transformers import Trainer, TrainerCallback, TrainingArguments

    from causeway.torch.transformers import RunCallback


def rounds(count, k=4):
    return [steps(number, k, 4 * k * number, k * number, run_steps=count * k) for number in range(count)]


class Model(torch.nn.Linear):
    def __init__(self):
        super().__init__(1, 1)

    def forward(self, x, return_loss=True):
        return {"loss": super().forward(x).mean()}


ROWS = [{"x": torch.tensor([float(row)])} for row in range(40)]


@unittest.skipUnless(HAS_IT, "not installed: transformers")
class ATrainer(unittest.TestCase):
    """Its epochs have 10 steps of 4 samples."""

    def setUp(self):
        self.output = self.enterContext(tempfile.TemporaryDirectory())
        self.enterContext(unittest.mock.patch.dict(os.environ, clear=False))
        os.environ.pop("CAUSEWAY_STEPS", None)

    def trainer(self, callbacks, rows=None, **settings):
        settings = {"per_device_train_batch_size": 4, "save_strategy": "no", "logging_steps": 1000, **settings}
        arguments = TrainingArguments(self.output, report_to=[], use_cpu=True, disable_tqdm=True, **settings)
        return Trainer(Model(), arguments, train_dataset=rows or ROWS, eval_dataset=ROWS[:4], callbacks=callbacks)

    @contextlib.contextmanager
    def in_a_run(self, *planned, told=True, callbacks=(), also=None, **settings):
        """A Trainer whose steps are counted in .taken, as the run counts them."""
        if told:
            os.environ["CAUSEWAY_STEPS"] = str(planned[-1].run_steps)
        taken = []

        class Look(TrainerCallback):
            def on_step_begin(self, *_, **others):
                taken.append(callback.step.schedule_step)

        with a_run(*planned) as (worker, directory):
            callback = RunCallback(directory=directory, **{"samples_per_step": 4, **(also or {})})
            trainer = self.trainer([Look(), *callbacks, callback], **settings)
            trainer.taken, trainer.worker = taken, worker
            yield trainer

    @contextlib.contextmanager
    def without_a_warning(self):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "training ended before|the learning rate's")
            yield


class Ends(ATrainer):
    """The run alone ends it."""

    def test_of_a_checkpoint_that_is_newer_than_the_run(self):
        self.trainer([], max_steps=15, save_strategy="steps", save_steps=15).train()
        with self.in_a_run(*rounds(6)[2:]) as trainer, self.without_a_warning():
            with self.assertLogs("causeway", "WARNING") as said:
                trainer.train(resume_from_checkpoint=True)
        self.assertEqual(trainer.taken, list(range(8, 24)))
        self.assertIn("Leave resume_from_checkpoint out", said.output[0])

    def test_of_a_checkpoint_when_no_step_is_left(self):
        self.trainer([], max_steps=15, save_strategy="steps", save_steps=15).train()
        os.environ["CAUSEWAY_STEPS"] = "24"
        with self.in_a_run(told=False) as trainer:
            trainer.train(resume_from_checkpoint=True)
        self.assertEqual(trainer.taken, [])

    def test_of_steps_that_are_taken_again(self):
        first, second = rounds(2)
        with self.in_a_run(first, second, second, second, save_strategy="steps", save_steps=1000) as trainer, self.without_a_warning():
            trainer.train()
        self.assertEqual(trainer.taken, [*range(8), *range(4, 8), *range(4, 8)])
        self.assertIn("checkpoint-16", os.listdir(self.output))

    def test_with_a_checkpoint_where_the_region_starts_late(self):
        with self.in_a_run(*rounds(6)[4:], save_strategy="steps", save_steps=1000) as trainer:
            trainer.train()
        self.assertEqual(os.listdir(self.output), ["checkpoint-8"])
        self.assertEqual((trainer.state.global_step, trainer.state.max_steps, trainer.state.num_train_epochs), (8, 24, 3))


class Unknown(ATrainer):
    """The run's steps, where the coordinator is on another host."""
    ELSEWHERE = {"coordinator": "elsewhere:1"}

    def test_a_trainer_that_would_end_before_the_run_is_refused(self):
        with self.in_a_run(*rounds(10), told=False, also=self.ELSEWHERE, num_train_epochs=3) as trainer:
            with self.assertRaisesRegex(ValueError, "this Trainer ends after 30 steps, and the run has 40: set CAUSEWAY_STEPS=40"):
                trainer.train()
        self.assertEqual(trainer.taken, [])

    def test_a_schedule_that_is_longer_than_the_run_is_told(self):
        with self.in_a_run(*rounds(6), told=False, also=self.ELSEWHERE, num_train_epochs=3) as trainer:
            with self.assertWarnsRegex(UserWarning, "schedule is laid out for 30 steps, and the run has 24"):
                trainer.train()
        self.assertEqual(trainer.taken, list(range(24)))


class Stops(ATrainer):
    def test_another_callbacks_stop_counts_and_says_what_it_does_to_the_others(self):
        class Stop(TrainerCallback):
            def on_step_end(self, args, state, control, **others):
                control.should_training_stop = state.global_step == 6

        with self.in_a_run(*rounds(6), callbacks=[Stop()]) as trainer:
            with self.assertWarnsRegex(UserWarning, "training ended before the run did.*The other regions wait for it, unless"):
                trainer.train()
        self.assertEqual(trainer.taken, list(range(6)))


class Counts(ATrainer):
    """The samples of a step."""

    def test_others_than_the_trainer_reads_are_refused(self):
        with self.in_a_run(*rounds(2), gradient_accumulation_steps=3) as trainer:
            with self.assertRaisesRegex(ValueError, "reads 12 samples .batch 4 x gradient_accumulation_steps=3 x 1 processes., and "
                                                    "samples_per_step is 4: give 12"):
                trainer.train()

    def test_those_of_the_trainer_count_where_none_are_given(self):
        with a_run(*rounds(2)) as (_, directory):
            os.environ["CAUSEWAY_STEPS"] = "8"
            callback = RunCallback(directory=directory)
            self.trainer([callback], gradient_accumulation_steps=3).train()
        self.assertEqual(callback._pushed.run.samples_per_step, 12)


class Interrupted(ATrainer):
    def test_training_may_begin_again_with_another_callback(self):
        """As a notebook does whose cell is run again: it keeps the traceback, and so the Trainer."""
        class Interrupt(TrainerCallback):
            def on_step_begin(self, *_, **others):
                raise KeyboardInterrupt

        os.environ["CAUSEWAY_STEPS"] = "8"
        with a_run(*rounds(2), *rounds(2)) as (worker, directory):
            first = self.trainer([Interrupt(), RunCallback(directory=directory)])
            with self.assertRaises(KeyboardInterrupt):
                first.train()
            worker.planned = iter(rounds(2))
            second = self.trainer([RunCallback(directory=directory)])
            second.train()
        self.assertEqual(second.state.global_step, 8)


class Result(ATrainer):
    def test_a_model_that_is_not_the_runs_is_told(self):
        best = dict(load_best_model_at_end=True, metric_for_best_model="eval_loss", eval_strategy="steps", eval_steps=4,
                    save_strategy="steps", save_steps=4)
        for the_best_is, first in (("the first", True), ("the last", False)):
            with self.subTest(the_best_is), self.in_a_run(*rounds(2), greater_is_better=first, **best) as trainer:
                with warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter("always")
                    trainer.train()
                self.assertEqual(any("this region's values, not the run's" in str(one.message) for one in said), first)


class Evaluates(ATrainer):
    def test_at_the_end_of_a_round_what_the_regions_agreed_on_and_else_what_this_one_has(self):
        agreed, seen = [], []

        class See(TrainerCallback):
            def on_evaluate(self, *_, model, **others):
                seen.append(model.weight.item())

        def outer_step():
            trainer.worker.tensors["weight"].fill_(len(agreed) * 10)
            agreed.append(trainer.worker.tensors["weight"].item())
            return give()

        with self.in_a_run(*rounds(3), callbacks=[See()], eval_strategy="steps", eval_steps=2, learning_rate=0.1) as trainer:
            give, trainer.worker.next = trainer.worker.next, outer_step
            trainer.train()
        self.assertEqual(agreed, [0, 10, 20, 30])
        self.assertEqual(seen[1::2], [10, 20, 30])
        self.assertFalse(set(seen[::2]) & set(agreed))


class Streams(ATrainer):
    def test_the_run_has_the_number_of_steps_whatever_max_steps_is_given(self):
        class Stream(torch.utils.data.IterableDataset):
            def __iter__(self):
                yield from ROWS * 3

        with self.in_a_run(*rounds(6), rows=Stream(), max_steps=1) as trainer:
            trainer.train()
        self.assertEqual(trainer.taken, list(range(24)))


if __name__ == "__main__":
    unittest.main()
