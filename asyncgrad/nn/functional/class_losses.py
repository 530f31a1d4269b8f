"""Losses of classes: cross entropy, of scores, and the negative log-likelihood, of log-probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.device_functions import own_function
from ...core.arrays.interception import on_device_of_arguments
from ...core.arrays.one_device import check_operands_share_device
from ...core.arrays.values import as_array, as_like
from ...core.ops.single_precision import arrays_in_single
from ...core.recording.kernels import kernel
from ...core.recording.primitive import derivative, primitive
from ...core.settings.arguments import whole_number
from ...errors import ArgumentError
from ..shared.arguments import (
    array_of,
    check_real,
    check_reduction,
    constant,
    operand,
    option,
    real_floating,
    saved_constant,
)
from ..shared.labels import LabelsOnDevice, Selection, at_labels, in_dtype, label_index, labels_like, select
from ..shared.rows import maximum_along, sum_along
from .softmaxes import log_softmax, softmax, softmax_grad

if TYPE_CHECKING:
    from ...core.arrays.array import Array
    from ...core.tensor import Tensor


__all__ = ["cross_entropy", "nll_loss"]

#: The most bytes of exponentials that cross_entropy keeps for its gradient; more are computed again.
_MOST_KEPT = 1 << 20


@np.errstate(invalid="ignore")  # for a row with an infinity, whose loss is NaN
def _compute(scores: Any, selection: Selection, reduction: str) -> tuple[Any, Any, Any, Any]:
    """Return the cross entropy of an array of scores, the maxima and the sums of exponentials of its rows, and these.

    Where the exponentials take much memory, there is None in their place.
    """
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
    value = losses if reduction == "none" else np.add.reduce(losses, axis=None)
    is_small = scores.__class__ is np.ndarray and scores.nbytes <= _MOST_KEPT
    return value, maxima, sums, values if is_small else None


@primitive()
def cross_entropy_(
    logits: Any, value: Any, labels: Any, selection: Selection, maxima: Any, sums: Any, exponentials: Any
) -> Any:
    """Return `value`, the cross entropy, which was computed together with all else that the derivative uses.

    The labels of the selection are passed beside it, so that they may be a Tensor.
    """
    return value


def _cross_entropy_grad_on_device(
    g: Any,
    logits: Any,
    labels: Any,
    selection: Selection | LabelsOnDevice,
    maxima: Any,
    sums: Any,
    exponentials: Any,
) -> Any:
    if isinstance(selection, LabelsOnDevice):
        _, ignore_index, factor = selection
        result = own_function("cross_entropy_grad", g)(g, logits, labels, ignore_index, maxima, sums, factor)
        if result is not None:
            return result
        selection = _selected(selection, labels, logits)
        labels = selection.labels
    return cross_entropy_grad_.function(g, logits, labels, selection, maxima, sums, exponentials)


@derivative(cross_entropy_, "logits")
@kernel(variant=_cross_entropy_grad_on_device)
def _(g: Array, logits: Array, labels: Any, selection: Selection, maxima: Any, sums: Any, exponentials: Any) -> Array:
    return cross_entropy_grad(g, logits, labels, selection, maxima, sums, exponentials)


@primitive()
@kernel(variant=_cross_entropy_grad_on_device)
def cross_entropy_grad_(
    g: Any, logits: Any, labels: Any, selection: Selection, maxima: Any, sums: Any, exponentials: Any
) -> Array:
    """Return the gradient of cross_entropy for the logits: g times the coefficients times (softmax - labels)."""
    _, ignored, coefficient, _ = selection
    scale = as_array(g * coefficient)
    factor = (np.expand_dims(scale, 1) if scale.ndim else scale) / sums
    if exponentials is None:
        values = np.subtract(logits, maxima)
        np.exp(values, out=values)
        values *= factor
    else:
        values = np.multiply(exponentials, factor, out=np.empty_like(exponentials))
    values[label_index(labels)] -= scale
    if ignored is not None:
        np.moveaxis(values, 1, -1)[ignored] = 0
    return values


@derivative(cross_entropy_, "labels")
@derivative(cross_entropy_grad_, "labels")
def _(g: Any) -> None:
    """Give no gradient; the formula is there so that the labels may be a Tensor, whose version is checked."""


@derivative(cross_entropy_grad_, "g")
def _(h: Any, logits: Any, labels: Any, selection: Selection | LabelsOnDevice) -> Array:
    selection = _selected(selection, labels, logits)
    expected = np.sum(h * softmax(logits, 1), axis=1)
    value = (expected - at_labels(h, selection.labels, None)) * selection.coefficient
    # Not times 0: without any label that counts, the coefficient of a mean is NaN.
    return value if selection.ignored is None else np.where(selection.ignored, 0, value)


@derivative(cross_entropy_grad_, "logits")
def _(h: Any, g: Any, logits: Any, labels: Any, selection: Selection | LabelsOnDevice) -> Array:
    selection = _selected(selection, labels, logits)
    scale = g * selection.coefficient
    if selection.ignored is not None:
        scale = np.where(selection.ignored, 0, scale)
    if scale.ndim:
        scale = np.expand_dims(scale, 1)
    return softmax_grad(h * scale, softmax(logits, 1), 1)


def _selected(selection: Selection | LabelsOnDevice, labels: Any, logits: Any) -> Selection:
    """Return a selection with the labels that were passed beside it."""
    if isinstance(selection, Selection):
        return selection._replace(labels=labels)
    return selection._replace(labels=array_of(labels)).select(array_of(logits))


_cross_entropy = cross_entropy_.call
cross_entropy_grad: Callable[..., Any] = cross_entropy_grad_.call


@on_device_of_arguments
@arrays_in_single
def cross_entropy(
    input: Tensor | np.ndarray,
    target: Tensor | np.ndarray,
    weight: Tensor | np.ndarray | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor | np.ndarray:
    """Return the cross entropy: minus the logarithm of the probability that the softmax of the scores gives the label.

    Args:
        input: scores, shape `(n, classes)`, `(n, classes, d...)` or `(classes,)`.
        target: labels, integers from 0 to `classes - 1`, of the same shape without the classes; or the probability of
            each class, of the shape of `input`.
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
    check_operands_share_device("cross_entropy", input, constants=(target, weight))
    ignore_index = whole_number(ignore_index, "ignore_index")
    if not 0 <= (label_smoothing := option("cross_entropy", "label_smoothing", label_smoothing)) <= 1:
        raise ArgumentError(f"label_smoothing must be from 0 to 1, not {label_smoothing}")
    truth = array_of(target)
    if truth.dtype.kind in "fc":
        return _against_probabilities(input, target, weight, ignore_index, reduction, label_smoothing)
    scores, samples = _canonicalize("cross_entropy", input, truth)
    if not truth.size and reduction == "mean":
        return np.sum(scores) * np.nan
    data = real_floating("cross_entropy", "input", array_of(scores))
    if data.__class__ is not np.ndarray and weight is None and not label_smoothing:
        result = _by_device(scores, data, truth, target, ignore_index, reduction)
        if result is not None:
            return result if result.shape in ((), samples) else result.reshape(samples)
    selection = select("cross_entropy", truth, data, data.dtype, weight, ignore_index, reduction)
    labels = selection.labels if truth is target else saved_constant(selection.labels, target, scores)
    if label_smoothing:
        return _reduce(_smooth(scores, selection._replace(labels=labels), weight, label_smoothing), samples, reduction)
    value, maxima, sums, exponentials = _compute(data, selection, reduction)
    result = _cross_entropy(scores, value, labels, Selection(None, *selection[1:]), maxima, sums, exponentials)
    return result if result.shape in ((), samples) else result.reshape(samples)


