"""Whether a process was forked from the one that entered a run: it has a copy of the run, in which no step passes."""
from __future__ import annotations

import os

count = 0  # from the process that imported this to the one that asks; os.getpid() would stop torch.compile


def _forked() -> None:
    global count
    count += 1


os.register_at_fork(after_in_child=_forked)
