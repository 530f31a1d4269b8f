"""Loops are called in the parts in which NumPy calls them, which its iterator tells, and a ufunc is seen to take."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from asyncgrad.tracing.iterations import elementwise_parts
from tests.tracing.running import bits, compiled
from tests.tracing.test_runner import in_lockstep

pytest.importorskip("llvmlite")

_LOOP = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.POINTER(ctypes.c_int64)] * 2, ctypes.c_void_p)


class Observed:
    """A ufunc of float32 that computes nothing, and notes how its loop is called."""

    def __init__(self, inputs: int) -> None:
        from numpy._core import _multiarray_umath

        self.calls: list[tuple[int, list[int]]] = []
        self._loop = _LOOP(
            lambda places, counts, steps, data: self.calls.append((counts[0], list(steps[: inputs + 1])))
        )
        find = ctypes.pythonapi.PyCapsule_GetPointer
        find.restype, find.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        table = ctypes.cast(find(_multiarray_umath._UFUNC_API, None), ctypes.POINTER(ctypes.c_void_p))
        number, text = ctypes.c_int, ctypes.c_char_p
        make = ctypes.PYFUNCTYPE(ctypes.py_object, *[ctypes.c_void_p] * 3, *[number] * 4, text, text, number)
        self._memory = (
            (ctypes.c_void_p * 1)(ctypes.cast(self._loop, ctypes.c_void_p).value),
            (ctypes.c_void_p * 1)(None),
            ctypes.create_string_buffer(bytes([np.dtype(np.float32).num] * (inputs + 1))),
        )
        # PyUFunc_FromFuncAndData.
        self.ufunc: Any = make(table[1])(*self._memory, 1, inputs, 1, -1, b"observed", b"", 0)


def of(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


#: Operands of which NumPy passes some in parts, or after a copy.
OPERANDS: dict[str, Callable[[], list[np.ndarray]]] = {
    "columns": lambda: [of(16, 128)[:, 32:64]],
    "columns, transposed": lambda: [of(16, 128)[:, 32:64].T.copy()[:, ::-1]],
    "large columns": lambda: [of(3, 20_000)[:, :-1]],
    "transposed": lambda: [of(40, 500).T],
    "pools": lambda: [of(8, 16, 16, 16)[:, :, ::2, ::2], of(8, 16, 16, 16)[:, :, 1::2, ::2]],
    "a row and columns": lambda: [of(32), of(16, 128)[:, 32:64]],
    "a number and columns": lambda: [of(), of(16, 128)[:, 32:64]],
    "every other": lambda: [of(100)[::2]],
}


@pytest.mark.parametrize("name", OPERANDS)
def test_a_ufunc_calls_its_loop_in_the_parts_of_the_iterator(name):
    inputs = OPERANDS[name]()
    arrays = [*inputs, np.empty(np.broadcast_shapes(*[one.shape for one in inputs]), np.float32)]
    observed = Observed(len(inputs))
    observed.ufunc(*inputs, out=arrays[-1])

    found = elementwise_parts(tuple([("f", one.shape, one.strides) for one in arrays]), np.getbufsize())

    size = arrays[-1].size
    assert found is not None
    length, steps = found
    counts = [min(length, size - begin) for begin in range(0, size, length)]
    assert observed.calls == [(count, steps) for count in counts]


@pytest.mark.parametrize("name", OPERANDS)
def test_functions_of_operands_in_parts_have_the_bits_of_numpys(name):
    def function(*inputs: np.ndarray) -> Any:
        return np.tanh(inputs[-1]) - np.maximum(inputs[0], inputs[-1]) + np.exp(inputs[-1])

    inputs = OPERANDS[name]()
    jitted = compiled(function, *inputs, backend="runner")
    for turn in range(3):
        assert bits(jitted(*inputs)) == bits(function(*inputs))
        for one in inputs:
            np.copyto(one, np.nan if turn else one * 9, where=np.abs(one) > 0.1)
    assert jitted.counts["replayed"] == 4


def test_columns_and_what_is_assigned_to_itself_have_records():
    def function(x):
        y = np.tanh(x[:, 32:64])
        y[:2] += 1
        return y * 2

    assert in_lockstep(function, of(16, 128)) == []


#: What is reduced, and the axes.
REDUCTIONS = {
    "channels": (of(16, 8, 5, 6), (0, 2, 3)),
    "channels, batch last in memory": (of(8, 5, 6, 16).transpose(3, 0, 1, 2), (0, 2, 3)),
    "channels last": (of(16, 5, 6, 8).transpose(0, 3, 1, 2), (0, 2, 3)),
    "the middle": (of(6, 40, 8), (1,)),
    "first and last": (of(6, 7, 50), (0, 2)),
    "columns": (of(6, 90)[:, 10:60], (1,)),
    "rows of columns": (of(6, 90)[:, 10:60], (0,)),
    "large": (of(3, 20_000)[:, 1:], None),
    "transposed": (of(30, 40).T, None),
    "reversed": (of(30, 40)[:, ::-1], (1,)),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_over_any_axes_have_the_bits_of_numpys(name):
    x, axes = REDUCTIONS[name]

    def function(x: np.ndarray, flags: np.ndarray, numbers: np.ndarray) -> Any:
        return x.sum(axes), x.prod(axes), x.max(axes), flags.any(axes), flags.all(axes), numbers.min(axes)

    # These lie in memory as it does.
    others = (np.abs(x) < 2.5, (x * 100).astype(int))
    jitted = compiled(function, x, *others, backend="runner")

    assert [bits(one) for one in jitted(x, *others)] == [bits(one) for one in function(x, *others)]


def test_sums_over_channels_and_extremes_of_integers_have_records():
    def function(x, numbers):
        return x.sum((0, 2, 3)), numbers[:, 1:].min(), numbers[:, :-1].max(), numbers[:, 1:].max(0)

    assert in_lockstep(function, of(16, 8, 5, 6), (of(10, 20) * 100).astype(int)) == []
