"""Whether a process is the one that entered a run, or was forked from it and has a copy of the run, in which no step passes."""
from __future__ import annotations

import os

ONE_PROCESS = ("this process, such as a DataLoader's worker, is not the one that entered the run: where the run stands is not known here. "
               "Ask in the program itself, as a sampler does (causeway.torch.data.Samples), or give the data set the number before each pass")
NOT_SENT = ("a Run cannot be sent to another process, such as a DataLoader's worker that is spawned: no step passes there. Leave it out of "
            "the data set, and give that the number it needs before each pass")

count = 0  # from the process that imported this to the one that asks; os.getpid() would stop torch.compile


def _forked() -> None:
    global count
    count += 1


os.register_at_fork(after_in_child=_forked)


class Entered:
    """By which process a run was entered."""

    def __init__(self) -> None:
        self._count: int | None = None  # not yet

    def note(self) -> None:
        self._count = count

    @property
    def is_here(self) -> bool:
        return self._count in (None, count)

    def check(self) -> None:
        """A forked process has the connection to the coordinator, too."""
        if not self.is_here:
            raise RuntimeError(ONE_PROCESS)
