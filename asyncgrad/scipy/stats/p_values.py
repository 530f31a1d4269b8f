"""Probabilities of statistics as far out, which tests of all kinds return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["tail"]


def tail(function: str, below: Callable[[Any], Any], statistic: Any, alternative: str) -> Any:
    """Return the probability of a statistic as far out, by a distribution function that is symmetric about 0."""
    if alternative == "less":
        return below(statistic)
    if alternative == "greater":
        return below(-statistic)
    if alternative != "two-sided":
        raise ValueError(
            f"scipy.stats.{function} takes alternative 'two-sided', 'less' or 'greater', not {alternative!r}"
        )
    return 2 * below(-np.abs(statistic))
