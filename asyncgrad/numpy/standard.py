"""Functions to which the array API standard gives parameters that NumPy's do not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.tensor import Tensor
from ..core.tensor import asarray as as_tensor
from ..errors import ArgumentError
from .wrapping import as_tensors, stacked_where_needed

__all__ = ["STANDARD"]


def argsort(
    a: Any,
    axis: int | None = -1,
    kind: Any = None,
    order: Any = None,
    *,
    descending: bool = False,
    stable: bool | None = None,
) -> Tensor:
    """Return the indices that sort along an axis, the greatest first if `descending`; a constant.

    Example:
        >>> import asyncgrad.numpy as np
        >>> np.argsort(np.array([2, 3, 1]), descending=True).tolist()
        [1, 0, 2]
    """
    a = stacked_where_needed(a)
    if not descending:
        forward: Tensor = as_tensors(np.argsort(a, axis, kind, order, stable=stable))
        return forward
    along = -1 if axis is None else axis
    values = np.ravel(a) if axis is None else a
    # Of equal elements, the last of the reversed ones is the first.
    indices = np.argsort(np.flip(values, along), along, kind, order, stable=stable)
    backward: Tensor = as_tensors(np.shape(values)[along] - 1 - np.flip(indices, along))
    return backward


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """Return the elements of `x` where `condition` holds, and those of `y` elsewhere; without both, its indices.

    Example:
        >>> import asyncgrad.numpy as np
        >>> np.where([True, False], x=np.array([1.0, 2.0]), y=0.0).tolist()
        [1.0, 0.0]
    """
    if (x is None) is not (y is None):
        raise ArgumentError("where takes both x and y, or neither: write np.where(condition, x, y)")
    given = [stacked_where_needed(one) for one in (x, y) if one is not None]
    return as_tensors(np.where(stacked_where_needed(condition), *given))


def sort(
    a: Any,
    axis: int | None = -1,
    kind: Any = None,
    order: Any = None,
    *,
    descending: bool = False,
    stable: bool | None = None,
) -> Tensor:
    """Return a sorted copy along an axis, the greatest first if `descending`; its gradient goes back to each place.

    Example:
        >>> import asyncgrad.numpy as np
        >>> np.sort(np.array([2, 3, 1]), descending=True).tolist()
        [3, 2, 1]
    """
    found = np.sort(stacked_where_needed(a), axis, kind, order, stable=stable)
    ordered: Tensor = as_tensors(np.flip(found, -1 if axis is None else axis) if descending else found)
    return ordered


def clip(
    a: Any,
    /,
    min: Any = None,  # the standard's name
    max: Any = None,
    out: Any = None,
    **kwargs: Any,
) -> Tensor:
    """Return the elements, those below `min` or above `max` replaced by them; also as `a_min` and `a_max`, as NumPy's.

    Raises:
        ArgumentError: a bound is given twice.

    Example:
        >>> import asyncgrad.numpy as np
        >>> np.clip(np.arange(4.0), 1.0, 2.0).tolist()
        [1., 1., 2., 2.]
    """
    low, high = _bound(min, "min", kwargs), _bound(max, "max", kwargs)
    kept: Tensor = as_tensors(np.clip(stacked_where_needed(a), low, high, out=out, **kwargs))
    return kept


def _bound(given: Any, name: str, kwargs: dict[str, Any]) -> Any:
    named = kwargs.pop(f"a_{name}", None)
    if named is not None and given is not None:
        raise ArgumentError(f"clip got both {name} and a_{name}, which mean the same: write one of them")
    return given if named is None else named


def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the frequencies of the terms of a Fourier transform of `n` samples that are `d` apart.

    Example:
        >>> import asyncgrad.numpy as np
        >>> np.fft.fftfreq(4).tolist()
        [0.0, 0.25, -0.5, -0.25]
    """
    return as_tensor(np.fft.fftfreq(n, d), dtype=dtype, device=device)


def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the frequencies of the terms of a Fourier transform of `n` real samples that are `d` apart.

    Example:
        >>> import asyncgrad.numpy as np
        >>> np.fft.rfftfreq(4).tolist()
        [0.0, 0.25, 0.5]
    """
    return as_tensor(np.fft.rfftfreq(n, d), dtype=dtype, device=device)


#: By the name after `numpy.`.
STANDARD: dict[str, Callable[..., Any]] = {
    "argsort": argsort,
    "clip": clip,
    "fft.fftfreq": fftfreq,
    "fft.rfftfreq": rfftfreq,
    "sort": sort,
    "where": where,
}
