"""Losses, elementwise or with a margin, from which on they are 0. Cross entropy is in `class_losses.py`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.device_functions import own_function
from ...core.arrays.half import single
from ...core.arrays.interception import on_device_of_arguments
from ...core.arrays.one_device import check_operands_share_device
from ...core.arrays.values import arange_like, as_array, as_like
from ...core.ops.composites import Composite, composite
from ...core.ops.single_precision import arrays_in_single, by_single, holds_half_array
from ...core.recording.kernels import FusedFormula, kernel
from ...core.recording.primitive import derivative, primitive
from ...core.settings.arguments import truth
from ...errors import ArgumentError, IndexRangeError
from ..shared.arguments import (
    REDUCTIONS,
    array_of,
    as_numbers,
    check_arrays,
    check_real,
    check_reduction,
    common_shape,
    constant,
    in_floats,
    option,
    real_floating,
    saved_constant,
    shapes_of,
)
from ..shared.labels import at_labels
from .activations import relu, softplus_
from .distances import pairwise_distance

if TYPE_CHECKING:
    from ...core.arrays.array import Array
    from ...core.tensor import Tensor


__all__ = [
    "KL_REDUCTIONS",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "margin_ranking_loss",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]


_softplus = softplus_.call


def _warn_if_broadcast(function: str, input: Any, target: Any) -> None:
    """Check that two arrays are on one device, and warn if their shapes differ.

    With the shapes (n,) and (n, 1), for example, there are n * n differences.

    Raises:
        ArgumentError: the shapes do not broadcast.
        DeviceError: they are on two devices.
    """
    check_operands_share_device(function, input, target)
    first, second = array_of(input).shape, array_of(target).shape
    if first != second:
        check_arrays(function, input=input, target=target)
        try:
            np.broadcast_shapes(first, second)
        except ValueError:
            raise ArgumentError(
                f"{function} takes an input and a target of one shape, not of the shapes {first} and {second}"
            ) from None
        warnings.warn(
            f"{function} broadcasts an input of shape {first} and a target of shape {second}: "
            "reshape one of them if that is not intended",
            stacklevel=3,
        )


def _reduce_losses(losses: Any, reduction: str) -> Any:
    """Return the mean or the sum of losses, or the losses themselves for "none"."""
    if reduction == "none":
        return losses
    return np.mean(losses) if reduction == "mean" else np.sum(losses)


def _weighed(losses: Composite, input: Any, target: Any, weight: Any, reduction: str) -> Any:
    """Return losses times weights, reduced; for a mean, divided by the sum of the weights.

    Raises:
        ArgumentError: the shapes of the weights and the input differ.
    """
    _check_weight(weight, input)
    if holds_half_array(input, target, weight):
        return by_single(_weighed, None, losses, input, target, weight, reduction)
    if reduction == "mean":
        return losses.reduced("sum", input, target, weight) / np.sum(single(weight))
    return losses.reduced(reduction, input, target, weight)


def _check_weight(weight: Any, input: Any) -> None:
    needed, found = array_of(input).shape, array_of(weight).shape
    if needed != found:
        raise ArgumentError(f"an input of shape {needed} takes a weight of that shape, not {found}")


def _squares(input: Any, target: Any) -> Any:
    difference = input - target
    return difference * difference


_fused_squares = FusedFormula(_squares)


def _squared_error_on_device(input: Any, target: Any, factor: float | None) -> Any:
    squares = _fused_squares(input, target)
    if squares.dtype.kind != "f" or not squares.size:
        return squared_error_.function(input, target, factor)
    if factor is None:
        return squares
    # Any other factor than 1 is that of a mean.
    function = np.sum if factor == 1 else np.mean
    return own_function(function, squares)(squares)


@primitive()
@kernel(variant=_squared_error_on_device)
def squared_error_(input: Any, target: Any, factor: float | None) -> Array:
    """Return the squares of the differences, or their sum times `factor` if that is given."""
    try:
        difference = np.subtract(input, target)
    except TypeError:
        # Not before, where it would take time of every call.
        check_real("mse_loss", input=input, target=target)
        raise
    if difference.dtype.kind == "c":
        check_real("mse_loss", input=input, target=target)
    squares = difference * difference
    return squares if factor is None else np.add.reduce(squares, axis=None) * factor


@derivative(squared_error_, "input")
def _(g: Any, input: Any, target: Any, factor: float | None) -> Array:
    return (input - target) * (g * (2.0 if factor is None else 2.0 * factor))


@derivative(squared_error_, "target")
def _(g: Any, input: Any, target: Any, factor: float | None) -> Array:
    return (input - target) * (g * (-2.0 if factor is None else -2.0 * factor))


_squared_error = squared_error_.call


@composite("input", "target", "weight")
def _weighed_squares(input: Any, target: Any, weight: Any) -> Any:
    return np.square(input - target) * weight


def mse_loss(
    input: Tensor | np.ndarray,
    target: Tensor | np.ndarray,
    reduction: str = "mean",
    weight: Tensor | np.ndarray | None = None,
) -> Tensor | np.ndarray:
    """Return the mean of the squared differences.

    Args:
        input: any shape.
        target: the same shape; another one is broadcast, with a warning.
        reduction: "mean", "sum" or "none".
        weight: the weight of each element, in the shape of the input, by whose sum a mean is divided; None for 1.

    Raises:
        ArgumentError: the weight has another shape.
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.mse_loss.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> float(nn.mse_loss(np.array([1.0, 2.0]), np.array([1.0, 4.0])))
        2.0
    """
    check_reduction(reduction)
    _warn_if_broadcast("mse_loss", input, target)
    input, target, weight = in_floats(input, target, weight)
    if weight is not None:
        check_real("mse_loss", input=input, target=target)
        return _weighed(_weighed_squares, input, target, weight, reduction)
    factor = None if reduction == "none" else 1.0
    if reduction == "mean":
        count = math.prod(np.broadcast_shapes(array_of(input).shape, array_of(target).shape))
        factor = 1 / count if count else math.nan
    return _squared_error(input, target, factor)


@composite("input", "target")
def _absolute_errors(input: Any, target: Any) -> Any:
    return np.abs(input - target)


@composite("input", "target", "weight")
def _weighed_absolute_errors(input: Any, target: Any, weight: Any) -> Any:
    return np.abs(input - target) * weight


def l1_loss(
    input: Tensor | np.ndarray,
    target: Tensor | np.ndarray,
    reduction: str = "mean",
    weight: Tensor | np.ndarray | None = None,
) -> Tensor | np.ndarray:
    """Return the mean of the absolute differences; its derivative at a difference of 0 is 0.

    Args:
        input: any shape.
        target: the same shape; another one is broadcast, with a warning.
        reduction: "mean", "sum" or "none".
        weight: the weight of each element, in the shape of the input, by whose sum a mean is divided; None for 1.

    Source: torch.nn.functional.l1_loss.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> float(nn.l1_loss(np.array([1.0, 2.0]), np.array([1.0, 4.0])))
        1.0
    """
    check_reduction(reduction)
    _warn_if_broadcast("l1_loss", input, target)
    input, target, weight = in_floats(input, target, weight)
    if weight is None:
        return _absolute_errors.reduced(reduction, input, target)
    return _weighed(_weighed_absolute_errors, input, target, weight, reduction)


# huber_loss, smooth_l1_loss


@primitive()
@kernel(expression=lambda x, delta: (np.abs(x) - 0.5 * np.minimum(np.abs(x), delta)) * np.minimum(np.abs(x), delta))
def huber_(x: Any, delta: float) -> Array:
    """Return x^2 / 2 where x is from -delta to delta, and delta (|x| - delta / 2) elsewhere."""
    size = np.abs(real_floating("huber_loss", "input", as_array(x)))
    # Half of the square up to delta, and a line from there on.
    part = np.clip(size, 0, delta)
    return (size - 0.5 * part) * part


@derivative(huber_, "x")
def _(g: Any, x: Array, delta: float) -> Array:
    return g * huber_slope(x, delta)


@primitive()
@kernel(expression=lambda x, delta: np.sign(x) * np.minimum(np.abs(x), delta))
def huber_slope_(x: Any, delta: float) -> Array:
    """Return x where it is from -delta to delta, and the nearer of both elsewhere: the derivative of huber_."""
    return np.clip(x, -delta, delta)


@derivative(huber_slope_, "x")
def _(h: Any, x: Array, delta: float) -> Array:
    return h * np.logical_not(np.abs(x) >= delta)


_huber = huber_.call
huber_slope: Callable[..., Any] = huber_slope_.call


@composite("input", "target", "weight")
def _huber_losses(input: Any, target: Any, delta: float, weight: Any) -> Any:
    losses = _huber(input - target, delta)
    return losses if weight is None else losses * weight


@composite("input", "target")
def _smooth_absolute_errors(input: Any, target: Any, beta: float) -> Any:
    return _huber(input - target, beta) / beta


def huber_loss(
    input: Tensor | np.ndarray,
    target: Tensor | np.ndarray,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | np.ndarray | None = None,
) -> Tensor | np.ndarray:
    """Return the mean of half of the squared differences up to `delta`, and of a straight line for larger ones.

    Args:
        input: any shape.
        target: the same shape; another one is broadcast, with a warning.
        reduction: "mean", "sum" or "none".
        delta: the difference from which on the loss is `delta * (abs(difference) - delta / 2)`; positive.
        weight: the weight of each element, in the shape of the input; None for 1.

    Raises:
        ArgumentError: delta is not positive, or the weight has another shape.
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.huber_loss.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.huber_loss(np.array([1.0, 2.0]), np.array([0.0, 5.0]), reduction="none", delta=2.0)
        array([0.5, 4. ])
    """
    check_reduction(reduction)
    delta = option("huber_loss", "delta", delta)
    if not delta > 0:
        raise ArgumentError(f"huber_loss needs a positive delta, not {delta}")
    _warn_if_broadcast("huber_loss", input, target)
    input, target, weight = in_floats(input, target, weight)
    if weight is not None:
        _check_weight(weight, input)
    return _huber_losses.reduced(reduction, input, target, delta, weight)


def smooth_l1_loss(
    input: Tensor | np.ndarray, target: Tensor | np.ndarray, reduction: str = "mean", beta: float = 1.0
) -> Tensor | np.ndarray:
    """Return the mean of the absolute differences minus `beta / 2`, and of a parabola for those below `beta`.

    Args:
        input: any shape.
        target: the same shape; another one is broadcast, with a warning.
        reduction: "mean", "sum" or "none".
        beta: the difference up to which the loss is `difference ** 2 / (2 * beta)`; with 0, this is `l1_loss`.

    Raises:
        ArgumentError: beta is negative.
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.smooth_l1_loss.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.smooth_l1_loss(np.array([1.0, 2.0]), np.array([0.0, 5.0]), reduction="none", beta=2.0)
        array([0.25, 2.  ])
    """
    check_reduction(reduction)
    beta = option("smooth_l1_loss", "beta", beta)
    if not beta >= 0:
        raise ArgumentError(f"smooth_l1_loss needs a beta that is not negative, not {beta}")
    _warn_if_broadcast("smooth_l1_loss", input, target)
    check_real("smooth_l1_loss", input=input, target=target)
    input, target = in_floats(input, target)
    if beta:
        return _smooth_absolute_errors.reduced(reduction, input, target, beta)
    return _absolute_errors.reduced(reduction, input, target)


@composite("input", "target", "weight", "pos_weight")
def _cross_entropies_of_scores(input: Any, target: Any, weight: Any, pos_weight: Any) -> Any:
    surprise = _softplus(-input, 1.0, math.inf)
    if pos_weight is not None:
        surprise = surprise * (1 + (pos_weight - 1) * target)
    losses = (1 - target) * input + surprise
    return losses if weight is None else losses * weight


def binary_cross_entropy_with_logits(
    input: Tensor | np.ndarray,
    target: Tensor | np.ndarray,
    weight: Tensor | np.ndarray | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | np.ndarray | None = None,
) -> Tensor | np.ndarray:
    """Return the binary cross entropy of scores: -t log(s) - (1 - t) log(1 - s), where s = sigmoid(input).

    Args:
        input: scores, any shape.
        target: probabilities t, the same shape.
        weight: the weight of each element, of a shape that broadcasts; None for equal weights.
        reduction: "mean", "sum" or "none".
        pos_weight: the weight of the term of t, of a shape that broadcasts; None for 1.

    Raises:
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.binary_cross_entropy_with_logits.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.binary_cross_entropy_with_logits(np.array([0.0, 1000.0]), np.array([1.0, 1.0]), reduction="none")
        array([0.69314718, 0.        ])
    """
    check_reduction(reduction)
    name = "binary_cross_entropy_with_logits"
    check_real(name, input=input, target=target, weight=weight, pos_weight=pos_weight)
    if array_of(input).shape != array_of(target).shape:
        raise ArgumentError(
            f"{name} of an input of shape {array_of(input).shape} takes a target of that shape, not of "
            f"{array_of(target).shape}"
        )
    check_operands_share_device(name, input, target)
    common_shape(name, input=input, weight=weight, pos_weight=pos_weight)
    input, target, weight, pos_weight = in_floats(input, target, weight, pos_weight)
    return _cross_entropies_of_scores.reduced(reduction, input, target, weight, pos_weight)


# binary_cross_entropy

#: The least logarithm of a probability, as in PyTorch: so the loss of an impossible result is finite.
LEAST_LOGARITHM = -100.0


def _bounded_log(x: Any) -> Any:
    return np.maximum(np.log(x), LEAST_LOGARITHM)


def _bounded_log1p(x: Any) -> Any:
    return np.maximum(np.log1p(x), LEAST_LOGARITHM)


@primitive()
@kernel(
    expression=lambda input, target: -target * _bounded_log(input) - (1 - target) * _bounded_log1p(np.negative(input))
)
def binary_cross_entropy_(input: Any, target: Any) -> Array:
    """Return -t log(p) - (1 - t) log(1 - p), whose logarithms are at least LEAST_LOGARITHM."""
    with np.errstate(divide="ignore"):
        of_one, of_zero = np.log(input), np.log1p(np.negative(input))
    return -target * np.maximum(of_one, LEAST_LOGARITHM) - (1 - target) * np.maximum(of_zero, LEAST_LOGARITHM)


@derivative(binary_cross_entropy_, "input")
def _(g: Any, input: Any, target: Any) -> Array:
    # At least 1e-12, as in PyTorch, where a probability is 0 or 1.
    return g * (input - target) / np.maximum(input * (1 - input), 1e-12)


@derivative(binary_cross_entropy_, "target")
def _(g: Any, input: Any) -> Array:
    return g * log_odds(input)


@primitive()
@kernel(expression=lambda p: _bounded_log1p(np.negative(p)) - _bounded_log(p))
def log_odds_(p: Any) -> Array:
    """Return log(1 - p) - log(p), both at least LEAST_LOGARITHM."""
    with np.errstate(divide="ignore"):
        of_one, of_zero = np.log(p), np.log1p(np.negative(p))
    return np.maximum(of_zero, LEAST_LOGARITHM) - np.maximum(of_one, LEAST_LOGARITHM)


@derivative(log_odds_, "p")
def _(h: Any, p: Any) -> Array:
    return -h / np.maximum(p * (1 - p), 1e-12)


_binary_cross_entropy = binary_cross_entropy_.call
log_odds: Callable[..., Any] = log_odds_.call


@composite("input", "target", "weight")
def _cross_entropies(input: Any, target: Any, weight: Any) -> Any:
    losses = _binary_cross_entropy(input, target)
    return losses if weight is None else losses * weight


def binary_cross_entropy(
    input: Tensor | np.ndarray,
    target: Tensor | np.ndarray,
    weight: Tensor | np.ndarray | None = None,
    reduction: str = "mean",
) -> Tensor | np.ndarray:
    """Return the binary cross entropy of probabilities p: -t log(p) - (1 - t) log(1 - p).

    No logarithm is taken as less than -100. Of scores, `binary_cross_entropy_with_logits` is more accurate.

    Args:
        input: probabilities p, any shape.
        target: probabilities t, the same shape.
        weight: the weight of each element, of a shape that broadcasts; None for equal weights.
        reduction: "mean", "sum" or "none".

    Raises:
        ArgumentError: the shapes differ, or an element of the input or the target is not from 0 to 1. (An input on a
            device with arrays of its own is not waited for: the loss is then NaN.)
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.binary_cross_entropy.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.binary_cross_entropy(np.array([0.5, 1.0, 0.0]), np.array([1.0, 1.0, 1.0]), reduction="none")
        array([  0.69314718,  -0.        , 100.        ])
    """
    check_reduction(reduction)
    check_real("binary_cross_entropy", input=input, target=target, weight=weight)
    check_operands_share_device("binary_cross_entropy", input, target, weight)
    data, shape = array_of(input), array_of(target).shape
    if data.shape != shape:
        raise ArgumentError(
            f"binary_cross_entropy of an input of shape {data.shape} takes a target of that shape, not of {shape}"
        )
    if data.__class__ is np.ndarray and data.size and not (data.min() >= 0 and data.max() <= 1):
        raise ArgumentError(
            f"binary_cross_entropy takes probabilities from 0 to 1, not from {data.min()} to {data.max()}: "
            "take nn.binary_cross_entropy_with_logits for scores"
        )
    wanted = array_of(target)
    if wanted.__class__ is np.ndarray and wanted.size and not (wanted.min() >= 0 and wanted.max() <= 1):
        raise ArgumentError(
            f"binary_cross_entropy takes a target of probabilities from 0 to 1, not from {wanted.min()} to "
            f"{wanted.max()}"
        )
    common_shape("binary_cross_entropy", input=input, weight=weight)
    input, target, weight = in_floats(input, target, weight)
    return _cross_entropies.reduced(reduction, input, target, weight)


@composite("input", "target")
def _soft_margins(input: Any, target: Any) -> Any:
    return _softplus(-target * input, 1.0, math.inf)


def soft_margin_loss(
    input: Tensor | np.ndarray, target: Tensor | np.ndarray, reduction: str = "mean"
) -> Tensor | np.ndarray:
    """Return the mean of `log(1 + exp(-target * input))`, without overflow.

    Args:
        input: scores, any shape.
        target: 1 or -1 for each, the same shape; another one is broadcast, with a warning.
        reduction: "mean", "sum" or "none".

    Raises:
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.soft_margin_loss.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.soft_margin_loss(np.array([0.0, 1000.0]), np.array([1.0, -1.0]), reduction="none")
        array([6.93147181e-01, 1.00000000e+03])
    """
    check_reduction(reduction)
    check_real("soft_margin_loss", input=input, target=target)
    shape = array_of(input).shape
    if common_shape("soft_margin_loss", input=input, target=target) != shape:
        raise ArgumentError(
            f"soft_margin_loss of an input of shape {shape} takes a target that broadcasts to it, not of shape "
            f"{array_of(target).shape}"
        )
    _warn_if_broadcast("soft_margin_loss", input, target)
    input, target = in_floats(input, target)
    return _soft_margins.reduced(reduction, input, target)


# Likelihoods.


#: What `kl_div` may do with the losses of all elements.
KL_REDUCTIONS = (*REDUCTIONS, "batchmean")


@primitive()
@kernel(expression=lambda x: x * np.log(np.where(x == 0, 1, x)))
def xlogx_(x: Any) -> Array:
    """Return x log(x), and 0 for 0: what is impossible adds nothing, though its logarithm is infinite."""
    return x * np.log(np.where(x == 0, 1, x))


@derivative(xlogx_, "x")
def _(g: Any, x: Array) -> Array:
    # At 0 the limit, minus infinity, as for the functions of SciPy's (docs/scipy.md).
    return g * (np.log(x) + 1)


_xlogx = xlogx_.call


@composite("input", "target")
def _divergences(input: Any, target: Any, log_target: bool) -> Any:
    if log_target:
        return np.exp(target) * (target - input)
    return _xlogx(target) - target * input


def kl_div(
    input: Tensor | np.ndarray, target: Tensor | np.ndarray, reduction: str = "mean", log_target: bool = False
) -> Tensor | np.ndarray:
    """Return the divergence of distributions, `target * (log(target) - input)`, where `input` holds logarithms.

    Args:
        input: logarithms of probabilities, any shape.
        target: probabilities, the same shape; another one is broadcast, with a warning.
        reduction: "batchmean" (the sum divided by the length of the first axis, which is the divergence), "mean" (over
            all elements), "sum" or "none".
        log_target: whether `target` holds logarithms, too.

    Raises:
        ArgumentTypeError: an argument is complex.

    The derivative by a probability of 0 is its limit, minus infinity.

    Source: torch.nn.functional.kl_div.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.kl_div(np.log([[0.5, 0.5]]), np.array([[0.0, 1.0]]), reduction="batchmean")
        np.float64(0.6931471805599453)
    """
    check_reduction(reduction, KL_REDUCTIONS)
    check_real("kl_div", input=input, target=target)
    _warn_if_broadcast("kl_div", input, target)
    input, target = in_floats(input, target)
    return _divergence(input, target, reduction, truth(log_target, "log_target"))


@arrays_in_single
def _divergence(input: Any, target: Any, reduction: str, log_target: bool) -> Any:
    total = _divergences.reduced("sum" if reduction == "batchmean" else reduction, input, target, log_target)
    shape = array_of(input).shape
    return total / shape[0] if reduction == "batchmean" and shape else total


@composite("input", "target")
def _poisson_losses(input: Any, target: Any, eps: float, log_input: bool, full: bool) -> Any:
    losses = np.exp(input) - target * input if log_input else input - target * np.log(input + eps)
    if not full:
        return losses
    counts = np.where(target > 1, target, 1)
    stirling = counts * np.log(counts) - counts + 0.5 * np.log(2 * math.pi * counts)
    return losses + np.where(target > 1, stirling, 0)


def poisson_nll_loss(
    input: Tensor | np.ndarray,
    target: Tensor | np.ndarray,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor | np.ndarray:
    """Return minus the logarithms of the probabilities that Poisson distributions give to counts.

    Args:
        input: the logarithms of the expected counts, any shape.
        target: the counts, the same shape; another one is broadcast, with a warning.
        log_input: False if `input` holds the expected counts themselves.
        full: whether to add Stirling's approximation of `log(target!)` for counts above 1, which no input changes.
        eps: added to expected counts, whose logarithm is taken.
        reduction: "mean", "sum" or "none".

    Raises:
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.poisson_nll_loss.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.poisson_nll_loss(np.array([0.0, 1.0]), np.array([2.0, 1.0]), reduction="none")
        array([1.        , 1.71828183])
    """
    check_reduction(reduction)
    check_real("poisson_nll_loss", input=input, target=target)
    _warn_if_broadcast("poisson_nll_loss", input, target)
    flags = truth(log_input, "log_input"), truth(full, "full")
    input, target = in_floats(input, target)
    eps = option("poisson_nll_loss", "eps", eps)
    return _poisson_losses.reduced(reduction, input, target, eps, *flags)


@primitive()
@kernel(expression=lambda var, least: np.maximum(var, least))
def raised_(var: Any, least: float) -> Array:
    """Return a variance, or the least one if that is larger."""
    return np.maximum(var, least)


@derivative(raised_, "var")
def _(g: Array) -> Array:
    """Return g: a variance that is raised to the least one has the derivative of that."""
    return g


_raised = raised_.call


@composite("input", "target", "var")
def _gaussian_losses(input: Any, target: Any, var: Any, eps: float, full: bool) -> Any:
    raised = _raised(var, eps)
    losses = 0.5 * (np.log(raised) + np.square(input - target) / raised)
    return losses + 0.5 * math.log(2 * math.pi) if full else losses


def gaussian_nll_loss(
    input: Tensor | np.ndarray,
    target: Tensor | np.ndarray,
    var: Tensor | np.ndarray,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor | np.ndarray:
    """Return minus the logarithms of the densities that normal distributions give to a target.

    Args:
        input: the means, any shape.
        target: the same shape; another one is broadcast, with a warning.
        var: the variances: a number, no array of one, or the shape of the input, of which one axis may have length 1
            and the last one may be missing. Those below `eps` are taken as `eps`, and have the derivative there.
        full: whether to add the constant `log(2 pi) / 2`.
        eps: the least variance.
        reduction: "mean", "sum" or "none".

    Raises:
        ArgumentError: a variance is negative (one on a device with arrays of its own is not waited for), or the shape
            of the variances does not fit.
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.gaussian_nll_loss.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.gaussian_nll_loss(np.array([0.0, 1.0]), np.array([0.0, 3.0]), np.array([1.0, 1.0]), reduction="none")
        array([0., 2.])
    """
    check_reduction(reduction)
    check_real("gaussian_nll_loss", input=input, target=target, var=var)
    check_operands_share_device("gaussian_nll_loss", input, target, var)
    eps = option("gaussian_nll_loss", "eps", eps)
    _warn_if_broadcast("gaussian_nll_loss", input, target)
    shape, variances = array_of(input).shape, array_of(var)
    if variances.__class__ is np.ndarray and variances.size and variances.min() < 0:
        raise ArgumentError(f"gaussian_nll_loss takes variances, which are not negative, as {variances.min()} is")
    if variances.shape != shape and not isinstance(var, (int, float, np.number)):
        if variances.shape == shape[:-1]:
            var, variances = np.expand_dims(var, -1), np.expand_dims(variances, -1)
        differing = [found for found, needed in zip(variances.shape, shape, strict=False) if found != needed]
        if len(variances.shape) != len(shape) or differing not in ([], [1]):
            raise ArgumentError(
                f"gaussian_nll_loss of an input of shape {shape} takes variances of that shape, of which one axis may "
                f"have length 1 and the last one may be missing, not {variances.shape}"
            )
    input, target, var = in_floats(input, target, var)
    return _gaussian_losses.reduced(reduction, input, target, var, eps, truth(full, "full"))


# Losses that are 0 from a margin on


@primitive()
@kernel(expression=lambda x: np.maximum(x, 0))
def hinge_(x: Any) -> Array:
    """Return max(x, 0), whose derivative at 0 is 0, as in PyTorch from 2.14 on."""
    return np.maximum(real_floating("hinge_embedding_loss", "input", as_array(x)), 0)


@derivative(hinge_, "x")
def _(g: Any, x: Any) -> Array:
    return g * (x > 0)


hinge: Callable[..., Any] = hinge_.call


@composite("input", "target")
def _hinge_losses(input: Any, target: Any, margin: float) -> Any:
    return np.where(target != 1, hinge(margin - input), 0) + np.where(target != -1, input, 0)


def hinge_embedding_loss(
    input: Tensor | np.ndarray, target: Tensor | np.ndarray, margin: float = 1.0, reduction: str = "mean"
) -> Tensor | np.ndarray:
    """Return the mean of the distances whose target is 1, and of what lacks those whose target is -1 to the margin.

    Args:
        input: distances, any shape.
        target: 1 or -1 for each, the same shape.
        margin: the distance from which on the loss for -1 is 0.
        reduction: "mean", "sum" or "none".

    Raises:
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.hinge_embedding_loss.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.hinge_embedding_loss(np.array([0.3, 0.3, 2.0]), np.array([1, -1, -1]), reduction="none")
        array([0.3, 0.7, 0. ])
    """
    check_operands_share_device("hinge_embedding_loss", input, target)
    check_reduction(reduction)
    check_real("hinge_embedding_loss", input=input, target=target)
    common_shape("hinge_embedding_loss", input=input, target=target)
    input, target = in_floats(input, target)
    margin = option("hinge_embedding_loss", "margin", margin)
    return _hinge_losses.reduced(reduction, input, target, margin)


@composite("input1", "input2", "target")
def _ranking_losses(input1: Any, input2: Any, target: Any, margin: float) -> Any:
    return hinge(margin - target * (input1 - input2))


def margin_ranking_loss(
    input1: Tensor | np.ndarray,
    input2: Tensor | np.ndarray,
    target: Tensor | np.ndarray,
    margin: float = 0.0,
    reduction: str = "mean",
) -> Tensor | np.ndarray:
    """Return the mean of `max(0, margin - target * (input1 - input2))`.

    Args:
        input1: any shape.
        input2: the same shape.
        target: 1 where the first input should be the larger, and -1 where the second one; the same shape.
        margin: by how much it should be.
        reduction: "mean", "sum" or "none".

    Raises:
        ArgumentError: the inputs and the target do not have the same number of axes.
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.margin_ranking_loss.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.margin_ranking_loss(np.array([2.0, 2.0]), np.array([1.0, 1.0]), np.array([1, -1]), reduction="none")
        array([0., 1.])
    """
    check_operands_share_device("margin_ranking_loss", input1, input2, target)
    check_reduction(reduction)
    check_real("margin_ranking_loss", input1=input1, input2=input2, target=target)
    shapes = [array_of(one).shape for one in (input1, input2, target)]
    if len({len(shape) for shape in shapes}) > 1:
        raise ArgumentError(
            f"margin_ranking_loss takes two inputs and a target with as many axes, not of the shapes {shapes[0]}, "
            f"{shapes[1]} and {shapes[2]}"
        )
    common_shape("margin_ranking_loss", input1=input1, input2=input2, target=target)
    input1, input2, target = in_floats(input1, input2, target)
    margin = option("margin_ranking_loss", "margin", margin)
    return _ranking_losses.reduced(reduction, input1, input2, target, margin)


@on_device_of_arguments
@arrays_in_single
def cosine_embedding_loss(
    input1: Tensor | np.ndarray,
    input2: Tensor | np.ndarray,
    target: Tensor | np.ndarray,
    margin: float = 0.0,
    reduction: str = "mean",
) -> Tensor | np.ndarray:
    """Return the mean of 1 - c where the target is 1, and of max(0, c - margin) where it is -1.

    Here c is the cosine of the angle between two vectors.

    Args:
        input1: vectors, shape `(n, features)` or `(features,)`.
        input2: the same shape.
        target: 1 or -1 for each pair, shape `(n,)` or `()`.
        margin: the cosine up to which the loss for -1 is 0.
        reduction: "mean", "sum" or "none".

    Raises:
        ArgumentError: the shapes do not fit.
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.cosine_embedding_loss.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> x = np.eye(2)
        >>> nn.cosine_embedding_loss(x, x[::-1], np.array([1, -1]), reduction="none")
        array([1., 0.])
    """
    check_operands_share_device("cosine_embedding_loss", input1, input2, target)
    check_reduction(reduction)
    check_real("cosine_embedding_loss", input1=input1, input2=input2, target=target)
    shapes = [array_of(one).shape for one in (input1, input2, target)]
    if len(shapes[2]) > 1 or any(len(shape) != len(shapes[2]) + 1 for shape in shapes[:2]):
        raise ArgumentError(
            "cosine_embedding_loss takes two inputs of shape (n, features) and a target of shape (n,), or both without "
            f"n, not of the shapes {shapes[0]}, {shapes[1]} and {shapes[2]}"
        )
    common_shape("cosine_embedding_loss", input1=input1, input2=input2, target=np.empty((*shapes[2], 1)))
    input1, input2 = in_floats(input1, input2)
    margin = option("cosine_embedding_loss", "margin", margin)
    # So that vectors of length 0 have a derivative.
    eps = 1e-12
    lengths = (np.sum(input1 * input1, axis=-1) + eps) * (np.sum(input2 * input2, axis=-1) + eps)
    cosines = np.sum(input1 * input2, axis=-1) / np.sqrt(lengths)
    signs = array_of(target)
    losses = np.where(signs == 1, 1 - cosines, 0) + np.where(signs == -1, hinge(cosines - margin), 0)
    return _reduce_losses(losses, reduction)


@arrays_in_single
def triplet_margin_loss(
    anchor: Tensor | np.ndarray,
    positive: Tensor | np.ndarray,
    negative: Tensor | np.ndarray,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor | np.ndarray:
    """Return the mean of max(0, margin + d(anchor, positive) - d(anchor, negative)), d being `nn.pairwise_distance`.

    Args:
        anchor: shape `(n, features)` or `(features,)`.
        positive: what should be near the anchor, the same shape.
        negative: what should be farther away, the same shape.
        margin: by how much.
        p: the order of the norm.
        eps: added to differences.
        swap: take the distance of the negative from the positive where that is less than from the anchor.
        reduction: "mean", "sum" or "none".

    Raises:
        ArgumentError: the arguments do not have the same number of axes, or the margin is not positive.
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.triplet_margin_loss.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> anchor = np.zeros((1, 2))
        >>> float(nn.triplet_margin_loss(anchor, anchor + 3.0, anchor + 1.0).round(4))
        3.8284
    """
    check_operands_share_device("triplet_margin_loss", anchor, positive, negative)
    check_reduction(reduction)
    check_real("triplet_margin_loss", anchor=anchor, positive=positive, negative=negative)
    margin = option("triplet_margin_loss", "margin", margin)
    if not margin > 0:
        raise ArgumentError(f"triplet_margin_loss needs a positive margin, not {margin}")
    shapes = [array_of(one).shape for one in (anchor, positive, negative)]
    if len({len(shape) for shape in shapes}) > 1:
        raise ArgumentError(
            f"triplet_margin_loss takes three arrays with as many axes, not of the shapes {shapes[0]}, {shapes[1]} "
            f"and {shapes[2]}"
        )
    common_shape("triplet_margin_loss", anchor=anchor, positive=positive, negative=negative)
    anchor, positive, negative = in_floats(anchor, positive, negative)
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if truth(swap, "swap"):
        far = np.minimum(far, pairwise_distance(positive, negative, p, eps))
    return _reduce_losses(hinge(margin + near - far), reduction)


@arrays_in_single
def triplet_margin_with_distance_loss(
    anchor: Tensor | np.ndarray,
    positive: Tensor | np.ndarray,
    negative: Tensor | np.ndarray,
    *,
    distance_function: Callable[..., Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor | np.ndarray:
    """Return the mean of max(0, margin + d(anchor, positive) - d(anchor, negative)), d being a function.

    Args:
        anchor: shape `(n, ...)`.
        positive: what should be near the anchor, the same shape.
        negative: what should be farther away, the same shape.
        distance_function: returns the distances of two of them, of float32 for those of float16; None for
            `nn.pairwise_distance`.
        margin: by how much.
        swap: take the distance of the negative from the positive where that is less than from the anchor.
        reduction: "mean", "sum" or "none".

    Raises:
        ArgumentError: the margin is not positive, or the arguments do not have the same number of axes.

    Source: torch.nn.functional.triplet_margin_with_distance_loss.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> anchor = np.zeros((1, 2))
        >>> distance = lambda one, other: np.abs(one - other).max(axis=-1)
        >>> nn.triplet_margin_with_distance_loss(anchor, anchor + 3.0, anchor + 1.0, distance_function=distance)
        np.float64(3.0)
    """
    check_operands_share_device("triplet_margin_with_distance_loss", anchor, positive, negative)
    check_reduction(reduction)
    margin = option("triplet_margin_with_distance_loss", "margin", margin)
    if not margin > 0:
        raise ArgumentError(f"triplet_margin_with_distance_loss needs a positive margin, not {margin}")
    shapes = [array_of(one).shape for one in (anchor, positive, negative)]
    if len({len(shape) for shape in shapes}) > 1:
        raise ArgumentError(
            f"triplet_margin_with_distance_loss takes three arrays with as many axes, not of the shapes {shapes[0]}, "
            f"{shapes[1]} and {shapes[2]}"
        )
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if truth(swap, "swap"):
        far = np.minimum(far, distance(positive, negative))
    return _reduce_losses(hinge(margin + near - far), reduction)


@on_device_of_arguments
@arrays_in_single
def multi_margin_loss(
    input: Tensor | np.ndarray,
    target: Tensor | np.ndarray,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | np.ndarray | None = None,
    reduction: str = "mean",
) -> Tensor | np.ndarray:
    """Return how far scores of wrong classes come within a margin of that of the right one, in the mean of the samples.

    The loss of a sample is the mean over all classes of `max(0, margin - right + wrong) ** p`.

    Args:
        input: scores, shape `(n, classes)` or `(classes,)`; a number is that of the only class.
        target: the right classes, integers of shape `(n,)` or, of one sample, `()`.
        p: 1 or 2.
        margin: by how much the score of the right class should be above the others.
        weight: the weight of each class, shape `(classes,)`; None for 1.
        reduction: "mean" (also with weights, over the number of samples), "sum" or "none".

    Raises:
        ArgumentError: shapes or options do not fit.
        IndexRangeError: a target is no class. (Targets on a device with arrays of its own are not waited for.)
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.multi_margin_loss.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.multi_margin_loss(np.array([[2.0, 1.5, 0.0]]), np.array([0]), reduction="none").round(4)
        array([0.1667])
    """
    check_operands_share_device("multi_margin_loss", input, constants=(target, weight))
    check_reduction(reduction)
    check_real("multi_margin_loss", input=input)
    margin = option("multi_margin_loss", "margin", margin)
    if p not in (1, 2):
        raise ArgumentError(f"multi_margin_loss takes p of 1 or 2, not {p}")
    data, labels = np.atleast_1d(array_of(input)), array_of(target)
    if data.shape[:-1] in ((), (1,)) and labels.shape in ((), (1,)):
        labels = labels.reshape(data.shape[:-1])
    if data.ndim not in (1, 2) or labels.shape != data.shape[:-1] or labels.dtype.kind not in "iu":
        raise ArgumentError(
            f"multi_margin_loss takes scores of shape (n, classes) and integer targets of shape (n,), not {data.shape} "
            f"and {labels.shape} of dtype {labels.dtype}"
        )
    classes = data.shape[-1]
    _check_classes("multi_margin_loss", labels, classes)
    scores, labels = np.reshape(input, (-1, classes)), as_like(labels.reshape(-1), data)
    right = np.expand_dims(at_labels(scores, saved_constant(labels, target, scores), None), 1)
    gaps = relu(margin - right + scores)
    gaps = np.where(labels[:, np.newaxis] == arange_like(data, classes), 0, gaps if p == 1 else gaps * gaps)
    losses = np.sum(gaps, axis=1) / classes
    if weight is not None:
        weights = constant("multi_margin_loss", "weight", weight)
        if shapes_of("multi_margin_loss", weight=weights) != [(classes,)]:
            raise ArgumentError(f"multi_margin_loss needs a weight of shape ({classes},), not {weights.shape}")
        losses = losses * as_like(weights, data)[labels]
    return _reduce_losses(losses if array_of(target).ndim else np.reshape(losses, ()), reduction)


@on_device_of_arguments
@arrays_in_single
def multilabel_margin_loss(
    input: Tensor | np.ndarray, target: Tensor | np.ndarray, reduction: str = "mean"
) -> Tensor | np.ndarray:
    """Return how far scores of wrong classes come within 1 of those of the right ones, in the mean of the samples.

    The loss of a sample is the sum over all right and wrong classes of `max(0, 1 - right + wrong)`, divided by the
    number of classes.

    Args:
        input: scores, shape `(n, classes)` or `(classes,)`.
        target: the right classes of each sample, followed by a -1 if they are not all; integers of the same shape.
        reduction: "mean", "sum" or "none".

    Raises:
        ArgumentError: the shapes do not fit.
        IndexRangeError: a target is no class. (Targets on a device with arrays of its own are not waited for.)
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.multilabel_margin_loss.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> scores, classes = np.array([0.1, 0.2, 0.4, 0.8]), np.array([3, 0, -1, 1])
        >>> float(nn.multilabel_margin_loss(scores, classes).round(4))
        0.85
    """
    check_operands_share_device("multilabel_margin_loss", input, constants=target)
    check_reduction(reduction)
    check_real("multilabel_margin_loss", input=input)
    data, labels = array_of(input), array_of(target)
    if not data.ndim and not labels.ndim:
        input, data, labels = np.reshape(input, (1,)), data.reshape(1), labels.reshape(1)
    if data.ndim not in (1, 2) or labels.shape != data.shape or labels.dtype.kind not in "iu":
        raise ArgumentError(
            "multilabel_margin_loss takes scores of shape (n, classes) and integer targets of that shape, not "
            f"{data.shape} and {labels.shape} of dtype {labels.dtype}"
        )
    classes = data.shape[-1]
    scores, labels = np.reshape(input, (-1, classes)), labels.reshape(-1, classes)
    _check_classes("multilabel_margin_loss", labels, classes, -1)
    # What follows the first -1 counts for nothing.
    is_listed = np.cumsum(labels < 0, axis=1) == 0
    labels = np.where(is_listed, labels, 0)
    labels, is_listed = as_like(labels, data), as_like(is_listed, data)
    is_label = labels[:, :, np.newaxis] == arange_like(data, classes)
    is_right = np.any(is_label & is_listed[:, :, np.newaxis], axis=1)
    right = np.take_along_axis(scores, labels, axis=1)
    gaps = relu(1 - np.expand_dims(right, 2) + np.expand_dims(scores, 1))
    counts = is_listed[:, :, np.newaxis] & ~is_right[:, np.newaxis, :]
    losses = np.sum(np.where(counts, gaps, 0), axis=(1, 2)) / classes
    return _reduce_losses(losses if data.ndim > 1 else np.reshape(losses, ()), reduction)


@composite("input", "target", "weight")
def _soft_margins_of_labels(input: Any, target: Any, weight: Any) -> Any:
    losses = target * _softplus(-input, 1.0, math.inf) + (1 - target) * _softplus(input, 1.0, math.inf)
    return losses if weight is None else losses * weight


def multilabel_soft_margin_loss(
    input: Tensor | np.ndarray,
    target: Tensor | np.ndarray,
    weight: Tensor | np.ndarray | None = None,
    reduction: str = "mean",
) -> Tensor | np.ndarray:
    """Return the binary cross entropy of scores, in the mean over the classes and then over the samples.

    Args:
        input: scores, shape `(..., classes)`.
        target: 1 for each right class and 0 for a wrong one, the same shape; another one is broadcast, with a warning.
        weight: the weight of each class, of a shape that broadcasts; None for 1.
        reduction: "mean", "sum" or "none", over the samples.

    Raises:
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.multilabel_soft_margin_loss.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.multilabel_soft_margin_loss(np.zeros((1, 3)), np.array([[1.0, 0.0, 1.0]])).round(4)
        np.float64(0.6931)
    """
    check_reduction(reduction)
    check_real("multilabel_soft_margin_loss", input=input, target=target, weight=weight)
    if not array_of(input).ndim:
        raise ArgumentError("multilabel_soft_margin_loss takes scores of shape (..., classes), not a number")
    _warn_if_broadcast("multilabel_soft_margin_loss", input, target)
    common_shape("multilabel_soft_margin_loss", input=input, target=target, weight=weight)
    input, target, weight = in_floats(input, target, weight)
    return _mean_of_classes(as_numbers(input), as_numbers(target), weight, reduction)


@arrays_in_single
def _mean_of_classes(input: Any, target: Any, weight: Any, reduction: str) -> Any:
    return _reduce_losses(np.mean(_soft_margins_of_labels(input, target, weight), axis=-1), reduction)


def _check_classes(function: str, labels: Any, classes: int, least: int = 0) -> None:
    """Raise if a label on the host is no class, from `least` on.

    Raises:
        IndexRangeError: one is not.
    """
    if labels.__class__ is np.ndarray and labels.size and (labels.min() < least or labels.max() >= classes):
        worst = labels.min() if labels.min() < least else labels.max()
        end = ", and -1 behind the last" if least < 0 else ""
        raise IndexRangeError(f"{function} got label {worst}, but there are {classes} classes: 0 to {classes - 1}{end}")
