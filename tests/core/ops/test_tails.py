"""Derivatives of elementwise functions far out, at the ends of their domains, and next to 0: those of mpmath."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mpmath import mp

import asyncgrad as ag
from tests.core.ops.cases_elementwise import CASES
from tests.core.ops.exact_slopes import REFERENCES, WITHOUT
from tests.core.ops.numpy_rules import rules_of_numpy
from tests.support.tails import Reference, check_gradients, check_second_derivatives

EACH = [pytest.param(one, id=function.__name__) for function, one in REFERENCES.items()]
SMOOTH = [
    pytest.param(one, id=function.__name__)
    for function, one in REFERENCES.items()
    if len(one.slopes) == 1 and one.is_smooth
]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("reference", EACH)
def test_the_gradient_is_the_exact_derivative_at_every_size_of_number(reference: Reference, dtype: Any) -> None:
    assert check_gradients(reference, dtype) == []


@pytest.mark.slow
@pytest.mark.parametrize("reference", SMOOTH)
def test_the_second_derivative_is_the_exact_one_far_out_too(reference: Reference) -> None:
    assert check_second_derivatives(reference) == []


#: Far from 0 in every direction, of functions of complex numbers.
FAR = [size * turn for size in (20.0, 1e200) for turn in (1, -1, 1j, -1j, 1 + 1j, 1 - 1j, -1 + 1j, -1 - 1j)]
NEAR = [20j, -20j, 3 + 20j, -3 - 20j, 1e-9 + 0.5j]
COMPLEX = [
    pytest.param(function, slope, points, id=function.__name__)
    for function, slope, points in (
        (np.tan, lambda z: 1 / mp.cos(z) ** 2, NEAR),
        (np.expm1, mp.exp, [-40 + 1j, -37 - 2j, 3j]),
        (np.arcsin, lambda z: 1 / (mp.sqrt(1 - z) * mp.sqrt(1 + z)), FAR[4:8] + FAR[12:]),
        (np.arctan, lambda z: 1 / (1 + z * z), FAR),
        (np.arcsinh, lambda z: 1 / (mp.sqrt(1 + 1j * z) * mp.sqrt(1 - 1j * z)), FAR[4:8] + FAR[12:]),
        (np.arccosh, lambda z: 1 / (mp.sqrt(z - 1) * mp.sqrt(z + 1)), FAR[4:8] + FAR[12:]),
        (np.arctanh, lambda z: 1 / (1 - z * z), FAR),
    )
]


@pytest.mark.parametrize(("function", "slope", "points"), COMPLEX)
def test_the_derivative_of_complex_numbers_is_the_exact_one_far_out(
    function: np.ufunc, slope: Callable[[Any], Any], points: list[complex]
) -> None:
    expected = [complex(slope(mp.mpc(point))) for point in points]

    found = ag.sync.func.elementwise_grad(function, holomorphic=True)(np.array(points))

    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-300)


@pytest.mark.parametrize("size", [1e-200, 1e-25, 1e20, 1e200])
def test_the_gradient_of_an_angle_is_the_exact_one_at_every_size(size: float) -> None:
    z = ag.tensor([size * (3 + 4j)], requires_grad=True)
    (grad,) = ag.sync.grad(np.angle(z), [z])

    # At a right angle to the number, and one over its absolute value.
    np.testing.assert_allclose(grad.numpy() * size, [(-4 + 3j) / 25], rtol=1e-14)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_gradient_of_an_infinite_vector_is_the_limit_far_out(dtype: Any) -> None:
    inf, half = np.inf, np.sqrt(dtype(0.5))
    x = ag.tensor(np.array([inf, -inf, 1, 0, inf, -inf], dtype), requires_grad=True)
    y = ag.tensor(np.array([1, 0, inf, -inf, inf, -inf], dtype), requires_grad=True)

    lengths = ag.sync.grad(np.hypot(x, y), [x, y], np.ones(6, dtype), create_graph=True)
    angles = ag.sync.grad(np.arctan2(y, x), [x, y], np.ones(6, dtype), create_graph=True)
    again = ag.sync.grad(sum((*lengths, *angles)), [x, y], np.ones(6, dtype))

    assert [one.tolist() for one in lengths] == [[1, -1, 0, 0, half, -half], [0, 0, 1, -1, half, -half]]
    assert [one.tolist() for one in angles] == [[0] * 6] * 2
    assert [one.tolist() for one in again] == [[0] * 6] * 2


#: Whose squares, differences and negatives are other numbers in their dtypes, or none.
NARROW = [
    np.array([True, False]),
    np.array([0, 200], np.uint8),
    np.array([3, -100], np.int8),
    np.array([7, 2**63], np.uint64),
    np.array([2, 3], np.float16),
]
OF_TWO = [np.arctan2, np.hypot, np.power, np.float_power, np.fmod, np.remainder, np.logaddexp, np.copysign, np.maximum]


@pytest.mark.filterwarnings("ignore")  # of functions that divide by 0
@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("narrow", NARROW, ids=lambda array: array.dtype.name)
@pytest.mark.parametrize("function", OF_TWO, ids=lambda function: function.__name__)
def test_the_gradient_beside_an_array_of_another_dtype_is_that_beside_its_numbers(
    function: np.ufunc, narrow: np.ndarray, is_first: bool
) -> None:
    def derivatives(other: np.ndarray, sign: float) -> list[Any]:
        x = ag.tensor(np.array([1.5, 3.0]) * sign, requires_grad=True)
        result = function(*((other, x) if is_first else (x, other)))
        (slope,) = ag.sync.grad(result, [x], np.ones(2), create_graph=True)
        again = ag.sync.grad(slope, [x], np.ones(2)) if slope.requires_grad else ()
        return [one.numpy() for one in (slope.detach(), *again)]

    for sign in (1.0, -1.0):
        for found, expected in zip(derivatives(narrow, sign), derivatives(narrow.astype(float), sign), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_every_elementwise_rule_has_an_exact_derivative_here_or_a_reason() -> None:
    ufuncs = [one for one in rules_of_numpy() if isinstance(one, np.ufunc) and one in CASES and one.signature is None]
    elementwise = [*ufuncs, *(one for one in CASES if not isinstance(one, np.ufunc))]
    without = [one.__name__ for one in elementwise if one not in REFERENCES and one not in WITHOUT]

    assert without == []
