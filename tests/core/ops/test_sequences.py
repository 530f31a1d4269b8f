"""Sequences, angles and Bessel functions: gradients at the edges, and what is refused by name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.ops.exponential import i0_derivative
from asyncgrad.errors import ArgumentTypeError, RequiresGradError

#: NumPy without its type hints, which know of no Tensor.
numpy: Any = np


@pytest.mark.parametrize("order", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("x", [-9.0, -1e-7, 0.0, 0.3, 2.0, 40.0, 600.0])
def test_a_derivative_of_the_bessel_function_is_its_series(x: float, order: int) -> None:
    # Term by term: x**(2k) / (2**k * k!)**2.
    total = 0.0
    for k in range((order + 1) // 2, 700):
        power = 2 * k - order
        size = math.lgamma(2 * k + 1) - math.lgamma(power + 1) - 2 * math.lgamma(k + 1) - 2 * k * math.log(2)
        total += math.exp(size + power * math.log(abs(x))) * np.sign(x) ** power if x else math.exp(size) * (not power)

    assert float(i0_derivative(np.array(x), order)) == pytest.approx(total, rel=1e-11)


def test_a_nan_or_an_infinity_leaves_the_other_derivatives_of_the_bessel_function_as_they_are() -> None:
    with np.errstate(over="ignore"):
        found = i0_derivative(np.array([np.nan, 3.0, np.inf]), 1)

    assert found[1] == pytest.approx(3.953370217402609, rel=1e-14)
    assert np.isnan(found[0])
    assert found[2] == np.inf


def test_values_put_before_one_index_more_than_once_come_in_their_order() -> None:
    values = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)

    result = numpy.insert(np.zeros(2), [1, 0, 1], values)

    assert sync.grad((result * [10, 20, 30, 40, 50]).sum(), [values])[0].tolist() == [30, 10, 40]


def test_complex_values_are_not_put_into_real_numbers() -> None:
    with pytest.raises(ArgumentTypeError, match=r"numpy\.insert .* values\.real"):
        np.insert(ag.tensor([1.0]), 0, 1j)


def test_the_angle_of_zero_has_no_slope() -> None:
    z = ag.tensor([0j, 1j], requires_grad=True)

    assert sync.grad(np.angle(z).sum(), [z])[0].tolist() == [0, -1]


def test_an_element_that_is_repeated_to_fill_a_shape_gets_all_gradients() -> None:
    x = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)

    assert sync.grad(np.resize(x, (2, 2)).sum(), [x])[0].tolist() == [2, 1, 1]


@pytest.mark.parametrize("nested", [False, True])
def test_an_array_of_tensors_that_require_grad_is_told_how_to_stack(nested: bool) -> None:
    x = ag.tensor([1.0, 2.0], requires_grad=True)

    with pytest.raises(RequiresGradError, match=r"np\.stack"):
        np.array([[x, x]] if nested else [x, x])
