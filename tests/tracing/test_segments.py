"""`ag.jit` of an `async def`: it does what it does eagerly, and the statements between its awaits are compiled."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import pickle
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import errors, nn, optim
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


async def deleted(x: Any, is_odd: bool) -> Any:
    y = x * 2
    total = x * 1
    await service(x)
    if is_odd:
        del y
    await service(x)
    if not is_odd:
        total = y * 2
    return total * 3


async def deleted_once_assigned(x: Any, is_odd: bool) -> Any:
    y = x * 2
    z = x * 3
    await service(x)
    del y
    return z * 1


async def caught(x: Any, is_odd: bool) -> Any:
    error = x * 2
    try:
        await service(x)
        if is_odd:
            raise ValueError
    except ValueError as error:  # noqa: F841  # its name loses its value
        pass
    total = x * 1
    if not is_odd:
        total = error * 2
    await service(x)
    return total * 1


async def assigned_in_an_expression(x: Any, is_odd: bool) -> Any:
    y = (await service(x)) if is_odd else (z := x * 3)
    total = y * 1
    if not is_odd:
        total = z * 2
    await service(x)
    return total * 1


async def suppressed(x: Any, is_odd: bool) -> Any:
    y = x * 1
    with contextlib.suppress(ZeroDivisionError):
        await service(x)
        y = x * 2
        y = y * (1 / int(is_odd))
        y = y * 3
    await service(x)
    return y * 1


async def suppressed_in_a_loop(x: Any, is_odd: bool) -> Any:
    total = x * 1
    y = x * 5
    for _ in range(3):
        with contextlib.suppress(ZeroDivisionError):
            total = total + y
            await service(x)
            y = y * 2
            z = y * (1 / int(is_odd))
            total = total + z
    return total * 1


async def kept_from_an_earlier_round(x: Any, is_odd: bool) -> Any:
    total = x * 0
    if is_odd:
        y = x * 5
    for turn in range(3):
        await service(x)
        for index in range(2):
            if turn > 0 or index > 0 or is_odd:
                total = total + y * 2
            y = x * (turn + index)
    return total * 1


async def over_nothing(x: Any, is_odd: bool) -> Any:
    total = x * 1
    for index in range(int(is_odd)):  # noqa: B007  # it is read below
        await service(x)
    else:  # noqa: PLW0120  # the block of a loop
        total = x * 2
        if is_odd:
            total = total + x * index
    return total * 1


async def assigned_and_never_read(x: Any, is_odd: bool) -> Any:
    index = 0
    total = x * 1
    await service(x)
    for index in range(2):  # noqa: B007  # assigned again
        total = total + x
    return total * int(is_odd)


async def with_defaults(x: Any, is_odd: bool, y: Any = RATE * 2, *, g: Any = lambda q: q * RATE) -> Any:
    if is_odd:
        q = x * 2
    await service(x)
    total = x * y
    await service(x)
    if is_odd:
        total = total + q
    return g(total)


async def rounds(x: Any) -> Any:
    for index in range(3):
        yield await service(x * index)


async def with_an_asynchronous_comprehension(x: Any, is_odd: bool) -> Any:
    parts = [part * 2 async for part in rounds(x)]
    total = parts[0] + parts[1]
    await service(x)
    return total * int(is_odd)


async def with_text(x: Any, is_odd: bool) -> Any:
    text = """first
        second
