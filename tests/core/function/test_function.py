"""Function: its forms, its outputs and arguments, and what reaches its backward."""

from __future__ import annotations

import asyncio
import gc
import inspect
import weakref
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from tests.support.functions import function
from tests.support.leaves import leaf, leaf_of
from tests.support.loops import on_each_loop

FORMS = ["ctx", "setup_context"]
KINDS = ["def", "async def"]


def awaitable_of(kind: str, function: Any) -> Any:
    """The static method `function`, or an `async def` that suspends and then does the same."""

    async def suspending(*args: Any) -> Any:
        await asyncio.sleep(0)
        return function(*args)

    return staticmethod(suspending if kind == "async def" else function)


def multiplying_function(
    form: str = "ctx", forward: str = "def", backward: str = "def", setup: str = "def"
) -> type[ag.Function]:
    """A Function that multiplies two tensors, written in one of the ways in which it can be."""

    def compute(x: Any, y: Any) -> Any:
        return x * y

    def compute_and_save(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x, y)
        return x * y

    def set_up(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    def differentiate(ctx: Any, grad: Any) -> Any:
        x, y = ctx.saved_tensors
        return grad * y, grad * x

    body: dict[str, Any] = {"backward": awaitable_of(backward, differentiate)}
    if form == "ctx":
        body["forward"] = awaitable_of(forward, compute_and_save)
    else:
        body["forward"] = awaitable_of(forward, compute)
        body["setup_context"] = awaitable_of(setup, set_up)
    return type("Multiply", (ag.Function,), body)


async def await_if_awaitable(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result


# Forms.


@pytest.mark.parametrize("setup", KINDS)
@pytest.mark.parametrize("backward", KINDS)
@pytest.mark.parametrize("forward", KINDS)
@pytest.mark.parametrize("form", FORMS)
async def test_forward_and_backward_are_each_a_function_or_an_async_def_in_both_forms(form, forward, backward, setup):
    Multiply = multiplying_function(form, forward, backward, setup)

    async def main() -> Any:
        x, y = leaf(2.0, 3.0), leaf(5.0, 7.0)
        result = Multiply.apply(x, y)
        is_awaitable = inspect.isawaitable(result)
        z = await await_if_awaitable(result)
        await z.sum().backward()
        return is_awaitable, z.grad_fn.name, z.tolist(), x.grad.tolist(), y.grad.tolist()

    is_awaitable = forward == "async def" or (form == "setup_context" and setup == "async def")
    assert await main() == (is_awaitable, "MultiplyBackward", [10.0, 21.0], [5.0, 7.0], [2.0, 3.0])


@pytest.mark.parametrize("backward", KINDS)
@pytest.mark.parametrize("form", FORMS)
async def test_a_backward_of_differentiable_operations_is_differentiated_again(form, backward):
    Multiply = multiplying_function(form, "def", backward)

    x, y = leaf(2.0, 3.0), leaf(5.0, 7.0)
    z = Multiply.apply(Multiply.apply(x, x), y)
    (first,) = await ag.grad(z.sum(), [x], create_graph=True)
    (second,) = await ag.grad(first.sum(), [x], create_graph=True)
    (mixed,) = await ag.grad(second.sum(), [y])

    assert (first.tolist(), second.tolist(), mixed.tolist()) == ([20.0, 42.0], [10.0, 14.0], [2.0, 2.0])


def test_a_blocking_backward_runs_async_bodies_on_a_loop_of_its_own():
    x = leaf(2.0)
    sync.backward(multiplying_function(backward="async def").apply(x, x).sum())

    assert x.grad.tolist() == [4.0]


def test_vjp_is_another_name_of_backward():
    def vjp(ctx: Any, grad: Any) -> Any:
        return grad * 3

    forward = staticmethod(lambda ctx, x: x * 3)
    Triple: Any = type("Triple", (ag.Function,), {"forward": forward, "vjp": staticmethod(vjp)})
    x = leaf(1.0)
    sync.backward(Triple.apply(x))

    assert x.grad.tolist() == [3.0]


def test_the_node_is_named_for_the_function_and_numbered_before_forward_runs():
    numbers = []

    def forward(ctx: Any, x: Any) -> Any:
        with ag.enable_grad():
            numbers.append((x * 2).grad_fn.sequence_nr)
        return x * 2

    y = function(forward).apply(leaf(1.0))

    assert y.grad_fn.name == "MadeBackward"
    assert y.grad_fn.sequence_nr < numbers[0]


def test_forward_runs_with_recording_off_and_backward_with_create_graph():
    modes = []

    def forward(ctx: Any, x: Any) -> Any:
        modes.append(ag.is_grad_enabled())
        return x * 2

    def backward(ctx: Any, grad: Any) -> Any:
        modes.append(ag.is_grad_enabled())
        return grad * 2

    x = leaf(1.0)
    y = function(forward, backward).apply(x)
    sync.grad(y, [x], retain_graph=True)
    sync.grad(y, [x], create_graph=True)

    assert modes == [False, False, True]
    assert ag.is_grad_enabled()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("forward", KINDS)
async def test_nothing_is_recorded_under_no_grad(form, forward):
    x = leaf(2.0)
    with ag.no_grad():
        result = multiplying_function(form, forward).apply(x, x)
    z = await await_if_awaitable(result)

    assert (z.requires_grad, z.grad_fn, z.tolist()) == (False, None, [4.0])


async def test_an_async_forward_records_though_it_is_awaited_under_no_grad():
    x = leaf(2.0)
    result = multiplying_function(forward="async def").apply(x, x)
    with ag.no_grad():
        z = await result
        found = z.requires_grad, ag.is_grad_enabled()

    assert found == (True, False)


async def test_async_forwards_overlap_and_keep_their_modes_to_themselves():
    order = []

    async def forward(ctx: Any, x: Any, name: Any) -> Any:
        order.append(("begin", name, ag.is_grad_enabled()))
        await asyncio.sleep(0)
        order.append(("end", name, ag.is_grad_enabled()))
        return x * 2

    async def main() -> bool:
        Double = function(forward, lambda ctx, grad: (grad * 2, None))
        await asyncio.gather(*(Double.apply(leaf(1.0), name) for name in "ab"))
        return ag.is_grad_enabled()

    assert await main()
    assert order == [("begin", "a", False), ("begin", "b", False), ("end", "a", False), ("end", "b", False)]


@on_each_loop
def test_a_cancelled_async_forward_leaves_nothing(run):
    async def main() -> Any:
        reached = asyncio.Event()

        async def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            reached.set()
            await asyncio.Event().wait()

        x = leaf(1.0)
        task = asyncio.ensure_future(function(forward).apply(x))
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return weakref.ref(x), ag.is_grad_enabled()

    held, enabled = run(main())
    gc.collect()

    assert (held(), enabled) == (None, True)


def test_an_async_forward_nobody_awaits_warns():
    with pytest.warns(RuntimeWarning, match=r"coroutine '.*\.apply' was never awaited"):
        multiplying_function(forward="async def").apply(leaf(1.0), leaf(1.0))


@pytest.mark.parametrize("forward", KINDS)
async def test_what_forward_raises_is_raised_and_the_mode_is_as_before(forward):
    def fail(ctx: Any, x: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await await_if_awaitable(function(awaitable_of(forward, fail).__func__).apply(leaf(1.0)))

    assert ag.is_grad_enabled()


# Outputs.


def test_outputs_that_are_no_tensors_pass_through_and_a_tuple_stays_one():
    marker = object()
    result = function(lambda ctx, x: (x * 2, "text", marker, None)).apply(leaf(1.0))

    assert result[1:] == ("text", marker, None)
    assert [type(result), result[0].output_nr, result[0].grad_fn.num_inputs] == [tuple, 0, 4]
    assert isinstance(function(lambda ctx, x: (x * 2,)).apply(leaf(1.0)), tuple)
    assert isinstance(function(lambda ctx, x: x * 2).apply(leaf(1.0)), ag.Tensor)


@pytest.mark.parametrize("wrap", [lambda array: array, lambda array: (array, array * 2), lambda array: array.sum()])
def test_forward_may_return_arrays_and_numpy_scalars(wrap):
    outputs = function(lambda ctx, x: wrap(x.numpy() * 3), lambda ctx, *grads: grads[0].numpy() * 3).apply(leaf(1.0))

    for output in outputs if isinstance(outputs, tuple) else (outputs,):
        assert isinstance(output, ag.Tensor)
        assert output.requires_grad
        assert output.device is ag.device("cpu")


@pytest.mark.parametrize("answer", [lambda g: g.numpy() * 3, lambda g: np.float64(g.item() * 3), lambda g: [g * 3]])
def test_backward_may_return_arrays_and_a_list(answer):
    x = leaf_of(1.0)
    sync.backward(function(lambda ctx, x: x * 3, lambda ctx, grad: answer(grad)).apply(x))

    assert x.grad.item() == 3.0


def test_applied_to_no_tensor_a_function_gives_a_tensor_on_the_default_device():
    y = function(lambda ctx, n: np.ones(n)).apply(3)

    assert (y.requires_grad, y.device) == (False, ag.device("cpu"))


@pytest.mark.parametrize("requires_grad", [True, False])
def test_an_argument_returned_as_it_is_becomes_another_tensor_a_view_of_it(requires_grad):
    x: Any = ag.tensor([1.0], requires_grad=requires_grad)
    y = function(lambda ctx, x: x, lambda ctx, grad: grad * 5).apply(x)

    assert y is not x
    assert (y.is_view, y.requires_grad, x.is_leaf, x.is_view) == (True, requires_grad, True, False)
    assert np.shares_memory(x.numpy(), y.numpy())
    if requires_grad:
        sync.backward(y)
        assert x.grad.tolist() == [5.0]


def test_one_tensor_returned_twice_stays_one():
    def forward(ctx: Any, x: Any) -> Any:
        y = x * 2
        return y, y

    x = leaf(1.0)
    first, second = function(forward, lambda ctx, g, h: g * 2 + h * 2).apply(x)
    sync.backward(first * 3)

    assert first is second
    assert x.grad.tolist() == [6.0]


@pytest.mark.parametrize("as_array", [True, False])
def test_outputs_marked_non_differentiable_and_integer_ones_have_no_gradient(as_array):
    def forward(ctx: Any, x: Any) -> Any:
        data = x.numpy() * 2
        marked = data + 1 if as_array else ag.tensor(data + 1)
        ctx.mark_non_differentiable(marked)
        return data, marked, np.argmax(x.numpy())

    def backward(ctx: Any, *grads: Any) -> Any:
        seen.extend((type(grad), grad.dtype, grad.tolist()) for grad in grads)
        return grads[0] * 2

    seen: list[Any] = []
    x = leaf(1.0, 2.0)
    outputs = function(forward, backward).apply(x)
    sync.backward(outputs[0].sum())

    assert [output.requires_grad for output in outputs] == [True, False, False]
    assert seen == [(ag.Tensor, float, [1.0, 1.0]), (ag.Tensor, float, [0.0, 0.0]), (ag.Tensor, np.int64, 0)]


@pytest.mark.parametrize("materialize", [True, False])
def test_undefined_gradients_are_zeros_unless_the_function_asks_for_none(materialize):
    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(materialize)
        return x * 2, (x * 3).astype(np.float32), "text"

    def backward(ctx: Any, g: Any, h: Any, text: Any) -> Any:
        seen.append((None if h is None else (h.tolist(), h.dtype), text))
        return g * 2

    seen: list[Any] = []
    sync.backward(function(forward, backward).apply(leaf(1.0, 2.0))[0].sum())

    assert seen == [(([0.0, 0.0], np.float32) if materialize else None, None)]
