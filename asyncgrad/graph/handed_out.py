"""Arrays that were handed out for good: a tensor leaves such an array to who has it before it is written into.

A snapshot of a model shares the arrays of its parameters, and they never change. So the first write into a parameter
after a snapshot goes into a copy, which is the parameter's own from then on.
"""

from __future__ import annotations

from sys import getrefcount
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InPlaceError

if TYPE_CHECKING:
    from .tensor_base import TensorBase

__all__ = ["hand_out", "leave_handed_out"]

#: The result of `getrefcount` for an array that only a tensor and a local variable refer to.
_SOLE = 3


def hand_out(tensor: TensorBase) -> Any:
    """Return the array of a tensor, read-only where its type knows that, which never changes from now on."""
    tensor._autograd_meta().is_handed_out = True
    view = tensor._data.view()
    if isinstance(view, np.ndarray):
        view.flags.writeable = False
    return view


def leave_handed_out(out: TensorBase) -> None:
    """Give a tensor an array of its own if its present one was handed out; a write into it follows.

    Raises:
        InPlaceError: the tensor is a view of one whose array was handed out.
    """
    meta = out._meta
    if meta is not None and meta.is_handed_out:
        data = out._data
        # An array that is part of another one keeps that alive, so its own references say nothing.
        if data.base is not None or getrefcount(data) > _SOLE:
            out._data = data.copy()
        meta.is_handed_out = False
    view = out._view
    if view is None:
        return
    meta = (view[0] if isinstance(view, tuple) else view.base)._meta
    if meta is not None and meta.is_handed_out:
        raise InPlaceError(
            f"a tensor of shape {out._data.shape} is a view of a parameter whose array a snapshot shares: write into "
            "the parameter itself, or publish another array by model.update({...})"
        )
