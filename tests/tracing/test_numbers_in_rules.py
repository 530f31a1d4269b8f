"""Numbers that differ from batch to batch, such as how many labels are ignored, need no other program."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.errors import IndexRangeError
from tests.support.sampling import some
from tests.tracing.running import bits, compiled, same_in_one_program


def batches(kind: str, shape: tuple[int, ...], weighted: bool) -> Iterator[list[Any]]:
    """Yield scores, labels of which more and more are ignored, and weights of the classes."""
    rng = np.random.default_rng(0)
    for ignored in (0, 3, 0, 1, 5, 6, 2, 0):
        labels = rng.integers(0, shape[1], (shape[0], *shape[2:]))
        labels[:ignored] = -100
        weights = [rng.random(shape[1]).astype(kind)] if weighted else []
        yield [rng.standard_normal(shape).astype(kind), labels, *weights]


EVERY = list(itertools.product("efd", [(6, 4), (6, 4, 3)], [False, True], ["mean", "sum"], [0.0, 0.125]))


@pytest.mark.parametrize("backend", ["table", "fused"])
def test_ignored_labels_and_weights_take_one_program_with_the_bits_of_eager_losses(backend):
    pytest.importorskip("llvmlite")
    for kind, shape, weighted, reduction, smoothing in some(EVERY, of=backend):

        def cross_entropy(scores, labels, weight=None):
            return nn.cross_entropy(scores, labels, weight, reduction=reduction, label_smoothing=smoothing)  # noqa: B023

        name = f"cross_entropy {kind} {shape} {weighted} {reduction} {smoothing} {backend}"
        with np.errstate(all="ignore"):
            counts = same_in_one_program(cross_entropy, name, batches(kind, shape, weighted), backend=backend)
        assert (counts["replayed"], counts["traces"]) == (6, 1), (name, dict(counts))
        assert not any(one.startswith("not fused") for one in counts), (name, dict(counts))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_kernels_of_a_loss_are_not_run_in_vain(weighted):
    pytest.importorskip("llvmlite")
    rng = np.random.default_rng(0)
    weights = rng.random(4)

    def loss(scores, labels):
        return nn.cross_entropy(scores, labels, weights if weighted else None)

    given = ag.tensor(rng.standard_normal((6, 4)), requires_grad=True), np.array([0, 1, -100, 3, 2, 1])
    jitted = compiled(loss, *given, backend="fused")
    for _ in range(3):
        sync.backward(jitted(*given))

    (variant,) = next(iter(jitted._families.values())).variants
    assert variant.fused is not None
    assert variant.fused.reruns == 0


@pytest.mark.parametrize("weighted", [False, True])
def test_ignored_labels_take_one_program_of_nll_loss(weighted):
    def nll_loss(scores, labels, weight=None):
        return nn.nll_loss(nn.log_softmax(scores, 1), labels, weight)

    with np.errstate(all="ignore"):
        counts = same_in_one_program(nll_loss, f"nll_loss {weighted}", batches("f", (6, 4), weighted))

    assert (counts["replayed"], counts["traces"]) == (6, 1), dict(counts)


def test_weights_that_a_loss_makes_anew_are_a_part_of_its_program():
    def loss(scores, labels):
        return nn.cross_entropy(scores, labels, [1.0, 2.0])

    scores, labels = np.array([[1.0, 2.0], [0.5, 3.0], [0.0, 1.0]]), np.array([0, 1, -100])
    jitted = compiled(loss, scores, labels)

    assert bits(jitted(scores, labels[[2, 0, 1]])) == bits(loss(scores, labels[[2, 0, 1]]))


def test_a_label_that_is_no_class_raises_as_without_a_program():
    def loss(scores, labels):
        return nn.cross_entropy(scores, labels)

    scores = np.zeros((3, 2))
    jitted = compiled(loss, scores, np.array([0, 1, -100]))

    for wrong in (2, -1):
        with pytest.raises(IndexRangeError, match=f"got label {wrong}, but there are 2 classes"):
            jitted(scores, np.array([0, wrong, 1]))


def scores(kind: str, axis: int, infinite: bool) -> Iterator[list[Any]]:
    """Yield scores of moderate size, some that are large, some of which all exponentials are 0, and some of both."""
    rng = np.random.default_rng(0)
    for shift, scale in ((0, 1), (0, 3), (0, 400), (-1000, 1), (2000, 1), (0, 1), (-45, 1), (70, 1), (0, 1e4), (0, 1)):
        found = rng.standard_normal((5, 6, 7)) * scale
        found += shift
        if infinite:
            np.moveaxis(found, axis, -1)[1, 2] = -np.inf
            np.moveaxis(found, axis, -1)[0, 1, 2:] = -np.inf
            found[3, 3, 3] = np.inf
            found[4, 4, 4] = np.nan
        yield [found.astype(kind), rng.standard_normal((5, 6, 7)).astype(kind)]


@pytest.mark.parametrize("backend", ["table", "runner", "fused"])
@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("infinite", [False, True])
def test_softmax_of_scores_of_any_size_takes_one_program_with_the_bits_of_eager(backend, axis, infinite):
    pytest.importorskip("llvmlite")
    for kind in "fd":

        def softmax(x, weights):
            return np.sum(nn.softmax(x, axis) * weights)

        runs = scores(kind, axis, infinite)
        name = f"softmax {kind} {axis} {backend} {infinite}"
        counts = same_in_one_program(softmax, name, runs, backend=backend)
        assert (counts["replayed"], counts["traces"]) == (8, 1), dict(counts)


@pytest.mark.parametrize("masked", [False, True])
def test_attention_of_scores_of_any_size_takes_one_program(masked):
    pytest.importorskip("llvmlite")
    rng = np.random.default_rng(0)
    key, value = rng.standard_normal((2, 6, 4)), rng.standard_normal((2, 6, 4))
    mask = np.ones((5, 6), bool)
    mask[2], mask[3, 1:] = False, False

    def attention(query):
        return np.sum(nn.scaled_dot_product_attention(query, key, value, mask if masked else None) ** 2)

    runs = [[rng.standard_normal((2, 5, 4)) * scale] for scale in (1, 1, 1e4, 1, 1e3, 0.1, 1e5, 1)]
    counts = same_in_one_program(attention, f"attention {masked}", runs)

    assert (counts["replayed"], counts["traces"]) == (6, 1), dict(counts)


def test_softmax_of_nothing_has_a_program():
    jitted = compiled(lambda x: nn.softmax(x), np.zeros((0, 3)))

    assert jitted(np.zeros((0, 3))).shape == (0, 3)


def test_the_derivative_of_i0_takes_one_program_for_numbers_of_any_size():
    def function(x):
        return np.sum(np.i0(x) * 0.5)

    runs = [[np.linspace(-1.0, 1.0, 7) * scale] for scale in (1, 2, 3, 0.5, 10, 30, 0, 100)]
    counts = same_in_one_program(function, "sum of i0", runs)

    assert (counts["replayed"], counts["traces"]) == (6, 1), dict(counts)
