"""Arrays of all small forms, the empty ones among them, for calls that are degenerate."""

from __future__ import annotations

import numpy as np

__all__ = ["FORMS", "counted"]


def counted(*shape: int) -> np.ndarray:
    """Return an array that counts up from 1."""
    return np.arange(1.0, 1.0 + np.prod(shape, dtype=int)).reshape(shape)


FORMS = [counted(*shape) for shape in ((0,), (), (1,), (3,), (2, 3), (2, 3, 2), (0, 3), (2, 0), (1, 3), (3, 1))]
