"""Tensors move between devices, differentiably, and do not mix unmoved."""

from __future__ import annotations

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import DeviceError, HookError, InvalidGradientError
from tests.support.functions import calling
from tests.support.leaves import leaf

T0, T1 = "thread:0", "thread:1"


def test_a_tensor_lives_where_it_was_told_to_and_what_is_computed_from_it_too():
    x = ag.tensor([1.0, 2.0], device=T0, requires_grad=True)

    assert x.device is ag.device(T0)
    assert (np.exp(x) * 2)[0].device is ag.device(T0)
    assert x.is_leaf


def test_a_move_is_a_copy_recorded_with_one_edge_that_leads_back():
    x = leaf(1.0, 2.0)
    y = x.to(T0)

    assert y.grad_fn.name == "CopyBackwards"
    assert [edge.node for edge in y.grad_fn.next_edges][1] is ag.graph.get_gradient_edge(x).node
    assert y.grad_fn.device is ag.device(T0)
    assert not y.is_view
    assert y._version == 0


def test_a_move_keeps_the_layout():
    x = ag.tensor(np.arange(6.0).reshape(2, 3)).T

    assert x.to(T0).numpy().strides == x.numpy().strides


async def test_a_gradient_comes_back_over_any_number_of_moves():
    x = leaf(1.0, 2.0)
    y = ((x.to(T0) * 2).to(T1) * 3).to("null").to(T0).to("cpu")
    await y.sum().backward()
    grad = x.grad

    assert grad.tolist() == [6.0, 6.0]
    assert grad.device is ag.device("cpu")


async def test_a_second_derivative_goes_through_moves():
    x = leaf(1.0, 2.0)
    y = (x.to(T0) ** 3).to(T1).sum()
    (first,) = await ag.grad(y, [x], create_graph=True)
    assert first.device is x.device
    (second,) = await ag.grad(first.sum(), [x])

    assert (first.tolist(), second.tolist()) == ([3.0, 12.0], [6.0, 12.0])


def test_the_node_of_a_move_can_be_called():
    x = leaf(1.0, 2.0)
    node = x.to(T0).grad_fn
    grad = ag.tensor([3.0, 4.0], device=T0)

    _, back = node(grad)

    assert back.device is x.device
    assert back.tolist() == [3.0, 4.0]


async def test_an_input_of_grad_lives_anywhere():
    x, w = leaf(2.0), ag.tensor([3.0], device=T0, requires_grad=True)
    middle = x.to(T0) * w
    grads = await ag.grad((middle * middle).to(T1), [x, w, middle])

    assert [(grad.device.name, grad.item()) for grad in grads] == [("cpu", 36.0), (T0, 24.0), (T0, 12.0)]


async def test_a_gradient_is_kept_where_the_tensor_lives():
    y = leaf(1.0, 2.0).to(T0)
    y.retain_grad()
    await (y * 3).sum().backward()

    assert y.grad.device is ag.device(T0)


async def test_roots_on_several_devices_make_one_backward():
    x = leaf(1.0)
    await ag.backward([x.to(T0) * 2, x.to(T1) * 3, x * 4])

    assert x.grad.item() == 9.0


async def test_a_tensor_that_a_users_backward_returns_on_another_device_is_moved():
    async def main():
        x = leaf(1.0, 2.0)
        out = calling(x, lambda grad: (grad * 2).to(T0))
        (grad,) = await ag.grad(out.sum(), [x], create_graph=True)
        await ag.backward(out.sum())
        return grad, x.grad

    for grad in await main():
        assert grad.device is ag.device("cpu")
        assert grad.tolist() == [2.0, 2.0]


class Carried(ag.Function):
    """x on another device, and back, by the user's own hand."""

    @staticmethod
    def forward(ctx, x, target):
        ctx.home = x.device
        return x.to(target)

    @staticmethod
    def backward(ctx, grad):
        ctx.seen = grad.device, ag.graph.current_node().device.is_here()
        return grad.to(ctx.home), None


