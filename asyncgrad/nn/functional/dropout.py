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


__all__ = ["check_probability", "dropout"]


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
