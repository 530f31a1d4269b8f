"""Coroutines that run in the background of an event loop: async pack hooks, and concurrent unpacks.

Only the engine makes tasks, and the graph does not import the engine. So the engine registers a `Background` here.
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
        """Wait until it has ended, by a result, an error or cancellation; from any event loop."""

    def has_failed(self) -> bool:
        """Tell whether it has ended by an error or by cancellation."""

    def take(self) -> Any:
        """Return its result or raise its error; it must have ended."""

    def cancel(self) -> None:
        """Request its cancellation, unless it has ended; from any thread."""


class Background(Protocol):
    """Runs coroutines in the background."""

    def start(
        self,
        coroutine: Coroutine[object, None, Any],
        context: Context,
        name: str,
        on_end: Callable[[Any], object],
    ) -> PendingWork:
        """Start a coroutine on the running loop, its first step at once; without a running loop, run it to its end."""

    async def together(self, coroutines: Sequence[Coroutine[object, None, Any]], names: Sequence[str]) -> list[Any]:
        """Run coroutines concurrently and return their results; the first error cancels the others."""

    async def end_all(self, works: Iterable[Any], error: BaseException | None) -> None:
        """Wait until all have ended; if `error` is given, cancel them first and add their errors to it as notes."""


_registered: list[Background] = []


def register_background(made: Background) -> None:
    """Register what runs coroutines in the background; the engine calls this once."""
    _registered[:] = [made]


def background() -> Background:
    """Return the registered Background."""
    return _registered[0]
