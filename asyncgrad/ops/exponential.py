"""Exponentials and logarithms."""

from __future__ import annotations

import math

import numpy as np

from .primitive import differentiable

__all__ = ["exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "logaddexp", "logaddexp2"]

LN2 = math.log(2)
LN10 = math.log(10)

exp = differentiable(np.exp, "x", x=lambda g, out: g * out)
exp2 = differentiable(np.exp2, "x", x=lambda g, out: g * (LN2 * out))
expm1 = differentiable(np.expm1, "x", x=lambda g, out: g * (out + 1))
log = differentiable(np.log, "x", x=lambda g, x: g / x)
log2 = differentiable(np.log2, "x", x=lambda g, x: g / (LN2 * x))
log10 = differentiable(np.log10, "x", x=lambda g, x: g / (LN10 * x))
log1p = differentiable(np.log1p, "x", x=lambda g, x: g / (1 + x))

# The share of x is 1 / (1 + exp(y - x)), written so that no exponential overflows. Where x and y are the same
# infinity it is nan, as in PyTorch.
logaddexp = differentiable(
    np.logaddexp,
    "x y",
    x=lambda g, x, y: g * np.exp(-np.logaddexp(0.0, y - x)),
    y=lambda g, x, y: g * np.exp(-np.logaddexp(0.0, x - y)),
)
logaddexp2 = differentiable(
    np.logaddexp2,
    "x y",
    x=lambda g, x, y: g * np.exp2(-np.logaddexp2(0.0, y - x)),
    y=lambda g, x, y: g * np.exp2(-np.logaddexp2(0.0, x - y)),
)
