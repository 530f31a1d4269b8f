"""`batches`, which turns a source of examples into batches, loaded ahead by workers where that is asked for."""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, final

import numpy as np

from ..core.engine.eager_task import EagerTask
from ..core.settings.arguments import must_be, truth, whole_number
from ..core.settings.loop_turn import keep_pace
from ..errors import ArgumentError, ArgumentTypeError
from ..random import generator
from .sources import END, AsyncSource, Source, make_source

__all__ = ["Batches", "batches"]

#: How many examples of a source without random access are held to draw the next from, with `shuffle=True`.
_BUFFER = 1000


def batches(
    source: object,
    size: int | None,
    shuffle: bool | int = False,
    workers: int = 0,
    *,
    drop_last: bool = False,
    prefetch: int = 2,
    rng: np.random.Generator | int | None = None,
) -> Batches:
    """Return the batches of a source: an object to iterate over by `for` or `async for`, once for each epoch.

    Args:
        source: a tree (`ag.tree`) of arrays whose first axis numbers the examples; a list of examples, or any object
            with `__len__` and `__getitem__`; an iterable of examples; or an async iterable of them. An example is a
            tree of arrays and numbers. An iterator, such as a generator, can be read once.
        size: the number of examples in a batch, which are stacked along a new first axis; None if the source gives
            whole batches.
        shuffle: read the examples in another order in each epoch. A source without random access is read through a
            buffer, of 1,000 examples or the number given here.
        workers: the number of threads that load batches ahead, so that neither the loop nor a training step waits for
            them. 0 loads each batch when it is asked for. Iterables are read by one thread, async iterables by a task.
        drop_last: leave out a last batch that has fewer examples.
        prefetch: how many batches each worker loads ahead.
        rng: what shuffles: a generator, or a seed; None means the generator of the context (`ag.random.seed`).

    Returns:
        Batches: trees like an example. Those of arrays that are not shuffled share the arrays' memory.

    Raises:
        ArgumentTypeError: `source` is none.
        ArgumentError: arrays have different numbers of examples, or an option is out of range.

    Source: torch.utils.data.DataLoader, which takes classes of its own as datasets.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> x, y = np.arange(10.0).reshape(5, 2), np.arange(5)
        >>> for inputs, labels in ag.data.batches((x, y), 2):
        ...     print(inputs.shape, labels)
        (2, 2) [0 1]
        (2, 2) [2 3]
        (1, 2) [4]
        >>> async def words():
        ...     for word in ("to", "be", "or"):
        ...         yield {"word": word, "length": len(word)}
        >>> async def main():
        ...     return [batch async for batch in ag.data.batches(words(), 2, workers=1)]
        >>> ag.run(main())[0]
        {'word': ['to', 'be'], 'length': array([2, 2])}
    """
    size, buffer, workers, prefetch = _options(size, shuffle, workers, prefetch)
    if rng is not None and not isinstance(rng, np.random.Generator):
        rng = np.random.default_rng(whole_number(rng, "rng"))
    found = make_source(source, size, truth(drop_last, "drop_last"))
    return Batches(found, buffer, workers, prefetch * workers, rng)


def _options(size: Any, shuffle: Any, workers: Any, prefetch: Any) -> tuple[int | None, int, int, int]:
    """Return the options; of `shuffle` how many examples a source without random access holds, 0 for none."""
    if isinstance(size, np.ndarray) and size.ndim:
        raise ArgumentTypeError(
            must_be("size", "an int", size, "write ag.data.batches((x, y), size) for several arrays")
        )
    size = None if size is None else whole_number(size, "size")
    if size is not None and size < 1:
        raise ArgumentError(f"size must be at least 1, or None for a source of whole batches, not {size}")
    is_switch = isinstance(shuffle, (bool, np.bool_))
    buffer = _BUFFER * bool(shuffle) if is_switch else whole_number(shuffle, "shuffle")
    if buffer < 0:
        raise ArgumentError(f"shuffle must be True, False or the size of a buffer, not {shuffle}")
    return size, buffer, whole_number(workers, "workers", 0), whole_number(prefetch, "prefetch", 1)


