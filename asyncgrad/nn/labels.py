"""Class labels: checked once, and elements picked from, and put back to, the places they name."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..errors import ArgumentError, IndexRangeError
from ..graph.values import zeros_beside
from ..ops.primitive import derivative, primitive
from .arguments import constant

__all__ = ["Selection", "at_labels", "places", "select"]


class Selection(NamedTuple):
    """What integer labels select from scores of shape (n, classes) or (n, classes, d), and with what weight."""

    #: Shape (n,) or (n, d); ignored ones are 0.
    labels: Any
    #: Where a label is the ignored one; None where none is.
    ignored: Any
    #: What each loss is multiplied by, one number or of the labels' shape: weights, and for a mean its divisor.
    coefficient: Any
    #: What a sum over all classes of one sample is multiplied by.
    scale: float


def select(
    function: str, labels: Any, shape: tuple[int, ...], dtype: Any, weight: Any, ignore_index: int, reduction: str
) -> Selection:
    """Return what labels select from scores of a shape, (n, classes) or (n, classes, d).

    Raises:
        ArgumentError: the weight is not one number for each class.
        IndexRangeError: a label is no class.
    """
    classes = shape[1]
    labels = labels.reshape(shape[0], *shape[2:])
    ignored = None
    if labels.size:
        lowest, highest = np.minimum.reduce(labels, axis=None), np.maximum.reduce(labels, axis=None)
        if lowest <= ignore_index <= highest:
            ignored = labels == ignore_index
            labels = np.where(ignored, 0, labels)
            lowest, highest = labels.min(), labels.max()
        if lowest < 0 or highest >= classes:
            raise IndexRangeError(
                f"{function} got label {lowest if lowest < 0 else highest}, and there are {classes} classes: "
                f"0 to {classes - 1} on axis 1 of the scores, and {ignore_index} to ignore one"
            )
    if weight is None:
        count = labels.size if ignored is None else labels.size - int(np.count_nonzero(ignored))
        scale = (1 / count if count else np.nan) if reduction == "mean" else 1.0
        return Selection(labels, ignored, scale, scale)
    weights = constant(function, "weight", weight)
    if weights.shape != (classes,):
        raise ArgumentError(f"{function} needs a weight of shape ({classes},), one for each class, not {weights.shape}")
    coefficient = weights[labels].astype(dtype)
    if ignored is not None:
        coefficient[ignored] = 0
    total = float(coefficient.sum()) if reduction == "mean" else 1.0
    scale = 1 / total if total else np.nan
    return Selection(labels, ignored, coefficient * scale, scale)


def places(labels: Any) -> tuple[Any, ...]:
    """Return the index that picks, from an array of shape (n, classes) or (n, classes, d), the labelled elements."""
    if labels.ndim == 1:
        return np.arange(len(labels)), labels
    return np.arange(len(labels))[:, np.newaxis], labels, np.arange(labels.shape[1])


@primitive()
def at_labels_(x: Any, labels: Any, ignored: Any) -> Any:
    """Return the elements of x that the labels name, and 0 where a label is ignored."""
    picked = x[places(labels)]
    if ignored is not None:
        picked[ignored] = 0
    return picked


@derivative(at_labels_, "x")
def _(g: Any, labels: Any, ignored: Any, x_shape: tuple[int, ...]) -> Any:
    return put_at_labels(g, labels, ignored, x_shape)


@primitive()
def put_at_labels_(g: Any, labels: Any, ignored: Any, shape: tuple[int, ...]) -> Any:
    """Return zeros with the elements of g in the places that the labels name, save the ignored ones."""
    result = zeros_beside(shape, g)
    result[places(labels)] = g if ignored is None else np.where(ignored, 0, g)
    return result


@derivative(put_at_labels_, "g")
def _(h: Any, labels: Any, ignored: Any) -> Any:
    return at_labels(h, labels, ignored)


at_labels = at_labels_.call
put_at_labels = put_at_labels_.call
