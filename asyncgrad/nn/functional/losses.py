"""Elementwise losses."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays.device_functions import own_function
from ...core.arrays.half import single
from ...core.arrays.one_device import check_operands_beside
from ...core.arrays.values import as_array
from ...core.ops.composites import Composite, composite
from ...core.ops.single_precision import by_single, holds_half, in_single
from ...core.recording.kernels import FusedFormula, device_variant, fused
from ...core.recording.primitive import derivative, primitive
from ...core.settings.arguments import truth
from ...errors import ArgumentError
from .activations import softplus
from .arguments import REDUCTIONS, array_of, check_real, check_reduction, real_floating

__all__ = [
    "KL_REDUCTIONS",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "gaussian_nll_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "poisson_nll_loss",
    "reduce_losses",
    "smooth_l1_loss",
    "soft_margin_loss",
    "warn_if_broadcast",
]


def warn_if_broadcast(function: str, input: Any, target: Any) -> None:
    """Check that two arrays are on one device, and warn if their shapes differ.

    With the shapes (n,) and (n, 1), for example, there are n * n differences.

    Raises:
        ArgumentError: the shapes do not broadcast.
        DeviceError: they are on two devices.
    """
    check_operands_beside(function, input, target)
    first, second = array_of(input).shape, array_of(target).shape
    if first != second:
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


def reduce_losses(losses: Any, reduction: str) -> Any:
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
    if holds_half(input, target, weight):
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
@device_variant(_squared_error_on_device)
def squared_error_(input: Any, target: Any, factor: float | None) -> Any:
    """Return the squares of the differences, or their sum times `factor` if that is given."""
    difference = np.subtract(input, target)
    if difference.dtype.kind == "c":
        check_real("mse_loss", input=input, target=target)
    squares = difference * difference
    return squares if factor is None else np.add.reduce(squares, axis=None) * factor


@derivative(squared_error_, "input")
def _(g: Any, input: Any, target: Any, factor: float | None) -> Any:
    return (input - target) * (g * (2.0 if factor is None else 2.0 * factor))


@derivative(squared_error_, "target")
def _(g: Any, input: Any, target: Any, factor: float | None) -> Any:
    return (input - target) * (g * (-2.0 if factor is None else -2.0 * factor))


_squared_error = squared_error_.call


@composite("input", "target", "weight")
def _weighed_squares(input: Any, target: Any, weight: Any) -> Any:
    return np.square(input - target) * weight


def mse_loss(input: Any, target: Any, reduction: str = "mean", weight: Any = None) -> Any:
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
    warn_if_broadcast("mse_loss", input, target)
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


def l1_loss(input: Any, target: Any, reduction: str = "mean", weight: Any = None) -> Any:
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
    warn_if_broadcast("l1_loss", input, target)
    if weight is None:
        return _absolute_errors.reduced(reduction, input, target)
    return _weighed(_weighed_absolute_errors, input, target, weight, reduction)


# huber_loss, smooth_l1_loss


@primitive()
@fused(lambda x, delta: (np.abs(x) - 0.5 * np.minimum(np.abs(x), delta)) * np.minimum(np.abs(x), delta))
def huber_(x: Any, delta: float) -> Any:
    """Return x^2 / 2 where x is from -delta to delta, and delta (|x| - delta / 2) elsewhere."""
    size = np.abs(real_floating("huber_loss", "input", as_array(x)))
    # Half of the square up to delta, and a line from there on.
    part = np.clip(size, 0, delta)
    return (size - 0.5 * part) * part


@derivative(huber_, "x")
def _(g: Any, x: Any, delta: float) -> Any:
    return g * huber_slope(x, delta)


@primitive()
@fused(lambda x, delta: np.sign(x) * np.minimum(np.abs(x), delta))
def huber_slope_(x: Any, delta: float) -> Any:
    """Return x where it is from -delta to delta, and the nearer of both elsewhere: the derivative of huber_."""
    return np.clip(x, -delta, delta)


@derivative(huber_slope_, "x")
def _(h: Any, x: Any, delta: float) -> Any:
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


def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None) -> Any:
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
    if not delta > 0:
        raise ArgumentError(f"huber_loss needs a positive delta, not {delta}")
    warn_if_broadcast("huber_loss", input, target)
    if weight is not None:
        _check_weight(weight, input)
    return _huber_losses.reduced(reduction, input, target, delta, weight)


def smooth_l1_loss(input: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Any:
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
    if beta < 0:
        raise ArgumentError(f"smooth_l1_loss needs a beta that is not negative, not {beta}")
    warn_if_broadcast("smooth_l1_loss", input, target)
    check_real("smooth_l1_loss", input=input, target=target)
    if beta:
        return _smooth_absolute_errors.reduced(reduction, input, target, beta)
    return _absolute_errors.reduced(reduction, input, target)


@composite("input", "target", "weight", "pos_weight")
def _cross_entropies_of_scores(input: Any, target: Any, weight: Any, pos_weight: Any) -> Any:
    surprise = softplus(-input, 1.0, math.inf)
    if pos_weight is not None:
        surprise = surprise * (1 + (pos_weight - 1) * target)
    losses = (1 - target) * input + surprise
    return losses if weight is None else losses * weight


def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Any:
    """Return the binary cross entropy of scores: -t log(s) - (1 - t) log(1 - s), where s = sigmoid(input).

    Args:
        input: scores, any shape.
        target: probabilities t, the same shape; another one is broadcast, with a warning.
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
    warn_if_broadcast(name, input, target)
    return _cross_entropies_of_scores.reduced(reduction, input, target, weight, pos_weight)


