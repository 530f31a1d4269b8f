"""Indices by arrays have records that read, write and add as NumPy does, and leave an error to NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from tests.tracing.running import bits, compiled
from tests.tracing.test_runner import LAYOUTS, in_lockstep, warned

pytest.importorskip("llvmlite")


def written(a: np.ndarray, write: Callable[[np.ndarray], Any]) -> np.ndarray:
    made = a * 1
    write(made)
    return made


def put(a: np.ndarray, index: Any, value: Any) -> np.ndarray:
    return written(a, lambda made: made.__setitem__(index, value))


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    """Return the bits of what a function returns, or its error."""
    try:
        return bits(function(*args))
    except ValueError as error:
        return str(error)


#: What they call has records; `i` and `j` are indices of both axes, from -4 to 3, and `m` is a mask.
FUNCTIONS: list[Callable[..., Any]] = [
    lambda a, i, j, m: a[i],
    lambda a, i, j, m: a[i, j],
    lambda a, i, j, m: a[:, j],
    lambda a, i, j, m: a[..., i.reshape(3, 2)],
    lambda a, i, j, m: (a * 2).T[i[:, None], j],
    lambda a, i, j, m: a[[2, 0, -1]],
    lambda a, i, j, m: np.take(a, j, axis=1),
    lambda a, i, j, m: a[::-1][i[::2] * 1],
    lambda a, i, j, m: put(a, i, 3),
    lambda a, i, j, m: put(a, (i, j), a[0, 0:1] * 2),
    lambda a, i, j, m: put(a, (i, j), a.reshape(-1)[: len(i)] * 2),
    lambda a, i, j, m: put(a, i, a[i] * 2),
    lambda a, i, j, m: put(a, (slice(None), j), a[:, ::-1][:, j]),
    lambda a, i, j, m: put(a, (slice(1, 3), 0), 2),
    lambda a, i, j, m: put(a, (0, 1), a[1, 1] * 2),
    lambda a, i, j, m: put(a, m, 2),
    lambda a, i, j, m: put(a, m[:, 0], a[0, 0:1] * 2),
    lambda a, i, j, m: put(a, m, a[m] * 2) + a[m].sum(),
    lambda a, i, j, m: a[m[:, 0]],
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=range(len(FUNCTIONS)))
def test_an_index_has_the_bits_of_numpys(function):
    rng = np.random.default_rng(0)

    def operands(kind: str, layout: str) -> list[np.ndarray]:
        a = LAYOUTS[layout]((rng.standard_normal((4, 5)) * 9).astype(kind))
        mask = np.zeros((4, 5), bool)
        # As many in each call.
        mask[[1, 3]] = rng.permuted([True, False, True, True, False])
        mask[:, 0] = [0, 1, 0, 1]
        return [a, rng.integers(-4, 4, 6), rng.integers(-4, 4, 6), mask]

    for kind, layout in [*[("f", layout) for layout in LAYOUTS], *[(kind, "C") for kind in "?bhdl"]]:
        jitted = compiled(function, *operands(kind, layout), backend="runner")
        for _ in range(2):
            given = operands(kind, layout)
            assert bits(jitted(*given)) == bits(function(*given)), (kind, layout)
    assert in_lockstep(function, *operands("d", "C")) == []


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i: x[i],
        lambda x, i: x[i % 3, i],
        lambda x, i: put(x, i, 1),
        lambda x, i: written(x, lambda made: np.add.at(made, i, x[:2] * 1)),
        lambda x, i: written(x[0], lambda made: np.add.at(made, i, x[1, :2] * 1)),
    ],
    ids=["read", "read at two", "written", "added", "added to numbers"],
)
def test_an_index_out_of_bounds_raises_numpys_error_and_the_next_call_is_right(function):
    x = np.arange(9.0).reshape(3, 3)
    jitted = compiled(function, x, np.array([0, 1]), backend="runner")

    for index in ([3, 0], [0, -4], [2**62, 0], [-(2**63), 1]):
        with pytest.raises(IndexError) as expected:
            function(x, np.array(index))
        with pytest.raises(IndexError) as found:
            jitted(x, np.array(index))
        assert str(found.value) == str(expected.value)
        assert bits(jitted(x, np.array([1, -3]))) == bits(function(x, np.array([1, -3])))
    assert in_lockstep(function, x, np.array([0, 1])) == []


@pytest.mark.parametrize("kind", ["f", "d", "l"])
def test_numbers_are_added_at_an_index_one_after_the_other(kind):
    def function(x, index, values):
        flat = written(x, lambda made: np.add.at(made, index, values))
        rows = written(x.reshape(-1, 4), lambda made: np.add.at(made, index % 5, values[:, None] * x[:4]))
        return flat, rows, written(x, lambda made: np.add.at(made, index, 1))

    rng = np.random.default_rng(0)

    def operands() -> list[np.ndarray]:
        numbers = (rng.standard_normal(520) * 10.0 ** rng.integers(0, 6, 520)).astype(kind)
        # Places that follow one another get their numbers at once: up to both ends, and between others.
        rows = [begin + np.arange(16) for begin in (-20, 4, *rng.integers(-20, 5, 23))]
        return [numbers[:20], np.concatenate([rng.integers(-20, 20, 100), *rows]), numbers[20:]]

    jitted = compiled(function, *operands(), backend="runner")
    for _ in range(3):
        given = operands()
        assert [bits(one) for one in jitted(*given)] == [bits(one) for one in function(*given)]
    given[1][480:488] = np.arange(13, 21)
    with pytest.raises(IndexError, match="index 20 is out of bounds"):
        jitted(*given)
    assert in_lockstep(function, *operands()) == []


def test_an_overflow_of_a_sum_at_an_index_is_told_of_as_by_numpy():
    def function(x, index):
        return written(x, lambda made: np.add.at(made, index, x))

    jitted = compiled(function, np.ones(3), np.array([0, 1, 1]))
    large = np.full(3, 1.7e308), np.array([0, 1, 1])

    assert warned(jitted, *large) == warned(function, *large)


@pytest.mark.parametrize("function", [lambda x, m: x[m] * 2, lambda x, m: put(x, m, np.array([1.0, 2.0]) * x[0, 0])])
def test_a_mask_with_another_number_of_elements_does_what_numpy_does(function):
    x = np.arange(6.0).reshape(2, 3) + 1
    traced = np.array([[True, False, False], [False, True, False]])
    jitted = compiled(function, x, traced, backend="runner")

    assert bits(jitted(x, traced[::-1].copy())) == bits(function(x, traced[::-1].copy()))
    for other in (~traced, np.zeros_like(traced), np.ones_like(traced)):
        assert outcome(jitted, x, other) == outcome(function, x, other)


def test_rows_of_a_batch_have_indices_and_the_error_of_one_is_numpys():
    x = np.arange(12.0).reshape(4, 3)
    index = np.random.default_rng(0).integers(-4, 4, (200, 5))
    mapped = ag.func.vmap(lambda i: x[i] * 2)

    for _ in range(2):
        assert bits(mapped(index)) == bits(x[index] * 2)
    index[150, 2] = 4
    with pytest.raises(IndexError, match="index 4 is out of bounds for axis 0 with size 4"):
        mapped(index)
