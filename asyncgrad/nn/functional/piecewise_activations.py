"""Activation functions that are put together of straight lines and parabolas.

Their derivatives at the joints are PyTorch's. Slopes are made by comparisons, whose truth values are multiplied as
numbers: `np.where` takes ten times as long, since it branches for each element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays.one_device import check_operands_beside
from ...core.arrays.values import as_array, as_like, raw
from ...core.ops.composites import composite
from ...core.recording.kernels import fused
from ...core.recording.primitive import derivative, primitive
from ...core.settings.arguments import truth
from ...errors import ArgumentError
from ...random import generator
from .activations import leaky_relu
from .arguments import array_of, check_real, real_floating

__all__ = [
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "prelu",
    "relu6",
    "rrelu",
    "softshrink",
    "threshold",
]


def _is_between(x: Any, low: float, high: float) -> Any:
    """Return whether x is between two numbers and neither of them; true for a NaN."""
    return np.logical_not((x <= low) | (x >= high))


# hardtanh, relu6, hardsigmoid


@primitive()
@fused(lambda x, low, high: np.minimum(np.maximum(x, low), high))
def hardtanh_(x: Any, low: float, high: float) -> Any:
    """Return x, but at least `low` and at most `high`."""
    return np.clip(real_floating("hardtanh", "x", as_array(x)), low, high)


@derivative(hardtanh_, "x")
def _(g: Any, x: Any, low: float, high: float) -> Any:
    return g * _is_between(x, low, high)


_hardtanh = hardtanh_.call


def hardtanh(x: Any, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    """Return x, but at least `min_val` and at most `max_val`; its derivative at these two is 0.

    Args:
        x: any shape.
        min_val: the least result.
        max_val: the largest result.

    Raises:
        ArgumentError: `min_val` is above `max_val`.
        ArgumentTypeError: x is complex.

    Source: torch.nn.functional.hardtanh.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.hardtanh(np.array([-2.0, 0.5, 3.0]))
        array([-1. ,  0.5,  1. ])
    """
    if min_val > max_val:
        raise ArgumentError(f"hardtanh needs a min_val of at most max_val, not {min_val} and {max_val}")
    return _hardtanh(x, min_val, max_val)


def relu6(x: Any) -> Any:
    """Return `max(x, 0)`, but at most 6; its derivative at 0 and at 6 is 0.

    Args:
        x: any shape.

    Raises:
        ArgumentTypeError: x is complex.

    Source: torch.nn.functional.relu6.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.relu6(np.array([-1.0, 2.0, 9.0]))
        array([0., 2., 6.])
    """
    check_real("relu6", x=x)
    return _hardtanh(x, 0.0, 6.0)


@primitive()
@fused(lambda x: np.minimum(np.maximum(x + 3, 0), 6) / 6)
def hardsigmoid_(x: Any) -> Any:
    """Return x / 6 + 1 / 2, but at least 0 and at most 1."""
    x = real_floating("hardsigmoid", "x", as_array(x))
    return np.clip(x + 3, 0, 6) / 6


@derivative(hardsigmoid_, "x")
def _(g: Any, x: Any) -> Any:
    return g * _is_between(x, -3, 3) * (1 / 6)


_hardsigmoid = hardsigmoid_.call


def hardsigmoid(x: Any) -> Any:
    """Return `x / 6 + 1 / 2`, but at least 0 and at most 1: a sigmoid of straight lines.

    Args:
        x: any shape.

    Raises:
        ArgumentTypeError: x is complex.

    Source: torch.nn.functional.hardsigmoid.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.hardsigmoid(np.array([-4.0, 0.0, 3.0]))
        array([0. , 0.5, 1. ])
    """
    return _hardsigmoid(x)


# hardswish


@primitive()
@fused(lambda x: x * np.minimum(np.maximum(x + 3, 0), 6) / 6)
def hardswish_(x: Any) -> Any:
    """Return x * hardsigmoid(x)."""
    x = real_floating("hardswish", "x", as_array(x))
    return x * np.clip(x + 3, 0, 6) / 6


@derivative(hardswish_, "x")
def _(g: Any, x: Any) -> Any:
    return g * hardswish_slope(x)


@primitive()
@fused(lambda x: np.where(x <= -3, 0, np.where(x >= 3, 1, x / 3 + 0.5)))
def hardswish_slope_(x: Any) -> Any:
    """Return the derivative of hardswish: x / 3 + 1 / 2 between -3 and 3, and 0 or 1 elsewhere."""
    return (np.clip(x, -3, 3) / 3 + 0.5) * _is_between(x, -3, 3) + (x >= 3)


@derivative(hardswish_slope_, "x")
def _(h: Any, x: Any) -> Any:
    return h * _is_between(x, -3, 3) * (1 / 3)


_hardswish = hardswish_.call
hardswish_slope: Callable[..., Any] = hardswish_slope_.call


def hardswish(x: Any) -> Any:
    """Return `x * hardsigmoid(x)`.

    Args:
        x: any shape.

    Raises:
        ArgumentTypeError: x is complex.

    Source: torch.nn.functional.hardswish.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.hardswish(np.array([-4.0, 0.0, 1.5, 5.0]))
        array([-0.   ,  0.   ,  1.125,  5.   ])
    """
    return _hardswish(x)


# hardshrink, softshrink


def _is_left(x: Any, lambd: float) -> Any:
    """Return whether x is not from -lambd to lambd, so that hardshrink and softshrink leave something of it."""
    return np.logical_not(np.abs(x) <= lambd)


@primitive()
@fused(lambda x, lambd: np.where(np.abs(x) <= lambd, 0, x))
def hardshrink_(x: Any, lambd: float) -> Any:
    """Return 0 where x is from -lambd to lambd, and x elsewhere."""
    x = real_floating("hardshrink", "x", as_array(x))
    # 0 is added for those that have become -0.
    return x * _is_left(x, lambd) + 0


@derivative(hardshrink_, "x")
def _(g: Any, x: Any, lambd: float) -> Any:
    return g * _is_left(x, lambd)


_hardshrink = hardshrink_.call


def hardshrink(x: Any, lambd: float = 0.5) -> Any:
    """Return 0 where x is from `-lambd` to `lambd`, and x elsewhere.

    Args:
        x: any shape.
        lambd: a number.

    Raises:
        ArgumentTypeError: x is complex.

    Source: torch.nn.functional.hardshrink.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.hardshrink(np.array([-1.0, 0.2, 3.0]))
        array([-1.,  0.,  3.])
    """
    return _hardshrink(x, lambd)


@primitive()
@fused(lambda x, lambd: x - np.minimum(np.maximum(x, -lambd), lambd))
def softshrink_(x: Any, lambd: float) -> Any:
    """Return x moved by lambd towards 0, and 0 where it would pass it."""
    x = real_floating("softshrink", "x", as_array(x))
    return x - np.clip(x, -lambd, lambd)


@derivative(softshrink_, "x")
def _(g: Any, x: Any, lambd: float) -> Any:
    return g * _is_left(x, lambd)


_softshrink = softshrink_.call


def softshrink(x: Any, lambd: float = 0.5) -> Any:
    """Return x moved by `lambd` towards 0, and 0 where it would pass it.

    Args:
        x: any shape.
        lambd: a number, not negative.

    Raises:
        ArgumentError: `lambd` is negative.
        ArgumentTypeError: x is complex.

    Source: torch.nn.functional.softshrink.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.softshrink(np.array([-1.0, 0.2, 3.0]))
        array([-0.5,  0. ,  2.5])
    """
    if lambd < 0:
        raise ArgumentError(f"softshrink needs a lambd that is not negative, not {lambd}")
    return _softshrink(x, lambd)


# threshold


@primitive()
@fused(lambda x, threshold, value: np.where(x <= threshold, value, x))
def threshold_(x: Any, threshold: float, value: float) -> Any:
    """Return x where it is above the threshold, and `value` elsewhere."""
    x = real_floating("threshold", "x", as_array(x))
    return np.where(x <= threshold, value, x).astype(x.dtype, copy=False)


@derivative(threshold_, "x")
def _(g: Any, x: Any, threshold: float) -> Any:
    return g * np.logical_not(x <= threshold)


_threshold = threshold_.call


def threshold(x: Any, threshold: float, value: float) -> Any:
    """Return x where it is above the threshold, and `value` elsewhere.

    Args:
        x: any shape.
        threshold: a number.
        value: a number.

    Raises:
        ArgumentTypeError: x is complex.

    Source: torch.nn.functional.threshold.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.threshold(np.array([-1.0, 0.5, 3.0]), 0.5, -10.0)
        array([-10., -10.,   3.])
    """
    return _threshold(x, threshold, value)


# prelu, rrelu


@composite("x", "weight")
def _prelu(x: Any, weight: Any) -> Any:
    return x * np.where(x > 0, 1, weight)


def prelu(x: Any, weight: Any) -> Any:
    """Return x where it is positive, and `weight * x` elsewhere.

    Args:
        x: any shape; axis 1 is that of the channels.
        weight: a slope, shape `(1,)` or `()`, or one for each channel, shape `(channels,)`.

    Raises:
        ArgumentError: the weight has another shape.
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.prelu.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.prelu(np.array([[-1.0, -1.0], [2.0, 2.0]]), np.array([0.1, 0.5]))
        array([[-0.1, -0.5],
               [ 2. ,  2. ]])
    """
    check_operands_beside("prelu", x, weight)
    check_real("prelu", x=x, weight=weight)
    data, shape = array_of(x), array_of(weight).shape
    channels = data.shape[1] if data.ndim > 1 else 1
    if shape not in ((), (1,), (channels,)):
        raise ArgumentError(
            f"prelu of x of shape {data.shape} takes a weight of shape (1,) or ({channels},), not {shape}"
        )
    if shape:
        weight = np.reshape(weight, (-1, *(1,) * (data.ndim - 2)) if data.ndim > 1 else shape[1:])
    return _prelu(x, weight)


def rrelu(
    x: Any,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    *,
    rng: np.random.Generator | None = None,
) -> Any:
    """Return x where it is positive, and x times a random slope elsewhere.

    Args:
        x: any shape.
        lower: the least slope.
        upper: the largest slope.
        training: whether each element has a slope of its own, drawn uniformly. Otherwise the slope is the mean of
            `lower` and `upper`.
        rng: a NumPy generator; None for that of the context (`ag.random.seed`).

    Raises:
        ArgumentError: `lower` is above `upper`.
        ArgumentTypeError: x is complex.

    Source: torch.nn.functional.rrelu.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.rrelu(np.array([-2.0, 3.0]), 0.2, 0.4)
        array([-0.6,  3. ])
    """
    check_real("rrelu", x=x)
    if lower > upper:
        raise ArgumentError(f"rrelu needs a lower of at most upper, not {lower} and {upper}")
    if not truth(training, "training"):
        return leaky_relu(x, (lower + upper) / 2)
    data = array_of(x)
    rng = generator() if rng is None else rng
    kind = data.dtype if data.dtype.kind == "f" else np.dtype(np.float64)
    slopes = np.asarray(raw(rng.uniform(lower, upper, data.shape)), kind)
    return _prelu(x, as_like(slopes, data))
