"""Dropout."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.values import as_like, raw
from ...core.recording.kernels import kernel
from ...core.recording.primitive import derivative, primitive
from ...core.settings.arguments import truth
from ...errors import ArgumentError
from ...random import generator
from ..shared.arguments import array_of, check_arrays, in_place, option

if TYPE_CHECKING:
    from ...core.arrays.array import Array
    from ...core.tensor import Tensor


__all__ = [
    "alpha_dropout",
    "check_probability",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "feature_alpha_dropout",
]


@primitive()
@kernel(expression=lambda x, keep, scale: x * keep * scale)
def masked_(x: Any, keep: Any, scale: float) -> Array:
    """Return x times `scale` where `keep` is true, and 0 elsewhere."""
    value = np.multiply(x, keep)
    value *= scale
    return value


@derivative(masked_, "x")
def _(g: Array, keep: Any, scale: float) -> Array:
    return masked(g, keep, scale)


masked: Callable[..., Any] = masked_.call


def check_probability(p: float) -> None:
    """Raise unless `p` is a probability."""
    if not 0 <= p <= 1:
        raise ArgumentError(f"dropout takes a probability p from 0 to 1, not {p}")


def dropout(
    x: Tensor | np.ndarray,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    rng: np.random.Generator | None = None,
) -> Tensor | np.ndarray:
    """Return x with each element set to 0 with probability p, and the others divided by 1 - p.

    Args:
        x: any shape.
        p: the probability, from 0 to 1.
        training: if False, or if p is 0, x itself is returned.
        inplace: write the result into x, and return x.
        rng: a NumPy generator; None for that of the context (`ag.random.seed`). It draws on the host, and the mask is
            moved to the device of x: a seed gives the same mask on every device.

    Raises:
        ArgumentError: p is not a probability.

    Source: torch.nn.functional.dropout.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.dropout(np.ones(6), 0.5, rng=np.random.default_rng(0))
        array([2., 2., 2., 0., 0., 0.])
    """
    check_arrays("dropout", x=x)
    p = option("dropout", "p", p)
    check_probability(p)
    if not truth(training, "training") or p == 0:
        return x
    rng = generator() if rng is None else rng
    data = array_of(x)
    # Drawn on the host whatever the device, so that a seed gives the same mask everywhere.
    keep = as_like(raw(rng.random(data.shape, np.float32)) >= p, data)
    return in_place(inplace, masked, x, keep, 1 / (1 - p) if p < 1 else 0.0)


def dropout1d(
    x: Tensor | np.ndarray, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor | np.ndarray:
    """Return sequences with each channel set to 0 with probability p, and the others divided by 1 - p.

    Args:
        x: shape `(n, channels, length)` or `(channels, length)`.
        p: the probability, from 0 to 1.
        training: if False, or if p is 0, x itself is returned.
        inplace: write the result into x, and return x.

    Raises:
        ArgumentError: p is not a probability, or x has other axes.

    Source: torch.nn.functional.dropout1d.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> from asyncgrad import nn
        >>> _ = ag.random.seed(0)
        >>> nn.dropout1d(np.ones((1, 4, 2)))[0, :, 0]
        array([2., 2., 2., 0.])
    """
    return _without_channels("dropout1d", 1, x, p, training, inplace)


def dropout2d(
    x: Tensor | np.ndarray, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor | np.ndarray:
    """Return images with each channel set to 0 with probability p, and the others divided by 1 - p: see `dropout1d`.

    Args:
        x: shape `(n, channels, height, width)` or `(channels, height, width)`.
        p: the probability, from 0 to 1.
        training: if False, or if p is 0, x itself is returned.
        inplace: write the result into x, and return x.

    Raises:
        ArgumentError: p is not a probability, or x has other axes.

    Source: torch.nn.functional.dropout2d.
    """
    return _without_channels("dropout2d", 2, x, p, training, inplace)


def dropout3d(
    x: Tensor | np.ndarray, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor | np.ndarray:
    """Return volumes with each channel set to 0 with probability p, and the others divided by 1 - p: see `dropout1d`.

    Args:
        x: shape `(n, channels, depth, height, width)`, or without n.
        p: the probability, from 0 to 1.
        training: if False, or if p is 0, x itself is returned.
        inplace: write the result into x, and return x.

    Raises:
        ArgumentError: p is not a probability, or x has other axes.

    Source: torch.nn.functional.dropout3d.
    """
    return _without_channels("dropout3d", 3, x, p, training, inplace)


def _without_channels(function: str, axes: int, x: Any, p: Any, training: Any, inplace: Any) -> Any:
    check_arrays(function, x=x)
    p = option(function, "p", p)
    check_probability(p)
    data = array_of(x)
    if data.ndim not in (axes + 1, axes + 2):
        raise ArgumentError(f"{function} takes x of {axes + 1} or {axes + 2} axes, not of shape {data.shape}")
    if not truth(training, "training") or p == 0:
        return x
    kept = generator().random((*data.shape[:-axes], *[1] * axes), np.float32) >= p
    return in_place(inplace, masked, x, as_like(raw(kept), data), 1 / (1 - p) if p < 1 else 0.0)


def alpha_dropout(
    x: Tensor | np.ndarray, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor | np.ndarray:
    """Return x with each element set to what `selu` tends to, with probability p, so that mean and variance stay.

    Args:
        x: any shape.
        p: the probability, from 0 to 1.
        training: if False, or if p is 0, x itself is returned.
        inplace: write the result into x, and return x.

    Raises:
        ArgumentError: p is not a probability.

    Source: torch.nn.functional.alpha_dropout; G. Klambauer et al., "Self-normalizing neural networks" (2017).

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> from asyncgrad import nn
        >>> _ = ag.random.seed(0)
        >>> nn.alpha_dropout(np.ones(6), training=True).round(3)
        array([ 1.665,  1.665,  1.665, -0.779, -0.779, -0.779])
    """
    return _saturated("alpha_dropout", x, p, training, inplace, array_of(x).shape)


def feature_alpha_dropout(
    x: Tensor | np.ndarray, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor | np.ndarray:
    """Return x with each channel set to what `selu` tends to, with probability p: see `alpha_dropout`.

    Args:
        x: shape `(n, channels, ...)`, of two axes or more.
        p: the probability, from 0 to 1.
        training: if False, or if p is 0, x itself is returned.
        inplace: write the result into x, and return x.

    Raises:
        ArgumentError: p is not a probability, or x has fewer axes.

    Source: torch.nn.functional.feature_alpha_dropout.
    """
    shape = array_of(x).shape
    if len(shape) < 2 and training and p:
        raise ArgumentError(f"feature_alpha_dropout takes x of shape (n, channels, ...), not {shape}")
    return _saturated("feature_alpha_dropout", x, p, training, inplace, (*shape[:2], *[1] * (len(shape) - 2)))


#: What selu tends to far below 0, without its sign.
_ALPHA = 1.7580993408473766


def _saturated(function: str, x: Any, p: Any, training: Any, inplace: Any, shape: tuple[int, ...]) -> Any:
    check_arrays(function, x=x)
    p = option(function, "p", p)
    check_probability(p)
    if not truth(training, "training") or p == 0:
        return x
    data = array_of(x)
    kept = generator().random(shape, np.float32) >= p
    # A mean of 0 and a variance of 1 stay what they are.
    scale = ((_ALPHA**2 * p + 1) * (1 - p)) ** -0.5 if p < 1 else 0.0
    kind = data.dtype if data.dtype.kind in "fc" else np.dtype(np.float64)
    shift = as_like(raw(((kept - 1.0 + p) * (_ALPHA * scale)).astype(kind)), data)

    def changed(x: Any) -> Any:
        return masked(x, as_like(raw(kept), data), scale) + shift

    return in_place(inplace, changed, x)
