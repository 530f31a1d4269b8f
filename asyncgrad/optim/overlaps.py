"""Overlapping training steps: which steps of an optimizer are open, and whether gradients of two meet in `.grad`.

A training step begins with `zero_grad()` and ends with `step()`. A backward belongs to the steps that were open in the
context that it was called from; the tasks that a step starts copy that context, so backward passes gathered within one
step belong to it and are summed. Two steps overlap if one of them reads or resets `.grad` while it has, or is about to
get, gradients of the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections.abc import AsyncIterator
from typing import Any, final

from ..core.engine.loops import running_loop
from ..core.settings.context import TRAINING_STEPS
from ..errors import OverlappingStepsError

__all__ = ["StepTracker"]


@final
class _TrainingStep:
    """One training step: open from `zero_grad()` to `step()`."""

    __slots__ = ("_name", "_owner", "_tracker", "has_gradients", "mixed_with", "running")

    def __init__(self, tracker: StepTracker) -> None:
        owner = _current_owner()
        self._tracker = weakref.ref(tracker)
        self._owner = weakref.ref(owner)
        self._name = _name_of(owner)
        #: How many of its backward passes run.
        self.running = 0
        #: Whether one of them has ended since `zero_grad()`.
        self.has_gradients = False
        #: The name of another step whose gradients have been added since `zero_grad()`.
        self.mixed_with: str | None = None

    @property
    def tracker(self) -> StepTracker | None:
        """The tracker of its optimizer, while that lives."""
        return self._tracker()

    @property
    def name(self) -> str:
        """The name of the task or thread that has begun it. An eager task may get its name after its first step."""
        owner = self._owner()
        if owner is not None:
            self._name = _name_of(owner)
        return self._name

    def belongs_here(self) -> bool:
        """Tell whether the running task is the one that has begun this step."""
        return self._owner() is _current_owner()

    def is_abandoned(self) -> bool:
        """Tell whether the task that has begun it has ended, so that nobody will end it."""
        owner = self._owner()
        if isinstance(owner, asyncio.Future):
            return owner.done()
        return owner is None or not owner.is_alive()

    def is_busy(self) -> bool:
        """Tell whether its gradients are in `.grad`, or will be, and somebody is left to use them."""
        return bool(self.running or self.has_gradients) and not self.is_abandoned()

    def backward_begins(self) -> None:
        """Note that one of its backward passes has begun."""
        self.running += 1

    def backward_ends(self, has_gradients: bool) -> None:
        """Note that a backward has ended; one that has failed has left no gradients."""
        self.running -= 1
        tracker = self.tracker
        if not has_gradients or tracker is None:
            return
        self.has_gradients = True
        for other in tracker.open:
            if other is not self:
                other.mixed_with = self.name


@final
class StepTracker:
    """The open training steps of one optimizer.

    Args:
        optimizer: the name of its class, for errors.
    """

    __slots__ = ("__weakref__", "_lock", "_optimizer", "_updating", "open")

    def __init__(self, optimizer: str) -> None:
        self._optimizer = optimizer
        self.open: list[_TrainingStep] = []
        #: The loop on which awaited updates take turns, and its lock.
        self._lock: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None
        #: The task whose awaited update runs.
        self._updating: Any = None

    def __reduce__(self) -> Any:
        # A copy of an optimizer has parameters of its own.
        return StepTracker, (self._optimizer,)

    def begin(self) -> None:
        """Begin a step of the running task, before `.grad` is reset.

        Raises:
            OverlappingStepsError: a step of another task is under way.
        """
        own = self._own()
        self._check(own, "zero_grad()")
        if own is None or not own.belongs_here():
            own = self._new()
        self.open = [step for step in self.open if step is not own and not step.is_abandoned()]
        self.open.append(own)
        for step in self.open:
            # From here on there are no gradients.
            step.has_gradients = False
            step.mixed_with = None

    def end(self) -> None:
        """End the step of the running task, before its gradients are used.

        Raises:
            OverlappingStepsError: `.grad` has gradients of a step of another task, or will have.
        """
        own = self._own()
        self._check(own, "step()")
        if own is None:
            return
        if own.mixed_with is not None:
            raise self._error("step()", own.mixed_with, "added its gradients to .grad since the zero_grad() before")
        own.has_gradients = False
        if own in self.open:
            self.open.remove(own)

    def check_no_update(self, call: str) -> None:
        """Raise if an awaited update is computing new values of the parameters: another would be lost.

        Raises:
            OverlappingStepsError: one is.
        """
        if self._updating is not None:
            updating = _name_of(self._updating)
            raise OverlappingStepsError(
                f"{_name_of(_current_owner())} calls {call} of one {self._optimizer} while {updating} awaits its "
                "step_async(), whose result would be lost or mixed: write await optimizer.step_async(...), which waits "
                "for its turn"
            )

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until no other awaited update of the optimizer runs, and hold others up; suspends."""
        loop = running_loop()
        if self._lock is None or self._lock[0] is not loop:
            self.check_no_update("step_async()")
            self._lock = loop, asyncio.Lock()
        async with self._lock[1]:
            self._updating = _current_owner()
            try:
                yield
            finally:
                self._updating = None

    def _own(self) -> _TrainingStep | None:
        """Return the step that the context belongs to."""
        for step in TRAINING_STEPS.get():
            if step.tracker is self:
                assert isinstance(step, _TrainingStep)
                return step
        return None

    def _new(self) -> _TrainingStep:
        """Return a new step, which the context belongs to from now on."""
        step = _TrainingStep(self)
        others = [one for one in TRAINING_STEPS.get() if one.tracker is not None and one.tracker is not self]
        TRAINING_STEPS.set((*others, step))
        return step

    def _check(self, own: _TrainingStep | None, call: str) -> None:
        for other in self.open:
            if other is not own and other.is_busy():
                what = "has a backward running" if other.running else "has gradients in .grad that no step() has used"
                if own is not None:
                    own.mixed_with = own.mixed_with or other.name
                raise self._error(call, other.name, what)

    def _error(self, call: str, other: str, what: str) -> OverlappingStepsError:
        return OverlappingStepsError(
            f"two training steps of one {self._optimizer} overlap: {_name_of(_current_owner())} calls {call}, but "
            f"{other} {what}. The gradients of both would be summed in .grad. Write in each task, without zero_grad() "
            "and backward(): grads = await ag.func.grad(loss)(params), then await optimizer.step_async(grads)"
        )


def _current_owner() -> Any:
    """Return the running asyncio task; outside of one, the thread."""
    if asyncio._get_running_loop() is not None and (task := asyncio.current_task()) is not None:
        return task
    return threading.current_thread()


def _name_of(owner: Any) -> str:
    return f"thread {owner.name!r}" if isinstance(owner, threading.Thread) else f"task {owner.get_name()!r}"
