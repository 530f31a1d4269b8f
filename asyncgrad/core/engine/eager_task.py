"""EagerTask: an asyncio task that runs its first step at once, in the call that starts it.

A coroutine that never suspends then costs a call, and no iteration of the event loop. asyncio has eager tasks from
Python 3.12 on. This class follows the protocol that asyncio documents for third-party tasks ("Extending", in its
reference), so that `asyncio.current_task()`, `timeout()` and `TaskGroup` inside the coroutine find this task, and not
the one that started it.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, Protocol, final

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextvars import Context

__all__ = ["EagerTask", "Named", "current_task", "start_task"]

# asyncio accepts any task that follows its protocol; its type hints name its own class.
_tasks: Any = asyncio.tasks
_enter_task, _leave_task = _tasks._enter_task, _tasks._leave_task
_register_task, _unregister_task = _tasks._register_task, _tasks._unregister_task
# Before 3.12 `asyncio.current_task` is a function of Python, which looks it up here.
current_task = asyncio.current_task if sys.version_info >= (3, 12) else _tasks._current_tasks.get

_Future = asyncio.Future
# Bound once: `super()` costs as much as the call.
_init, _set_result = asyncio.Future.__init__, asyncio.Future.set_result
_set_exception, _cancel = asyncio.Future.set_exception, asyncio.Future.cancel


class Named(Protocol):
    """What a task may be named after: its name is asked for only where it is shown."""

    @property
    def name(self) -> str:
        """The name."""


@final
class EagerTask(asyncio.Future[Any]):
    """A task that runs a coroutine in `context`, from `start()` or `start_later()` on.

    Args:
        coro: the coroutine.
        loop: the running loop.
        context: what every step runs in.
        name: what `get_name()` returns, or what has that name.
        on_end: called with this task as soon as it has ended; a done-callback would wait for the loop's next iteration.
    """

    __slots__ = (
        "_cancel_message",
        "_cancels_requested",
        "_context",
        "_coro",
        "_fut_waiter",
        "_loop_of_task",
        "_must_cancel",
        "_name",
        "_on_end",
        "_registered",
        "cancelled_by",
        "since",
    )

    #: When it suspended first, by the clock of its backward; unset elsewhere.
    since: float

    def __init__(
        self,
        coro: Coroutine[object, None, Any],
        loop: asyncio.AbstractEventLoop,
        context: Context,
        name: str | Named,
        on_end: Callable[[EagerTask], None] | None = None,
    ) -> None:
        _init(self, loop=loop)
        self._coro = coro
        self._context = context
        self._name: str | Named = name
        self._loop_of_task = loop
        # Under the name that asyncio's own tasks have for it: anyio's cancel scopes, and so httpx, read it.
        self._fut_waiter: asyncio.Future[Any] | None = None
        self._must_cancel = False
        self._cancel_message: Any = None
        self._cancels_requested = 0
        self._registered = False
        self._on_end = on_end
        #: The CancelledError that the coroutine raised: the object itself, which a Future does not keep.
        self.cancelled_by: asyncio.CancelledError | None = None

    def start(self) -> bool:
        """Run the first step now; tell whether the coroutine has ended with it."""
        loop = self._loop_of_task
        outer = current_task(loop)
        if outer is not None:
            _leave_task(loop, outer)
        try:
            finished = not self._context.run(self._step, None)
        finally:
            if outer is not None:
                _enter_task(loop, outer)
        if not finished:
            self._registered = True
            _register_task(self)
        # This task and its caller keep the error of the coroutine, and its traceback refers to this frame: leave no
        # cycle.
        del self, outer
        return finished

    def start_later(self) -> None:
        """Run the first step in the loop's next iteration, so on a new stack."""
        self._registered = True
        _register_task(self)
        self._loop_of_task.call_soon(self._step, None, context=self._context)

    def _step(self, woken_by: asyncio.Future[Any] | BaseException | None) -> bool:
        """Run the coroutine, in the context of the task, until it waits again or ends; tell whether it waits."""
        # A future that it has waited for, or an error to raise in it.
        error: Any = woken_by
        if woken_by is not None and not isinstance(woken_by, BaseException):
            error = None
            try:
                woken_by.result()
            except BaseException as raised:
                error = raised
        if self.done():
            # It has been closed meanwhile. The traceback of an error refers to this frame: leave no cycle.
            error = woken_by = None
            return False
        if self._must_cancel:
            error = self._take_cancellation(error)
        self._fut_waiter = None
        loop, is_waiting = self._loop_of_task, False
        _enter_task(loop, self)
        try:
            awaited: Any = self._coro.send(None) if error is None else self._coro.throw(error)
        except StopIteration as end:
            if self._must_cancel:
                _cancel(self, msg=self._cancel_message)
            else:
                _set_result(self, end.value)
        except asyncio.CancelledError as cancelled:
            self.cancelled_by = cancelled
            # A CancelledError may have any number of arguments; a Future takes one message.
            _cancel(self, msg=cancelled.args[0] if cancelled.args else None)
        except (KeyboardInterrupt, SystemExit) as stop:
            _set_exception(self, stop)
            # The loop raises it: it would be told a second time, as an exception that nobody has retrieved.
            # test_an_exit_in_a_task_is_told_once
            self._log_traceback = False
            raise
        except BaseException as failure:
            _set_exception(self, failure)
        else:
            is_plain = awaited.__class__ is _Future and awaited._asyncio_future_blocking and not self._must_cancel
            if is_plain and awaited.get_loop() is loop:
                # What nearly every task waits for, without a call.
                awaited._asyncio_future_blocking = False
                awaited.add_done_callback(self._step, context=self._context)
                self._fut_waiter = awaited
            else:
                self._wait_for(awaited)
            is_waiting = True
        finally:
            _leave_task(loop, self)
            if not is_waiting and self.done():
                if self._registered:
                    _unregister_task(self)
                on_end, self._on_end = self._on_end, None
                if on_end is not None:
                    on_end(self)
                del on_end
            # As in start(): the coroutine may end with the error of the future.
            del self, error, woken_by
        return is_waiting

    def _take_cancellation(self, error: BaseException | None) -> asyncio.CancelledError:
        """Return what to raise for a request to cancel, which is pending no more: `error` if that is a cancellation."""
        self._must_cancel = False
        if isinstance(error, asyncio.CancelledError):
            return error
        return asyncio.CancelledError(*([] if self._cancel_message is None else [self._cancel_message]))

    def _wait_for(self, awaited: Any) -> None:
        """Schedule the next step: when the awaited future is done, or in the loop's next iteration."""
        loop = self._loop_of_task
        if awaited is None:
            loop.call_soon(self._step, None, context=self._context)
            return
        why = None
        if not getattr(awaited, "_asyncio_future_blocking", None):
            why = "which asyncio cannot wait for"
        else:
            awaited._asyncio_future_blocking = False
            if awaited is self:
                why = "which is itself"
            elif awaited.get_loop() is not loop:
                why = "which belongs to another event loop"
        if why is not None:
            error = RuntimeError(f"{self.get_name()} awaited {awaited!r}, {why}")
            loop.call_soon(self._step, error, context=self._context)
            return
        awaited.add_done_callback(self._step, context=self._context)
        self._fut_waiter = awaited
        if self._must_cancel and awaited.cancel(msg=self._cancel_message):
            self._must_cancel = False

    def cancel(self, msg: Any = None) -> bool:
        """Throw CancelledError into the coroutine at its next step."""
        if self.done():
            return False
        self._cancels_requested += 1
        if self._fut_waiter is not None and self._fut_waiter.cancel(msg=msg):
            return True
        self._must_cancel = True
        self._cancel_message = msg
        return True

    def close(self) -> BaseException | None:
        """Close the coroutine, which nothing steps any more; `on_end` is not called.

        Returns:
            The error of a task that had ended with one; None otherwise.
        """
        if self.done():
            return None if self.cancelled() else self.exception()
        waiter, self._fut_waiter = self._fut_waiter, None
        if waiter is not None:
            waiter.remove_done_callback(self._step)
        if self._registered:
            _unregister_task(self)
        self._on_end = None
        _cancel(self)
        self._coro.close()
        return None

    def cancelling(self) -> int:
        """Return how many requests to cancel are pending."""
        return self._cancels_requested

    def uncancel(self) -> int:
        """Withdraw one request to cancel; return how many remain."""
        if self._cancels_requested > 0:
            self._cancels_requested -= 1
            if self._cancels_requested == 0:
                self._must_cancel = False
        return self._cancels_requested

    def get_coro(self) -> Coroutine[object, None, Any]:
        """Return the coroutine."""
        return self._coro

    def get_context(self) -> Context:
        """Return the context that the coroutine runs in."""
        return self._context

    def get_name(self) -> str:
        """Return the name that error messages and debuggers show."""
        name = self._name
        return name if isinstance(name, str) else name.name

    def __repr__(self) -> str:
        state = "pending" if not self.done() else "cancelled" if self.cancelled() else "done"
        return f"<EagerTask {self.get_name()!r}, {state}>"

    def set_name(self, value: object) -> None:
        """Change the name."""
        self._name = str(value)

    def get_stack(self, *, limit: int | None = None) -> list[Any]:
        """Return the frames in which the coroutine is suspended."""
        frame = self._coro.cr_frame if hasattr(self._coro, "cr_frame") else None
        return [] if frame is None or limit == 0 else [frame]

    def set_result(self, result: Any) -> None:
        """Raise RuntimeError: the result of a task is what its coroutine returns."""
        raise RuntimeError("a task does not support set_result")

    def set_exception(self, exception: Any) -> None:
        """Raise RuntimeError: the exception of a task is what its coroutine raises."""
        raise RuntimeError("a task does not support set_exception")


def start_task(
    coroutine: Any, context: Context, name: str, on_end: Callable[[EagerTask], None] | None = None
) -> EagerTask:
    """Return a task on the running loop, whose first step has been run."""
    task = EagerTask(coroutine, loop=asyncio.get_running_loop(), context=context, name=name, on_end=on_end)
    task.start()
    return task
