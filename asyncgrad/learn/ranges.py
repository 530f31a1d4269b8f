"""The numbers that a dtype holds, and those of a range: compared without rounding, and shown in errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.settings.arguments import number

__all__ = [
    "bound",
    "first_outside",
    "is_kind_of_number",
    "is_kind_of_whole_number",
    "range_of",
    "show",
    "whole_bounds",
    "within",
]

_INFINITE = (-math.inf, math.inf)

#: Whole numbers from here on are shown by their first digits: Python refuses to write out those of thousands.
_MANY_DIGITS = 10**20


def is_kind_of_whole_number(kind: type) -> bool:
    """Tell whether objects of a type are whole numbers. A bool is an int to Python, but not to who posts one."""
    return kind is int or issubclass(kind, np.integer)


def is_kind_of_number(kind: type) -> bool:
    """Tell whether objects of a type are real numbers."""
    return kind is float or issubclass(kind, np.floating) or is_kind_of_whole_number(kind)


def bound(value: Any, name: str) -> float:
    """Return an end of a range: an int as it is, since no float may be equal to it; else a float, possibly infinite."""
    if is_kind_of_whole_number(type(value)) and abs(int(value)) <= 2**64:
        return int(value)
    if isinstance(value, (float, np.floating)) and math.isinf(value):
        return float(value)
    return number(value, name)


def range_of(dtype: Any) -> tuple[Any, Any]:
    """Return the least and the largest number of a dtype, of Python's types where they hold them."""
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    least, most = np.finfo(dtype).min, np.finfo(dtype).max
    return (float(least), float(most)) if dtype.itemsize <= 8 else (least, most)


def whole_bounds(low: Any, high: Any) -> tuple[Any, Any]:
    """Return the least and the largest whole number in a range; infinite ends stay."""
    return low if low in _INFINITE else math.ceil(low), high if high in _INFINITE else math.floor(high)


def within(array: Any, low: Any, high: Any) -> Any:
    """Return where the numbers are finite, and in a range."""
    if array.dtype.kind in "iu":
        # Not as floats: above 2**53 those are even numbers alone. NumPy compares with any int of Python exactly.
        low, high = whole_bounds(low, high)
        within = np.ones(array.shape, bool)
        if low not in _INFINITE:
            within &= array >= low
        return within if high in _INFINITE else within & (array <= high)
    if array.dtype.kind == "f":
        if array.dtype != np.float64:
            # In the array's own dtype, in which a number may be equal to an end; what is beyond that becomes infinite.
            with np.errstate(all="ignore"):
                low, high = np.array([float(low), float(high)]).astype(array.dtype)
        return np.isfinite(array) & (array >= low) & (array <= high)
    return np.array(array >= low, bool) & np.array(array <= high, bool)


def first_outside(array: Any, within: Any, path: str) -> tuple[str, str]:
    """Return the place of the first number that is not within, and the number."""
    place = np.unravel_index(int(np.argmin(within)), array.shape)
    return path + "".join(f"[{index}]" for index in place), show(array[place])


def show(value: Any) -> str:
    """Return a number in as few characters as tell it from others."""
    if isinstance(value, (int, np.integer)):
        value = int(value)
        if abs(value) < _MANY_DIGITS:
            return str(value)
        rest, exponent = math.modf(math.log10(abs(value)))
        return f"{'-' if value < 0 else ''}{10.0**rest:.6g}e+{exponent:.0f}"
    if np.isnan(value):
        return "NaN"
    short = f"{value:g}"
    return short if type(value)(short) == value else str(value)
