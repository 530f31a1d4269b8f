"""Numbers without axes, empty batches, options of NumPy, writes in place: as in PyTorch, and in every function."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.errors import ArgumentError, ArgumentTypeError, ChangedTensorError, InPlaceError
from tests.nn.cases import CALLS

X = np.array([-2.0, -0.4, 0.3, 1.5, 7.0])

#: By name, the options of a function that may write into its argument.
IN_PLACE: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("relu", "relu6", "selu", "silu", "mish", "hardsigmoid", "hardswish", "dropout", "rrelu"), ()),
    "leaky_relu": (0.3,),
    "elu": (0.7,),
    "celu": (0.7,),
    "hardtanh": (-1.0, 2.0),
    "threshold": (0.5, -3.0),
}


def call(name: str, x: Any, **options: Any) -> Any:
    if name == "dropout":
        options["rng"] = np.random.default_rng(1)
    return getattr(nn, name)(x, *IN_PLACE[name], **options)


@pytest.mark.parametrize("name", IN_PLACE)
def test_a_result_in_place_is_x_itself_with_the_gradient_of_the_result(name: str) -> None:
    x, same = ag.tensor(X, requires_grad=True), ag.tensor(X, requires_grad=True)
    hidden = x * 1
    written = call(name, hidden, inplace=True)
    (grad,) = sync.grad((written * written).sum(), [x])
    result = call(name, same * 1)
    (expected,) = sync.grad((result * result).sum(), [same])

    assert written is hidden
    np.testing.assert_array_equal(hidden.detach().numpy(), result.detach().numpy())
    np.testing.assert_array_equal(grad.numpy(), expected.numpy())


@pytest.mark.parametrize("name", IN_PLACE)
def test_an_array_is_written_in_place_too(name: str) -> None:
    array = X.copy()

    assert call(name, array, inplace=True) is array
    np.testing.assert_array_equal(array, call(name, X))
    assert call(name, X.copy(), inplace=False) is not X


def test_a_write_in_place_is_seen_by_those_who_saved_what_was_there() -> None:
    x = ag.tensor(X, requires_grad=True)
    hidden = x * 1
    square = hidden * hidden
    nn.relu(hidden, inplace=True)

    with pytest.raises(ChangedTensorError):
        sync.backward(square.sum())
    with pytest.raises(InPlaceError):
        nn.relu(x, inplace=True)


SOFTMAXES = [nn.softmax, nn.softmin, nn.log_softmax]


@pytest.mark.parametrize("function", SOFTMAXES)
@pytest.mark.parametrize("axis", [0, -1])
def test_softmax_of_a_number_is_that_of_a_row_of_one(function: Callable[..., Any], axis: int) -> None:
    x = ag.tensor(3.0, requires_grad=True)
    result = function(x, axis)
    (grad,) = sync.grad(result, [x], create_graph=True)

    assert result.shape == grad.shape == ()
    assert result.item() == (0.0 if function is nn.log_softmax else 1.0)
    assert grad.item() == 0.0
    assert sync.grad(grad, [x])[0].item() == 0.0


@pytest.mark.parametrize("function", SOFTMAXES)
@pytest.mark.parametrize(("shape", "axis"), [((0,), 0), ((5, 0), -1), ((0, 5), 0), ((5, 0, 0), 1)])
def test_softmax_of_an_empty_array_is_one(function: Callable[..., Any], shape: tuple[int, ...], axis: int) -> None:
    x = ag.tensor(np.zeros(shape), requires_grad=True)
    result = function(x, axis)
    (grad,) = sync.grad(result.sum(), [x])

    assert result.shape == grad.shape == shape


@pytest.mark.parametrize("function", SOFTMAXES)
@pytest.mark.parametrize(("given", "dtype"), [("e", "f"), ("f", "d"), ("d", "f"), ("l", "f")])
def test_softmax_casts_to_a_dtype_before_it_sums(function: Callable[..., Any], given: str, dtype: str) -> None:
    values = np.array([[3.0, -1.0, 2.0]], given)
    x = ag.tensor(values, requires_grad=given != "l")
    result = function(x, dtype=dtype)

    assert result.dtype == dtype
    np.testing.assert_array_equal(result.detach().numpy(), function(values.astype(dtype)))
    if given != "l":
        assert sync.grad(result[0, 0], [x])[0].dtype == given


NORMS: list[Callable[[Any], Any]] = [
    lambda x: nn.batch_norm(x, None, None, np.ones(3), np.ones(3), training=True),
    lambda x: nn.batch_norm(x, np.zeros(3), np.ones(3), np.ones(3), np.ones(3)),
    lambda x: nn.instance_norm(x, weight=np.ones(3)),
    lambda x: nn.group_norm(x, 3, np.ones(3)),
    lambda x: nn.layer_norm(x, 4, np.ones(4)),
    lambda x: nn.rms_norm(x, 4, np.ones(4)),
    lambda x: nn.normalize(x),
    lambda x: nn.max_pool1d(x, 2),
    lambda x: nn.avg_pool1d(x, 2, ceil_mode=True),
    lambda x: nn.adaptive_avg_pool1d(x, 3),
    lambda x: nn.adaptive_max_pool1d(x, 3),
    lambda x: nn.conv1d(x, np.ones((2, 3, 2))),
    lambda x: nn.conv1d(x, np.ones((2, 3, 3)), stride=2, padding=1),
    lambda x: nn.conv_transpose1d(x, np.ones((3, 2, 2)), stride=2),
    lambda x: nn.conv_transpose1d(x, np.ones((3, 2, 3)), stride=2, padding=1),
    lambda x: nn.max_pool3d(x[..., np.newaxis, np.newaxis], (2, 1, 1), return_indices=True)[0],
    lambda x: nn.interpolate(x, 7, mode="linear"),
    lambda x: nn.interpolate(x, 7, mode="area"),
    lambda x: nn.interpolate(x, scale_factor=0.5),
    lambda x: nn.pad(x, (1, 2), "reflect"),
]


@pytest.mark.parametrize("function", NORMS)
def test_a_batch_of_no_examples_has_a_result_and_a_gradient_of_none(function: Callable[[Any], Any]) -> None:
    whole = function(np.ones((2, 3, 4)) * np.arange(4.0))
    x = ag.tensor(np.zeros((0, 3, 4)), requires_grad=True)
    result = function(x)
    (grad,) = sync.grad(result.sum(), [x])

    assert result.shape == (0, *np.shape(whole)[1:])
    assert grad.shape == (0, 3, 4)


def test_running_statistics_are_not_moved_by_no_examples() -> None:
    norm = nn.BatchNorm1d(3)
    norm(np.zeros((0, 3, 4)))

    assert norm.running_mean is not None
    assert norm.running_mean.numpy().tolist() == [0.0, 0.0, 0.0]
    assert norm.num_batches_tracked is not None
    assert norm.num_batches_tracked.item() == 1


def test_numbers_are_vectors_of_one_element() -> None:
    x = ag.tensor(-3.0, requires_grad=True)
    cosine = nn.cosine_similarity(x, np.array(5.0), 0)
    unit = nn.normalize(x, axis=0)

    assert (cosine.item(), unit.item()) == (-1.0, -1.0)
    assert abs(sync.grad(cosine + unit, [x])[0].item()) < 1e-15
    assert nn.multi_margin_loss(np.array(3.0), np.array(0)) == 0.0
    assert nn.pairwise_distance(x, np.array(1.0), eps=0.0, keepdims=True).item() == 4.0
    assert nn.normalize(np.array([[3.0, 0.0], [0.0, 4.0]]), axis=None).tolist() == [[0.6, 0.0], [0.0, 0.8]]


#: What is called with an option of a type of NumPy's, and float32 numbers.
OPTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "leaky_relu": lambda x, o: nn.leaky_relu(x, o),
    "elu": lambda x, o: nn.elu(x, o),
    "celu": lambda x, o: nn.celu(x, o),
    "softplus": lambda x, o: nn.softplus(x, o, o),
    "hardtanh": lambda x, o: nn.hardtanh(x, -o, o),
    "hardshrink": lambda x, o: nn.hardshrink(x, o),
    "softshrink": lambda x, o: nn.softshrink(x, o),
    "threshold": lambda x, o: nn.threshold(x, o, o),
    "huber_loss": lambda x, o: nn.huber_loss(x, x, delta=o),
    "smooth_l1_loss": lambda x, o: nn.smooth_l1_loss(x, x, beta=o),
    "hinge_embedding_loss": lambda x, o: nn.hinge_embedding_loss(x, np.sign(x), o),
    "margin_ranking_loss": lambda x, o: nn.margin_ranking_loss(x, x, np.sign(x), o),
    "triplet_margin_loss": lambda x, o: nn.triplet_margin_loss(x, x, x, o, o, o),
    "gaussian_nll_loss": lambda x, o: nn.gaussian_nll_loss(x, x, x * x, eps=o),
    "layer_norm": lambda x, o: nn.layer_norm(x, 3, eps=o),
    "rms_norm": lambda x, o: nn.rms_norm(x, 3, eps=o),
    "group_norm": lambda x, o: nn.group_norm(x, 1, eps=o),
    "batch_norm": lambda x, o: nn.batch_norm(x, None, None, training=True, momentum=o, eps=o),
    "normalize": lambda x, o: nn.normalize(x, o, eps=o),
    "cosine_similarity": lambda x, o: nn.cosine_similarity(x, x, eps=o),
    "pairwise_distance": lambda x, o: nn.pairwise_distance(x, x, o, o),
    "cross_entropy": lambda x, o: nn.cross_entropy(x, np.array([0, 1]), label_smoothing=o),
    "attention": lambda x, o: nn.scaled_dot_product_attention(x, x, x, scale=o),
    "dropout": lambda x, o: nn.dropout(x, o),
    "interpolate": lambda x, o: nn.interpolate(x[None], scale_factor=o, mode="linear"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_of_float64_does_not_make_a_result_of_float32_one(name: str) -> None:
    x = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]], np.float32)
    result = OPTIONS[name](x, np.float64(0.5))

    assert np.asarray(result).dtype == np.float32
    if name != "dropout":
        np.testing.assert_array_equal(result, OPTIONS[name](x, 0.5))


#: Losses of float32 scores and whole numbers.
OF_WHOLE_TARGETS: dict[str, Callable[[Any, Any], Any]] = {
    name: (lambda x, y, name=name: getattr(nn, name)(x, y))
    for name in (
        *("mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss", "binary_cross_entropy_with_logits", "kl_div"),
        *("soft_margin_loss", "hinge_embedding_loss", "poisson_nll_loss", "multilabel_soft_margin_loss"),
    )
} | {
    "binary_cross_entropy": lambda x, y: nn.binary_cross_entropy(nn.sigmoid(x), y),
    "margin_ranking_loss": lambda x, y: nn.margin_ranking_loss(x, -x, y),
    "gaussian_nll_loss": lambda x, y: nn.gaussian_nll_loss(x, y, y + 1),
    "cosine_embedding_loss": lambda x, y: nn.cosine_embedding_loss(x, y, y[:, 0]),
    "pairwise_distance": lambda x, y: nn.pairwise_distance(x, y),
}


@pytest.mark.parametrize("kind", [np.int64, np.bool_])
@pytest.mark.parametrize("name", OF_WHOLE_TARGETS)
def test_a_target_of_whole_numbers_leaves_a_loss_in_the_dtype_of_its_scores(name: str, kind: Any) -> None:
    x = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]], np.float32)
    target = np.array([[1, 0, 1], [0, 0, 1]], kind)
    scores = ag.tensor(x, requires_grad=True)
    result = OF_WHOLE_TARGETS[name](scores, ag.tensor(target))
    (grad,) = sync.grad(result.sum(), [scores])
    expected = OF_WHOLE_TARGETS[name](x.astype(np.float64), target.astype(np.float64))

    assert result.dtype == grad.dtype == np.float32
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-6)


LARGE = np.array([[300.0, -400.0, 500.0, 200.0]])
NORMS_OF_LARGE: dict[str, Callable[[Any], Any]] = {
    "layer_norm": lambda x: nn.layer_norm(x, 4),
    "rms_norm": lambda x: nn.rms_norm(x, 4),
    "group_norm": lambda x: nn.group_norm(x, 2),
    "batch_norm": lambda x: nn.batch_norm(x.reshape(4, 1), None, None, training=True),
    "instance_norm": lambda x: nn.instance_norm(x.reshape(1, 1, 4)),
    "normalize": lambda x: nn.normalize(x),
    "cosine_similarity": lambda x: nn.cosine_similarity(x, x + 1),
    "pairwise_distance": lambda x: nn.pairwise_distance(x, 0 * x),
}


@pytest.mark.parametrize("make", [np.asarray, ag.tensor], ids=["array", "tensor"])
@pytest.mark.parametrize("name", NORMS_OF_LARGE)
def test_squares_of_float16_do_not_overflow(name: str, make: Callable[[Any], Any]) -> None:
    result = np.asarray(NORMS_OF_LARGE[name](make(LARGE.astype(np.float16))))

    assert result.dtype == np.float16
    np.testing.assert_allclose(result, NORMS_OF_LARGE[name](LARGE), rtol=2e-3)


def test_a_row_of_ignored_labels_has_no_gradient_with_label_smoothing() -> None:
    scores = ag.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    loss = nn.cross_entropy(scores, np.array([-100]), label_smoothing=0.1)

    assert math.isnan(loss.item())
    assert sync.grad(loss, [scores])[0].numpy().tolist() == [[0.0, 0.0, 0.0]]


def test_a_mean_over_no_labels_has_second_derivatives_of_0() -> None:
    scores = ag.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    (grad,) = sync.grad(nn.cross_entropy(scores, np.array([-100])), [scores], create_graph=True)

    assert sync.grad(grad.sum(), [scores])[0].numpy().tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize(
    ("function", "shape", "sizes"),
    [
        (nn.adaptive_avg_pool1d, (2, 0, 6), (3,)),
        (nn.adaptive_avg_pool2d, (0, 6, 6), (3, 2)),
        (nn.adaptive_max_pool1d, (0, 6), (3,)),
        (nn.adaptive_max_pool2d, (0, 6, 5), (3, 2)),
        (nn.adaptive_max_pool3d, (0, 6, 6, 6), (3, 2, 4)),
    ],
)
def test_images_without_a_channel_are_pooled_to_none(
    function: Callable[..., Any], shape: tuple[int, ...], sizes: tuple[int, ...]
) -> None:
    x = ag.tensor(np.zeros(shape), requires_grad=True)
    result = function(x, sizes)

    assert result.shape == (*shape[: -len(sizes)], *sizes)
    assert sync.grad(result.sum(), [x])[0].shape == shape


def test_positions_of_no_maxima_are_none() -> None:
    maxima, positions = nn.adaptive_max_pool3d(np.zeros((0, 6, 6, 6)), (3, 2, 4), return_indices=True)

    assert maxima.shape == positions.shape == (0, 3, 2, 4)
    assert positions.dtype == np.int64


@pytest.mark.parametrize("name", ["sigmoid", "tanh"])
def test_a_text_is_refused_by_the_name_of_the_function(name: str) -> None:
    with pytest.raises(ag.errors.ArgumentTypeError, match=rf"nn\.{name} takes numbers, and x is of dtype <U1"):
        getattr(nn, name)("a")


def test_cosine_similarity_of_vectors_whose_norm_overflows_is_0_with_a_gradient_of_0() -> None:
    x = ag.tensor([[1e200, 2e200]], requires_grad=True)
    with np.errstate(over="ignore"):
        result = nn.cosine_similarity(x, np.array([[1e200, 1e200]]))
        (grad,) = sync.grad(result.sum(), [x])

    assert result.tolist() == [0.0]
    assert grad.tolist() == [[0.0, 0.0]]


def test_gaussian_nll_loss_takes_one_variance_as_a_number_alone() -> None:
    x = np.zeros((3, 4))

    assert nn.gaussian_nll_loss(x, x, 1.0) == nn.gaussian_nll_loss(x, x, np.float32(1.0)) == 0
    for var in (np.array(1.0), ag.tensor(1.0)):
        with pytest.raises(ArgumentError, match="takes variances of that shape"):
            nn.gaussian_nll_loss(x, x, var)


@pytest.mark.parametrize("name", ["adaptive_avg_pool1d", "adaptive_max_pool2d", "adaptive_avg_pool3d"])
def test_adaptive_pooling_into_more_windows_than_memory_holds_is_refused_at_once(name: str) -> None:
    with pytest.raises(ArgumentError, match="no memory for a result"):
        getattr(nn, name)(np.ones((1, 1, *[3] * int(name[-2]))), 2**62)


@pytest.mark.parametrize("p", [0, 1, 2, 3, math.inf, -math.inf])
def test_normalize_takes_a_norm_of_several_axes_as_one_of_a_vector(p: float) -> None:
    x = np.array([[[0.5, -2.0], [3.0, 0.25]], [[1.0, 4.0], [-1.5, 0.75]]])
    both = ag.tensor(x, requires_grad=True)
    flat = ag.tensor(x.transpose(1, 0, 2).reshape(2, 4), requires_grad=True)
    result, expected = nn.normalize(both, p, [0, -1]), nn.normalize(flat, p, 1)
    weights = np.arange(8.0).reshape(2, 2, 2)
    (grad,) = sync.grad((result * weights).sum(), [both])
    (expected_grad,) = sync.grad((expected * weights.transpose(1, 0, 2).reshape(2, 4)).sum(), [flat])

    for found, wanted in ((result, expected), (grad, expected_grad)):
        np.testing.assert_allclose(found.numpy().transpose(1, 0, 2).reshape(2, 4), wanted.numpy(), rtol=1e-14)
    np.testing.assert_array_equal(nn.normalize(x, p, ()), nn.normalize(x, p, None))


def test_a_derivative_of_0_is_0_beside_what_is_not_finite() -> None:
    x = ag.tensor([[np.nan, 2.0, 4.0]], requires_grad=True)
    image, grid = np.full((1, 1, 2, 2), np.inf), ag.tensor(np.zeros((1, 1, 1, 2)), requires_grad=True)

    assert sync.grad(nn.normalize(x, 0)[0, 1], [x])[0].tolist() == [[0.0, 1 / 3, 0.0]]
    assert sync.grad(nn.grid_sample(image, grid, "nearest").sum(), [grid])[0].tolist() == [[[[0.0, 0.0]]]]


def test_points_of_images_without_channels_are_none() -> None:
    assert nn.grid_sample(np.zeros((2, 0, 3, 3)), np.zeros((2, 4, 5, 2))).shape == (2, 0, 4, 5)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_the_label_of_one_sample_may_have_an_axis(reduction: str) -> None:
    scores, label = np.array([-1.0, -2.0, -0.5]), np.array(1)

    for loss in (nn.nll_loss, nn.cross_entropy):
        found = loss(scores, label.reshape(1), reduction=reduction)
        assert np.shape(found) == ()
        assert found == loss(scores, label, reduction=reduction)
    found = nn.multi_margin_loss(scores.reshape(1, 3), label, reduction=reduction)
    assert np.shape(found) == ()
    assert found == nn.multi_margin_loss(scores, label, reduction=reduction)


def test_numbers_are_scattered_as_rows_of_one_element() -> None:
    src = ag.tensor(3.0, requires_grad=True)
    result = nn.scatter_reduce(np.array(2.0), 0, np.array([0]), src, "prod")

    assert result.item() == 6.0
    assert sync.grad(result, [src])[0].item() == 2.0


def test_a_value_of_0_is_none_for_other_modes_of_padding() -> None:
    assert nn.pad(np.array([1.0, 2.0]), (1, 0), "reflect", 0).tolist() == [2.0, 1.0, 2.0]


LISTED = {call.function.__name__: call for call in CALLS}


@pytest.mark.filterwarnings("ignore:.*broadcasts an input")
def test_lists_are_taken_for_arrays_by_functions() -> None:
    def listed(value: Any) -> Any:
        return value.tolist() if isinstance(value, np.ndarray) else value

    def computed(function: Any, args: Any, options: Any) -> Any:
        result = function(*args, **options)
        return result[0] if isinstance(result, tuple) else result

    for name, (function, case, *_) in LISTED.items():
        expected = computed(function, case.args, case.kwargs)
        np.testing.assert_array_equal(computed(function, map(listed, case.args), case.kwargs), expected, name)


@pytest.mark.parametrize("name", ["logsigmoid", "softmin"])
def test_truth_values_without_a_negative_are_numbers(name: str) -> None:
    x = np.array([[True, False, True]])

    np.testing.assert_array_equal(getattr(nn, name)(x), getattr(nn, name)(x * 1.0))
    assert nn.max_pool1d(x[np.newaxis], 2, padding=1).tolist() == [[[True, True]]]
    assert nn.multilabel_soft_margin_loss(x, x) == nn.multilabel_soft_margin_loss(x * 1.0, x)


@pytest.mark.parametrize("shape", [(3, 4), (4,)])
def test_the_slope_of_a_recurrent_relu_at_nan_is_1_as_that_of_relu(shape: tuple[int, ...]) -> None:
    cell = nn.RNNCell(4, 2, nonlinearity="relu")
    layer = nn.RNN(4, 2, nonlinearity="relu")
    layer.load_state_dict({f"{path}_l0": tensor for path, tensor in cell.state_dict().items()})
    x = ag.tensor(np.full(shape, np.nan), requires_grad=True)
    (grad,) = sync.grad(cell(x).sum(), [x])
    (of_layer,) = sync.grad(layer(x.reshape(1, *shape))[0].sum(), [x])

    expected = np.broadcast_to(cell.weight_ih.detach().numpy().sum(axis=0), shape)
    np.testing.assert_allclose(grad.numpy(), expected)
    np.testing.assert_allclose(of_layer.numpy(), expected)


def test_sequences_without_an_element_attend_to_nothing() -> None:
    empty = ag.tensor(np.zeros((2, 0, 4)), requires_grad=True)
    result = nn.scaled_dot_product_attention(empty, empty, empty, is_causal=True)

    assert result.shape == (2, 0, 4)
    assert sync.grad(result.sum(), [empty])[0].shape == (2, 0, 4)
    assert nn.TransformerEncoderLayer(4, 2, 8)(np.zeros((0, 3, 4))).shape == (0, 3, 4)


def test_an_axis_of_no_samples_is_split_by_minus_1() -> None:
    assert nn.Unflatten(1, (1, -1))(np.zeros((0, 3))).shape == (0, 1, 3)


def _images(*shape: int) -> ag.Tensor:
    return ag.tensor(np.random.default_rng(0).standard_normal(shape))


#: By name, a call with a size as its option.
SIZES: dict[str, Callable[[Any], Any]] = {
    "conv1d": lambda size: nn.conv1d(_images(1, 2, 6), _images(4, 2, 3), padding=size),
    "conv2d": lambda size: nn.conv2d(_images(1, 2, 6, 6), _images(4, 2, 3, 3), padding=size),
    "conv3d": lambda size: nn.conv3d(_images(1, 2, 6, 6, 6), _images(4, 2, 3, 3, 3), padding=size),
    "max_pool2d": lambda size: nn.max_pool2d(_images(1, 2, 6, 6), size),
    "adaptive_avg_pool2d": lambda size: nn.adaptive_avg_pool2d(_images(1, 2, 6, 6), size),
    "adaptive_max_pool3d": lambda size: nn.adaptive_max_pool3d(_images(1, 2, 6, 6, 6), size),
    "unfold": lambda size: nn.unfold(_images(1, 2, 6, 6), size),
    "interpolate": lambda size: nn.interpolate(_images(1, 2, 6, 6), size=size),
    "layer_norm": lambda size: nn.layer_norm(_images(2, 2), size),
    "rms_norm": lambda size: nn.rms_norm(_images(2, 2), size),
    "LayerNorm": lambda size: nn.LayerNorm(size),
    "ZeroPad2d": lambda size: nn.ZeroPad2d(size)(_images(1, 2, 6, 6)),
    "Conv2d": lambda size: nn.Conv2d(2, 4, size),
    "Linear": lambda size: nn.Linear(size, 3),
    "one_hot": lambda size: nn.one_hot(np.array([0, 1]), size),
    "group_norm": lambda size: nn.group_norm(_images(2, 4, 3), size),
    "topk": lambda size: nn.topk(_images(2, 4), size),
}


@pytest.mark.parametrize("name", SIZES)
def test_a_size_may_be_a_number_of_numpys(name: str) -> None:
    SIZES[name](np.int64(2))


def _attention(features: Any) -> Any:
    x, weights, bias, last = np.ones((2, 1, 90)), np.ones((270, 90)), np.zeros(270), np.ones((90, 90))
    maps = (weights, bias, None, None, False, 0.0, last, np.zeros(90))
    return nn.multi_head_attention_forward(x, x, x, features, 2, *maps)[0]


#: By name, a call that computes with numbers beyond those of eight bits, and an option for it.
SMALL: dict[str, tuple[Callable[[Any], Any], int]] = {
    "ctc_loss": (lambda n: nn.ctc_loss(-(_images(6, 1, 300) ** 2), np.array([[280, 3]]), [6], [2], blank=n), 1),
    "Embedding": (lambda n: nn.Embedding(300, 2, padding_idx=n).padding_idx, 1),
    "embedding": (lambda n: nn.embedding(np.array([1, 299]), _images(300, 2), padding_idx=n), 1),
    "conv2d": (lambda n: nn.conv2d(_images(1, 1, 200, 4), _images(1, 1, 3, 3), padding=n, dilation=n), 100),
    "max_pool1d": (lambda n: nn.max_pool1d(_images(1, 1, 400), n, n), 100),
    "multi_head": (_attention, 90),
    "topk": (lambda n: nn.topk(_images(2, 300), n).values, 100),
}


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("name", SMALL)
def test_a_number_of_few_bits_counts_as_pythons(name: str, kind: Callable[[int], Any]) -> None:
    call_with, option = SMALL[name]

    assert repr(call_with(kind(option))) == repr(call_with(option))


@pytest.mark.parametrize("make", [np.array, ag.tensor], ids=["array", "tensor"])
@pytest.mark.parametrize("size", [2, [2], [2, 2]], ids=["number", "one", "two"])
@pytest.mark.parametrize("name", SIZES)
def test_a_size_that_is_an_array_is_refused_by_the_name_of_the_option(name: str, size: Any, make: Any) -> None:
    with pytest.raises((ArgumentError, ArgumentTypeError), match=r"\w+ must be an int|takes an? int|: \w+ must be"):
        SIZES[name](make(size))


@pytest.mark.parametrize("name", ["conv2d", "max_pool2d", "adaptive_avg_pool2d", "layer_norm"])
def test_what_to_write_for_a_size_that_is_an_array_is_told(name: str) -> None:
    with pytest.raises((ArgumentError, ArgumentTypeError), match=r": write \w+\.tolist\(\)"):
        SIZES[name](ag.tensor([2, 2]))


@pytest.mark.parametrize("name", SIZES)
def test_true_is_no_size(name: str) -> None:
    with pytest.raises((ArgumentError, ArgumentTypeError), match="must be"):
        SIZES[name](True)
