"""Logistic functions, and products with logarithms, as entropies have them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from ...ops.primitive import differentiable

__all__ = ["expit", "log_expit", "logit", "xlog1py", "xlogy"]

expit = differentiable(special.expit, "x", x=lambda g, out: g * (out * (1 - out)))
logit = differentiable(special.logit, "x", x=lambda g, x: g / (x * (1 - x)))
log_expit = differentiable(special.log_expit, "x", x=lambda g, x: g * special.expit(-x))

# Where both are 0 the product is 0, and constant in y.
xlogy = differentiable(
    special.xlogy, "x y", x=lambda g, y: g * np.log(y), y=lambda g, x, y: g * (x / _one_where_both_are_zero(x, y))
)
xlog1py = differentiable(
    special.xlog1py,
    "x y",
    x=lambda g, y: g * np.log1p(y),
    y=lambda g, x, y: g * (x / _one_where_both_are_zero(x, 1 + y)),
)


def _one_where_both_are_zero(x: Any, y: Any) -> Any:
    return np.where((x == 0) & (y == 0), 1, y)