# binary_cross_entropy

#: The least logarithm of a probability, as in PyTorch: so the loss of an impossible result is finite.
LEAST_LOGARITHM = -100.0


def _bounded_log(x: Any) -> Any:
    return np.maximum(np.log(x), LEAST_LOGARITHM)


def _bounded_log1p(x: Any) -> Any:
    return np.maximum(np.log1p(x), LEAST_LOGARITHM)


@primitive()
@fused(lambda input, target: -target * _bounded_log(input) - (1 - target) * _bounded_log1p(np.negative(input)))
def binary_cross_entropy_(input: Any, target: Any) -> Any:
    """Return -t log(p) - (1 - t) log(1 - p), whose logarithms are at least LEAST_LOGARITHM."""
    with np.errstate(divide="ignore"):
        of_one, of_zero = np.log(input), np.log1p(np.negative(input))
    return -target * np.maximum(of_one, LEAST_LOGARITHM) - (1 - target) * np.maximum(of_zero, LEAST_LOGARITHM)


@derivative(binary_cross_entropy_, "input")
def _(g: Any, input: Any, target: Any) -> Any:
    # At least 1e-12, as in PyTorch, where a probability is 0 or 1.
    return g * (input - target) / np.maximum(input * (1 - input), 1e-12)


@derivative(binary_cross_entropy_, "target")
def _(g: Any, input: Any) -> Any:
    return g * log_odds(input)


@primitive()
@fused(lambda p: _bounded_log1p(np.negative(p)) - _bounded_log(p))
def log_odds_(p: Any) -> Any:
    """Return log(1 - p) - log(p), both at least LEAST_LOGARITHM."""
    with np.errstate(divide="ignore"):
        of_one, of_zero = np.log(p), np.log1p(np.negative(p))
    return np.maximum(of_zero, LEAST_LOGARITHM) - np.maximum(of_one, LEAST_LOGARITHM)


@derivative(log_odds_, "p")
def _(h: Any, p: Any) -> Any:
    return -h / np.maximum(p * (1 - p), 1e-12)


_binary_cross_entropy = binary_cross_entropy_.call
log_odds: Callable[..., Any] = log_odds_.call


@composite("input", "target", "weight")
def _cross_entropies(input: Any, target: Any, weight: Any) -> Any:
    losses = _binary_cross_entropy(input, target)
    return losses if weight is None else losses * weight


