"""A Function that is badly written says what is wrong and what to write; and once_differentiable."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import AsyncgradError, GradientTypeError, GraphError, InvalidGradientError
from tests.making import function, leaf


@pytest.mark.parametrize(
    ("returned", "error", "message"),
    [
        (lambda g: (g, g), InvalidGradientError, "2 gradients, and forward took 1 argument"),
        (lambda g: (), InvalidGradientError, "0 gradients, and forward took 1 argument"),
        (lambda g: "text", GradientTypeError, "str 'text' for argument 1"),
        (lambda g: 1.0, GradientTypeError, "float 1.0 for argument 1"),
        (lambda g: {"x": g}, GradientTypeError, "dict .* for argument 1"),
        (lambda g: g[:1], InvalidGradientError, r"shape \(1,\).*shape \(2,\)"),
        (lambda g: np.ones((2, 3)), InvalidGradientError, r"shape \(2, 3\).*shape \(2,\)"),
        (lambda g: np.array(["a", "b"]), InvalidGradientError, "dtype <U1.*dtype float64"),
    ],
    ids=["too many", "none", "str", "float", "dict", "too short", "other shape", "strings"],
)
def test_a_backward_that_returns_the_wrong_thing_raises_and_names_the_function(returned, error, message):
    x = leaf(1.0, 2.0)
    y = function(lambda ctx, x: x * 2, lambda ctx, grad: returned(grad)).apply(x)

    with pytest.raises(error, match=f"Made.*{message}") as raised:
        sync.backward(y.sum())
    assert isinstance(raised.value, AsyncgradError)
    assert x.grad is None


def test_gradients_beyond_the_arguments_may_be_none():
    x = leaf(1.0)
    sync.backward(function(lambda ctx, x: x * 2, lambda ctx, grad: (grad * 2, None, None)).apply(x))

    assert x.grad.tolist() == [2.0]


def test_a_gradient_for_an_argument_that_is_no_tensor_raises_and_gives_its_place():
    y = function(lambda ctx, x, n: x * n, lambda ctx, grad: (grad, grad)).apply(leaf(1.0), 3.0)

    with pytest.raises(InvalidGradientError, match=r"Made\.backward.*argument 2 of forward.*None"):
        sync.backward(y)


def test_saving_what_is_no_tensor_raises_and_names_the_way():
    with pytest.raises(GradientTypeError, match=r"int 3.*ctx\.value = value"):
        function(lambda ctx, x: ctx.save_for_backward(x, 3) or x * 2).apply(leaf(1.0))


def test_a_function_without_forward_or_backward_says_so_when_it_is_needed():
    Nothing: Any = type("Nothing", (ag.Function,), {})
    OneWay: Any = type("OneWay", (ag.Function,), {"forward": staticmethod(lambda ctx, x: x * 2)})

    with pytest.raises(NotImplementedError, match=r"Nothing.*forward\(ctx, \*args\)"):
        Nothing.apply(leaf(1.0))
    y = OneWay.apply(leaf(1.0))
    with pytest.raises(NotImplementedError, match=r"OneWay.*backward\(ctx, \*grads\)"):
        sync.backward(y)


def test_backward_and_vjp_together_raise():
    Both: Any = type("Both", (function(lambda ctx, x: x),), {"vjp": staticmethod(lambda ctx, grad: grad)})

    with pytest.raises(GraphError, match="Both defines both backward and vjp"):
        sync.backward(Both.apply(leaf(1.0)))


def test_a_function_is_applied_and_never_made():
    with pytest.raises(TypeError, match=r"Made\.apply\("):
        function(lambda ctx, x: x)()


def test_arguments_by_keyword_only_raise():
    def forward(ctx: Any, x: Any, *, n: int) -> Any:
        return x * n

    with pytest.raises(TypeError, match=r"n by keyword only.*by position"):
        function(forward).apply(leaf(1.0), n=2)


# once_differentiable.


def save_and_square(ctx: Any, x: Any) -> Any:
    ctx.save_for_backward(x)
    return x * x


def once(kind: str) -> type[ag.Function]:
    def square_backward(ctx: Any, grad: Any) -> Any:
        modes.append(ag.is_grad_enabled())
        return 2 * ctx.saved_tensors[0] * grad

    async def async_backward(ctx: Any, grad: Any) -> Any:
        await asyncio.sleep(0)
        return square_backward(ctx, grad)

    modes: list[bool] = []
    backward = async_backward if kind == "async def" else square_backward
    Once = function(save_and_square, ag.once_differentiable(backward))
    Once.modes = modes  # type: ignore[attr-defined]
    return Once


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_once_differentiable_backward_runs_with_recording_off_and_gives_the_gradient(kind):
    x = leaf(3.0)
    Once: Any = once(kind)
    y = Once.apply(x)
    (plain,) = sync.grad(y, [x], retain_graph=True)
    (recorded,) = sync.grad(y, [x], create_graph=True)

    assert (plain.tolist(), recorded.tolist(), plain.requires_grad) == ([6.0], [6.0], False)
    assert Once.modes == [False, False]


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_differentiating_a_once_differentiable_backward_raises_and_names_it(kind):
    x = leaf(3.0)
    (first,) = sync.grad(once(kind).apply(x) * x, [x], create_graph=True)

    with pytest.raises(GraphError, match=r"_backward is marked once_differentiable"):
        sync.grad(first, [x])


def test_a_once_differentiable_backward_may_get_and_give_none():
    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    x = leaf(3.0)
    first, second = function(forward, ag.once_differentiable(lambda ctx, g, h: None)).apply(x)
    (grad,) = sync.grad(first + 0 * second, [x], create_graph=True, allow_unused=True)

    assert grad is None
