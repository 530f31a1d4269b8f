"""Infinities, ties, kinks, masks: no overflow, no warning, and PyTorch's choice of subgradient."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.nn.shared.error_function import erfc
from tests.support.versions import is_pytorch

DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])
ACTIVATIONS = [
    *("relu", "leaky_relu", "sigmoid", "tanh", "softplus", "elu", "gelu", "silu"),
    *("relu6", "hardtanh", "hardsigmoid", "hardswish", "hardshrink", "softshrink", "rrelu"),
    *("mish", "selu", "celu", "logsigmoid", "softsign", "tanhshrink"),
]
#: PyTorch too makes 0 * inf, or inf / inf, of these at minus infinity.
NAN_AT_INFINITY = {"gelu", "silu", "hardswish", "mish", "softsign"}
HUGE = [-np.inf, -1e30, -1000.0, -100.0, -1.0, 0.0, 1.0, 100.0, 1000.0, 1e30]


def gradient(function: Callable[[Any], Any], x: np.ndarray) -> np.ndarray:
    tensor = ag.tensor(x, requires_grad=True)
    (grad,) = sync.grad(np.sum(function(tensor)), [tensor])
    array: np.ndarray = grad.numpy()
    return array


@DTYPES
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_of_huge_numbers_are_those_of_pytorch(name: str, dtype: Any) -> None:
    torch = pytest.importorskip("torch")
    values = np.array(HUGE[1:] if name in NAN_AT_INFINITY else HUGE, dtype)
    peer = torch.tensor(values, requires_grad=True)
    expected = getattr(torch.nn.functional, name)(peer)

    np.testing.assert_allclose(getattr(nn, name)(values), expected.detach().numpy(), rtol=2e-6, atol=1e-37)


@DTYPES
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_gradients_of_activations_of_large_numbers_are_those_of_pytorch(name: str, dtype: Any) -> None:
    torch = pytest.importorskip("torch")
    values = np.array([-1000.0, -80.0, -8.0, -0.0, 0.0, 8.0, 80.0, 1000.0], dtype)
    peer = torch.tensor(values, requires_grad=True)
    (expected,) = torch.autograd.grad(getattr(torch.nn.functional, name)(peer).sum(), [peer])

    # PyTorch rounds y * (1 - y), where little is left of 1 - y.
    atol = 1e-13 if dtype is np.float64 else 1e-7
    np.testing.assert_allclose(gradient(getattr(nn, name), values), expected.numpy(), rtol=2e-6, atol=atol)


@pytest.mark.parametrize("name", [name for name in ACTIVATIONS if name.startswith(("hard", "soft", "relu", "rrelu"))])
def test_slopes_at_the_joints_of_lines_are_those_of_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    joints = np.array([-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0, 6.0])
    peer = torch.tensor(joints, requires_grad=True)
    (expected,) = torch.autograd.grad(getattr(torch.nn.functional, name)(peer).sum(), [peer])

    np.testing.assert_allclose(gradient(getattr(nn, name), joints), expected.numpy(), rtol=1e-7)


#: By name: calls a loss of PyTorch's where its slope has two sides, or is cut off.
AT_JOINTS: dict[str, Callable[..., Any]] = {
    "margin_ranking_loss": lambda loss, x: loss(x, 1 - x, np.ones(3), margin=1.0),
    "hinge_embedding_loss": lambda loss, x: loss(x, -np.ones(3), margin=0.5),
    "multi_margin_loss": lambda loss, x: loss(x, np.array(0)),
    "multilabel_margin_loss": lambda loss, x: loss(x, np.array([1, -1, 0])),
    "binary_cross_entropy": lambda loss, x: loss(x, np.array([1.0, 1.0, 0.0])),
    "huber_loss": lambda loss, x: loss(x, np.zeros(3), delta=0.5),
    "smooth_l1_loss": lambda loss, x: loss(x, np.zeros(3), beta=0.5),
    "l1_loss": lambda loss, x: loss(x, np.zeros(3)),
    "cosine_similarity": lambda loss, x: loss(0 * x, np.ones(3), 0),
}


#: Before PyTorch 2.14, the slopes of these at their joints were those of the other side.
SINCE_2_14 = {"margin_ranking_loss", "hinge_embedding_loss"}


@pytest.mark.parametrize("name", AT_JOINTS)
def test_slopes_of_losses_at_their_joints_are_those_of_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    joints = np.array([0.0, 0.5, 1.0])
    if name in SINCE_2_14 and not is_pytorch("2.14"):
        joints += 0.125
    peer = torch.tensor(joints, requires_grad=True)

    def call_pytorch(*args: Any, **kwargs: Any) -> Any:
        tensors = (torch.tensor(arg) if isinstance(arg, np.ndarray) else arg for arg in args)
        return getattr(torch.nn.functional, name)(*tensors, **kwargs)

    (expected,) = torch.autograd.grad(AT_JOINTS[name](call_pytorch, peer).sum(), [peer])

    found = gradient(lambda x: AT_JOINTS[name](getattr(nn, name), x), joints)
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-8)


def test_a_nan_goes_through_relu_forward_and_backward() -> None:
    x = ag.tensor([np.nan, 1.0], requires_grad=True)
    y = nn.relu(x)
    (grad,) = sync.grad(y, [x], np.array([3.0, 4.0]))

    assert np.isnan(y.numpy()[0])
    assert grad.numpy().tolist() == [3.0, 4.0]


def test_relu_has_a_second_derivative_of_zero() -> None:
    x = ag.tensor([-1.0, 2.0], requires_grad=True)
    (grad,) = sync.grad(nn.relu(x).sum(), [x], create_graph=True)
    (second,) = sync.grad(grad.sum(), [x])

    assert second.numpy().tolist() == [0.0, 0.0]


def test_erfc_in_double_precision_is_that_of_the_c_library() -> None:
    x = np.concatenate([np.linspace(-7, 26, 20_001), [0.46875, 4.0, -4.0, 1e-300, np.inf, -np.inf]])
    expected = np.array([math.erfc(value) for value in x])

    # A rounding of the square in the exponential is one of the result as many times over.
    assert np.all(np.abs(erfc(x) - expected) <= expected * 1e-15 * np.maximum(1, np.square(np.clip(x, 0, 30)) / 4))


def test_gelu_in_single_precision_is_good_to_the_last_bits() -> None:
    x = np.linspace(-12, 12, 100_001)

    np.testing.assert_allclose(nn.gelu(x.astype(np.float32)), nn.gelu(x), rtol=0, atol=1e-6)


def test_gelu_in_half_precision_stays_there() -> None:
    x = ag.tensor(np.linspace(-3, 3, 7), dtype=np.float16, requires_grad=True)
    (grad,) = sync.grad(nn.gelu(x).sum(), [x])

    assert {nn.gelu(x).dtype, grad.dtype} == {np.dtype(np.float16)}


@pytest.mark.parametrize("function", [getattr(nn, name) for name in ACTIVATIONS])
def test_integers_are_taken_as_the_numbers_they_are(function: Callable[[Any], Any]) -> None:
    integers = np.arange(-3, 4)

    np.testing.assert_array_equal(function(integers), function(integers.astype(float)))
    np.testing.assert_array_equal(function(ag.tensor(integers)).numpy(), function(integers.astype(float)))


@DTYPES
@pytest.mark.parametrize("function", [nn.softmax, nn.log_softmax])
@pytest.mark.parametrize(
    "row",
    [
        [1e4, 1e4 - 1, -1e4],
        [-1e4, -1e4 - 1, -2e4],
        [1e30, -1e30, 0.0],
        [0.0, -np.inf, 1.0],
        [-np.inf, -np.inf, -np.inf],
        [np.inf, 0.0, 1.0],
        [np.nan, 0.0, 1.0],
        [-100.0, -101.0, -110.0],
    ],
    ids=str,
)
def test_softmax_of_any_row_is_that_of_pytorch(function: Callable[..., Any], row: list[float], dtype: Any) -> None:
    torch = pytest.importorskip("torch")
    x = np.array([row, [1.0, 2.0, 3.0]], dtype)
    expected = getattr(torch.nn.functional, function.__name__)(torch.tensor(x), dim=-1).numpy()

    np.testing.assert_allclose(function(x), expected, rtol=1e-6)


def test_softmax_of_a_row_does_not_depend_on_its_neighbours() -> None:
    rng = np.random.default_rng(0)
    moderate = rng.standard_normal((40, 7)).astype(np.float32)
    huge = moderate + np.float32(1e3) * np.arange(40, dtype=np.float32)[:, np.newaxis]
    rows = np.concatenate([nn.softmax(row[np.newaxis]) for row in huge])

    np.testing.assert_allclose(nn.softmax(huge), rows, rtol=1e-6)


@pytest.mark.parametrize("shape", [(1000, 10), (3, 5000), (64, 128), (0, 4), (4, 1)])
def test_softmax_sums_to_one_in_any_shape(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32) * 30

    np.testing.assert_allclose(nn.softmax(x).sum(axis=-1), np.ones(shape[0]), rtol=1e-6)
    np.testing.assert_allclose(np.exp(nn.log_softmax(x)), nn.softmax(x), rtol=2e-5, atol=1e-7)


@DTYPES
def test_cross_entropy_of_huge_scores_is_exact(dtype: Any) -> None:
    scores = np.array([[1e4, 0.0], [0.0, 1e4], [-1e30, 1e30]], dtype)

    assert nn.cross_entropy(scores, np.array([0, 0, 1]), reduction="none").tolist() == [0.0, 1e4, 0.0]
    assert gradient(lambda x: nn.cross_entropy(x, np.array([0, 0, 1]), reduction="sum"), scores).tolist() == [
        [0.0, 0.0],
        [-1.0, 1.0],
        [0.0, 0.0],
    ]


def test_cross_entropy_is_the_same_for_scores_that_differ_by_a_large_number() -> None:
    scores = np.array([[9.0, 0.0, 2.0]], np.float32)
    labels = np.array([0])

    assert nn.cross_entropy(scores + 4096, labels) == nn.cross_entropy(scores, labels) > 0


@DTYPES
def test_the_gradient_of_cross_entropy_is_the_same_whether_exponentials_are_kept_or_not(
    dtype: Any, monkeypatch
) -> None:
    scores = (np.random.default_rng(0).standard_normal((3, 5, 2)) * 9).astype(dtype)
    labels = np.array([[0, 4], [-100, 2], [1, 1]])

    kept = gradient(lambda x: nn.cross_entropy(x, labels), scores)
    monkeypatch.setattr("asyncgrad.nn.functional.class_losses._MOST_KEPT", 0)
    assert gradient(lambda x: nn.cross_entropy(x, labels), scores).tobytes() == kept.tobytes()


def test_a_masked_class_takes_no_part_in_cross_entropy() -> None:
    scores = np.array([[1.0, 2.0, -np.inf]])

    assert nn.cross_entropy(scores, np.array([0])) == nn.cross_entropy(scores[:, :2], np.array([0]))
    assert gradient(lambda x: nn.cross_entropy(x, np.array([0])), scores)[0, 2] == 0


def test_complex_sigmoids_do_not_overflow() -> None:
    x = ag.tensor(np.array([-1000 + 2j, 1000 + 2j]), requires_grad=True)
    result = nn.sigmoid(x)

    assert result.numpy().tolist() == [0, 1]
    assert sync.grad(result.real.sum(), [x])[0].numpy().tolist() == [0, 0]


def test_an_ignored_label_counts_for_nothing_even_where_its_scores_are_nans() -> None:
    scores = np.array([[1.0, 2.0], [np.nan, np.nan]])
    labels = np.array([0, -100])

    assert nn.cross_entropy(scores, labels) == nn.cross_entropy(scores[:1], labels[:1])
    assert gradient(lambda x: nn.cross_entropy(x, labels), scores)[1].tolist() == [0.0, 0.0]


def test_a_mean_over_no_labels_is_a_nan() -> None:
    assert np.isnan(nn.cross_entropy(np.ones((2, 3)), np.array([-100, -100])))
    assert np.isnan(nn.nll_loss(np.ones((2, 3)), np.array([-100, -100])))
    assert np.isnan(nn.mse_loss(np.ones((0, 3)), np.ones((0, 3))))
    assert np.isnan(nn.cross_entropy(np.ones((0, 3)), np.ones(0, int)))
    assert np.isnan(nn.nll_loss(np.ones((0, 3)), np.ones(0, int)))
    assert nn.cross_entropy(np.ones((0, 3)), np.ones(0, int), reduction="sum") == 0


@DTYPES
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_a_target_that_may_attend_to_nothing_gets_zeros_and_gives_no_gradient(kind: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    query, key, value = (ag.tensor(rng.standard_normal((3, 4)), dtype=dtype, requires_grad=True) for _ in range(3))
    mask: Any = np.array([[True, True, False], [False, False, False], [True, True, True]])
    if kind == "float":
        mask = np.where(mask, 0, -np.inf).astype(dtype)
    output = nn.scaled_dot_product_attention(query, key, value, mask)
    grads = sync.grad(output.sum(), [query, key, value])

    assert output.numpy()[1].tolist() == [0.0] * 4
    assert grads[0].numpy()[1].tolist() == [0.0] * 4
    assert all(np.isfinite(grad.numpy()).all() for grad in grads)


def test_attention_to_huge_scores_does_not_overflow() -> None:
    query = key = np.array([[1e3, 0.0], [0.0, 1e3]], np.float32)
    value = np.array([[1.0], [2.0]], np.float32)

    assert nn.scaled_dot_product_attention(query, key, value).tolist() == [[1.0], [2.0]]


def test_of_equal_elements_the_first_of_its_window_gets_the_gradient() -> None:
    x = np.ones((1, 1, 2, 4))

    assert gradient(lambda x: nn.max_pool2d(x, 2), x).tolist() == [[[[1.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]]]]


def test_overlapping_windows_add_their_gradients() -> None:
    x = np.zeros((1, 1, 3, 3))
    x[0, 0, 1, 1] = 1

    assert gradient(lambda x: nn.max_pool2d(x, 2, stride=1), x)[0, 0, 1, 1] == 4


def test_max_pooling_of_negative_numbers_never_gives_the_padding() -> None:
    x = -np.ones((1, 1, 2, 2))

    assert nn.max_pool2d(x, 2, stride=1, padding=1).max() == -1


def test_max_pooling_of_integers_and_nans() -> None:
    assert nn.max_pool2d(np.arange(4).reshape(1, 2, 2), 2, padding=1).tolist() == [[[0, 1], [2, 3]]]
    assert np.isnan(nn.max_pool2d(np.array([[[1.0, np.nan]]]), (1, 2))).all()


def test_the_maximum_of_a_window_with_nans_is_the_last_of_them() -> None:
    x = np.array([[[np.nan, 5.0, np.nan, 7.0, 1.0, 2.0, 3.0, 4.0]]])
    maxima, positions = nn.max_pool1d(x, 4, return_indices=True)

    assert positions.tolist() == [[[2, 7]]]
    assert np.isnan(maxima[0, 0, 0])
    assert gradient(lambda x: nn.max_pool1d(x, 4), x).tolist() == [[[0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0]]]
    assert nn.adaptive_max_pool1d(x, 3, True)[1].tolist() == [[[2, 2, 7]]]


def test_the_maximum_of_minus_infinities_is_of_the_image_and_not_of_the_padding() -> None:
    x = np.full((1, 1, 2, 3), -np.inf)
    _, positions = nn.max_pool2d(x, 2, padding=1, return_indices=True)

    assert positions.tolist() == [[[[0, 1], [3, 4]]]]
    assert gradient(lambda x: nn.max_pool2d(x, 2, padding=1), x).tolist() == [[[[1.0, 1.0, 0.0], [1.0, 1.0, 0.0]]]]


#: Each gives images of another size, of which an element depends on a few of x.
RESIZED: dict[str, Callable[[Any], Any]] = {
    "adaptive_avg_pool2d": lambda x: nn.adaptive_avg_pool2d(x, (3, 4)),
    "adaptive_avg_pool2d, larger": lambda x: nn.adaptive_avg_pool2d(x, (7, 4)),
    "area": lambda x: nn.interpolate(x, (3, 5), mode="area"),
    "bilinear": lambda x: nn.interpolate(x, (7, 3), mode="bilinear"),
    "bilinear, aligned": lambda x: nn.interpolate(x, (7, 3), mode="bilinear", align_corners=True),
    "bilinear, smooth": lambda x: nn.interpolate(x, (2, 7), mode="bilinear", antialias=True),
    "bicubic": lambda x: nn.interpolate(x, (9, 8), mode="bicubic"),
    "nearest": lambda x: nn.interpolate(x, (6, 9)),
}


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("name", RESIZED)
def test_an_infinite_pixel_is_in_its_own_windows_alone(name: str, number: float) -> None:
    resized, rng = RESIZED[name], np.random.default_rng(0)
    x = rng.standard_normal((1, 1, 5, 6))
    spoiled = x.copy()
    spoiled[0, 0, 4, 5] = number
    with np.errstate(invalid="ignore"):
        result, expected = resized(spoiled), resized(x)
        # What the gradient of each element reaches.
        tensor = ag.tensor(x, requires_grad=True)
        cotangent = np.zeros_like(expected)
        cotangent[0, 0, 1, 1] = number
        (grad,) = sync.grad(resized(tensor), [tensor], cotangent)
    reached = gradient(lambda x: resized(x)[0, 0, 1, 1], x)

    is_changed = ~np.isclose(result, expected, equal_nan=True)
    assert is_changed[0, 0, -1, -1]
    assert not is_changed[0, 0, 0, 0]
    assert np.isfinite(result[~is_changed]).all()
    np.testing.assert_array_equal(np.isfinite(grad.numpy()), reached == 0)


def test_an_infinite_filter_reaches_no_element_by_the_zeros_around_images() -> None:
    x, weight = np.ones((1, 1, 3, 3)), np.ones((1, 1, 3, 3))
    weight[0, 0, 0, 0] = np.inf
    result = nn.conv_transpose2d(x, weight)

    assert np.isinf(result[0, 0, :3, :3]).all()
    assert np.isfinite(result[0, 0, 3:]).all()
    assert np.isfinite(result[0, 0, :, 3:]).all()


def test_an_infinite_variance_is_of_no_density() -> None:
    mean, variance = np.zeros(3), ag.tensor([np.inf, 1.0, 0.0], requires_grad=True)
    losses = nn.gaussian_nll_loss(mean, np.array([5.0, 2.0, 0.0]), variance, eps=0.5, reduction="none")
    (grad,) = sync.grad(losses.sum(), [variance])

    np.testing.assert_allclose(losses.detach().numpy(), [np.inf, 2.0, 0.5 * np.log(0.5)])
    # The derivative of the variance that is raised to 0.5 is that there.
    np.testing.assert_allclose(grad.numpy(), [0.0, 0.5 * (1 - 4), 0.5 / 0.5])


def test_an_infinite_score_of_a_right_label_costs_nothing_less_than_minus_infinity() -> None:
    scores, labels = np.array([[-np.inf, 3.0]]), np.array([[1.0, 0.0]])

    assert nn.multilabel_soft_margin_loss(scores, labels) == np.inf
    assert gradient(lambda x: nn.multilabel_soft_margin_loss(x, labels), np.array([[-40.0, -40.0]]))[0, 1] > 0


def test_l1_loss_has_a_gradient_of_zero_where_there_is_no_difference() -> None:
    assert gradient(lambda x: nn.l1_loss(x, np.array([1.0, 2.0]), "sum"), np.array([1.0, 3.0])).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("rows", [0, 1])
def test_layer_norm_of_constant_or_no_rows_is_zero_or_nothing(rows: int) -> None:
    x = np.full((rows, 4), 1e4, np.float32)

    assert nn.layer_norm(x, 4).tolist() == [[0.0] * 4] * rows
    assert gradient(lambda x: nn.layer_norm(x, 4), x).shape == (rows, 4)


@pytest.mark.parametrize(
    "norm",
    [lambda x: nn.layer_norm(x, 4), lambda x: nn.batch_norm(x, None, None, training=True), lambda x: nn.rms_norm(x, 4)],
    ids=["layer", "batch", "root mean square"],
)
def test_norms_of_no_rows_have_second_derivatives(norm: Callable[[Any], Any]) -> None:
    x, cotangent = (ag.tensor(np.ones((0, 4)), requires_grad=True) for _ in range(2))
    (grad,) = sync.grad(norm(x), [x], [cotangent], create_graph=True)

    assert sync.grad(grad, [x], np.ones((0, 4)))[0].shape == (0, 4)


def test_layer_norm_keeps_small_differences_of_large_numbers() -> None:
    x = np.array([[4096.0, 4097.0, 4098.0, 4099.0]], np.float32)

    np.testing.assert_allclose(nn.layer_norm(x, 4), nn.layer_norm(x.astype(float) - 4096, 4), rtol=1e-6)


def test_a_convolution_of_many_images_is_that_of_each() -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((40, 16, 24, 24)), rng.standard_normal((3, 16, 3, 3))
    one_by_one = np.concatenate([nn.conv2d(image[np.newaxis], weight, padding=1) for image in x])

    np.testing.assert_allclose(nn.conv2d(x, weight, padding=1), one_by_one, rtol=1e-12, atol=1e-12)
