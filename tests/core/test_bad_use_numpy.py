"""A NumPy function without a derivative rule raises and is named, and no way into NumPy drops a history."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.ops import RULES
from asyncgrad.errors import (
    MissingDerivativeError,
    RequiresGradError,
)
from tests.support.leaves import leaf, leaf_of
from tests.support.refusals import refused


def functions_without_a_rule() -> dict[str, Any]:
    modules = {"numpy": np, "numpy.linalg": np.linalg, "numpy.fft": np.fft}
    return {
        f"{prefix}.{name}": function
        for prefix, module in modules.items()
        for name, function in vars(module).items()
        if hasattr(function, "_implementation")
        and (function.__name__, function.__module__) == (name, prefix)
        and function not in RULES
    }


MISSING = functions_without_a_rule()


@pytest.mark.parametrize("name", MISSING)
def test_a_function_without_a_rule_raises_and_is_named(name):
    x = leaf(1.0, 2.0)

    with refused(MissingDerivativeError, TypeError, name, "no derivative rule", "t.numpy()", "ag.Function"):
        x.__array_function__(MISSING[name], (ag.Tensor,), (x,), {})


def test_numpys_modules_for_linear_algebra_and_fourier_transforms_have_a_rule_for_every_function():
    assert {name.rpartition(".")[0] for name in MISSING} == {"numpy"}


@pytest.mark.parametrize(
    "name", sorted({u.__name__ for u in vars(np).values() if isinstance(u, np.ufunc) and u not in RULES})
)
def test_a_ufunc_without_a_rule_raises_and_is_named(name):
    x = leaf(1.0)
    ufunc = getattr(np, name)

    with refused(MissingDerivativeError, TypeError, f"numpy.{name}"):
        ufunc(*[x] * ufunc.nin)


@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("numpy.is_busday", lambda x: np.is_busday(x)),
        ("numpy.isnat", np.isnat),
    ],
)
def test_a_missing_rule_is_named_however_the_function_is_called(name, call, requires_grad):
    with refused(MissingDerivativeError, TypeError, f"{name} ", "no derivative rule"):
        call(ag.tensor([1.0, 2.0], requires_grad=requires_grad))


VECTOR, RNG = np.array([1.0, 2.0]), np.random.default_rng(0)

#: Calls of NumPy that make an array of a tensor, each with what is told of them and what to write.
CONVERTED = {
    "np.vectorize": (np.vectorize(lambda x: x), ["numpy.vectorize has no derivative rule", "NumPy's functions"]),
    "np.array": (lambda x: np.array(x), ["np.stack", "asyncgrad.numpy.array"]),
    "np.asarray of a list": (lambda x: np.asarray([x, x]), ["np.stack", "asyncgrad.numpy.asarray"]),
    "np.full": (lambda x: np.full((3, 2), x), ["numpy.full has no derivative rule", "asyncgrad.numpy.full"]),
    "ndarray.dot": (lambda x: VECTOR.dot(x), ["ndarray.dot computes with arrays alone", "np.dot(array, ...)"]),
    "ndarray.searchsorted": (lambda x: VECTOR.searchsorted(x), ["ndarray.searchsorted", "np.searchsorted(array, ...)"]),
    "an index": (lambda x: VECTOR[x], ["index of an ndarray", "t.astype(int)"]),
    "a write": (lambda x: VECTOR.__setitem__(..., x), ["ndarray.__setitem__", "ag.asarray(array)"]),
    "ag.tensor": (lambda x: ag.tensor([x, x]), ["a list that holds tensors", "np.stack([...])"]),
}


@pytest.mark.parametrize(("call", "told"), CONVERTED.values(), ids=CONVERTED)
def test_what_makes_an_array_of_a_tensor_is_named_with_what_to_write(call, told):
    with refused(RequiresGradError, RuntimeError, "drop its history in silence", *told):
        call(leaf(1.0, 2.0))


#: Functions that have a rule, called with tensors in a list or a tuple, or in lists of lists.
LISTS = {
    "np.sum": (lambda x: np.sum([x[0], x[1]]), "numpy.sum", "np.sum(np.stack([...]))"),
    "np.max": (lambda x: np.max([x[0], x[1]]), "numpy.max", "np.max(np.stack([...]))"),
    "np.mean": (lambda x: np.mean((x[0], x[1])), "numpy.mean", "np.mean(np.stack([...]))"),
    "np.median": (lambda x: np.median([x[0], 1.0]), "numpy.median", "np.median(np.stack([...]))"),
    "np.sqrt": (lambda x: np.sqrt([x[0], x[1]]), "numpy.sqrt", "np.sqrt(np.stack([...]))"),
    "np.linalg.norm": (lambda x: np.linalg.norm([x[0], x[1]]), "numpy.linalg.norm", "np.linalg.norm(np.stack([...]))"),
    "np.linalg.det": (
        lambda x: np.linalg.det([[x[0], 1.0], [1.0, x[1]]]),
        "numpy.linalg.det",
        "np.linalg.det(np.stack([np.stack(row) for row in rows]))",
    ),
    "np.stack": (
        lambda x: np.stack([[x[0], x[1]], [x[1], x[0]]]),
        "numpy.stack",
        "and np.stack([np.stack(row) for row in rows]) to",
    ),
    "np.atleast_1d": (lambda x: np.atleast_1d([x[0]]), "numpy.atleast_1d", "np.stack([...])"),
    "np.add": (lambda x: np.add([x[0], x[1]], 1.0), "numpy.add", "np.stack([...]) in place of the list"),
    "beside a tensor": (lambda x: np.add(x, [x[0], x[1]]), "numpy.add", "np.stack([...]) in place of the list"),
    "np.average": (lambda x: np.average(x, weights=[x[0], x[1]]), "numpy.average", "np.stack([...]) in place"),
    "np.einsum": (lambda x: np.einsum("i,i", x, [x[0], x[1]]), "numpy.einsum", "np.stack([...]) in place"),
    "np.dot": (lambda x: np.dot([1.0, 2.0], [x[0], x[1]]), "numpy.dot", "np.stack([...]) in place of the list"),
    "an operator": (lambda x: x * [x[0], x[1]], "the operator *", "np.stack([...]) in place of the list"),
    "a method": (lambda x: x.dot([x[0], x[1]]), "a list that holds tensors", "np.stack([...]) in place of the list"),
}


@pytest.mark.parametrize(("call", "name", "instead"), LISTS.values(), ids=LISTS)
def test_a_list_of_tensors_is_refused_as_a_list_and_not_as_a_missing_rule(call, name, instead):
    with pytest.raises(RequiresGradError) as raised:
        call(leaf(1.0, 2.0))
    message = str(raised.value)

    assert name in message
    assert "list that holds tensors" in message
    assert instead in message
    assert "derivative rule" not in message


#: Functions that draw random numbers, and others that lie in the same places.
DRAWN = {
    "np.random.normal": lambda x: np.random.normal(x, 1.0),  # noqa: NPY002
    "np.random.uniform": lambda x: np.random.uniform(0, x),  # noqa: NPY002
    "a generator": lambda x: RNG.normal(x),
    "a new generator": lambda x: np.random.default_rng(0).permutation(x),
    "a method of one": lambda x: (lambda draw: draw(x))(RNG.exponential),
}


@pytest.mark.parametrize("call", DRAWN.values(), ids=DRAWN)
def test_who_draws_random_numbers_is_advised_how(call):
    with refused(RequiresGradError, RuntimeError, "asyncgrad.numpy.random.default_rng(seed)", "random numbers"):
        call(leaf(1.0, 2.0))


@pytest.mark.parametrize("call", [call for call, *_ in (*LISTS.values(), *CONVERTED.values())])
def test_nobody_else_is_advised_about_random_numbers(call):
    with pytest.raises(RequiresGradError) as raised:
        call(leaf(1.0, 2.0))
    assert "random" not in str(raised.value)


#: Functions of math, and those of NumPy that do the same.
OF_MATH = {
    "sqrt": (math.sqrt, "sqrt"),
    "floor": (math.floor, "floor"),
    "hypot": (lambda t: math.hypot(t, 1.0), "hypot"),
    "fsum": (lambda t: math.fsum([t]), "sum"),
    "pow": (lambda t: math.pow(t, 2), "power"),
}


@pytest.mark.parametrize(("name", "call", "near"), [(name, *pair) for name, pair in OF_MATH.items()])
def test_a_function_of_math_is_told_with_that_of_numpy(name, call, near):
    with refused(RequiresGradError, RuntimeError, "drop its history", f"np.{near}, and not math.{name}"):
        call(leaf_of(2.0))


@pytest.mark.parametrize(
    "clip",
    [
        lambda a, low, high: a.clip(low, high),
        lambda a, low, high: a.clip(min=low, max=high),
        lambda a, low, high: a.clip(low, 2.0) + a.clip(1.0, high),
        lambda a, low, high: a.clip(min=low) + a.clip(max=high),
    ],
)
def test_an_ndarray_is_clipped_to_tensors_as_a_tensor_is(clip):
    a, bounds = np.array([0.0, 1.5, 3.0]), [leaf_of(1.0), leaf_of(2.0)]
    result = clip(a, *bounds)
    expected = clip(ag.asarray(a), *bounds)

    assert result.tolist() == expected.tolist()
    assert [one.tolist() for one in sync.grad(result.sum(), bounds)] == [
        one.tolist() for one in sync.grad(expected.sum(), bounds)
    ]
    assert np.float64(3.0).clip(*bounds).item() == 2.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x: np.sum(x, axis=5),
            "numpy.sum of an array of shape (2, 3): axis 5 is out of bounds for array of dim",
        ),
        (lambda x: np.swapaxes(x, 0, 7), "numpy.swapaxes of an array of shape (2, 3): axis2: axis 7 is out of bounds"),
        (lambda x: x.mean(axis=-7), "numpy.mean of an array of shape (2, 3): axis -7 is out of bounds"),
        (lambda x: x.max(9), "numpy.max of an array of shape (2, 3): axis 9 is out of bounds"),
        (lambda x: x.repeat(2, 7), "numpy.repeat of an array of shape (2, 3): axis 7 is out of bounds"),
        (lambda x: x.take([0], 7), "numpy.take of an array of shape (2, 3): axis 7 is out of bounds"),
        (lambda x: x.compress([True], 7), "numpy.compress of an array of shape (2, 3): axis 7 is out of bounds"),
        (lambda x: x.cumsum(7), "numpy.cumsum of an array of shape (2, 3): axis 7 is out of bounds"),
        (lambda x: x.cumprod(7), "numpy.cumprod of an array of shape (2, 3): axis 7 is out of bounds"),
        (lambda x: np.stack([x, x], 9), "numpy.stack of arrays of shapes (2, 3) and (2, 3): axis 9 is out of bounds"),
    ],
)
def test_an_axis_that_there_is_not_is_told_with_the_function_and_the_shape(call, message):
    with pytest.raises(np.exceptions.AxisError, match=re.escape(message)) as raised:
        call(ag.tensor(np.ones((2, 3)), requires_grad=True))
    assert raised.value.axis in (5, 7, -7, 9)
