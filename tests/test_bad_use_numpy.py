"""A NumPy function without a derivative rule raises and is named, and no way into NumPy drops a history."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.errors import (
    MissingDerivativeError,
    RequiresGradError,
)
from asyncgrad.ops import RULES
from tests.leaves import leaf
from tests.refusals import refused


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


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.sum([x, x]),
        lambda x: np.linalg.det([[x[0], 1.0], [1.0, 2.0]]),
        lambda x: np.add([x, x], 1.0),
        lambda x: np.random.default_rng(0).permutation(x),
        np.vectorize(lambda x: x),
        lambda x: np.array([1.0, 2.0]).dot(x),
    ],
)
def test_no_way_into_numpy_drops_a_history_in_silence(call):
    with refused(RequiresGradError, RuntimeError, "drop its history in silence"):
        call(leaf(1.0, 2.0))


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
