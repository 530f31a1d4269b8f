"""Layers compute what PyTorch's do from the same parameters, have the same names, and begin with its distributions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.errors import ArgumentError, ArgumentTypeError
from asyncgrad.testing import SimulatedAccelerator


def normal(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape)


#: Of the shape (4, 3), and not the same as normal(4, 3).
OTHER = normal(2, 2, 3).reshape(4, 3)

#: By name: makes a layer from the module `nn`, ours or PyTorch's, and its inputs.
LAYERS: dict[str, tuple[Callable[[Any], Any], tuple[Any, ...]]] = {
    "Linear": (lambda nn: nn.Linear(3, 2), (normal(4, 5, 3),)),
    "Linear without bias": (lambda nn: nn.Linear(3, 2, bias=False), (normal(4, 3),)),
    "Bilinear": (lambda nn: nn.Bilinear(3, 2, 4), (normal(5, 3), normal(5, 2))),
    "Identity": (lambda nn: nn.Identity(3, any="thing"), (normal(4, 3),)),
    "Embedding": (lambda nn: nn.Embedding(5, 3), (np.array([[1, 4], [0, 1]]),)),
    "Embedding with padding": (lambda nn: nn.Embedding(5, 3, padding_idx=-1), (np.array([[1, 4], [0, 1]]),)),
    "Embedding of frequent rows": (
        lambda nn: nn.Embedding(5, 3, -1, scale_grad_by_freq=True),
        (np.array([[1, 4, 1], [0, 1, 4]]),),
    ),
    "Embedding of short rows": (lambda nn: nn.Embedding(5, 3, None, 0.7, 1.0), (np.array([[1, 4], [0, 1]]),)),
    "Flatten": (lambda nn: nn.Flatten(), (normal(2, 3, 4),)),
    "Flatten of a number": (lambda nn: nn.Flatten(0), (normal(),)),
    "Flatten of some axes": (lambda nn: nn.Flatten(0, -2), (normal(2, 3, 4),)),
    "Unflatten": (lambda nn: nn.Unflatten(1, (2, 3)), (normal(2, 6, 4),)),
    "ReLU": (lambda nn: nn.ReLU(), (normal(4, 3),)),
    "LeakyReLU": (lambda nn: nn.LeakyReLU(0.2), (normal(4, 3),)),
    "ELU": (lambda nn: nn.ELU(0.7), (normal(4, 3),)),
    "GELU": (lambda nn: nn.GELU("tanh"), (normal(4, 3),)),
    "SiLU": (lambda nn: nn.SiLU(), (normal(4, 3),)),
    "Sigmoid": (lambda nn: nn.Sigmoid(), (normal(4, 3),)),
    "Tanh": (lambda nn: nn.Tanh(), (normal(4, 3),)),
    "Softplus": (lambda nn: nn.Softplus(2.0, 1.0), (normal(4, 3),)),
    "Softmax": (lambda nn: nn.Softmax(dim=0), (normal(4, 3),)),
    "LogSoftmax": (lambda nn: nn.LogSoftmax(dim=1), (normal(4, 3),)),
    "ReLU6": (lambda nn: nn.ReLU6(), (4 * normal(4, 3),)),
    "Hardtanh": (lambda nn: nn.Hardtanh(-0.5, 0.3), (normal(4, 3),)),
    "Hardsigmoid": (lambda nn: nn.Hardsigmoid(), (10 * normal(4, 3),)),
    "Hardswish": (lambda nn: nn.Hardswish(), (4 * normal(4, 3),)),
    "Hardshrink": (lambda nn: nn.Hardshrink(0.3), (normal(4, 3),)),
    "Softshrink": (lambda nn: nn.Softshrink(0.3), (normal(4, 3),)),
    "Threshold": (lambda nn: nn.Threshold(0.1, 20.0), (normal(4, 3),)),
    "Mish": (lambda nn: nn.Mish(), (normal(4, 3),)),
    "SELU": (lambda nn: nn.SELU(), (normal(4, 3),)),
    "CELU": (lambda nn: nn.CELU(0.5), (normal(4, 3),)),
    "GLU": (lambda nn: nn.GLU(0), (normal(4, 3),)),
    "LogSigmoid": (lambda nn: nn.LogSigmoid(), (normal(4, 3),)),
    "Softsign": (lambda nn: nn.Softsign(), (normal(4, 3),)),
    "Tanhshrink": (lambda nn: nn.Tanhshrink(), (normal(4, 3),)),
    "Softmin": (lambda nn: nn.Softmin(dim=0), (normal(4, 3),)),
    "Softmax2d": (lambda nn: nn.Softmax2d(), (normal(2, 3, 4, 2),)),
    "PReLU": (lambda nn: nn.PReLU(), (normal(4, 3),)),
    "PReLU of channels": (lambda nn: nn.PReLU(3, 0.1), (normal(4, 3, 2),)),
    "RReLU of one slope": (lambda nn: nn.RReLU(0.3, 0.3), (normal(4, 3),)),
    "MaxPool2d": (lambda nn: nn.MaxPool2d(2, padding=1), (normal(2, 3, 5, 6),)),
    "AvgPool2d": (lambda nn: nn.AvgPool2d((2, 3), stride=1), (normal(2, 3, 5, 6),)),
    "Dropout of 0": (lambda nn: nn.Dropout(0.0), (normal(4, 3),)),
    "MSELoss": (lambda nn: nn.MSELoss(), (normal(4, 3), OTHER)),
    "L1Loss": (lambda nn: nn.L1Loss(reduction="sum"), (normal(4, 3), OTHER)),
    "CrossEntropyLoss": (lambda nn: nn.CrossEntropyLoss(label_smoothing=0.1), (normal(4, 3), np.array([0, 2, 1, 1]))),
    "NLLLoss": (lambda nn: nn.NLLLoss(ignore_index=1), (normal(4, 3), np.array([0, 2, 1, 1]))),
    "BCEWithLogitsLoss": (lambda nn: nn.BCEWithLogitsLoss(), (normal(4, 3), OTHER > 0)),
    "SmoothL1Loss": (lambda nn: nn.SmoothL1Loss(beta=0.5), (normal(4, 3), OTHER)),
    "HuberLoss": (lambda nn: nn.HuberLoss("sum", 0.5), (normal(4, 3), OTHER)),
    "KLDivLoss": (lambda nn: nn.KLDivLoss(reduction="batchmean", log_target=True), (normal(4, 3), OTHER)),
    "BCELoss": (lambda nn: nn.BCELoss(), (abs(OTHER) % 1, abs(normal(4, 3)) % 1)),
    "SoftMarginLoss": (lambda nn: nn.SoftMarginLoss(), (normal(4, 3), np.sign(OTHER).astype(int))),
    "PoissonNLLLoss": (lambda nn: nn.PoissonNLLLoss(log_input=False), (abs(normal(4, 3)), abs(OTHER))),
    "GaussianNLLLoss": (lambda nn: nn.GaussianNLLLoss(full=True), (normal(4, 3), OTHER, abs(normal(4, 1)))),
    "HingeEmbeddingLoss": (lambda nn: nn.HingeEmbeddingLoss(0.5), (abs(normal(4, 3)), OTHER > 0)),
    "MarginRankingLoss": (lambda nn: nn.MarginRankingLoss(0.5), (normal(4, 3), OTHER, OTHER > 0)),
    "CosineEmbeddingLoss": (lambda nn: nn.CosineEmbeddingLoss(-0.5), (normal(4, 3), OTHER, np.array([1, -1, 1, -1]))),
    "MultiMarginLoss": (lambda nn: nn.MultiMarginLoss(2), (normal(4, 3), np.array([0, 2, 1, 1]))),
    "MultiLabelMarginLoss": (lambda nn: nn.MultiLabelMarginLoss(), (normal(2, 3), np.array([[0, 2, -1], [1, -1, 0]]))),
    "MultiLabelSoftMarginLoss": (lambda nn: nn.MultiLabelSoftMarginLoss(), (normal(4, 3), OTHER > 0)),
    "TripletMarginLoss": (lambda nn: nn.TripletMarginLoss(swap=True), (normal(4, 3), OTHER, OTHER[::-1].copy())),
    "CosineSimilarity": (lambda nn: nn.CosineSimilarity(dim=0), (normal(4, 3), OTHER)),
    "PairwiseDistance": (lambda nn: nn.PairwiseDistance(1.0, keepdim=True), (normal(4, 3), OTHER)),
}
EACH = pytest.mark.parametrize("name", LAYERS)


@EACH
def test_outputs_and_gradients_are_those_of_pytorch_from_the_same_parameters(name: str) -> None:
    torch = pytest.importorskip("torch")
    make, inputs = LAYERS[name]
    layer, peer = make(nn), make(torch.nn).double()
    assert list(layer.state_dict()) == list(peer.state_dict())
    layer.load_state_dict(peer.state_dict())
    floating = [array.dtype.kind == "f" for array in inputs]
    ours = [ag.tensor(array, requires_grad=flag) for array, flag in zip(inputs, floating, strict=True)]
    theirs = [
        torch.tensor(array if array.dtype.kind != "b" else array.astype(float), requires_grad=flag)
        for array, flag in zip(inputs, floating, strict=True)
    ]
    output, expected = layer(*ours), peer(*theirs)
    sync.backward((output * output).sum())
    (expected * expected).sum().backward()

    np.testing.assert_allclose(output.numpy(), expected.detach().numpy(), rtol=1e-10, atol=1e-12)
    pairs = [(one, other) for one, other, flag in zip(ours, theirs, floating, strict=True) if flag]
    for one, other in zip(layer.parameters(), peer.parameters(), strict=True):
        np.testing.assert_allclose(one.numpy(), other.detach().numpy(), rtol=1e-12)
    for one, other in [*pairs, *zip(layer.parameters(), peer.parameters(), strict=True)]:
        # PyTorch's Hardsigmoid has a slope of single precision.
        rtol = 1e-7 if name == "Hardsigmoid" else 1e-9
        np.testing.assert_allclose(one.grad.numpy(), other.grad.numpy(), rtol=rtol, atol=1e-11)


@pytest.mark.parametrize("name", ["Linear", "Bilinear", "Embedding"])
def test_initial_parameters_have_the_distribution_of_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    makers = {
        "Linear": lambda nn: nn.Linear(50, 400),
        "Bilinear": lambda nn: nn.Bilinear(30, 20, 400),
        "Embedding": lambda nn: nn.Embedding(100, 200),
    }
    ag.random.seed(0)
    torch.manual_seed(0)
    layer, peer = makers[name](nn), makers[name](torch.nn)
    for (path, param), other in zip(layer.named_parameters(), peer.parameters(), strict=True):
        expected = other.detach().numpy()
        assert param.shape == expected.shape
        for quantity in (np.mean, np.std, np.min, np.max):
            found, wanted = quantity(param.numpy()), quantity(expected)
            assert abs(found - wanted) < 0.15 * max(expected.std(), 0.1) * (6 if name == "Embedding" else 1), path


#: By name: fills a tensor by the module `init`, ours or PyTorch's.
INITIALISERS: dict[str, tuple[Callable[[Any, Any], Any], tuple[int, ...]]] = {
    "uniform_": (lambda init, tensor: init.uniform_(tensor, -1.0, 3.0), (100, 90)),
    "normal_": (lambda init, tensor: init.normal_(tensor, 1.0, 2.0), (100, 90)),
    "trunc_normal_": (lambda init, tensor: init.trunc_normal_(tensor, 0.5, 1.0, -1.0, 1.0), (100, 90)),
    "xavier_uniform_": (lambda init, tensor: init.xavier_uniform_(tensor, 2.0), (40, 30, 3, 2)),
    "xavier_normal_": (lambda init, tensor: init.xavier_normal_(tensor), (40, 30, 3, 2)),
    "kaiming_uniform_": (lambda init, tensor: init.kaiming_uniform_(tensor, 0.3), (40, 30, 3, 2)),
    "kaiming_normal_": (
        lambda init, tensor: init.kaiming_normal_(tensor, mode="fan_out", nonlinearity="relu"),
        (40, 30, 3, 2),
    ),
}
EXACT: dict[str, tuple[Callable[[Any, Any], Any], tuple[int, ...]]] = {
    "constant_": (lambda init, tensor: init.constant_(tensor, 2.5), (3, 2)),
    "ones_": (lambda init, tensor: init.ones_(tensor), (3, 2)),
    "zeros_": (lambda init, tensor: init.zeros_(tensor), (3, 2)),
    "eye_": (lambda init, tensor: init.eye_(tensor), (3, 4)),
    "dirac_": (lambda init, tensor: init.dirac_(tensor, 2), (6, 2, 3, 4)),
}


@pytest.mark.parametrize("name", INITIALISERS)
def test_an_initialiser_draws_from_the_distribution_of_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    fill, shape = INITIALISERS[name]
    ag.random.seed(0)
    torch.manual_seed(0)
    found = fill(nn.init, ag.tensor(np.zeros(shape), requires_grad=True)).numpy()
    expected = fill(torch.nn.init, torch.zeros(shape)).numpy()

    assert abs(found.mean() - expected.mean()) < 0.05 * expected.std()
    assert found.std() == pytest.approx(expected.std(), rel=0.03)
    assert np.abs(found).max() == pytest.approx(np.abs(expected).max(), rel=0.3 if "normal" in name else 0.01)


@pytest.mark.parametrize("name", EXACT)
def test_an_initialiser_without_chance_fills_as_pytorch_does(name: str) -> None:
    torch = pytest.importorskip("torch")
    fill, shape = EXACT[name]

    np.testing.assert_array_equal(
        fill(nn.init, ag.tensor(np.full(shape, 9.0))).numpy(), fill(torch.nn.init, torch.zeros(shape)).numpy()
    )


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 2, 2)])
def test_an_orthogonal_matrix_is_orthogonal(shape: tuple[int, ...]) -> None:
    matrix = nn.init.orthogonal_(ag.tensor(np.zeros(shape)), gain=2.0).numpy().reshape(shape[0], -1)
    square = matrix @ matrix.T if shape[0] <= matrix.shape[1] else matrix.T @ matrix

    np.testing.assert_allclose(square, 4 * np.eye(len(square)), atol=1e-12)


def test_a_sparse_matrix_has_as_many_zeros_in_each_column_as_asked_for() -> None:
    matrix = nn.init.sparse_(ag.tensor(np.ones((10, 4))), 0.25).numpy()

    assert (matrix == 0).sum(axis=0).tolist() == [3] * 4


def test_an_initialiser_writes_in_place_unrecorded_and_keeps_the_dtype() -> None:
    tensor = ag.tensor(np.zeros((3, 3), np.float32), requires_grad=True)
    array, version = tensor.numpy(), tensor._version
    assert nn.init.normal_(tensor) is tensor

    assert tensor.is_leaf
    assert tensor._version == version + 1
    assert array.any()
    assert tensor.dtype == np.float32


@pytest.mark.parametrize(
    ("name", "param"), [("linear", None), ("relu", None), ("tanh", None), ("leaky_relu", 0.2), ("selu", None)]
)
def test_gains_are_those_of_pytorch(name: str, param: float | None) -> None:
    torch = pytest.importorskip("torch")

    assert nn.init.calculate_gain(name, param) == pytest.approx(torch.nn.init.calculate_gain(name, param))


def test_a_seed_decides_the_parameters_and_the_masks_of_dropout() -> None:
    def draw() -> list[Any]:
        ag.random.seed(3)
        model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Dropout1d(0.5))
        return [model(np.ones((2, 4, 4))).tolist(), model[0].weight.tolist()]

    assert draw() == draw()
    first, second = nn.Dropout(0.5)(np.ones(100)), nn.Dropout(0.5)(np.ones(100))
    assert first.tolist() != second.tolist()


@pytest.mark.parametrize(("layer", "shape"), [(nn.Dropout1d(0.5), (50, 20, 3)), (nn.Dropout3d(0.5), (50, 20, 1, 2, 3))])
def test_channels_are_dropped_whole(layer: Any, shape: tuple[int, ...]) -> None:
    output = layer(np.ones(shape)).reshape(50, 20, -1)

    assert set(np.unique(output)) == {0.0, 2.0}
    assert (output == output[..., :1]).all()
    assert 0.4 < (output == 0).mean() < 0.6
    assert layer.eval()(np.ones(shape)).all()
    layer.train()


@pytest.mark.parametrize("layer", [nn.AlphaDropout(0.3), nn.FeatureAlphaDropout(0.3)])
def test_alpha_dropout_keeps_mean_and_variance_and_has_the_slope_of_what_is_kept(layer: Any) -> None:
    x = ag.tensor(np.random.default_rng(0).standard_normal((200, 300)), requires_grad=True)
    output = layer(x)
    (slopes,) = sync.grad(output, [x], np.ones(x.shape))

    assert abs(output.numpy().mean()) < 0.02
    assert abs(output.numpy().std() - 1) < 0.02
    dropped = slopes.numpy() == 0
    assert abs(dropped.mean() - 0.3) < 0.01
    assert len(np.unique(output.numpy()[dropped])) == 1
    assert len(np.unique(slopes.numpy()[~dropped])) == 1
    assert layer.eval()(x) is x
    layer.train()


def test_draws_of_gumbel_softmax_have_the_probabilities_and_hard_ones_the_gradient_of_soft_ones() -> None:
    probabilities = np.array([0.1, 0.2, 0.7])
    logits = ag.tensor(np.broadcast_to(np.log(probabilities), (20000, 3)).copy(), requires_grad=True)
    soft, hard = (nn.gumbel_softmax(logits, 0.5, one, rng=np.random.default_rng(1)) for one in (False, True))
    cotangent = np.random.default_rng(2).standard_normal(soft.shape)

    np.testing.assert_allclose(hard.numpy().mean(axis=0), probabilities, atol=0.01)
    np.testing.assert_array_equal(hard.numpy().argmax(axis=1), soft.numpy().argmax(axis=1))
    np.testing.assert_array_equal(sync.grad(hard, [logits], cotangent)[0], sync.grad(soft, [logits], cotangent)[0])
    with pytest.raises(ArgumentError, match="temperature tau of 0"):
        nn.gumbel_softmax(logits, 0)


@pytest.mark.parametrize(("layer", "shape"), [(nn.Dropout1d(0.5), (5, 4, 3)), (nn.Dropout2d(0.5), (4, 2, 3))])
def test_a_mask_of_channels_is_on_the_device_of_the_input(layer: Any, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape)
    ag.random.seed(0)
    expected = layer(x)
    ag.random.seed(0)

    np.testing.assert_array_equal(layer(ag.tensor(x, device=SimulatedAccelerator())).to("cpu").numpy(), expected)


def test_a_table_that_is_given_is_copied_and_frozen_unless_it_is_to_be_trained() -> None:
    table = np.arange(6.0).reshape(3, 2)
    frozen, trained = nn.Embedding.from_pretrained(table), nn.Embedding.from_pretrained(table, False, -1)
    table[:] = 9.0

    assert frozen(np.array([2])).tolist() == [[4.0, 5.0]]
    assert [(name, param.requires_grad) for name, param in frozen.named_parameters()] == [("weight", False)]
    assert trained.weight.requires_grad
    assert trained.weight.tolist() == frozen.weight.tolist()
    sync.backward(trained(np.array([1, 2])).sum())
    assert trained.weight.grad is not None
    assert trained.weight.grad.tolist() == [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]


def test_a_recomputed_dropout_draws_the_same_mask() -> None:
    x = ag.tensor(np.ones(1000), requires_grad=True)
    output = ag.checkpoint(nn.Dropout(0.5), x, use_reentrant=False)
    sync.backward(output.sum())

    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), output.numpy())


def test_rows_that_are_short_enough_are_not_written_into() -> None:
    layer = nn.Embedding(5, 3, max_norm=1.0)
    layer(np.arange(4))
    version = layer.weight._version
    layer(np.array([], int))
    layer(np.arange(4))

    assert layer.weight._version == version
    norms = np.linalg.norm(layer.weight.numpy(), axis=1)
    assert (norms[:4] <= 1.0).all()


@pytest.mark.parametrize("ndim", [1, 2])
@pytest.mark.parametrize("is_adaptive", [False, True])
def test_positions_of_maxima_are_those_of_pytorch(ndim: int, is_adaptive: bool) -> None:
    torch = pytest.importorskip("torch")
    x = normal(2, 3, 7, 8)[:, :, : 7 if ndim == 2 else 1][:, :, 0 if ndim == 1 else slice(None)]
    x[0] = -np.inf
    name = f"{'Adaptive' if is_adaptive else ''}MaxPool{ndim}d"
    every: list[tuple[Any, ...]] = (
        [(3,), (4,)] if is_adaptive else [(2,), (3, 2, 1), (3, 1, 1, 2), (2, 2, 0, 1, False, True)]
    )
    for options in every:
        arguments = {} if len(options) > 4 else {"return_indices": True}
        layer, peer = (getattr(library, name)(*options, **arguments) for library in (nn, torch.nn))
        if not arguments:
            layer.return_indices = peer.return_indices = True
        maxima, positions = layer(ag.tensor(x))
        expected, places = peer(torch.tensor(x))

        np.testing.assert_array_equal(maxima.numpy(), expected.numpy())
        np.testing.assert_array_equal(positions.numpy(), places.numpy())
        assert isinstance(layer(x)[1], np.ndarray)


BAD: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: nn.Hardtanh(1.0, 0.0), ArgumentError, "Hardtanh needs max_val above min_val, not 0.0 and 1.0"),
    (
        lambda: nn.Conv1d(1, 1, 3, 2, "same"),
        ArgumentError,
        "padding must be 'valid', an int, a tuple, or 'same' of str",
    ),
    (lambda: nn.Conv2d(1, 1, 3, padding="full"), ArgumentError, "a tuple, or 'same' of stride 1, not 'full'"),
    (lambda: nn.Flatten(2, 1)(np.ones((1, 1, 1))), ArgumentError, "Flatten joins the axes 2 to 1, and the input"),
    (
        lambda: nn.MultiheadAttention(2, 1)(*[np.ones((3, 2))] * 3, attn_mask=np.ones((3, 3), int)),
        ArgumentTypeError,
        "attn_mask holds booleans, or floating numbers to add to the scores, not int64",
    ),
    (
        lambda: nn.scaled_dot_product_attention(
            np.ones((3, 2)), np.ones((3, 2)), np.ones((3, 2)), np.ones((3, 3), int)
        ),
        ArgumentTypeError,
        "attn_mask holds booleans, or floating numbers to add to the scores, not int64",
    ),
    (lambda: nn.Linear(-1, 2), ArgumentError, "in_features must not be negative, but is -1"),
    (lambda: nn.Linear(2.0, 2), ArgumentTypeError, "in_features must be an int"),  # type: ignore[arg-type]
    (lambda: nn.Linear(2, 2, dtype=np.int32), ArgumentError, "the dtype of a parameter is floating or complex"),
    (lambda: nn.Embedding(3, 2, padding_idx=3), ArgumentError, "padding_idx 3 is no row of a table of 3"),
    (lambda: nn.Conv2d(3.0, 4, 3), ArgumentTypeError, "in_channels must be an int, not float 3.0"),  # type: ignore[arg-type]
    (lambda: nn.Conv2d(-3, 4, 3), ArgumentError, "in_channels must not be negative, but is -3"),
    (lambda: nn.BatchNorm1d("a"), ArgumentTypeError, "num_features must be an int"),  # type: ignore[arg-type]
    (lambda: nn.BatchNorm1d(3, eps="a"), ArgumentTypeError, "eps must be a number"),  # type: ignore[arg-type]
    (
        lambda: nn.BatchNorm1d(4)(np.ones((3, 5))),
        ArgumentError,
        "BatchNorm1d(4) takes x with 4 channels on axis 1",
    ),
    (lambda: nn.LayerNorm((3, -1)), ArgumentError, "normalized_shape must not be negative, but is -1"),
    (lambda: nn.GroupNorm(2.5, 5), ArgumentTypeError, "num_groups must be an int"),  # type: ignore[arg-type]
    (lambda: nn.GRU(3.5, 4), ArgumentTypeError, "input_size must be an int, not float 3.5"),  # type: ignore[arg-type]
    (lambda: nn.LSTM(3, 4, proj_size=4), ArgumentError, "LSTM takes a proj_size below hidden_size, 4, not 4"),
    (lambda: nn.GRUCell(3, -1), ArgumentError, "hidden_size must not be negative, but is -1"),
    (lambda: nn.MultiheadAttention(4.0, 2), ArgumentTypeError, "embed_dim must be an int"),  # type: ignore[arg-type]
    (lambda: nn.TransformerEncoderLayer(4, 2, dropout=2.0), ArgumentError, "a probability from 0 to 1, not 2.0"),
    (lambda: nn.PReLU(2.5), ArgumentTypeError, "num_parameters must be an int"),  # type: ignore[arg-type]
    (lambda: nn.MSELoss("batchmean"), ArgumentError, "reduction must be one of none, mean, sum, not 'batchmean'"),
    (
        lambda: nn.Bilinear(2, 3, 4)(np.ones((2, 2)), np.ones((3, 3))),
        ArgumentError,
        "Bilinear takes inputs of shape (..., 2) and (..., 3), not (2, 2) and (3, 3)",
    ),
    (lambda: nn.Embedding.from_pretrained(np.ones(3)), ArgumentError, "must have the shape (num_embeddings, embed"),
    (lambda: nn.Dropout(1.5), ArgumentError, "a probability p from 0 to 1, not 1.5"),
    (lambda: nn.Dropout2d(0.5)(np.ones(3)), ArgumentError, "takes x of 3 or 4 axes, not of shape (3,)"),
    (lambda: nn.Flatten(2)(np.ones(3)), ArgumentError, "Flatten joins the axes 2 to -1, and the input has the shape"),
    (lambda: nn.Unflatten(2, (1, 2))(np.ones(3)), ArgumentError, "Unflatten splits axis 2, and the input has"),
    (lambda: nn.init.ones_(np.ones(2)), ArgumentTypeError, "takes a Tensor, as module.weight is"),  # type: ignore[arg-type]
    (lambda: nn.init.eye_(ag.tensor([1.0])), ArgumentError, "eye_ takes a matrix, not a tensor of shape (1,)"),
    (lambda: nn.init.xavier_normal_(ag.tensor([1.0])), ArgumentError, "fan in and fan out"),
    (lambda: nn.init.orthogonal_(ag.tensor([1.0])), ArgumentError, "orthogonal_ takes a tensor of two or more axes"),
    (lambda: nn.init.sparse_(ag.tensor([1.0]), 0.1), ArgumentError, "sparse_ takes a matrix"),
    (lambda: nn.init.dirac_(ag.tensor([1.0])), ArgumentError, "dirac_ takes a weight of three to five axes"),
    (lambda: nn.init.dirac_(ag.tensor(np.ones((3, 1, 1))), 2), ArgumentError, "3 output channels cannot be divided"),
    (lambda: nn.init.trunc_normal_(ag.tensor([1.0]), 50.0), ArgumentError, "almost no number of mean 50.0"),
    (lambda: nn.init.calculate_gain("step"), ArgumentError, "there is no gain for the nonlinearity 'step'"),
    (
        lambda: nn.init.kaiming_normal_(ag.tensor([[1.0]]), mode="in"),
        ArgumentError,
        "mode must be 'fan_in' or 'fan_out', not 'in'",
    ),
]


@pytest.mark.parametrize(("make", "error", "message"), BAD, ids=[message for _, _, message in BAD])
def test_bad_use_of_a_layer_is_named(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        make()


def test_a_batch_of_other_channels_is_not_counted_and_channels_are_free_without_parameters():
    layer = nn.BatchNorm1d(4)

    with pytest.raises(ArgumentError):
        layer(np.ones((3, 5)))
    assert layer.num_batches_tracked.item() == 0  # type: ignore[union-attr]
    assert nn.BatchNorm1d(4, affine=False, track_running_stats=False)(np.ones((3, 5))).shape == (3, 5)
