"""Copy on write: a tensor whose array is shared with readers gets an array of its own before it is written into.

A snapshot of a model shares the arrays of its parameters, and they never change. So the first write into a parameter
after a snapshot goes into a copy, which is the parameter's own from then on.
"""

from __future__ import annotations

from sys import getrefcount
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import InPlaceError
from .values import own_copy

if TYPE_CHECKING:
    from .tensor_base import TensorBase

__all__ = ["copy_shared_before_write", "share_array"]

#: The result of `getrefcount` for an array that only a tensor and a local variable refer to.
_SOLE = 3


def share_array(tensor: TensorBase) -> Any:
    """Return the array of a tensor, read-only where its type knows that; a write into the tensor copies it first."""
    tensor._autograd_meta().has_shared_array = True
    view = tensor._data.view()
    if isinstance(view, np.ndarray):
        view.flags.writeable = False
    return view


def copy_shared_before_write(out: TensorBase) -> None:
    """Give a tensor an array of its own if its present one is shared with somebody; a write into it follows.

    Raises:
        InPlaceError: the tensor is a view of one whose array is shared.
    """
    meta = out._meta
    if meta is not None and meta.has_shared_array:
        data = out._data
        # An array that is part of another one keeps that alive, so its own references say nothing.
        if data.base is not None or getrefcount(data) > _SOLE:
            out._data = own_copy(data)
        meta.has_shared_array = False
    view = out._view
    if view is None:
        return
    meta = (view[0] if isinstance(view, tuple) else view.base)._meta
    if meta is not None and meta.has_shared_array:
        raise InPlaceError(
            f"a tensor of shape {out._data.shape} is a view of a parameter whose array a snapshot shares: write into "
            "the parameter itself, or publish another array by model.update({...})"
        )
