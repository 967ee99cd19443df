"""The end of the program while a run waits in a thread that is not the main one. Python ends such a thread where it takes the interpreter
again, which is in the middle of C++, and that aborts the process. So its wait ends before, with the state saved."""
from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Generator

import causeway

LIMIT_S = 60.0  # for what is to be saved
AFTER_S = 5.0  # for a thread, to end by what its wait raised


class ProgramEnd:
    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Also in a process that is forked: the other threads are not in it."""
        self.came = False
        self.changed, self.inside = threading.Condition(), list[threading.Thread]()

    @contextlib.contextmanager
    def waits_for(self) -> Generator[None, None, None]:
        """What is within comes to an end before the program does, as it asks for `came` while it waits."""
        if self.came:
            raise causeway.Stopped("the program ends, and its threads with it")
        thread = threading.current_thread()
        with self.changed:
            self.inside.append(thread)
        try:
            yield
        finally:
            with self.changed:
                if thread in self.inside:  # not in a process that was forked meanwhile
                    self.inside.remove(thread)
                self.changed.notify_all()

    def come(self) -> None:
        """Called on the main thread, which is within nothing any more."""
        with self.changed:
            self.came, threads = True, set(self.inside)
            self.changed.wait_for(lambda: not self.inside, LIMIT_S)
        for thread in threads:
            thread.join(AFTER_S)


program_end = ProgramEnd()
atexit.register(program_end.come)
os.register_at_fork(after_in_child=program_end.begin)
