"""Kernels of losses, attention and embeddings: their C, on the host, gives what NumPy's functions give."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.core.engine.device import Device
from asyncgrad.devices.cuda.losses import loss_functions
from asyncgrad.devices.cuda.rows import row_functions
from asyncgrad.errors import IndexRangeError
from tests.devices.host_device import host_device
from tests.devices.host_kernels import BlockCupy, needs_compilers

pytestmark = [pytest.mark.sampled, needs_compilers]

SCORES = np.random.default_rng(0).normal(size=(5, 7))
LABELS = np.array([3, 0, -100, 6, 3])
TOLERANCE = {np.float32: 2e-6, np.float64: 1e-13}


@pytest.fixture(scope="module")
def cupy() -> BlockCupy:
    return BlockCupy()


@pytest.fixture(scope="module")
def functions(cupy: BlockCupy) -> dict[Any, Callable[..., Any]]:
    return {**row_functions(cupy), **loss_functions(cupy)}


@pytest.fixture
def device(cupy: BlockCupy, functions: dict[Any, Callable[..., Any]]) -> Iterator[Device]:
    """Return a device that has the kernels; the list of those launched is empty."""
    for module in cupy.modules:
        module.launched.clear()
    with host_device(functions=functions) as made:
        yield made


def host(tensor: Any) -> Any:
    return tensor.to("cpu").numpy()


def assert_close(result: Any, expected: Any) -> None:
    result, expected = host(result), host(expected)
    assert result.dtype == expected.dtype
    tolerance = TOLERANCE[expected.dtype.type]
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance, strict=True)


def loss_and_gradient(where: Any, scores: Any, labels: Any, reduction: str) -> tuple[Any, Any]:
    leaf = ag.tensor(scores, device=where, requires_grad=True)
    loss = nn.cross_entropy(leaf, labels, reduction=reduction)
    sync.backward((loss * (1 + ag.tensor(np.arange(loss.size).reshape(loss.shape), device=where))).sum())
    return loss, leaf.grad


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("labels_on", ["host", "device"])
@pytest.mark.parametrize("label_dtype", [np.int64, np.int32])
def test_the_cross_entropy_is_that_of_numpy(
    device: Device, cupy: BlockCupy, dtype: Any, reduction: str, labels_on: str, label_dtype: Any
) -> None:
    scores, labels = SCORES.astype(dtype), LABELS.astype(label_dtype)
    expected = loss_and_gradient("cpu", scores, labels, reduction)
    found = loss_and_gradient(
        device, scores, labels if labels_on == "host" else ag.tensor(labels, device=device), reduction
    )

    for one, right in zip(found, expected, strict=True):
        assert_close(one, right)
    name = "float" if dtype is np.float32 else "double"
    total = [] if reduction == "none" else [f"{reduction}_loss_{name}"]
    assert cupy.launched == [f"cross_entropy_{name}", *total, f"cross_entropy_grad_{name}"]


def test_the_gradient_of_each_loss_may_be_one_number_repeated(device: Device) -> None:
    def gradient(where: Any) -> Any:
        leaf = ag.tensor(SCORES, device=where, requires_grad=True)
        sync.backward(nn.cross_entropy(leaf, LABELS, reduction="none").sum())
        return leaf.grad

    assert_close(gradient(device), gradient("cpu"))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_the_second_derivative_is_that_of_numpy(device: Device, reduction: str) -> None:
    def second(where: Any) -> Any:
        leaf = ag.tensor(SCORES, device=where, requires_grad=True)
        loss = nn.cross_entropy(leaf, LABELS, reduction=reduction)
        (grad,) = sync.grad(loss, leaf, create_graph=True)
        sync.backward((grad * grad * grad).sum())
        return leaf.grad

    assert_close(second(device), second("cpu"))


@pytest.mark.parametrize("row", [[np.inf] + [0.0] * 6, [-np.inf] * 7, [0.0] * 6 + [np.nan], [1e300] * 7])
def test_rows_of_extreme_scores_give_what_numpy_gives(device: Device, row: list[float]) -> None:
    scores = SCORES.copy()
    scores[1] = row
    with np.errstate(invalid="ignore"):
        expected = loss_and_gradient("cpu", scores, LABELS, "none")
        found = loss_and_gradient(device, scores, LABELS, "none")

    for one, right in zip(found, expected, strict=True):
        assert_close(one, right)


@pytest.mark.parametrize("label", [7, -1])
def test_a_label_on_the_device_that_is_no_class_makes_its_loss_and_gradient_nan(device: Device, label: int) -> None:
    labels = ag.tensor(np.array([3, 0, -100, label, 3]), device=device)
    losses, gradient = loss_and_gradient(device, SCORES, labels, "none")

    assert np.isnan(host(losses)).tolist() == [False, False, False, True, False]
    assert np.isnan(host(gradient)).all(axis=1).tolist() == [False, False, False, True, False]
    assert np.isnan(host(nn.cross_entropy(ag.tensor(SCORES, device=device), labels)))


def test_a_label_on_the_host_that_is_no_class_is_an_error(device: Device) -> None:
    with pytest.raises(IndexRangeError, match="got label 7, but there are 7 classes"):
        nn.cross_entropy(ag.tensor(SCORES, device=device), np.array([3, 0, -100, 7, 3]))


def test_a_mean_without_a_label_is_nan_and_its_gradient_zero(device: Device) -> None:
    loss, gradient = loss_and_gradient(device, SCORES, ag.tensor(np.full(5, -100), device=device), "mean")

    assert np.isnan(host(loss))
    assert not host(gradient).any()


@pytest.mark.parametrize("shape", [(7,), (2, 7, 3)])
def test_scores_of_other_shapes_give_what_numpy_gives(device: Device, shape: tuple[int, ...]) -> None:
    scores = np.random.default_rng(1).normal(size=shape)
    labels = np.arange(6).reshape(2, 3) if len(shape) == 3 else np.array(4)
    expected = loss_and_gradient("cpu", scores, labels, "mean")

    for one, right in zip(loss_and_gradient(device, scores, labels, "mean"), expected, strict=True):
        assert_close(one, right)


def attended(where: Any, dtype: Any, mask: Any, leading: tuple[int, ...]) -> list[Any]:
    """Return the attention of random arrays, and its gradients."""
    rng = np.random.default_rng(2)
    leaves = [
        ag.tensor(rng.normal(size=(*leading, length, 4)).astype(dtype), device=where, requires_grad=True)
        for length in (3, 5, 5)
    ]
    on_device = None if mask is None or isinstance(mask, str) else ag.tensor(mask, device=where)
    result = nn.scaled_dot_product_attention(*leaves, on_device, is_causal=isinstance(mask, str))  # type: ignore[call-overload]
    sync.backward((result * result).sum())
    return [result, *(leaf.grad for leaf in leaves)]


TRUTHS = np.arange(15).reshape(3, 5) % 3 != 1
TRUTHS[1] = False
MASKS: dict[str, Callable[[Any], Any]] = {
    "none": lambda dtype: None,
    "causal": lambda dtype: "causal",
    "truth values": lambda dtype: TRUTHS,
    "truth values of each source": lambda dtype: TRUTHS[:1],
    "numbers": lambda dtype: np.linspace(-1, 1, 15).reshape(3, 5).astype(dtype),
    "minus infinities": lambda dtype: np.where(TRUTHS, 0, -np.inf).astype(dtype),
    "of each batch": lambda dtype: np.linspace(-1, 1, 10).reshape(2, 1, 1, 5).astype(dtype),
}
LAUNCHED = {"none": "softmax", "causal": "softmax_causal", "truth": "softmax_where"}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("leading", [(), (2,), (2, 3)])
@pytest.mark.parametrize("name", MASKS)
def test_attention_is_that_of_numpy_in_one_kernel_for_the_softmax(
    device: Device, cupy: BlockCupy, dtype: Any, leading: tuple[int, ...], name: str
) -> None:
    mask = MASKS[name](dtype)
    if name == "of each batch" and len(leading) != 2:
        mask = mask[0, 0, :, :]
    found, expected = attended(device, dtype, mask, leading), attended("cpu", dtype, mask, leading)

    for one, right in zip(found, expected, strict=True):
        assert_close(one, right)
    suffix = "float" if dtype is np.float32 else "double"
    kernel = LAUNCHED.get(name.split()[0], "softmax_plus")
    assert sorted(cupy.launched) == sorted([f"{kernel}_{suffix}", f"softmax_grad_{suffix}"])


@pytest.mark.parametrize("mask", [np.ones((3, 5)), TRUTHS])
def test_scores_that_there_is_no_kernel_for_are_masked_as_numpy_does(device: Device, mask: Any) -> None:
    leading = (1, 2, 1)

    for one, right in zip(
        attended(device, np.float64, mask, leading), attended("cpu", np.float64, mask, leading), strict=True
    ):
        assert_close(one, right)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_mse_loss_is_that_of_numpy(device: Device, reduction: str) -> None:
    def results(where: Any) -> tuple[Any, Any]:
        leaf = ag.tensor(SCORES, device=where, requires_grad=True)
        loss = nn.mse_loss(leaf, ag.tensor(SCORES[::-1].copy(), device=where), reduction)
        sync.backward(loss.sum())
        return loss, leaf.grad

    for one, right in zip(results(device), results("cpu"), strict=True):
        assert_close(one, right)


@pytest.mark.parametrize("shape", [(7,), (5, 7), (2, 3, 7)])
@pytest.mark.parametrize("has_bias", [True, False])
def test_linear_is_that_of_numpy(device: Device, shape: tuple[int, ...], has_bias: bool) -> None:
    def results(where: Any) -> list[Any]:
        rng = np.random.default_rng(3)
        x, weight, bias = (
            ag.tensor(rng.normal(size=one), device=where, requires_grad=True) for one in (shape, (4, 7), (4,))
        )
        y = nn.linear(x, weight, bias if has_bias else None)
        sync.backward((y * y).sum())
        return [y, x.grad, weight.grad, *([bias.grad] if has_bias else [])]

    for one, right in zip(results(device), results("cpu"), strict=True):
        assert_close(one, right)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index_dtype", [np.int64, np.int32, np.uint8])
def test_an_embedding_is_that_of_numpy_in_one_kernel(
    device: Device, cupy: BlockCupy, dtype: Any, index_dtype: Any
) -> None:
    def results(where: Any) -> list[Any]:
        table = ag.tensor(SCORES.astype(dtype), device=where, requires_grad=True)
        rows = nn.embedding(ag.tensor(np.array([[4, 0, 4], [1, 2, 0]], index_dtype), device=where), table, 2)
        sync.backward((rows * rows).sum())
        return [rows, table.grad]

    for one, right in zip(results(device), results("cpu"), strict=True):
        assert_close(one, right)
    assert cupy.launched == ["rows_at_float" if dtype is np.float32 else "rows_at_double"]


def test_the_row_at_an_index_that_there_is_not_is_nan(device: Device) -> None:
    rows = nn.embedding(ag.tensor(np.array([5, 0, -1]), device=device), ag.tensor(SCORES, device=device))

    assert np.isnan(host(rows)).all(axis=1).tolist() == [True, False, True]
    np.testing.assert_array_equal(host(rows)[1], SCORES[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(7,), (2, 3, 7)])
@pytest.mark.parametrize("affine", ["neither", "weight", "bias", "both"])
def test_layer_norm_and_its_gradient_are_those_of_numpy_by_one_kernel_each(
    device: Device, cupy: BlockCupy, dtype: Any, shape: tuple[int, ...], affine: str
) -> None:
    rng = np.random.default_rng(1)
    x, weight, bias = (rng.normal(size=one).astype(dtype) for one in (shape, 7, 7))

    def results(where: Any) -> list[Any]:
        leaf = ag.tensor(x, device=where, requires_grad=True)
        given = {"weight": weight, "bias": bias}
        chosen = {
            name: ag.tensor(one, device=where, requires_grad=True)
            for name, one in given.items()
            if affine in (name, "both")
        }
        out = nn.layer_norm(leaf, 7, chosen.get("weight"), chosen.get("bias"))
        sync.backward(out, ag.tensor(x[..., ::-1].copy(), device=where))
        return [out, leaf.grad, *(one.grad for one in chosen.values())]

    for found, right in zip(results(device), results("cpu"), strict=True):
        tolerance = 10 * TOLERANCE[dtype]
        np.testing.assert_allclose(host(found.detach()), host(right.detach()), rtol=tolerance, atol=tolerance)
    name = "float" if dtype is np.float32 else "double"
    launched = [f"layer_norm_{name}", f"standardize_grad_{name}"]
    assert sorted(cupy.launched) == sorted([*launched, *([f"weight_grad_{name}"] * (affine in ("weight", "both")))])
