"""Batches come from any source, in order or shuffled, loaded ahead or not, and leave nothing behind."""

from __future__ import annotations

import asyncio
import contextvars
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.errors import ArgumentError, ArgumentTypeError
from tests.support.loops import on_each_loop

X = np.arange(20.0).reshape(10, 2)
Y = np.arange(10)


@dataclass
class Example:
    x: Any
    label: int


class Dataset:
    """What PyTorch's users write."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> Example:
        return Example(X[index], int(Y[index]))


def stream() -> Iterator[Any]:
    for index in range(10):
        yield {"x": X[index], "label": index}


async def async_stream() -> AsyncIterator[Any]:
    for index in range(10):
        await asyncio.sleep(0)
        yield {"x": X[index], "label": index}


#: By name: what makes a source of the same ten examples, and the labels of a batch.
SOURCES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "arrays": (lambda: (X, Y), lambda batch: batch[1]),
    "dict of tensors": (lambda: {"x": ag.tensor(X), "y": ag.tensor(Y)}, lambda batch: batch["y"].numpy()),
    "list": (lambda: [(x, y) for x, y in zip(X, Y, strict=True)], lambda batch: batch[1]),
    "dataset": (Dataset, lambda batch: batch.label),
    "range": (lambda: range(10), lambda batch: batch),
    "iterable": (lambda: stream(), lambda batch: batch["label"]),
    "async iterable": (async_stream, lambda batch: batch["label"]),
}
EACH = pytest.mark.parametrize("name", SOURCES)


async def collect(found: Any) -> list[Any]:
    return [batch async for batch in found]


def labels(name: str, found: list[Any]) -> list[list[int]]:
    return [SOURCES[name][1](batch).tolist() for batch in found]


@EACH
@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("drop_last", [False, True])
async def test_batches_come_in_order(name: str, workers: int, drop_last: bool) -> None:
    expected = [[0, 1, 2, 3], [4, 5, 6, 7], *([] if drop_last else [[8, 9]])]
    make = SOURCES[name][0]

    assert labels(name, await collect(ag.data.batches(make(), 4, False, workers, drop_last=drop_last))) == expected
    if name != "async iterable":
        assert labels(name, list(ag.data.batches(make(), 4, False, workers, drop_last=drop_last))) == expected


@EACH
@pytest.mark.parametrize("workers", [0, 2])
async def test_shuffled_batches_have_each_example_once_in_an_order_that_the_seed_decides(
    name: str, workers: int
) -> None:
    make = SOURCES[name][0]
    orders = []
    for seed in (1, 1, 2):
        found = labels(name, await collect(ag.data.batches(make(), 3, 4, workers, rng=seed)))
        orders.append([label for batch in found for label in batch])

    assert orders[0] == orders[1] != orders[2]
    assert [sorted(order) for order in orders] == [list(range(10))] * 3


def test_each_epoch_is_shuffled_anew() -> None:
    found = ag.data.batches(Y, 10, shuffle=True, rng=0)
    first, second = ([batch.tolist() for batch in found] for _ in range(2))

    assert first != second
    assert sorted(first[0]) == sorted(second[0]) == list(range(10))


def test_a_small_buffer_shuffles_only_nearby() -> None:
    order = [int(one) for (one,) in ag.data.batches(iter(range(100)), 1, shuffle=5, rng=0)]

    assert sorted(order) == list(range(100))
    assert order != list(range(100))
    # An example comes out no earlier than the buffer allows.
    assert all(value <= place + 5 for place, value in enumerate(order))


def test_batches_of_arrays_in_order_share_their_memory() -> None:
    (batch,) = ag.data.batches(X, 10)

    assert np.shares_memory(batch, X)


def test_lengths_are_those_of_the_source() -> None:
    assert len(ag.data.batches((X, Y), 4)) == 3
    assert len(ag.data.batches(Dataset(), 4, drop_last=True)) == 2
    with pytest.raises(TypeError, match="the number of batches is unknown"):
        len(ag.data.batches(stream(), 4))


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int64])
def test_options_may_be_numbers_of_numpys(kind: Callable[[int], Any]) -> None:
    found = ag.data.batches(np.arange(500), kind(100), kind(100), kind(2), prefetch=kind(100), rng=kind(1))

    assert sorted(np.concatenate(list(found)).tolist()) == [*range(500)]
    assert [len(batch) for batch in found] == [100] * 5


def test_a_source_of_whole_batches_is_not_stacked() -> None:
    assert [batch.tolist() for batch in ag.data.batches(iter([X[:3], X[3:]]), None)] == [X[:3].tolist(), X[3:].tolist()]
    assert [batch["rows"] for batch in ag.data.batches([{"rows": 1}, {"rows": 2}], None, workers=2)] == [1, 2]


def test_stacked_examples_keep_their_structure() -> None:
    (batch,) = ag.data.batches([{"a": (1, 2.0), "b": "x", "c": None}, {"a": (3, 4.0), "b": "y", "c": None}], 2)

    assert batch["a"][0].tolist() == [1, 3]
    assert batch["a"][1].dtype == np.float64
    assert batch["b"] == ["x", "y"]
    assert batch["c"] is None


class Image:
    """An array of another library's, which NumPy can read."""

    def __init__(self, pixels: list[int]) -> None:
        self.pixels = pixels

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.pixels, np.uint8)


