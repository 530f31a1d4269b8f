"""Sums and other summaries of the elements of an image, or of those with each label."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.values import raw
from ...core.tensor import Tensor
from ...errors import ArgumentTypeError
from ..arguments import floating

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = [
    "center_of_mass",
    "maximum",
    "mean",
    "median",
    "minimum",
    "standard_deviation",
    "sum",
    "sum_labels",
    "variance",
]


#: What SciPy computes in double precision.
_IN_DOUBLE = ("mean", "variance", "standard_deviation")


def _summary(name: str, summarise: Callable[[Any], Any], document: str) -> Callable[..., Tensor]:
    def made(input: Any, labels: Any = None, index: Any = None) -> Tensor:
        image = floating(input)
        if name in _IN_DOUBLE or (name in ("sum", "sum_labels") and labels is not None and np.ndim(index)):
            image = image.astype(np.result_type(image.dtype, np.float64), copy=False)
        if labels is None:
            return summarise(image.reshape(-1))
        marks = np.asarray(raw(labels))
        shape = np.broadcast_shapes(marks.shape, image.shape)
        image, marks = np.broadcast_to(image, shape), np.broadcast_to(marks, shape)
        if index is None:
            return summarise(image[marks > 0])
        if np.ndim(index) == 0:
            return summarise(image[marks == np.asarray(raw(index))])
        if image.dtype.kind == "c" and name in (*_IN_DOUBLE, "sum", "sum_labels"):
            raise ArgumentTypeError(f"scipy.ndimage.{name} of several labels takes a real image: call it on both parts")
        # Of a label that no element has, the least and the greatest are 0; SciPy's median is any element.
        none: Any = {"minimum": _sum, "maximum": _sum, "median": _unknown}.get(name, summarise)
        parts = [image[marks == one] for one in np.ravel(np.asarray(raw(index)))]
        each = _OF_SORTED.get(name, summarise)
        found = [(each if len(one) else none)(one) for one in parts]
        return np.stack(found).reshape(np.shape(raw(index))) if found else image.reshape(-1)[:0]

    made.__name__ = made.__qualname__ = name
    made.__doc__ = f"""{document}

    Args:
        input: the image.
        labels: whole numbers, of the image's shape or one that is broadcast to it; None for all elements.
        index: the label, or the labels, whose elements are taken; None for all that are greater than 0.

    Returns:
        A Tensor of the shape of `index`.

    Source: scipy.ndimage.{name}.
    """
    return made


def _sum(values: Any) -> Any:
    return np.sum(values)


def _middle(values: Array) -> Any:
    ordered, count = np.sort(values), values.shape[0]
    # Of an even number the mean of the two.
    return (ordered[(count - 1) // 2] + ordered[count // 2]) / 2


def _unknown(values: Any) -> Any:
    return np.sum(values) + np.nan


def _least(values: Array) -> Any:
    return np.min(values) if not np.isnan(raw(values)).any() else np.sort(values)[0]


#: SciPy sorts the elements of several labels, NaN last, where NumPy's functions of those of one label return NaN.
_OF_SORTED: dict[str, Callable[[Any], Any]] = {"median": _middle, "minimum": _least}


def _as_complex(summarise: Callable[..., Any]) -> Callable[[Any], Any]:
    # SciPy's sum of a deviation times its conjugate is complex.
    return lambda values: summarise(values).astype(values.dtype, copy=False)


sum_labels: Callable[..., Tensor] = _summary("sum_labels", _sum, "Return the sum of elements.")
sum: Callable[..., Tensor] = _summary("sum", _sum, "Return the sum of elements; as `sum_labels`.")
mean: Callable[..., Tensor] = _summary("mean", np.mean, "Return the mean of elements.")
variance: Callable[..., Tensor] = _summary("variance", _as_complex(np.var), "Return the variance of elements.")
standard_deviation: Callable[..., Tensor] = _summary(
    "standard_deviation", _as_complex(np.std), "Return the standard deviation of elements."
)
minimum: Callable[..., Tensor] = _summary(
    "minimum", np.min, "Return the least element, or 0 for one of several labels that no element has."
)
maximum: Callable[..., Tensor] = _summary(
    "maximum", np.max, "Return the greatest element, or 0 for one of several labels that no element has."
)
median: Callable[..., Tensor] = _summary("median", np.median, "Return the median of elements.")


def center_of_mass(input: Any, labels: Any = None, index: Any = None) -> Any:
    """Return the mean of the places of elements, weighted by them.

    Args:
        input: the image.
        labels: as for `sum_labels`.
        index: as for `sum_labels`.

    Returns:
        A tuple of Tensors, one for each axis; with several labels a list of such tuples.

    Source: scipy.ndimage.center_of_mass.
    """
    image = floating(input)
    total = sum_labels(image, labels, index)
    grids = np.ogrid[tuple(slice(0, length) for length in image.shape)]
    places = [sum_labels(image * grid, labels, index) / total for grid in grids]
    return [tuple(one) for one in np.stack(places).T] if total.ndim else tuple(places)
