"""SIGTERM, by which launchers stop a job: the step under way ends, its work is handed over and saved. A second one ends the process."""
from __future__ import annotations

import os
import signal
import threading
import types
from collections.abc import Callable

EXIT_CODE = 130  # docs/launch.md: as causeway worker's


class Terminated(SystemExit):
    """The program was told to end by SIGTERM, and the state is saved."""

    def __init__(self) -> None:
        super().__init__(EXIT_CODE)


class Sigterm:
    """Of one run, while it listens. A program that has a handler of its own keeps it."""

    def __init__(self, is_heard: Callable[[], bool]) -> None:
        self.is_heard = is_heard  # else the signal does what it does by itself
        self.came = self.listens = False
        self.process = os.getpid()

    def listen(self) -> None:
        on_main_thread = threading.current_thread() is threading.main_thread()
        if on_main_thread and not self.listens and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            self.came, self.listens, self.process = False, True, os.getpid()
            signal.signal(signal.SIGTERM, self.handle)

    def handle(self, number: int, frame: types.FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self.listens = False
        if os.getpid() == self.process and self.is_heard():  # not a child that was forked, such as a loader's worker
            self.came = True
        else:
            os.kill(os.getpid(), signal.SIGTERM)

    def restore(self) -> None:
        if self.listens and threading.current_thread() is threading.main_thread():
            self.listens = False
            if signal.getsignal(signal.SIGTERM) == self.handle:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
