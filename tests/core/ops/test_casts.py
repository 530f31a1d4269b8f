"""Moves between dtypes: CopyBackwards, whose gradient comes back in the old dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.graph import CopyBackwards, node_creation_hook
from tests.support.leaves import leaf, leaf_of
from tests.support.loops import one_loop

CASTS = {
    "method": lambda t, dtype: t.astype(dtype),
    "function": lambda t, dtype: np.astype(t, dtype) if hasattr(np, "astype") else t.astype(dtype),
    "method without a copy": lambda t, dtype: t.astype(dtype, copy=False),
    "in other order": lambda t, dtype: t.astype(dtype, "F"),
}
PAIRS = [(np.float64, np.float32), (np.float32, np.float64), (np.float64, np.complex128), (np.complex64, np.float32)]


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize(("before", "after"), PAIRS)
@pytest.mark.parametrize("cast", CASTS.values(), ids=CASTS)
def test_a_cast_is_recorded_as_copy_backwards_and_its_gradient_has_the_old_dtype(cast, before, after):
    x = leaf_of([1.5, 2.5], before)
    y = cast(x, after)
    sync.backward(y, np.array([3.0, 4.0], after))

    assert isinstance(y.grad_fn, CopyBackwards)
    assert y.grad_fn.name == "CopyBackwards"
    assert [edge.node for edge in y.grad_fn.next_edges] == [None, ag.graph.get_gradient_edge(x).node]
    assert (y.dtype, x.grad.dtype, x.grad.tolist()) == (after, before, [3.0, 4.0])


@one_loop
@pytest.mark.parametrize("cast", CASTS.values(), ids=CASTS)
async def test_a_cast_can_be_differentiated_twice(cast):
    def cubed(x: Any) -> Any:
        y = cast(x, np.complex128)
        return (y * y * y).real.sum() + (cast(x * x, np.float64) ** 2).sum()

    x = leaf(0.5, 1.5)

    assert await ag.gradcheck(cubed, [x])
    assert await ag.gradgradcheck(cubed, [x])


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_second_derivatives_through_a_cast_are_those_of_torch(dtype):
    torch = pytest.importorskip("torch")
    x, theirs = leaf_of([0.5, 1.5]), torch.tensor([0.5, 1.5], dtype=torch.float64, requires_grad=True)
    (g,) = sync.grad((x.astype(dtype) ** 3).real.sum(), [x], create_graph=True)
    sync.backward((g * g).sum())
    cast = theirs.to(torch.float32 if dtype is np.float32 else torch.complex64) ** 3
    (h,) = torch.autograd.grad((cast.real if dtype is np.complex64 else cast).sum(), theirs, create_graph=True)
    (h * h).sum().backward()

    np.testing.assert_allclose(x.grad.numpy(), theirs.grad.numpy(), rtol=1e-5)


def test_where_there_is_nothing_to_copy_a_cast_returns_the_tensor_itself_as_numpy_does():
    x = leaf(1.0)

    assert x.astype(np.float64, copy=False) is x
    assert x.astype(np.float64) is not x
    assert x.astype(np.float64).grad_fn.name == "CopyBackwards"


@pytest.mark.parametrize("kind", ["no_grad", "a constant", "whole numbers"])
def test_a_cast_of_what_needs_no_history_has_none(kind):
    x = ag.tensor([1.0]) if kind == "a constant" else leaf(1.0)
    with ag.set_grad_enabled(kind != "no_grad"):
        y = x.astype(int if kind == "whole numbers" else np.float32)

    assert (y.is_leaf, y.requires_grad, y.is_view) == (True, False, False)


def test_a_cast_of_a_view_takes_the_history_that_the_view_has_after_a_write_into_its_base():
    x = leaf(1.0, 2.0)
    y = x * 1
    view = y[:1]
    y *= 3
    sync.backward(view.astype(np.float32).sum())

    assert x.grad.tolist() == [3.0, 0.0]


def test_a_cast_of_one_of_several_outputs_leads_to_that_output():
    x = leaf(1.0, 2.0)
    second = np.split(x * 1, 2)[1].astype(np.float32)
    sync.backward(second)

    assert (second.grad_fn.next_edges[1].input_nr, x.grad.tolist()) == (1, [0.0, 1.0])


def test_a_cast_is_shown_to_creation_hooks():
    x, seen = leaf(1.0) * 1, []
    with node_creation_hook(seen.append):
        y = x.astype(np.float32)

    assert seen == [y.grad_fn]
