from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any

__version__: str

class WorkerError(RuntimeError):
    """The run refused something, a state is damaged, the region diverged, or a disk is full."""

class Stopped(RuntimeError):
    """keep_waiting returned False, or the program ends; the state is saved."""

class Steps:
    """Inner steps to take."""

    @property
    def round(self) -> int:
        """The round that the steps belong to."""
    @property
    def count(self) -> int:
        """How many steps to take, at most."""
    @property
    def first_sample(self) -> int:
        """The region's sample number of the first step."""
    @property
    def schedule_step(self) -> int:
        """Position of the first step in the schedule (of learning rates) that all regions share."""
    @property
    def part(self) -> int:
        """Which of `parts` equal parts of the data this region reads."""
    @property
    def parts(self) -> int:
        """Into how many parts the data is divided."""
    @property
    def pass_number(self) -> int:
        """How often the data was read before."""
    @property
    def pass_begin(self) -> int:
        """The region's first sample number of this pass."""
    @property
    def validation_samples(self) -> int:
        """Not 0: there are no steps to take now. Evaluate the arrays on this many samples, which nobody trains on."""
    @property
    def run_steps(self) -> int:
        """Steps of the whole run, as schedule_step counts them: where a schedule ends."""

class Worker:
    """Speaks for one region of a run. One thread at a time; the GIL is released in every wait.

    Raises ValueError for arrays that cannot be used, WorkerError for what the run refuses.
    """

    def __init__(
        self,
        tensors: Mapping[str, Any],
        *,
        region: str,
        directory: str | PathLike[str],
        coordinator: str = "",
        certificates: str = "",
        samples_per_step: int = 1,
        tokens_per_step: int = 0,
        save_rounds: int = 10,
        validates: bool = False,
        keep_waiting: Callable[[str], bool] | None = None,
    ) -> None: ...
    def next(self) -> Steps | None:
        """Waits until there are steps to take, and writes the parameters to start from to the arrays. None: the run is over."""
    def called_back(self) -> bool:
        """Whether to stop early: the region was cut off, trained on by itself, and can reach the others again."""
    def done(self, count: int, loss: float, tensors: Mapping[str, Any] | None = None) -> None:
        """Says that `count` steps were taken. The arrays hold the result, or `tensors` do: others of the same names and shapes."""
    def validated(self, loss: float) -> None:
        """Gives the mean loss that Steps.validation_samples asked for, in the units of done()'s loss."""
