"""A Lightning Trainer in a run.

    Trainer(callbacks=[RunCallback(samples_per_step=32)])

The run says how many steps there are and when to stop: trainer.max_steps is taken from it, and so trainer.estimated_stepping_batches,
which a schedule is laid out with. Lightning reads its own data in its own order, so give each region data of its own.
"""
from __future__ import annotations

import logging
import signal
import threading
import warnings
from typing import Any

import lightning

from .awaited import steps_awaited
from .pushed import Pushed
from .run import Run
from .schedules import Schedules, tell_left
from .shards import problem_of
from .steps import Step

log = logging.getLogger("causeway")


class RunCallback(lightning.Callback):
    """Takes a LightningModule through a run. The settings are those of causeway.torch.Run."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        self._pushed: Pushed | None = None
        self._steps_taken = 0
        self._schedules = Schedules([])
        self._losses: list[Any] = []  # of the batches of the step under way

    @property
    def step(self) -> Step | None:
        """The causeway.torch.Step under way."""
        return self._pushed.step if self._pushed else None

    def setup(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, stage: str) -> None:
        """Before optimizers and their schedules are made."""
        if stage != "fit":
            return
        trainer.fit_loop.max_epochs = -1
        steps = steps_awaited(self.settings)
        if steps is not None:
            trainer.fit_loop.epoch_loop.max_steps = steps
        elif trainer.max_steps == -1:
            log.warning("the run's steps are not known on this host, so trainer.estimated_stepping_batches is infinite, and no schedule can be "
                        "laid out with it: set CAUSEWAY_STEPS")

    def on_fit_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """The schedulers are made, and no state of an earlier life is taken up yet."""
        follows = [one.interval == "step" and one.frequency == 1 and not one.reduce_on_plateau for one in trainer.lr_scheduler_configs]
        for config, does in zip(trainer.lr_scheduler_configs, follows):
            if not does:
                tell_left(config.scheduler, "does not step with the run, as it is not of interval \"step\" and frequency 1")
        self._schedules = Schedules(config.scheduler for config, does in zip(trainer.lr_scheduler_configs, follows) if does)

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        if problem := problem_of(trainer.strategy.model):  # the module does not show how a strategy has wrapped it
            raise ValueError(problem)
        tell_samples(trainer, self.settings.get("samples_per_step", 1))
        run = Run(pl_module, trainer.optimizers, **self.settings)
        take_sigterm(trainer, run)
        self._pushed = Pushed(run, self._schedules)
        self._pushed.begin()
        # No other limit than the run's.
        trainer.fit_loop.epoch_loop.max_steps = -1
        trainer.fit_loop.epoch_loop.min_steps = None
        trainer.fit_loop.min_epochs = 0
        self._steps_taken = trainer.global_step
        self._pushed.schedule()
        trainer.should_stop = self.step is None

    def on_train_batch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any, batch: Any,
                           batch_idx: int) -> None:
        assert self._pushed is not None
        loss: Any = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if loss is not None:
            # Automatic optimization has divided it by the batches of a step, also where an epoch's end leaves a step fewer.
            self._losses.append(loss * trainer.accumulate_grad_batches if pl_module.automatic_optimization else loss)
        if trainer.global_step == self._steps_taken:
            return  # gradients are accumulated over batches
        self._steps_taken = trainer.global_step
        losses, self._losses = self._losses, []
        if not self._pushed.advance(sum(losses) / len(losses) if losses else None):
            trainer.should_stop = True
        self._pushed.schedule()

    def on_exception(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, exception: BaseException) -> None:
        if self._pushed is not None:
            self._pushed.run.leave()  # a notebook may try again

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        if self._pushed is not None:
            self._pushed.end()

    def on_fit_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Other callbacks have ended theirs."""
        if self._pushed is not None:
            self._pushed.check_result()


def take_sigterm(trainer: lightning.Trainer, run: Run) -> None:
    """Lightning's own handler saves nothing of the run. It ends the program with 0, as if the run were over, and processes that wait for
    each other never. So the run has its own instead, unless the program has one."""
    handler = signal.getsignal(signal.SIGTERM)
    parts = getattr(handler, "signal_handlers", [handler])
    if threading.current_thread() is threading.main_thread() and all(is_lightnings(part) for part in parts):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # Processes that Lightning has started: who stops a program may know of the first one only. Ctrl-C in a terminal reaches all.
        launcher: Any = trainer.strategy.launcher
        run.stop_signals.pass_on = lambda number: launcher.kill(number) if launcher and number == signal.SIGTERM else None


def is_lightnings(handler: Any) -> bool:
    return type(getattr(handler, "__self__", None)).__module__.startswith("lightning.")


def tell_samples(trainer: lightning.Trainer, counted: int) -> None:
    """Only a DataLoader says how many samples a batch has."""
    batch = getattr(trainer.train_dataloader, "batch_size", None)
    if not isinstance(batch, int):
        return
    copies, batches = (trainer.distributed_sampler_kwargs or {}).get("num_replicas", 1), trainer.accumulate_grad_batches
    if (read := batch * batches * copies) != counted:
        warnings.warn(f"a step of this Trainer reads {read} samples (batch_size={batch} x accumulate_grad_batches={batches} x {copies} "
                      f"processes), and the run counts {counted}: give samples_per_step={read}, or this region's work has the wrong weight",
                      stacklevel=3)