third"""
    total = x * len(text)
    await service(x)
    return total * 2


TRICKY = (
    deleted,
    deleted_once_assigned,
    caught,
    assigned_in_an_expression,
    suppressed,
    suppressed_in_a_loop,
    kept_from_an_earlier_round,
    over_nothing,
    assigned_and_never_read,
    with_defaults,
    with_an_asynchronous_comprehension,
    with_text,
)


@pytest.mark.parametrize("function", TRICKY, ids=lambda one: one.__name__)
async def test_variables_have_a_value_where_they_have_one_in_the_function(function):
    compiled = ag.jit(function)
    for seed in range(12):
        array = np.random.default_rng(seed).standard_normal(3)
        mine, theirs = (ag.tensor(array, requires_grad=True) for _ in range(2))
        found, expected = await compiled(mine, seed % 2 == 1), await function(theirs, seed % 2 == 1)
        await found.sum().backward()
        await expected.sum().backward()

        assert bits(found) == bits(expected)
        assert bits(mine.grad) == bits(theirs.grad)
    assert compiled.reason is None
    assert sum(one.counts["replayed"] for one in compiled.segments) > 0


@ag.jit
async def recursive(x: Any, depth: int) -> Any:
    h = x * 2 + depth
    if depth == 0:
        return h
    inner = await recursive(h, depth - 1)
    return inner * 3 + h


async def test_a_function_that_calls_itself_is_cut():
    @ag.jit
    async def local(x: Any, depth: int) -> Any:
        h = x * 2 + depth
        if depth == 0:
            return h
        inner = await local(h, depth - 1)
        return inner * 3 + h

    for function in (recursive, local):
        assert function.reason is None
        for seed in range(8):
            x = np.random.default_rng(seed).standard_normal(3)
            first = x * 2 + 2
            second = first * 2 + 1
            assert bits(await function(x, 2)) == bits((second * 2 * 3 + second) * 3 + first)
        assert all(one.counts["replayed"] for one in function.segments)


def test_copies_and_pickles_are_the_function_itself():
    assert copy.deepcopy(recursive) is copy.copy(recursive) is recursive
    assert pickle.loads(pickle.dumps(recursive)) is recursive


async def test_default_values_are_computed_once():
    made: list[int] = []

    def default() -> float:
        made.append(1)
        return 2.0

    @ag.jit
    async def function(x: Any, y: Any = default(), *, z: Any = default()) -> Any:  # noqa: B008  # the point of it
        total = x * y
        await service(x)
        return total * z

    assert function.reason is None
    assert made == [1, 1]
    assert bits(await function(np.ones(2))) == bits(np.full(2, 4.0))


async def test_a_method_with_text_of_less_indentation_is_cut():
    class Holder:
        @ag.jit
        async def compute(self, x: Any) -> Any:
            text = """of
no indentation"""
            total = x * len(text)
            await service(x)
            return total * 2

    assert Holder.compute.reason is None
    assert bits(await Holder().compute(np.ones(2))) == bits(np.full(2, 34.0))


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


def loss_of_row(x: Any) -> Any:
    return (x * x).sum()


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
    assert "give that the compiled function, as ag.func.grad(ag.jit(fn))" in repr(ag.jit(ag.func.grad(loss_of_row)))

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


class Waiting:
    """An object that is called and awaited, with a compiled method that is too."""

    async def __call__(self, w: Any, x: Any) -> Any:
        h = np.tanh(x @ w)
        y = await service(h)
        return (y * y).sum()

    method = ag.jit(__call__)


#: By name, what stands for an `async def` that has segments.
COROUTINES: dict[str, Callable[..., Any]] = {
    "compiled": ag.jit(straight),
    "a partial of a compiled one": functools.partial(ag.jit(straight)),
    "an object": Waiting(),
    "a partial of an object": functools.partial(Waiting()),
    "a compiled method": Waiting().method,
}


@pytest.mark.parametrize("name", COROUTINES)
async def test_whatever_stands_for_an_async_def_is_cut(name):
    function = COROUTINES[name]
    again = ag.jit(function)
    w, x = ag.tensor([[1.0], [2.0]], requires_grad=True), np.ones((1, 2))
    for _ in range(6):
        value = await again(w, x)

    assert bits(value) == bits(await function(w, x))
    assert again.segments[0].counts["replayed"] == 2
    with pytest.raises(errors.ArgumentTypeError, match="one of the segments"):
        ag.jit.explain(function, w, x)
    with pytest.raises(errors.ArgumentTypeError, match=r"compile the async def by ag\.jit"):
        ag.jit.train_step(function, optim.SGD([w]))


class Numbers:
    """An object that is called and yields."""

    def __call__(self) -> Any:
        yield 1


def test_generators_static_arguments_and_explain_are_refused():
    async def numbers():
        yield 1

    for generator in (numbers, Numbers(), functools.partial(Numbers())):
        with pytest.raises(errors.ArgumentTypeError, match="a generator keeps its variables"):
            ag.jit(generator)
    with pytest.raises(errors.ArgumentError, match="no static arguments"):
        ag.jit(straight, static="x")
    with pytest.raises(errors.ArgumentTypeError, match="one of the segments"):
        ag.jit.explain(straight, 1, 2)
