"""A library with a current stream of its own in each thread follows the current streams of the context."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Iterator
from typing import Any, final

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.arrays.current_streams import start_following, stop_following
from asyncgrad.core.engine.device import register_device
from asyncgrad.core.engine.streams import DONE
from asyncgrad.devices import Device, Event, Stream
from asyncgrad.extend import derivative, primitive


@final
class NoWait(Event):
    """An event that has completed."""

    def query(self) -> bool:
        return True

    def synchronize(self) -> Awaitable[None]:
        return DONE


@final
class NamedStream(Stream):
    """A stream whose work is done at once."""

    def record_event(self, *, enable_timing: bool = False) -> Event:
        return NoWait(self)

    def wait_event(self, event: Event) -> None:
        pass


@final
class Library(Device):
    """NumPy, as if it had a current stream in each thread."""

    __slots__ = ("thread",)

    is_asynchronous = True

    def __init__(self) -> None:
        self.thread = threading.local()

    @property
    def name(self) -> str:
        return "library:0"

    def make_stream(self, index: int) -> Stream:
        return NamedStream(self, index)

    def use_stream(self, stream: Stream | None) -> None:
        self.thread.index = 0 if stream is None else stream.index

    @property
    def current(self) -> int:
        """The number of the stream on which the library puts work in this thread."""
        return getattr(self.thread, "index", 0)


#: Kept for the whole process, as a library is.
LIBRARY = register_device(Library())
#: Where each call of `noted` and of its derivative was put.
forward_streams: list[int] = []
backward_streams: list[int] = []


@primitive()
def noted(x: Any) -> Any:
    forward_streams.append(LIBRARY.current)
    return x * 2


@derivative(noted, "x")
def _(g: Any) -> Any:
    backward_streams.append(LIBRARY.current)
    return g * 2


@pytest.fixture(autouse=True, scope="module")
def followed() -> Iterator[None]:
    start_following(LIBRARY)
    yield
    stop_following(LIBRARY)


@pytest.fixture(autouse=True)
def empty_lists() -> None:
    forward_streams.clear()
    backward_streams.clear()


def leaf() -> ag.Tensor:
    return ag.tensor(np.ones(3), device=LIBRARY, requires_grad=True)


async def test_an_operation_runs_on_the_stream_of_its_own_task() -> None:
    async def work(stream: Stream) -> None:
        with stream:
            for _ in range(3):
                noted(leaf())
                await asyncio.sleep(0)

    first, second = LIBRARY.stream(), LIBRARY.stream()
    await asyncio.gather(work(first), work(second), work(LIBRARY.default_stream()))
    assert forward_streams == [first.index, second.index, 0] * 3


def test_after_a_with_block_operations_run_on_the_stream_of_before() -> None:
    with LIBRARY.stream() as stream:
        noted(leaf())
    noted(leaf())
    assert forward_streams == [stream.index, 0]
    assert LIBRARY.current == 0


async def test_a_node_runs_on_the_stream_of_its_forward_whichever_is_current_where_the_backward_is_called() -> None:
    stream, other = LIBRARY.stream(), LIBRARY.stream()
    with stream:
        inner = noted(leaf())
    outer = noted(inner)
    with other:
        await outer.sum().backward()
        noted(leaf())
    assert backward_streams == [0, stream.index]
    assert forward_streams[2:] == [other.index]


async def test_a_backward_that_yields_to_another_task_goes_on_on_its_own_streams() -> None:
    async def busy(stream: Stream, ended: asyncio.Event) -> None:
        with stream:
            while not ended.is_set():
                noted(leaf())
                await asyncio.sleep(0)

    async def main() -> None:
        ended, stream = asyncio.Event(), LIBRARY.stream()
        task = asyncio.ensure_future(busy(stream, ended))
        y = leaf() * 1
        for _ in range(50):
            y = noted(y)
        with ag.loop_budget(0.0):
            await y.sum().backward()
        ended.set()
        await task
        assert set(backward_streams) == {0}
        assert forward_streams.count(stream.index) > 1

    await main()


def test_operations_that_follow_no_device_any_more_call_their_functions_themselves() -> None:
    stop_following(LIBRARY)
    try:
        with LIBRARY.stream():
            noted(leaf())
        assert forward_streams == [0]
        assert noted.call.__globals__["_function"] is noted.call.__globals__["_bare_function"]
    finally:
        start_following(LIBRARY)


def test_another_thread_follows_the_streams_of_its_own_context() -> None:
    with LIBRARY.stream() as stream:
        noted(leaf())
        thread = threading.Thread(target=lambda: noted(leaf()))
        thread.start()
        thread.join()
        noted(leaf())
    assert forward_streams == [stream.index, 0, stream.index]
