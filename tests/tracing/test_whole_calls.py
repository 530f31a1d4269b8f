"""Transforms of compiled functions: value and gradient by one program, with the bits of the function's own."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import errors, func, nn, sync
from tests.tracing.running import bits

RNG = np.random.default_rng(40)
PARAMS = {"w": RNG.standard_normal((3, 2)), "b": RNG.standard_normal(2)}
X = RNG.standard_normal((4, 3))

#: By name, an async transform of a function of parameters and of what is no parameter.
TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "value_and_grad": ag.value_and_grad,
    "func.value_and_grad": func.value_and_grad,
    "func.grad": func.grad,
    "two arguments": lambda fn: func.grad(fn, argnums=(0, 1)),
    "of a gradient": lambda fn: func.grad(lambda params, x: 1.0 * params["w"].sum() + fn(params, x)),
    "elementwise_grad": lambda fn: func.elementwise_grad(fn, argnums=1),
    "create_graph=False": lambda fn: ag.value_and_grad(fn, create_graph=False),
}


def loss(params: Any, x: Any) -> Any:
    return (np.tanh(x @ params["w"] + params["b"]) ** 2).mean()


def bits_of(result: Any) -> Any:
    return [bits(one) if isinstance(one, ag.Tensor) else bits(np.asarray(one)) for one in ag.tree.leaves(result)]


@pytest.mark.parametrize("name", TRANSFORMS)
async def test_a_transform_of_a_compiled_function_has_the_bits_of_that_of_the_function(name):
    transform = TRANSFORMS[name]
    compiled, plain = transform(ag.jit(loss)), transform(loss)
    for step in range(7):
        params = {"w": PARAMS["w"] + step, "b": PARAMS["b"] * step}
        found, expected = await compiled(params, X - step), await plain(params, X - step)
        assert bits_of(found) == bits_of(expected)
        assert [type(one) for one in ag.tree.leaves(found)] == [type(one) for one in ag.tree.leaves(expected)]


async def test_value_and_gradient_are_one_program_also_where_the_transform_is_made_in_each_step():
    def loss_of_steps(params: Any, x: Any) -> Any:
        return loss(params, x)

    def counts() -> Counter[str]:
        return Counter(ag.jit.stats().get("ag.func.value_and_grad(loss_of_steps)"))

    jitted, before = ag.jit(loss_of_steps), counts()
    for _ in range(6):
        await func.value_and_grad(jitted)(PARAMS, X)
    found = counts() - before
    assert (found["calls"], found["replayed"]) == (6, 2)
    # The function itself is not traced besides.
    assert jitted.counts["calls"] == 0


async def test_gradients_of_gradients_are_one_program_too():
    def cube(x: Any) -> Any:
        return x**3 * 2.0

    twice = func.grad(func.grad(ag.jit(cube)))
    expected = func.grad(func.grad(cube))
    for step in range(6):
        assert await twice(1.5 + step) == await expected(1.5 + step)


async def test_a_gradient_that_is_differentiated_again_has_its_history():
    jitted = ag.jit(loss)
    w = ag.tensor(PARAMS["w"], requires_grad=True)
    for _ in range(6):
        _, gradient = await ag.value_and_grad(jitted)({"w": w, "b": PARAMS["b"]}, X)
        _, expected = await ag.value_and_grad(loss)({"w": w, "b": PARAMS["b"]}, X)
        (second,) = await ag.grad([(gradient["w"] ** 2).sum()], [w])
        (wanted,) = await ag.grad([(expected["w"] ** 2).sum()], [w])
        assert bits(second) == bits(wanted)


async def test_aux_comes_with_the_value_and_statistics_of_a_model_are_committed():
    def with_aux(model: Any, x: Any) -> Any:
        y = model(x)
        return (y**2).mean(), {"largest": y.detach().max()}

    models = [nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    transforms = [func.value_and_grad(fn, has_aux=True) for fn in (ag.jit(with_aux), with_aux)]
    for step in range(6):
        results = [await one(model, X + step) for one, model in zip(transforms, models, strict=True)]
        assert bits_of(results[0]) == bits_of(results[1])
    assert bits_of(models[0].state_dict()) == bits_of(models[1].state_dict())


async def test_a_method_is_compiled_with_its_object():
    class Scaled:
        def __init__(self) -> None:
            self.scale = 3.0

        def loss(self, x: Any) -> Any:
            return (x * self.scale).sum()

    scaled = Scaled()
    gradient = func.grad(ag.jit(scaled.loss))
    for _ in range(6):
        assert (await gradient(np.ones(2))).tolist() == [3.0, 3.0]
    scaled.scale = 4.0
    assert (await gradient(np.ones(2))).tolist() == [4.0, 4.0]


def test_blocking_transforms_run_by_a_program_too():
    jitted = ag.jit(loss)
    for transform in (sync.func.value_and_grad, sync.value_and_grad):
        compiled, plain = transform(jitted), transform(loss)
        for step in range(6):
            assert bits_of(compiled(PARAMS, X + step)) == bits_of(plain(PARAMS, X + step))
    assert jitted.counts["calls"] == 0


async def test_a_number_may_decide_otherwise_than_in_the_traced_run():
    def branching(x: Any) -> Any:
        return (x**2).sum() if x[0] > 0 else np.exp(x).sum()

    gradient, expected = func.grad(ag.jit(branching)), func.grad(branching)
    for step in range(12):
        x = np.array([(-1.0) ** step, 2.0 + step])
        assert bits_of(await gradient(x)) == bits_of(await expected(x))


async def test_errors_are_those_of_the_transform_of_the_function():
    gradient = func.grad(ag.jit(lambda x: x * 2.0))
    for _ in range(4):
        with pytest.raises(errors.InvalidRootError, match="must return one number"):
            await gradient(np.ones(2))
    with pytest.raises(errors.GradientTypeError, match="x must be a tensor"):
        await gradient("text")


async def test_a_call_that_is_cancelled_before_it_is_awaited_runs_nothing():
    model = nn.BatchNorm1d(2, affine=False)
    gradient = func.grad(ag.jit(lambda x: (model(x) ** 3).sum()))
    for _ in range(6):
        await gradient(X[:, :2])
    before = bits_of(model.state_dict())
    task = asyncio.ensure_future(gradient(X[:, :2]))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bits_of(model.state_dict()) == before


async def test_dropout_draws_the_same_numbers():
    layer = nn.Dropout(0.5)

    def dropped(x: Any) -> Any:
        return (layer(x) ** 2).sum()

    gradients = []
    for fn in (ag.jit(dropped), dropped):
        ag.random.seed(7)
        transformed = func.grad(fn)
        gradients.append([bits_of(await transformed(X)) for _ in range(6)])
    assert gradients[0] == gradients[1]
