"""asyncgrad.func.vmap: a function of one row for a batch, against a loop, bit for bit."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import func as async_func
from asyncgrad import nn, sync
from asyncgrad.errors import ArgumentError, ArgumentTypeError, BlockingError, GradientTypeError
from asyncgrad.sync import func
from tests.tracing.running import bits

ROWS = np.random.default_rng(0).standard_normal((5, 3, 2))
WEIGHT = np.random.default_rng(1).standard_normal(2)


def layer(w: Any, x: Any) -> Any:
    return np.tanh(x @ w)


def loss(w: Any, x: Any, y: Any) -> Any:
    return ((np.tanh(x @ w) - y) ** 2).mean()


async def double(x: Any) -> Any:
    await asyncio.sleep(0)
    return x * 2


def same(one: Any, other: Any) -> bool:
    """Tell whether trees have the same structure, kinds and bits."""
    mine, structure = ag.tree.flatten(one)
    theirs, other_structure = ag.tree.flatten(other)
    return structure == other_structure and all(
        isinstance(a, ag.Tensor) is isinstance(b, ag.Tensor) and bits(a) == bits(b)
        for a, b in zip(mine, theirs, strict=True)
    )


# Rows.


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_rows_lie_along_an_axis(axis):
    rows = [layer(ROWS[0, 0, 0], row) if row.ndim == 0 else np.sin(row) for row in np.moveaxis(ROWS, axis, 0)]

    assert same(func.vmap(np.sin, in_axes=axis)(ROWS), np.stack(rows))


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_results_are_stacked_along_an_axis(axis):
    found = func.vmap(np.sin, out_axes=axis)(ROWS)

    assert bits(found) == bits(np.stack([np.sin(row) for row in ROWS], axis))


def test_an_argument_with_no_axis_is_the_same_in_all_rows():
    seen = []

    def noted(w, x):
        seen.append(w)
        return layer(w, x)

    found = func.vmap(noted, in_axes=(None, 0))(WEIGHT, ROWS)

    assert same(found, np.stack([layer(WEIGHT, row) for row in ROWS]))
    assert all(w is WEIGHT for w in seen)


def test_axes_and_results_are_trees():
    def step(params, batch):
        return {"out": params["w"] * batch[0] + params["b"], "both": [batch[0], batch[1]]}

    params = {"w": ROWS, "b": np.float64(2.0)}
    found = func.vmap(step, in_axes=({"w": 0, "b": None}, [0, 1]), out_axes={"out": 1, "both": 0})(
        params, [ROWS, np.moveaxis(ROWS, 0, 1)]
    )

    expected = [step({"w": row, "b": 2.0}, [row, row]) for row in ROWS]
    assert same(found["out"], np.stack([one["out"] for one in expected], 1))
    assert same(found["both"], [ROWS, ROWS])


def test_an_axis_stands_for_a_whole_tree():
    tree = {"a": ROWS, "b": [ROWS, None]}

    found = func.vmap(lambda t, s: (t["a"] + t["b"][0]) * s["a"], in_axes=(0, None))(tree, {"a": 2.0})

    assert same(found, 2.0 * (ROWS + ROWS))


def test_rows_of_keyword_arguments_lie_along_axis_0():
    found = func.vmap(layer, in_axes=(None,))(WEIGHT, x=ROWS)

    assert same(found, np.stack([layer(WEIGHT, row) for row in ROWS]))


def test_rows_of_numbers_are_arrays_without_axes():
    kinds = []

    def noted(x):
        kinds.append((type(x), x.shape))
        return x * 2

    assert same(func.vmap(noted)(np.arange(3.0)), np.arange(3.0) * 2)
    assert kinds == [(np.ndarray, ())] * 3


def test_numbers_of_python_are_stacked_and_other_things_refused():
    assert same(func.vmap(lambda x: float(x[0, 0]))(ROWS), ROWS[:, 0, 0].copy())
    assert same(func.vmap(lambda x: (len(x), None))(ROWS), (np.array([3] * 5), None))
    with pytest.raises(GradientTypeError, match="the result for row 0 must be a tensor, an array or a number, not str"):
        func.vmap(lambda x: "text")(ROWS)


def test_what_is_the_same_in_all_rows_may_come_back_once():
    found = func.vmap(lambda w, x: (w, x), in_axes=(None, 0), out_axes=(None, 0))(WEIGHT, ROWS)

    assert same(found, (WEIGHT, ROWS))
    with pytest.raises(ArgumentError, match="must be the same for all rows"):
        func.vmap(np.sin, out_axes=None)(ROWS)


def test_an_array_in_two_places_is_one_row():
    assert func.vmap(lambda x, y: np.float64(x is y))(ROWS, ROWS).tolist() == [1.0] * 5
    assert func.vmap(lambda x, y: np.float64(x is y), in_axes=(0, -3))(ROWS, ROWS).tolist() == [1.0] * 5


def test_tensors_come_back_as_tensors_and_dtypes_stay():
    rows = ag.tensor(ROWS.astype(np.float32))

    found = func.vmap(np.sin)(rows)

    assert isinstance(found, ag.Tensor)
    assert same(found, np.stack([np.sin(row) for row in rows]))


def test_maps_nest():
    outer = func.vmap(func.vmap(lambda a, b: a * b, in_axes=(0, None)), in_axes=(None, 0))

    assert same(outer(np.arange(3.0), np.arange(1.0, 3.0)), np.outer(np.arange(1.0, 3.0), np.arange(3.0)))


# Derivatives.


def test_gradients_flow_to_batched_and_to_captured_tensors():
    def total(map_rows):
        w, x = ag.tensor(WEIGHT, requires_grad=True), ag.tensor(ROWS, requires_grad=True)
        shift = ag.tensor(0.5, requires_grad=True)
        value = (map_rows(lambda w, x: layer(w, x) + shift, w, x) ** 2).sum()
        return [bits(one) for one in sync.grad(value, [w, x, shift])]

    mapped = total(lambda f, w, x: func.vmap(f, in_axes=(None, 0))(w, x))

    assert mapped == total(lambda f, w, x: np.stack([f(w, row) for row in x]))


def test_second_derivatives_agree_with_differences():
    def map_all(w, x):
        return func.vmap(layer, in_axes=(None, 1), out_axes=1)(w, x)

    inputs = tuple(ag.tensor(one, requires_grad=True) for one in (WEIGHT, ROWS[:2]))
    assert sync.gradcheck(map_all, inputs)
    assert sync.gradgradcheck(map_all, inputs)


def test_the_map_of_a_gradient_is_the_gradient_of_each_example():
    targets = np.random.default_rng(2).standard_normal((5, 3))
    mapped = func.vmap(func.value_and_grad(loss, (0, 1)), in_axes=(None, 0, 0))

    values, gradients = mapped(WEIGHT, ROWS, targets)

    expected = [func.value_and_grad(loss, (0, 1))(WEIGHT, *pair) for pair in zip(ROWS, targets, strict=True)]
    assert same(values, np.stack([value for value, _ in expected]))
    assert same(gradients, tuple(np.stack(part) for part in zip(*[one for _, one in expected], strict=True)))


def test_the_gradient_of_a_map_of_gradients():
    def penalty(w):
        return (func.vmap(func.grad(loss), in_axes=(None, 0, 0))(w, ROWS, np.zeros((5, 3))) ** 2).sum()

    def penalty_by_loop(w):
        return (np.stack([func.grad(loss)(w, row, np.zeros(3)) for row in ROWS]) ** 2).sum()

    assert same(func.grad(penalty)(WEIGHT), func.grad(penalty_by_loop)(WEIGHT))


def test_a_model_is_the_same_in_all_rows_or_one_of_many():
    ag.random.seed(0)
    models = [nn.Linear(2, 2) for _ in range(3)]
    many = ag.tree.map(lambda *leaves: np.stack(leaves), *models)

    with ag.no_grad():
        found = func.vmap(lambda model, x: model(x), in_axes=(None, 0))(models[0], ROWS)
        of_many = func.vmap(lambda model, x: model(x), in_axes=(0, None))(many, ROWS[0])

        assert same(found, np.stack([models[0](row) for row in ROWS]))
        assert same(of_many, np.stack([model(ROWS[0]) for model in models]))


# What is awaited.


async def test_what_is_awaited_is_awaited_for_each_row():
    mapped = async_func.vmap(double)

    assert inspect.iscoroutinefunction(mapped)
    assert same(await mapped(ROWS), ROWS * 2)


async def test_the_map_of_a_transform_is_awaited():
    mapped = async_func.vmap(async_func.grad(loss), in_axes=(None, 0, 0))

    found = await mapped(WEIGHT, ROWS, np.zeros((5, 3)))

    assert same(found, func.vmap(func.grad(loss), in_axes=(None, 0, 0))(WEIGHT, ROWS, np.zeros((5, 3))))


async def test_a_function_that_returns_an_awaitable_is_awaited():
    mapped = async_func.vmap(lambda x: async_func.grad(np.sin)(x))

    assert same(await mapped(np.arange(3.0)), np.cos(np.arange(3.0)))


async def test_a_map_of_a_plain_function_is_a_plain_function():
    assert same(async_func.vmap(np.sin)(ROWS), np.sin(ROWS))

    async def total(x):
        return async_func.vmap(np.sin)(x).sum()

    assert same(await async_func.grad(total)(ROWS), np.cos(ROWS))


async def test_a_map_that_is_cancelled_leaves_nothing_half_done():
    w = ag.tensor(WEIGHT, requires_grad=True)
    begun, done = asyncio.Event(), []

    async def slow(x):
        if len(done) == 2:
            begun.set()
            await asyncio.Event().wait()
        done.append(x)
        return layer(w, x)

    mapped = async_func.vmap(slow)
    task = asyncio.create_task(mapped(ROWS))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    done[:] = [None] * 3

    assert w.grad is None
    assert same(await mapped(ROWS), np.stack([layer(w, row) for row in ROWS]))


async def test_a_blocking_map_that_would_wait_is_refused_within_a_loop():
    with pytest.raises(BlockingError, match=r"await ag\.func\.vmap"):
        func.vmap(double)(ag.tensor([1.0]))


def test_a_blocking_map_waits():
    assert func.vmap(double)(ag.tensor([1.0, 2.0])).tolist() == [2.0, 4.0]


# What is refused.


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no function": (lambda: func.vmap(3), ArgumentTypeError, "takes a function as its first argument"),
    "swapped": (lambda: func.vmap(0, np.sin), ArgumentTypeError, "swapped"),
    "an axis of another type": (
        lambda: func.vmap(np.sin, in_axes=1.5),
        ArgumentTypeError,
        r"in_axes must be an int, None or a tree of them, not float 1\.5",
    ),
    "no axis": (lambda: func.vmap(np.sin, in_axes=None), ArgumentError, "at least one argument"),
    "none of them": (lambda: func.vmap(np.sin, in_axes=(None,))(ROWS), ArgumentError, "at least one array"),
    "too few entries": (
        lambda: func.vmap(layer, in_axes=(0,))(WEIGHT, ROWS),
        ArgumentError,
        "one entry for each of the 2 positional arguments",
    ),
    "an axis that is not there": (
        lambda: func.vmap(layer, in_axes=(None, 3))(WEIGHT, ROWS),
        ArgumentError,
        r"x has shape \(5, 3, 2\), and no axis 3: write None in its place",
    ),
    "another number of rows": (
        lambda: func.vmap(lambda p, x: x)({"w": ROWS}, ROWS[:4]),
        ArgumentError,
        r"x must have 5 rows, as p\['w'\] has along axis 0, but has 4 along axis 0",
    ),
    "no rows": (lambda: func.vmap(np.sin)(ROWS[:0]), ArgumentError, "has no rows along axis 0"),
    "a number": (
        lambda: func.vmap(layer)(2.0, ROWS),
        ArgumentTypeError,
        r"w must be a tensor or an array, not float 2\.0: write None in its place in in_axes",
    ),
    "another structure of axes": (
        lambda: func.vmap(lambda p: p, in_axes=({"b": 0},))({"a": ROWS}),
        ArgumentError,
        r"in_axes of p has no \['a'\]",
    ),
    "a tree of axes for an array": (
        lambda: func.vmap(np.sin, in_axes=([0],))(ROWS),
        ArgumentError,
        "must be an int or None",
    ),
    "rows of other shapes": (
        lambda: func.vmap(lambda x: np.ones(int(x)))(np.arange(3)),
        ArgumentError,
        r"one shape for all rows, but has \(0,\) for row 0 and \(1,\) for row 1",
    ),
    "rows of other structures": (
        lambda: func.vmap(lambda x: [x] if x > 1 else (x,))(np.arange(3)),
        ArgumentError,
        "what the function returns for row 2 is a list",
    ),
    "no place for the rows": (
        lambda: func.vmap(np.sin, out_axes=4)(ROWS),
        ArgumentError,
        "among which out_axes names axis 4",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_mistake_is_said(case):
    call, error, message = REFUSED[case]

    with pytest.raises(error, match=message):
        call()


def test_an_error_of_the_function_is_its_own():
    def fails(x):
        raise ZeroDivisionError(f"row {x[0, 0] == ROWS[0, 0, 0]}")

    with pytest.raises(ZeroDivisionError, match="row True"):
        func.vmap(fails)(ROWS)


def test_a_map_has_the_name_and_the_signature_of_its_function():
    mapped = async_func.vmap(layer)

    assert mapped.__name__ == "layer"
    assert mapped.__qualname__ == "ag.func.vmap(layer)"
    assert list(inspect.signature(mapped).parameters) == ["w", "x"]
    assert same(func.vmap(functools.partial(layer, WEIGHT))(ROWS), np.stack([layer(WEIGHT, row) for row in ROWS]))
