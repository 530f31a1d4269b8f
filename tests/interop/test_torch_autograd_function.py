"""Functions of asyncgrad in programs of PyTorch, by `torch.autograd.Function`."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs PyTorch: pip install 'asyncgrad[torch]'")

import torch

import asyncgrad as ag
from asyncgrad.errors import BlockingError, ChangedTensorError
from asyncgrad.interop.torch import as_autograd_function, wrap


def tensor(*shape: int, seed: int = 0, dtype: Any = torch.float64) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=dtype, generator=generator).requires_grad_()


class Cube(ag.Function):
    """A Function whose rule is awaited."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    async def backward(ctx: Any, grad: Any) -> Any:
        await asyncio.sleep(0)
        (x,) = ctx.saved_tensors
        return 3 * grad * x * x


async def asynchronous(x: Any, y: Any) -> Any:
    await asyncio.sleep(0)
    return Cube.apply(x) * y


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "saves_inputs": lambda x, y: x * y,
    "saves_its_output": lambda x, y: np.exp(x) * np.tanh(y),
    "linear": lambda x, y: x + 2 * y,
    "identity": lambda x, y: x,
    "reduces": lambda x, y: np.sum(np.sin(x) * y),
    "several_outputs": lambda x, y: (x * y, np.sin(x)),
    "awaits_in_the_rule": lambda x, y: Cube.apply(x) * y,
    "awaits": asynchronous,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_of_first_and_second_order_agree_with_finite_differences(name: str) -> None:
    function = as_autograd_function(FUNCTIONS[name])

    assert torch.autograd.gradcheck(function, (tensor(3), tensor(3, seed=1)))
    assert torch.autograd.gradgradcheck(function, (tensor(3), tensor(3, seed=1)))


def test_complex_gradients_have_the_convention_of_both_libraries() -> None:
    function = as_autograd_function(lambda x, y: np.real(np.conj(x) * x * y) + np.imag(x * y))
    x, y = tensor(3, dtype=torch.complex128), tensor(3, seed=1, dtype=torch.complex128)

    assert torch.autograd.gradcheck(function, (x, y))
    assert torch.autograd.gradgradcheck(function, (x, y))


def test_derivatives_of_any_order_are_right() -> None:
    power, x = as_autograd_function(lambda x: x**5), torch.tensor(2.0, dtype=torch.float64, requires_grad=True)

    found = [power(x)]
    for _ in range(5):
        found.append(torch.autograd.grad(found[-1], x, create_graph=True)[0])

    assert [one.item() for one in found] == [32.0, 80.0, 160.0, 240.0, 240.0, 120.0]


def test_arguments_and_outputs_are_trees_and_integers_are_constants() -> None:
    def function(pair: Any, *, index: Any) -> Any:
        return {"rows": pair[0][index], "scaled": [pair[1] * 2, "text"], "largest": np.argmax(pair[0])}

    x, y = tensor(4), tensor(2, seed=1)
    found = as_autograd_function(function)((x, y), index=torch.tensor([1, 1]))
    (found["rows"].sum() + found["scaled"][0].sum()).backward()

    assert found["scaled"][1] == "text"
    assert not found["largest"].requires_grad
    assert (x.grad.tolist(), y.grad.tolist()) == ([0.0, 2.0, 0.0, 0.0], [2.0, 2.0])


def test_arguments_and_results_share_memory() -> None:
    seen = []

    def function(x: Any) -> Any:
        y = x * 2
        seen.extend([x.numpy().ctypes.data, y.numpy().ctypes.data])
        return y

    x = tensor(3).detach()
    y = as_autograd_function(function)(x)

    assert [x.data_ptr(), y.data_ptr()] == seen


def test_a_module_of_pytorch_within_asyncgrad_within_pytorch_has_its_derivatives() -> None:
    inner = wrap(torch.sin)
    function = as_autograd_function(lambda x: inner(x * x) * x)

    assert torch.autograd.gradcheck(function, (tensor(3),))
    assert torch.autograd.gradgradcheck(function, (tensor(3),))


def test_a_write_into_an_output_that_asyncgrad_has_saved_is_found() -> None:
    x = tensor(3)
    y = as_autograd_function(np.exp)(x)
    with torch.no_grad():
        y.add_(1)

    with pytest.raises(ChangedTensorError):
        y.sum().backward()


def test_an_output_may_be_written_into_if_asyncgrad_has_not_saved_it() -> None:
    x = tensor(3)
    y = as_autograd_function(lambda x: x * 3)(x)
    y.add_(1)
    y.sum().backward()

    assert x.grad.tolist() == [3.0, 3.0, 3.0]


def test_a_write_into_an_argument_and_a_second_backward_raise_as_pytorch_does() -> None:
    x = tensor(3)
    inner = x * 1
    y = as_autograd_function(np.sin)(inner)
    inner.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()

    z = as_autograd_function(np.sin)(x).sum()
    z.backward()
    with pytest.raises(RuntimeError, match="second time"):
        z.backward()


async def test_what_awaits_is_refused_where_a_loop_runs_and_runs_in_a_thread() -> None:
    class Waiting(ag.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        async def backward(ctx: Any, grad: Any) -> Any:
            await asyncio.sleep(0)
            return grad * 2

    with pytest.raises(BlockingError, match=r"asynchronous would have to .* await asyncio\.to_thread\(asynchronous, "):
        as_autograd_function(asynchronous)(tensor(3), tensor(3))
    x = tensor(3)
    y = as_autograd_function(Waiting.apply)(x).sum()
    with pytest.raises(BlockingError, match=r"await asyncio\.to_thread\(loss\.backward\)"):
        y.backward(retain_graph=True)
    await asyncio.to_thread(y.backward)
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_a_graph_of_asyncgrad_is_freed_without_the_garbage_collector() -> None:
    made: list[Any] = []

    def function(x: Any) -> Any:
        y = x * 2
        made.append(weakref.ref(y))
        return np.exp(y)

    x, call = tensor(3), as_autograd_function(function)
    gc.disable()
    try:
        y = call(x).sum()
        y.backward()
        del y

        assert made[0]() is None
    finally:
        gc.enable()
