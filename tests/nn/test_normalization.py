"""Normalization of large arrays, which is computed block by block, gives what that of small ones does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.nn.shared import row_blocks

SHAPES = [(5, 6, 4, 50), (3, 6, 7), (2, 6, 700), (1, 6, 4, 4), (9, 6)]
NORMS: dict[str, Callable[..., Any]] = {
    "batch": lambda x, weight, bias: nn.batch_norm(x, None, None, weight, bias, training=True),
    "batch-plain": lambda x, weight, bias: nn.batch_norm(x, None, None, training=True) + weight.sum() * bias.sum(),
    "batch-running": lambda x, weight, bias: nn.batch_norm(x, np.full(6, 0.5), np.full(6, 2.0), weight, bias),
    "group": lambda x, weight, bias: nn.group_norm(x, 3, weight, bias),
    "group-plain": lambda x, weight, bias: nn.group_norm(x, 2) * weight.sum() + bias.sum(),
    "instance": lambda x, weight, bias: nn.instance_norm(x, weight=weight, bias=bias),
    "rms": lambda x, weight, bias: nn.rms_norm(x.swapaxes(1, -1), 6, weight) + bias,
    "layer": lambda x, weight, bias: nn.layer_norm(x.swapaxes(1, -1), 6, weight, bias),
    "layer-plain": lambda x, weight, bias: nn.layer_norm(x.swapaxes(1, -1), 6) * weight + bias,
}
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "rows first": lambda x: x,
    "images last": lambda x: np.moveaxis(np.moveaxis(x, 0, -1).copy(), -1, 0),
    "apart": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
}


def results(norm: Callable[..., Any], data: Any, layout: Callable[[Any], Any]) -> list[Any]:
    """Return the result and its first and second gradients."""
    random = np.random.default_rng(5)
    x = ag.asarray(layout(data), requires_grad=True)
    weight, bias = (ag.tensor(random.normal(size=6), requires_grad=True) for _ in range(2))
    y = norm(x, weight, bias)
    g = ag.asarray(layout(random.normal(size=y.shape)), requires_grad=True)
    plain = sync.grad(y, [x, weight, bias], g, retain_graph=True)
    first = sync.grad(y, [x, weight, bias], g, create_graph=True)
    second = sync.grad([(one * one).sum() for one in first], [x, weight, g])
    return [one.numpy() for one in (y, *plain, *first, *second)]


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("norm", ["batch", "batch-running", "instance"])
def test_the_norm_of_a_small_array_is_that_in_any_layout(norm: str, layout: Callable[[Any], Any]) -> None:
    data = np.random.default_rng(3).normal(3, 2, (3, 6, 2, 5))
    expected = results(NORMS[norm], data, LAYOUTS["rows first"])

    for one, other in zip(results(NORMS[norm], data, layout), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_batch_norm_keeps_the_layout_of_images_that_a_convolution_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_blocks, "LEAST", 0)
    images = LAYOUTS["images last"](np.random.default_rng(3).normal(size=(3, 6, 4, 5)))

    assert nn.batch_norm(images, None, None, training=True).strides == images.strides


@pytest.mark.sampled("norm")
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("block", [300, 4000, 1 << 18])
@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
def test_blocks_give_what_whole_arrays_do(
    norm: Callable[..., Any],
    block: int,
    shape: tuple[int, ...],
    layout: Callable[[Any], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if norm is NORMS["instance"] and len(shape) == 2:
        shape = (9, 6, 2)
    data = np.random.default_rng(3).normal(3, 2, shape)
    expected = results(norm, data, LAYOUTS["rows first"])
    monkeypatch.setattr(row_blocks, "LEAST", 0)
    monkeypatch.setattr(row_blocks, "BLOCK", block)
    found = results(norm, data, layout)

    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("norm", ["group", "layer", "batch"])
def test_the_gradient_of_a_sum_is_that_of_ones_in_memory(norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_blocks, "LEAST", 0)
    random = np.random.default_rng(5)
    leaves = [ag.tensor(random.normal(size=shape), requires_grad=True) for shape in ((3, 6, 50), (6,), (6,))]
    y = NORMS[norm](*leaves)
    broadcast = sync.grad(y.sum(), leaves, retain_graph=True)

    for one, other in zip(broadcast, sync.grad(y, leaves, np.ones(y.shape)), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12, atol=1e-12)


def test_norms_in_blocks_keep_the_settings_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_blocks, "LEAST", 0)
    before = np.getbufsize(), np.geterr()
    nn.group_norm(np.ones((2, 4, 1024)), 2)
    nn.layer_norm(np.ones((2, 1024)), 1024)

    assert (np.getbufsize(), np.geterr()) == before


def test_rows_far_from_zero_are_normalized_in_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_blocks, "LEAST", 0)
    rows = np.random.default_rng(0).normal(1000, 1, (4, 8, 64))
    exact = nn.group_norm(rows, 2)

    np.testing.assert_allclose(nn.group_norm(rows.astype(np.float32), 2), exact, atol=1e-3)
