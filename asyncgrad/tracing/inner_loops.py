"""NumPy's inner loops by their addresses: what a ufunc calls for arrays of given dtypes, once it has chosen.

A loop has the bits of its ufunc where it is called as the ufunc calls it. The layout of a ufunc in memory is part of
NumPy's public header, `ufuncobject.h`; it is checked against what Python says of some ufuncs before it is relied upon.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import NamedTuple, final

import numpy as np

__all__ = ["InnerLoop", "address_of", "are_loops_found", "data_offset", "inner_loop"]


@final
class InnerLoop(NamedTuple):
    """A function `void loop(char **args, intp *counts, intp *steps, void *data)`.

    Attributes:
        function: its address.
        data: what it is given as its last argument.
    """

    function: int
    data: int


@final
class _Ufunc(ctypes.Structure):
    # PyUFuncObject of ufuncobject.h, up to what is read here.
    _fields_ = (
        ("head", ctypes.c_byte * object.__basicsize__),
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("types", ctypes.POINTER(ctypes.c_char)),
    )


@functools.cache
def are_loops_found() -> bool:
    """Tell whether ufuncs lie in memory as they are read here, in this interpreter and this NumPy."""
    if sys.implementation.name != "cpython" or data_offset() is None:
        return False
    for ufunc in (np.add, np.exp, np.less, np.matmul, np.isnan, np.negative, np.divmod):
        found = _Ufunc.from_address(id(ufunc))
        if (found.nin, found.nout, found.nargs, found.ntypes) != (ufunc.nin, ufunc.nout, ufunc.nargs, ufunc.ntypes):
            return False
        if found.name != ufunc.__name__.encode():
            return False
    return True


@functools.cache
def data_offset() -> int | None:
    """Return where in the memory of an array, as an object of Python, the address of its numbers is."""
    places = set(range(0, 8 * ctypes.sizeof(ctypes.c_void_p), ctypes.sizeof(ctypes.c_void_p)))
    for array in (np.arange(5.0), np.arange(7)[3:], np.zeros((2, 3), np.float32)):
        places = {at for at in places if ctypes.c_void_p.from_address(id(array) + at).value == address_of(array)}
    return places.pop() if len(places) == 1 else None


def address_of(array: np.ndarray) -> int:
    """Return the address of the first element of an array."""
    found: int = array.__array_interface__["data"][0]
    return found


@functools.lru_cache(maxsize=4096)
def inner_loop(ufunc: np.ufunc, signature: str) -> InnerLoop | None:
    """Return the loop of a ufunc for dtypes such as "dd->d"; None where it has none of exactly these."""
    found = _Ufunc.from_address(id(ufunc))
    if signature not in ufunc.types or found.types is None:
        return None
    index = ufunc.types.index(signature)
    function, data = found.functions[index], found.data[index] if found.data else None
    return None if function is None else InnerLoop(function, data or 0)
