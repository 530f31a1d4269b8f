"""Logarithms of probabilities that are too small for a float, and of numbers that have none.

The incomplete gamma and beta functions underflow some forty standard deviations from the mean. There their continued
fractions converge within a few terms, and give the logarithm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays.values import raw
from ..special.log_densities import log_beta_
from ..ufuncs import special

__all__ = ["log_beta_below", "log_gamma_above", "log_gamma_below", "log_or", "log_probability"]

_TERMS = 20


def log_or(value: float, mask: Any, x: Any) -> Any:
    """Return a number where a mask holds, with slopes of 0, and log(x) elsewhere."""
    return np.where(mask, value, np.log(np.where(mask, 1.0, x))) if np.any(mask) else np.log(x)


def log_probability(probability: Any, rest: Callable[[], Any], tail: Callable[[Any], Any]) -> Any:
    """Return the logarithm of a probability that is accurate unless it underflows.

    Args:
        probability: a tensor.
        rest: returns 1 minus it, for where it is next to 1.
        tail: returns its logarithm where a mask holds, and something finite elsewhere.
    """
    bare = raw(probability)
    is_large, is_tiny = bare > 0.5, bare < 100 * np.finfo(bare.dtype).tiny
    if not (np.any(is_large) or np.any(is_tiny)):
        return np.log(probability)
    value = np.log(np.where(is_large | is_tiny, 1.0, probability))
    if np.any(is_large):
        value = np.where(is_large, np.log1p(-np.where(is_large, rest(), 0.0)), value)
    return np.where(is_tiny, tail(is_tiny), value) if np.any(is_tiny) else value


def log_gamma_below(a: Any, x: Any, mask: Any) -> Any:
    """Return log(gammainc(a, x)) where a mask holds and x is far below a."""
    is_zero = mask & (raw(x) == 0)
    mask = mask & ~is_zero
    a, x = np.where(mask, a, 2.0), np.where(mask, x, 1.0)
    rest: Any = 0.0
    for k in range(_TERMS, 0, -1):
        rest = -(a + (k - 1)) * x / (a + (2 * k - 1) + k * x / (a + 2 * k + rest))
    value = a * np.log(x) - x - special.gammaln(a) - np.log(a + rest)
    return np.where(is_zero, -np.inf, value) if np.any(is_zero) else value


def log_gamma_above(a: Any, x: Any, mask: Any) -> Any:
    """Return log(gammaincc(a, x)) where a mask holds and x is far above a."""
    a, x = np.where(mask, a, 2.0), np.where(mask, x, 5.0)
    rest: Any = 0.0
    for k in range(_TERMS, 0, -1):
        rest = k * (a - k) / (x + (2 * k + 1) - a + rest)
    return a * np.log(x) - x - special.gammaln(a) - np.log(x + 1 - a + rest)


def log_beta_below(a: Any, b: Any, x: Any, mask: Any) -> Any:
    """Return log(betainc(a, b, x)) where a mask holds and x is far below a / (a + b)."""
    is_zero = mask & (raw(x) == 0)
    mask = mask & ~is_zero
    a, b, x = np.where(mask, a, 2.0), np.where(mask, b, 2.0), np.where(mask, x, 0.125)
    rest: Any = 0.0
    for m in range(_TERMS, 0, -1):
        even = m * (b - m) * x / ((a + (2 * m - 1)) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + (2 * m + 1)))
        rest = even / (1 + odd / (1 + rest))
    first = -(a + b) * x / (a + 1)
    value = special.xlogy(a, x) + special.xlog1py(b, -x) - log_beta_.call(a, b) - np.log(a)
    value = value - np.log(1 + first / (1 + rest))
    return np.where(is_zero, -np.inf, value) if np.any(is_zero) else value