def _by_device(scores: Any, data: Array, labels: Any, target: Any, ignore_index: int, reduction: str) -> Any:
    """Return the cross entropy by the kernels of the device of the scores; None where it has none for these arrays.

    The labels are the array of `target`.
    """
    # No int64 holds all numbers of uint64.
    if data.ndim != 2 or labels.dtype == np.uint64:
        return None
    labels = labels_like("cross_entropy", labels.reshape(-1), data, ignore_index)
    found = own_function("cross_entropy", data)(data, labels, ignore_index, reduction)
    if found is None:
        return None
    value, maxima, sums, factor = found
    saved = saved_constant(labels, target, scores)
    return _cross_entropy(scores, value, saved, LabelsOnDevice(None, ignore_index, factor), maxima, sums, None)


def _smooth(scores: Any, selection: Selection, weight: Any, smoothing: float) -> Any:
    log_probabilities = log_softmax(scores, 1)
    labels, ignored, coefficient, scale = selection
    certain = at_labels(log_probabilities, labels, ignored) * coefficient
    weighted = log_probabilities if weight is None else log_probabilities * _by_class(weight, log_probabilities)
    even = np.sum(weighted, axis=1)
    if ignored is not None:
        # Before the scale, which is NaN where all labels are ignored: the gradient of what is ignored is 0.
        even = np.where(ignored, 0, even)
    even = even * in_dtype(scale / log_probabilities.shape[1], even.dtype)
    return certain * (smoothing - 1) - even * smoothing


