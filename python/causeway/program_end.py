"""The end of the program while a thread that is not the main one is in a call of a worker. Python ends such a thread where it takes the
interpreter again, which is in the middle of C++, and that aborts the process. So its wait ends before, with the state saved."""
from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Generator

from ._causeway import Stopped

LIMIT_S = 60.0  # for what is to be saved
AFTER_S = 5.0  # for a thread, to end by what its wait raised


class ProgramEnd:
    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Also in a process that is forked: the other threads are not in it."""
        self.came = False
        self.changed, self.inside = threading.Condition(), list[threading.Thread]()

    def enter(self) -> None:
        """Until leave() this thread is within something, which may be within another such. It ends before the program does, as it asks
        for `came` while it waits. Every call of a worker does so (python/module/python_worker.cc)."""
        thread = threading.current_thread()
        with self.changed:
            if self.came and thread not in self.inside:
                raise Stopped("the program ends, and its threads with it")
            self.inside.append(thread)

    def leave(self) -> None:
        thread = threading.current_thread()
        with self.changed:
            if thread in self.inside:  # not in a process that was forked meanwhile
                self.inside.remove(thread)
            self.changed.notify_all()

    @contextlib.contextmanager
    def waits_for(self) -> Generator[None, None, None]:
        self.enter()
        try:
            yield
        finally:
            self.leave()

    def come(self) -> None:
        """Called on the main thread, which is within nothing any more. Ctrl-C may have kept it from saying so."""
        main = threading.current_thread()
        with self.changed:
            self.inside = [thread for thread in self.inside if thread is not main]
            self.came, threads = True, set(self.inside)
            self.changed.wait_for(lambda: not self.inside, LIMIT_S)
        for thread in threads:
            with contextlib.suppress(AssertionError, RuntimeError):  # one that Python did not start cannot be joined
                thread.join(AFTER_S)


program_end = ProgramEnd()
atexit.register(program_end.come)
os.register_at_fork(after_in_child=program_end.begin)
