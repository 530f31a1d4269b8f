"""Cross entropy, attention and embeddings on a GPU, by kernels of our own, give what NumPy's functions give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn

TOLERANCES = {"f": 1e-4, "d": 1e-11}


def drawn(*shape: int, dtype: str) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


def gradients(device: Any, arrays: list[np.ndarray], function: Callable[..., Any]) -> list[np.ndarray]:
    """Return the result of a function of tensors on a device, and the gradients of the sum of its squares."""
    leaves = [ag.tensor(one, device=device, requires_grad=True) for one in arrays]
    result = function(*leaves)
    ag.sync.backward((result * result).sum())
    return [one.to("cpu").numpy() for one in (result, *(leaf.grad for leaf in leaves))]


def assert_same(found: list[np.ndarray], right: list[np.ndarray], dtype: str) -> None:
    for one, other in zip(found, right, strict=True):
        scale = float(np.nanmax(np.abs(other), initial=1e-9))
        np.testing.assert_allclose(one, other, TOLERANCES[dtype], TOLERANCES[dtype] * scale, strict=True)


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("labels_on", ["host", "device"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (33, 10), (64, 100), (300, 1000), (70000, 5), (40, 50000)])
def test_cross_entropy_of_any_number_of_rows_and_classes(gpu, shape, reduction, labels_on, dtype):
    labels = np.random.default_rng(0).integers(0, shape[1], shape[0])
    labels[1::3] = -100
    given = ag.tensor(labels, device=gpu) if labels_on == "device" else labels
    scores = [drawn(*shape, dtype=dtype)]

    found = gradients(gpu, scores, lambda x: nn.cross_entropy(x, given, reduction=reduction))
    assert_same(found, gradients("cpu", scores, lambda x: nn.cross_entropy(x, labels, reduction=reduction)), dtype)


@pytest.mark.parametrize("label", [3, -1])
def test_a_label_on_the_gpu_that_is_no_class_makes_its_loss_and_gradient_nan(gpu, label):
    labels = ag.tensor(np.array([0, label, 2, -100]), device=gpu)
    loss, grad = gradients(gpu, [drawn(4, 3, dtype="f")], lambda x: nn.cross_entropy(x, labels, reduction="none"))

    assert np.isnan(loss).tolist() == [False, True, False, False]
    assert np.isnan(grad).all(axis=1).tolist() == [False, True, False, False]


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("mask", ["causal", "truths", "sources", "numbers"])
@pytest.mark.parametrize("leading", [(), (2,), (2, 3), (2, 1, 3)])
@pytest.mark.parametrize(("targets", "sources"), [(1, 1), (3, 5), (33, 70), (20, 2000)])
def test_masked_attention_of_any_number_of_sources(gpu, targets, sources, leading, mask, dtype):
    truths = np.arange(targets * sources).reshape(targets, sources) % 3 != 1
    truths[targets // 2] = False
    masks = {"causal": None, "truths": truths, "sources": truths[:1], "numbers": drawn(targets, sources, dtype=dtype)}
    arrays = [drawn(*leading, length, 8, dtype=dtype) for length in (targets, sources, sources)]

    def attend(*leaves: Any) -> Any:
        given = masks[mask]
        given = given if given is None else ag.tensor(given, device=leaves[0].device)
        return nn.scaled_dot_product_attention(*leaves, given, is_causal=mask == "causal")  # type: ignore[call-overload]

    assert_same(gradients(gpu, arrays, attend), gradients("cpu", arrays, attend), dtype)


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("width", [1, 33, 1000])
def test_embeddings_of_any_width_are_nan_where_there_is_no_row(gpu, width, dtype):
    table = drawn(50, width, dtype=dtype)
    indices = np.random.default_rng(0).integers(0, 50, (7, 30))
    arrays = [table]
    found = gradients(gpu, arrays, lambda weight: nn.embedding(ag.tensor(indices, device=gpu), weight, 3))
    assert_same(found, gradients("cpu", arrays, lambda weight: nn.embedding(indices, weight, 3)), dtype)

    rows = nn.embedding(ag.tensor([50, 0, -1], device=gpu), ag.tensor(table, device=gpu)).to("cpu").numpy()
    assert np.isnan(rows).all(axis=1).tolist() == [True, False, True]
