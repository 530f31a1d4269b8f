"""What bad use of a backward gets: an error of the fitting type, that names the thing and says what to write."""

from __future__ import annotations

import array
import asyncio
import types
from collections import UserList, deque
from typing import Any, NamedTuple

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import (
    BlockingError,
    DeviceError,
    GradientTypeError,
    GraphError,
    InvalidGradientError,
    InvalidRootError,
    ReleasedGraphError,
    RequiresGradError,
    UnusedInputError,
)
from asyncgrad.graph import GradientEdge
from tests.support.elsewhere import ELSEWHERE
from tests.support.leaves import leaf, leaf_of
from tests.support.loops import on_each_loop
from tests.support.refusals import refused

# Roots.


def test_a_second_backward_names_the_node_and_retain_graph():
    x = leaf(1.0, 2.0)
    loss = (x * x).sum()
    sync.backward(loss)

    with refused(ReleasedGraphError, RuntimeError, "MultiplyBackward (node #", "loss.backward(retain_graph=True)"):
        sync.backward(loss)
    assert x.grad.tolist() == [2.0, 4.0]


def test_a_second_backward_through_what_saved_nothing_is_no_error():
    x = leaf(1.0, 2.0)
    y = x + 1
    sync.backward(y, np.ones(2))
    sync.backward(y, np.ones(2))

    assert x.grad.tolist() == [2.0, 2.0]


def test_a_root_that_is_no_scalar_needs_a_gradient():
    y = leaf(1.0, 2.0) * 2

    with refused(InvalidRootError, RuntimeError, "root 0", "shape (2,)", "MultiplyBackward", ".sum()", "gradient="):
        sync.backward(y)
    with refused(InvalidRootError, RuntimeError, "root 1", "shape (2,)"):
        sync.grad([y.sum(), y], [y])


def test_a_complex_root_needs_a_gradient():
    with refused(InvalidRootError, RuntimeError, "root 0", "dtype complex128", "complex"):
        sync.backward(ag.tensor(1j, requires_grad=True) * 2)


@pytest.mark.parametrize("make", [lambda x: ag.tensor(1.0), lambda x: x.detach() * 2, lambda x: x > 0])
def test_a_root_that_does_not_require_grad_is_named(make):
    with refused(InvalidRootError, RuntimeError, "root 0", "does not require grad", "requires_grad=True"):
        sync.backward(make(leaf(1.0)))


@pytest.mark.parametrize(
    "root",
    [1.0, np.ones(2), "x", None, object(), [1.0], {"loss": 1}, [[leaf(1.0)]]],
    ids=lambda root: type(root).__name__,
)
@pytest.mark.parametrize("call", [sync.backward, lambda root: sync.grad(root, [leaf(1.0)])], ids=["backward", "grad"])
def test_a_root_that_is_no_tensor_is_named(call, root):
    with refused(GradientTypeError, TypeError, "root 0", "must be a Tensor"):
        call(root)


def test_no_root_at_all_raises():
    with refused(InvalidRootError, RuntimeError, "at least one tensor"):
        sync.backward([])


# Gradients to start from.


@pytest.mark.parametrize(
    ("gradient", "error", "built_in", "parts"),
    [
        (np.ones(3), InvalidGradientError, RuntimeError, ["shape (3,)", "has shape (2,)"]),
        (np.ones((2, 1)), InvalidGradientError, RuntimeError, ["shape (2, 1)", "has shape (2,)"]),
        (1.0, InvalidGradientError, RuntimeError, ["shape ()", "has shape (2,)"]),
        (np.ones(2) * 1j, InvalidGradientError, RuntimeError, ["dtype complex128", "dtype float64"]),
        (np.array(["a", "b"]), InvalidGradientError, RuntimeError, ["dtype <U1", "dtype float64"]),
        (np.array([None, 1]), InvalidGradientError, RuntimeError, ["dtype object", "astype(float64)"]),
        (ag.tensor([1.0, 1.0], device=ELSEWHERE), InvalidGradientError, RuntimeError, ["'elsewhere'", ".to('cpu')"]),
        ([1.0, 1.0], InvalidGradientError, RuntimeError, ["1 root", "given 2", "a list has one for each root"]),
        ([np.ones(2), np.ones(2)], InvalidGradientError, RuntimeError, ["1 root", "given 2"]),
        ([], InvalidGradientError, RuntimeError, ["1 root", "given 0"]),
        ([[1.0, 1.0]], GradientTypeError, TypeError, ["must be a tensor or an array", "list [1.0, 1.0]"]),
        (object(), GradientTypeError, TypeError, ["must be a tensor or an array", "object"]),
    ],
    ids=[
        "length",
        "shape",
        "scalar",
        "complex",
        "strings",
        "objects",
        "device",
        "list",
        "two",
        "none",
        "nested",
        "type",
    ],
)
def test_a_gradient_that_does_not_fit_its_root_says_why(gradient, error, built_in, parts):
    x = leaf(1.0, 2.0)

    with refused(error, built_in, *parts):
        sync.backward(x * 2, gradient)
    with refused(error, built_in, *parts):
        sync.grad(x * 2, [x], gradient)
    assert x.grad is None


