"""How many threads BLAS uses by itself, where the user wants that bounded: its share while several bodies run."""

from __future__ import annotations

from typing import Any, final

__all__ = ["BlasThreads"]


@final
class BlasThreads:
    """Bounds the threads of every BLAS in this process. Guarded by the lock of whoever owns it."""

    __slots__ = ("_bounded_to", "_libraries")

    def __init__(self) -> None:
        #: The libraries, each with the number of threads that it had; None until they have been looked for.
        self._libraries: list[tuple[Any, int]] | None = None
        self._bounded_to = 1

    def bound(self, running: int) -> None:
        """Share the threads out to as many bodies as run at a time."""
        sharers = max(running, 1)
        if sharers == self._bounded_to or (sharers == 1 and self._libraries is None):
            return
        if self._libraries is None:
            self._libraries = _libraries()
        self._bounded_to = sharers
        for library, threads in self._libraries:
            library.set_num_threads(max(threads // sharers, 1))


def _libraries() -> list[tuple[Any, int]]:
    """Return each BLAS that uses more than one thread, and how many."""
    import threadpoolctl

    found = threadpoolctl.ThreadpoolController().select(user_api="blas").lib_controllers
    return [(library, threads) for library in found if (threads := library.get_num_threads() or 1) > 1]
