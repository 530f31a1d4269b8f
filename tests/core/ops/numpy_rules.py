"""The functions of NumPy that have a rule; the table of rules also has the ufuncs of SciPy once they are imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asyncgrad.core.ops import RULES

__all__ = ["rules_of_numpy"]


def rules_of_numpy() -> list[Callable[..., Any]]:
    """Return them, in the order of the table."""
    return [one for one in RULES if not isinstance(one, np.ufunc) or getattr(np, one.__name__, None) is one]
