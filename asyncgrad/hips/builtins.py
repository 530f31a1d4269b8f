"""Python's containers, which asyncgrad differentiates as they are, and `isinstance` and `type` of the values inside.

A function that is differentiated gets its arguments as dicts, lists and tuples of Tensors. `isinstance` and `type`
answer as for the arrays that it would get without that.
"""

from __future__ import annotations

import builtins
from builtins import dict as dict
from builtins import list as list
from builtins import tuple as tuple
from typing import Any

from .tracer import getval, isbox

__all__ = ["dict", "isinstance", "list", "tuple", "type"]


def isinstance(x: object, kind: Any) -> bool:  # noqa: A001
    """Tell whether a value, or what is differentiated in its place, is an instance of a class.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> from asyncgrad.hips.builtins import isinstance
        >>> isinstance(ag.tensor([1.0]), np.ndarray)
        True
    """
    return builtins.isinstance(getval(x), kind) or (isbox(x) and builtins.isinstance(x, kind))


def type(x: Any) -> Any:  # noqa: A001
    """Return the class of a value, or of what is differentiated in its place.

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad.hips.builtins import type
        >>> type(ag.tensor([1.0])).__name__, type({}).__name__
        ('ndarray', 'dict')
    """
    return builtins.type(getval(x))
