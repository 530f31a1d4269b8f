"""Plain SGD of large parameters is one call of BLAS for each, where SciPy is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import optim
from asyncgrad.optim import blas


def one_step(start: Any, gradient: Any, lr: float = 0.1, **options: Any) -> Any:
    param = ag.asarray(start).requires_grad_()
    optim.SGD([param], lr=lr, **options).step([gradient])
    return param.numpy()


def order_of_c(array: Any) -> Any:
    return array.copy()


def order_of_fortran(array: Any) -> Any:
    return np.asfortranarray(array)


def every_other(array: Any) -> Any:
    return np.repeat(array, 2, axis=1)[:, ::2]


def unaligned(array: Any) -> Any:
    memory = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    memory[...] = array
    return memory


def swapped(array: Any) -> Any:
    return array.astype(array.dtype.newbyteorder())


@pytest.mark.parametrize("laid", [order_of_c, order_of_fortran, every_other, unaligned, swapped])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("maximize", [False, True])
def test_a_step_is_that_of_the_formula_however_arrays_lie_in_memory(
    laid: Callable[[Any], Any], dtype: Any, maximize: bool
) -> None:
    rng = np.random.default_rng(0)
    start, gradient = (rng.standard_normal((150, 81)).astype(dtype) for _ in range(2))
    expected = start + gradient * dtype(0.1 if maximize else -0.1)
    for other in (order_of_c, order_of_fortran):
        moved = one_step(laid(start), other(gradient), maximize=maximize)

        np.testing.assert_allclose(moved, expected, rtol=4 * np.finfo(dtype).eps, atol=np.finfo(dtype).eps)


def test_a_step_writes_into_the_parameter_itself_and_takes_a_rate_of_0_and_nans() -> None:
    start = np.ones(2000)
    moved = one_step(start, np.ones(2000), lr=0.5)
    assert np.shares_memory(moved, start)
    assert (start == 0.5).all()
    assert np.isnan(one_step(np.ones(2000), np.full(2000, np.nan), lr=0.0)).all()
    assert np.isnan(one_step(np.ones(2000), np.full(2000, np.nan))).all()


async def test_bits_depend_neither_on_threads_of_blas_nor_on_the_loop() -> None:
    threadpoolctl = pytest.importorskip("threadpoolctl")
    rng = np.random.default_rng(0)
    start, gradient = rng.standard_normal((2, 100_003))
    found = []
    for threads in (1, 2):
        with threadpoolctl.threadpool_limits(threads):
            found.append(one_step(start.copy(), gradient))
            param = ag.tensor(start, requires_grad=True)
            await optim.SGD([param], lr=0.1).step_async([gradient])
            found.append(param.numpy())

    assert all(np.array_equal(one, found[0]) for one in found)


def test_without_scipy_steps_are_those_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(blas, "import_module", missing)
    blas.find_axpy.cache_clear()
    try:
        rng = np.random.default_rng(0)
        start, gradient = rng.standard_normal((2, 5000))

        assert np.array_equal(one_step(start.copy(), gradient), start - gradient * 0.1)
    finally:
        blas.find_axpy.cache_clear()
