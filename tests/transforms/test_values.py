"""Transforms of functions of values, which are no arrays: their gradients are those of `ag.grad`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.arrays.value_type import VALUES
from asyncgrad.errors import GradientTypeError, GraphError, InvalidRootError, RequiresGradError
from asyncgrad.extend import ValueType, register_value
from asyncgrad.values import Feedback, Text

Notes = tuple[str, ...]


class Noted(ValueType):
    """Values whose gradients are tuples of notes."""

    def seed(self, description: object) -> Notes:
        return ("good",)

    def zero(self, description: object) -> Notes:
        return ()

    def add(self, first: Notes, second: Notes) -> Notes:
        return first + second


class Shout(ag.Function):
    """The text in capitals."""

    @staticmethod
    async def forward(ctx: Any, text: ag.Value) -> ag.Value:
        return ag.Value(str(text.value).upper(), text.type)

    @staticmethod
    async def backward(ctx: Any, notes: Notes) -> tuple[Notes]:
        return (tuple(f"{note}!" for note in notes),)


class Praise(ag.Function):
    """A text of which feedback is doubted."""

    @staticmethod
    def forward(ctx: Any, text: ag.Value) -> ag.Value:
        return ag.Value(f"{text.value} Well done.", text.type)

    @staticmethod
    def backward(ctx: Any, feedback: tuple[Feedback, ...]) -> tuple[Any]:
        return (tuple(Feedback(f"{one.text}?", one.source) for one in feedback),)


class Weighed(ag.Function):
    """The length of a text times a number."""

    @staticmethod
    def forward(ctx: Any, text: ag.Value, weight: ag.Tensor) -> np.ndarray:
        ctx.length = len(text.value)
        ctx.save_for_backward(weight)
        return np.asarray(weight.numpy() * ctx.length)

    @staticmethod
    def backward(ctx: Any, grad: ag.Tensor) -> tuple[Notes, ag.Tensor]:
        (weight,) = ctx.saved_tensors
        return (f"times {weight.item()}",), grad * ctx.length


class Quantity(NamedTuple):
    """A value that is a container."""

    number: float
    unit: str


async def loss(parts: dict[str, Any]) -> Any:
    """A number of a text and a weight."""
    return Weighed.apply(await Shout.apply(parts["text"]), parts["weight"] ** 2)


@pytest.mark.parametrize("requires_grad", [False, True])
async def test_gradients_of_values_are_those_of_ag_grad(requires_grad: bool) -> None:
    text, weight = ag.leaf("abc", type=Noted(), requires_grad=requires_grad), ag.tensor(3.0)
    parts = {"text": text, "weight": weight, "unused": ag.Value("d", Noted())}
    leaves = ag.leaf("abc", type=Noted()), ag.tensor(3.0, requires_grad=True)
    notes, slope = await ag.grad(await loss({"text": leaves[0], "weight": leaves[1]}), leaves)
    assert notes == ("times 9.0!",)

    for transform in (ag.func.value_and_grad, ag.value_and_grad):
        value, found = await transform(loss)(parts)
        assert (value.item(), value.requires_grad) == (27.0, False)
        assert (found["text"], found["weight"].item(), found["unused"]) == (notes, slope.item(), ())
    assert (await ag.func.grad(loss)(parts))["text"] == notes
    out, pullback = await ag.func.vjp(loss, parts)
    for times in (1.0, 10.0):
        (found,) = await pullback(times)
        assert (out.item(), found["text"], found["weight"].item()) == (27.0, notes, times * slope.item())
    assert (text.grad, text.requires_grad) == (None, requires_grad)


async def test_functions_may_return_values() -> None:
    text = ag.leaf("abc", type=Noted())
    value, found = await ag.func.value_and_grad(Shout.apply)(text)
    assert (value.value, value.grad_fn, found) == ("ABC", None, ("good!",))

    async def both(text: ag.Value, weight: Any) -> dict[str, Any]:
        return {"loud": await Shout.apply(text), "number": [Weighed.apply(text, weight)]}

    out, pullback = await ag.func.vjp(both, text, 2.0)
    assert (out["loud"].value, out["number"][0].item()) == ("ABC", 6.0)
    notes, slope = await pullback({"loud": ("long",), "number": [10.0]})
    assert (notes, slope) == (("times 2.0", "long!"), 30.0)


async def test_feedback_starts_a_pullback() -> None:
    prompt = ag.leaf("Be brief.", type=Text())
    _, pullback = await ag.func.vjp(Praise.apply, prompt)
    assert await pullback("dull") == ((Feedback("dull?"),),)
    assert await pullback([Feedback("dull", "reader"), "long"]) == ((Feedback("dull?", "reader"), Feedback("long?")),)
    with pytest.raises(InvalidRootError, match=r"a value of type Text.* write out, pullback = await ag\.func\.vjp"):
        await ag.func.grad(Praise.apply)(prompt)


async def test_second_derivatives_pass_by_values() -> None:
    text = ag.leaf("abc", type=Noted())

    async def slope(weight: Any) -> Any:
        return (await ag.func.grad(loss)({"text": text, "weight": weight}))["weight"]

    assert await ag.func.grad(slope)(3.0) == 6.0

    async def value_inside(text: ag.Value) -> Any:
        value, _ = await ag.func.value_and_grad(Weighed.apply, 1)(text, 2.0)
        return value

    assert await ag.func.grad(value_inside)(text) == ("times 2.0",)


async def test_an_object_of_a_registered_class_is_a_value_though_it_is_a_container() -> None:
    register_value(Quantity, Noted())
    try:
        value, found = await ag.func.value_and_grad(lambda d: Shout.apply(d["speed"]))({"speed": Quantity(1.0, "m")})
    finally:
        del VALUES[Quantity]
    assert (value.value, found) == ("QUANTITY(NUMBER=1.0, UNIT='M')", {"speed": ("good!",)})


@pytest.mark.parametrize(
    "transform", [ag.func.jacrev, ag.func.jacfwd, ag.func.hessian, ag.func.hvp, ag.func.elementwise_grad]
)
async def test_transforms_of_numbers_say_which_ones_take_values(transform: Any) -> None:
    text = ag.leaf("abc", type=Noted())
    arguments = (text, text) if transform is ag.func.hvp else (text,)
    with pytest.raises(GradientTypeError, match=r"must be a tensor, .* ag\.func\.grad or ag\.func\.vjp"):
        await transform(Shout.apply)(*arguments)
    with pytest.raises(GradientTypeError, match=r"must be a tensor .* ag\.func\.grad or ag\.func\.vjp"):
        await ag.jacobian(Shout.apply, text)


async def test_gradcheck_of_values_says_what_to_check() -> None:
    text, number = ag.leaf("abc", type=Noted()), ag.tensor(2.0, requires_grad=True)
    advice = "by a Function that makes the value of them and one that reads it"
    for check in (ag.gradcheck, ag.gradgradcheck):
        with pytest.raises(RequiresGradError, match=rf"a value of type Noted and no such tensor: .*{advice}"):
            await check(Shout.apply, text)
        with pytest.raises(
            GradientTypeError, match=rf"output 0 of the function must be a Tensor, not Value: .*{advice}"
        ):
            await check(lambda number: ag.Value("d", Noted()), number)
    assert await ag.gradcheck(Weighed.apply, (text, number))


@pytest.mark.parametrize("is_edge", [False, True])
def test_rows_of_gradients_of_values_are_refused(is_edge: bool) -> None:
    text = ag.leaf("abc", type=Noted())
    y = Weighed.apply(text, ag.tensor(2.0))
    wanted = ag.graph.get_gradient_edge(text) if is_edge else text
    with pytest.raises(GraphError, match=r"input 0 is a value of type Noted.* call ag.grad once for each row"):
        sync.grad(y, [wanted], np.ones(3), is_grads_batched=True)


def test_a_compiled_function_runs_as_it_is_where_it_takes_values() -> None:
    compiled = ag.jit(Weighed.apply)
    for text in ("a", "abc", "abc"):
        notes, slope = sync.func.grad(compiled, (0, 1))(ag.leaf(text, type=Noted()), 3.0)
        assert (notes, slope) == (("times 3.0",), float(len(text)))
