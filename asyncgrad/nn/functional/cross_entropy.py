"""Cross entropy from scores, and negative log-likelihood from log-probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays.device_functions import by_kernel
from ...core.arrays.interception import on_device_of_arguments
from ...core.arrays.one_device import check_operands_beside
from ...core.arrays.values import as_array, as_like
from ...core.ops.single_precision import in_single
from ...core.recording.kernels import device_variant
from ...core.recording.primitive import derivative, primitive
from ...errors import ArgumentError
from .arguments import array_of, check_real, check_reduction, constant, real_floating
from .labels import LabelsOnDevice, Selection, at_labels, in_dtype, label_index, labels_beside, select
from .rows import maximum_along, sum_along
from .softmaxes import log_softmax, softmax, softmax_grad

__all__ = ["cross_entropy", "nll_loss"]


@np.errstate(invalid="ignore")  # for a row with an infinity, whose loss is NaN
def _compute(scores: Any, selection: Selection, reduction: str) -> tuple[Any, Any, Any]:
    """Return the cross entropy of an array of scores, and the maxima and the sums of exponentials of its rows."""
    labels, ignored, coefficient, _ = selection
    maxima = maximum_along(scores, 1)
    values = scores - maxima
    picked = values[label_index(labels)]
    sums = sum_along(np.exp(values, out=values), 1)
    losses = np.log(sums).reshape(labels.shape)
    losses -= picked
    if ignored is not None:
        losses[ignored] = 0
    losses *= coefficient
    return losses if reduction == "none" else np.add.reduce(losses, axis=None), maxima, sums


@primitive()
def cross_entropy_(logits: Any, value: Any, selection: Selection, maxima: Any, sums: Any) -> Any:
    """Return `value`, the cross entropy, which was computed together with the maxima and sums for the derivative."""
    return value


def _cross_entropy_grad_on_device(
    g: Any, logits: Any, selection: Selection | LabelsOnDevice, maxima: Any, sums: Any
) -> Any:
    if isinstance(selection, LabelsOnDevice):
        labels, ignore_index, factor = selection
        result = by_kernel("cross_entropy_grad", g, logits, labels, ignore_index, maxima, sums, factor)
        if result is not None:
            return result
        selection = selection.select(logits)
    return cross_entropy_grad_.function(g, logits, selection, maxima, sums)


@derivative(cross_entropy_, "logits")
@device_variant(_cross_entropy_grad_on_device)
def _(g: Any, logits: Any, selection: Selection, maxima: Any, sums: Any) -> Any:
    return cross_entropy_grad(g, logits, selection, maxima, sums)


@primitive()
@device_variant(_cross_entropy_grad_on_device)
def cross_entropy_grad_(g: Any, logits: Any, selection: Selection, maxima: Any, sums: Any) -> Any:
    """Return the gradient of cross_entropy for the logits: g times the coefficients times (softmax - labels)."""
    labels, ignored, coefficient, _ = selection
    scale = as_array(g * coefficient)
    values = np.subtract(logits, maxima)
    np.exp(values, out=values)
    values *= (np.expand_dims(scale, 1) if scale.ndim else scale) / sums
    values[label_index(labels)] -= scale
    if ignored is not None:
        np.moveaxis(values, 1, -1)[ignored] = 0
    return values


@derivative(cross_entropy_grad_, "g")
def _(h: Any, logits: Any, selection: Selection | LabelsOnDevice) -> Any:
    labels, ignored, coefficient, _ = _selected(selection, logits)
    expected = np.sum(h * softmax(logits, 1), axis=1)
    value = (expected - at_labels(h, labels, None)) * coefficient
    return value if ignored is None else value * ~ignored


@derivative(cross_entropy_grad_, "logits")
def _(h: Any, g: Any, logits: Any, selection: Selection | LabelsOnDevice) -> Any:
    selection = _selected(selection, logits)
    scale = g * selection.coefficient
    if selection.ignored is not None:
        scale = scale * ~selection.ignored
    if scale.ndim:
        scale = np.expand_dims(scale, 1)
    return softmax_grad(h * scale, softmax(logits, 1), 1)


def _selected(selection: Selection | LabelsOnDevice, logits: Any) -> Selection:
    return selection if isinstance(selection, Selection) else selection.select(array_of(logits))


_cross_entropy = cross_entropy_.call
cross_entropy_grad: Callable[..., Any] = cross_entropy_grad_.call


@on_device_of_arguments
@in_single
def cross_entropy(
    logits: Any,
    labels: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """Return the cross entropy: minus the logarithm of the probability that the softmax of the scores gives the label.

    Args:
        logits: scores, shape `(n, classes)`, `(n, classes, d...)` or `(classes,)`.
        labels: integers from 0 to `classes - 1`, of the same shape without the classes; or the probability of
            each class, of the shape of `logits`.
        weight: the weight of each class, shape `(classes,)`; None for equal weights.
        ignore_index: a label whose loss is 0.
        reduction: "mean" (weighted, without ignored labels), "sum" or "none".
        label_smoothing: the fraction, from 0 to 1, of the probability that is spread evenly over all classes.

    Returns:
        A scalar; with reduction "none" the losses, in the shape of integer labels.

    Raises:
        ArgumentError: shapes or options do not fit.
        IndexRangeError: a label is not a class. (Labels on a device with arrays of its own are not waited for: the loss
            is then NaN.)
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.cross_entropy.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> logits = np.array([[2.0, 0.0], [0.0, 0.0]])
        >>> nn.cross_entropy(logits, np.array([0, 1]), reduction="none")
        array([0.12692801, 0.69314718])
    """
    check_reduction(reduction)
    check_operands_beside("cross_entropy", logits, constants=(labels, weight))
    if not 0 <= label_smoothing <= 1:
        raise ArgumentError(f"label_smoothing must be from 0 to 1, not {label_smoothing}")
    truth = array_of(labels)
    if truth.dtype.kind in "fc":
        return _against_probabilities(logits, labels, weight, reduction, label_smoothing)
    scores, samples = _canonicalize("cross_entropy", logits, truth)
    if not truth.size and reduction == "mean":
        return np.sum(scores) * np.nan
    data = real_floating("cross_entropy", "logits", array_of(scores))
    if data.__class__ is not np.ndarray and weight is None and not label_smoothing:
        result = _by_device(scores, data, truth, ignore_index, reduction)
        if result is not None:
            return result if result.shape in ((), samples) else result.reshape(samples)
    selection = select("cross_entropy", truth, data, data.dtype, weight, ignore_index, reduction)
    if label_smoothing:
        losses = _smooth(log_softmax(scores, 1), selection, weight, label_smoothing)
        return _reduce(losses, samples, "none" if reduction == "none" else "sum")
    value, maxima, sums = _compute(data, selection, reduction)
    result = _cross_entropy(scores, value, selection, maxima, sums)
    return result if result.shape in ((), samples) else result.reshape(samples)


def _by_device(scores: Any, data: Any, labels: Any, ignore_index: int, reduction: str) -> Any:
    """Return the cross entropy by the kernels of the device of the scores; None where it has none for these arrays."""
    # No int64 holds all numbers of uint64.
    if data.ndim != 2 or labels.dtype == np.uint64:
        return None
    labels = labels_beside("cross_entropy", labels.reshape(-1), data, ignore_index)
    found = by_kernel("cross_entropy", data, labels, ignore_index, reduction)
    if found is None:
        return None
    value, maxima, sums, factor = found
    return _cross_entropy(scores, value, LabelsOnDevice(labels, ignore_index, factor), maxima, sums)


def _smooth(log_probabilities: Any, selection: Selection, weight: Any, smoothing: float) -> Any:
    labels, ignored, coefficient, scale = selection
    certain = at_labels(log_probabilities, labels, ignored) * coefficient
    weighted = log_probabilities if weight is None else log_probabilities * _by_class(weight, log_probabilities)
    even = np.sum(weighted, axis=1)
    even = even * in_dtype(scale / log_probabilities.shape[1], even.dtype)
    if ignored is not None:
        even = np.where(ignored, 0, even)
    return certain * (smoothing - 1) - even * smoothing


def _against_probabilities(logits: Any, target: Any, weight: Any, reduction: str, smoothing: float) -> Any:
    check_real("cross_entropy", logits=logits, labels=target)
    shape = array_of(logits).shape
    if array_of(target).shape != shape:
        raise ArgumentError(
            f"cross_entropy of logits of shape {shape} takes integer labels, or probabilities of that shape, "
            f"not floating labels of shape {array_of(target).shape}"
        )
    axis = min(1, len(shape) - 1)
    if smoothing:
        target = target * (1 - smoothing) + smoothing / shape[axis]
    product = log_softmax(logits, axis) * target
    if weight is not None:
        product = product * _by_class(weight, product)
    losses = -np.sum(product, axis=axis)
    if reduction == "none":
        return losses
    return np.sum(losses) if reduction == "sum" else np.mean(losses)


def _by_class(weight: Any, other: Any) -> Any:
    """Return the weights as an array beside an array or tensor that broadcasts along the class axis of that."""
    other = array_of(other)
    return as_like(constant("cross_entropy", "weight", weight), other).reshape(-1, *(1,) * max(0, other.ndim - 2))


def _canonicalize(function: str, logits: Any, labels: Any) -> tuple[Any, tuple[int, ...]]:
    """Return scores in the shape (n, classes) or (n, classes, d), and the shape of the losses."""
    shape = array_of(logits).shape
    if not shape:
        raise ArgumentError(f"{function} needs scores of shape (n, classes) or (n, classes, d...), not a scalar")
    expected = (*shape[:1], *shape[2:]) if len(shape) > 1 else ()
    if labels.shape != expected or labels.dtype.kind not in "iu":
        raise ArgumentError(
            f"{function} of scores of shape {shape} takes integer labels of shape {expected} (the classes are on "
            f"axis {min(1, len(shape) - 1)}), not labels of shape {labels.shape} and dtype {labels.dtype}"
        )
    if len(shape) == 1:
        logits = np.reshape(logits, (1, *shape))
    elif len(shape) > 3:
        logits = np.reshape(logits, (*shape[:2], -1))
    return logits, expected


def _reduce(losses: Any, samples: tuple[int, ...], reduction: str) -> Any:
    return np.reshape(losses, samples) if reduction == "none" else np.sum(losses)


@on_device_of_arguments
@in_single
def nll_loss(input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean") -> Any:
    """Return minus the log-probabilities of the right classes.

    Args:
        input: log-probabilities, shape `(n, classes)`, `(n, classes, d...)` or `(classes,)`.
        target: integers from 0 to `classes - 1`, of the same shape without the classes.
        weight: the weight of each class, shape `(classes,)`; None for equal weights.
        ignore_index: a label whose loss is 0.
        reduction: "mean" (weighted, without ignored labels), "sum" or "none".

    Returns:
        A scalar; with reduction "none" the losses, in the shape of `target`.

    Raises:
        ArgumentError: shapes or options do not fit.
        IndexRangeError: a label is not a class. (Labels on a device with arrays of its own are not waited for: the loss
            is then NaN.)
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.nll_loss.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.nll_loss(np.array([[-1.0, -2.0], [-3.0, -4.0]]), np.array([0, 1]), reduction="none")
        array([1., 4.])
    """
    check_reduction(reduction)
    check_operands_beside("nll_loss", input, constants=(target, weight))
    labels = array_of(target)
    scores, samples = _canonicalize("nll_loss", input, labels)
    if not labels.size and reduction == "mean":
        return np.sum(scores) * np.nan
    data = array_of(scores)
    dtype = real_floating("nll_loss", "input", data).dtype
    selection = select("nll_loss", labels, data, dtype, weight, ignore_index, reduction)
    losses = at_labels(scores, selection.labels, selection.ignored) * -selection.coefficient
    return _reduce(losses, samples, reduction)
