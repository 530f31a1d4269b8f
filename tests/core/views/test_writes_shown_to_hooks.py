"""What a write in place shows to creation hooks and notes for anomaly mode: the node that stands in the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.graph import node_creation_hook
from tests.core.graph.saved.packing import as_is
from tests.support.functions import function
from tests.support.leaves import leaf


def doubling(target: Any) -> Any:
    def forward(ctx: Any, t: Any) -> Any:
        t *= 2
        ctx.mark_dirty(t)
        ctx.save_for_backward(t)
        return t

    return function(forward, lambda ctx, grad: grad * 2, name="Doubling").apply(target)


async def doubling_later(target: Any) -> Any:
    async def forward(ctx: Any, t: Any) -> Any:
        t *= 2
        ctx.mark_dirty(t)
        return t

    return await function(forward, lambda ctx, grad: grad * 2, name="Doubling").apply(target)


#: Writes into `t` from `x`, and the node that it makes of a tensor that is no view.
WRITES = {
    "*=": (lambda t, x: t.__imul__(x), "MultiplyBackward"),
    "**=": (lambda t, x: t.__ipow__(2), "PowerBackward"),
    "out=": (lambda t, x: np.multiply(t, x, out=t), "MultiplyBackward"),
    "copyto": (lambda t, x: np.copyto(t, x), "CopyBackwards"),
    "[indices] =": (lambda t, x: t.__setitem__([0, 1], x[:2] * 1), "AssignBackward"),
    "add.at": (lambda t, x: np.add.at(t, [0, 0], x[:2] * 1), "AddAtBackward"),
    "sort": (lambda t, x: t.sort(), "PickBackward"),
    "a Function": (lambda t, x: doubling(t), "DoublingBackward"),
}


def seen_in(write: Any, is_view: bool) -> tuple[list[Any], Any, Any]:
    """The nodes that a write shows, the tensor or the base that it wrote into, and the leaf."""
    x = leaf(1.0, 2.0, 3.0)
    y = x * 1
    target, factor = y[:] if is_view else y, x * 1
    seen: list[Any] = []
    with node_creation_hook(seen.append):
        write(target, factor)
    return seen, y, x


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_into_a_view_shows_the_node_of_its_base_and_not_the_one_that_it_takes_over(write):
    seen, y, _ = seen_in(write[0], is_view=True)

    assert y.grad_fn.name == "CopySlices"
    assert [node for node in seen if node.name == "CopySlices"] == [y.grad_fn]
    assert write[1] not in [node.name for node in seen]


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_into_no_view_shows_its_own_node_once(write):
    seen, y, _ = seen_in(write[0], is_view=False)

    assert y.grad_fn.name == write[1]
    assert [node for node in seen if node.name == write[1]] == [y.grad_fn]


@pytest.mark.parametrize("is_view", [False, True])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_every_node_that_is_shown_stands_in_the_graph_and_every_new_one_in_it_is_shown(write, is_view):
    x = leaf(1.0, 2.0, 3.0)
    seen: list[Any] = []
    with node_creation_hook(seen.append):
        y = x * 1
        target = y[:] if is_view else y
        write[0](target, x * 1)
        loss = y.sum()
    reached, waiting = set(), [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node not in reached:
            reached.add(node)
            waiting += [edge.node for edge in node.next_edges if edge.node is not None]

    assert reached <= set(seen)
    assert len(seen) == len(set(seen))


@pytest.mark.parametrize("is_view", [False, True])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_being_looked_at_changes_no_value_and_no_gradient(write, is_view):
    _, y, x = seen_in(write[0], is_view)
    sync.backward(y.sum())
    plain = leaf(1.0, 2.0, 3.0)
    z = plain * 1
    write[0](z[:] if is_view else z, plain * 1)
    sync.backward(z.sum())

    assert (y.tolist(), x.grad.tolist()) == (z.tolist(), plain.grad.tolist())


def test_what_is_shown_for_a_dirty_view_has_saved_all_that_the_function_saves():
    counts: list[int] = []
    view = (leaf(1.0, 2.0) * 1)[:1]
    with node_creation_hook(lambda node: counts.append(len(node.saved_tensors)) if node.name == "CopySlices" else None):
        doubling(view)

    assert counts == [1]


def test_what_a_dirty_views_function_saves_is_packed():
    x = leaf(1.0, 2.0)
    y = x * 1
    packed: list[Any] = []
    with ag.graph.saved_tensors_hooks(lambda t: packed.append(t.tolist()) or t, as_is):
        doubling(y[:1])
    sync.backward(y.sum())

    assert (packed, x.grad.tolist()) == ([[2.0]], [2.0, 1.0])


def test_a_result_that_cannot_become_the_views_node_is_shown_as_a_node_of_its_own():
    y = leaf(1.0, 2.0).astype(np.float32) * 1
    view, factor = y[:], leaf(3.0, 4.0) * 1
    seen: list[Any] = []
    with node_creation_hook(seen.append):
        view *= factor

    assert [node.name for node in seen] == ["MultiplyBackward", "CopySlices"]


def test_a_hook_that_raises_leaves_the_view_unwritten():
    def refuse(node: Any) -> None:
        raise KeyError(node.name)

    y = leaf(1.0, 2.0).astype(np.float32) * 1
    view, factor = y[:], leaf(3.0, 4.0) * 1
    with node_creation_hook(refuse), pytest.raises(KeyError, match="Multiply"):
        view *= factor

    assert (y.tolist(), y._version) == ([1.0, 2.0], 0)


# Anomaly mode.


@pytest.mark.parametrize("is_view", [False, True])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_anomaly_mode_notes_the_line_of_the_write(write, is_view):
    x = leaf(1.0, 2.0, 3.0)
    y = x * 1
    with ag.detect_anomaly():
        write[0](y[:] if is_view else y, x * 1)  # the line of the write
        stack = y.grad_fn.metadata["traceback_"]

    assert any("# the line of the write" in line for line in stack)


async def test_anomaly_mode_notes_the_line_that_applies_an_async_function_to_a_view():
    y = leaf(1.0, 2.0) * 1
    with ag.detect_anomaly():
        await doubling_later(y[:1])
    assert y.grad_fn.name == "CopySlices"
    assert any("doubling_later" in line for line in y.grad_fn.metadata["traceback_"])


def test_an_error_in_what_a_write_into_a_view_left_names_its_line():
    x = leaf(-1.0, 4.0)
    with ag.detect_anomaly(), np.errstate(all="ignore"):
        y = x * 0
        view = y[:1]
        np.sqrt(view, out=view)  # the line of the write
        with pytest.raises(RuntimeError) as raised:
            sync.backward((y * 0.0).sum())

    assert "CopySlices" in str(raised.value)
    assert any("# the line of the write" in note for note in raised.value.__notes__)
