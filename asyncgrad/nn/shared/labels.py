"""Labels of classes: their checks, and functions that pick the elements at labels or put elements there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core.arrays.values import (
    arange_like,
    as_array,
    as_like,
    is_device_array,
    is_recorder,
    recorded_whole,
    zeros_like,
)
from ...core.recording.primitive import derivative, primitive
from ...errors import ArgumentError, IndexRangeError
from .arguments import check_arrays, constant, is_outside

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["LabelsOnDevice", "Selection", "at_labels", "in_dtype", "label_index", "labels_like", "select"]


class Selection(NamedTuple):
    """Checked labels of scores of shape (n, classes) or (n, classes, d), with the coefficients of their losses."""

    #: Shape (n,) or (n, d); ignored labels are replaced by 0. None in a node, which saves them beside this.
    labels: Any
    #: A mask of ignored labels, or None if there are none.
    ignored: Any
    #: The factor of each loss, a number or an array with the shape of the labels: weights, divided by their sum for a
    #: mean.
    coefficient: Any
    #: The factor of a sum over all classes of one sample: a number, or an array without axes that holds one.
    scale: Any


class LabelsOnDevice(NamedTuple):
    """Labels of scores of shape (n, classes) as the kernels of a device take them: unchecked, in its memory."""

    #: Shape (n,), int64; None in a node, which saves them beside this.
    labels: Any
    #: The label of which the loss is 0.
    ignore_index: int
    #: The factor of each loss, an array without axes; None for 1.
    factor: Any

    def select(self, scores: Array) -> Selection:
        """Return them as a Selection, which takes more kernels."""
        reduction = "sum" if self.factor is None else "mean"
        return _select_unseen(self.labels, scores.shape[1], scores.dtype, None, self.ignore_index, reduction)


def labels_like(function: str, labels: Any, scores: Array, ignore_index: int) -> Any:
    """Return integer labels as an array of int64 in the memory of a device, as that of the scores.

    Raises:
        IndexRangeError: a label is not a class; only those on the host are looked at.
    """
    if labels.__class__ is np.ndarray:
        kept, classes = labels[labels != ignore_index], scores.shape[1]
        if kept.size and (kept.min() < 0 or kept.max() >= classes):
            raise _range_error(function, kept.min() if kept.min() < 0 else kept.max(), classes, ignore_index)
    return as_like(labels.astype(np.int64, copy=False), scores)


def _range_error(function: str, label: Any, classes: int, ignore_index: int) -> IndexRangeError:
    return IndexRangeError(
        f"{function} got label {label}, but there are {classes} classes: labels must be 0 to {classes - 1}, for axis 1 "
        f"of the scores, or {ignore_index} to ignore one"
    )


def select(
    function: str, labels: Any, scores: Array, dtype: Any, weight: Any, ignore_index: int, reduction: str
) -> Selection:
    """Return the Selection of labels for scores of shape (n, classes) or (n, classes, d).

    Args:
        function: the caller, for errors.
        labels: an array.
        scores: an array; that of the Selection are of its type.
        dtype: of the losses.
        weight: one number for each class, or None.
        ignore_index: the label to ignore.
        reduction: of the losses.

    Raises:
        ArgumentError: the weight is not one number for each class.
        IndexRangeError: a label is not a class.
    """
    shape = scores.shape
    classes = shape[1]
    if labels.shape != (needed := (shape[0], *shape[2:])):
        labels = labels.reshape(needed)
    if weight is not None:
        check_arrays(function, weight=weight)
    weights = None if weight is None else as_like(constant(function, "weight", weight), scores)
    if weights is not None and weights.shape != (classes,):
        raise ArgumentError(f"{function} needs a weight of shape ({classes},), one for each class, not {weights.shape}")
    if labels.__class__ is not np.ndarray and is_device_array(labels):
        return _select_unseen(labels, classes, dtype, weights, ignore_index, reduction)
    if is_recorder(labels):
        return _select_recorded(function, as_like(labels, scores), classes, dtype, weights, ignore_index, reduction)
    given, ignored = labels, None
    if labels.size:
        lowest, highest = np.minimum.reduce(labels, axis=None), np.maximum.reduce(labels, axis=None)
        if lowest <= ignore_index <= highest:
            ignored = labels == ignore_index
            labels = np.where(ignored, 0, labels)
            lowest, highest = labels.min(), labels.max()
        if lowest < 0 or highest >= classes:
            raise _range_error(function, lowest if lowest < 0 else highest, classes, ignore_index)
    if weights is None:
        count = labels.size if ignored is None else labels.size - int(np.count_nonzero(ignored))
        scale = (1 / count if count else np.nan) if reduction == "mean" else 1.0
        return Selection(as_like(labels, scores), None if ignored is None else as_like(ignored, scores), scale, scale)
    if scores.__class__ is not np.ndarray and is_device_array(scores):
        return _select_unseen(as_like(given, scores), classes, dtype, weights, ignore_index, reduction)
    coefficient = weights[labels].astype(dtype)
    if ignored is not None:
        coefficient[ignored] = 0
    total = float(coefficient.sum()) if reduction == "mean" else 1.0
    scale = 1 / total if total else np.nan
    return Selection(labels, ignored, coefficient * scale, scale)


def _weights_of(labels: Any, weights: Any) -> Any:
    return weights[labels]


def _select_recorded(
    function: str, labels: Any, classes: int, dtype: Any, weights: Any, ignore_index: int, reduction: str
) -> Selection:
    """Return the Selection of labels that a program gets in each run: how many are ignored is no number of it."""
    ignored = labels == ignore_index
    labels = labels.copy()
    labels[ignored] = 0
    if labels.size:
        lowest, highest = labels.min(), labels.max()
        if lowest < 0 or highest >= classes:
            raise _range_error(function, lowest if lowest < 0 else highest, classes, ignore_index)
    if weights is not None:
        # By an array that does not record, as of constant weights, NumPy would read the labels unnoticed.
        picked = weights[labels] if is_recorder(weights) else recorded_whole(_weights_of, labels, weights)
        factors = picked.astype(dtype)
        factors[ignored] = 0
    else:
        # Of 64 bits, so that their sum is how many there are.
        factors = np.multiply(np.logical_not(ignored), 1.0)
    if reduction != "mean":
        return Selection(labels, ignored, 1.0 if weights is None else factors, 1.0)
    total = as_array(factors.sum()).astype(np.float64)
    scale = np.zeros_like(total)
    np.divide(1.0, total, out=scale, where=total != 0)
    # Not a sum with NaN, of which a kernel would tell each time.
    np.positive(np.nan, out=scale, where=total == 0)
    # As a number of Python is, where it meets an array.
    coefficient = scale.astype(dtype)
    return Selection(labels, ignored, coefficient if weights is None else factors * coefficient, scale)


@np.errstate(divide="ignore")  # where all labels are ignored: the losses are 0, and 0 times infinity is NaN
def _select_unseen(labels: Any, classes: int, dtype: Any, weights: Any, ignore_index: int, reduction: str) -> Selection:
    """Return the Selection of labels that are in the memory of a device, without waiting for their values.

    A label that is not a class is seen by nobody until the loss is: its coefficient is NaN.
    """
    ignored, outside = labels == ignore_index, is_outside(labels, classes)
    labels = np.where(outside, 0, labels)
    if weights is not None:
        weights = np.where(ignored, 0, weights[labels]).astype(dtype, copy=False)
    scale: Any = 1.0
    if reduction == "mean":
        total = labels.size - np.sum(ignored) if weights is None else np.sum(weights)
        scale = 1 / total.astype(np.float64)
    factors = scale if weights is None else weights * in_dtype(scale, dtype)
    # Outside, and not ignored: of truth values, one is greater than another.
    coefficient = np.where(outside > ignored, np.nan, factors).astype(dtype, copy=False)
    return Selection(labels, ignored, coefficient, scale)


def in_dtype(scale: Array, dtype: Any) -> Any:
    """Return a number as it is, and one in an array as an array of a dtype, so that products with it are of that."""
    return scale.astype(dtype) if is_device_array(scale) or is_recorder(scale) else scale


def label_index(labels: Array) -> tuple[Any, ...]:
    """Return the index that picks, from an array of shape (n, classes) or (n, classes, d), the labelled elements."""
    samples = arange_like(labels, len(labels))
    if labels.ndim == 1:
        return samples, labels
    return samples[:, np.newaxis], labels, arange_like(labels, labels.shape[1])


@primitive()
def at_labels_(x: Any, labels: Any, ignored: Any) -> Any:
    """Return the elements of x at the labels, and 0 where a label is ignored."""
    picked = x[label_index(labels)]
    if ignored is not None:
        picked[ignored] = 0
    return picked


@derivative(at_labels_, "x")
def _(g: Array, labels: Any, ignored: Any, x_shape: tuple[int, ...]) -> Array:
    return put_at_labels(g, labels, ignored, x_shape)


@primitive()
def put_at_labels_(g: Any, labels: Any, ignored: Any, shape: tuple[int, ...]) -> Array:
    """Return zeros with the elements of g at the labels, except ignored ones."""
    result = zeros_like(g, shape)
    result[label_index(labels)] = g if ignored is None else np.where(ignored, 0, g)
    return result


@derivative(at_labels_, "labels")
@derivative(put_at_labels_, "labels")
def _(g: Array) -> None:
    """Give no gradient; the formula is there so that the labels may be a Tensor, whose version is checked."""


@derivative(put_at_labels_, "g")
def _(h: Array, labels: Any, ignored: Any) -> Array:
    return at_labels(h, labels, ignored)


at_labels: Callable[..., Any] = at_labels_.call
put_at_labels: Callable[..., Any] = put_at_labels_.call
