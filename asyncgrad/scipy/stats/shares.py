"""Entropies of shares of a whole, which are given up to a factor.

The derivative of x log(x) at 0 is its limit, minus infinity, here as in `special.entr` and `special.rel_entr`: the
entropy of a share of 0 rises infinitely fast. For the other shares to keep theirs, nothing is divided by the sum of the
shares before that derivative is taken: with s the sum of the p,

    entropy = log(s) + sum(entr(p)) / s,    divergence = sum(rel_entr(p, q)) / s - log(s) + log(sum(q)).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays.half import single
from ...core.arrays.values import raw
from ..ufuncs import special

__all__ = ["divergence_of_shares", "entropy_of_shares"]


def _scaled(p: Any, axis: Any) -> tuple[Any, Any]:
    """Return shares divided by their sum, as a number that does not vary, and the sum of these."""
    p = single(p)
    if not p.size:
        # As SciPy has it, the entropy of no shares is 0.
        return p, 1.0 + np.sum(p, axis, keepdims=True)
    p = p / np.sum(raw(p), axis, keepdims=True)
    return p, np.sum(p, axis, keepdims=True)


def _summed(terms: Any, whole: Any, rest: Any, axis: Any, keepdims: bool) -> Any:
    value = np.sum(terms, axis, keepdims=True) / whole + rest
    return value if keepdims else np.squeeze(value, axis)


def entropy_of_shares(p: Any, axis: Any, keepdims: bool = False) -> Any:
    """Return the entropy of shares along an axis, in nats."""
    p, whole = _scaled(p, axis)
    return _summed(special.entr(p), whole, np.log(whole), axis, keepdims)


def divergence_of_shares(p: Any, q: Any, axis: Any, keepdims: bool = False) -> Any:
    """Return the divergence of shares from others along an axis, in nats."""
    (p, whole), (q, other) = _scaled(p, axis), _scaled(q, axis)
    return _summed(special.rel_entr(p, q), whole, np.log(other) - np.log(whole), axis, keepdims)
