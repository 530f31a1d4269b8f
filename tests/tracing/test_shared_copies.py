"""What a program would copy twice is copied once, as long as the numbers are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn
from asyncgrad.errors import ChangedTensorError
from asyncgrad.tracing import shared_copies
from tests.tracing.running import bits, compiled, grads_of, same

RNG = np.random.default_rng(0)


def number_of_copies(jitted: Any) -> int:
    """Return how many steps of the program do nothing but copy an array."""
    program = jitted.last_variant().program
    copies = [shared_copies._copy(step) for step in (*program.forward, *program.backward)]
    return sum(copy is not None and not isinstance(copy[2], (int, float)) for copy in copies)


def in_parts(x: np.ndarray, order: int) -> np.ndarray:
    """Return a copy that is made in two parts."""
    made = np.empty_like(x)
    made[::order], made[1::2] = x[::order], x[1::2]
    return made


def changed(x: np.ndarray) -> Any:
    first = x.copy()
    x += 1
    return first * x.copy() * first.copy()


#: Functions of an array of their own, and how many copies their programs make.
FUNCTIONS: list[tuple[Callable[[np.ndarray], Any], int]] = [
    (lambda x: np.add(x[::-1].copy(), x[::-1].copy() * 2) * x[::-1].copy(), 1),
    (lambda x: x[::-1].copy() - x[1:].copy()[0], 2),
    (lambda x: in_parts(x, 2) * in_parts(x, 2), 2),
    (lambda x: in_parts(x, 2) * in_parts(x, 1), 4),
    (lambda x: x.copy() * x.copy().astype(np.float32), 1),
    (changed, 3),
    # The results of one call are not each other's.
    (lambda x: np.subtract(*[part.copy() for part in np.modf(x)]), 2),
    # What is written into later is no copy of another one.
    (lambda x: np.add(x.copy(), 1, out=x.copy()) * x.copy(), 2),
]


@pytest.mark.parametrize(("function", "copies"), FUNCTIONS, ids=range(len(FUNCTIONS)))
@pytest.mark.parametrize("backend", ["table", "auto"])
def test_a_copy_of_the_same_numbers_is_made_once(function, copies, backend):
    def own(x):
        return function(x * 1)

    jitted = compiled(own, RNG.standard_normal((4, 3)), backend=backend)

    for _ in range(2):
        x = RNG.standard_normal((4, 3))
        assert bits(jitted(x)) == bits(own(x))
    assert number_of_copies(jitted) == copies


@pytest.fixture
def model():
    x, w = RNG.standard_normal((3, 2, 5, 5)), RNG.standard_normal((4, 2, 3, 3))
    return (lambda x, w: nn.conv2d(nn.relu(nn.conv2d(x, w, padding=1)[:, :2]), w).sum()), [x, w]


@pytest.mark.parametrize("backend", ["table", "auto"])
def test_the_windows_of_a_convolution_are_copied_once_for_its_forward_and_its_backward(model, backend, monkeypatch):
    function, leaves = model

    def copies(most: int) -> int:
        monkeypatch.setattr(shared_copies, "_MOST_KEPT", most)
        jitted = ag.jit(function, verify=0, backend=backend)
        assert all(same(function, jitted, [leaf + call for leaf in leaves]) for call in range(4))
        return number_of_copies(jitted)

    # Of each of two convolutions the images, in its own order and with a border, and the windows over them.
    assert copies(1 << 20) == copies(0) - 4


def test_a_change_of_what_only_a_copy_that_is_left_out_would_read_is_found(model):
    function, leaves = model

    def step(jitted: Any, *, changes: bool) -> None:
        x, w = ag.tensor(leaves[0]), ag.tensor(leaves[1], requires_grad=True)
        loss = jitted(x, w)
        if changes:
            x += 1
        ag.sync.backward(loss)

    jitted = ag.jit(function, verify=0)
    for _ in range(3):
        step(jitted, changes=False)

    with pytest.raises(ChangedTensorError):
        step(jitted, changes=True)
    assert jitted.counts["replayed"] == 2
    assert grads_of(function, leaves) == grads_of(jitted, leaves)
