"""What holds of both kinds of ag.checkpoint: arguments, results, kinds of functions, the decorator, wrong use."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import functools
import tracemalloc
from typing import Any, NamedTuple

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import (
    AnomalyError,
    ArgumentError,
    ArgumentTypeError,
    GraphError,
    InPlaceError,
    ReleasedGraphError,
)
from tests.memory.checkpoint.models import maybe_async
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop

each_kind = pytest.mark.parametrize("use_reentrant", [True, False], ids=["reentrant", "recomputed"])
each_function = pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Dense:
    weight: Any
    name: str


async def checkpoint_called(function, *args, is_async=False, **options):
    result = ag.checkpoint(maybe_async(function, is_async), *args, **options)
    return await result if is_async else result


@each_kind
@each_function
async def test_tensors_are_found_in_all_arguments_and_results(use_reentrant, is_async):
    seen = []

    def fn(pair, items, *, named, plain):
        seen.append((type(pair), type(items[1]), plain))
        return {
            "sum": pair.first * items[0]["x"],
            "rest": [Pair(named * 2, plain), Dense(items[1].weight * 7, items[1].name)],
        }

    async def main():
        a, b, c, d = leaf(2.0), leaf(3.0), leaf(5.0), leaf(7.0)
        items = [{"x": b}, Dense(d, "dense")]
        result = await checkpoint_called(
            fn, Pair(a, 1), items, named=c, plain="text", is_async=is_async, use_reentrant=use_reentrant
        )
        pair, layer = result["rest"]
        assert (type(pair), pair.second, type(layer), layer.name) == (Pair, "text", Dense, "dense")
        await ag.backward((result["sum"] + pair.first + layer.weight).sum())
        return [tensor.grad.item() for tensor in (a, b, c, d)]

    assert await main() == [3.0, 2.0, 2.0, 7.0]
    assert seen == [(Pair, Dense, "text")] * 2


@each_kind
def test_what_is_no_tensor_passes_through_as_it_is(use_reentrant):
    thing, array = object(), np.ones(2)

    y, other, same, nothing = ag.checkpoint(
        lambda x, thing, array: (x * 2, thing, array, None), leaf(1.0), thing, array, use_reentrant=use_reentrant
    )

    assert other is thing
    assert same is array
    assert nothing is None
    assert y.requires_grad


@each_kind
def test_nothing_but_the_inputs_is_kept(use_reentrant):
    """Counted by what is alive: the result of each operation is 8 MB."""

    def fn(x):
        for _ in range(10):
            x = np.tanh(x)
        return x

    def held(call):
        x = ag.tensor(np.ones(1_000_000), requires_grad=True)
        tracemalloc.start()
        try:
            y = call(fn, x)
            return tracemalloc.get_traced_memory()[0] / y.numpy().nbytes
        finally:
            tracemalloc.stop()

    assert held(lambda fn, x: fn(x)) > 9.9
    assert held(functools.partial(ag.checkpoint, use_reentrant=use_reentrant)) < 1.1


@each_kind
@each_function
async def test_each_backward_calls_the_function_once_more(use_reentrant, is_async):
    calls = []

    def fn(x):
        calls.append(ag.is_grad_enabled())
        return np.exp(np.tanh(x) * x)

    async def main():
        x = leaf(1.0, 2.0)
        y = (await checkpoint_called(fn, x, is_async=is_async, use_reentrant=use_reentrant)).sum()
        assert len(calls) == 1
        await ag.backward(y, retain_graph=True)
        once = x.grad.numpy().copy()
        await ag.backward(y)
        assert (x.grad.numpy() == 2 * once).all()
        with pytest.raises(ReleasedGraphError):
            await ag.backward(y)

    await main()
    assert calls == [not use_reentrant, True, True]


@each_kind
@each_function
async def test_where_grad_mode_is_off_the_function_is_simply_called(use_reentrant, is_async):
    with ag.no_grad():
        found = await checkpoint_called(lambda x: x * 2, leaf(1.0), is_async=is_async, use_reentrant=use_reentrant)

    assert not found.requires_grad


@each_kind
@each_function
async def test_the_second_call_has_the_modes_and_context_variables_of_the_first(use_reentrant, is_async):
    variable = contextvars.ContextVar("variable", default="unset")
    seen = []

    def fn(x):
        with np.errstate(over="warn"):
            pass
        seen.append((variable.get(), np.geterr()["divide"]))
        return np.sin(x)

    token = variable.set("forward")
    with np.errstate(divide="ignore"):
        y = await checkpoint_called(fn, leaf(1.0), is_async=is_async, use_reentrant=use_reentrant)
    variable.reset(token)
    await ag.backward(y.sum())

    assert variable.get() == "unset"
    assert seen == [("forward", "ignore")] * 2


@each_kind
def test_under_anomaly_mode_the_error_shows_the_line_of_the_recomputed_call(use_reentrant):
    def fn(x):
        return np.sqrt(x) * 0.0  # the line

    with ag.detect_anomaly(), np.errstate(all="ignore"):
        y = ag.checkpoint(fn, leaf(0.0), use_reentrant=use_reentrant)
        with pytest.raises(AnomalyError) as caught:
            sync.backward(y.sum())

    assert "# the line" in "".join(caught.value.__notes__)


@each_kind
def test_saved_tensor_hooks_around_the_call_pack_its_inputs(use_reentrant):
    packed = []

    def pack(tensor):
        packed.append(tensor.shape)
        return tensor.numpy().copy()

    x = leaf(1.0, 2.0, 3.0)
    with ag.graph.saved_tensors_hooks(pack, lambda array: array):
        y = ag.checkpoint(lambda x: np.tanh(x) * np.exp(x), x, use_reentrant=use_reentrant)
    assert packed == [(3,)]
    sync.backward(y.sum())
    plain = leaf(1.0, 2.0, 3.0)
    sync.backward((np.tanh(plain) * np.exp(plain)).sum())
    assert (x.grad.numpy() == plain.grad.numpy()).all()


@on_each_loop
@each_kind
def test_async_hooks_around_the_call_are_waited_for(run, use_reentrant):
    async def unpack(array):
        await asyncio.sleep(0)
        return array

    async def main():
        x = leaf(1.0, 2.0)
        with ag.graph.saved_tensors_hooks(lambda tensor: tensor.numpy().copy(), unpack):
            y = ag.checkpoint(lambda x: np.tanh(x) * x, x, use_reentrant=use_reentrant)
        await ag.backward(y.sum())
        return x.grad.tolist()

    plain = leaf(1.0, 2.0)
    sync.backward((np.tanh(plain) * plain).sum())
    assert run(main()) == plain.grad.tolist()


class Layer:
    factor = 3.0

    @ag.checkpoint
    def method(self, x, *, debug=1.0):
        """Say something."""
        return np.tanh(x) * self.factor * debug

    @staticmethod
    @ag.checkpoint(use_reentrant=False)
    def static(x):
        return np.tanh(x)

    @ag.checkpoint(use_reentrant=False)
    async def later(self, x):
        await asyncio.sleep(0)
        return np.tanh(x)


@on_each_loop
def test_the_decorator_keeps_name_and_kind_and_leaves_all_arguments_to_the_function(run):
    assert Layer.method.__doc__ == "Say something."
    assert asyncio.iscoroutinefunction(Layer.later)
    x = leaf(0.5)
    y = Layer().method(x, debug=2.0)
    assert y.grad_fn.name == "CheckpointBackward"
    sync.backward(y.sum())
    assert x.grad.item() == pytest.approx(6 / np.cosh(0.5) ** 2)
    sync.backward(Layer.static(x).sum())
    run(ag.backward(run(Layer().later(x)).sum()))


async def test_a_plain_function_that_returns_an_awaitable_is_awaited():
    async def later(x):
        await asyncio.sleep(0)
        return np.tanh(x)

    async def main(use_reentrant):
        x = leaf(0.5)
        y = await ag.checkpoint(lambda x: later(x), x, use_reentrant=use_reentrant)
        await ag.backward(y.sum())
        return x.grad.item()

    assert await main(True) == await main(False) == 1 - np.tanh(0.5) ** 2


@each_kind
@each_function
async def test_a_function_that_writes_into_its_argument_is_refused_at_once(use_reentrant, is_async):
    def writes(x):
        x += 1
        return x * 2

    with pytest.raises(InPlaceError, match=r" is checkpointed and wrote into its argument.*t = t\.copy\(\)"):
        await checkpoint_called(writes, leaf(1.0) * 2, is_async=is_async, use_reentrant=use_reentrant)


@each_kind
def test_an_argument_that_is_written_into_later_is_found_out(use_reentrant):
    x = leaf(1.0) * 2
    y = ag.checkpoint(np.sin, x, use_reentrant=use_reentrant)
    x += 1
    with pytest.raises(RuntimeError, match=r"changed in place since the forward call"):
        sync.backward(y.sum())


def test_a_tensor_that_the_function_refers_to_and_that_is_written_into_later_is_found_out():
    x, factor, is_known, hits = leaf(1.0), ag.tensor(2.0), ag.tensor(False), ag.tensor(0)

    def scaled(x):
        # What it writes itself, in the forward or when it is called again, is no reason to fail.
        if is_known:
            hits[...] = hits + 1
        is_known[...] = True
        return x * factor

    y = ag.checkpoint(scaled, x)
    for _ in range(2):
        sync.backward(y.sum(), retain_graph=True)
    factor += 1
    with pytest.raises(RuntimeError, match=r"changed in place since the forward call"):
        sync.backward(y.sum())


@each_kind
def test_a_generator_function_is_refused(use_reentrant):
    def generates(x):
        yield x

    with pytest.raises(ArgumentTypeError, match="generates is a generator function"):
        ag.checkpoint(generates, leaf(1.0), use_reentrant=use_reentrant)


@pytest.mark.parametrize(
    ("options", "error", "complaint"),
    [
        ({"use_reentrant": "no"}, ArgumentTypeError, "use_reentrant must be True or False"),
        ({"preserve_rng": "no"}, ArgumentTypeError, "preserve_rng must be True or False"),
        ({"context_fn": lambda: None}, ArgumentError, r"context_fn .* use_reentrant=False"),
        ({"debug": True}, ArgumentError, r"debug .* use_reentrant=False"),
        ({"determinism_check": "some"}, ArgumentError, "'default' or 'none', not 'some'"),
        ({"generators": [1]}, ArgumentTypeError, r"np\.random\.default_rng"),
        ({"generators": 1}, ArgumentTypeError, "a sequence of NumPy's Generators"),
        ({"generators": np.random.default_rng(0), "preserve_rng": False}, ArgumentError, "leave one out"),
        ({"context_fn": 3, "use_reentrant": False}, ArgumentTypeError, "two context managers"),
        ({"context_fn": lambda: 3, "use_reentrant": False}, ArgumentTypeError, "two context managers"),
        ({"context_fn": lambda: (3, 4), "use_reentrant": False}, ArgumentTypeError, "__enter__"),
    ],
)
def test_options_that_mean_nothing_are_refused_by_name(options, error, complaint):
    with pytest.raises(error, match=complaint):
        ag.checkpoint(np.sin, leaf(1.0), **options)


@pytest.mark.parametrize("fn", [3, None, "sin"])
def test_what_cannot_be_called_is_refused(fn):
    with pytest.raises(ArgumentTypeError, match="takes a function first"):
        ag.checkpoint(fn, leaf(1.0))


def test_a_class_cannot_be_decorated():
    with pytest.raises(ArgumentTypeError, match="decorate its methods"):
        ag.checkpoint(Layer)


@each_kind
def test_an_error_of_the_function_in_the_forward_comes_out_as_it_is(use_reentrant):
    def fails(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        ag.checkpoint(fails, leaf(1.0), use_reentrant=use_reentrant)
    assert ag.is_grad_enabled()
    y = np.exp(leaf(1.0))
    assert y.grad_fn.meta is None


# Transforms.


async def test_a_function_that_a_transform_differentiates_may_have_checkpoints() -> None:
    """Their backward is limited to the arguments: these checkpoints are not reentrant unless that is asked for."""

    def inner(x: Any) -> Any:
        return np.sin(x) * x

    def loss(x: Any) -> Any:
        return ag.checkpoint(inner, x).sum()

    async def awaited(x: Any) -> Any:
        await asyncio.sleep(0)
        return ag.checkpoint_sequential([inner, np.tanh, inner], 2, x).sum()

    point = np.array([0.5, 1.0])
    np.testing.assert_array_equal(sync.func.grad(loss)(point), sync.func.grad(lambda x: inner(x).sum())(point))
    np.testing.assert_array_equal(sync.func.hessian(loss)(point), sync.func.hessian(lambda x: inner(x).sum())(point))
    np.testing.assert_array_equal(
        await ag.func.grad(awaited)(point), sync.func.grad(lambda x: inner(np.tanh(inner(x))).sum())(point)
    )
    with pytest.raises(GraphError, match="use_reentrant=False"):
        sync.func.grad(lambda x: ag.checkpoint(inner, x, use_reentrant=True).sum())(point)


def test_a_number_of_segments_may_be_one_of_numpys() -> None:
    x = ag.tensor([0.5], requires_grad=True)
    sync.backward(ag.checkpoint_sequential([np.sin, np.exp, np.tanh], np.int8(2), x).sum())
    for refused in (True, 2.0, np.array(2)):
        with pytest.raises(ArgumentTypeError, match="segments must be an int"):
            ag.checkpoint_sequential([np.sin, np.exp], refused, x)  # type: ignore[arg-type]

    assert x.grad is not None
