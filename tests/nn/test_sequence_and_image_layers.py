"""Layers are those of PyTorch: the same names of state, and from the same weights the same results and gradients."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple, final

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.errors import ArgumentError, ArgumentTypeError
from tests.support.device_arrays import DEVICES
from tests.support.loops import one_loop

_rng = np.random.default_rng(11)
draw = _rng.standard_normal


def numbers(shape: Any) -> np.ndarray:
    """Return normal numbers, the same for each call with a shape."""
    return np.asarray(np.random.default_rng(5).standard_normal(shape))


class Layer(NamedTuple):
    """A layer by its name and arguments, what it is called with, and whether it trains."""

    name: str
    args: tuple[Any, ...]
    options: Mapping[str, Any]
    inputs: tuple[Any, ...]
    call: Mapping[str, Any]
    training: bool

    def make(self, library: Any) -> Any:
        """Return the layer of a library, with parts that are layers."""
        args = [one.make(library) if isinstance(one, Layer) else one for one in self.args]
        return getattr(library, self.name)(*args, **self.options).train(self.training)


def layer(
    name: str, *args: Any, x: Any = (), call: Mapping[str, Any] | None = None, training: bool = True, **options: Any
) -> Layer:
    """Return a layer that is called with one array or several."""
    return Layer(name, args, options, x if isinstance(x, tuple) else (x,), call or {}, training)


RECURRENT = [
    case
    for name in ("RNN", "GRU", "LSTM")
    for case in (
        layer(name, 3, 4, x=draw((5, 2, 3))),
        layer(name, 3, 4, 2, bidirectional=True, batch_first=True, x=draw((2, 5, 3))),
        layer(name, 3, 4, bias=False, x=draw((5, 3))),
        layer(f"{name}Cell", 3, 4, x=draw((5, 3))),
        layer(f"{name}Cell", 3, 4, bias=False, x=draw(3)),
    )
]
RECURRENT += [
    layer("RNN", 3, 4, nonlinearity="relu", x=(draw((5, 2, 3)), draw((1, 2, 4)))),
    layer("GRU", 3, 4, 2, x=(draw((5, 3)), draw((2, 4)))),
    layer("LSTM", 3, 4, bidirectional=True, x=(draw((5, 2, 3)), (draw((2, 2, 4)), draw((2, 2, 4))))),
    layer("LSTM", 3, 4, 2, bidirectional=True, proj_size=2, x=draw((5, 2, 3))),
    layer("LSTM", 3, 4, proj_size=3, bias=False, batch_first=True, x=(draw((5, 3)), (draw((1, 3)), draw((1, 4))))),
    layer("LSTMCell", 3, 4, x=(draw((2, 3)), (draw((2, 4)), draw((2, 4))))),
]

CONVOLUTION = [
    layer("Conv1d", 4, 6, 3, 2, 1, 1, 2, x=draw((2, 4, 9))),
    layer("Conv2d", 2, 3, (2, 3), bias=False, x=draw((2, 5, 6))),
    *(
        case
        for mode in ("reflect", "replicate", "circular")
        for case in (
            layer("Conv2d", 2, 3, 3, 1, (1, 2), padding_mode=mode, x=draw((1, 2, 5, 6))),
            layer("Conv1d", 2, 3, 4, padding="same", padding_mode=mode, x=draw((1, 2, 7))),
        )
    ),
    layer("ConvTranspose1d", 4, 6, 3, 2, x=draw((4, 5)), call={"output_size": (12,)}),
    layer("ConvTranspose2d", 4, 6, 3, 2, 1, 1, 2, x=draw((2, 4, 3, 4))),
]

NORMALIZATION = [
    case
    for training in (True, False)
    for options in ({}, {"momentum": None}, {"affine": False}, {"track_running_stats": False}, {"bias": False})
    for case in (
        layer("BatchNorm1d", 3, x=draw((4, 3)), training=training, **options),
        layer("BatchNorm2d", 3, x=draw((2, 3, 2, 2)), training=training, **options),
    )
]
NORMALIZATION += [
    case
    for training in (True, False)
    for options in ({}, {"affine": True, "track_running_stats": True})
    for case in (
        layer("InstanceNorm1d", 3, x=draw((3, 5)), training=training, **options),
        layer("InstanceNorm2d", 3, x=draw((2, 3, 2, 3)), training=training, **options),
    )
]
NORMALIZATION += [
    layer("LayerNorm", (3, 4), x=draw((2, 3, 4))),
    layer("LayerNorm", 4, bias=False, x=draw((2, 4))),
    layer("LayerNorm", 4, elementwise_affine=False, x=draw((2, 4))),
    layer("RMSNorm", 4, x=draw((2, 3, 4))),
    layer("GroupNorm", 2, 4, x=draw((2, 4, 3))),
    layer("GroupNorm", 2, 4, affine=False, x=draw((2, 4))),
]

POOLING = [
    layer("MaxPool1d", 3, 2, 1, x=draw((2, 2, 7))),
    layer("AvgPool1d", 2, ceil_mode=True, x=draw((2, 7))),
    layer("AdaptiveAvgPool1d", 3, x=draw((2, 2, 7))),
    layer("AdaptiveAvgPool2d", (3, None), x=draw((2, 2, 5, 4))),
    layer("AdaptiveMaxPool1d", 3, x=draw((2, 2, 7))),
    layer("AdaptiveMaxPool2d", (3, 2), x=draw((2, 5, 4))),
]

_query, _key = draw((5, 2, 8)), draw((4, 2, 8))
_ignored = np.array([[False, True, False, False], [False, False, True, True]])
_later = np.triu(np.ones((5, 4), bool), 2)
ATTENTION = [
    layer("MultiheadAttention", 8, 2, x=(_query, _key, _key)),
    layer("MultiheadAttention", 8, 2, bias=False, x=(_query, _key, _key), call={"need_weights": False}),
    layer(
        "MultiheadAttention",
        *(8, 2),
        kdim=3,
        vdim=6,
        batch_first=True,
        x=(_query, draw((5, 4, 3)), draw((5, 4, 6))),
        call={"average_attn_weights": False},
    ),
    layer("MultiheadAttention", 8, 2, x=(_query[:, 0], _key[:, 0], _key[:, 0]), call={"attn_mask": _later}),
    *(
        layer("MultiheadAttention", 8, 2, x=(_query, _key, _key), call=call, **options)
        for options in ({}, {"add_bias_kv": True}, {"add_bias_kv": True, "add_zero_attn": True})
        for call in ({"key_padding_mask": _ignored, "attn_mask": _later}, {"attn_mask": draw((4, 5, 4))})
    ),
]

_square = np.triu(np.ones((5, 5), bool), 1)
TRANSFORMER = [
    case
    for options in (
        {},
        {"norm_first": True, "activation": "gelu"},
        {"bias": False, "batch_first": True, "layer_norm_eps": 0.1},
    )
    for case in (
        layer("TransformerEncoderLayer", 8, 2, 16, 0.0, x=draw((5, 5, 8)), call={"src_mask": _square}, **options),
        layer("TransformerDecoderLayer", 8, 2, 16, 0.0, x=(draw((3, 3, 8)), draw((3, 3, 8))), **options),
    )
]
TRANSFORMER += [
    layer(
        "TransformerEncoder",
        layer("TransformerEncoderLayer", 8, 2, 16, 0.0),
        2,
        layer("LayerNorm", 8),
        x=_query,
    ),
    layer("TransformerDecoder", layer("TransformerDecoderLayer", 8, 2, 16, 0.0), 2, x=(_query, _key)),
    layer("Transformer", 8, 2, 1, 2, 16, 0.0, x=(_query, _key), call={"tgt_mask": np.triu(np.ones((4, 4), bool), 1)}),
    layer("Transformer", 8, 2, 1, 1, 16, 0.0, batch_first=True, norm_first=True, bias=False, x=(_query[:2], _key[:2])),
]

CASES = [*RECURRENT, *CONVOLUTION, *NORMALIZATION, *POOLING, *ATTENTION, *TRANSFORMER]
EACH = pytest.mark.parametrize("case", CASES, ids=[f"{case.name}-{number}" for number, case in enumerate(CASES)])


def as_tree(value: Any, convert: Any) -> Any:
    """Return arrays in tuples, each converted."""
    return tuple(as_tree(one, convert) for one in value) if isinstance(value, tuple) else convert(value)


def floating_leaves(value: Any) -> list[Any]:
    """Return the arrays in tuples, without None."""
    if isinstance(value, tuple):
        return [leaf for one in value for leaf in floating_leaves(one)]
    return [] if value is None else [value]


@EACH
def test_a_layer_with_the_weights_of_pytorch_has_its_results_gradients_and_state(case: Layer) -> None:
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nested tensors, and padding="same" of an even kernel
        theirs = case.make(torch.nn).double()
        ours = case.make(nn)
        ours.load_state_dict({name: value.numpy() for name, value in theirs.state_dict().items()})
        peers = as_tree(case.inputs, lambda array: torch.tensor(array, requires_grad=True))
        masks = {
            name: torch.tensor(value) if isinstance(value, np.ndarray) else value for name, value in case.call.items()
        }
        expected = floating_leaves(theirs(*peers, **masks))
    inputs = as_tree(case.inputs, lambda array: ag.tensor(array, requires_grad=True))
    results = floating_leaves(ours(*inputs, **case.call))
    cotangents = [numbers(result.shape) for result in results]
    wanted = [*ours.parameters(), *floating_leaves(inputs)]
    grads = sync.grad(
        sum(np.sum(result * cotangent) for result, cotangent in zip(results, cotangents, strict=True)),
        wanted,
        materialize_grads=True,
    )
    total = sum((result * torch.tensor(one)).sum() for result, one in zip(expected, cotangents, strict=True))
    sources = [*theirs.parameters(), *floating_leaves(peers)]
    expected_grads = torch.autograd.grad(total, sources, materialize_grads=True)

    assert [name for name, _ in ours.named_parameters()] == [name for name, _ in theirs.named_parameters()]
    for result, other in zip(results, expected, strict=True):
        np.testing.assert_allclose(result.detach().numpy(), other.detach().numpy(), rtol=1e-9, atol=1e-12)
    for grad, other in zip(grads, expected_grads, strict=True):
        np.testing.assert_allclose(grad.numpy(), other.numpy(), rtol=1e-8, atol=1e-12)
    state, other_state = ours.state_dict(), theirs.state_dict()
    assert list(state) == list(other_state)
    for name, value in state.items():
        np.testing.assert_allclose(np.asarray(value.detach()), other_state[name].numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    "case",
    [
        layer("Conv1d", 64, 96, 5),
        layer("Conv2d", 16, 32, 3, groups=2),
        layer("ConvTranspose2d", 32, 48, 3),
        layer("RNN", 64, 100),
        layer("LSTM", 32, 64, 2, bidirectional=True, proj_size=48),
        layer("GRUCell", 64, 80),
        layer("BatchNorm2d", 8),
        layer("LayerNorm", 16),
        layer("GroupNorm", 2, 8),
        layer("RMSNorm", 16),
        layer("MultiheadAttention", 96, 4, add_bias_kv=True),
        layer("MultiheadAttention", 96, 4, kdim=64, vdim=80),
        layer("TransformerEncoderLayer", 64, 4, 128),
    ],
    ids=lambda case: case.name,
)
def test_a_layer_begins_with_values_of_the_same_distribution(case: Layer) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    theirs, ours = case.make(torch.nn).state_dict(), case.make(nn).state_dict()

    assert {name: value.shape for name, value in ours.items()} == {
        name: tuple(value.shape) for name, value in theirs.items()
    }
    for name, value in ours.items():
        array, other = np.asarray(value.detach()), theirs[name].numpy()
        if other.min() == other.max():
            np.testing.assert_array_equal(array, other)
            continue
        scale = other.std()
        room = 5 / np.sqrt(other.size)
        assert abs(array.std() / scale - 1) < room
        assert abs(array.mean()) < room * scale
        assert abs(abs(array).max() / abs(other).max() - 1) < 3 * room


def test_by_the_mask_of_a_transformer_no_result_depends_on_a_later_step() -> None:
    ag.random.seed(0)
    model = nn.Transformer(4, 2, 1, 1, 8, batch_first=True).eval()
    sources, targets = np.ones((1, 3, 4)), ag.tensor(np.linspace(-1.0, 1.0, 12).reshape(1, 3, 4), requires_grad=True)

    results = model(sources, targets, tgt_mask=model.generate_square_subsequent_mask(3))

    (slope,) = sync.grad(results[0, 1].sum() + (results[0, 1] ** 2).sum(), [targets])
    assert np.any(slope.numpy()[0, 0])
    np.testing.assert_array_equal(slope.numpy()[0, 2], 0.0)


def test_dropout_between_recurrent_layers_is_drawn_in_training_only() -> None:
    made, x = nn.LSTM(3, 4, 2, dropout=0.5), numbers((5, 2, 3))
    kept = made.eval()(x)[0].numpy()

    np.testing.assert_array_equal(made(x)[0].numpy(), kept)
    assert (made.train()(x)[0].numpy() != kept).any()


BAD = [
    (lambda: nn.LSTM(3, 4, proj_size=4), "a proj_size below hidden_size, 4, not 4"),
    (lambda: nn.LSTM(3, 0), "hidden_size and num_layers of at least 1, not 3, 0 and 1"),
    (lambda: nn.RNN(3, 4, nonlinearity="sigmoid"), "'tanh' or 'relu', not 'sigmoid'"),
    (lambda: nn.GRU(3, 4)(draw((5, 2, 2))), "GRU takes x of shape (length, n, 3), or without n, not (5, 2, 2)"),
    (lambda: nn.GRU(3, 4)(draw((0, 2, 3))), "at least one element, not of shape (0, 2, 3)"),
    (lambda: nn.GRU(3, 4)(draw((5, 2, 3)), draw((1, 3, 4))), "hx of shape (1, 2, 4) for this x, not (1, 3, 4)"),
    (lambda: nn.LSTM(3, 4)(draw((5, 2, 3)), draw((1, 2, 4))), "a pair, (hidden, cell), not ndarray"),
    (lambda: nn.LSTMCell(3, 4)(draw((2, 2))), "LSTMCell takes x of shape (n, 3), or without n, not (2, 2)"),
    (lambda: nn.Conv2d(3, 4, 2, groups=2), "divides in_channels=3 and out_channels=4, not 2"),
    (lambda: nn.Conv2d(3, 4, 2, padding_mode="edge"), "one of zeros, reflect, replicate, circular, not 'edge'"),
    (lambda: nn.ConvTranspose2d(3, 4, 2, padding="same"), "a padding of numbers, not 'same'"),
    (lambda: nn.ConvTranspose1d(1, 1, 2, 2)(draw((1, 3)), (8,)), "makes images from (6,) to (7,)"),
    (lambda: nn.BatchNorm2d(3)(draw((2, 3))), "BatchNorm2d takes x with 4 axes, not of shape (2, 3)"),
    (lambda: nn.GroupNorm(2, 3), "num_groups that divides num_channels=3, not 2"),
    (lambda: nn.MultiheadAttention(8, 3), "num_heads that divides embed_dim=8, not 3"),
    (
        lambda: nn.MultiheadAttention(8, 2)(draw((5, 2, 8)), draw((4, 2, 6)), draw((4, 2, 8))),
        "not (5, 2, 8), (4, 2, 6)",
    ),
    (
        lambda: nn.MultiheadAttention(8, 2)(_query, _key, _key, attn_mask=np.zeros((4, 4), bool)),
        "attn_mask must have shape (5, 4) or (4, 5, 4), not (4, 4)",
    ),
    (lambda: nn.TransformerEncoderLayer(8, 2, activation="tanh"), "'relu', 'gelu' or a function, not 'tanh'"),
]


@pytest.mark.parametrize(("run", "message"), BAD, ids=[message for _, message in BAD])
def test_a_layer_names_the_argument_that_cannot_be(run: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        run()

    assert message in str(caught.value)


def test_a_list_of_sequences_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="pack sequences of several lengths"):
        nn.GRU(3, 4)([draw((5, 3)), draw((4, 3))])


MODELS = {
    "Conv2d, BatchNorm2d": (lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU()), (2, 2, 5, 5)),
    "Conv1d, GroupNorm": (lambda: nn.Sequential(nn.Conv1d(2, 4, 3), nn.GroupNorm(2, 4)), (2, 2, 7)),
    "LSTM": (lambda: First(nn.LSTM(3, 4, 2, bidirectional=True)), (5, 2, 3)),
    "RNN": (lambda: First(nn.RNN(3, 4)), (5, 2, 3)),
    "GRU": (lambda: First(nn.GRU(3, 4, batch_first=True)), (2, 5, 3)),
    "TransformerEncoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True), 2),
        (2, 5, 4),
    ),
}


@final
class First(nn.Module):
    """The first output of a layer."""

    def __init__(self, inner: nn.Module) -> None:
        self.inner = inner

    def forward(self, x: Any) -> Any:
        return self.inner(x)[0]


EACH_MODEL = pytest.mark.parametrize(("make", "shape"), MODELS.values(), ids=MODELS)


def loss_of(model: Any, x: Any) -> Any:
    return np.sum(np.sin(model(x)))


def gradients_of(model: Any, loss: Any) -> list[np.ndarray]:
    """Return the gradients of the parameters from a backward of the loss."""
    for parameter in model.parameters():
        parameter.grad = None
    sync.backward(loss)
    return [parameter.grad.numpy() for parameter in model.parameters()]


@one_loop
@EACH_MODEL
async def test_value_and_grad_of_a_model_is_a_model_of_the_gradients_of_a_backward(make: Any, shape: Any) -> None:
    model, x = make(), numbers(shape)
    expected = gradients_of(model, loss_of(model, x))
    value, grads = await ag.func.value_and_grad(loss_of)(model, x)

    assert isinstance(grads, type(model))
    np.testing.assert_allclose(value.item(), loss_of(model, x).item(), rtol=1e-12)
    for (name, _), grad in zip(model.named_parameters(), expected, strict=True):
        found: Any = grads
        for part in name.split("."):
            found = found[int(part)] if part.isdigit() else getattr(found, part)
        np.testing.assert_allclose(found.numpy(), grad, rtol=1e-12, atol=1e-15)


@one_loop
@EACH_MODEL
async def test_a_checkpointed_or_compiled_or_awaited_backward_has_the_same_gradients(make: Any, shape: Any) -> None:
    model, x = make(), ag.tensor(numbers(shape), requires_grad=True)
    expected = gradients_of(model, loss_of(model, x))
    checkpointed = gradients_of(model, ag.checkpoint(loss_of, model, x, use_reentrant=False))
    with ag.compiled_autograd():
        compiled = [gradients_of(model, loss_of(model, x)) for _ in range(4)][-1]
    for parameter in model.parameters():
        parameter.grad = None
    await loss_of(model, x).backward()

    for index, parameter in enumerate(model.parameters()):
        for found in (checkpointed[index], compiled[index], parameter.grad.numpy()):
            np.testing.assert_allclose(found, expected[index], rtol=1e-12, atol=1e-15)


@EACH_MODEL
def test_a_hessian_vector_product_is_that_of_differences(make: Any, shape: Any) -> None:
    model, x = make(), numbers(shape)
    parameters = list(model.parameters())
    ways = [numbers(parameter.shape) for parameter in parameters]

    def slope(step: float) -> list[np.ndarray]:
        with ag.no_grad():
            for parameter, way in zip(parameters, ways, strict=True):
                np.add(parameter, step * way, out=parameter)
        grads = sync.grad(loss_of(model, x), parameters)
        with ag.no_grad():
            for parameter, way in zip(parameters, ways, strict=True):
                np.subtract(parameter, step * way, out=parameter)
        return [grad.numpy() for grad in grads]

    first = sync.grad(loss_of(model, x), parameters, create_graph=True)
    inner = sum(np.sum(grad * way) for grad, way in zip(first, ways, strict=True))
    products = sync.grad(inner, parameters, materialize_grads=True)

    for product, above, below in zip(products, slope(1e-6), slope(-1e-6), strict=True):
        np.testing.assert_allclose(product.numpy(), (above - below) / 2e-6, rtol=1e-4, atol=1e-6)


@EACH_MODEL
def test_copies_and_pickles_compute_the_same_and_are_trees_of_the_same_structure(make: Any, shape: Any) -> None:
    model, x = make().eval(), numbers(shape)

    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other(x).numpy(), model(x).numpy())
        assert ag.tree.flatten(other)[1] == ag.tree.flatten(model)[1]


@EACH_MODEL
def test_a_model_in_float32_computes_in_float32(make: Any, shape: Any) -> None:
    with ag.default_dtype(np.float32):
        model = make()
    x = numbers(shape).astype(np.float32)
    grads = gradients_of(model, loss_of(model, x))

    assert model(x).dtype == np.float32
    assert {grad.dtype for grad in grads} == {np.dtype(np.float32)}


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@EACH_MODEL
def test_a_model_on_a_device_has_the_same_gradients(make: Any, shape: Any, device: str) -> None:
    model, x = make(), numbers(shape)
    expected = gradients_of(model, loss_of(model, x))
    with DEVICES[device]() as place:
        model.to(place)
        grads = sync.grad(loss_of(model, ag.tensor(x, device=place)), list(model.parameters()))
        found = [grad.to("cpu").numpy() for grad in grads]

    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_checkpointed_batch_counts_once_in_running_statistics(use_reentrant: bool) -> None:
    x = numbers((4, 3))
    once, checkpointed = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    sync.backward(loss_of(once, x))
    leaf = ag.tensor(x, requires_grad=True)
    sync.backward(ag.checkpoint(loss_of, checkpointed, leaf, use_reentrant=use_reentrant))

    for name, value in once.state_dict().items():
        np.testing.assert_array_equal(checkpointed.state_dict()[name].numpy(), value.numpy())


def test_a_training_between_an_evaluation_and_its_backward_does_not_change_its_gradients() -> None:
    model, x = nn.BatchNorm1d(3).eval(), numbers((4, 3))
    loss = loss_of(model, x)
    expected = gradients_of(model, loss_of(model, x))
    model.train()(x)
    found = gradients_of(model, loss)

    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_volumes_with_more_added_than_a_step_have_derivatives() -> None:
    rng = np.random.default_rng(0)
    shapes = ((1, 1, 3, 2, 1), (1, 1, 2, 1, 1))
    x, weight = (ag.tensor(rng.standard_normal(shape), requires_grad=True) for shape in shapes)

    def function(x: Any, weight: Any) -> Any:
        # The dilation of 3 leaves place for 2 more, and so for other windows.
        return nn.conv_transpose3d(x, weight, output_padding=(2, 0, 0), dilation=(3, 1, 1))

    assert function(x, weight).shape == (1, 1, 8, 2, 1)
    assert sync.gradcheck(function, (x, weight))
    assert sync.gradgradcheck(function, (x, weight))
