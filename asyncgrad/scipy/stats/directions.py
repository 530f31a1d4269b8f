"""What describes angles and directions: their mean, and how far they are from it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays.values import raw
from ...core.ops.single_precision import in_single
from ...core.tensor import Tensor
from ..arguments import floating
from ..roots import root_of_squares
from .nan_policies import Axis, along_last_axis, by_nan_policy

__all__ = ["circmean", "circstd", "circvar", "directional_stats"]


def _means(samples: Any, period: Any) -> tuple[Any, Any]:
    """Return the mean sine and cosine of angles along the last axis."""
    angles = samples * (2 * math.pi / period)
    return np.mean(np.sin(angles), -1), np.mean(np.cos(angles), -1)


def _length(samples: Any, period: Any) -> Any:
    """Return the length of the mean of angles as unit vectors, at most 1."""
    length = np.hypot(*_means(samples, period))
    excess = np.where(raw(length) > 1, raw(length) - 1, 0.0)
    return length - excess if np.any(excess) else length


@by_nan_policy("samples")
@in_single
@along_last_axis("samples")
def circmean(
    samples: Any,
    high: Any = 2 * math.pi,
    low: Any = 0,
    axis: Axis = None,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Tensor:
    """Return the mean of angles, as `scipy.stats.circmean`: the angle of the mean of their unit vectors.

    Args:
        samples: the angles.
        high: the end of the interval of the result, a full turn above `low`.
        low: the start of the interval of the result.
        axis: along which, or None for all.
        nan_policy: "propagate", "omit" or "raise".
        keepdims: whether the axis remains, with length 1.

    Example:
        >>> from asyncgrad.scipy import stats
        >>> round(stats.circmean([350.0, 20.0], high=360).item(), 6)
        5.0
    """
    period = high - low
    return np.remainder(np.arctan2(*_means(samples, period)) * (period / (2 * math.pi)) - low, period) + low


@by_nan_policy("samples")
@in_single
@along_last_axis("samples")
def circvar(
    samples: Any,
    high: float | Tensor = 2 * math.pi,
    low: float | Tensor = 0,
    axis: Axis = None,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Tensor:
    """Return 1 less the length of the mean of angles as unit vectors, as `scipy.stats.circvar`.

    Arguments as for `circmean`.
    """
    return 1 - _length(samples, high - low)


@by_nan_policy("samples")
@in_single
@along_last_axis("samples")
def circstd(
    samples: Any,
    high: float | Tensor = 2 * math.pi,
    low: float | Tensor = 0,
    axis: Axis = None,
    nan_policy: str = "propagate",
    *,
    normalize: bool = False,
    keepdims: bool = False,
) -> Tensor:
    """Return the standard deviation of angles, as `scipy.stats.circstd`; its gradient is 0 where it is 0.

    Args:
        samples: the angles.
        high: as for `circmean`.
        low: as for `circmean`.
        axis: along which, or None for all.
        nan_policy: "propagate", "omit" or "raise".
        normalize: whether it is that of the angles in radians.
        keepdims: whether the axis remains, with length 1.
    """
    period = high - low
    found = root_of_squares(-2 * np.log(_length(samples, period)))
    return found if normalize else found * (period / (2 * math.pi))


class DirectionalStats(NamedTuple):
    """The result of `directional_stats`.

    Attributes:
        mean_direction: of length 1.
        mean_resultant_length: the length of the mean of the vectors.
    """

    mean_direction: Tensor
    mean_resultant_length: Tensor


@in_single
def directional_stats(samples: Any, *, axis: int = 0, normalize: bool = True) -> DirectionalStats:
    """Return the mean direction of vectors, and the length of their mean, as `scipy.stats.directional_stats`.

    Args:
        samples: the vectors, along the last axis.
        axis: along which the mean is taken.
        normalize: whether the vectors are divided by their lengths first.

    Raises:
        ValueError: the samples have fewer than two axes.
    """
    samples = floating(samples)
    if samples.ndim < 2:
        raise ValueError(
            f"scipy.stats.directional_stats takes samples of two axes or more, not of shape {samples.shape}"
        )
    samples = np.moveaxis(samples, axis, 0)
    if normalize:
        samples = samples / np.linalg.norm(samples, axis=-1, keepdims=True)
    mean = np.mean(samples, 0)
    length = np.linalg.norm(mean, axis=-1, keepdims=True)
    return DirectionalStats(mean / length, length[..., 0])
