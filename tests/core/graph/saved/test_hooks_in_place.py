"""Saved-tensor hooks beside writes in place: what a write's own node saves, and bases that take it over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from tests.core.graph.saved.packing import Store, as_is
from tests.support.leaves import leaf, leaf_of


def write_whole(x: Any) -> Any:
    y = x * 1.0
    y *= x
    np.exp(y, out=y)
    return y


def part(x: Any) -> Any:
    y = x * 1.0
    y[1:] *= x[1:]
    view = y[:2]
    np.exp(view, out=view)
    return y * y


def assigned(x: Any) -> Any:
    y = x * x
    y[0] = x[1] * x[2]
    y[[1, 2]] = x[:2] * x[:2]
    return y * x


PROGRAMS = {"whole": write_whole, "part": part, "assigned": assigned}
VALUES = np.array([0.3, 0.7, 1.1])


def expected_grad(program: Any) -> Any:
    x = leaf_of(VALUES)
    sync.backward(program(x).sum())
    return x.grad.tolist()


@pytest.mark.parametrize("kind", ["plain", "pack", "unpack", "both"])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
async def test_gradients_are_those_without_hooks(program: Any, kind: str):
    x = leaf_of(VALUES)
    with Store().hooks(kind):
        loss = program(x).sum()
    await loss.backward()
    assert x.grad.tolist() == expected_grad(program)


@pytest.mark.parametrize("kind", ["plain", "pack", "unpack", "both"])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_gradients_are_those_without_hooks_where_no_loop_runs(program: Any, kind: str):
    x = leaf_of(VALUES)
    with Store().hooks(kind):
        loss = program(x).sum()
    sync.backward(loss)

    assert x.grad.tolist() == expected_grad(program)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_second_derivatives_are_those_without_hooks(program: Any):
    def second(x: Any) -> Any:
        (g,) = sync.grad(program(x).sum(), [x], create_graph=True)
        sync.backward((g * g).sum())
        return x.grad.numpy()

    x = leaf_of(VALUES)
    with Store().hooks():
        packed = second(x)
    np.testing.assert_allclose(packed, second(leaf_of(VALUES)))


def test_the_node_of_a_base_shows_what_the_write_into_its_view_saved():
    x = leaf(1.0, 2.0)
    y = x * 1.0
    view = y[:1]
    view *= x[1:]
    store = Store()
    saved = y.grad_fn.saved_tensors

    assert (y.grad_fn.name, len(saved)) == ("CopySlices", 2)
    for one in saved:
        one.register_hooks(store.pack_later, store.unpack_later)
    sync.backward(y.sum())
    assert (len(store.unpacked), x.grad.tolist()) == (2, [2.0, 2.0])


def test_hooks_that_return_the_tensor_itself_see_no_later_write_of_the_same_operation():
    x = leaf_of(VALUES)
    with ag.graph.saved_tensors_hooks(as_is, as_is):
        y = x * 1.0
        y *= y
    sync.backward(y.sum())

    np.testing.assert_allclose(x.grad.numpy(), 2 * VALUES)