class TupleLike(NamedTuple):
    """Like a tuple, and not one of gradients."""

    first: Any
    second: Any = 1.0


TUPLE_LIKE = {
    "str": "ab",
    "one letter": "a",
    "bytes": b"ab",
    "named tuple": TupleLike(1.0, 1.0),
    "range": range(2),
    "buffer": array.array("d", [1.0, 1.0]),
    "memory": memoryview(np.ones(2)),
    "deque": deque([1.0, 1.0]),
    "list of a user's own": UserList([1.0, 1.0]),
}


@pytest.mark.parametrize("batched", [False, True], ids=["", "batched"])
@pytest.mark.parametrize("gradient", TUPLE_LIKE.values(), ids=TUPLE_LIKE)
def test_a_str_or_what_is_like_a_tuple_is_one_gradient_of_one_root(gradient, batched):
    x = leaf(1.0, 2.0)

    with refused(GradientTypeError, TypeError, "must be a tensor or an array", f"not {type(gradient).__name__}"):
        sync.grad(x * 2, [x], gradient, is_grads_batched=batched)
    if not batched:
        with refused(GradientTypeError, TypeError, "root 0", f"not {type(gradient).__name__}"):
            sync.backward(x * 2, gradient)
    assert x.grad is None


def test_a_str_is_one_gradient_of_roots_in_a_list_too():
    x = leaf(1.0, 2.0)

    with refused(GradientTypeError, TypeError, "root 0", "not str 'ab'"):
        sync.backward([x * 2], "ab")
    with refused(InvalidGradientError, RuntimeError, "2 roots", "given 1"):
        sync.backward([x * 2, x * 3], "ab")


def test_what_is_like_a_tuple_and_holds_gradients_has_one_for_each_root():
    x = leaf(1.0, 2.0)
    ones = np.ones(2)
    sync.backward(x * 2, UserList([ones]))
    sync.backward([x * 2, x * 3], TupleLike(ones, ones))
    sync.backward([(x * 2).sum(), (x * 3).sum()], range(1, 3))

    assert x.grad.tolist() == [15.0, 15.0]


# Gradient edges.

BAD_EDGES = {
    "no node": (lambda node: (None, 0), GraphError, ["leads to no node"]),
    "a tensor": (lambda node: (leaf(1.0, 2.0), 0), GradientTypeError, ["Tensor of shape (2,)", "not to a Node"]),
    "a str": (lambda node: ("node", 0), GradientTypeError, ["str 'node'", "not to a Node"]),
    "a class": (lambda node: (type(node), 0), GradientTypeError, ["not to a Node"]),
    "beyond": (lambda node: (node, 1), GraphError, ["edge 1 of MultiplyBackward, which made 1 output"]),
    "negative": (lambda node: (node, -1), GraphError, ["edge -1 of MultiplyBackward"]),
    "a str as number": (lambda node: (node, "0"), GradientTypeError, ["MultiplyBackward", "str '0'", "not an int"]),
    "a truth value": (lambda node: (node, False), GradientTypeError, ["bool False", "not an int"]),
    "no number": (lambda node: (node, None), GradientTypeError, ["NoneType None", "not an int"]),
}


@pytest.mark.parametrize(("made", "error", "parts"), BAD_EDGES.values(), ids=BAD_EDGES)
def test_an_edge_that_leads_nowhere_is_named_as_root_and_as_input(made, error, parts):
    x = leaf(1.0, 2.0)
    y = x * 2
    edge: Any = GradientEdge(*made(y.grad_fn))
    ones = np.ones(2)
    for call in (
        lambda: sync.backward(edge, ones),
        lambda: sync.backward([edge], [ones]),
        lambda: sync.grad(edge, [x], ones),
        lambda: sync.grad(edge, [x], ones[None], is_grads_batched=True),
    ):
        with refused(
            error,
            TypeError if error is GradientTypeError else RuntimeError,
            "root 0",
            "ag.graph.get_gradient_edge(t)",
            *parts,
        ):
            call()
    for call in (
        lambda: sync.backward(y, ones, inputs=edge),
        lambda: sync.backward(y, ones, inputs=[edge]),
        lambda: sync.grad(y, [edge], ones),
        lambda: sync.grad(y, {"edge": edge}, ones),
    ):
        with refused(
            error,
            TypeError if error is GradientTypeError else RuntimeError,
            "input 0",
            "ag.graph.get_gradient_edge(t)",
            *parts,
        ):
            call()
    assert x.grad is None


