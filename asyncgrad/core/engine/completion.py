"""What happens at the end of a backward: final callbacks, delayed warnings, and the completion future.

A GraphTask gets a `Completion` when the first of these is asked for.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import sys
import threading
import warnings
from typing import TYPE_CHECKING, Any, final

from ...errors import GraphError
from ..settings.context import CURRENT_GRAPH_TASK, ROW
from ..settings.process import hold_in_forks
from .notes import add_note

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator
    from types import FrameType

__all__ = ["COMPLETION_LOCK", "Completion", "CompletionFuture", "DelayWarningHandler", "warn"]

#: Packages whose frames are skipped to find the line of user code at which a warning is shown.
_INTERNAL_PACKAGES = {
    __name__.partition(".")[0],
    "asyncio",
    "uvloop",
    "concurrent",
    "contextlib",
    "functools",
    "threading",
}

#: Held while the Completion of a GraphTask is made.
COMPLETION_LOCK = hold_in_forks(threading.Lock())


@final
class CompletionFuture(concurrent.futures.Future[list[Any]]):
    """The future of a backward's captured gradients, or of its error; awaitable on any loop, in any thread.

    It cannot be cancelled: to cancel a backward, cancel the task that awaits the backward.
    """

    def __init__(self) -> None:
        super().__init__()
        self.set_running_or_notify_cancel()

    def __await__(self) -> Generator[Any, None, list[Any]]:
        return asyncio.wrap_future(self).__await__()


@final
class DelayWarningHandler:
    """Keeps the warnings that `ag.engine.warn` issues inside of a backward until its end.

    Source: DelayWarningHandler of PyTorch.
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        #: The keys are the warnings in order, without duplicates.
        self._kept: dict[tuple[str, type[Warning]], None] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def process(self, message: str, category: type[Warning]) -> None:
        """Keep one warning."""
        self._kept[message, category] = None

    def replay(self) -> None:
        """Issue each warning once, in the caller's context, at the line that waits for the backward.

        Inside of another backward, that one keeps them.
        """
        kept = self._kept
        while kept:
            message, category = next(iter(kept))
            del kept[message, category]
            warn(message, category)

    def replay_beside(self, error: BaseException) -> None:
        """Issue each warning as `replay` does; one that a filter turns into an error becomes a note of `error`."""
        while self._kept:
            try:
                self.replay()
            except Exception as refused:
                add_note(error, f"and a delayed warning that a filter turned into an error: {refused!r}")


@final
class Completion:
    """The final and failure callbacks, delayed warnings and completion future of one backward."""

    __slots__ = ("_begun", "_unfinished", "callbacks", "failure_callbacks", "future", "is_wanted", "warnings")

    def __init__(self) -> None:
        #: The final callbacks; the list may grow while they run.
        self.callbacks: list[Callable[[], Any]] = []
        #: What is called if the backward fails, the last one first; those of nested backward passes that succeeded are
        #: among them.
        self.failure_callbacks: list[Callable[..., Any]] = []
        #: How many callbacks have begun.
        self._begun = 0
        #: The awaitable that the last callback returned, if it has yet to be awaited.
        self._unfinished: Awaitable[Any] | None = None
        self.warnings: DelayWarningHandler = DelayWarningHandler()
        self.future: CompletionFuture = CompletionFuture()
        #: Whether user code has the future, or holds the GraphTask and may ask for it.
        self.is_wanted: bool = False

    def next_callback(self) -> Callable[[], Any] | None:
        """Return the next final callback, which counts as begun; None where all have begun."""
        unfinished, self._unfinished = self._unfinished, None
        if unfinished is not None:
            return lambda: unfinished
        if self._begun == len(self.callbacks):
            return None
        self._begun += 1
        return self.callbacks[self._begun - 1]

    def await_later(self, unfinished: Awaitable[Any]) -> None:
        """Have the next `next_callback` return the awaitable that the last callback returned."""
        self._unfinished = unfinished

    def succeed(self, captured: list[Any]) -> None:
        """Resolve the future."""
        # Another thread may resolve it at the same time, with the same result.
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            self.future.set_result(captured)

    def fail(self, error: BaseException) -> None:
        """Issue the delayed warnings, and set the exception of the future."""
        self.warnings.replay_beside(error)
        if not self.is_wanted:
            # The traceback refers to this backward: a needless cycle.
            return
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            self.future.set_exception(error)

    def resolve(self, captured: list[Any], has_error: bool) -> None:
        """Resolve the future if it has not been, when the backward has ended or is about to."""
        if self.future.done():
            return
        if has_error:
            self.is_wanted = True
            self.fail(
                GraphError(
                    "the backward failed before its future was asked for, and raised its error where it was awaited: "
                    "ask for future_result while the backward runs"
                )
            )
        else:
            self.succeed(captured)

    def close(self, captured: list[Any], has_error: bool) -> None:
        """Drop the callbacks, which may refer to their backward, and make sure that the future is resolved."""
        self.callbacks, self.failure_callbacks = [], []
        self.resolve(captured, has_error)


def warn(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Issue a warning; inside of a backward it is delayed to the end, and shown at the line that waits for it.

    The same warning is shown once for each backward, whether it succeeds or fails, under the filters of the code that
    waits for the backward. Outside of a backward it is issued at once. Never suspends.

    Args:
        message: the text; or a Warning object, whose class is then the category.
        category: a subclass of Warning.

    Raises:
        TypeError: `category` is not a subclass of Warning.

    Source: the warning handler of PyTorch's engine. In both, a plain `warnings.warn` in a body is immediate.

    Example:
        >>> import warnings, asyncgrad as ag
        >>> x = ag.tensor(1.0, requires_grad=True)
        >>> handle = x.register_hook(lambda grad: ag.engine.warn("a large gradient"))
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     ag.sync.backward(x * 2)
        >>> [str(each.message) for each in caught]
        ['a large gradient']
    """
    if isinstance(message, Warning):
        category = type(message)
    if not (isinstance(category, type) and issubclass(category, Warning)):
        raise TypeError(f"the category of a warning must be a subclass of Warning, not {category!r}: use UserWarning")
    task, row = CURRENT_GRAPH_TASK.get(), ROW.get()
    if task is not None and not task.is_running:
        task = None
    # What a row has to say comes in the order of the rows, also to the backward around them.
    if row is not None and (task is None or task is row.around) and row.keep_warning(str(message), category):
        # The code that waits for it is not on this stack.
        return
    if task is not None:
        task.complete_with().warnings.process(str(message), category)
        return
    frame = _caller()
    if frame is None:
        warnings.warn(str(message), category, stacklevel=2)
        return
    warnings.warn_explicit(
        str(message),
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        frame.f_globals.get("__name__", "<unknown>"),
        frame.f_globals.setdefault("__warningregistry__", {}),
    )


def _caller() -> FrameType | None:
    """Return the innermost frame of user code; None where there is none, as in a thread of a pool."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _INTERNAL_PACKAGES:
        frame = frame.f_back
    return frame
