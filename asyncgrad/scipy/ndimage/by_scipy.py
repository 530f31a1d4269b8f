"""Calls that need no derivative are SciPy's own: with its dtypes, its `output=`, its values and its errors."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import ndimage

from ...core.arrays.values import is_device_array, is_recorder
from ...core.graph.saved_hooks import prepare_write
from ...core.settings.context import is_grad_enabled
from ...core.tensor import Tensor, asarray
from ...core.tree.structure import flatten, unflatten
from ..solutions import array_of

__all__ = ["prefer_scipy", "preferring"]

#: Functions that call functions of the user's, which take and return tensors.
_CALL_USERS = {"generic_gradient_magnitude", "generic_laplace", "geometric_transform"}
#: With `axes=`, SciPy's give the order of the derivative to another axis.
_MISTAKE_AXES = {"gaussian_gradient_magnitude", "gaussian_laplace"}
#: SciPy's of complex images forget this argument.
_FORGOTTEN = {"zoom": "grid_mode"}
#: SciPy's of complex images raise where a real dtype is asked for, which others promote.
_KEEP_DTYPES = {
    *("gaussian_filter", "gaussian_gradient_magnitude", "gaussian_laplace", "laplace", "prewitt", "sobel"),
}
#: To SciPy's, only an array as `output=` makes a difference, a dtype none.
_IGNORE_DTYPES = {"morphological_gradient", "morphological_laplace"}


def prefer_scipy(module: str) -> None:
    """Have the functions of a module call SciPy's of the same name where nothing is differentiated.

    Args:
        module: the name of the module, which has imported them.
    """
    space = vars(sys.modules[module])
    for name in space["__all__"]:
        space[name] = preferring(space[name], getattr(ndimage, name))


def preferring(ours: Callable[..., Any], theirs: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls SciPy's where nothing is differentiated, and otherwise ours."""
    signature = inspect.signature(ours)

    @functools.wraps(ours)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = flatten((args, kwargs))
        if any(is_recorder(_data(leaf)) or is_device_array(_data(leaf)) for leaf in leaves):
            return ours(*args, **kwargs)
        needs_grad = is_grad_enabled() and any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in leaves)
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:
            given = {}
        into = given.get("output")
        is_forgotten = given.get(_FORGOTTEN.get(ours.__name__, "")) and np.iscomplexobj(_data(given["input"]))
        if ours.__name__ in _CALL_USERS or is_forgotten:
            return _written(ours, given, into) if isinstance(into, (np.ndarray, Tensor)) else ours(*args, **kwargs)
        if into is not None and ours.__name__ in _IGNORE_DTYPES and not isinstance(into, (np.ndarray, Tensor)):
            args, kwargs, into = (), {**given, "output": None}, None
        # Guarded by test_filters_of_some_axes_are_those_of_each_part.
        if given.get("axes") is not None and ours.__name__ in _MISTAKE_AXES:
            return ours(*args, **kwargs)
        if needs_grad and _is_inexact(given, into):
            promoted = _check_kind(ours.__name__, given, into)
            if not isinstance(into, (np.ndarray, Tensor)):
                return ours(*args, **kwargs) if promoted is None else ours(**{**given, "output": promoted})
            return _written(ours, given, into)
        if isinstance(into, Tensor):
            prepare_write(into)
        plain_args, plain_kwargs = unflatten(structure, [_plain(leaf) for leaf in leaves])
        try:
            found = theirs(*plain_args, **plain_kwargs)
        except Exception:
            # Ours says what to write, if it refuses this too.
            ours(**{**given, "output": into.dtype} if isinstance(into, (np.ndarray, Tensor)) else given)
            raise
        if isinstance(into, Tensor):
            into._bump_version()
            return into
        return asarray(found) if isinstance(found, (np.ndarray, np.generic, float)) else _as_tensors(found)

    return wrapper


def _check_kind(name: str, given: dict[str, Any], into: Any) -> Any:
    """Raise as SciPy does for a complex output of real numbers, and for a real one of complex numbers.

    Returns:
        The complex dtype that a real one which is asked for is promoted to, or None.
    """
    if into is None or name in ("morphological_gradient", "zoom"):
        return None
    try:
        wanted = into.dtype if isinstance(into, (np.ndarray, Tensor)) else np.dtype(into)
    except TypeError:
        return None
    operands = (one for key, one in given.items() if key != "output" and isinstance(one, (np.ndarray, Tensor)))
    is_complex = any(one.dtype.kind == "c" for one in operands)
    if is_complex and wanted.kind != "c":
        if isinstance(into, (type, np.dtype)) and name not in _KEEP_DTYPES:
            return np.promote_types(wanted, np.complex64)
        raise RuntimeError("output must have complex dtype")
    if wanted.kind == "c" and not is_complex:
        raise RuntimeError(f"array type {wanted} not supported: the output of real numbers is real")
    return None


def _data(leaf: Any) -> Any:
    return leaf._data if isinstance(leaf, Tensor) else leaf


def _plain(leaf: Any) -> Any:
    return array_of(leaf) if isinstance(leaf, Tensor) else leaf


def _as_tensors(found: Any) -> Any:
    """Return the numbers of several labels, or their tuples, as tensors."""
    if not isinstance(found, (list, tuple)):
        return found
    return type(found)(_as_tensors(one) if isinstance(one, tuple) else asarray(one) for one in found)


def _is_inexact(given: dict[str, Any], into: Any) -> bool:
    """Tell whether the result may have a gradient: whole numbers have none."""
    if into is None:
        dtypes = [getattr(given.get(name), "dtype", None) for name in ("input", "weights")]
        # Complex weights make a complex image of a whole-numbered one.
        return dtypes[0] is None or dtypes[0].kind in "fc" or (dtypes[1] is not None and dtypes[1].kind == "c")
    if isinstance(into, (np.ndarray, Tensor)):
        return into.dtype.kind in "fc"
    try:
        return np.dtype(into).kind in "fc"
    except TypeError:
        return True


def _written(ours: Callable[..., Any], given: dict[str, Any], into: Any) -> Any:
    """Write a result with a history into an array or a tensor; return it, with its history."""
    if ours.__name__ == "affine_transform" and given.get("output_shape") is None:
        given = {**given, "output_shape": into.shape}
    found = ours(**{**given, "output": into.dtype})
    if found.shape != into.shape:
        raise RuntimeError("output shape not correct")
    if isinstance(into, Tensor):
        into[...] = found
        return into
    np.copyto(into, array_of(found), casting="unsafe")
    return found