def _against_probabilities(
    logits: Any, target: Any, weight: Any, ignore_index: int, reduction: str, smoothing: float
) -> Any:
    check_real("cross_entropy", input=logits, target=target)
    if ignore_index >= 0:
        raise ArgumentError(
            f"cross_entropy with probabilities as target ignores no class: it takes no ignore_index={ignore_index}"
        )
    shape = array_of(logits).shape
    if array_of(target).shape != shape:
        raise ArgumentError(
            f"cross_entropy of logits of shape {shape} takes integer labels, or probabilities of that shape, "
            f"not floating labels of shape {array_of(target).shape}"
        )
    axis = min(1, len(shape) - 1)
    if weight is not None and array_of(weight).shape != (shape[axis],):
        raise ArgumentError(
            f"cross_entropy of {shape[axis]} classes takes a weight of shape {(shape[axis],)}, not "
            f"{array_of(weight).shape}"
        )
    logits, target = operand(logits), operand(target)
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
    array = array_of(other)
    weights = as_like(constant("cross_entropy", "weight", weight), array)
    return saved_constant(weights.reshape(-1, *(1,) * max(0, array.ndim - 2)), weight, other)


def _canonicalize(function: str, logits: Any, labels: Array) -> tuple[Any, tuple[int, ...]]:
    """Return scores in the shape (n, classes) or (n, classes, d), and the shape of the losses."""
    shape = array_of(logits).shape
    if not shape:
        raise ArgumentError(f"{function} needs scores of shape (n, classes) or (n, classes, d...), not a scalar")
    expected = (*shape[:1], *shape[2:]) if len(shape) > 1 else ()
    # One sample without an axis of samples may have its label in one.
    fits = labels.shape == expected or (len(shape) == 1 and labels.shape == (1,))
    if not fits or labels.dtype.kind not in "iu":
        raise ArgumentError(
            f"{function} of scores of shape {shape} takes integer labels of shape {expected} (the classes are on "
            f"axis {min(1, len(shape) - 1)}), not labels of shape {labels.shape} and dtype {labels.dtype}"
        )
    if len(shape) == 1:
        logits = np.reshape(logits, (1, *shape))
    elif len(shape) > 3:
        logits = np.reshape(logits, (*shape[:2], math.prod(shape[2:])))
    return logits, expected


def _reduce(losses: Any, samples: tuple[int, ...], reduction: str) -> Any:
    return np.reshape(losses, samples) if reduction == "none" else np.sum(losses)


@on_device_of_arguments
@arrays_in_single
def nll_loss(
    input: Tensor | np.ndarray,
    target: Tensor | np.ndarray,
    weight: Tensor | np.ndarray | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor | np.ndarray:
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
    check_operands_share_device("nll_loss", input, constants=(target, weight))
    input = operand(input)
    ignore_index = whole_number(ignore_index, "ignore_index")
    labels = array_of(target)
    scores, samples = _canonicalize("nll_loss", input, labels)
    if not labels.size and reduction == "mean":
        return np.sum(scores) * np.nan
    data = array_of(scores)
    dtype = real_floating("nll_loss", "input", data).dtype
    selection = select("nll_loss", labels, data, dtype, weight, ignore_index, reduction)
    watched = selection.labels if labels is target else saved_constant(selection.labels, target, scores)
    picked = at_labels(scores, watched, selection.ignored)
    return _reduce(picked * -selection.coefficient, samples, reduction)