async def test_the_node_of_a_function_belongs_to_the_device_of_its_output():
    x = leaf(1.0, 2.0)
    y = Carried.apply(x, T0)
    await (y * 2).sum().backward()
    device, grad = (y.grad_fn.device, x.grad)

    assert device is ag.device(T0)
    assert grad.device is ag.device("cpu")


async def test_a_hook_must_return_a_gradient_of_the_same_device():
    y = leaf(1.0).to(T0)
    y.register_hook(lambda grad: grad.to("cpu"))
    with pytest.raises(HookError, match=r"write return grad.to\('thread:0'\)"):
        await y.backward()


def test_a_gradient_to_start_from_must_live_where_its_root_does():
    y = leaf(1.0).to(T0)

    with pytest.raises(InvalidGradientError, match=r"write gradient.to\('thread:0'\)"):
        sync.backward(y, ag.tensor([1.0]))


def test_a_gradient_that_is_assigned_must_live_where_its_tensor_does():
    x = leaf(1.0)

    with pytest.raises(InvalidGradientError, match=r"write t.grad = value.to\('cpu'\)"):
        x.grad = ag.tensor([1.0], device=T0)


def test_a_new_tensor_of_a_tensor_stays_on_its_device_or_moves_where_it_is_told():
    x = ag.tensor([1.0], device=T0)

    assert ag.tensor(x).device is ag.device(T0)
    assert ag.tensor(x, device="cpu").device is ag.device("cpu")
    assert ag.asarray(x) is x
    assert ag.asarray(x, device=T1).device is ag.device(T1)
    assert ag.asarray(np.ones(2), device=T0).device is ag.device(T0)


async def test_a_default_device_holds_for_a_block_a_function_and_one_task():
    @ag.default_device(T0)
    def made():
        return ag.tensor([1.0]).device.name

    assert made() == T0
    with ag.default_device(T0):
        inner = await ag.device(T1).call(lambda: ag.tensor([1.0]).device.name)
        found = ag.tensor([1.0]).device.name, ag.asarray(np.ones(1)).device.name, inner

    assert found == (T0, T0, T1)
    assert ag.tensor([1.0]).device.name == "cpu"


def test_a_default_device_must_be_there():
    with pytest.raises(DeviceError, match="there is no device 'nowhere'"):
        ag.default_device("nowhere")


# Mixing.

A = np.arange(4.0).reshape(2, 2) + 1


def tensor_here(data=A, grad=False):
    return ag.tensor(data, requires_grad=grad)


def there(data=A, grad=False):
    return ag.tensor(data, device=T0, requires_grad=grad)


V, INDEX, M = np.ones(2), np.array([0, 1]), A > 1

