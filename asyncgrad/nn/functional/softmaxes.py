"""Softmax and its logarithm, along an axis and without overflow, with what is made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.tensor_base import TensorBase
from ...core.arrays.values import as_array, as_like, empty_like, is_recorder, raw
from ...core.recording.kernels import kernel
from ...core.recording.primitive import derivative, primitive
from ...core.settings.arguments import truth
from ...core.settings.called_with import refuse_words_of_torch, with_words_of_torch
from ...errors import ArgumentError, ArgumentTypeError
from ...random import generator
from ..shared.arguments import (
    array_of,
    as_numbers,
    axis_of,
    check_arrays,
    check_real,
    floating,
    option,
    real_floating,
)
from ..shared.rows import maximum_along, sum_along

if TYPE_CHECKING:
    import numpy.typing as npt

    from ...core.arrays.array import Array
    from ...core.tensor import Tensor


__all__ = [
    "exponentials",
    "gumbel_softmax",
    "log_softmax",
    "softmax",
    "softmax_",
    "softmax_grad",
    "softmin",
]

#: By dtype: an input up to which exponentials, and sums of many, are finite; and a sum from which on no exponential
#: that matters has underflowed.
MODERATE = {np.dtype(np.float32): (60.0, 1e-18), np.dtype(np.float64): (600.0, 1e-200)}


@np.errstate(invalid="ignore")  # a row of minus infinities, or with an infinity, gives NaNs
def exponentials(x: Any, axis: int, *, empty: bool = False) -> tuple[Any, Any]:
    """Return `exp(x - c)` and its sums along `axis`, where c is chosen so that neither overflows.

    For inputs of moderate size c is 0. Then the maxima of the rows, which cost more than everything else, are not
    needed, and no difference is rounded. Where the array is no ndarray, c is the maximum of each row: to ask whether
    inputs are moderate would be to wait for a device.

    Args:
        x: a floating array.
        axis: the axis to sum along, which stays as an axis of length 1 in the sums.
        empty: return zeros, and a sum of 0, for a row of minus infinities; without it they are NaNs.
    """
    bounds = MODERATE.get(x.dtype)
    if bounds is not None and x.size and x.__class__ is np.ndarray:
        largest, least_sum = bounds
        if is_recorder(x):
            return _recorded_exponentials(x, axis, largest, least_sum, empty)
        if x.max() <= largest:
            values = np.exp(x, out=empty_like(x))
            sums = sum_along(values, axis)
            if sums.min() >= least_sum:
                return values, sums
    maxima = maximum_along(x, axis)
    if empty:
        maxima[maxima == -np.inf] = 0
    values = x - maxima
    np.exp(values, out=values)
    return values, sum_along(values, axis)


def _recorded_exponentials(x: Any, axis: int, largest: float, least_sum: float, empty: bool) -> tuple[Any, Any]:
    """Return what `exponentials` does by steps that a program takes whatever the numbers are, with the same bits."""
    with np.errstate(over="ignore"):  # infinite where they are computed once more
        values = np.exp(x, out=empty_like(x))
    is_moderate = np.logical_and(x.max() <= largest, sum_along(values, axis).min() >= least_sum)
    is_far = np.logical_not(is_moderate)
    maxima = np.maximum.reduce(x, axis=axis, keepdims=True, initial=-np.inf, where=is_far)
    if empty:
        maxima[maxima == -np.inf] = 0
    np.subtract(x, maxima, out=values, where=is_far)
    np.exp(values, out=values, where=is_far)
    return values, sum_along(values, axis)


@primitive()
@kernel(name="softmax")
def softmax_(x: Any, axis: int) -> Any:
    """Return exp(x) / sum(exp(x)) along an axis."""
    x = floating(as_array(x), "nn.softmax", "x")
    if not x.size:
        return empty_like(x)
    values, sums = exponentials(x, axis)
    values /= sums
    return values


@derivative(softmax_, "x")
def _(g: Array, out: Array, axis: int) -> Array:
    return softmax_grad(g, out, axis)


@primitive()
@kernel(name="softmax_grad")
def softmax_grad_(g: Any, y: Any, axis: int) -> Any:
    """Return y (g - sum(g y)), the gradient of softmax with the result y."""
    value = g * y
    np.subtract(g, sum_along(value, axis), out=value)
    value *= y
    return value


# The Jacobian of softmax is symmetric.
@derivative(softmax_grad_, "g")
def _(h: Array, y: Any, axis: int) -> Array:
    return softmax_grad(h, y, axis)


@derivative(softmax_grad_, "y")
def _(h: Any, g: Any, y: Any, axis: int) -> Array:
    return h * g - g * np.sum(h * y, axis=axis, keepdims=True) - h * np.sum(g * y, axis=axis, keepdims=True)


_softmax = softmax_.call
softmax_grad: Callable[..., Any] = softmax_grad_.call


def _along(function: str, call: Callable[..., Any], x: Any, axis: Any, dtype: Any) -> Any:
    """Return a function of x along an axis; a number without axes is a row of one, and a dtype is that of the result.

    Raises:
        ArgumentTypeError: x does not hold numbers, or the dtype is of whole numbers.
        IndexRangeError: x has no such axis.
    """
    if dtype is None and isinstance(x, TensorBase) and axis.__class__ is int and -x._data.ndim <= axis < x._data.ndim:
        return call(x, axis)
    check_arrays(function, x=x)
    x = x if isinstance(x, TensorBase) else array_of(x)
    if dtype is not None:
        kind = np.dtype(dtype)
        if kind.kind not in "fc":
            raise ArgumentTypeError(f"nn.{function} returns floating numbers, which the dtype {kind} has not")
        x = x.astype(kind)
    found = axis_of(function, x.shape, axis)
    return call(x, found) if x.shape else np.reshape(call(np.reshape(x, (1,)), 0), ())


@with_words_of_torch
def softmax(  # noqa: D417  # dim is there to be refused
    x: Tensor | np.ndarray,
    axis: int = -1,
    dtype: npt.DTypeLike | None = None,
    dim: None = None,
) -> Tensor | np.ndarray:
    """Return `exp(x) / sum(exp(x))` along an axis, without overflow.

    A row that holds minus infinities only gives NaNs.

    Args:
        x: any shape.
        axis: the axis along which the results sum to 1.
        dtype: x is cast to it first; None for its own.

    Raises:
        ArgumentTypeError: x does not hold numbers, or the dtype is of whole numbers.
        IndexRangeError: x has no such axis.

    Source: torch.nn.functional.softmax.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.softmax(np.array([1000.0, 1000.0, -np.inf]))
        array([0.5, 0.5, 0. ])
    """
    if dim is not None:
        refuse_words_of_torch("nn.softmax(x, ", dim)
    return _along("softmax", _softmax, x, axis, dtype)


def _softmin(x: Any, axis: int) -> Any:
    return _softmax(-as_numbers(x), axis)


@with_words_of_torch
def softmin(  # noqa: D417  # dim is there to be refused
    x: Tensor | np.ndarray,
    axis: int = -1,
    dtype: npt.DTypeLike | None = None,
    dim: None = None,
) -> Tensor | np.ndarray:
    """Return `softmax(-x, axis)`.

    Args:
        x: any shape.
        axis: the axis along which the results sum to 1.
        dtype: x is cast to it first; None for its own.

    Raises:
        ArgumentTypeError: x does not hold numbers, or the dtype is of whole numbers.
        IndexRangeError: x has no such axis.

    Source: torch.nn.functional.softmin.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.softmin(np.array([1000.0, 1000.0, np.inf]))
        array([0.5, 0.5, 0. ])
    """
    if dim is not None:
        refuse_words_of_torch("nn.softmin(x, ", dim)
    return _along("softmin", _softmin, x, axis, dtype)


@primitive()
@kernel(name="log_softmax")
def log_softmax_(x: Any, axis: int) -> Array:
    """Return x - log(sum(exp(x))) along an axis."""
    x = floating(as_array(x), "nn.log_softmax", "x")
    if not x.size:
        return empty_like(x)
    with np.errstate(invalid="ignore"):
        values = np.subtract(x, maximum_along(x, axis), out=empty_like(x))
        values -= np.log(sum_along(np.exp(values), axis))
    return values


@derivative(log_softmax_, "x")
def _(g: Array, out: Array, axis: int) -> Array:
    return log_softmax_grad(g, out, axis)


@primitive()
@kernel(name="log_softmax_grad")
def log_softmax_grad_(g: Any, y: Any, axis: int) -> Array:
    """Return g - exp(y) sum(g), the gradient of log_softmax with the result y."""
    value = np.exp(y)
    value *= sum_along(g, axis)
    return np.subtract(g, value, out=value)


@derivative(log_softmax_grad_, "g")
def _(h: Any, y: Any, axis: int) -> Array:
    return h - np.sum(h * np.exp(y), axis=axis, keepdims=True)


@derivative(log_softmax_grad_, "y")
def _(h: Any, g: Any, y: Array, axis: int) -> Array:
    return -h * np.exp(y) * np.sum(g, axis=axis, keepdims=True)


_log_softmax = log_softmax_.call
log_softmax_grad: Callable[..., Any] = log_softmax_grad_.call


@with_words_of_torch
def log_softmax(  # noqa: D417  # dim is there to be refused
    x: Tensor | np.ndarray,
    axis: int = -1,
    dtype: npt.DTypeLike | None = None,
    dim: None = None,
) -> Tensor | np.ndarray:
    """Return the logarithm of `softmax(x, axis)`, accurate even if that is close to 0 or 1.

    Args:
        x: any shape.
        axis: the axis along which the exponentials of the results sum to 1.
        dtype: x is cast to it first; None for its own.

    Raises:
        ArgumentTypeError: x does not hold numbers, or the dtype is of whole numbers.
        IndexRangeError: x has no such axis.

    Source: torch.nn.functional.log_softmax.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.log_softmax(np.array([0.0, 1000.0]))
        array([-1000.,     0.])
    """
    if dim is not None:
        refuse_words_of_torch("nn.log_softmax(x, ", dim)
    return _along("log_softmax", _log_softmax, x, axis, dtype)


@with_words_of_torch
def gumbel_softmax(  # noqa: D417  # dim is there to be refused
    logits: Tensor | np.ndarray,
    tau: float = 1,
    hard: bool = False,
    eps: float = 1e-10,
    axis: int = -1,
    dim: None = None,
    *,
    rng: np.random.Generator | None = None,
) -> Tensor | np.ndarray:
    """Return draws from a categorical distribution, softened so that they have a derivative.

    Args:
        logits: logarithms of the probabilities, up to a constant.
        tau: the temperature: the lower it is, the nearer is a draw to a one among zeros.
        hard: return ones among zeros, with the gradient of the soft draws.
        eps: not used, as in PyTorch.
        axis: that of the classes.
        rng: a NumPy generator; None for that of the context (`ag.random.seed`).

    Returns:
        A tensor of the shape of logits, whose sum along the axis is 1.

    Raises:
        ArgumentError: the temperature is 0.

    Source: torch.nn.functional.gumbel_softmax; E. Jang, S. Gu and B. Poole, "Categorical reparameterization with
    Gumbel-softmax" (2016).

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> from asyncgrad import nn
        >>> nn.gumbel_softmax(np.log([0.1, 0.2, 0.7]), hard=True, rng=np.random.default_rng(1))
        array([0., 0., 1.])
    """
    if dim is not None:
        refuse_words_of_torch("nn.gumbel_softmax(logits, ", dim)
    check_real("gumbel_softmax", logits=logits)
    if not option("gumbel_softmax", "tau", tau):
        raise ArgumentError("gumbel_softmax cannot divide by a temperature tau of 0")
    data = real_floating("gumbel_softmax", "logits", array_of(logits))
    axis = axis_of("gumbel_softmax", data.shape, axis)
    drawn = (generator() if rng is None else rng).exponential(size=data.shape)
    noise = as_like(raw(-np.log(drawn)).astype(data.dtype), data)
    soft: Any = softmax((logits + noise) / tau, axis)
    if not truth(hard, "hard"):
        return soft
    values = array_of(soft)
    ones = np.zeros_like(values)
    np.put_along_axis(ones, np.argmax(values, axis=axis, keepdims=True), 1, axis)
    # The difference has no history: only the soft draws have a gradient.
    return soft + (ones - values)