@final
class Batches:
    """What `batches` returns: iterable by `for` and `async for`, with a length where that of the source is known."""

    def __init__(
        self,
        source: Source | AsyncSource,
        buffer: int,
        workers: int,
        ahead: int,
        rng: np.random.Generator | None,
    ) -> None:
        self._source = source
        self._buffer = buffer
        self._workers = workers
        self._ahead = ahead
        self._rng = rng

    def __len__(self) -> int:
        """Return the number of batches.

        Raises:
            TypeError: the source has no length.
        """
        if self._source.length is None:
            raise TypeError("the number of batches is unknown: the source has no length")
        return self._source.length

    def __bool__(self) -> bool:
        return True

    def __length_hint__(self) -> int:
        return self._source.length or 0

    def __iter__(self) -> Iterator[Any]:
        source = self._source
        if isinstance(source, AsyncSource):
            raise ArgumentTypeError("the source is an async iterable: write `async for batch in ag.data.batches(...)`")
        jobs = source.jobs(self._new_rng(), self._buffer)
        if not self._workers:
            return _without_end(job() for job in jobs)
        return self._load_ahead(source, jobs)

    def __aiter__(self) -> AsyncIterator[Any]:
        source = self._source
        if isinstance(source, AsyncSource):
            found: AsyncIterator[Any] = source.batches(self._new_rng(), self._buffer)
            return _read_ahead(found, self._ahead) if self._workers else found
        jobs = source.jobs(self._new_rng(), self._buffer)
        return self._await_ahead(source, jobs) if self._workers else _as_async(_without_end(job() for job in jobs))

    def _new_rng(self) -> np.random.Generator | None:
        """Return the generator of one pass; its own one, since a worker may draw from it at any time."""
        if not self._buffer:
            return None
        parent = generator() if self._rng is None else self._rng
        return np.random.default_rng(parent.integers(0, 2**32, 4))

    def _executor(self, source: Source) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._workers if source.is_concurrent else 1, "asyncgrad-data")

    def _load_ahead(self, source: Source, jobs: Iterator[Any]) -> Iterator[Any]:
        executor = self._executor(source)
        window = _Window(executor, jobs, self._ahead)
        try:
            while (future := window.next()) is not None and (batch := future.result()) is not END:
                yield batch
        finally:
            executor.shutdown(wait=False, cancel_futures=True)

    async def _await_ahead(self, source: Source, jobs: Iterator[Any]) -> AsyncIterator[Any]:
        executor = self._executor(source)
        window = _Window(executor, jobs, self._ahead)
        try:
            while (future := window.next()) is not None and (batch := await asyncio.wrap_future(future)) is not END:
                await keep_pace()
                yield batch
        finally:
            executor.shutdown(wait=False, cancel_futures=True)

    def __repr__(self) -> str:
        length = "an unknown number of" if self._source.length is None else self._source.length
        return f"Batches({length} batches, size={self._source.size}, workers={self._workers})"


@final
class _Window:
    """The jobs that have been submitted and whose batch was not asked for yet, in order."""

    __slots__ = ("_executor", "_jobs", "_limit", "_pending")

    def __init__(self, executor: ThreadPoolExecutor, jobs: Iterator[Any], limit: int) -> None:
        self._executor = executor
        self._jobs = jobs
        self._limit = limit
        self._pending: deque[Future[Any]] = deque()

    def next(self) -> Future[Any] | None:
        """Submit jobs up to the limit, and return the oldest one; None if there is none."""
        # One more than the limit, which counts batches beside the one that is returned.
        while len(self._pending) <= self._limit and (job := next(self._jobs, None)) is not None:
            # A worker sees the caller's context: its grad mode and seed, for example.
            self._pending.append(self._executor.submit(contextvars.copy_context().run, job))
        return self._pending.popleft() if self._pending else None


def _without_end(found: Iterator[Any]) -> Iterator[Any]:
    for batch in found:
        if batch is END:
            return
        yield batch


async def _as_async(found: Iterator[Any]) -> AsyncIterator[Any]:
    for batch in found:
        await keep_pace()
        yield batch


async def _read_ahead(found: AsyncIterator[Any], ahead: int) -> AsyncIterator[Any]:
    """Yield the batches that a task reads ahead of the caller."""
    queue: asyncio.Queue[Any] = asyncio.Queue(ahead)

    async def read() -> None:
        try:
            async for batch in found:
                await queue.put((batch, None))
        except asyncio.CancelledError as error:
            # The source's own, or that of all tasks: whoever waits for a batch learns it, and a full queue makes room.
            if queue.full():
                queue.get_nowait()
            queue.put_nowait((END, error))
            raise
        except Exception as error:
            await queue.put((END, error))
        else:
            await queue.put((END, None))

    ended = asyncio.Event()
    task = EagerTask(
        read(),
        loop=asyncio.get_running_loop(),
        context=contextvars.copy_context(),
        name="ag.data.batches",
        on_end=lambda _: ended.set(),
    )
    task.start_later()
    try:
        while True:
            batch, error = await queue.get()
            if error is not None:
                raise error
            if batch is END:
                return
            await keep_pace()
            yield batch
    finally:
        task.cancel()
        await ended.wait()
        # It is an async generator.
        generator: Any = found
        await generator.aclose()
