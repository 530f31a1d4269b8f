"""A stand-in for CuPy's `cublas` where there is no GPU: products of matrices in the memory of the host."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

__all__ = ["cublas"]


def cublas(current_handle: Callable[[], int]) -> ModuleType:
    """Return the module, with its products in float32 and float64.

    Args:
        current_handle: returns the handle of the current GPU, without which a product is an error.
    """
    made = ModuleType("cupy_backends.cuda.libs.cublas")
    for name, char in (("s", "f"), ("d", "d")):
        one = _product(char, current_handle)
        functions = {"gemm": one, "gemmStridedBatched": _strided(one, char), "gemmBatched": _batched(one)}
        vars(made).update({f"{name}{kind}": function for kind, function in functions.items()})
    #: By handle, what has been set.
    modes: dict[int, int] = {}
    vars(made).update(setMathMode=modes.__setitem__, getMathMode=lambda handle: modes.get(handle, 0))
    return made


def _product(char: str, current_handle: Callable[[], int]) -> Callable[..., None]:
    """Return gemm of a dtype: C = alpha op(A) op(B) + beta C, for matrices whose columns lie without gaps."""
    dtype = np.dtype(char)

    def matrix(address: int, rows: int, columns: int, step: int) -> np.ndarray:
        assert step >= rows, "a column is longer than the way to the next one"
        count = step * (columns - 1) + rows
        whole = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
        return np.ndarray((rows, columns), dtype, whole, strides=(dtype.itemsize, step * dtype.itemsize))

    def gemm(
        handle: int, a_is_transposed: int, b_is_transposed: int, m: int, n: int, k: int,
        alpha: int, a: int, a_step: int, b: int, b_step: int, beta: int, c: int, c_step: int,
    ) -> None:  # fmt: skip
        assert handle == current_handle(), "the handle belongs to another GPU than the current one"
        first = matrix(a, k, m, a_step).T if a_is_transposed else matrix(a, m, k, a_step)
        second = matrix(b, n, k, b_step).T if b_is_transposed else matrix(b, k, n, b_step)
        factor, kept = (matrix(one, 1, 1, 1)[0, 0] for one in (alpha, beta))
        out = matrix(c, m, n, c_step)
        out[...] = factor * (first @ second) + (kept * out if kept else 0)

    return gemm


def _strided(gemm: Callable[..., None], char: str) -> Callable[..., None]:
    """Return gemmStridedBatched: the matrices of each operand are equally far apart."""
    item = np.dtype(char).itemsize

    def batched(*arguments: Any) -> None:
        *before, a, a_step, a_apart, b, b_step, b_apart, beta, c, c_step, c_apart, count = arguments
        for k in range(count):
            a_at, b_at, c_at = a + k * a_apart * item, b + k * b_apart * item, c + k * c_apart * item
            gemm(*before, a_at, a_step, b_at, b_step, beta, c_at, c_step)

    return batched


def _batched(gemm: Callable[..., None]) -> Callable[..., None]:
    """Return gemmBatched: the address of each matrix is in an array."""

    def batched(*arguments: Any) -> None:
        *before, a, a_step, b, b_step, beta, c, c_step, count = arguments
        every = [np.ctypeslib.as_array((ctypes.c_uint64 * count).from_address(one)).tolist() for one in (a, b, c)]
        for a_at, b_at, c_at in zip(*every, strict=True):
            gemm(*before, a_at, a_step, b_at, b_step, beta, c_at, c_step)

    return batched