def test_arrays_of_other_libraries_are_stacked_as_arrays_of_numpy() -> None:
    (batch,) = ag.data.batches([(Image([1, 2]), 0), (Image([3, 4]), 1)], 2)

    assert batch[0].tolist() == [[1, 2], [3, 4]]
    assert batch[0].dtype == np.uint8
    with pytest.raises(ArgumentError, match=r"example 1\[0\] of a batch has shape \(1,\)"):
        list(ag.data.batches([(Image([1, 2]), 0), (Image([3]), 1)], 2))


def test_stacked_tensors_keep_their_history() -> None:
    weights = [ag.tensor([1.0, 2.0], requires_grad=True) for _ in range(2)]
    (batch,) = ag.data.batches(weights, 2)
    ag.sync.backward((batch * batch).sum())

    assert weights[1].grad is not None
    assert weights[1].grad.tolist() == [2.0, 4.0]


class Slow:
    """Examples that wait until as many are being loaded at a time as there are workers."""

    def __init__(self, workers: int) -> None:
        self.together = threading.Barrier(workers)

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> int:
        self.together.wait(30)
        return index


@pytest.mark.parametrize("is_awaited", [False, True])
async def test_workers_load_batches_at_the_same_time_and_they_stay_in_order(is_awaited: bool) -> None:
    found = ag.data.batches(Slow(3), 1, workers=3)

    assert [int(one) for (one,) in (await collect(found) if is_awaited else found)] == list(range(6))


@pytest.mark.parametrize("is_async", [False, True])
async def test_no_more_batches_are_loaded_ahead_than_asked_for(is_async: bool) -> None:
    read: list[int] = []

    def examples() -> Iterator[int]:
        for index in range(100):
            read.append(index)
            yield index

    async def async_examples() -> AsyncIterator[int]:
        for index in examples():
            yield index

    found = aiter(ag.data.batches(async_examples() if is_async else examples(), 2, workers=1, prefetch=3))
    for _ in range(2):
        await anext(found)
    for _ in range(50):
        await asyncio.sleep(0)
    await found.aclose()  # type: ignore[attr-defined]

    assert 4 <= len(read) <= 2 * (2 + 3 + 1)


async def test_the_loop_goes_on_while_a_worker_loads() -> None:
    may_go_on = threading.Event()

    class Waits:
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> int:
            assert may_go_on.wait(30)
            return index

    async def main() -> list[Any]:
        asyncio.get_running_loop().call_soon(may_go_on.set)
        return await collect(ag.data.batches(Waits(), 1, workers=1))

    assert [batch.tolist() for batch in await main()] == [[0]]


@pytest.mark.parametrize("shuffle", [False, 3])
async def test_an_async_source_is_closed_and_no_task_is_left_when_the_caller_stops(shuffle: bool | int) -> None:
    closed = []

    async def examples() -> AsyncIterator[int]:
        try:
            while True:
                await asyncio.sleep(0)
                yield 1
        finally:
            closed.append(True)

    found = aiter(ag.data.batches(examples(), 2, shuffle, workers=1))
    await anext(found)
    await found.aclose()  # type: ignore[attr-defined]

    assert len(asyncio.all_tasks()) == 1
    assert closed == [True]


