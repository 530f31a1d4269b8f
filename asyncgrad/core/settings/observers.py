"""Who observes a run: one list for each thing that is observed, one rule for a context and the whole process."""

from __future__ import annotations

from contextvars import ContextVar
from threading import Lock
from typing import Generic, TypeVar, final

__all__ = ["Observers"]

T = TypeVar("T")


@final
class Observers(Generic[T]):
    """The observers of one thing: those of all of the process, then those of this context, outermost first.

    Args:
        name: what they observe, for the name of the context variable.
    """

    __slots__ = ("_lock", "_of_process", "of_context")

    def __init__(self, name: str) -> None:
        #: Those of this context alone.
        self.of_context: ContextVar[tuple[T, ...]] = ContextVar(f"asyncgrad_observers_of_{name}", default=())
        # A tuple, so that a thread that goes through it is not disturbed by one that puts or takes.
        self._of_process: tuple[T, ...] = ()
        self._lock = Lock()

    def put(self, observer: T, whole_process: bool) -> None:
        """Have an observer see what happens from now on, in this context or in all of the process."""
        if whole_process:
            with self._lock:
                self._of_process = (*self._of_process, observer)
        else:
            self.of_context.set((*self.of_context.get(), observer))

    def take(self, observer: T, whole_process: bool) -> None:
        """End what `put` has begun; does nothing for an observer that is not there."""
        # By identity: an observer may compare equal to another one.
        if whole_process:
            with self._lock:
                self._of_process = tuple(one for one in self._of_process if one is not observer)
        else:
            self.of_context.set(tuple(one for one in self.of_context.get() if one is not observer))

    def found(self) -> tuple[T, ...]:
        """Return those that see what happens in this context."""
        return self._of_process + self.of_context.get()
