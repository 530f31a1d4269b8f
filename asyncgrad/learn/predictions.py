"""PredictionQueue: inputs that wait a moment for one another, and are answered by one call of the model."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, final

import numpy as np

from ..core.engine.eager_task import EagerTask, start_task
from ..core.settings.awaiting import is_cancelled
from ..core.tensor import Tensor
from ..core.tree.structure import flatten, unflatten
from ..data.stacking import stack
from ..errors import ArgumentError, BusyError
from .raised import told

__all__ = ["PredictionQueue", "batch_key"]


def batch_key(tree: Any) -> Any:
    """Return what examples that can be stacked have in common: the structure, and the shape and dtype of each leaf."""
    leaves, structure = flatten(tree)
    return structure, tuple((np.shape(leaf), getattr(leaf, "dtype", type(leaf))) for leaf in leaves)


@final
class _Question:
    """One input, and the future of its outputs."""

    __slots__ = ("future", "inputs")

    def __init__(self, inputs: Any, future: asyncio.Future[Any]) -> None:
        self.inputs, self.future = inputs, future


@final
class PredictionQueue:
    """Collects inputs of equal shapes, and has them answered together.

    Args:
        answer: given inputs that are stacked along a new first axis, returns outputs with that axis.
        batch_size: the most inputs of one call.
        delay: the seconds that the first input of a batch waits for others.
        max_pending: the most inputs that wait or are being answered.

    Attributes:
        pending: how many wait or are being answered.
        max_pending: how many may.
        batches: how many calls were made.
    """

    def __init__(
        self, answer: Callable[[Any], Coroutine[object, None, Any]], batch_size: int, delay: float, max_pending: int
    ) -> None:
        self._answer, self._batch_size, self._delay, self.max_pending = answer, batch_size, delay, max_pending
        self._waiting: dict[Any, list[_Question]] = {}
        self._timers: dict[Any, asyncio.Handle] = {}
        #: What each call answers.
        self._running: dict[EagerTask, list[_Question]] = {}
        self.pending = self.batches = 0

    async def ask(self, inputs: Any) -> Any:
        """Return the outputs for one input; a caller that is cancelled no longer takes part in its batch.

        Raises:
            BusyError: too many wait.
        """
        if self.pending >= self.max_pending:
            raise BusyError(f"{self.pending} predictions are waited for already, and no more may be")
        loop = asyncio.get_running_loop()
        question = _Question(inputs, loop.create_future())
        key = batch_key(inputs)
        waiting = self._waiting.setdefault(key, [])
        waiting.append(question)
        self.pending += 1
        try:
            if len(waiting) >= self._batch_size:
                self._flush(key)
            elif key not in self._timers:
                # A timer of no length would wait for the next tick of the loop's clock, a millisecond of uvloop's.
                later = self._delay > 0
                handle = loop.call_later(self._delay, self._flush, key) if later else loop.call_soon(self._flush, key)
                self._timers[key] = handle
            return await question.future
        finally:
            self.pending -= 1

    def _flush(self, key: Any) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        questions = [question for question in self._waiting.pop(key, ()) if not question.future.done()]
        if not questions:
            return
        context = contextvars.copy_context()
        task = start_task(self._run(questions), context, "ag.learn prediction", self._end)
        if task.done():
            return
        self._running[task] = questions
        for question in questions:
            question.future.add_done_callback(lambda _: self._cancel_if_nobody_waits(task, questions))

    def _end(self, task: EagerTask) -> None:
        self._running.pop(task, None)

    @staticmethod
    def _cancel_if_nobody_waits(task: EagerTask, questions: list[_Question]) -> None:
        if all(question.future.cancelled() for question in questions):
            task.cancel()

    async def _run(self, questions: list[_Question]) -> None:
        self.batches += 1
        try:
            outputs = await self._answer(stack([question.inputs for question in questions]))
            found = _rows(outputs, len(questions))
        except BaseException as error:
            if is_cancelled(error) or isinstance(error, (KeyboardInterrupt, SystemExit)):
                for question in questions:
                    question.future.cancel()
                raise
            if len(questions) > 1:
                # One of them may be to blame: the others are to have their answers.
                for question in questions:
                    if not question.future.done():
                        await self._run([question])
            elif not questions[0].future.done():
                questions[0].future.set_exception(told(error, "the model"))
            return
        for question, row in zip(questions, found, strict=True):
            if not question.future.done():
                question.future.set_result(row)

    async def close(self, make_error: Callable[[], BaseException], is_refused: bool) -> None:
        """Answer what waits, or refuse it; return once nothing runs.

        Whoever is cancelled while it waits refuses it, too, and is cancelled once that has ended.

        Args:
            make_error: makes the error of who is refused.
            is_refused: whether nobody is to be answered.
        """
        if is_refused:
            for questions in self._waiting.values():
                _refuse(questions, make_error)
        for key in list(self._waiting):
            self._flush(key)
        cancellation: asyncio.CancelledError | None = None
        while self._running:
            if is_refused:
                for task, questions in list(self._running.items()):
                    _refuse(questions, make_error)
                    task.cancel()
            ended = asyncio.Event()
            next(iter(self._running)).add_done_callback(lambda _, ended=ended: ended.set())  # type: ignore[misc]
            try:
                await ended.wait()
            except asyncio.CancelledError as cancelled:
                # What it answers changes nothing, and may never come.
                cancellation, is_refused = cancelled, True
        if cancellation is not None:
            raise cancellation


def _refuse(questions: list[_Question], make_error: Callable[[], BaseException]) -> None:
    for question in questions:
        if not question.future.done():
            question.future.set_exception(make_error())


def _rows(outputs: Any, count: int) -> list[Any]:
    """Return the outputs of each input, as arrays that share no memory with those of the others."""
    leaves, structure = flatten(outputs)
    arrays = [leaf.detach().to("cpu").numpy() if isinstance(leaf, Tensor) else np.asarray(leaf) for leaf in leaves]
    for array in arrays:
        if array.ndim == 0 or len(array) != count:
            raise ArgumentError(
                f"the model was given {count} inputs, stacked along a new first axis, and returned an array of shape "
                f"{array.shape}: the first axis of each output must be of size {count}"
            )
    return [unflatten(structure, [np.array(array[index]) for array in arrays]) for index in range(count)]
