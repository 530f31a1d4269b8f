"""The functions of the namespace that make Tensors of other things, which NumPy's protocols do not reach."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from ..core.settings.arguments import takes
from ..core.tensor import Tensor
from ..core.tensor import asarray as as_tensor
from ..errors import ArgumentError, ArgumentTypeError
from .wrapping import stacked_where_needed

__all__ = ["CREATION"]


def array(
    object: Any,  # NumPy's name
    dtype: Any = None,
    *,
    copy: bool | None = True,
    order: Literal["K", "A", "C", "F"] = "K",
    ndmin: int = 0,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a Tensor of an array, a number, or nested sequences of them; Tensors in sequences keep their history.

    Args:
        object: what it is made of.
        dtype: NumPy's; None finds one that holds all.
        copy: True copies; None copies where that is needed; False raises where it is.
        order: the order in memory, as NumPy's.
        ndmin: axes of length 1 are put in front until there are so many.
        device: where it lives; None is the device of `object`, or the default device.
        requires_grad: whether gradients flow to it.

    Raises:
        ArgumentError: `copy` is False, and a copy is needed; or the sequences are ragged, and it says where.

    Example:
        >>> import asyncgrad as ag, asyncgrad.numpy as np
        >>> x = ag.tensor(2.0, requires_grad=True)
        >>> np.array([x, 3 * x]).requires_grad
        True
    """
    joined = stacked_where_needed(object)
    if isinstance(joined, Tensor):
        made = _converted(joined, dtype, order, copy=copy if joined is object else None)
    else:
        try:
            values = np.array(joined, dtype, copy=copy, order=order)
        except ValueError:
            if isinstance(joined, (list, tuple)) and copy is not False:
                # It says where the rows of a ragged sequence differ.
                as_tensor(joined)
            raise
        made = as_tensor(values, device=device)
    if made.ndim < ndmin:
        made = made.reshape((1,) * (ndmin - made.ndim) + made.shape)
    return as_tensor(made, device=device, requires_grad=requires_grad)


def asarray(
    a: Any,
    dtype: Any = None,
    order: Literal["K", "A", "C", "F"] | None = None,
    *,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a Tensor of `a` as `array` does; a Tensor as it is, and an array without a copy, where that is possible.

    Example:
        >>> import asyncgrad.numpy as np
        >>> x = np.ones(3)
        >>> np.asarray(x) is x
        True
    """
    return array(a, dtype, copy=copy, order=order or "K", device=device, requires_grad=requires_grad)


def ascontiguousarray(a: Any, dtype: Any = None) -> Tensor:
    """Return a Tensor whose memory is contiguous in C order; `a` itself where it is that already."""
    return array(a, dtype, copy=None, order="C", ndmin=1)


def asfortranarray(a: Any, dtype: Any = None) -> Tensor:
    """Return a Tensor whose memory is contiguous in Fortran's order; `a` itself where it is that already."""
    return array(a, dtype, copy=None, order="F", ndmin=1)


def full(
    shape: Any,
    fill_value: Any,
    dtype: Any = None,
    order: Literal["C", "F"] = "C",
    *,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a Tensor of a shape, filled with a number or with the elements of a Tensor, which keeps its history.

    Example:
        >>> import asyncgrad.numpy as np
        >>> np.full(2, 7.0).tolist()
        [7.0, 7.0]
    """
    if isinstance(fill_value, Tensor):
        filled: Any = np.broadcast_to(fill_value, shape)
        made = _converted(filled, dtype, order, copy=True)
    else:
        made = as_tensor(np.full(shape, fill_value, dtype, order))
    return as_tensor(made, device=device, requires_grad=requires_grad)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return a Tensor on the memory of an array of another library, which it reaches by DLPack.

    Args:
        x: the array; a Tensor is returned as it is.
        device: where the Tensor lives; None is where `x` is.
        copy: True copies; None copies where that is needed; False raises where it is.

    Raises:
        ArgumentTypeError: `x` has no `__dlpack__`.

    Example:
        >>> import numpy, asyncgrad.numpy as np
        >>> np.from_dlpack(numpy.ones(2)).tolist()
        [1.0, 1.0]
    """
    if isinstance(x, Tensor):
        return array(x, copy=copy, device=device)
    if not hasattr(x, "__dlpack__"):
        raise ArgumentTypeError(
            takes("from_dlpack", "an array of a library that has __dlpack__", x, "write asarray(x)")
        )
    return as_tensor(np.from_dlpack(x, copy=copy), device=device)


#: By the name after `numpy.`.
CREATION: dict[str, Callable[..., Any]] = {
    "array": array,
    "asanyarray": asarray,
    "asarray": asarray,
    "ascontiguousarray": ascontiguousarray,
    "asfortranarray": asfortranarray,
    "from_dlpack": from_dlpack,
    "full": full,
}


def _converted(tensor: Tensor, dtype: Any, order: str, *, copy: bool | None) -> Tensor:
    made = tensor.astype(tensor.dtype if dtype is None else dtype, order=order, copy=bool(copy))
    if copy is False and made is not tensor:
        raise ArgumentError(
            f"a tensor of dtype {tensor.dtype} cannot become one of dtype {np.dtype(dtype)} and order {order!r} "
            "without a copy: write copy=None"
        )
    return made
