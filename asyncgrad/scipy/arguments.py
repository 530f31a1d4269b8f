"""Arguments of SciPy's functions as tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from ..core.tensor import Tensor, asarray

__all__ = [
    "bands_of",
    "double",
    "floating",
    "lapack_numbers",
    "matrices",
    "number_as_matrix",
    "plain_options",
    "with_old_name",
]

F = TypeVar("F", bound=Callable[..., Any])


def floating(value: Any) -> Any:
    """Return a tensor, an array, a list or a number as a tensor, with whole numbers as float64."""
    tensor = asarray(float(value) if type(value) is int else value)
    return tensor if tensor.dtype.kind in "fc" else tensor.astype(float)


def double(value: Any) -> Any:
    """Return an argument as a tensor of float64, or of complex128, in which SciPy computes what it is made for."""
    tensor = floating(value)
    return tensor.astype(np.complex128 if tensor.dtype.kind == "c" else np.float64, copy=False)


def lapack_numbers(value: Any) -> Any:
    """Return an argument of `scipy.linalg` as a tensor of one of LAPACK's four kinds of numbers, as SciPy does."""
    tensor = asarray(value)
    kind = tensor.dtype.char
    if kind in "fdFD":
        return tensor
    return tensor.astype("f" if kind in "?bBhHe" else "D" if kind == "G" else "d")


def matrices(name: str, value: Any, *, is_square: bool = True, is_for_lapack: bool = False) -> Any:
    """Return an argument of a function of `scipy.linalg` as a tensor of matrices, which stand in the last two axes.

    If it `is_for_lapack`, it has one of the dtypes of LAPACK, see `lapack_numbers`.

    Raises:
        ValueError: it has no such axes, or they are not of one length although `is_square`.
    """
    found = lapack_numbers(value) if is_for_lapack else floating(value)
    if found.ndim < 2 or (is_square and found.shape[-1] != found.shape[-2]):
        square = "square " if is_square else ""
        raise ValueError(f"scipy.linalg.{name} takes {square}matrices, not an array of shape {found.shape}")
    return found


def number_as_matrix(value: Any) -> Any:
    """Return a number, or a vector of one, as a matrix of one element, as some functions of `scipy.linalg` take it.

    Others are returned as they are.
    """
    return np.reshape(asarray(value), (1, 1)) if np.ndim(value) < 2 and np.size(value) == 1 else value


def bands_of(name: str, value: Any, *, may_be_none: bool = False) -> Any:
    """Return an argument of a function of `scipy.linalg` as a tensor of the bands of a matrix.

    Raises:
        ValueError: it has other than two axes, or no band although the matrix has rows, unless `may_be_none`.
    """
    bands = floating(value)
    if bands.ndim != 2 or (bands.shape[1] and not bands.shape[0] and not may_be_none):
        raise ValueError(f"scipy.linalg.{name} takes bands of shape (u + 1, n), not {bands.shape}")
    return bands


def with_old_name(old: str, new: str) -> Callable[[F], F]:
    """Return a decorator for a function that takes a parameter by the name, too, that SciPy has had for it."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def renamed(*args: Any, **kwargs: Any) -> Any:
            if old in kwargs:
                if new in kwargs:
                    raise TypeError(f"{function.__name__}() got multiple values for argument {new}, once as {old}")
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return cast("F", renamed)

    return decorate


def plain_options(options: Any) -> Any:
    """Return a solver's options, a dict or None, with arrays for tensors: its result has no derivative by them."""
    if options is None:
        return None
    return {key: value.detach().numpy() if isinstance(value, Tensor) else value for key, value in options.items()}
