"""PredictionQueue: inputs that wait a moment for one another, and are answered by one call of the model."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, final

import numpy as np

from ..core.engine.eager_task import EagerTask, start_task
from ..core.tensor import Tensor
from ..core.tree.structure import flatten, unflatten
from ..data.stacking import stack
from ..errors import ArgumentError, BusyError

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
        batches: how many calls were made.
    """

    def __init__(
        self, answer: Callable[[Any], Coroutine[object, None, Any]], batch_size: int, delay: float, max_pending: int
    ) -> None:
        self._answer, self._batch_size, self._delay, self._max_pending = answer, batch_size, delay, max_pending
        self._waiting: dict[Any, list[_Question]] = {}
        self._timers: dict[Any, asyncio.Handle] = {}
        self._running: set[EagerTask] = set()
        self.pending = self.batches = 0

    async def ask(self, inputs: Any) -> Any:
        """Return the outputs for one input; a caller that is cancelled no longer takes part in its batch.

        Raises:
            BusyError: too many wait.
        """
        if self.pending >= self._max_pending:
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
        task = start_task(self._run(questions), context, "ag.learn prediction", self._running.discard)
        if task.done():
            return
        self._running.add(task)
        for question in questions:
            question.future.add_done_callback(lambda _: self._cancel_if_nobody_waits(task, questions))

    @staticmethod
    def _cancel_if_nobody_waits(task: EagerTask, questions: list[_Question]) -> None:
        if all(question.future.cancelled() for question in questions):
            task.cancel()

    async def _run(self, questions: list[_Question]) -> None:
        self.batches += 1
        try:
            outputs = await self._answer(stack([question.inputs for question in questions]))
            found = _rows(outputs, len(questions))
        except Exception as error:
            if len(questions) > 1:
                # One of them may be to blame: the others are to have their answers.
                for question in questions:
                    if not question.future.done():
                        await self._run([question])
            elif not questions[0].future.done():
                questions[0].future.set_exception(error)
            return
        except BaseException:
            # A model that raises CancelledError by itself cancels those who wait for it.
            for question in questions:
                question.future.cancel()
            raise
        for question, row in zip(questions, found, strict=True):
            if not question.future.done():
                question.future.set_result(row)

    async def close(self, error: BaseException | None) -> None:
        """Answer what waits; with an error, give that to all who wait instead."""
        for key in list(self._waiting):
            if error is not None:
                for question in self._waiting[key]:
                    if not question.future.done():
                        question.future.set_exception(error)
            self._flush(key)
        while self._running:
            task = next(iter(self._running))
            ended = asyncio.Event()
            task.add_done_callback(lambda _, ended=ended: ended.set())  # type: ignore[misc]
            await ended.wait()


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
