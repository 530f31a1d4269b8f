"""What a call with tensors gives, compared with what the library's own function gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from asyncgrad import Tensor

from .arguments import Arguments, leaves

#: Of a solver's result, what is compared: the rest tells of its way.
_RESULTS = ("x", "fun", "cost", "root", "y", "t", "success", "converged")

#: A kind of difference, and a text.
Difference = tuple[str, str]


def compared(expected: Any, found: Any, tolerance: float, path: str = "") -> Iterator[Difference]:
    """Yield the differences of two results.

    Args:
        expected: the library's.
        found: that of asyncgrad.
        tolerance: of values, relative; for double precision, others have more.
        path: what they are within a result.
    """
    if isinstance(expected, dict) and hasattr(expected, "__dir__") and type(expected) is not dict:
        for key in _RESULTS:
            if expected.get(key) is not None:
                yield from compared(expected[key], getattr(found, key, None), tolerance, f"{path}.{key}")
        return
    if isinstance(expected, (tuple, list)):
        is_alike = isinstance(found, (tuple, list)) and len(found) == len(expected)
        # A list of numbers may be an array.
        if not is_alike and (isinstance(expected, tuple) or np.shape(found)[:1] != (len(expected),)):
            yield "shape", f"{path}: {type(found).__name__}, expected {type(expected).__name__} of {len(expected)}"
            return
        for index, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from compared(one, other, tolerance, f"{path}[{index}]")
        return
    if isinstance(expected, (bool, int, float, complex, np.ndarray, np.generic)):
        yield from _compared_arrays(expected, found, tolerance, path)


def compared_writes(
    expected: Any, before: Arguments, after: Arguments, given: Arguments, tolerance: float
) -> Iterator[Difference]:
    """Yield which arguments asyncgrad did not write into as the library did, or wrote into alone.

    Args:
        expected: the library's result; what it returns is what it is asked to write into.
        before: the arguments.
        after: those that the library was called with, after its call.
        given: those that asyncgrad was called with, after its call.
        tolerance: of values, relative.
    """
    results = expected if isinstance(expected, (tuple, list)) else (expected,)
    for number, (old, one, other) in enumerate(zip(*map(leaves, (before, after, given)), strict=True)):
        if not isinstance(old, np.ndarray) or old.dtype.kind not in "biufc":
            continue
        if any(one is result for result in results):
            differs = any(True for _ in compared(one, other, tolerance))
        else:
            is_left = np.array_equal(one, old, equal_nan=old.dtype.kind in "fc")
            differs = is_left and any(True for _ in compared(old, other, tolerance))
        if differs:
            yield "write", f"argument {number} holds {np.asarray(other).ravel()[:4]}, expected {one.ravel()[:4]}"


def _compared_arrays(expected: Any, found: Any, tolerance: float, path: str) -> Iterator[Difference]:
    if isinstance(found, Tensor):
        found = found.detach().numpy()
    is_array = isinstance(expected, (np.ndarray, np.generic))
    want = np.asarray(expected)
    try:
        have = np.asarray(found)
    except (TypeError, ValueError):
        have = np.asarray(None)
    if want.dtype.kind not in "biufc":
        return
    if have.dtype.kind not in "biufc":
        yield "value", f"{path}: {type(found).__name__}, expected {type(expected).__name__}"
        return
    if have.shape != want.shape:
        yield "shape", f"{path}: shape {have.shape}, expected {want.shape}"
        return
    # A tensor that is computed has the machine's order of bytes; some functions of SciPy keep that of the argument.
    if is_array and have.dtype.newbyteorder("=") != want.dtype.newbyteorder("="):
        yield "dtype", f"{path}: dtype {have.dtype}, expected {want.dtype}"
    eps = max(np.finfo(one.dtype).eps if one.dtype.kind in "fc" else 0.0 for one in (want, have))
    tolerance = max(tolerance, float(eps) ** 0.5) if eps > 1e-10 else tolerance
    wide = np.complex128 if "c" in want.dtype.kind + have.dtype.kind else np.float64
    want, have = want.astype(wide), have.astype(wide)
    size = float(np.max(np.abs(want[np.isfinite(want)]), initial=0.0))
    with np.errstate(all="ignore"):
        is_same = (want == have) | (np.isnan(want) & np.isnan(have))
        is_same |= np.abs(want - have) <= tolerance * (np.abs(want) + 1e-2 * size) + 1e-300
    if not is_same.all():
        place = np.unravel_index(int(np.argmin(is_same)), is_same.shape)
        yield "value", f"{path}: {int((~is_same).sum())} of {is_same.size} differ, as {have[place]} from {want[place]}"
