"""How the first gradient of a leaf is laid out and who owns it, held to PyTorch's."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import GraphError
from tests.support.arrays import address
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf

torch = pytest.importorskip("torch")

#: Arrays of shape (3, 4, 2), by how they are laid out.
LAYOUTS: dict[str, Any] = {
    "rows": lambda: np.arange(24.0).reshape(3, 4, 2),
    "columns": lambda: np.asfortranarray(np.arange(24.0).reshape(3, 4, 2)),
    "permuted": lambda: np.arange(24.0).reshape(4, 2, 3).transpose(2, 0, 1),
    "with gaps": lambda: np.arange(96.0).reshape(6, 4, 4)[::2, :, ::2],
    "permuted with gaps": lambda: np.arange(48.0).reshape(4, 2, 6).transpose(2, 0, 1)[::2],
    "part of columns": lambda: np.asfortranarray(np.arange(48.0).reshape(3, 4, 4))[:, :, :2],
    "expanded": lambda: np.broadcast_to(np.arange(2.0), (3, 4, 2)),
    "all one": lambda: np.broadcast_to(np.array(1.0), (3, 4, 2)),
}

LEAVES = {**LAYOUTS, "backwards": lambda: np.arange(24.0).reshape(3, 4, 2)[::-1]}


def strides_in_elements(array: Any) -> list[tuple[int, int]]:
    """The strides of a tensor of either kind in elements, where there is more than one."""
    if isinstance(array, torch.Tensor):
        strides = array.stride()
    else:
        strides = tuple(stride // 8 for stride in array.numpy().strides)
    return [(axis, stride) for axis, (size, stride) in enumerate(zip(array.shape, strides, strict=True)) if size > 1]


class Given(torch.autograd.Function):  # type: ignore[misc,name-defined]
    """A copy of x, whose gradient is as it is given."""

    @staticmethod
    def forward(ctx, x, grad):
        ctx.grad = grad
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        given, ctx.grad = ctx.grad, None
        return given(), None


def first_gradients(leaf_data: Any, made: Any) -> tuple[ag.Tensor, Any]:
    """Return what becomes `.grad` in both, where a body returns what `made()` makes and keeps nothing."""
    ours = ag.asarray(leaf_data, requires_grad=True)
    sync.backward(calling(ours, lambda grad: made()), np.ones(leaf_data.shape))
    theirs = torch.from_numpy(leaf_data).requires_grad_()

    def as_torch() -> Any:
        array = made()
        return torch.as_strided(torch.from_numpy(array), array.shape, [stride // 8 for stride in array.strides])

    Given.apply(theirs, as_torch).backward(torch.ones(leaf_data.shape, dtype=torch.double))
    return ours.grad, theirs.grad


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
@pytest.mark.parametrize("owned", [False, True])
@pytest.mark.parametrize(("leaf_layout", "grad_layout"), list(itertools.product(LAYOUTS, LAYOUTS)))
def test_grad_is_laid_out_as_in_torch(leaf_layout, grad_layout, owned):
    """Also where the body made the array for the leaf alone, in another layout."""

    def made() -> np.ndarray:
        array: np.ndarray = LAYOUTS[grad_layout]()
        return array.copy(order="K") if owned else array

    ours, theirs = first_gradients(LAYOUTS[leaf_layout](), made)

    assert ours.tolist() == theirs.tolist() == LAYOUTS[grad_layout]().tolist()
    assert strides_in_elements(ours) == strides_in_elements(theirs)


@pytest.mark.parametrize("shape", [(), (1,), (1, 3), (3, 1), (0, 3), (3, 0, 2), (1, 1, 1)])
def test_shapes_without_axes_of_one_or_empty_ones_are_laid_out_as_in_torch(shape):
    for data in (np.zeros(shape, order="C"), np.zeros(shape, order="F")):
        ours, theirs = first_gradients(data, lambda: np.ones(shape))
        assert ours.shape == tuple(theirs.shape)
        assert strides_in_elements(ours) == strides_in_elements(theirs)


def test_a_leaf_that_runs_backwards_in_memory_has_a_gradient_in_rows():
    """PyTorch has no such tensors; like others that are not dense, it gets a gradient in rows."""
    x = ag.asarray(LEAVES["backwards"](), requires_grad=True)

    sync.backward(calling(x, lambda grad: np.ones((3, 4, 2))), np.ones((3, 4, 2)))

    assert x.grad.numpy().flags.c_contiguous


@pytest.mark.parametrize("layout", ["rows", "columns", "permuted"])
def test_what_a_body_made_in_the_leafs_layout_is_taken_over_as_in_torch(layout):
    addresses: list[int] = []

    def made() -> np.ndarray:
        array: np.ndarray = LAYOUTS[layout]().copy(order="K")
        addresses.append(address(array))
        return array

    ours, theirs = first_gradients(LAYOUTS[layout](), made)

    assert address(ours) == addresses[0]
    assert theirs.data_ptr() == addresses[1]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_sum_leads_to_a_gradient_in_the_leafs_layout_too(asynchronous):
    x = ag.asarray(LAYOUTS["columns"](), requires_grad=True)
    node = awaiting if asynchronous else calling

    async def nothing(grad):
        return None

    body = nothing if asynchronous else (lambda grad: None)
    total = np.add(np.add(node(x, body), node(x, body)), np.multiply(x, 2.0))

    await ag.backward(total, np.ones((3, 4, 2)))

    assert x.grad.numpy().flags.f_contiguous
    assert set(x.grad.numpy().ravel()) == {4.0}


def test_a_second_gradient_leaves_the_layout_as_it_is():
    x = ag.asarray(LAYOUTS["columns"](), requires_grad=True)
    for layout in ("rows", "expanded"):
        sync.backward(calling(x, lambda grad, layout=layout: LAYOUTS[layout]()), np.ones((3, 4, 2)))
        assert x.grad.numpy().flags.f_contiguous


def test_grad_by_itself_hands_out_an_array_of_its_own_where_pytorch_repeats_one_number():
    x = ag.tensor(np.zeros((3, 4)), requires_grad=True)

    (found,) = sync.grad(np.sum(x), [x])

    theirs = torch.zeros(3, 4, dtype=torch.double, requires_grad=True)
    assert strides_in_elements(torch.autograd.grad(theirs.sum(), theirs)[0]) == [(0, 0), (1, 0)]
    assert strides_in_elements(found) == [(0, 4), (1, 1)]


# What is not accumulated.


async def test_a_tensor_that_has_become_part_of_the_graph_gets_no_gradient_as_a_leaf():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    used_as_a_leaf = np.multiply(x, 2.0)
    made = np.multiply(w, 2.0)
    x.requires_grad = False
    ag.graph.set_gradient_edge(x, ag.graph.get_gradient_edge(made))

    with pytest.raises(GraphError, match=r"AccumulateGrad of a tensor of shape \(2,\) that is no leaf any more"):
        await ag.backward(used_as_a_leaf, np.ones(2))
    await ag.backward(np.multiply(x, 5.0), np.ones(2))

    assert x.grad is None
    assert w.grad.tolist() == [10.0, 10.0]


@pytest.mark.parametrize("why", ["undefined", "requires no grad any more"])
async def test_hooks_run_where_nothing_is_accumulated(why):
    seen: list[Any] = []
    x = leaf(1.0)
    x.grad = before = ag.tensor([5.0])
    x.register_hook(lambda grad: seen.append(grad if grad is None else grad.item()))
    x.register_post_accumulate_grad_hook(lambda tensor: seen.append(tensor.grad is before))

    class Blind(ag.Function):
        @staticmethod
        def forward(ctx, x):
            return x.numpy().copy()

        @staticmethod
        def backward(ctx, grad):
            return None if why == "undefined" else grad

    out = Blind.apply(x)
    if why != "undefined":
        x.requires_grad = False

    await ag.backward(out)

    assert seen == [None if why == "undefined" else 1.0, True]
    assert x.grad.item() == 5.0
