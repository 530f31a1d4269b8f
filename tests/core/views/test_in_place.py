"""Writes in place into what has a history: the node of the write, hooks, what nodes have saved, and where= and out=."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ChangedTensorError
from tests.support.leaves import leaf, leaf_of
from tests.support.loops import one_loop
from tests.support.refusals import refused


def operate(name: str, t: Any, other: Any) -> Any:
    namespace = {"t": t, "other": other}
    exec(f"t {name} other", namespace)  # noqa: S102
    return namespace["t"]


OPERATORS = ["+=", "-=", "*=", "/=", "**=", "%="]


@pytest.mark.parametrize("on_view", [False, True])
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_in_place_has_the_gradients_of_the_operator(name, on_view):
    x, y = leaf(1.5, 2.5), leaf(1.25, 0.75)
    t = x * 1
    target = t[:] if on_view else t
    assert operate(name, target, y) is target
    sync.backward((t * t).sum(), retain_graph=True)

    again, beside = leaf(1.5, 2.5), leaf(1.25, 0.75)
    result = eval(f"again {name[:-1]} beside", {"again": again, "beside": beside})  # noqa: S307
    sync.backward((result * result).sum())

    assert t.tolist() == result.tolist()
    np.testing.assert_allclose(x.grad.numpy(), again.grad.numpy(), rtol=1e-14)
    np.testing.assert_allclose(y.grad.numpy(), beside.grad.numpy(), rtol=1e-14)


@pytest.mark.parametrize("on_view", [False, True])
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_in_place_can_be_differentiated_twice(name, on_view):
    def written(x: Any, y: Any) -> Any:
        t = x * 1
        return (operate(name, t[:] if on_view else t, y) ** 2).sum() + (t * x).sum()

    inputs = (leaf(1.5, 2.5), leaf(1.25, 0.75))

    assert sync.gradcheck(written, inputs) if hasattr(sync, "gradcheck") else ag.run(ag.gradcheck(written, inputs))
    assert ag.run(ag.gradgradcheck(written, inputs))


def a_view_of_a_view(x: Any) -> tuple[Any, Any]:
    t = x * 1
    return t, t[:][::-1]


def a_base_with_live_views(x: Any) -> tuple[Any, Any]:
    t = x * 1
    return t[1:], t


def a_base_that_required_no_grad(x: Any) -> tuple[Any, Any]:
    t = ag.tensor([1.5, 2.5])
    return t, t


@pytest.mark.parametrize("place", [a_view_of_a_view, a_base_with_live_views, a_base_that_required_no_grad])
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_in_place_is_recorded_wherever_it_writes(name, place):
    def written(x: Any, y: Any) -> Any:
        read, target = place(x)
        assert operate(name, target, y) is target
        return (read * read).sum() + (np.sin(target) * x).sum()

    # No quotient is a whole number, at which a remainder jumps.
    inputs = (leaf(1.5, 2.5), leaf(1.3, 0.8))

    assert sync.gradcheck(written, inputs)
    assert sync.gradgradcheck(written, inputs)


def test_matmul_in_place_and_floor_division_in_place():
    x = leaf_of([[1.0, 2.0], [3.0, 4.0]])
    t = x * 1
    t @= np.array([[0.0, 1.0], [1.0, 0.0]])
    sync.backward((t * [[1.0, 2.0], [3.0, 4.0]]).sum())
    assert (t.tolist(), x.grad.tolist()) == ([[2.0, 1.0], [4.0, 3.0]], [[2.0, 1.0], [4.0, 3.0]])

    y = leaf(5.0)
    t = y * 1
    t //= 2
    sync.backward(t.sum())
    assert (t.tolist(), y.grad.tolist()) == ([2.0], [0.0])


@pytest.mark.parametrize("name", ["&=", "|=", "^=", "<<=", ">>="])
def test_operators_of_integers_work_in_place_as_in_numpy(name):
    array = np.array([5, 6])
    t = ag.tensor(array)
    view = t[:1]
    operate(name, t, 3)

    assert t.tolist() == operate(name, array, 3).tolist()
    assert (t._version, view.tolist()) == (1, t.tolist()[:1])


def test_numpys_casting_errors_are_raised_and_change_nothing():
    whole, x = ag.tensor([1, 2]), leaf(1.0, 2.0)
    t = x * 1

    with pytest.raises(TypeError, match="Cannot cast"):
        whole += 0.5
    with pytest.raises(TypeError, match="Cannot cast"):
        t += 1j
    with pytest.raises(ValueError, match="broadcast"):
        t += np.ones((3, 2))
    assert (whole.tolist(), whole._version, t.tolist(), t._version) == ([1, 2], 0, [1.0, 2.0], 0)


def test_the_node_of_a_write_becomes_the_grad_fn_and_keeps_the_old_one_below():
    t = leaf(1.0, 2.0) * 1
    before = t.grad_fn
    t += 1

    assert (t.grad_fn.name, t.grad_fn.next_edges[0], t.is_leaf) == ("AddBackward", (before, 0), False)


def test_copyto_has_a_node_of_its_own_and_leaves_the_source_alone():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    source, t = x * 1, y * 1
    np.copyto(t, source)
    sync.backward((t * 5).sum())

    assert (t.grad_fn.name, source.grad_fn.name) == ("CopyBackwards", "MultiplyBackward")
    assert (x.grad.tolist(), y.grad.tolist()) == ([5.0, 5.0], [0.0, 0.0])


def test_a_copy_between_dtypes_and_shapes_gives_the_source_a_gradient_that_fits():
    x = leaf_of([[3.0]], np.float32)
    t = ag.tensor(np.zeros(4, complex))
    np.copyto(t, x)
    sync.backward((t * (2 + 1j)).real.sum())

    assert (x.grad.dtype, x.grad.tolist()) == (np.float32, [[8.0]])


def test_a_tensor_that_did_not_require_grad_does_once_it_was_written():
    x, t = leaf(1.0, 2.0), ag.tensor([3.0, 4.0])
    t *= x
    sync.backward(t.sum())

    assert (t.requires_grad, t.is_leaf, x.grad.tolist()) == (True, False, [3.0, 4.0])


def test_under_no_grad_a_write_changes_no_history():
    x = leaf(1.0, 2.0)
    t = x * 1
    node = t.grad_fn
    with ag.no_grad():
        t *= 5
        x += 1

    assert (t.grad_fn, t.tolist(), x.is_leaf, x.tolist()) == (node, [5.0, 10.0], True, [2.0, 3.0])


# Hooks.


def test_hooks_stay_with_the_old_value_and_a_retained_gradient_moves_to_the_new():
    x, seen = leaf(1.0), []
    t = x * 1
    t.register_hook(lambda grad: seen.append(("v0", grad.tolist())))
    t.retain_grad()
    t *= 3
    t.register_hook(lambda grad: seen.append(("v1", grad.tolist())))
    sync.backward(t.sum() * 5)

    assert (seen, t.retains_grad, t.grad.tolist()) == ([("v1", [5.0]), ("v0", [15.0])], True, [5.0])


def test_a_retained_gradient_of_a_base_moves_to_copy_slices():
    t = leaf(1.0, 2.0) * 1
    t.retain_grad()
    t[:1] *= 3
    sync.backward((t * 5).sum())

    assert (t.grad_fn.name, t.grad.tolist()) == ("CopySlices", [5.0, 5.0])


def test_an_edge_taken_before_a_write_leads_to_the_old_value():
    x = leaf(1.0, 2.0)
    t = x * 1
    edge = ag.graph.get_gradient_edge(t)
    t *= 2

    assert [grad.tolist() for grad in sync.grad(t.sum(), [edge, t])] == [[2.0, 2.0], [1.0, 1.0]]


# What nodes have saved.


def test_the_nodes_own_saved_value_is_the_one_before_the_write():
    x = leaf(2.0, 3.0)
    t = x * 1
    t *= t
    t *= t[::-1]
    t **= 2
    sync.backward(t.sum())

    assert t.tolist() == [1296.0, 1296.0]
    np.testing.assert_allclose(x.grad.numpy(), [4 * 1296 * 2 / 2.0, 4 * 1296 * 2 / 3.0])


def test_what_another_node_saved_raises():
    x = leaf(2.0, 3.0)
    t = x * 1
    square = t * t
    t += 1

    with refused(ChangedTensorError, RuntimeError, "MultiplyBackward", "shape (2,)", "version 1", "version 0"):
        sync.backward(square.sum())


def test_a_result_that_a_node_saved_may_be_written_over():
    x = leaf(0.5, 1.0)
    t = x * 1
    np.exp(t, out=t)
    t += 1
    sync.backward(t.sum())

    np.testing.assert_allclose(x.grad.numpy(), np.exp([0.5, 1.0]))


# out= and where=.

OUTS = {
    "ufunc": lambda x, out: np.multiply(x, 3, out=out),
    "ufunc of the destination": lambda x, out: np.multiply(out, x, out=out),
    "the destination second": lambda x, out: np.subtract(x, out, out=out),
    "cumsum": lambda x, out: np.cumsum(x, out=out),
    "clip": lambda x, out: np.clip(x, 0.2, 0.9, out=out),
    "concatenate": lambda x, out: np.concatenate([x[:1], out[1:]], out=out),
    "einsum that does nothing": lambda x, out: np.einsum("i->i", x, out=out),
    "take": lambda x, out: np.take(x, [1, 1], out=out),
    "sum into each": lambda x, out: np.sum(x[None], axis=0, out=out),
    "where": lambda x, out: np.divide(out, x, out=out, where=np.array([True, False])),
}


@one_loop
@pytest.mark.parametrize("on_view", [False, True])
@pytest.mark.parametrize("call", OUTS.values(), ids=OUTS)
async def test_what_is_written_to_out_has_the_history_of_the_result(call, on_view):
    def written(x: Any, y: Any) -> Any:
        t = y * 1
        out = t[:] if on_view else t
        assert call(x * 1, out) is out
        return (t * t).sum()

    arrays = np.array([0.5, 0.75]), np.array([1.5, -2.0])
    plain = np.array(arrays[1])
    call(arrays[0], plain)
    t = ag.tensor(arrays[1], requires_grad=True) * 1
    call(leaf_of(arrays[0]), t)

    assert t.tolist() == plain.tolist()
    assert await ag.gradcheck(written, [leaf_of(array) for array in arrays])
    assert await ag.gradgradcheck(written, [leaf_of(array) for array in arrays])


def test_where_computes_nothing_elsewhere_and_no_infinite_derivative_leaks_in():
    x, y = leaf(0.0, 4.0), leaf(7.0, 8.0)
    out = y * 1
    np.sqrt(x, out=out, where=x.numpy() > 0)
    np.divide(1.0, x, out=out[:], where=x.numpy() > 0)
    sync.backward(out.sum())

    assert (out.tolist(), x.grad.tolist(), y.grad.tolist()) == ([7.0, 0.25], [0.0, -0.0625], [1.0, 0.0])


def test_a_function_of_two_results_writes_both():
    x = leaf(2.5, -1.5)
    whole, rest = ag.tensor([0.0, 0.0]), ag.tensor([0.0, 0.0])
    np.divmod(x, 2.0, out=(whole, rest))
    sync.backward(rest.sum())

    assert (whole.tolist(), rest.tolist(), x.grad.tolist()) == ([1.0, -1.0], [0.5, 0.5], [1.0, 1.0])


def test_sort_and_partition_in_place_send_gradients_back_the_way_the_elements_came():
    for change in (lambda t: t.sort(), lambda t: t.partition(1)):
        x = leaf(3.0, 1.0, 2.0)
        t = x * 1
        change(t[:])
        sync.backward((t * [1.0, 10.0, 100.0]).sum())

        assert (t.tolist(), x.grad.tolist()) == ([1.0, 2.0, 3.0], [100.0, 1.0, 10.0])


# Nothing is left for the garbage collector.


def write_own_view(t: Any) -> None:
    t[:1] *= t[1:]


CYCLES = {
    "+= on a tensor": lambda t: operate("*=", t, t),
    "+= on a view": lambda t: operate("*=", t[:], t[:]),
    "by another part": write_own_view,
    "exp out=": lambda t: np.exp(t, out=t),
    "exp out= of a view": lambda t: np.exp(t[:1], out=t[:1]),
    "assign": lambda t: t.__setitem__(0, t[1]),
    "assign by a list": lambda t: t.__setitem__([0], t[[1]]),
    "power": lambda t: operate("**=", t[:], t[::-1]),
}


@pytest.mark.slow
@pytest.mark.parametrize("runs", [False, True], ids=["dropped", "run backward"])
@pytest.mark.parametrize("write", CYCLES.values(), ids=CYCLES)
def test_a_graph_with_writes_is_freed_without_the_garbage_collector(write, runs):
    gc.collect()
    gc.disable()
    try:
        x = leaf(1.5, 2.5)
        t = x * 1
        view = t[:]
        write(t)
        kept = [weakref.ref(value) for value in (t, view, t.grad_fn, view.grad_fn)]
        if runs:
            sync.backward(t.sum() + view.sum())
        del t, view
        assert [reference() for reference in kept] == [None] * 4
    finally:
        gc.enable()


@pytest.mark.slow
def test_a_long_chain_of_writes_is_run_and_dropped_without_recursion():
    x = leaf(1.0, 2.0, 3.0)
    t = x * 1
    part = t[1:]
    for _ in range(20_000):
        part += 1e-3
        part *= 1.0
    sync.backward(t.sum())

    assert x.grad.tolist() == [1.0, 1.0, 1.0]
    for _ in range(20_000):
        part += 1
    del t, part
