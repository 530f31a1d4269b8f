"""Samples that are compared with each other, each along the last axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays.axes import reduced_axes
from ...core.arrays.values import raw
from ..arguments import floating
from .nan_policies import Axis, as_lines, check_nan_policy, refuse_nan, warn_of_few

__all__ = ["Group", "group", "lines_of", "with_axes"]


def lines_of(function: str, samples: Sequence[Any], axis: Axis, nan_policy: str) -> tuple[list[Any], tuple[int, ...]]:
    """Return samples as lines along the last axis, and the axes that these were; warn of one without observations.

    Raises:
        TypeError: there are fewer than two samples.
        ValueError: there is nan, which the policy refuses.
    """
    if len(samples) < 2:
        raise TypeError(f"scipy.stats.{function} takes two samples or more, not {len(samples)}")
    check_nan_policy(function, nan_policy)
    data = [np.atleast_1d(floating(one)) for one in samples]
    refuse_nan(nan_policy, *data)
    dtype, ndim = np.result_type(*(one.dtype for one in data)), max(one.ndim for one in data)
    data = [one.astype(dtype, copy=False) for one in data]
    axes = reduced_axes(axis, ndim)
    if axis is None:
        lines = [one.reshape((-1,)) for one in data]
    else:
        lines = [as_lines(one.reshape((1,) * (ndim - one.ndim) + one.shape), axes, ndim) for one in data]
    is_nothing = any(not one.shape[-1] for one in lines)
    if is_nothing and all(math.prod(one.shape[:-1]) for one in lines):
        has_lines = any(one.ndim > 1 for one in lines)
        # Of single lines one with nan is nan already: SciPy asks no further.
        if has_lines or not any(np.isnan(raw(one)).any() for one in lines):
            warn_of_few(has_lines, 4)
    return lines, axes


def with_axes(found: tuple[Any, Any], axes: tuple[int, ...], keepdims: bool) -> tuple[Any, Any]:
    """Return two results, with the axes of the samples as ones of length 1 if they are to be kept."""
    statistic, pvalue = found
    return (np.expand_dims(statistic, axes), np.expand_dims(pvalue, axes)) if keepdims else (statistic, pvalue)


class Group(NamedTuple):
    """A sample, along the last axis: its size, mean, sum of squared deviations, and ends."""

    size: np.ndarray
    mean: Any
    squares: Any
    least: np.ndarray
    greatest: np.ndarray


def group(lines: Any, is_omitting: bool) -> Group:
    """Return what is to be known of a sample, along the last axis."""
    bare = raw(lines)
    is_out = np.isnan(bare) if is_omitting else np.zeros_like(bare, bool)
    count = np.sum(~is_out, -1, dtype=bare.dtype)
    count = np.where(count > 0, count, np.nan)
    known = np.where(is_out, 0.0, lines)
    mean = np.sum(known, -1) / count
    away = np.where(is_out, 0.0, known - mean[..., np.newaxis])
    least, greatest = np.min(np.where(is_out, np.inf, bare), -1), np.max(np.where(is_out, -np.inf, bare), -1)
    return Group(count, mean, np.sum(away * away, -1), least, greatest)
