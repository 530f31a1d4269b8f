"""What `functools.partial` makes is compiled as its function, with its arguments among those of each call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import errors, nn, optim
from tests.support.loops import one_loop
from tests.tracing.running import bits


def scaled(w: Any, x: Any, scale: Any = 1.0, mode: str = "sum") -> Any:
    y = np.tanh(x * w) * scale
    return y.sum() if mode == "sum" else y.mean()


class Model(nn.Module):
    def __init__(self) -> None:
        self.w = nn.Parameter(np.array([1.0, 2.0]))

    def forward(self, x: Any, scale: Any, mode: str = "sum") -> Any:
        return scaled(self.w, x, scale, mode)

    halved = functools.partialmethod(forward, scale=0.5)


class OwnPartial(functools.partial[Any]):
    """Of its own class, a partial of a partial is not joined with it."""


#: By name, what a model is made into: a function of an array.
PARTIALS: dict[str, Callable[[Model], Any]] = {
    "of a function": lambda model: functools.partial(scaled, model.w, scale=np.array(2.0), mode="mean"),
    "of a partial": lambda model: functools.partial(OwnPartial(scaled, model.w, scale=3.0), scale=2.0),
    "of a method": lambda model: functools.partial(model.forward, scale=2.0),
    "of a model": lambda model: functools.partial(model, scale=2.0, mode="mean"),
    "of a compiled function": lambda model: functools.partial(ag.jit(scaled), model.w),
    "of a partialmethod": lambda model: model.halved,
}


@one_loop
@pytest.mark.parametrize("name", PARTIALS)
async def test_a_partial_is_compiled_as_what_it_calls(name):
    model = Model()
    function = PARTIALS[name](model)
    jitted = ag.jit(function)
    step = ag.jit.train_step(function, optim.SGD(model, lr=0.5))
    for index in range(6):
        x = np.array([1.0, float(index)])
        expected = function(x)
        assert bits(jitted(x)) == bits(expected)
        (gradient,) = await ag.grad(expected, [model.w])
        new = model.w.numpy() - gradient.numpy() * 0.5
        assert bits(await step(x)) == bits(expected)
        assert bits(model.w) == bits(new)

    assert (jitted.counts["replayed"], step._jitted.counts["replayed"]) == (2, 2)
    assert ag.jit.explain(function, x).reason is ag.jit.explain(step, x).reason is None


def test_a_call_may_give_another_keyword_and_those_of_a_partial_may_change():
    w, x = ag.tensor([1.0, 2.0], requires_grad=True), np.array([0.5, 0.25])
    function = functools.partial(scaled, mode="mean", scale=2.0)
    jitted = ag.jit(function)
    for _ in range(6):
        assert bits(jitted(w, x)) == bits(function(w, x))
        assert bits(jitted(w, x, scale=3.0)) == bits(scaled(w, x, 3.0, "mean"))
    function.keywords["mode"] = "sum"

    assert bits(jitted(w, x)) == bits(scaled(w, x, 2.0))
    static = ag.jit(functools.partial(scaled, mode="mean"), static="mode")
    assert {bits(static(w, x)) for _ in range(6)} == {bits(scaled(w, x, mode="mean"))}
    assert static.counts["replayed"] == 2


@one_loop
async def test_transforms_take_a_compiled_partial():
    function = functools.partial(scaled, np.array([1.0, 2.0]), scale=2.0)
    jitted = ag.jit(function)
    gradient, eager = ag.func.value_and_grad(jitted), ag.func.value_and_grad(function)
    for index in range(6):
        x = np.array([1.0, float(index)])
        assert [*map(bits, await gradient(x))] == [*map(bits, await eager(x))]
        assert [*map(bits, await gradient(x, scale=3.0))] == [*map(bits, await eager(x, scale=3.0))]
    rows = np.arange(12.0).reshape(6, 2)

    assert bits(ag.func.vmap(jitted)(rows)) == bits(np.stack([function(row) for row in rows]))
    expected = np.stack([(await eager(row))[1] for row in rows])
    assert bits(await ag.func.vmap(ag.func.grad(jitted))(rows)) == bits(expected)


def test_a_partialmethod_is_refused_with_the_line_to_write():
    with pytest.raises(errors.ArgumentTypeError, match=r"write functools.partialmethod\(ag.jit\(forward\), ...\)"):
        ag.jit(vars(Model)["halved"])


@one_loop
async def test_what_a_transform_makes_and_a_map_follow_the_keywords_of_a_partial():
    w, x = ag.tensor([1.0, 2.0], requires_grad=True), np.array([0.5, 0.25])
    function = functools.partial(scaled, scale=2.0)
    gradient, expected = ag.func.grad(ag.jit(function)), ag.func.grad(scaled)
    mapped = ag.func.vmap(ag.jit(function), in_axes=(None, 0))
    for scale in (2.0, 3.0, 4.0):
        function.keywords["scale"] = scale
        for _ in range(5):
            assert bits(await gradient(w, x)) == bits(await expected(w, x, scale=scale))
            assert mapped(w, x).tolist() == [scaled(w, one, scale).item() for one in x]


def test_a_partial_of_a_partial_follows_the_keywords_of_both():
    w, x = ag.tensor([1.0, 2.0], requires_grad=True), np.array([0.5, 0.25])
    inner = OwnPartial(scaled, mode="mean")
    inner.name = "of its own, so that the outer one does not take it apart"
    outer = functools.partial(inner, w, scale=2.0)
    jitted = ag.jit(outer)
    changes = [("scale", 3.0, outer), ("mode", "sum", inner), ("scale", 5.0, inner)]
    for name, value, changed in changes:
        assert {bits(jitted(x)) for _ in range(5)} == {bits(outer(x))}
        changed.keywords[name] = value
    del outer.keywords["scale"]

    assert isinstance(outer.func, OwnPartial)
    assert bits(jitted(x)) == bits(outer(x)) == bits(scaled(w, x, 5.0))
