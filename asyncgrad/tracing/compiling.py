"""A thread that compiles while the program goes on; it is there while there is something to compile."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import final

from ..core.settings.process import call_at_exit, call_in_forked_children

__all__ = ["COMPILER"]


@final
class Compiler:
    """Runs jobs on one thread, one after the other; the thread ends with the last of them.

    Attributes:
        generation: how many forks there are between this process and the one in which it was made.
    """

    __slots__ = ("_ends", "_jobs", "_lock", "_thread", "generation")

    def __init__(self) -> None:
        self._ends = False
        self.generation: int = -1
        self.reset()

    def reset(self) -> None:
        """Start anew, without jobs and a thread: a forked child has none of its parent's."""
        self.generation += 1
        self._lock = threading.Lock()
        self._jobs: deque[Callable[[], None]] = deque()
        self._thread: threading.Thread | None = None

    def submit(self, job: Callable[[], None]) -> None:
        """Have a job run; never blocks. It must not raise."""
        with self._lock:
            self._jobs.append(job)
            if self._thread is None and not self._ends:
                self._thread = threading.Thread(target=self._work, name="asyncgrad compiler", daemon=True)
                try:
                    self._thread.start()
                except RuntimeError:
                    # There are too many threads, or the interpreter is ending: the job waits for the next one.
                    self._thread = None

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._jobs or self._ends:
                    self._thread = None
                    return
                job = self._jobs.popleft()
            job()
            # Not while it waits for the lock: this may drop the last reference to arrays.
            del job

    def is_ending(self) -> bool:
        """Tell whether a job is to end at once."""
        return self._ends

    def join(self) -> None:
        """Wait until nothing is left to compile."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def close(self) -> None:
        """Wait for the kernel that is being compiled, which nothing can interrupt, and compile no others."""
        self._ends = True
        self.join()


#: That of this process.
COMPILER = Compiler()
call_at_exit(COMPILER.close)
call_in_forked_children(COMPILER.reset)
