"""`reduce`, `accumulate` and `reduceat` of ufuncs: NumPy's values, dtypes and errors, and right derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from tests.core.ops.finite_differences import Case, check_derivatives

#: NumPy without its type hints, which know of no Tensor.
numpy: Any = np

X = np.random.default_rng(3).normal(size=(2, 3, 2)) + 2.5
MASK = np.array([[[True, False]], [[True, True]]])

FOLDS: dict[str, Any] = {
    "logaddexp.reduce": lambda x: np.logaddexp.reduce(x),
    "over axes": lambda x: np.logaddexp.reduce(x, axis=(0, 2), keepdims=True),
    "over all": lambda x: np.hypot.reduce(x, axis=None),
    "from a value": lambda x: np.logaddexp.reduce(x, axis=1, initial=0.5),
    "masked": lambda x: np.logaddexp.reduce(x, axis=-1, where=MASK),
    "masked from a value": lambda x: np.subtract.reduce(x, axis=1, where=MASK, initial=1.0),
    "in another dtype": lambda x: np.hypot.reduce(x, axis=0, dtype=np.float32),
    "division": lambda x: np.divide.reduce(x, axis=1),
    "no elements": lambda x: np.logaddexp.reduce(x[:, :0], axis=1),
    "subtract.accumulate": lambda x: np.subtract.accumulate(x),
    "power.accumulate": lambda x: np.power.accumulate(1 + x * x, axis=1),
    "maximum.accumulate": lambda x: np.maximum.accumulate(x, -1),
    "add.reduceat": lambda x: np.add.reduceat(x, [0, 2, 1], axis=1),
    "multiply.reduceat": lambda x: np.multiply.reduceat(x, [1, 0]),
    "logaddexp.reduceat": lambda x: np.logaddexp.reduceat(x, np.array([1]), axis=1),
    "comparison": lambda x: np.logical_xor.accumulate(x > 2.5, axis=1),
}


@pytest.mark.parametrize("name", FOLDS)
def test_a_fold_has_numpys_result_and_the_derivative_of_differences(name: str) -> None:
    found, expected = FOLDS[name](ag.tensor(X)), FOLDS[name](X)

    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6 if expected.dtype == np.float32 else 1e-14)
    if expected.dtype == np.float64 and name != "no elements":
        check_derivatives(FOLDS[name], Case((X,)))


def test_a_fold_writes_into_out() -> None:
    out = ag.tensor(np.zeros((3, 2)))

    assert numpy.logaddexp.reduce(ag.tensor(X), out=out) is out
    np.testing.assert_allclose(out.numpy(), np.logaddexp.reduce(X))


def test_a_fold_refuses_what_numpys_refuses() -> None:
    t = ag.tensor(X, requires_grad=True)
    for call, error in (
        (lambda x: np.subtract.reduce(x, axis=(0, 1)), ValueError),
        (lambda x: np.logaddexp.reduce(x, axis=4), np.exceptions.AxisError),
        (lambda x: np.subtract.reduce(x[:0]), ValueError),
        (lambda x: np.divide.reduce(x, where=MASK), ValueError),
        (lambda x: np.add.reduceat(x, [5]), IndexError),
        (lambda x: np.subtract.accumulate(x[0, 0, 0]), TypeError),
    ):
        for numbers in (X, t):
            with pytest.raises(error):
                call(numbers)


@pytest.mark.parametrize("order", ["C", "F", "A", "K"])
def test_the_layout_that_a_ufunc_is_asked_for_is_numpys(order: Any) -> None:
    x = np.asfortranarray(X[0])

    found = np.add(ag.asarray(x), X[1], order=order)

    assert found.numpy().strides == np.add(x, X[1], order=order).strides


def test_a_ufunc_casts_as_it_is_told() -> None:
    t = ag.tensor(X, requires_grad=True)

    assert np.add(t, 1.0, dtype=np.float32, casting="same_kind").dtype == np.float32
    assert np.add(t, 1.0, casting="unsafe", subok=False).dtype == np.float64
    for numbers in (X, t):
        with pytest.raises(TypeError, match="annot cast"):
            np.add(numbers, 1.0, dtype=np.float32, casting="safe")
        with pytest.raises(TypeError, match="annot cast"):
            np.add(numbers, np.float32(1.0), casting="no")
