"""Sources of batches: each turns what the user has given into jobs, calls that load one batch each."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, final

import numpy as np

from ..core.arrays.values import is_device_array
from ..core.settings.arguments import must_be
from ..core.settings.loop_turn import keep_pace
from ..core.tensor import Tensor
from ..core.tree.structure import flatten, paths, unflatten
from ..errors import ArgumentError, ArgumentTypeError
from .stacking import stack

__all__ = ["END", "ArraySource", "AsyncSource", "Job", "SequenceSource", "Source", "StreamSource", "make_source"]

#: Loads one batch; returns END where none is left.
Job = Callable[[], Any]

#: What a job returns after the last batch.
END = object()


class Source(ABC):
    """Abstract base of sources whose batches are loaded by plain calls.

    Args:
        size: the number of examples in a batch; None if the source gives whole batches.
        drop_last: leave out a last batch that has fewer.
    """

    #: Whether several jobs may run at a time.
    is_concurrent = True

    def __init__(self, size: int | None, drop_last: bool) -> None:
        self.size = size
        self.drop_last = drop_last

    @abstractmethod
    def jobs(self, rng: np.random.Generator | None, buffer: int) -> Iterator[Job]:
        """Return the jobs of one pass.

        Args:
            rng: shuffles the examples; None leaves them in order.
            buffer: how many examples a source without random access holds, to draw the next from.
        """

    @property
    def length(self) -> int | None:
        """The number of batches; None if it is unknown."""
        return None


class IndexedSource(Source):
    """Abstract base of sources with random access."""

    def __init__(self, count: int, size: int | None, drop_last: bool) -> None:
        super().__init__(size, drop_last)
        self._count = count

    @property
    def length(self) -> int:
        """The number of batches."""
        size = self.size or 1
        return self._count // size if self.drop_last else -(-self._count // size)

    def jobs(self, rng: np.random.Generator | None, buffer: int) -> Iterator[Job]:
        """Return a job for each batch."""
        size = self.size or 1
        order = None if rng is None else rng.permutation(self._count)
        for number in range(self.length):
            part = slice(number * size, min((number + 1) * size, self._count))
            yield _Load(self, part if order is None else order[part])

    @abstractmethod
    def load(self, part: Any) -> Any:
        """Return the batch of the examples at a slice or an array of indices."""


@final
class _Load:
    """A job: loads one part of a source."""

    __slots__ = ("_part", "_source")

    def __init__(self, source: IndexedSource, part: Any) -> None:
        self._source = source
        self._part = part

    def __call__(self) -> Any:
        return self._source.load(self._part)


@final
class ArraySource(IndexedSource):
    """A tree of arrays, whose first axis numbers the examples. A batch in order shares their memory."""

    def __init__(self, tree: Any, size: int | None, drop_last: bool) -> None:
        if size is None:
            raise ArgumentError("arrays have no batches of their own: pass size, the number of examples in a batch")
        self._leaves, self._structure = flatten(tree)
        names = list(paths(self._structure, "source"))
        for name, leaf in zip(names, self._leaves, strict=True):
            if not leaf.ndim:
                raise ArgumentError(f"{name} has no axis: the first axis of each array numbers the examples")
            if len(leaf) != len(self._leaves[0]):
                raise ArgumentError(
                    f"{name} has {len(leaf)} examples, but {names[0]} has {len(self._leaves[0])}: the first axis of "
                    "each array numbers the examples"
                )
        super().__init__(len(self._leaves[0]), size, drop_last)

    def load(self, part: Any) -> Any:
        """Return a tree of the examples' rows."""
        return unflatten(self._structure, [leaf[part] for leaf in self._leaves])


@final
class SequenceSource(IndexedSource):
    """A sequence of examples, or any object with `__len__` and `__getitem__` for indices from 0."""

    def __init__(self, examples: Any, size: int | None, drop_last: bool) -> None:
        self._examples = examples
        super().__init__(len(examples), size, drop_last)

    def load(self, part: Any) -> Any:
        """Return the stacked examples."""
        indices = range(self._count)[part] if isinstance(part, slice) else part.tolist()
        found = [self._get(index) for index in indices]
        return found[0] if self.size is None else stack(found)

    def _get(self, index: int) -> Any:
        try:
            return self._examples[index]
        except StopIteration as error:
            # A future cannot hold it, and a generator that it passes takes it for its own end.
            raise RuntimeError(f"example {index} of the source raised StopIteration") from error
        except Exception as error:
            error.add_note(f"while ag.data.batches loaded example {index} of the source")
            raise


