"""What happens at the end of a backward: final callbacks, delayed warnings, and the future that tells of the end.

A GraphTask has a `Completion` only once somebody asked for one of these.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import sys
import threading
import warnings
from typing import TYPE_CHECKING, Any, final

from ..context import CURRENT_GRAPH_TASK
from ..errors import GraphError
from .notes import add_note

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator
    from types import FrameType

__all__ = ["MAKING", "Completion", "CompletionFuture", "DelayWarningHandler", "warn"]

#: Whose frames no warning is shown at: they stand between a backward and the line of the user's that waits for it.
_NOT_THE_USERS = {__name__.partition(".")[0], "asyncio", "uvloop", "concurrent", "contextlib", "functools", "threading"}

#: Held while the Completion of a GraphTask is made.
MAKING = threading.Lock()


@final
class CompletionFuture(concurrent.futures.Future[list[Any]]):
    """Holds what a backward captured, or the error that it ended with; awaitable on any loop, and from any thread.

    Nobody can cancel a backward by it: cancel the task that awaits the backward.
    """

    def __init__(self) -> None:
        super().__init__()
        self.set_running_or_notify_cancel()

    def __await__(self) -> Generator[Any, None, list[Any]]:
        return asyncio.wrap_future(self).__await__()


@final
class DelayWarningHandler:
    """Keeps the warnings issued by `ag.engine.warn` inside of a backward until its end.

    Source: DelayWarningHandler of PyTorch.
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        #: Without repetitions, in order.
        self._kept: dict[tuple[str, type[Warning]], None] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def process(self, message: str, category: type[Warning]) -> None:
        """Keep one warning."""
        self._kept[message, category] = None

    def replay(self) -> None:
        """Issue what was kept, each once, in the caller's context and at the line that waits for the backward.

        Inside of another backward, that one keeps them in turn.
        """
        kept = self._kept
        while kept:
            message, category = next(iter(kept))
            del kept[message, category]
            warn(message, category)


@final
class Completion:
    """The end of one backward."""

    __slots__ = ("_begun", "_unfinished", "callbacks", "future", "is_wanted", "warnings")

    def __init__(self) -> None:
        #: What runs when all nodes have; it may grow while it runs.
        self.callbacks: list[Callable[[], Any]] = []
        #: How many of them have been begun.
        self._begun = 0
        #: What the last of them returned and somebody has yet to await.
        self._unfinished: Awaitable[Any] | None = None
        self.warnings = DelayWarningHandler()
        self.future = CompletionFuture()
        #: Whether somebody has asked for the future, or may still do so.
        self.is_wanted = False

    def next_callback(self) -> Callable[[], Any] | None:
        """Return the final callback that comes next, which counts as begun; None where all have been."""
        unfinished, self._unfinished = self._unfinished, None
        if unfinished is not None:
            return lambda: unfinished
        if self._begun == len(self.callbacks):
            return None
        self._begun += 1
        return self.callbacks[self._begun - 1]

    def await_later(self, unfinished: Awaitable[Any]) -> None:
        """Let what the last callback returned be awaited by the next one who asks what comes next."""
        self._unfinished = unfinished

    def succeed(self, captured: list[Any]) -> None:
        """Resolve the future."""
        # Another thread may settle it at the same moment, with the same.
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            self.future.set_result(captured)

    def fail(self, error: BaseException) -> None:
        """Show the delayed warnings, and let the future end with `error`."""
        while self.warnings:
            try:
                self.warnings.replay()
            except Exception as refused:
                add_note(error, f"and a delayed warning that a filter makes an error: {refused!r}")
        if not self.is_wanted:
            # The traceback leads to this backward, and so back here: a cycle, for nobody.
            return
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            self.future.set_exception(error)

    def resolve(self, captured: list[Any], has_error: bool) -> None:
        """Resolve the future of a backward that had ended, or was about to, when somebody first asked for it."""
        if self.future.done():
            return
        if has_error:
            self.is_wanted = True
            self.fail(
                GraphError(
                    "the backward failed before its future was asked for, and its error went to who awaited it: "
                    "ask for future_result while the backward runs"
                )
            )
        else:
            self.succeed(captured)

    def close(self, captured: list[Any], has_error: bool) -> None:
        """Let go of the callbacks, which may well refer to their backward, and see that the future has resolved."""
        self.callbacks = []
        self.resolve(captured, has_error)


def warn(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Issue a warning; inside of a backward it is delayed to the end, and shown at the line that waits for it.

    The same warning is shown once for each backward, whether that succeeds or fails, under the filters that hold where
    the backward is waited for. Outside of a backward it is issued at once. Never suspends.

    Args:
        message: what to say; or a warning, whose class is then the category.
        category: a subclass of Warning.

    Raises:
        TypeError: `category` is no class of warnings.

    Source: the warning handler of PyTorch's engine; a plain `warnings.warn` in a body is immediate, there as here.

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
    task = CURRENT_GRAPH_TASK.get()
    if task is not None and task.is_running:
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
    """Return the innermost frame that is the user's own; None where there is none, in a thread of a pool say."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_THE_USERS:
        frame = frame.f_back
    return frame