def binary_cross_entropy(input: Any, target: Any, weight: Any = None, reduction: str = "mean") -> Any:
    """Return the binary cross entropy of probabilities p: -t log(p) - (1 - t) log(1 - p).

    No logarithm is taken as less than -100. Of scores, `binary_cross_entropy_with_logits` is more accurate.

    Args:
        input: probabilities p, any shape.
        target: probabilities t, the same shape.
        weight: the weight of each element, of a shape that broadcasts; None for equal weights.
        reduction: "mean", "sum" or "none".

    Raises:
        ArgumentError: the shapes differ, or an element of the input is not from 0 to 1. (An input on a device with
            arrays of its own is not waited for: the loss is then NaN.)
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
    check_operands_beside("binary_cross_entropy", input, target, weight)
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
    return _cross_entropies.reduced(reduction, input, target, weight)


@composite("input", "target")
def _soft_margins(input: Any, target: Any) -> Any:
    return softplus(-target * input, 1.0, math.inf)


def soft_margin_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
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
    warn_if_broadcast("soft_margin_loss", input, target)
    return _soft_margins.reduced(reduction, input, target)


# Likelihoods.


#: What `kl_div` may do with the losses of all elements.
KL_REDUCTIONS = (*REDUCTIONS, "batchmean")


@primitive()
@fused(lambda x: x * np.log(np.where(x == 0, 1, x)))
def xlogx_(x: Any) -> Any:
    """Return x log(x), and 0 for 0: what is impossible adds nothing, though its logarithm is infinite."""
    return x * np.log(np.where(x == 0, 1, x))


@derivative(xlogx_, "x")
def _(g: Any, x: Any) -> Any:
    # At 0 the limit, minus infinity, as for the functions of SciPy's (docs/scipy.md).
    return g * (np.log(x) + 1)


_xlogx = xlogx_.call


@composite("input", "target")
def _divergences(input: Any, target: Any, log_target: bool) -> Any:
    if log_target:
        return np.exp(target) * (target - input)
    return _xlogx(target) - target * input


def kl_div(input: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Any:
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
    warn_if_broadcast("kl_div", input, target)
    return _divergence(input, target, reduction, truth(log_target, "log_target"))


@in_single
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
    input: Any, target: Any, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean"
) -> Any:
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
    warn_if_broadcast("poisson_nll_loss", input, target)
    flags = truth(log_input, "log_input"), truth(full, "full")
    return _poisson_losses.reduced(reduction, input, target, eps, *flags)


@primitive()
@fused(lambda var, least: np.maximum(var, least) - var)
def lack_(var: Any, least: float) -> Any:
    """Return what a variance lacks to the least one."""
    return np.maximum(var, least) - var


@derivative(lack_, "var")
def _(g: Any) -> None:
    """Give no gradient: a variance that is raised to the least one has the derivative of that."""


_lack = lack_.call


@composite("input", "target", "var")
def _gaussian_losses(input: Any, target: Any, var: Any, eps: float, full: bool) -> Any:
    raised = var + _lack(var, eps)
    losses = 0.5 * (np.log(raised) + np.square(input - target) / raised)
    return losses + 0.5 * math.log(2 * math.pi) if full else losses


def gaussian_nll_loss(
    input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Any:
    """Return minus the logarithms of the densities that normal distributions give to a target.

    Args:
        input: the means, any shape.
        target: the same shape; another one is broadcast, with a warning.
        var: the variances: a number, or the shape of the input, of which one axis may have length 1 and the last one
            may be missing. Those below `eps` are taken as `eps`, and have the derivative there.
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
    check_operands_beside("gaussian_nll_loss", input, target, var)
    warn_if_broadcast("gaussian_nll_loss", input, target)
    shape, variances = array_of(input).shape, array_of(var)
    if variances.__class__ is np.ndarray and variances.size and variances.min() < 0:
        raise ArgumentError(f"gaussian_nll_loss takes variances, which are not negative, as {variances.min()} is")
    if variances.shape not in ((), shape):
        if variances.shape == shape[:-1]:
            var, variances = np.expand_dims(var, -1), np.expand_dims(variances, -1)
        differing = [found for found, needed in zip(variances.shape, shape, strict=False) if found != needed]
        if len(variances.shape) != len(shape) or differing not in ([], [1]):
            raise ArgumentError(
                f"gaussian_nll_loss of an input of shape {shape} takes variances of that shape, of which one axis may "
                f"have length 1 and the last one may be missing, not {variances.shape}"
            )
    return _gaussian_losses.reduced(reduction, input, target, var, eps, truth(full, "full"))
