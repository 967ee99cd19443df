"""SIGTERM, by which launchers stop a job: the step under way ends, its work is handed over and saved. Another one ends the
process, but not within REPEATS_S of the first: who stops a job sends it to all of its processes, and torchrun among them sends it on."""
from __future__ import annotations

import os
import signal
import threading
import time
import types
from collections.abc import Callable

REPEATS_S = 5.0
EXIT_CODE = 130  # docs/launch.md: as causeway worker's


class Terminated(SystemExit):
    """The program was told to end by SIGTERM, and the state is saved."""

    def __init__(self, code: int = EXIT_CODE) -> None:  # given when it comes out of another process, as a pool's
        super().__init__(code)


class Sigterm:
    """Of one run, while it listens. A program that has a handler of its own keeps it."""

    def __init__(self, is_heard: Callable[[], bool]) -> None:
        self.is_heard = is_heard  # else the signal does what it does by itself
        self.came = self.listens = False
        self.came_at = 0.0
        self.process = os.getpid()

    def listen(self) -> None:
        on_main_thread = threading.current_thread() is threading.main_thread()
        if on_main_thread and not self.listens and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            self.came, self.listens, self.process = False, True, os.getpid()
            signal.signal(signal.SIGTERM, self.handle)

    def handle(self, number: int, frame: types.FrameType | None) -> None:
        now = time.monotonic()
        forked = os.getpid() != self.process  # such as a loader's worker
        if not forked and self.came and now < self.came_at + REPEATS_S:
            return
        if not forked and not self.came and self.is_heard():
            self.came, self.came_at = True, now
            # PyTorch's raises in the middle of a step once a worker of a loader has died, by this signal too.
            if callable(signal.getsignal(signal.SIGCHLD)):
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self.listens = False
        os.kill(os.getpid(), signal.SIGTERM)

    def restore(self) -> None:
        if self.listens and threading.current_thread() is threading.main_thread():
            self.listens = False
            if signal.getsignal(signal.SIGTERM) == self.handle:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
