"""Sums at indices on a GPU are NumPy's, in every dtype, and have the same bits on each run, in eager and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.core.arrays.device_functions import own_function
from tests.support.settings import compiled_after

TOLERANCES = {"e": 2e-2, "f": 1e-4, "d": 1e-11, "F": 1e-4, "D": 1e-11, "i": 0, "q": 0}


def drawn(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    array = 3 * rng.standard_normal(shape)
    return (array + 1j * rng.standard_normal(shape) if dtype in "FD" else array).astype(dtype)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("is_zero", [True, False], ids=["to zeros", "to numbers"])
@pytest.mark.parametrize(
    ("outer", "rows", "length", "count"),
    [(1, 5, 3, 100), (2, 1, 33, 3000), (1, 70000, 2, 3072), (3, 40, 65, 5000), (1, 300, 700, 10000), (1, 9, 1, 100000)],
)
def test_rows_are_added_at_their_indices(cupy, gpu, outer, rows, length, count, is_zero, dtype):
    indices = np.random.default_rng(count).integers(-2 * rows, 2 * rows, count)
    # One index that comes most often.
    indices[count // 4 : count // 2] = rows // 2
    values = drawn((outer, count, length), dtype)
    total = np.zeros((outer, rows, length), dtype) if is_zero else drawn((outer, rows, length), dtype)
    wide = {"e": "d", "f": "d", "F": "D"}.get(dtype, dtype)
    expected = np.zeros(total.shape, wide)
    for one, given in zip(expected, values, strict=True):
        np.add.at(one, indices % rows, given)
    expected += total
    given = cupy.asarray(indices), cupy.asarray(values), outer, rows, is_zero

    add_rows_at = own_function("add_rows_at", given[0])
    found = [add_rows_at(cupy.asarray(total), *given).get() for _ in range(5)]

    scale = float(np.max(np.abs(expected)))
    np.testing.assert_allclose(found[0], expected, TOLERANCES[dtype], TOLERANCES[dtype] * scale)
    assert {one.tobytes() for one in found} == {found[0].tobytes()}


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "embedding": lambda index, x: nn.embedding(index, x, 7),
    "index": lambda index, x: x[index],
    "last axis": lambda index, x: x[..., index],
    "two axes": lambda index, x: x[index, index],
    "take": lambda index, x: np.take(x, index, axis=1),
    "take_along_axis": lambda index, x: np.take_along_axis(x, np.reshape(index, (-1, 50)), 0),
    "bincount": lambda index, x: np.bincount(np.concatenate([index, index]), np.reshape(x, -1)[: 2 * index.size]),
}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("count", [1000, 20000])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_at_indices_have_the_same_bits_on_each_run(gpu, name, count, compiled):
    indices = np.random.default_rng(0).integers(0, 50, count)
    indices[count // 3 : count // 2] = 7
    shape = (2 * count // 50, 50) if name == "bincount" else (50, 50)

    def gradient(place: Any, dtype: str) -> Any:
        leaf = ag.tensor(drawn(shape, dtype), device=place, requires_grad=True)
        given = ag.tensor(indices, device=place)
        sync.backward(np.tanh(PROGRAMS[name](given._data, leaf)).sum())
        return leaf.grad.to("cpu").numpy()

    with compiled_after(1 if compiled else None):
        found = [gradient(gpu, "f") for _ in range(5)]

    right = gradient("cpu", "d")
    np.testing.assert_allclose(found[0], right, 1e-3, 1e-4 * float(np.max(np.abs(right))))
    assert {one.tobytes() for one in found} == {found[0].tobytes()}
