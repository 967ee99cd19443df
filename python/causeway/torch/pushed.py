"""A run that is driven from outside: by a library that has the loop over steps, and calls back."""
from __future__ import annotations

import warnings
import weakref
from typing import SupportsFloat

import torch

from .run import Run, Step, entered_here
from .schedules import Schedules

# Runs of this process that libraries drive: no `with` leaves them.
driven: weakref.WeakSet[Run] = weakref.WeakSet()


class Pushed:
    """Goes through a Run's steps one by one. `step` is the one to take now; None: the run is over."""

    def __init__(self, run: Run, schedules: Schedules) -> None:
        self.run, self.schedules = run, schedules

    @property
    def step(self) -> Step | None:
        return self.run.step

    def begin(self) -> bool:
        """Waits for the first step, for which the model is set. False: there is none, and the model holds the result."""
        leave_earlier(self.run)
        driven.add(self.run)
        self.run.__enter__()
        return self.run.step is not None

    def advance(self, loss: torch.Tensor | SupportsFloat | None = None) -> bool:
        """The step is taken. False: it was the last one, and the model holds the run's result."""
        return self.run.after_step(loss)

    def end(self) -> None:
        if self.run.step is not None:
            warnings.warn("training ended before the run did: this region takes no further part until it is started "
                          "again. Set a number of steps that is never reached; the run says when to stop", stacklevel=3)
        self.run.leave()

    def schedule(self) -> None:
        """Sets the learning rates to where the run is, which counts for all regions."""
        if self.step is not None:
            self.schedules.go_to(self.step.schedule_step)


def leave_earlier(run: Run) -> None:
    """In a notebook, that of an interrupted training: the library has not said that it ended, and the kept traceback keeps it."""
    earlier = entered_here.get((run.directory.resolve(), run.region))
    if earlier is not None and earlier is not run and earlier in driven:
        earlier.leave()