async def test_a_cancelled_wait_for_a_batch_leaves_no_task() -> None:
    async def examples() -> AsyncIterator[int]:
        await asyncio.Event().wait()
        yield 1

    task = asyncio.ensure_future(collect(ag.data.batches(examples(), 2, workers=1)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert len(asyncio.all_tasks()) == 1


SETTING: contextvars.ContextVar[str] = contextvars.ContextVar("SETTING", default="unset")


def test_workers_see_the_context_of_the_caller() -> None:
    class Sees(Dataset):
        def __getitem__(self, index: int) -> Any:
            return SETTING.get()

    SETTING.set("set")

    assert next(iter(ag.data.batches(Sees(), 2, workers=2))) == ["set", "set"]


@on_each_loop
@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_of_the_source_is_its_own_and_names_the_example(workers: int, run: Callable[..., Any]) -> None:
    class Fails(Dataset):
        def __getitem__(self, index: int) -> Example:
            return Example(X[index], 1 // (index - 5))

    for collected in (lambda found: list(found), lambda found: run(collect(found))):
        with pytest.raises(ZeroDivisionError) as caught:
            collected(ag.data.batches(Fails(), 2, workers=workers))
        assert caught.value.__notes__ == ["while ag.data.batches loaded example 5 of the source"]


@on_each_loop
@pytest.mark.parametrize("workers", [0, 2])
def test_a_source_that_raises_stop_iteration_is_named_and_not_waited_for(workers: int, run: Callable[..., Any]) -> None:
    class Stops(Dataset):
        def __getitem__(self, index: int) -> Example:
            return super().__getitem__(index) if index < 5 else next(iter(()))

    for collected in (lambda found: list(found), lambda found: run(collect(found))):
        with pytest.raises(RuntimeError, match="example 5 of the source raised StopIteration"):
            collected(ag.data.batches(Stops(), 2, workers=workers))


@pytest.mark.parametrize("workers", [0, 1])
async def test_a_source_that_is_cancelled_cancels_the_wait_for_a_batch(workers: int) -> None:
    async def cancelled() -> AsyncIterator[int]:
        yield 1
        raise asyncio.CancelledError("by the source")

    async def main() -> None:
        await asyncio.wait_for(collect(ag.data.batches(cancelled(), 1, workers=workers)), 5)

    with pytest.raises(asyncio.CancelledError):
        await main()


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_of_an_iterator_names_the_example(workers: int) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        list(ag.data.batches((1 // (3 - index) for index in range(9)), 2, workers=workers))
    assert caught.value.__notes__ == ["while ag.data.batches read example 3 of the source"]


@pytest.mark.parametrize("workers", [0, 2])
async def test_an_error_of_a_stream_comes_after_the_batches_before_it(workers: int) -> None:
    async def fails() -> AsyncIterator[int]:
        for index in range(3):
            yield index
        raise ZeroDivisionError

    batches = aiter(ag.data.batches(fails(), 1, workers=workers))
    found = [(await anext(batches)).tolist() for _ in range(3)]
    with pytest.raises(ZeroDivisionError) as caught:
        await anext(batches)
    assert caught.value.__notes__ == ["while ag.data.batches read example 3 of the source"]

    assert found == [[0], [1], [2]]


BAD: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: ag.data.batches({"x": X, "y": Y[:3]}, 2), ArgumentError, "source['y'] has 3 examples, but source['x']"),
    (lambda: ag.data.batches((X, np.array(1.0)), 2), ArgumentError, "source[1] has no axis"),
    (lambda: ag.data.batches(X, None), ArgumentError, "arrays have no batches of their own: pass size"),
    (lambda: ag.data.batches(X, 0), ArgumentError, "size must be at least 1"),
    (lambda: ag.data.batches(X, 2, workers=-1), ArgumentError, "workers must be at least 0, not -1"),
    (lambda: ag.data.batches(X, 2, workers=1, prefetch=0), ArgumentError, "prefetch must be at least 1, not 0"),
    (lambda: ag.data.batches(X, 2, shuffle=-1), ArgumentError, "shuffle must be True, False or the size of a buffer"),
    (lambda: ag.data.batches("text", 2), ArgumentTypeError, "source must be a tree of arrays, a sequence"),
    (lambda: ag.data.batches(3, 2), ArgumentTypeError, "source must be a tree of arrays, a sequence"),
    (lambda: ag.data.batches({"a": [1, 2]}, 2), ArgumentTypeError, ": make arrays of its lists"),
    (lambda: iter(ag.data.batches(async_stream(), 2)), ArgumentTypeError, "write `async for batch in"),
    (
        lambda: list(ag.data.batches([{"x": np.ones(2)}, {"x": np.ones(3)}], 2)),
        ArgumentError,
        "example 1['x'] of a batch has shape (3,), but that of example 0 has shape (2,)",
    ),
    (lambda: list(ag.data.batches([{"x": 1}, {"y": 1}], 2)), ArgumentError, "example 1 of a batch has no ['x']"),
]


@pytest.mark.parametrize(("make", "error", "message"), BAD, ids=[message for _, _, message in BAD])
def test_what_is_no_source_is_named(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        make()


def test_what_libraries_hold_is_told_how_to_become_arrays() -> None:
    pandas = pytest.importorskip("pandas")
    sparse = pytest.importorskip("scipy.sparse")

    with pytest.raises(ArgumentTypeError, match=re.escape("write source.to_numpy()")):
        ag.data.batches(pandas.DataFrame({"a": [1.0]}), 2)
    with pytest.raises(ArgumentTypeError, match=re.escape("write source.toarray()")):
        ag.data.batches(sparse.eye(3, format="csr"), 2)
