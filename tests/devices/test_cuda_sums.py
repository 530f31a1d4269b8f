"""Sums on a GPU: the kernels, run by the threads of the host."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncgrad.devices.cuda import columns
from asyncgrad.devices.cuda.sums import sum_functions
from tests.support import fake_cupy

from .block_threads import BLOCK_MACROS, ThreadsModule
from .host_kernels import CPLUSPLUS_COMPILER, HostArray, HostCupy, on_host

pytestmark = pytest.mark.skipif(
    CPLUSPLUS_COMPILER is None, reason="the C++ of kernels is checked by the host's compiler: no c++"
)

#: Shape, dtype and axis, and the grid and threads of the launch.
SUMS = [
    pytest.param((5, 3), "d", 0, (1, 1), 256, id="fewer columns than a block"),
    pytest.param((70, 19), "f", 0, (3, 1), 256, id="few columns"),
    pytest.param((300, 9), "d", 0, (2, 1), 1024, id="many rows"),
    pytest.param((2, 40, 17), "d", 1, (3, 2), 256, id="an axis in the midst"),
    pytest.param((40, 70), "d", 0, (3, 1), 256, id="many columns"),
    pytest.param((3, 20), "d", 1, (3,), 32, id="short rows"),
    pytest.param((2, 200), "f", 1, (2,), 256, id="rows"),
    pytest.param((2, 2100), "d", 1, (2,), 1024, id="long rows"),
]

Functions = dict[Any, Callable[..., Any]]


@pytest.fixture(scope="module")
def functions() -> Iterator[Functions]:
    with pytest.MonkeyPatch.context() as patch:
        for name, module in fake_cupy.modules().items():
            patch.setitem(sys.modules, name, module)
        # Two blocks are enough here.
        patch.setattr(columns, "_BLOCKS", 2)
        cupy = SimpleNamespace(ndarray=HostArray, RawModule=ThreadsModule, cuda=HostCupy.cuda)
        yield sum_functions(cupy, BLOCK_MACROS)


def drawn(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "dtype", "axis", "grid", "threads"), SUMS)
def test_a_sum_is_that_of_numpy(
    functions: Functions, shape: tuple[int, ...], dtype: str, axis: int, grid: tuple[int, ...], threads: int
) -> None:
    array = drawn(shape, dtype)
    ThreadsModule.launched.clear()

    found = functions[np.sum](on_host(array), axis=axis)

    tolerance = 1e-4 if dtype == "f" else 1e-12
    np.testing.assert_allclose(found.host, array.sum(axis), tolerance, tolerance)
    assert ThreadsModule.launched == [(grid, threads)]


def test_a_mean_is_the_sum_by_the_number_of_summands(functions: Functions) -> None:
    array = drawn((6, 9), "d")

    found = functions[np.mean](on_host(array), axis=0, keepdims=True)

    np.testing.assert_allclose(found.host, array.mean(0, keepdims=True), 1e-12)


@pytest.mark.parametrize("shape", [(40, 9), (2, 300, 11)])
def test_the_sum_over_leading_axes_is_added_to_an_array(functions: Functions, shape: tuple[int, ...]) -> None:
    array, total = drawn(shape, "d"), drawn(shape[-1:], "d")
    there = on_host(total)

    assert functions["add_leading_sum"](there, on_host(array)) is there
    np.testing.assert_allclose(there.host, total + array.reshape(-1, shape[-1]).sum(0), 1e-12)
