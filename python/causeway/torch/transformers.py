"""A Hugging Face Trainer in a run.

    Trainer(model, args, train_dataset=..., callbacks=[RunCallback(samples_per_step=32)])

The run says how many steps there are and when to stop: args.max_steps is taken from it, so a schedule ends where the run ends.
The Trainer reads its own data in its own order, so give each region texts of its own, or another args.data_seed.
"""
from __future__ import annotations

import logging
import sys
import warnings
from typing import Any

import transformers

from .awaited import steps_awaited
from .pushed import Pushed
from .run import Run
from .schedules import Schedules
from .steps import Step

log = logging.getLogger("causeway")


class RunSteps(int):
    """The steps that a schedule is laid out for, as args.max_steps. A Trainer divides them by those of an epoch, and takes that many epochs.
    With this it never runs out of epochs: the run alone ends it, also where it takes steps again or goes on from a Trainer's checkpoint."""
    epochs = 1  # as a Trainer would count them

    def __floordiv__(self, other: int) -> int:
        self.epochs = -(-int(self) // other)
        return sys.maxsize - 1  # a Trainer adds one

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (int(self),)  # whoever reads training_args.bin needs no Causeway


class RunCallback(transformers.TrainerCallback):
    """Takes the model of a Trainer through a run. The settings are those of causeway.torch.Run."""
    decides_epochs_first = True  # data.Samples asks

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        self._pushed: Pushed | None = None

    @property
    def step(self) -> Step | None:
        """The causeway.torch.Step under way."""
        return self._pushed.step if self._pushed else None

    def on_init_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        steps = steps_awaited(self.settings)
        if steps is not None:
            args.max_steps = RunSteps(steps)

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None,
                       lr_scheduler: Any = None, train_dataloader: Any = None, **others: Any) -> None:
        if self._pushed is not None:
            self._pushed.run.leave()  # of a training that an exception ended
        if state.global_step > 0:
            leave_checkpoint(args)
        schedules = Schedules([lr_scheduler] if lr_scheduler is not None else [])
        self._pushed = Pushed(Run(model, optimizer, **with_samples(self.settings, args, state)), schedules)
        if not self._pushed.begin():
            control.should_training_stop = True
            leave_empty(train_dataloader)
            return
        self._check_steps(args, state)
        if isinstance(args.max_steps, RunSteps):
            state.num_train_epochs = args.max_steps.epochs  # for displays
        self._pushed.schedule()
        self._count(state)

    def _check_steps(self, args: Any, state: Any) -> None:
        assert self._pushed is not None
        steps, laid_out = self._pushed.run.run_steps or 0, int(state.max_steps)
        if not isinstance(args.max_steps, RunSteps) and laid_out < steps:
            self._pushed.run.leave()
            raise ValueError(f"this Trainer ends after {laid_out} steps, and the run has {steps}: set CAUSEWAY_STEPS={steps} before the "
                             f"Trainer is made, or max_steps={steps} in its TrainingArguments")
        if steps != laid_out and args.lr_scheduler_type not in ("constant", "constant_with_warmup", "inverse_sqrt"):
            warnings.warn(f"the learning rate's schedule is laid out for {laid_out} steps, and the run has {steps}: set "
                          f"CAUSEWAY_STEPS={steps}, or args.max_steps, before the Trainer is made", stacklevel=3)

    def _count(self, state: Any) -> None:
        """A Trainer saves and evaluates at its last step. This tells it which one that is, as it counts."""
        assert self._pushed is not None
        step, steps = self._pushed.step, self._pushed.run.run_steps or 0
        state.max_steps = steps if step is None else state.global_step + max(1, steps - step.schedule_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        assert self._pushed is not None
        own = state.global_step >= state.max_steps  # then the Trainer's own flow has told it to stop
        if not self._pushed.advance():
            control.should_training_stop = True
        elif own:
            control.should_training_stop = False  # a round is done again
        self._pushed.schedule()
        self._count(state)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **others: Any) -> None:
        if logs and "loss" in logs and self._pushed:
            self._pushed.run.report(logs["loss"])

    def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        if self._pushed is not None:
            self._pushed.end()
            self._pushed.check_result()


def with_samples(settings: dict[str, Any], args: Any, state: Any) -> dict[str, Any]:
    """The settings, with the samples that a step of the Trainer reads."""
    if getattr(args, "parallelism_config", None) is not None:
        return settings  # some of the processes share a batch
    batch, batches = state.train_batch_size if args.auto_find_batch_size else args.train_batch_size, args.gradient_accumulation_steps
    processes = 1 if getattr(args.accelerator_config, "split_batches", False) else args.world_size
    read = batch * batches * processes
    if (counted := settings.get("samples_per_step", read)) != read:
        raise ValueError(f"a step of this Trainer reads {read} samples (batch {batch} x gradient_accumulation_steps={batches} x {processes} "
                         f"processes), and samples_per_step is {counted}: give {read}, or leave it out")
    return {**settings, "samples_per_step": read}


def leave_checkpoint(args: Any) -> None:
    """A Trainer would skip the batches up to its checkpoint, which may be steps ahead of the run."""
    args.ignore_data_skip = True
    log.warning("resume_from_checkpoint: the run itself brings back the model and the optimizer, and says where to go on. Of the Trainer's "
                "checkpoint its count of steps and its log are used. Leave resume_from_checkpoint out")


def leave_empty(loader: Any) -> None:
    """A Trainer looks whether to stop only after a step. Without a batch it takes none."""
    kind = type(loader)
    empty = type(kind.__name__, (kind,), {"__iter__": lambda self: iter(())})
    vars(object)["__class__"].__set__(loader, empty)  # Accelerate's loaders name another class as theirs
