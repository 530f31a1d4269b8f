"""Function: arguments and outputs that are trees of tensors and other things."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from typing import Any, NamedTuple

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import GradientTypeError, GraphError, InvalidGradientError
from tests.support.functions import function
from tests.support.leaves import leaf


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Layer:
    weight: Any
    name: str = dataclasses.field(default="layer", metadata={"static": True})


@ag.tree.register
class Box:
    def __init__(self, inside: Any) -> None:
        self.inside = inside


def tree_of(a: Any, b: Any) -> Any:
    """Two tensors in containers of all kinds, beside other things."""
    return {"pair": Pair(a, "text"), "rest": [(Layer(b), None), Box(3)]}


def two_of(tree: Any) -> Any:
    return tree["pair"].first, tree["rest"][0][0].weight


def multiplying_function(form: str, waits: bool) -> type[ag.Function]:
    """A Function from a tree of x and y, and z, to a tree of x * y, and y * z."""

    def compute(tree: Any, z: Any) -> Any:
        x, y = two_of(tree)
        return tree_of(x * y, y.numpy() * z.numpy())

    def set_up(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*two_of(inputs[0]), inputs[1])
        ctx.types = [type(leaf) for leaf in ag.tree.leaves(output)]

    def compute_and_save(ctx: Any, tree: Any, z: Any) -> Any:
        set_up(ctx, (tree, z), tree_of(tree["pair"].first, z))
        return compute(tree, z)

    def differentiate(ctx: Any, grad: Any) -> Any:
        x, y, z = ctx.saved_tensors
        to_product, to_array = two_of(grad)
        assert ctx.types == [ag.Tensor, str, ag.Tensor, int]
        assert ag.tree.leaves(grad["rest"][1]) == []
        return tree_of_gradients(to_product * y, to_product * x + to_array * z), to_array * y

    async def differentiate_later(ctx: Any, grad: Any) -> Any:
        await asyncio.sleep(0)
        return differentiate(ctx, grad)

    async def compute_later(*args: Any) -> Any:
        await asyncio.sleep(0)
        return (compute if form == "setup_context" else compute_and_save)(*args)

    forward = compute_later if waits else compute if form == "setup_context" else compute_and_save
    body: dict[str, Any] = {"forward": staticmethod(forward)}
    body["backward"] = staticmethod(differentiate_later if waits else differentiate)
    if form == "setup_context":
        body["setup_context"] = staticmethod(set_up)
    return type("Multiply", (ag.Function,), body)


def tree_of_gradients(a: Any, b: Any) -> Any:
    return {"pair": Pair(a, None), "rest": [(Layer(b), None), None]}


@pytest.mark.parametrize("waits", [False, True], ids=["def", "async def"])
@pytest.mark.parametrize("form", ["ctx", "setup_context"])
async def test_tensors_in_trees_get_gradients_to_any_order(form, waits):
    x, y, z = leaf(2.0, 3.0), leaf(5.0, 7.0), leaf(11.0, 13.0)
    given = tree_of(x, y)
    result = multiplying_function(form, waits).apply(given, z)
    out = await result if inspect.isawaitable(result) else result
    product, scaled = two_of(out)
    first = await ag.grad((product**2).sum() + scaled.sum(), [x, y, z], create_graph=True)
    (second,) = await ag.grad(first[0].sum(), [y])
    found = [one.tolist() for one in (product, scaled, *first, second)]

    assert (out["pair"].second, out["rest"][0][0].name, out["rest"][1].inside) == ("text", "layer", 3)
    assert found == [
        [10.0, 21.0],
        [55.0, 91.0],
        [100.0, 294.0],
        [51.0, 139.0],
        [5.0, 7.0],
        [40.0, 84.0],
    ]


@pytest.mark.parametrize("materialize", [True, False])
def test_undefined_gradients_of_a_tree_are_zeros_unless_the_function_asks_for_none(materialize):
    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(materialize)
        return x * 2, {"a": [x * 3, np.argmax(x.numpy()), np.array(["text"])], "b": 4.0}

    def backward(ctx: Any, g: Any, tree: Any) -> Any:
        seen.append([None if leaf is None else leaf.tolist() for leaf in (g, *tree["a"], tree["b"])])
        return tree["a"][0] * 3

    seen: list[Any] = []
    _, tree = function(forward, backward).apply(leaf(1.0, 2.0))
    sync.backward(tree["a"][0].sum())

    assert seen == [[[0.0, 0.0] if materialize else None, [1.0, 1.0], 0 if materialize else None, None, None]]
    assert (type(tree["a"][2]), tree["b"]) == (np.ndarray, 4.0)


def test_a_tree_of_arguments_tells_which_leaves_need_a_gradient():
    def forward(ctx: Any, *args: Any) -> Any:
        seen.append(ctx.needs_input_grad)
        return args[0]["w"] * 2

    seen: list[Any] = []
    function(forward).apply({"w": leaf(1.0), "b": [ag.tensor(1.0), 2]}, leaf(1.0), (1, 2))

    assert seen == [({"w": True, "b": [False, False]}, True, False)]


def test_a_container_without_tensors_passes_as_it_is():
    shape, info = [2, 3], {"name": "text", "nothing": None}
    seen: list[Any] = []

    def forward(ctx: Any, x: Any, given: Any) -> Any:
        seen.append(given)
        return x * 2, info

    y, returned = function(forward, lambda ctx, *grads: seen.append(grads[1]) or (grads[0] * 2, None)).apply(
        leaf(1.0), shape
    )
    sync.backward(y)

    assert seen == [shape, None]
    assert (seen[0] is shape, returned is info, y.grad_fn.num_inputs) == (True, True, 2)


@pytest.mark.parametrize(
    ("outputs", "kind"),
    [(lambda x: [x * 2, x * 3], list), (lambda x: Pair(x * 2, x * 3), Pair), (lambda x: (x * 2, x * 3), tuple)],
    ids=["list", "named tuple", "tuple"],
)
def test_a_sequence_of_outputs_stays_one_and_each_has_its_gradient(outputs, kind):
    x = leaf(1.0)
    made = function(lambda ctx, x: outputs(x), lambda ctx, g, h: g * 2 + h * 3).apply(x)
    sync.backward(made[0] + 10 * made[1])

    assert type(made) is kind
    assert x.grad.tolist() == [32.0]


def test_one_tensor_at_two_places_of_a_tree_gets_the_sum_of_both_gradients():
    x = leaf(3.0)
    made = function(lambda ctx, p: p["a"] * p["b"], lambda ctx, g: {"a": g * 10, "b": g * 100})
    sync.backward(made.apply({"a": x, "b": x}))

    assert x.grad.tolist() == [110.0]


def test_a_tensor_in_a_tree_may_be_written_into_marked_and_saved():
    def forward(ctx: Any, tree: Any) -> Any:
        x, y = tree
        x *= 2.0
        z = x * y
        ctx.mark_dirty(x)
        ctx.mark_non_differentiable({"y": y})
        ctx.save_for_backward(z)
        return {"x": x, "rest": [z, y]}

    def backward(ctx: Any, grads: Any) -> Any:
        (z,) = ctx.saved_tensors
        saved.append(z.grad_fn is out["rest"][0].grad_fn)
        return [grads["x"] * 2.0, grads["rest"][0]]

    saved: list[bool] = []
    a, b = leaf(1.0), leaf(5.0)
    x = a * 1.0
    out = function(forward, backward).apply([x, b])
    sync.backward((out["x"] * 3.0 + out["rest"][0]).sum())

    assert out["x"] is x
    assert out["rest"][1].requires_grad is False
    assert (a.grad.tolist(), b.grad.tolist(), saved) == ([6.0], [1.0], [True])


LISTS = {
    "the list": (lambda g: [g, g * 2], [1.0], [2.0]),
    "one for each argument": (lambda g: ([g, g * 2],), [1.0], [2.0]),
    "None beside it": (lambda g: ([g, g * 2], None), [1.0], [2.0]),
    "None for a leaf": (lambda g: [g, None], [1.0], None),
    "None for the list": (lambda g: None, None, None),
    "arrays": (lambda g: [g.numpy(), g.numpy() * 2], [1.0], [2.0]),
}


@pytest.mark.parametrize(("returned", "first", "second"), LISTS.values(), ids=LISTS)
def test_the_gradient_of_an_only_argument_may_be_a_list_itself(returned, first, second):
    a, b = leaf(1.0), leaf(2.0)
    sync.backward(function(lambda ctx, pair: pair[0] + 2 * pair[1], lambda ctx, g: returned(g)).apply([a, b]))

    assert [None if x.grad is None else x.grad.tolist() for x in (a, b)] == [first, second]


def test_a_tuple_for_an_only_argument_that_is_a_list_is_told_to_be_a_list():
    y = function(lambda ctx, pair: pair[0] * pair[1], lambda ctx, g: (g, g)).apply([leaf(1.0), leaf(2.0)])

    with pytest.raises(InvalidGradientError, match=r"2 gradients, and forward took 1 argument: .* is a list, as the"):
        sync.backward(y)


WRONG = {
    "a tensor": (
        lambda g: (g, None),
        InvalidGradientError,
        "argument 1 is a Tensor, but the argument has a dict there",
    ),
    "another key": (lambda g: ({"w": [g, g, None]}, None), InvalidGradientError, r"argument 1 has no \['b'\]"),
    "too long": (
        lambda g: ({"w": [g, g, None, g], "b": None}, None),
        InvalidGradientError,
        r"argument 1\['w'\] has \[3\], which the argument does not have there: return a tree like the argument",
    ),
    "a tuple": (lambda g: ({"w": (g, g), "b": None}, None), InvalidGradientError, r"\['w'\] is a tuple, but .* a list"),
    "a number": (lambda g: ({"w": [g, 2.0, None], "b": None}, None), GradientTypeError, r"argument 1\['w'\]\[1\] of"),
    "for a number": (
        lambda g: ({"w": [g, g, g], "b": None}, None),
        InvalidGradientError,
        r"argument 1\['w'\]\[2\] of forward, which was no tensor: return None there",
    ),
    "for a list of numbers": (lambda g: (None, [g]), InvalidGradientError, "for argument 2 of forward, which was no"),
    "too few": (lambda g: {"w": None}, InvalidGradientError, "1 gradient, and forward took 2 arguments"),
}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize(("returned", "error", "message"), WRONG.values(), ids=WRONG)
def test_a_gradient_that_does_not_fit_its_tree_is_named_by_its_path(returned, error, message, create_graph):
    made = function(lambda ctx, p, shape: p["w"][0] * p["b"], lambda ctx, g: returned(g))
    x, b = leaf(1.0), leaf(2.0)
    y = made.apply({"w": [x, b, 3], "b": b}, [1])

    with pytest.raises(error, match=rf"Made\.backward .*{message}"):
        sync.grad(y, [x], create_graph=create_graph)


@pytest.mark.parametrize("form", ["array", "once_differentiable"])
def test_a_gradient_in_a_tree_without_a_history_is_not_differentiated_in_silence(form):
    def backward(ctx: Any, grads: Any) -> Any:
        gradient = grads["y"] * 2.0
        return {"x": gradient.numpy() if form == "array" else gradient, "n": None}

    made = function(
        lambda ctx, p: {"y": p["x"] * 2.0}, ag.once_differentiable(backward) if form != "array" else backward
    )
    x = leaf(1.0)
    (gradient,) = sync.grad(made.apply({"x": x, "n": 1})["y"] ** 2, [x], create_graph=True)

    assert gradient.tolist() == [8.0]
    with pytest.raises(GraphError, match="was to be differentiated"):
        sync.grad(gradient, [x])