def test_an_edge_is_no_root_and_is_told_whole():
    x = leaf(1.0, 2.0)
    y: Any = x * 2

    with refused(GradientTypeError, TypeError, "root 0", "must be a Tensor or a GradientEdge, not Edge("):
        sync.backward(ag.graph.Edge(y.grad_fn, 0), np.ones(2))


def test_a_gradient_of_the_second_root_is_called_that():
    x = leaf(1.0, 2.0)

    with refused(InvalidGradientError, RuntimeError, "root 1", "shape (3,)", "MultiplyBackward"):
        sync.backward([x.sum(), x * 2], [None, np.ones(3)])


def test_a_gradient_of_another_real_dtype_is_cast():
    x = leaf_of([1.0, 2.0], np.float32)
    sync.backward(x * 2, np.ones(2))

    assert x.grad.dtype == np.float32


# Inputs.


def test_an_unused_input_is_named_by_its_place():
    x, other = leaf(1.0, 2.0), leaf(1.0, 2.0, 3.0)

    with refused(UnusedInputError, RuntimeError, "input 1", "shape (3,)", "allow_unused=True", "materialize_grads"):
        sync.grad(x.sum(), [x, other])


def test_an_input_that_does_not_require_grad_is_named():
    x = leaf(1.0)

    for call in (lambda t: sync.grad(x * 2, [x, t]), lambda t: sync.backward(x * 2, inputs=[x, t])):
        with refused(RequiresGradError, RuntimeError, "input 1", "shape (2,)", ".requires_grad_()"):
            call(ag.tensor([1.0, 2.0]))


@pytest.mark.parametrize("empty", [[], (), {}])
def test_no_inputs_raise(empty):
    x = leaf(1.0)

    for call in (lambda: sync.grad(x * 2, empty), lambda: sync.backward(x * 2, inputs=empty)):
        with refused(GraphError, RuntimeError, "inputs is empty"):
            call()


@pytest.mark.parametrize("wrong", [1.0, np.ones(2), "x", object()], ids=lambda wrong: type(wrong).__name__)
def test_an_input_that_is_no_tensor_is_named(wrong):
    x = leaf(1.0)

    for call in (lambda: sync.grad(x * 2, wrong), lambda: sync.backward(x * 2, inputs=wrong)):
        with refused(GradientTypeError, TypeError, "input 0", "must be a Tensor"):
            call()


def test_a_mapping_that_is_no_dict_raises():
    x = leaf(1.0)

    with pytest.raises(TypeError, match="mappingproxy"):
        sync.grad(x * 2, types.MappingProxyType({"x": x}))


def test_asking_for_zeros_and_for_an_error_at_once_raises():
    x = leaf(1.0)

    with pytest.raises(ValueError, match="allow_unused=False"):
        sync.grad(x * 2, [x], allow_unused=False, materialize_grads=True)


def test_an_edge_that_its_node_has_not_is_named():
    x = leaf(1.0)
    y = x * 2
    beyond = GradientEdge(y.grad_fn, 1)

    for call in (lambda: sync.backward(beyond, 1.0), lambda: sync.grad(y, [beyond])):
        with refused(GraphError, RuntimeError, "edge 1 of MultiplyBackward", "1 output", "get_gradient_edge"):
            call()


# Devices.


@pytest.mark.parametrize(
    "combine",
    [
        lambda a, b: a + b,
        lambda a, b: a @ b,
        lambda a, b: np.stack([a, b]),
        lambda a, b: np.concatenate([a, b]),
        lambda a, b: np.where(a > 0, a, b),
        lambda a, b: np.dot(a, b),
        lambda a, b: np.einsum("i,i", a, b),
        lambda a, b: a > b,
    ],
    ids=["+", "@", "stack", "concatenate", "where", "dot", "einsum", ">"],
)
def test_tensors_of_two_devices_do_not_mix(combine):
    here, there = leaf(1.0, 2.0), ag.tensor([1.0, 2.0], device=ELSEWHERE)

    with refused(DeviceError, RuntimeError, "'cpu'", "'elsewhere'", ".to('cpu')"):
        combine(here, there)


# Awaiting.


def test_a_backward_that_nobody_awaits_warns():
    x = leaf(1.0)
    y = x * 2

    for call in (y.backward, lambda: ag.backward(y), lambda: ag.grad(y, [x])):
        with pytest.warns(RuntimeWarning, match="never awaited"):
            call()
    assert x.grad is None


class Waits(ag.Function):
    """Its backward suspends."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    async def backward(ctx: Any, grad: Any) -> Any:
        await asyncio.sleep(0)
        return grad * 2


@on_each_loop
def test_a_blocking_backward_that_must_wait_in_a_running_loop_names_the_awaitable_form(run):
    async def main() -> Any:
        x = leaf(1.0)
        y = Waits.apply(x)
        with refused(BlockingError, RuntimeError, "WaitsBackward", "await ag.backward(...)"):
            sync.backward(y)
        before = x.grad
        await y.backward()
        return before, x.grad.tolist()

    assert run(main()) == (None, [2.0])
