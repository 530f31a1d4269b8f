"""Derivative formulas of ufuncs of several arguments, which may be given arguments of narrow dtypes.

SciPy computes in floating-point numbers whatever it is given. A formula computes with the arguments themselves: the
degree 200 in an array of uint8 would be 144 when it is doubled.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import _ufuncs

from ...core.arrays.device_arrays import unavailable
from ...core.arrays.device_functions import own_function
from ...core.arrays.values import is_device_array, raw
from ...core.engine.device import device_of_array
from ...core.recording.primitive import Primitive
from ...core.recording.primitive import differentiable as _differentiable
from ...errors import ArgumentTypeError, AsyncgradError
from ..ufuncs import special

__all__ = ["by_mask", "compute_where", "differentiable", "holds_somewhere", "quotient", "zeta_"]

_DOUBLE = np.dtype(np.float64)
#: By the character of a narrow dtype, the dtype that formulas compute in: a whole number stays one, if it may.
_WIDER: dict[str, Any] = {
    **dict.fromkeys("?bBhHiI", np.int64),
    **dict.fromkeys("LQ", np.float64),
    "e": np.float32,
}


def differentiable(ufunc: np.ufunc, parameters: str, **formulas: Callable[..., Any]) -> Primitive:
    """Make a ufunc of SciPy a primitive, given the names of its parameters and a formula for each.

    The formulas of several parameters are called with arguments in wide dtypes. One parameter is of the dtype of its
    gradient.

    Where a device lacks a function that a formula calls, an error names the ufunc and the device.
    """
    if ufunc.nin > 1:
        formulas = {name: _widened(formula) for name, formula in formulas.items()}
    formulas = {name: _refused_by_name(ufunc.__name__, formula) for name, formula in formulas.items()}
    return _differentiable(ufunc, parameters, **formulas)


def compute_where(
    inside: Any, formula: Callable[..., Any], *arguments: Any, safe: float = 1.0, outside: Any = 0.0
) -> Any:
    """Return a formula's value where a mask holds, and another elsewhere, where its derivatives are 0.

    Args:
        inside: the mask.
        formula: a function of arrays, element by element.
        arguments: its arguments.
        safe: what takes the place of each argument elsewhere, where the formula could divide by zero or overflow: a
            number at which it has derivatives of every order.
        outside: the value elsewhere.
    """
    if np.all(inside):
        return formula(*arguments)
    return np.where(inside, formula(*(np.where(inside, one, safe) for one in arguments)), outside)


def by_mask(
    mask: Any, function: Callable[..., Any], otherwise: Callable[..., Any], *arguments: tuple[Any, float, float]
) -> Any:
    """Return one function's values where a mask holds, and another's elsewhere; one that has no element is not called.

    Args:
        mask: of the arguments' shape when these are broadcast.
        function: whose values count where the mask holds.
        otherwise: whose values count elsewhere.
        *arguments: those of both functions, each with a number that the first takes, and one that the other takes: they
            get it where their values do not count.
    """
    # What is asked for first is rare, in most families.
    if not holds_somewhere(mask):
        return otherwise(*[value for value, _, _ in arguments])
    if np.all(mask):
        return function(*[value for value, _, _ in arguments])
    found = function(*(np.where(mask, value, safe) for value, safe, _ in arguments))
    return np.where(mask, found, otherwise(*(np.where(mask, safe, value) for value, _, safe in arguments)))


def quotient(count: Any, value: Any) -> Any:
    """Return count / value, and 0 where both are 0: the derivative of xlogy(count, value) by value."""
    both = (raw(value) == 0) & (raw(count) == 0)
    return count / np.where(both, 1.0, value) if np.any(both) else count / value


def holds_somewhere(mask: Any) -> bool:
    """Return whether any element of a mask is true, which may be one bool."""
    # A mask of one element is a bool of NumPy's, whose method takes as long as the functions themselves.
    return bool(mask.any()) if getattr(mask, "ndim", 0) else bool(mask)


#: The ufunc that SciPy's zeta calls.
_hurwitz_zeta = getattr(_ufuncs, "_zeta", special.zeta)


def zeta_(s: Any, q: Any) -> Any:
    """Return Hurwitz's zeta function of arrays."""
    # CuPy's is not found by the name of SciPy's ufunc.
    for array in (q, s):
        found = own_function("zeta", array)(s, q)
        if found is not None:
            return found
    return _hurwitz_zeta(s, q)


def _refused_by_name(name: str, formula: Callable[..., Any]) -> Callable[..., Any]:
    """Return a formula whose error names the function and the device where this lacks a function that it calls."""

    @functools.wraps(formula)
    def named(*arguments: Any) -> Any:
        try:
            return formula(*arguments)
        except AsyncgradError:
            raise
        except (TypeError, NotImplementedError) as error:
            for one in arguments:
                if is_device_array(raw(one)) and (place := device_of_array(one)) is not None:
                    gradient = f"the gradient of scipy.special.{name}"
                    raise ArgumentTypeError(
                        unavailable(gradient, place, ", which lacks a function that it calls")
                    ) from error
            raise

    return named


def _widened(formula: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(formula)
    def widened(g: Any, *needed: Any) -> Any:
        for one in needed:
            # Asked first, for that is what most are.
            if getattr(one, "dtype", None) is not _DOUBLE:
                return formula(g, *map(_wide, needed))
        return formula(g, *needed)

    return widened


def _wide(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        # The ufunc has taken it as the array that it says.
        value = np.asarray(value)
    dtype = getattr(value, "dtype", None)
    wider = None if dtype is None else _WIDER.get(dtype.char)
    return value if wider is None else value.astype(wider)
