"""A run that is driven from outside: by a library that has the loop over steps, and calls back."""
from __future__ import annotations

import warnings
import weakref
from typing import SupportsFloat

import torch

from .divided import DTensor
from .parameters import trained
from .run import Run, entered_here
from .schedules import Schedules
from .steps import Step
from .wrapped import values_of

# Runs of this process that libraries drive: no `with` leaves them.
driven: weakref.WeakSet[Run] = weakref.WeakSet()

VALUES_EACH = 64  # of a parameter, to see whether anybody has set it


class Pushed:
    """Goes through a Run's steps one by one. `step` is the one to take now; None: the run is over."""

    def __init__(self, run: Run, schedules: Schedules) -> None:
        self.run, self.schedules = run, schedules
        self._result: list[torch.Tensor] | None = None  # some values of the run's, once it is over

    @property
    def step(self) -> Step | None:
        return self.run.step

    def begin(self) -> bool:
        """Waits for the first step, for which the model is set. False: there is none, and the model holds the result."""
        leave_earlier(self.run)
        driven.add(self.run)
        self.run.__enter__()
        return self._goes_on(self.run.step is not None)

    def advance(self, loss: torch.Tensor | SupportsFloat | None = None) -> bool:
        """The step is taken. False: it was the last one, and the model holds the run's result."""
        return self._goes_on(self.run.after_step(loss))

    def _goes_on(self, does: bool) -> bool:
        if not does:
            self._result = some_values(self.run.model)
        return does

    def end(self) -> None:
        if self.run.step is not None:
            warnings.warn("training ended before the run did: this region takes no further part until it is started again. The other "
                          "regions wait for it, unless sync.contributions_min of them (by default a majority) are left to go on. The run says "
                          "when to stop: leave out what stops one region, such as early stopping or a limit of time, and set a number of "
                          "steps that is never reached", stacklevel=3)
        self.run.leave()

    def check_result(self) -> None:
        """Callbacks and options may set the model once training is over."""
        if self._result is None:
            return
        now = some_values(self.run.model)
        if len(now) != len(self._result) or not all(map(torch.equal, now, self._result)):
            warnings.warn("the run is over, and something set the model since: it holds this region's values, not the run's, and other "
                          "regions end with others. Leave out what does so (load_best_model_at_end, averages of weights such as SWA or "
                          "EMA). A program that is started again without it takes no step, and its model holds the run's result", stacklevel=3)

    def schedule(self) -> None:
        """Sets the learning rates to where the run is, which counts for all regions."""
        if self.step is not None:
            self.schedules.go_to(self.step.schedule_step)


def leave_earlier(run: Run) -> None:
    """In a notebook, that of an interrupted training: the library has not said that it ended, and the kept traceback keeps it."""
    earlier = entered_here.get((run.directory.resolve(), run.region))
    if earlier is not None and earlier is not run and earlier in driven:
        earlier.leave()


def some_values(model: torch.nn.Module) -> list[torch.Tensor]:
    """Of what this rank holds of each parameter that is trained. A count of writes would not do: some write to `.data`."""
    found = []
    for _, parameter in trained(model):
        plain = values_of(parameter.detach())
        flat = (plain.to_local() if isinstance(plain, DTensor) else plain).reshape(-1)
        found.append(flat[::max(1, flat.numel() // VALUES_EACH)].float().to("cpu", copy=True))
    return found
