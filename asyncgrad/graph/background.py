"""What runs in the background of an event loop while a forward goes on: async packs, and unpacks side by side.

Tasks are made by the engine, which a graph does not know: the engine registers what makes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence
    from contextvars import Context

__all__ = ["Background", "PendingWork", "background", "register_background"]


class PendingWork(Protocol):
    """A coroutine that runs in the background."""

    is_ended: bool

    async def wait(self) -> None:
        """Wait for its end, whatever that is; from any event loop."""

    def has_failed(self) -> bool:
        """Tell whether it has ended, and not by returning."""

    def take(self) -> Any:
        """Return its result, or raise its error, now that it has ended."""

    def cancel(self) -> None:
        """Let it be cancelled, if it has not ended; from any thread."""


class Background(Protocol):
    """What runs coroutines in the background."""

    def start(
        self,
        coroutine: Coroutine[Any, Any, Any],
        context: Context,
        name: str,
        on_end: Callable[[Any], object],
    ) -> PendingWork:
        """Run a coroutine on the running loop, its first step now; where no loop runs, to its end on one of its own."""

    async def together(self, coroutines: Sequence[Coroutine[Any, Any, Any]], names: Sequence[str]) -> list[Any]:
        """Return the results of coroutines that run side by side; the first error cancels the others."""

    async def end_all(self, works: Iterable[Any], error: BaseException | None) -> None:
        """Wait for the end of all; where `error` has been raised, cancel them first, and note in it what they raise."""


_registered: list[Background] = []


def register_background(made: Background) -> None:
    """Make `made` what runs coroutines in the background; the engine calls this once."""
    _registered[:] = [made]


def background() -> Background:
    """Return what runs coroutines in the background."""
    return _registered[0]
