"""A backward of asyncgrad that writes PyTorch's own `.grad`: whole, in one order, or not at all."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs PyTorch: pip install 'asyncgrad[torch]'")

import torch

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ArgumentTypeError, GraphError
from asyncgrad.interop.torch import wrap
from asyncgrad.interop.torch_grads import GradWriter, _Commit


def tensor(*shape: int, requires_grad: bool = True) -> Any:
    return ag.tensor(np.random.default_rng(0).standard_normal(shape), requires_grad=requires_grad)


def network() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).double()


def grads(module: Any) -> list[Any]:
    return [None if param.grad is None else param.grad.numpy().copy() for param in module.parameters()]


@pytest.mark.parametrize("requires_grad", [True, False])
def test_the_grads_are_those_of_pytorch_and_add_up(requires_grad: bool) -> None:
    module, peer, x = network(), network(), tensor(5, 3, requires_grad=requires_grad)
    model = wrap(module, grads="torch")

    for _ in range(2):
        sync.backward((model(x) * model(2 * x)).sum())
        given = torch.tensor(x.numpy())
        (peer(given) * peer(2 * given)).sum().backward()

    for one, other in zip(grads(module), grads(peer), strict=True):
        np.testing.assert_allclose(one, other)


class Constant(torch.nn.Module):
    """A module that takes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))

    def forward(self) -> Any:
        return self.weight.exp()


@pytest.mark.parametrize("retain_graph", [False, "until_success"])
def test_what_pytorch_keeps_is_released_with_the_backward_though_no_tensor_is_saved(retain_graph: Any) -> None:
    y = wrap(Constant(), grads="torch")()
    ctx: Any = y.grad_fn.ctx
    assert ctx.graph is not None
    sync.backward(y.sum(), retain_graph=retain_graph)

    assert ctx.graph is None


def test_an_optimizer_of_pytorch_trains_the_module() -> None:
    module, x = network(), tensor(5, 3, requires_grad=False)
    model, optimizer = wrap(module, grads="torch"), torch.optim.SGD(module.parameters(), lr=0.1)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = (model(x) ** 2).sum()
        sync.backward(loss)
        optimizer.step()
        losses.append(loss.item())

    assert losses[-1] < 0.1 * losses[0]


def test_nothing_is_written_where_the_backward_fails() -> None:
    module, x = network(), tensor(5, 3)
    model = wrap(module, grads="torch")
    sync.backward(model(x).sum())
    before, objects = grads(module), [param.grad for param in module.parameters()]

    def fail(grad: Any) -> None:
        raise ConnectionError

    loss = model(x).sum()
    with x.register_hook(fail), pytest.raises(ConnectionError):
        sync.backward(loss, retain_graph="until_success")

    assert all(param.grad is one for param, one in zip(module.parameters(), objects, strict=True))
    sync.backward(loss, retain_graph="until_success")
    for one, other in zip(grads(module), before, strict=True):
        np.testing.assert_allclose(one, 2 * other)


def test_what_was_written_is_put_back_where_a_later_callback_fails() -> None:
    module, x = network(), tensor(5, 3)
    model = wrap(module, grads="torch")
    sync.backward(model(x).sum())
    before = [param.grad for param in module.parameters()]
    seen: list[bool] = []

    def fail() -> None:
        seen.append(all(param.grad is not one for param, one in zip(module.parameters(), before, strict=True)))
        raise ConnectionError

    def hook(grad: Any) -> None:
        ag.engine.queue_callback(fail)

    with x.register_hook(hook), pytest.raises(ConnectionError):
        sync.backward(model(x).sum())

    assert seen == [True]
    assert all(param.grad is one for param, one in zip(module.parameters(), before, strict=True))