MIXED = {
    "add": lambda: tensor_here() + there(),
    "matmul": lambda: tensor_here(grad=True) @ there(grad=True),
    "compare": lambda: tensor_here() < there(),
    "power": lambda: tensor_here() ** there(),
    "where of values": lambda: np.where(M, tensor_here(), there()),
    "where of a mask": lambda: np.where(there(M), tensor_here(), 1.0),
    "concatenate": lambda: np.concatenate([tensor_here(), there()]),
    "stack": lambda: np.stack([tensor_here(), there(grad=True)]),
    "block": lambda: np.block([[tensor_here(), there()]]),
    "append": lambda: np.append(tensor_here(), there()),
    "clip": lambda: np.clip(tensor_here(), None, there()),
    "einsum": lambda: np.einsum("ij,jk->ik", tensor_here(), there()),
    "dot": lambda: np.dot(tensor_here(), there()),
    "solve": lambda: np.linalg.solve(tensor_here(), there()),
    "take": lambda: np.take(tensor_here(), there(INDEX)),
    "take_along_axis": lambda: np.take_along_axis(tensor_here(), there(np.array([[0], [1]])), 1),
    "compress": lambda: np.compress(there(V > 0), tensor_here(), axis=0),
    "choose": lambda: np.choose(there(INDEX), [tensor_here(V), tensor_here(V)]),
    "select": lambda: np.select([M], [there()], tensor_here()),
    "repeat": lambda: np.repeat(tensor_here(), there(INDEX), axis=0),
    "index": lambda: tensor_here(grad=True)[there(INDEX)],
    "mask": lambda: tensor_here()[there(M)],
    "index beside a number": lambda: tensor_here()[0, there(INDEX)],
    "set a value": lambda: tensor_here().__setitem__(0, there(V)),
    "set a recorded value": lambda: (tensor_here(grad=True) * 1).__setitem__(0, there(V, grad=True)),
    "set at an index": lambda: tensor_here().__setitem__(there(INDEX), 1.0),
    "set at a mask": lambda: (tensor_here(grad=True) * 1).__setitem__(there(M), 1.0),
    "in place": lambda: tensor_here().__iadd__(there()),
    "in place, recorded": lambda: (tensor_here(grad=True) * 1).__imul__(there()),
    "in-place matmul": lambda: tensor_here().__imatmul__(there()),
    "fill": lambda: tensor_here().fill(there(1.0)),
    "out=": lambda: np.add(tensor_here(), tensor_here(), out=there()),
    "out= of a reduction": lambda: np.sum(tensor_here(), axis=0, out=there(V)),
    "where=": lambda: np.add(tensor_here(), tensor_here(), out=tensor_here(), where=there(M)),
    "where= of a reduction": lambda: np.mean(tensor_here(), where=there(M)),
    "copyto": lambda: np.copyto(tensor_here(), there()),
    "copyto where": lambda: np.copyto(tensor_here(), 1.0, where=there(M)),
    "putmask": lambda: np.putmask(tensor_here(), there(M), 1.0),
    "put": lambda: np.put(tensor_here(), there(INDEX), 1.0),
    "place": lambda: np.place(tensor_here(), there(M), [1.0]),
    "fill_diagonal": lambda: np.fill_diagonal(tensor_here(), there(V)),
    "add.at": lambda: np.add.at(tensor_here(), there(np.array([0])), 1.0),
    "add.outer": lambda: np.add.outer(tensor_here(V), there(V)),
    "divmod": lambda: np.divmod(tensor_here(), there()),
    "average": lambda: np.average(tensor_here(), weights=there()),
    "interp": lambda: np.interp(tensor_here(V), there(V), [1.0, 2.0]),
    "array_equal": lambda: np.array_equal(tensor_here(), there()),
    "searchsorted": lambda: np.searchsorted(tensor_here(V), there(V)),
    "linear": lambda: ag.nn.linear(tensor_here(), there()),
    "bias of linear": lambda: ag.nn.linear(tensor_here(), tensor_here(), there(V)),
    "labels": lambda: ag.nn.cross_entropy(tensor_here(), there(INDEX)),
    "negative log likelihood": lambda: ag.nn.nll_loss(tensor_here(), there(INDEX)),
    "layer_norm": lambda: ag.nn.layer_norm(tensor_here(), (2,), there(V)),
    "embedding": lambda: ag.nn.embedding(there(INDEX), tensor_here()),
    "mask of attention": lambda: ag.nn.scaled_dot_product_attention(
        tensor_here(), tensor_here(), tensor_here(), there(M)
    ),
    "values of attention": lambda: ag.nn.scaled_dot_product_attention(tensor_here(), tensor_here(), there()),
    "conv2d": lambda: ag.nn.conv2d(tensor_here(np.ones((1, 1, 3, 3))), there(np.ones((1, 1, 2, 2)))),
}


@pytest.mark.parametrize("mix", MIXED.values(), ids=MIXED)
def test_tensors_of_two_devices_do_not_mix_and_the_error_says_how_to_move_one(mix):
    with pytest.raises(DeviceError, match=r"'(cpu|thread:0)'.*move one of them first, for example other\.to\('"):
        mix()


def test_a_write_that_was_refused_has_written_nothing():
    x = tensor_here()
    for write in (lambda: x.__iadd__(there()), lambda: x.__setitem__(0, there(V)), lambda: np.copyto(x, there() * 9)):
        with pytest.raises(DeviceError):
            write()

    assert x.tolist() == A.tolist()
    assert x._version == 0
