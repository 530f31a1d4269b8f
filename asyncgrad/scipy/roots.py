"""Square roots where a distance may be 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.arrays.values import raw

__all__ = ["root_of_squares"]


def root_of_squares(squares: Any) -> Any:
    """Return square roots, with a gradient of 0 at 0."""
    is_zero = raw(squares) == 0
    return np.where(is_zero, 0.0, np.sqrt(np.where(is_zero, 1.0, squares)))
