"""SIGTERM, by which launchers stop a job, and Ctrl-C: the step under way ends, its work is handed over and saved. Another one ends the
process at once, but not within REPEATS_S of the first if it may be the same: who stops a job sends SIGTERM to all of its processes, and
torchrun among them sends it on, and Ctrl-C too."""
from __future__ import annotations

import logging
import os
import signal
import threading
import time
import types
from collections.abc import Callable
from typing import Any, NoReturn

log = logging.getLogger("causeway")

REPEATS_S = 5.0
EXIT_CODE = 130  # docs/launch.md: as causeway worker's
DEFAULTS: dict[int, Any] = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
CTRL_C = b"Ctrl-C: this step ends, and its work and state are saved. Another Ctrl-C ends the program at once, without them\n"


class Terminated(SystemExit):
    """The program was told to end by SIGTERM, and the state is saved."""

    def __init__(self, code: int = EXIT_CODE) -> None:  # given when it comes out of another process, as a pool's
        super().__init__(code)


class StopSignals:
    """Of one run, while it listens. A program that has a handler of its own keeps it. The end of the torchrun that started this process is
    such a signal, too: one that was killed sends none, and its workers would train on while the next start waits for them."""

    def __init__(self, is_heard: Callable[[], bool]) -> None:
        self.is_heard = is_heard  # else the signal does what it does by itself
        self.pass_on: Callable[[int], object] = lambda number: None
        self._came = 0
        self.came_at = 0.0
        self.torchrun = os.getppid() if "TORCHELASTIC_RUN_ID" in os.environ else None
        self.told = False  # that it is gone
        self.process = os.getpid()

    @property
    def came(self) -> int:
        """Its number. 0: none."""
        return self._came or (signal.SIGTERM if self._has_lost_torchrun() else 0)

    # Not as if the signal had come: whoever ends the rest of the job sends that next, and it would be the second.
    def _has_lost_torchrun(self) -> bool:
        if self.torchrun is None or os.getppid() == self.torchrun:
            return False
        if not self.told:
            log.warning("torchrun (process %d), which started this one, is gone: this step ends, and its work and state are saved", self.torchrun)
        self.told = True
        return True

    def listen(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number, default in DEFAULTS.items():
            if signal.getsignal(number) == default:
                self._came, self.process = 0, os.getpid()
                signal.signal(number, self.handle)

    def handle(self, number: int, frame: types.FrameType | None) -> None:
        now = time.monotonic()
        forked = os.getpid() != self.process  # such as a loader's worker
        may_repeat = number == signal.SIGTERM or "TORCHELASTIC_RUN_ID" in os.environ
        if not forked and self._came and may_repeat and now < self.came_at + REPEATS_S:
            return
        if not forked and not self._came and self.is_heard():
            self._came, self.came_at = number, now
            # PyTorch's raises in the middle of a step once a worker of a loader has died, by this signal too.
            if callable(signal.getsignal(signal.SIGCHLD)):
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            if number == signal.SIGINT and os.environ.get("RANK", "0") == "0":
                os.write(2, CTRL_C)  # a stream may be in the middle of a line
            self.pass_on(number)
            return
        signal.signal(number, DEFAULTS[number])
        signal.raise_signal(number)

    def end(self, error: BaseException) -> NoReturn:
        """What the signal does in the end. `error`: what the run said of it."""
        self.restore()
        if self._came == signal.SIGINT:
            raise KeyboardInterrupt(str(error)) from error
        raise Terminated from error

    def restore(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number, default in DEFAULTS.items():
                if signal.getsignal(number) == self.handle:
                    signal.signal(number, default)
