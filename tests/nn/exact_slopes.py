"""The exact derivatives of the activations of asyncgrad.nn, for test_tails.py, and why some have none here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from mpmath import mp, mpf

from asyncgrad import nn
from asyncgrad.nn.functional.activations import CUBIC, INNER, SELU_ALPHA, SELU_SCALE
from tests.support.tails import Reference

__all__ = ["REFERENCES", "WITHOUT"]


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + _exp(-x))


def _exp(x: Any) -> Any:
    # Beyond 2,000 its digits are of no matter, and take long.
    return mp.exp(max(-2_000, min(x, 2_000)))


def _sigmoid_slope(x: Any) -> Any:
    return _sigmoid(x) * _sigmoid(-x)


def _silu_slope(x: Any) -> Any:
    return _sigmoid(x) * (1 + x * _sigmoid(-x))


def _mish_slope(x: Any) -> Any:
    rest = _sigmoid(-x)
    bend = _sigmoid(x) * (1 + rest) / (1 + rest**2)
    return bend + 4 * x * _sigmoid(x) * (rest / (1 + rest**2)) ** 2


def _cdf(x: Any) -> Any:
    x = max(-2_000, min(x, 2_000))
    return mp.erfc(-x / mp.sqrt(2)) / 2


def _gelu_slope(x: Any) -> Any:
    x = max(-2_000, min(x, 2_000))
    return _cdf(x) + x * mp.npdf(x)


def _gelu_tanh_slope(x: Any) -> Any:
    x = max(-2_000, min(x, 2_000))
    double = 2 * (mpf(INNER * CUBIC) * x**2 + mpf(INNER)) * x
    return _sigmoid(double) * (1 + x * _sigmoid(-double) * 2 * (3 * mpf(INNER * CUBIC) * x**2 + mpf(INNER)))


def _exponential_slope(x: Any, scale: float, alpha: float) -> Any:
    return mpf(scale) if x > 0 else scale * mpf(alpha) * _exp(x)


def _not_zero(x: float) -> bool:
    return x != 0


def _piecewise(function: Callable[..., Any], slope: Callable[[Any], Any], *joints: float) -> Reference:
    return Reference(function, (slope,), lambda x: abs(x) not in joints, is_smooth=False)


_ALL = [
    Reference(nn.sigmoid, (_sigmoid_slope,), ulps=400),
    # At the two numbers left out exp(-x) overflows, and the function is 0.
    Reference(nn.silu, (_silu_slope,), lambda x: x not in (-89.0, -710.0), ulps=64),
    Reference(nn.softplus, (_sigmoid,), call=lambda x: nn.softplus(x, threshold=np.inf)),
    Reference(nn.logsigmoid, (lambda x: _sigmoid(-x),)),
    Reference(nn.mish, (_mish_slope,), ulps=64),
    Reference(nn.elu, (lambda x: _exponential_slope(x, 1.0, 1.0),), _not_zero, is_smooth=False),
    Reference(nn.celu, (lambda x: _exponential_slope(x, 1.0, 1.0),), _not_zero, is_smooth=False),
    Reference(nn.selu, (lambda x: _exponential_slope(x, SELU_SCALE, SELU_ALPHA),), _not_zero, is_smooth=False),
    Reference(nn.softsign, (lambda x: 1 / (1 + abs(x)) ** 2,)),
    # The second derivative is that of np.tanh.
    Reference(nn.tanhshrink, (lambda x: mp.tanh(x) ** 2,), is_smooth=False),
    # The square in an exponential is rounded, and in single precision there is an error of 6e-8 between -4 and 4.
    Reference(nn.gelu, (_gelu_slope,), ulps=32, amplifies=lambda x: 2 * x * x),
    _piecewise(nn.relu, lambda x: mpf(x > 0), 0.0),
    _piecewise(nn.relu6, lambda x: mpf(0 < x < 6), 0.0, 6.0),
    _piecewise(nn.hardtanh, lambda x: mpf(abs(x) < 1), 1.0),
    _piecewise(nn.hardsigmoid, lambda x: mpf(abs(x) < 3) / 6, 3.0),
    _piecewise(nn.hardswish, lambda x: x / 3 + 0.5 if abs(x) < 3 else mpf(x > 0), 3.0),
    _piecewise(nn.hardshrink, lambda x: mpf(abs(x) > 0.5), 0.5),
    _piecewise(nn.softshrink, lambda x: mpf(abs(x) > 0.5), 0.5),
    _piecewise(nn.leaky_relu, lambda x: mpf(1) if x > 0 else mpf(0.01), 0.0),
]

REFERENCES: dict[Any, Reference] = {one.function: one for one in _ALL}
# What the sigmoid is of is rounded, too.
REFERENCES["gelu by tanh"] = Reference(
    nn.gelu,
    (_gelu_tanh_slope,),
    call=lambda x: nn.gelu(x, approximate="tanh"),
    ulps=64,
    amplifies=lambda x: min(abs(x), 30) ** 3 / 10,
)

#: Elementwise functions of which nothing is compared here, and why.
WITHOUT: dict[Callable[..., Any], str] = {
    nn.tanh: "it is np.tanh",
    nn.threshold: "it chooses, and computes nothing",
    nn.rrelu: "it is leaky_relu",
    nn.prelu: "it is leaky_relu with a slope that has a gradient",
    nn.glu: "it is a product with a sigmoid",
}
