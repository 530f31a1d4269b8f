"""Derivatives of the activations far from 0 and next to it: those of mpmath."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from tests.nn.cases import ELEMENTWISE
from tests.nn.exact_slopes import REFERENCES, WITHOUT
from tests.support.tails import Reference, check_gradients, check_second_derivatives

EACH = [pytest.param(one, id=getattr(name, "__name__", name)) for name, one in REFERENCES.items()]
SMOOTH = [pytest.param(one, id=getattr(name, "__name__", name)) for name, one in REFERENCES.items() if one.is_smooth]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("reference", EACH)
def test_the_gradient_is_the_exact_derivative_far_out(reference: Reference, dtype: Any) -> None:
    assert check_gradients(reference, dtype) == []


@pytest.mark.slow
@pytest.mark.parametrize("reference", SMOOTH)
def test_the_second_derivative_is_the_exact_one_far_out_too(reference: Reference) -> None:
    assert check_second_derivatives(reference) == []


def test_every_activation_has_an_exact_derivative_here_or_a_reason() -> None:
    without = [one.function.__name__ for one in ELEMENTWISE if one.function not in {**REFERENCES, **WITHOUT}]

    assert without == []


def in_a_column(array: np.ndarray) -> np.ndarray:
    """Return an array of one column."""
    return array[:, np.newaxis]


def in_reverse(array: np.ndarray) -> np.ndarray:
    """Return a view that runs backwards through memory."""
    return np.asarray(array[::-1].copy()[::-1])


def transposed(array: np.ndarray) -> np.ndarray:
    """Return the transpose of an array that is laid out by rows."""
    return np.stack([array, array]).T


@pytest.mark.parametrize("arrange", [in_a_column, in_reverse, transposed])
@pytest.mark.parametrize("function", [nn.sigmoid, nn.gelu])
def test_numbers_far_out_have_the_same_gradients_wherever_they_lie_in_memory(
    function: Callable[..., Any], arrange: Callable[[np.ndarray], np.ndarray]
) -> None:
    numbers = np.array([-700.0, -30.0, -3.0, 0.0, 3.0, 30.0, 700.0])

    def gradient(array: np.ndarray) -> np.ndarray:
        x = ag.asarray(array).requires_grad_()
        (grad,) = sync.grad(np.sum(function(x)), [x])
        return np.asarray(grad.numpy())

    alone = np.array([gradient(np.array(one)) for one in numbers])

    np.testing.assert_array_equal(gradient(arrange(numbers)), arrange(alone))
