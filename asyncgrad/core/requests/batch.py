"""One request of a batched function: the items that wait for it, when it is sent, and who gets which result.

A batch is sent when it is full, when its time is up, or when nothing else can run. The last is known in three steps:

1. Each backward that has called sleeps: its nodes that are ready have all been started, and those that run wait. The
   scheduler of its drivers tells (`DepthScheduler.when_asleep`). Of rows that run together all sleep, also those that
   have not called.
2. All who waited for the loop to turn when the batch was opened have had their turn: other backward passes, say, that
   had spent the loop's time budget. Those who come later are not waited for, or a loop that is always busy would
   never send anything.
3. The loop has turned twice without another call: a task that is started, or woken, calls in the next turn. By then
   no request of rows is about to begin, whose rule may call.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import threading
import weakref
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, Literal, final

from ...errors import ArgumentError, ArgumentTypeError
from ..arrays.values import counted
from ..engine.await_stack import NAMED_WAITS, named_wait, suspended_frames
from ..engine.device_limit import PERMIT, Permit, begin_wait
from ..engine.eager_task import EagerTask
from ..engine.loops import OneShotEvent, wait_through_cancellation
from ..settings.arguments import must_be
from ..settings.context import BLOCKING, CALLERS, CURRENT_GRAPH_TASK, CURRENT_NODE, ROW, TRAINING_STEPS
from ..settings.loop_turn import HERE
from .callers import URGENCY, Urgency, most_urgent_of, tell_profiles

if TYPE_CHECKING:
    from ..engine.graph_task import GraphTask
    from ..engine.task_group import DepthScheduler
    from ..settings.context import RowLike

__all__ = ["Batch", "BatchOwner", "Reason", "key_of", "make_context"]

Reason = Literal["full", "max_wait", "idle"]

#: Bound once: a method of an imported name is looked up and bound anew at each call.
_graph_task, _node, _row, _urgency = CURRENT_GRAPH_TASK.get, CURRENT_NODE.get, ROW.get, URGENCY.get

#: So many turns without another call, and the batch is sent.
_QUIET_TURNS = 2
#: After so many looks it is sent although there are new calls in each turn: they may never end.
_MOST_LOOKS = 64


class BatchOwner:
    """Abstract: the function that a batch belongs to, as the batch sees it."""

    __slots__ = ()

    #: What errors and descriptions call it.
    name: str
    #: Takes the items, and returns their results.
    function: Callable[[list[Any]], Awaitable[Any]]
    max_size: int | None
    max_wait: float | None
    #: Returns the key of an item, where results are found by keys.
    key: Callable[[Any], Hashable] | None
    #: What has to be asleep for nothing else to run; None for the drivers of the backward passes that have called.
    scheduler: DepthScheduler | None = None

    def note_closed(self, batch: Batch) -> None:
        """Note that a batch takes no further item."""
        raise NotImplementedError(f"{type(self).__name__} must implement note_closed(batch)")

    def note_sent(self, batch: Batch, reason: Reason) -> None:
        """Count a request."""
        raise NotImplementedError(f"{type(self).__name__} must implement note_sent(batch, reason)")

    def note_running(self, task: EagerTask) -> None:
        """Note that a request runs, until `note_ended`; weakly, or the tasks of a loop that is dropped would stay."""
        raise NotImplementedError(f"{type(self).__name__} must implement note_running(task)")

    def note_ended(self, task: EagerTask) -> None:
        """Note that a request has ended."""
        raise NotImplementedError(f"{type(self).__name__} must implement note_ended(task)")

    def note_dropped(self) -> None:
        """Count an item whose caller was cancelled before it was sent."""
        raise NotImplementedError(f"{type(self).__name__} must implement note_dropped()")


@final
class _Caller:
    """One who waits for the result of an item."""

    __slots__ = ("backward", "context", "future", "given", "item", "keep", "key", "node", "permit", "result", "since")

    #: Unset until there is one. Not that of the future, which the loop holds while the caller goes on: a gradient that
    #: somebody else has is copied.
    result: Any

    def __init__(
        self, item: Any, key: Hashable, loop: asyncio.AbstractEventLoop, keep: Callable[[Any], object] | None
    ) -> None:
        #: Takes the result where the caller has been cancelled by then; None for nobody.
        self.keep = keep
        self.item, self.key, self.future, self.since = item, key, loop.create_future(), loop.time()
        # As `calling_backward`, which each item would call.
        backward: Any = _graph_task()
        self.backward: GraphTask | None = backward if backward is not None and backward.is_running else None
        self.node: Any = _node()
        #: A backward that the request calls may wait for what the caller holds.
        self.context = copy_context()
        #: Its body's permit on a device, until it has it again; None where there is none.
        self.permit: Permit | None = begin_wait()
        #: How urgent the callers are for whom this one works, if any.
        self.given: Urgency | None = _urgency()

    def keep_result(self) -> None:
        """Have the result kept, if there is one: the caller was cancelled since."""
        if self.keep is not None and hasattr(self, "result"):
            self.keep(self.result)


def make_context() -> Context:
    """Return a copy of this context in which a request runs: outside of every backward, since it is for several."""
    context = copy_context()
    context.run(_leave_backward)
    return context


def _leave_backward() -> None:
    CURRENT_GRAPH_TASK.set(None)
    CURRENT_NODE.set(None)
    TRAINING_STEPS.set(())
    BLOCKING.set(False)
    ROW.set(None)
    PERMIT.set(None)


@final
class _RequestsHere(threading.local):
    """The requests of rows of this thread that have not begun, weakly: each is kept by its loop."""

    def __init__(self) -> None:
        self.of_rows: weakref.WeakSet[Batch] = weakref.WeakSet()


_HAVE_NOT_BEGUN = _RequestsHere()


@final
class Batch:
    """The items of one request, on one event loop.

    Args:
        owner: the batched function.
        loop: the running loop.
    """

    __slots__ = (
        "__weakref__",
        "_asking",
        "_callers",
        "_calls",
        "_calls_seen",
        "_context",
        "_ended",
        "_in_line",
        "_is_sent",
        "_looks",
        "_newest",
        "_owner",
        "_quiet",
        "_schedulers",
        "_task",
        "_timer",
        "is_closed",
        "loop",
    )

    def __init__(self, owner: BatchOwner, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        #: Whether it takes no further item: it is sent in the next turn, or all its callers have gone.
        self.is_closed = False
        self._is_sent = False
        self._owner = owner
        #: The callers that wait, in the order of their calls: a dict, since any of them may go.
        self._callers: dict[_Caller, None] = {}
        #: These, and the last one to go while it waits for the end of the request that it has cancelled.
        self._asking: dict[_Caller, None] = {}
        #: That of the first caller, which the request runs in.
        self._context = make_context()
        # A backward that the request calls may need a lock, or a permit, that a caller has until the request has ended.
        self._context.run(CALLERS.set, self._asking)
        self._schedulers: set[DepthScheduler] = set()
        if owner.scheduler is not None:
            self._schedulers.add(owner.scheduler)
            _HAVE_NOT_BEGUN.of_rows.add(self)
        #: The backward of the last caller that was in no row, whose scheduler is among these: most callers are of one.
        self._newest: GraphTask | None = None
        self._calls = self._calls_seen = self._quiet = self._looks = 0
        #: Done once all have gone on who waited for the loop to turn at the first look.
        self._in_line: asyncio.Future[None] | None = None
        #: asyncio holds tasks weakly: what keeps this one are the callers, each of which refers to the batch.
        self._task: EagerTask | None = None
        #: Set when the request ends; there only where somebody waits for that.
        self._ended: OneShotEvent | None = None
        self._timer: asyncio.Handle | None = None
        if owner.max_wait == 0.0:
            # A timer of no length would wait for the next tick of the loop's clock, a millisecond of uvloop's.
            self._timer = loop.call_soon(self._send, "max_wait", context=Context())
        elif owner.max_wait is not None:
            self._timer = loop.call_later(owner.max_wait, self._send, "max_wait", context=Context())
        self._look_soon()

    def __len__(self) -> int:
        """Return how many callers wait."""
        return len(self._callers)

    def __str__(self) -> str:
        """What a caller waits for."""
        items = counted(len(self), "item")
        if not self._is_sent:
            return f"a request of {self._owner.name}, not sent yet, with {items}"
        coroutine = None if self._task is None else self._task.get_coro()
        waits = (named_wait(frame) for frame in suspended_frames(coroutine))
        behind = next((f", which waits for {what}" for what in waits if what is not None), "")
        return f"a request of {self._owner.name} with {items}{behind}"

    def waits(self) -> list[float]:
        """Return for how many seconds each item has waited to be sent."""
        now = self.loop.time()
        return [now - caller.since for caller in list(self._callers)]

    async def ask(self, item: Any, key: Hashable = None, keep: Callable[[Any], object] | None = None) -> Any:
        """Add an item, and return its result once the request has ended.

        A caller that is cancelled takes its item back; the last one to go cancels the request, and waits for its end.

        Args:
            item: what is asked.
            key: by which its result is found, of an owner that has keys.
            keep: takes the result where the caller has been cancelled, and the request has ended with an answer.
        """
        caller, task = _Caller(item, key, self.loop, keep), None
        self._callers[caller] = self._asking[caller] = None
        self._calls += 1
        try:
            row = _row()
            if caller.backward is not self._newest or row is not None:
                self._add_scheduler(caller.backward, row)
            if len(self._callers) == self._owner.max_size:
                self._send("full")
            if caller.backward is not None and caller.backward.observed_steps is not None:
                tell_profiles(self)
            await caller.future
            if (permit := caller.permit) is not None:
                caller.permit = None
                await permit.end_wait()
            return caller.result
        except GeneratorExit:
            # The coroutine is being closed, in any thread: nothing may be awaited.
            caller.keep_result()
            if (task := self._leave(caller)) is not None:
                self._abandon(task)
            raise
        except asyncio.CancelledError:
            caller.keep_result()
            if (task := self._leave(caller)) is not None:
                await self._cancel(task)
            raise
        finally:
            self._asking.pop(caller, None)
            if caller.permit is not None:
                # After an error.
                caller.permit.force_end_wait()
            # The traceback of an error refers to this frame: leave no cycle.
            del caller, item, keep, task

    def _add_scheduler(self, backward: GraphTask | None, row: RowLike | None) -> None:
        """Have the batch wait for the drivers of another backward, or of another row, in which there is a caller."""
        if row is None:
            self._newest = backward
        if self._owner.scheduler is None and (scheduler := _scheduler_of(backward, row, self.loop)) is not None:
            self._schedulers.add(scheduler)

    def _leave(self, caller: _Caller) -> EagerTask | None:
        """Take a caller out that waits no more; return the request that runs if nobody else waits for it."""
        if caller not in self._callers:
            # It had its answer already.
            return None
        del self._callers[caller]
        if not self._is_sent:
            self._owner.note_dropped()
        if self._callers:
            return None
        if not self.is_closed:
            self._close()
        return self._task

    def _abandon(self, task: EagerTask) -> None:
        """Cancel the request without waiting for its end; from any thread."""
        if asyncio._get_running_loop() is self.loop:
            task.cancel()
            return
        # RuntimeError: the loop is closed, and the request never goes on.
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(task.cancel)

    async def _cancel(self, task: EagerTask) -> None:
        """Cancel the request, and wait for its end; raise what it raises in place of its cancellation."""
        # A loop that ends cancels callers and request alike; a second time would interrupt its clean-up.
        if not task.cancelling():
            task.cancel()
        await wait_through_cancellation(task.done, self._wait_for_end)
        error = None if task.cancelled() else task.exception()
        try:
            if error is not None:
                raise error
        finally:
            # As in `ask`.
            del error, task

    async def _wait_for_end(self) -> None:
        self._ended = OneShotEvent(self.loop)
        await self._ended

    # --- when it is sent ----------------------------------------------------------------------------

    def _look_soon(self) -> None:
        # An empty context, that of the batch: the loop keeps no caller's alive.
        self.loop.call_soon(self._look, context=Context())

    def _look(self, _: object = None) -> None:
        """Send the batch if nothing else can run, or look again when that may have changed."""
        if self.is_closed:
            return
        for scheduler in self._schedulers:
            if len(scheduler):
                scheduler.when_asleep(self._look)
                return
        self._looks += 1
        if self._looks >= _MOST_LOOKS:
            self._send("idle")
            return
        if self._looks == 1:
            self._in_line = HERE.turn.last_in_line(self.loop)
            if self._in_line is not None:
                self._in_line.add_done_callback(self._look, context=Context())
                return
        self._quiet = self._quiet + 1 if self._calls == self._calls_seen else 0
        self._calls_seen = self._calls
        if self._quiet >= _QUIET_TURNS and not self._may_be_called_by_rows():
            self._send("idle")
        else:
            self._look_soon()

    def _may_be_called_by_rows(self) -> bool:
        """Tell whether a request of rows is about to begin, whose rule may call."""
        is_of_rows = self._owner.scheduler is not None
        return not is_of_rows and any(
            one.loop is self.loop and one._is_about_to_begin() for one in _HAVE_NOT_BEGUN.of_rows
        )

    def _is_about_to_begin(self) -> bool:
        """Tell whether it has been sent, or is to be as soon as the loop has turned, since all sleep who could call."""
        return self._task is not None if self.is_closed else not any(map(len, self._schedulers))

    def _close(self) -> None:
        self.is_closed = True
        self._schedulers.clear()
        self._newest = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._owner.note_closed(self)

    def _send(self, reason: Reason) -> None:
        if self.is_closed:
            return
        self._close()
        # Most callers are of few backward passes.
        backwards = {(caller.backward, caller.given) for caller in self._callers}
        self._context.run(URGENCY.set, most_urgent_of(backwards))
        name = f"a request of {self._owner.name}"
        self._task = EagerTask(self._run(reason), loop=self.loop, context=self._context, name=name, on_end=self._end)
        self._owner.note_running(self._task)
        # Not at once: the caller that has filled it would run the request on its own stack.
        self._task.start_later()

    # --- its results --------------------------------------------------------------------------------

    async def _run(self, reason: Reason) -> None:
        """Make the request, and give each caller its result, or the error; raise the error where nobody gets it."""
        _HAVE_NOT_BEGUN.of_rows.discard(self)
        if not self._drop_cancelled():
            return
        self._is_sent = True
        self._owner.note_sent(self, reason)
        callers = list(self._callers)
        try:
            found = await self._owner.function([caller.item for caller in callers])
            waiting = self._callers
            for caller, result in zip(callers, self._results_of(found, callers), strict=True):
                future = caller.future
                caller.result = result
                if caller in waiting and not future.done():
                    future.set_result(None)
                else:
                    caller.keep_result()
            self._forget_callers()
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
            # As if each caller had awaited the request itself. The loop raises the last two.
            self._cancel_callers()
            raise
        except GeneratorExit:
            # Its loop has been dropped, in any thread, and its callers with it: none of them goes on.
            self._forget_callers()
            raise
        except BaseException as error:
            if not self._callers:
                raise
            self._refuse(error)
        finally:
            # The traceback of an error refers to this frame: leave no cycle.
            del self, callers

    def _drop_cancelled(self) -> bool:
        """Drop the items of callers that have been cancelled and have not gone on since; tell whether any is left."""
        for caller in [caller for caller in self._callers if caller.future.done()]:
            del self._callers[caller]
            self._owner.note_dropped()
        return bool(self._callers)

    def _cancel_callers(self) -> None:
        for caller in self._waiting():
            caller.future.cancel()
        self._forget_callers()

    def _waiting(self) -> list[_Caller]:
        return [caller for caller in self._callers if not caller.future.done()]

    def _refuse(self, error: BaseException) -> None:
        """Give the error to every caller: a copy to each backward, which adds notes on its own node."""
        errors: dict[Any, BaseException] = {}
        for caller in self._waiting():
            of_this = errors.get(caller.backward)
            if of_this is None:
                of_this = errors[caller.backward] = _copy(error) if errors else error
            caller.future.set_exception(of_this)
            # Counts as retrieved: a caller may be closed before it goes on.
            caller.future.exception()
        self._forget_callers()

    def _forget_callers(self) -> None:
        self._callers.clear()
        self._asking.clear()

    def _results_of(self, found: Any, callers: Sequence[_Caller]) -> Sequence[Any]:
        """Return the result of each item; raise where what the function returned has not one for each."""
        name = self._owner.name
        if self._owner.key is not None:
            if not isinstance(found, Mapping):
                hint = "return {key(item): result for each item}, or leave key= out for a list in their order"
                raise ArgumentTypeError(must_be(f"what {name} returns", "a dict of results by key", found, hint))
            keys = [caller.key for caller in callers]
            missing = [one for one in keys if one not in found]
            if missing:
                raise ArgumentError(
                    f"{name} was given {counted(len(callers), 'item')}, and what it returned has no result for the key "
                    f"{missing[0]!r}: return a dict with one for each key(item)"
                )
            return [found[one] for one in keys]
        if not isinstance(found, (list, tuple)):
            is_ordered = isinstance(found, Iterable) and not isinstance(found, (str, bytes, set, frozenset))
            hint = "return list(results)" if is_ordered else "return a result for each item"
            if isinstance(found, Mapping):
                hint = "write @ag.batched(key=...) for a dict of results by key"
            raise ArgumentTypeError(must_be(f"what {name} returns", "a list", found, hint))
        if len(found) != len(callers):
            raise ArgumentError(
                f"{name} was given {counted(len(callers), 'item')} and returned {counted(len(found), 'result')}: "
                "return one for each item, in the order of the items"
            )
        return found

    def _end(self, task: EagerTask) -> None:
        self._owner.note_ended(task)
        self._task = None
        # Cancelled before its first step, it has told nobody.
        self._cancel_callers()
        if not task.cancelled():
            # Counts as retrieved: the callers have it, or the last one raises it.
            task.exception()
        if self._ended is not None:
            self._ended.set()


def _scheduler_of(
    backward: GraphTask | None, row: RowLike | None, loop: asyncio.AbstractEventLoop
) -> DepthScheduler | None:
    """Return what counts the drivers on a loop that may call as well as a caller, in a backward and in a row."""
    if row is not None and row.is_here():
        # Those of all rows that run together, also of those that have yet to begin.
        found: DepthScheduler = row.scheduler
        return found
    scheduler = None if backward is None else backward.scheduler
    return scheduler if scheduler is not None and scheduler.loop is loop else None


NAMED_WAITS[Batch.ask.__code__] = "self"


def key_of(owner: BatchOwner, item: Any) -> Hashable:
    """Return the key of an item; raise if no dict has such a key."""
    assert owner.key is not None
    key = owner.key(item)
    try:
        hash(key)
    except TypeError:
        raise ArgumentTypeError(
            must_be(
                f"what the key of {owner.name} returns", "hashable", key, "return a str, a number or a tuple of these"
            )
        ) from None
    return key


def _copy(error: BaseException) -> BaseException:
    """Return a copy of an error, whose notes are its own; the error itself where it cannot be copied."""
    try:
        copied = copy.copy(error)
        is_alike = type(copied) is type(error) and bool(copied.args == error.args)
    except Exception:
        # Arrays among its arguments, say, which are not compared as a whole.
        return error
    if not is_alike:
        return error
    if vars(copied) is vars(error):
        # So tblib's copies are, which Dask has every exception copied by: a note on one would be on both.
        copied.__dict__ = dict(vars(error))
    copied.__cause__, copied.__context__ = error.__cause__, error.__context__
    copied.__suppress_context__ = error.__suppress_context__
    if hasattr(error, "__notes__"):
        copied.__notes__ = list(error.__notes__)
    return copied.with_traceback(error.__traceback__)
