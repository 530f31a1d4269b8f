"""Where the results of a program lie: apart while both are in use, else in the same memory, whatever their sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import asyncgrad as ag
from asyncgrad.tracing.inner_loops import address_of
from asyncgrad.tracing.memory_plan import _Region, arrays_of
from asyncgrad.tracing.program import Program
from tests.tracing.running import compiled


def program_of(function: Any, *args: Any) -> Program:
    (family,) = compiled(function, *args, backend="table")._families.values()
    (variant,) = family.variants
    assert isinstance(variant.program, Program)
    return variant.program


def extent(program: Program) -> int:
    """Return the bytes from the first to the last of all that a run writes into."""
    found = arrays_of(program).values()
    return max(address_of(one) + one.nbytes for one in found) - min(map(address_of, found))


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 6)), min_size=1, max_size=40))
def test_what_is_taken_at_a_time_lies_apart_and_gaps_are_filled(events):
    region = _Region()
    taken: list[tuple[int, int]] = []
    for size, dropped in events:
        begin = region.take(size)
        assert all(begin + size <= other or end <= begin for other, end in taken)
        assert begin + size <= region.end
        taken.append((begin, begin + size))
        if dropped < len(taken):
            other, end = taken.pop(dropped)
            region.give_back(other, end - other)
    end = region.end
    for begin, last in taken:
        region.give_back(begin, last - begin)
    assert region.take(end) == 0
    assert region.end == end


def test_results_of_other_sizes_lie_where_earlier_ones_have_lain():
    def halved(x):
        while x.size > 8:
            x = np.tanh(x)
            x = x[::2] * 2.0
        return x

    program = program_of(halved, np.linspace(0.0, 1.0, 2**14))
    largest = 2**14 * 8
    # The whole, its halves, and what follows from these where the whole has lain.
    assert extent(program) < 1.6 * largest


def test_what_the_forward_leaves_is_not_written_into_by_the_backward():
    def deep(x):
        for _ in range(6):
            x = np.tanh(x * 1.5)
        return np.sum(x)

    jitted = compiled(deep, ag.tensor(np.linspace(-1.0, 1.0, 600), requires_grad=True), backend="table")
    x = ag.tensor(np.linspace(-1.0, 1.0, 600), requires_grad=True)
    y = jitted(x)
    found = []
    for _ in range(3):
        x.grad = None
        ag.sync.backward(y, retain_graph=True)
        found.append(x.grad.numpy().tobytes())
    assert found[0] == found[1] == found[2]