def test_what_others_have_added_since_stays_where_a_later_callback_fails() -> None:
    module, x = network(), tensor(5, 3)
    model = wrap(module, grads="torch")

    def add_and_fail() -> None:
        for param in module.parameters():
            param.grad = param.grad + 1
        raise ConnectionError

    def hook(grad: Any) -> None:
        ag.engine.queue_callback(add_and_fail)

    with x.register_hook(hook), pytest.raises(ConnectionError):
        sync.backward(model(x).sum())

    for grad in grads(module):
        np.testing.assert_allclose(grad, np.ones_like(grad), atol=1e-12)


async def test_nothing_is_written_where_the_backward_is_cancelled() -> None:
    module, x = network(), tensor(5, 3)
    reached, never = asyncio.Event(), asyncio.Event()

    async def wait(grad: Any) -> None:
        reached.set()
        await never.wait()

    y = wrap(module, grads="torch")(x)
    with x.register_hook(wait):
        task = asyncio.ensure_future(ag.backward(y.sum()))
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert grads(module) == [None] * 4


def test_a_backward_with_given_inputs_leaves_them_alone() -> None:
    module, x = network(), tensor(5, 3)
    y = wrap(module, grads="torch")(x).sum()

    sync.grad(y, [x], retain_graph=True)
    sync.backward(y, inputs=[x])

    assert grads(module) == [None] * 4


def test_a_penalty_of_the_gradient_reaches_the_parameters() -> None:
    module, peer, x = network(), network(), tensor(5, 3)

    (gradient,) = sync.grad(wrap(module, grads="torch")(x).sum(), [x], create_graph=True)
    sync.backward((gradient**2).sum())
    given = torch.tensor(x.numpy(), requires_grad=True)
    (theirs,) = torch.autograd.grad(peer(given).sum(), [given], create_graph=True)
    (theirs**2).sum().backward()

    for one, other in zip(grads(module), grads(peer), strict=True):
        if other is not None and np.any(other):
            np.testing.assert_allclose(one, other)
    np.testing.assert_allclose(x.grad.numpy(), given.grad.numpy())


@pytest.mark.filterwarnings(r"ignore:backward\(\) with create_graph=True")
def test_a_history_that_grad_would_lose_is_refused() -> None:
    y = wrap(network(), grads="torch")(tensor(5, 3)).sum()

    with pytest.raises(GraphError, match=r"create_graph=True.*wrap\(module\)"):
        sync.backward(y, create_graph=True)


def test_shared_and_broadcast_gradients_get_memory_of_their_own() -> None:
    class Sum(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = torch.nn.Parameter(torch.zeros(3))
            self.b = torch.nn.Parameter(torch.zeros(3))

        def forward(self) -> Any:
            return (self.a + self.b).sum()

    module = Sum()
    sync.backward(wrap(module, grads="torch")())
    module.a.grad.add_(1)

    assert (module.a.grad.tolist(), module.b.grad.tolist()) == ([2.0] * 3, [1.0] * 3)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_the_order_of_sums_is_that_of_the_graph_whatever_the_order_of_the_nodes(order: Any) -> None:
    param = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    commit = _Commit(GradWriter(), 0)
    # In any other order, one of the small numbers is lost.
    found = [
        (number, [param], [torch.tensor([grad], dtype=torch.float64)])
        for number, grad in ((9, 1e16), (5, -1e16), (2, 1.0))
    ]
    commit.found = [found[at] for at in order]

    commit.write()

    assert param.grad is not None
    assert param.grad.item() == 1.0


async def test_workers_compute_the_same_grads() -> None:
    x = ag.tensor(np.random.default_rng(0).standard_normal((5, 3)))
    found = []
    for count in (0, 2):
        module = network()
        model = wrap(module, grads="torch")
        with ag.workers(count), ag.offload_threshold(0.0):
            await sum((model(x * scale).sum() for scale in (1e-8, 1.0, 1e8, 3.0)), ag.tensor(0.0)).backward()
        found.append(grads(module))

    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_function_has_no_grads_of_its_own() -> None:
    with pytest.raises(ArgumentTypeError, match=r"takes a torch\.nn\.Module, which has parameters"):
        wrap(torch.sin, grads="torch")
