"""Laws of compiling on an event loop: it goes on turning meanwhile, and whatever happens then is safe."""

from __future__ import annotations

import asyncio
import linecache
import threading
import weakref
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.engine.compiled import codegen
from asyncgrad.core.engine.compiled.cache import Cache
from asyncgrad.core.engine.compiled.executor import CompilingExecutor
from asyncgrad.core.engine.executor import Stop
from asyncgrad.errors import ReleasedGraphError
from tests.support.functions import calling
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop
from tests.support.settings import compiled_after

pytestmark = pytest.mark.usefixtures("cache", "compiled_where_asked", "turns_after_each_slice")

NODES = 30


@pytest.fixture
def turns_after_each_slice() -> Iterator[None]:
    """The loop turns after each slice of compiling, and of running."""
    with ag.loop_budget(0):
        yield


def wave(x: Any, nodes: int = NODES) -> Any:
    """A chain that saves what it multiplies, of one structure for each length."""
    for _ in range(nodes // 2):
        x = np.sin(x) * x
    return x


def engine_gradient(nodes: int = NODES) -> bytes:
    x = leaf(0.5, 0.25)
    sync.backward(wave(x, nodes).sum())
    return x.grad.numpy().tobytes()


async def first_turns(task: asyncio.Task[Any], turns: int) -> bool:
    """Let the loop turn so often; tell whether the task still runs."""
    for _ in range(turns):
        await asyncio.sleep(0)
    return not task.done()


def compiled_lines() -> list[str]:
    return [name for name in linecache.cache if name.startswith("<asyncgrad: compiled backward")]


async def test_others_run_many_times_before_the_first_node_while_a_program_is_compiled(cache):
    events: list[str] = []

    for _ in range(2):
        x = leaf(0.5, 0.25)
        out = calling(wave(x), lambda grad: events.append("node")).sum()
        with compiled_after(0):
            task = asyncio.ensure_future(out.backward())
        while not task.done():
            await asyncio.sleep(0)
            events.append("turn")
        await task
        assert x.grad.numpy().tobytes() == engine_gradient()
        events.append("end")

    first, second = " ".join(events).split(" end")[:2]
    # Each node is looked at, described, written and compiled.
    assert first.split().index("node") > 4 * NODES
    assert second.split().index("node") < 10
    assert (cache.stats().compilations, cache.stats().hits) == (1, 2)


@on_each_loop
def test_a_blocking_backward_compiles_in_one_go(run, cache):
    async def main() -> None:
        x = leaf(0.5, 0.25)
        out = wave(x).sum()
        turned = asyncio.ensure_future(asyncio.sleep(0))
        with compiled_after(0):
            sync.backward(out)
        assert not turned.done()
        await turned
        assert x.grad.numpy().tobytes() == engine_gradient()

    run(main())

    assert (cache.stats().compilations, cache.stats().hits) == (1, 1)


@pytest.mark.slow
async def test_cancelled_at_any_moment_of_compiling_it_leaves_nothing_behind(cache):
    lines = compiled_lines()
    nodes = 4

    for turns in count(1):
        x = leaf(0.5, 0.25)
        x.grad = ag.tensor([1.0, 2.0])
        before = x.grad
        out = wave(x, nodes).sum()
        with compiled_after(0):
            task = asyncio.ensure_future(out.backward())
        if not await first_turns(task, turns) or cache.stats().compilations:
            await task
            break
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert x.grad is before
        assert x.grad.tolist() == [1.0, 2.0]
        assert not cache._programs
        assert compiled_lines() == lines
    assert turns > 4 * nodes
    # The same is compiled from its beginning by the next one.
    x.grad = None
    with compiled_after(0):
        await wave(x, nodes).sum().backward()
    assert x.grad.numpy().tobytes() == engine_gradient(nodes)

    assert cache.stats().compilations == 1
    assert dict(cache.stats().reasons) == {}


async def test_a_cancelled_compilation_keeps_no_graph():
    x = leaf(0.5, 0.25)
    out = wave(x).sum()
    node = weakref.ref(out.grad_fn)
    with compiled_after(0):
        task = asyncio.ensure_future(out.backward())
    del out
    assert await first_turns(task, 2 * NODES)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    del task
    assert node() is None


async def test_of_two_backwards_of_one_structure_at_a_time_one_compiles_and_both_have_the_engines_bits(cache):
    leaves = [leaf(0.5, 0.25) for _ in range(4)]
    with compiled_after(0):
        await asyncio.gather(*(wave(x).sum().backward() for x in leaves[:2]))
        stats = cache.stats()
        await asyncio.gather(*(wave(x).sum().backward() for x in leaves[2:]))
    assert (stats.compilations, stats.hits) == (1, 1)
    assert dict(stats.reasons) == {"another backward compiles it": 1}
    assert all(x.grad.numpy().tobytes() == engine_gradient() for x in leaves)

    assert (cache.stats().compilations, cache.stats().hits) == (1, 3)


async def test_two_structures_are_compiled_side_by_side(cache):
    first, second = leaf(0.5, 0.25), leaf(0.5, 0.25)
    with compiled_after(0):
        await asyncio.gather(wave(first).sum().backward(), np.exp(wave(second)).sum().backward())
    assert first.grad.numpy().tobytes() == engine_gradient()

    assert (cache.stats().compilations, cache.stats().hits) == (2, 2)


@on_each_loop
def test_while_a_structure_is_compiled_another_thread_runs_it_in_the_engine(run, cache):
    async def main() -> None:
        x, other = leaf(0.5, 0.25), leaf(0.5, 0.25)
        out = wave(other).sum()

        def apart() -> None:
            with compiled_after(0):
                sync.backward(out)

        with compiled_after(0):
            task = asyncio.ensure_future(wave(x).sum().backward())
        assert await first_turns(task, NODES)
        thread = threading.Thread(target=apart)
        thread.start()
        thread.join()
        assert dict(cache.stats().reasons) == {"another backward compiles it": 1}
        await task
        assert x.grad.numpy().tobytes() == other.grad.numpy().tobytes() == engine_gradient()

    run(main())

    assert (cache.stats().compilations, cache.stats().hits) == (1, 1)


async def compiled_with(cache: Cache, out: Any, turns: int, meanwhile: Callable[[], Any]) -> bool:
    """Run a backward that compiles, and something else after some turns; tell whether it was still compiling."""
    with compiled_after(0):
        task = asyncio.ensure_future(out.backward(np.ones(out.shape)))
    is_compiling = await first_turns(task, turns) and not cache.stats().compilations
    if is_compiling:
        meanwhile()
    await task
    return is_compiling


@pytest.mark.slow
@on_each_loop
@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("turns", [5, NODES, 3 * NODES, 6 * NODES])
def test_another_backward_over_the_graph_that_is_being_compiled_is_as_one_before(run, cache, turns, keeps):
    async def main() -> None:
        x = leaf(0.5, 0.25)
        out = wave(x).sum()
        if keeps:
            assert await compiled_with(cache, out, turns, lambda: sync.backward(out, retain_graph=True))
            expected = leaf(0.5, 0.25)
            for _ in range(2):
                sync.backward(wave(expected).sum())
            assert x.grad.numpy().tobytes() == expected.grad.numpy().tobytes()
            return
        with pytest.raises(ReleasedGraphError):
            await compiled_with(cache, out, turns, lambda: sync.backward(out))
        assert x.grad.numpy().tobytes() == engine_gradient()

    run(main())

    assert cache.stats().compilations == 1


@pytest.mark.slow
@pytest.mark.parametrize("where", ["root", "middle", "leaf"])
async def test_a_hook_added_at_any_moment_of_compiling_sees_its_gradient_once(cache, where):
    for turns in count(1, 7):
        seen: list[Any] = []
        x = leaf(0.5, 0.25)
        middle = wave(x, 4)
        out = wave(middle, 4).sum()
        watched = {"root": out, "middle": middle, "leaf": x}[where]

        def look(seen: list[Any] = seen, watched: Any = watched) -> None:
            watched.register_hook(lambda grad: seen.append(grad.tolist()))

        cache.__init__()  # type: ignore[misc]
        if not await compiled_with(cache, out, turns, look):
            break
        assert x.grad.numpy().tobytes() == engine_gradient(8)
        assert len(seen) == 1
        # Left to the engine for what it is, or met by the function.
        assert not [reason for reason in cache.stats().reasons if reason.endswith("cannot be compiled")]
    assert turns > 50


@pytest.mark.slow
async def test_an_edge_changed_by_hand_at_any_moment_of_compiling_is_the_one_that_counts(cache):
    for turns in count(1, 3):
        x, other = leaf(0.5, 0.25), leaf(0.5, 0.25)
        # No node leads to it, so its edges may still be changed.
        out = wave(x, 4) * 2.0
        accumulate = (other * 1.0).grad_fn.next_edges[0]

        def turn_away(node: Any = out.grad_fn, edge: Any = accumulate) -> None:
            node.set_next_edge(0, edge)

        cache.__init__()  # type: ignore[misc]
        if not await compiled_with(cache, out, turns, turn_away):
            break
        assert x.grad is None
        assert other.grad.tolist() == [2.0, 2.0]
    assert turns > 30


async def test_an_error_in_the_middle_of_compiling_ends_that_backward_alone(cache, monkeypatch):
    class Trouble(Exception):
        pass

    x = leaf(0.5, 0.25)
    out = wave(x).sum()
    node_class = type(out.grad_fn)
    with monkeypatch.context() as patched:

        def fails(self: Any, args: Any) -> None:
            raise Trouble

        patched.setattr(node_class, "compiled_args", fails)
        with compiled_after(0), pytest.raises(Trouble):
            await out.backward()
    assert x.grad is None
    with compiled_after(0):
        await out.backward()
    assert x.grad.numpy().tobytes() == engine_gradient()

    assert (cache.stats().compilations, cache.stats().hits) == (1, 1)


def test_no_piece_is_longer_than_one_can_be(cache):
    x, scale = leaf(0.5, 0.25), leaf(1.0, 1.0)

    def cell(y: Any) -> Any:
        for function in (np.sin, np.cos, np.tanh, np.square, np.negative, np.exp):
            for _ in range(7):
                y = function(y * 0.5)
        return y * scale

    def model() -> Any:
        y = x
        for _ in range(6):
            y = cell(y)
        return y.sum()

    sync.backward(model())
    expected = [x.grad.numpy().tobytes(), scale.grad.numpy().tobytes()]
    x.grad = scale.grad = None
    with compiled_after(0):
        sync.backward(model())
        assert [x.grad.numpy().tobytes(), scale.grad.numpy().tobytes()] == expected
        source = ag.engine.compiled_source(model())

    pieces = source.split("async def ")[1:-1]
    steps = [piece.count("Backward, ") for piece in pieces]
    assert max(steps) <= codegen.MAX_OPS_PER_SEGMENT
    # A cell is longer than a piece, and is written once; the first two repetitions and the ends are written apart.
    assert sum(steps) < 4 * 86


def test_compiling_that_is_given_up_ends_what_it_works_on_at_once():
    events: list[str] = []

    def work() -> Any:
        try:
            events.append("begun")
            yield 0.0
        finally:
            events.append("ended")

    executor = CompilingExecutor(None, work(), None)  # type: ignore[arg-type]
    assert executor.run(0.0) is Stop.BUDGET_SPENT
    # The root waits.
    assert len(executor) == 1
    executor.clear()

    assert events == ["begun", "ended"]
