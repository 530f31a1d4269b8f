"""The CTC loss is that of all alignments, counted one by one; what it cannot take it refuses."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.errors import ArgumentError, IndexRangeError


def labels_of(path: tuple[int, ...], blank: int) -> list[int]:
    """Return what a path says: without repetitions, and then without blanks."""
    return [label for label, _ in itertools.groupby(path) if label != blank]


@pytest.mark.parametrize(("labels", "steps", "blank"), [([1, 2], 4, 0), ([1, 1], 3, 0), ([0, 2, 0], 4, 1), ([], 2, 2)])
def test_the_loss_and_its_gradient_are_those_of_all_alignments(labels: list[int], steps: int, blank: int) -> None:
    scores = np.random.default_rng(0).standard_normal((4, 1, 3))
    x = ag.tensor(scores, requires_grad=True)
    targets = np.array([[*labels, 7, 7]])
    loss = nn.ctc_loss(x, targets, [steps], [len(labels)], blank, "sum")
    (grad,) = sync.grad(loss, [x])

    paths = [path for path in itertools.product(range(3), repeat=steps) if labels_of(path, blank) == labels]
    weights = np.array([np.exp(sum(scores[step, 0, label] for step, label in enumerate(path))) for path in paths])
    expected = np.zeros((4, 1, 3))
    for path, weight in zip(paths, weights, strict=True):
        expected[range(steps), 0, path] -= weight / weights.sum()
    np.testing.assert_allclose(loss.item(), -np.log(weights.sum()))
    np.testing.assert_allclose(grad.numpy(), expected, atol=1e-14)


def test_a_sequence_that_is_too_short_for_its_labels_has_an_infinite_loss_or_none() -> None:
    x = ag.tensor(np.random.default_rng(1).standard_normal((3, 3, 4)), requires_grad=True)
    args = (np.array([[1, 2], [3, 3], [1, 0]]), [3, 2, 0], [2, 2, 1])
    losses, finite = (nn.ctc_loss(x, *args, reduction="none", zero_infinity=one) for one in (False, True))
    (grad,) = sync.grad(finite.sum(), [x])

    assert np.isinf(losses.numpy()).tolist() == [False, True, True]
    assert finite.numpy()[1:].tolist() == [0.0, 0.0]
    assert not grad.numpy()[:, 1:].any()
    assert grad.numpy()[:, 0].any()


WRONG: list[tuple[tuple[Any, ...], type[Exception], str]] = [
    ((np.array([1, 2]), [3], [3]), ArgumentError, "as many labels as target_lengths say, 3, not 2"),
    ((np.array([1, 2]), [4], [2]), ArgumentError, "input_lengths from 0 to 3"),
    ((np.array([1, 2]), [3, 3], [2]), ArgumentError, "a number for each of 1 sequences, not 2"),
    ((np.array([1, 4]), [3], [2]), IndexRangeError, "got label 4, but there are 4 classes"),
    ((np.array([1, 2]), [3], [2], 4), ArgumentError, "blank must be one of the 4 classes"),
]


@pytest.mark.parametrize(("args", "error", "message"), WRONG)
def test_what_does_not_fit_is_named(args: tuple[Any, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        nn.ctc_loss(np.zeros((3, 4)), *args)
