"""`ag.jit` of an `async def`: it does what it does eagerly, and the statements between its awaits are compiled."""

from __future__ import annotations

import asyncio
import functools
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import errors, nn
from tests.tracing.running import bits

RATE = 2.0


async def service(x: Any) -> Any:
    """Stands for what a program waits for."""
    await asyncio.sleep(0)
    return x * 3.0


async def straight(w: Any, x: Any) -> Any:
    h = np.tanh(x @ w)
    h = h * RATE + 1.0
    y = await service(h)
    loss = (y**2).mean()
    return loss * 2


async def looping(w: Any, x: Any) -> Any:
    total = 0.0
    for index in range(3):
        z = await service(x @ w)
        scaled = z * (index + 1)
        total = total + (scaled**2).mean()
        if index > 0:
            x = x + 1.0
    if total.item() < 0:
        return total
    while True:
        z = await service(total)
        total = total + z
        break
    return (total * 2).sum()


async def unassigned(w: Any, x: Any, is_deep: bool = True) -> Any:
    if is_deep:
        h = np.tanh(x @ w)
        extra = h * 2
    else:
        h = x @ w
    y = await service(h)
    parts = [y * factor for factor in (1.0, 2.0)]
    total = parts[0] + parts[1]
    if is_deep:
        total = total + extra
    async with asyncio.timeout(10):
        total = total * 2.0
        z = await service(total)
        z = z + total
    return (z**2).sum()


async def failing(w: Any, x: Any) -> Any:
    y = x @ w
    try:
        y = y * 2.0
        y = await service(y)
        z = y + 1.0
        raise ValueError
    except ValueError:
        y = y + 1.0
        z = z * y
    finally:
        y = y * 1.0
    return (y + z).sum()


async def closure_of(function: Any, w: Any, x: Any) -> Any:
    shift = x + 1.0
    later = lambda: shift * 2.0
    y = await service(x @ w)
    shift = shift + 1.0
    return (y.sum() + later()).sum()


#: Each with the lines of its segments, from its first one.
PROGRAMS: dict[str, tuple[Callable[..., Any], list[int]]] = {
    "straight": (straight, [1, 4]),
    "looping": (looping, [4, 12, 14]),
    "unassigned": (unassigned, [12, 14]),
    "failing": (failing, [1]),
}


@pytest.mark.parametrize("name", PROGRAMS)
async def test_an_async_function_has_its_own_bits_and_its_segments_are_replayed(name):
    function, lines = PROGRAMS[name]
    compiled = ag.jit(function)
    for seed in range(9):
        rng = np.random.default_rng(seed)
        array, x = rng.standard_normal((3, 2)), rng.standard_normal((4, 3))
        mine, theirs = (ag.tensor(array, requires_grad=True) for _ in range(2))
        found, expected = await compiled(mine, x), await function(theirs, x)
        await found.backward()
        await expected.backward()

        assert bits(found) == bits(expected)
        assert bits(mine.grad) == bits(theirs.grad)
    assert compiled.reason is None
    assert [
        one.function.__code__.co_firstlineno - function.__code__.co_firstlineno for one in compiled.segments
    ] == lines
    assert all(one.counts["replayed"] for one in compiled.segments)


async def test_variables_that_a_function_keeps_stay_where_they_are():
    compiled = ag.jit(functools.partial(closure_of, None).func)
    for seed in range(7):
        w, x = ag.tensor([[1.0], [2.0]], requires_grad=True), np.full((1, 2), float(seed))
        assert bits(await compiled(None, w, x)) == bits(await closure_of(None, w, x))


async def test_what_it_captures_is_read_in_each_call():
    model = nn.Linear(2, 1)
    factor = 2.0

    @ag.jit
    async def loss(x):
        y = await service(x)
        z = model(y) * factor
        return z.sum()

    for seed in range(8):
        factor = 2.0 if seed < 6 else 5.0
        x = np.array([1.0, float(seed)])
        expected = (model(x * 3.0) * factor).sum()
        model.weight.grad = None
        found = await loss(x)
        await found.backward()
        assert bits(found) == bits(expected)
        assert model.weight.grad is not None


async def test_a_method_is_compiled_for_each_object():
    class Model(nn.Module):
        def __init__(self, start: float) -> None:
            self.w = nn.Parameter(np.array([start]))

        @ag.jit
        async def loss(self, x: Any) -> Any:
            y = await service(x)
            z = self.w * y
            return z.sum()

    one, other = Model(1.0), Model(2.0)
    for value in range(7):
        assert (await one.loss(np.array([float(value)]))).item() == 3.0 * value
        assert (await other.loss(np.array([float(value)]))).item() == 6.0 * value
    assert "replayed" in repr(Model.loss)


async def test_cancellation_between_segments_leaves_nothing_half_done():
    began, go_on = asyncio.Event(), asyncio.Event()

    async def waits(x: Any) -> Any:
        began.set()
        await go_on.wait()
        return x

    @ag.jit
    async def loss(w, x):
        h = w * x
        y = await waits(h)
        return (y * 2.0).sum()

    w = ag.tensor([1.0, 2.0], requires_grad=True)
    go_on.set()
    for _ in range(6):
        await loss(w, np.ones(2))
    began.clear()
    go_on.clear()
    task = asyncio.ensure_future(loss(w, np.ones(2)))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    found = await loss(w, np.ones(2))
    await found.backward()

    assert found.item() == 6.0
    assert w.grad.tolist() == [2.0, 2.0]


async def test_an_error_in_a_segment_shows_the_line_of_the_user():
    @ag.jit
    async def wrong(x):
        y = await service(x)
        z = y @ np.ones((7, 7))
        return z.sum()

    with pytest.raises(ValueError, match="matmul") as caught:
        await wrong(ag.tensor([1.0, 2.0]))
    assert "z = y @ np.ones((7, 7))" in "".join(traceback.format_exception(caught.value))


def decorated(function: Any) -> Any:
    @functools.wraps(function)
    async def wrapper(*args: Any) -> Any:
        return await function(*args) + 1.0

    return wrapper


async def test_what_cannot_be_cut_stays_eager_and_says_why():
    wrapped = ag.jit(decorated(straight))
    w, x = ag.tensor([[1.0], [2.0]], requires_grad=True), np.ones((1, 2))
    assert bits(await wrapped(w, x)) == bits(await straight(w, x) + 1.0)
    assert "eager, it is wrapped by another function" in repr(wrapped)

    namespace: dict[str, Any] = {"service": service}
    exec("async def nowhere(x):\n    y = await service(x)\n    return y * 2\n", namespace)  # noqa: S102
    nowhere = ag.jit(namespace["nowhere"])
    assert (await nowhere(np.array(1.0))).item() == 6.0
    assert "its source is not known" in repr(nowhere)

    class Private:
        __rate = 2.0

        async def loss(self, x: Any) -> Any:
            y = await service(x)
            return y * self.__rate

    compiled = ag.jit(Private().loss)
    assert (await compiled(np.array(1.0))).item() == 6.0
    assert "its source is not that of its code" in repr(compiled)


def test_generators_static_arguments_and_explain_are_refused():
    async def numbers():
        yield 1

    with pytest.raises(errors.ArgumentTypeError, match="a generator keeps its variables"):
        ag.jit(numbers)
    with pytest.raises(errors.ArgumentError, match="no static arguments"):
        ag.jit(straight, static="x")
    with pytest.raises(errors.ArgumentTypeError, match="one of the segments"):
        ag.jit.explain(straight, 1, 2)