@final
class StreamSource(Source):
    """An iterable of examples, read from its start in each pass."""

    is_concurrent = False

    def __init__(self, examples: Iterable[Any], size: int | None, drop_last: bool) -> None:
        super().__init__(size, drop_last)
        self._examples = examples

    def jobs(self, rng: np.random.Generator | None, buffer: int) -> Iterator[Job]:
        """Return one job again and again: the one that reads the next batch."""
        examples = _numbered(self._examples)
        if rng is not None:
            examples = _shuffled(examples, rng, buffer)

        def read() -> Any:
            if self.size is None:
                return next(examples, END)
            found = list(itertools.islice(examples, self.size))
            if not found or (self.drop_last and len(found) < self.size):
                return END
            return stack(found)

        return itertools.repeat(read)


@final
class AsyncSource:
    """An async iterable of examples, read from its start in each pass."""

    length = None

    def __init__(self, examples: AsyncIterable[Any], size: int | None, drop_last: bool) -> None:
        self.size = size
        self.drop_last = drop_last
        self._examples = examples

    async def batches(self, rng: np.random.Generator | None, buffer: int) -> Any:
        """Yield the batches."""
        iterator = aiter(self._examples)
        numbered = _numbered_async(iterator)
        examples = numbered if rng is None else _shuffled_async(numbered, rng, buffer)
        try:
            found: list[Any] = []
            async for example in examples:
                await keep_pace()
                if self.size is None:
                    yield example
                    continue
                found.append(example)
                if len(found) == self.size:
                    yield stack(found)
                    found = []
            if found and not self.drop_last:
                yield stack(found)
        finally:
            await examples.aclose()
            await numbered.aclose()
            close = getattr(iterator, "aclose", None)
            if close is not None:
                await close()


def _numbered(examples: Iterable[Any]) -> Iterator[Any]:
    """Yield the examples; an error says which one was read."""
    index = 0
    try:
        for example in examples:
            yield example
            index += 1
    except Exception as error:
        error.add_note(f"while ag.data.batches read example {index} of the source")
        raise


async def _numbered_async(examples: AsyncIterator[Any]) -> Any:
    index = 0
    try:
        async for example in examples:
            yield example
            index += 1
    except Exception as error:
        error.add_note(f"while ag.data.batches read example {index} of the source")
        raise


def _shuffled(examples: Iterator[Any], rng: np.random.Generator, buffer: int) -> Iterator[Any]:
    """Yield each example in place of which a later one enters the buffer."""
    held = list(itertools.islice(examples, buffer))
    for example in examples:
        index = int(rng.integers(len(held)))
        yield held[index]
        held[index] = example
    for index in rng.permutation(len(held)).tolist():
        yield held[index]


async def _shuffled_async(examples: AsyncIterable[Any], rng: np.random.Generator, buffer: int) -> Any:
    held: list[Any] = []
    async for example in examples:
        if len(held) < buffer:
            held.append(example)
            continue
        index = int(rng.integers(len(held)))
        yield held[index]
        held[index] = example
    for index in rng.permutation(len(held)).tolist():
        yield held[index]


def _advice(given: Any) -> str:
    """Return what to write for a source that holds arrays in a way of its own; nothing for others."""
    home = type(given).__module__.partition(".")[0]
    if isinstance(given, dict):
        return "make arrays of its lists, as in {name: np.array(column) for name, column in source.items()}"
    if home == "pandas":
        return "write source.to_numpy(), or {name: source[name].to_numpy() for name in source}"
    if home == "scipy" and hasattr(given, "toarray"):
        return "write source.toarray(), or an iterable of the rows that it gives"
    return ""


def make_source(given: Any, size: int | None, drop_last: bool) -> Source | AsyncSource:
    """Return the source for what the user has given.

    Raises:
        ArgumentTypeError: it is none.
        ArgumentError: it is a tree of arrays of different lengths.
    """
    if isinstance(given, AsyncIterable):
        return AsyncSource(given, size, drop_last)
    # A list is a sequence of examples, also if these are arrays.
    if not isinstance(given, list):
        leaves = flatten(given)[0]
        if leaves and all(isinstance(leaf, (Tensor, np.ndarray)) or is_device_array(leaf) for leaf in leaves):
            return ArraySource(given, size, drop_last)
    if isinstance(given, Sequence) and not isinstance(given, (str, bytes)):
        return SequenceSource(given, size, drop_last)
    if not isinstance(given, (str, bytes, dict)) and not _advice(given):
        if hasattr(type(given), "__len__") and hasattr(type(given), "__getitem__"):
            return SequenceSource(given, size, drop_last)
        if isinstance(given, Iterable):
            return StreamSource(given, size, drop_last)
    expected = "a tree of arrays, a sequence of examples, an iterable or an async iterable"
    raise ArgumentTypeError(must_be("source", expected, given, _advice(given)))
