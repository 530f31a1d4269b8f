"""What a tensor may hold: numbers. Arrays of objects, texts, dates and records have no gradients."""

from __future__ import annotations

import decimal
import fractions
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..errors import ArgumentTypeError
from .tracked import Tracked
from .values import describe

__all__ = ["check_numbers", "is_number_dtype", "refuse_sparse"]


def is_number_dtype(dtype: Any) -> bool:
    """Tell whether elements of a dtype are numbers: truth values, integers, floating or complex numbers."""
    # Packages define floating numbers of few bits, which NumPy counts as voids of a type of their own.
    return dtype.kind in "biufc" or (dtype.kind == "V" and dtype.type is not np.void)


def check_numbers(
    name: str,
    dtype: Any,
    operands: Iterable[Any] = (),
    *,
    instead: str = "pass numbers, and dtypes of numbers, or call the function on t.numpy(), without history",
) -> None:
    """Raise if a result of that dtype cannot be a tensor.

    Args:
        name: of the function that gives it.
        dtype: of the result.
        operands: what the function was called with.
        instead: what to write where none of these is the cause.

    Raises:
        ArgumentTypeError: the elements are no numbers.
    """
    if is_number_dtype(dtype):
        return
    cause = next(filter(_is_no_number, operands), None)
    if cause is None:
        raise ArgumentTypeError(
            f"{name} of a tensor would give an array of dtype {dtype}, and a tensor holds numbers: {instead}"
        )
    raise ArgumentTypeError(
        f"{name} of a tensor and {describe(cause)} would give an array of dtype {dtype}, and a tensor holds numbers: "
        f"{_instead(cause)}"
    )


def refuse_sparse(name: str, operands: Iterable[Any], error: Exception) -> None:
    """Raise a better error than the one that a function has raised if a sparse matrix is among its operands.

    Args:
        name: of the function.
        operands: what it was called with.
        error: what it raised, of which a sparse matrix beside a tensor seldom is named as the cause.

    Raises:
        ArgumentTypeError: there is a sparse matrix.
    """
    for operand in operands:
        if isinstance(operand, (list, tuple)):
            refuse_sparse(name, operand, error)
        elif _is_sparse(operand) and ".toarray()" not in str(error):
            raise ArgumentTypeError(f"{name} of a tensor and {describe(operand)}: {_instead(operand)}") from error


def _is_no_number(operand: Any) -> bool:
    if isinstance(operand, (Tracked, bool, int, float, complex, np.dtype, type)) or operand is None:
        return False
    if _is_sparse(operand):
        return True
    try:
        return not is_number_dtype(np.asarray(operand).dtype)
    except (TypeError, ValueError, RuntimeError):
        return False


def _is_sparse(operand: Any) -> bool:
    return hasattr(operand, "toarray") and hasattr(operand, "nnz")


def _instead(cause: Any) -> str:
    """Return what to write instead."""
    if _is_sparse(cause):
        return f"sparse matrices are not supported beside tensors, so write {type(cause).__name__}.toarray() for it"
    if isinstance(cause, (fractions.Fraction, decimal.Decimal)):
        return f"write float(...) of the {type(cause).__name__}"
    if getattr(getattr(cause, "dtype", None), "kind", "O") == "O":
        return "pass numbers, such as array.astype(float)"
    return "pass numbers"
