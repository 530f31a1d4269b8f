"""Points at which the elementwise functions can be differentiated: data, for test_rules.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.core.ops.finite_differences import Case

_random = np.random.default_rng(20240607)


def normal(*shape: int) -> np.ndarray:
    """Draw numbers of either sign, none nearer to 0 than 0.1."""
    drawn = _random.normal(size=shape)
    return np.asarray(drawn + np.copysign(0.1, drawn))


def positive(*shape: int) -> np.ndarray:
    """Draw numbers between 0.5 and 2.5."""
    return np.asarray(_random.uniform(0.5, 2.5, shape))


def inner(*shape: int) -> np.ndarray:
    """Draw numbers between -0.9 and 0.9."""
    return np.asarray(_random.uniform(-0.9, 0.9, shape))


def apart(array: np.ndarray) -> np.ndarray:
    """Return an array of which no element is nearer to that of `array` than 0.1."""
    return np.asarray(array + normal(*array.shape))


def one(draw: Callable[..., np.ndarray]) -> list[Case]:
    """Return the cases of a function of one array: a matrix, and an array of no dimensions."""
    return [Case((draw(2, 3),)), Case((draw(),))]


def two(first: Callable[..., np.ndarray], second: Callable[..., np.ndarray]) -> list[Case]:
    """Return the cases of a function of two arrays: alike, broadcasting both ways, one of them a number."""
    return [
        Case((first(3), second(3)), differentiate=(0, 1)),
        Case((first(2, 1), second(3)), differentiate=(0, 1)),
        Case((first(), second(2, 2)), differentiate=(0, 1)),
        Case((first(3), 1.5)),
        Case((0.7, second(3)), differentiate=(1,)),
    ]


_unequal = normal(2, 3)
_bounds = (_unequal - 0.5, _unequal + 0.5)
_by_name = {"min": _bounds[0], "max": _bounds[1]}
_between = _unequal + np.array([[0.1, -0.7, 0.9], [-0.2, 0.3, 0.8]])
_mask = np.array([[True, False, True], [False, False, True]])

#: Steps of a remainder fall at 0, 1.5 and so on: 3.7 and -0.4 are well between them.
_dividend = np.array([3.7, -0.4, 5.2])
_divisor = np.array([1.5, -1.1, -2.3])
_remainders = [
    Case((_dividend, _divisor), differentiate=(0, 1)),
    Case((_dividend[:, np.newaxis], _divisor), differentiate=(0, 1)),
    Case((_dividend, 1.5)),
    Case((3.7, _divisor), differentiate=(1,)),
]
_extremes = [
    Case((_unequal, apart(_unequal)), differentiate=(0, 1)),
    Case((np.array([[1.0], [-2.0]]), np.array([0.3, 1.4, -2.6])), differentiate=(0, 1)),
    Case((_unequal, 0.0)),
    Case((0.0, _unequal), differentiate=(1,)),
]
_powers = [
    Case((positive(2, 3), normal(2, 3)), differentiate=(0, 1)),
    Case((positive(2, 1), normal(3)), differentiate=(0, 1)),
    Case((normal(3), np.array([2, 3, 0]))),
    Case((normal(3), np.array([2.0, -1.0, 0.0]))),
    Case((2.5, normal(3)), differentiate=(1,)),
    Case((positive(3), np.array([0.0, 1.0, 2.0])), differentiate=(0, 1)),
    Case((np.array([1, 2, 3]), normal(3)), differentiate=(1,)),
    *(Case((normal(3), exponent)) for exponent in (0, 1, 2, 2.0, 3, -1, -2)),
    *(Case((positive(3), exponent)) for exponent in (0.5, -0.5, 1.7)),
]

CASES: dict[Callable[..., Any], list[Case]] = {
    # arithmetic
    np.add: two(normal, normal),
    np.subtract: two(normal, normal),
    np.multiply: two(normal, normal),
    np.divide: two(normal, normal),
    np.negative: one(normal),
    np.positive: one(normal),
    np.reciprocal: one(normal),
    np.square: one(normal),
    np.sqrt: one(positive),
    np.cbrt: one(normal),
    np.power: _powers,
    np.float_power: _powers,
    np.remainder: _remainders,
    np.fmod: _remainders,
    np.divmod: _remainders,
    np.modf: [Case((np.array([1.3, -2.6, 0.5]),))],
    np.frexp: [Case((np.array([1.3, -2.6, 0.6]),))],
    np.ldexp: [Case((normal(3), np.array([1, -2, 0]))), Case((normal(2, 1), np.array([3, 1])))],
    np.copysign: two(normal, normal),
    np.heaviside: two(normal, normal),
    np.conjugate: one(normal),
    np.real: one(normal),
    np.imag: one(normal),
    # exponential
    np.exp: one(normal),
    np.exp2: one(normal),
    np.expm1: one(normal),
    np.log: one(positive),
    np.log2: one(positive),
    np.log10: one(positive),
    np.log1p: one(positive),
    np.logaddexp: two(normal, normal),
    np.logaddexp2: two(normal, normal),
    # trigonometric
    np.sin: one(normal),
    np.cos: one(normal),
    np.tan: one(inner),
    np.arcsin: one(inner),
    np.arccos: one(inner),
    np.arctan: one(normal),
    np.arctan2: two(normal, normal),
    np.hypot: two(normal, normal),
    np.sinh: one(normal),
    np.cosh: one(normal),
    np.tanh: one(normal),
    np.arcsinh: one(normal),
    np.arccosh: one(lambda *shape: np.asarray(positive(*shape) + 1)),
    np.arctanh: one(inner),
    np.deg2rad: one(normal),
    np.radians: one(normal),
    np.rad2deg: one(normal),
    np.degrees: one(normal),
    # near 0 a quotient would lose its digits, at 1 the two branches meet
    np.sinc: [Case((normal(3),)), Case((np.array([0.0, 1e-9, 1e-4, -0.3, 0.99, 1.0, 1.01, -4.7]),))],
    # extremes
    np.absolute: one(normal),
    np.fabs: one(normal),
    np.maximum: _extremes,
    np.minimum: _extremes,
    np.fmax: _extremes,
    np.fmin: _extremes,
    np.clip: [
        Case((_between, *_bounds), differentiate=(0, 1, 2)),
        Case((_between, _bounds[0][:1], 0.35), differentiate=(0, 1)),
        Case((_unequal, -0.3, 0.6)),
        Case((_unequal, None, 0.6)),
        Case((_between, _unequal, None), differentiate=(0, 1)),
        Case((_between, None, _unequal), differentiate=(0, 2)),
        Case((_unequal, None, None)),
        Case((_between,), {"a_min": _bounds[0], "a_max": 9.0}, differentiate=(0, "a_min")),
        Case((_between,), _by_name, differentiate=(0, "min", "max")),
        Case((_between,), {"max": _unequal}, differentiate=(0, "max")),
    ],
    np.where: [
        Case((_mask, normal(2, 3), normal(2, 3)), differentiate=(1, 2)),
        Case((_mask[:, :1], normal(), normal(3)), differentiate=(1, 2)),
        Case((_mask, normal(3), 0.0), differentiate=(1,)),
    ],
    np.nan_to_num: [Case((normal(3),)), Case((np.array([np.nan, np.inf, -np.inf, 1.0]),), smooth=False)],
}
