"""Layers that take the number of their channels from their first input, or from a state dict."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, optim, sync
from asyncgrad.errors import ArgumentError, ArgumentTypeError

#: Each lazy layer, the one that it becomes for an input of 4 channels, and such an input.
LAYERS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], tuple[int, ...]]] = {
    "LazyLinear": (lambda nn: nn.LazyLinear(3), lambda nn: nn.Linear(4, 3), (2, 5, 4)),
    "LazyLinear without bias": (lambda nn: nn.LazyLinear(3, False), lambda nn: nn.Linear(4, 3, False), (4,)),
}
for axes in (1, 2, 3):
    image = (7, 6, 5)[:axes]
    for batch in ((2,), ()):
        LAYERS[f"LazyConv{axes}d {batch}"] = (
            lambda nn, axes=axes: getattr(nn, f"LazyConv{axes}d")(6, 3, padding=1, groups=2),
            lambda nn, axes=axes: getattr(nn, f"Conv{axes}d")(4, 6, 3, padding=1, groups=2),
            (*batch, 4, *image),
        )
        LAYERS[f"LazyConvTranspose{axes}d {batch}"] = (
            lambda nn, axes=axes: getattr(nn, f"LazyConvTranspose{axes}d")(6, 3, 2, groups=2),
            lambda nn, axes=axes: getattr(nn, f"ConvTranspose{axes}d")(4, 6, 3, 2, groups=2),
            (*batch, 4, *image),
        )
        LAYERS[f"LazyInstanceNorm{axes}d {batch}"] = (
            lambda nn, axes=axes: getattr(nn, f"LazyInstanceNorm{axes}d")(1e-4),
            lambda nn, axes=axes: getattr(nn, f"InstanceNorm{axes}d")(4, 1e-4, 0.1, True, True),
            (*batch, 4, *image),
        )
    LAYERS[f"LazyBatchNorm{axes}d"] = (
        lambda nn, axes=axes: getattr(nn, f"LazyBatchNorm{axes}d")(1e-4, None),
        lambda nn, axes=axes: getattr(nn, f"BatchNorm{axes}d")(4, 1e-4, None),
        (2, 4, *image),
    )
LAYERS["LazyBatchNorm1d of features"] = (lambda nn: nn.LazyBatchNorm1d(), lambda nn: nn.BatchNorm1d(4), (3, 4))

EACH = pytest.mark.parametrize("name", LAYERS)


def image_model() -> Any:
    layers = (nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))
    return nn.Sequential(*layers)


IMAGES = np.random.default_rng(0).standard_normal((2, 3, 5, 5))


@EACH
def test_a_lazy_layer_becomes_the_layer_for_its_first_input(name: str) -> None:
    lazy, layer, shape = LAYERS[name]
    x = np.random.default_rng(0).standard_normal(shape)
    found, expected = lazy(nn), layer(nn)
    before = str(found)
    with ag.no_grad():
        found(x)
    state = expected.state_dict()
    found.load_state_dict(state)

    assert before.startswith(name.split()[0])
    assert type(found) is type(expected)
    assert {**vars(found), "_record": None}.keys() == {**vars(expected), "_record": None}.keys()
    assert [path for path, _ in found.named_parameters()] == [path for path, _ in expected.named_parameters()]
    assert str(found) == str(expected)
    np.testing.assert_array_equal(found(x).numpy(), expected(x).numpy())


@EACH
def test_a_lazy_layer_has_pytorchs_state_and_loads_it_before_its_first_call(name: str) -> None:
    torch = pytest.importorskip("torch")
    lazy, _, shape = LAYERS[name]
    # PyTorch's lazy instance norms take the first axis of one image for that of channels, and refuse it then.
    shape = shape if "Instance" not in name else (2, *shape[-len(shape) + (shape[0] == 2) :])
    x = np.random.default_rng(0).standard_normal(shape)
    theirs, ours = lazy(torch.nn).double(), lazy(nn)

    assert [*ours.state_dict()] == [*theirs.state_dict()]
    theirs(torch.tensor(x))
    ours.load_state_dict(theirs.state_dict())
    assert type(ours).__name__ == type(theirs).__name__
    expected = theirs(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(ours(x).numpy(), expected, rtol=1e-9, atol=1e-12)


def test_the_parameters_are_of_the_dtype_that_the_model_was_converted_to_and_frozen_as_it_was() -> None:
    model = image_model().float()
    model[0].requires_grad_(False)
    model(IMAGES.astype(np.float32))

    assert {tensor.dtype for tensor in model.state_dict().values()} == {np.dtype(np.float32), np.dtype(np.int64)}
    assert [path for path, parameter in model.named_parameters() if not parameter.requires_grad] == [
        "0.weight",
        "0.bias",
    ]


def test_a_copy_is_as_lazy_as_the_model_and_knows_nothing_of_its_calls() -> None:
    model = image_model()
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    model(IMAGES)

    for one in copies:
        assert isinstance(one[0].weight, nn.UninitializedParameter)
        assert one(IMAGES).shape == (2, 2)


def test_a_state_with_shapes_initializes_all_layers_or_none() -> None:
    model, other = image_model(), image_model()
    other(IMAGES)
    state = other.state_dict()
    with pytest.raises(ArgumentError, match=r"4.bias has shape \(2,\), but in the state dict \(3,\)"):
        model.load_state_dict({**state, "4.bias": np.zeros(3)})

    assert isinstance(model[0], nn.LazyConv2d)
    assert isinstance(model[0].weight, nn.UninitializedParameter)
    model.load_state_dict(state)
    np.testing.assert_array_equal(model.eval()(IMAGES).numpy(), other.eval()(IMAGES).numpy())


def test_a_lazy_state_is_loaded_by_a_lazy_model_alone() -> None:
    state = nn.LazyLinear(3).state_dict()
    model = nn.LazyLinear(3)
    model.load_state_dict(state)

    assert isinstance(model.weight, nn.UninitializedParameter)
    with pytest.raises(ArgumentTypeError, match="weight in the state dict must be a tensor or an array"):
        nn.Linear(4, 3).load_state_dict(state)


def test_hooks_stay_and_see_the_layer_that_it_has_become() -> None:
    layer = nn.LazyLinear(3)
    seen: list[str] = []
    layer.register_forward_hook(lambda module, args, output: seen.append(type(module).__name__))
    layer(IMAGES)
    layer(IMAGES)

    assert seen == ["Linear", "Linear"]


def test_the_gradients_of_the_first_call_are_those_of_the_parameters() -> None:
    model = nn.Sequential(nn.LazyLinear(3), nn.LazyLinear(1))
    sync.backward(model(np.ones((2, 4))).sum())

    assert all(parameter.grad is not None for parameter in model.parameters())
    before = model[0].bias.tolist()
    optim.SGD(model.parameters(), lr=0.1).step()
    assert model[0].bias.tolist() != before


def test_the_first_call_may_be_traced() -> None:
    layer = nn.LazyLinear(3)
    call = ag.jit(lambda x: layer(x).sum())
    results = {call(np.ones(4)).item() for _ in range(4)}

    assert results == {layer(np.ones(4)).sum().item()}


def test_of_several_threads_one_makes_the_parameters() -> None:
    for _ in range(20):
        layer = nn.LazyLinear(3)
        with ThreadPoolExecutor(4) as pool:
            weights = list(pool.map(lambda layer: (layer(np.ones(4)), layer.weight)[1], [layer] * 4))

        assert all(weight is layer.weight for weight in weights)


@pytest.mark.parametrize("params", [lambda model: model.parameters(), lambda model: model])
def test_an_optimizer_refuses_parameters_without_a_shape(params: Callable[[Any], Any]) -> None:
    with pytest.raises(ArgumentError, match="has no shape yet, as its layer has not been called: call the model once"):
        optim.SGD(params(image_model()), lr=0.1)


def test_a_snapshot_and_a_module_of_a_transform_cannot_make_parameters() -> None:
    model = image_model()
    for call in (
        lambda: model.snapshot()(IMAGES),
        lambda: sync.func.grad(lambda model: model(IMAGES).sum())(model),
    ):
        with pytest.raises(ArgumentError, match="a parameter of LazyConv2d has no shape yet"):
            call()

    assert isinstance(model[0], nn.LazyConv2d)


def test_what_needs_a_shape_says_how_to_get_one() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'shape': call the model once, with an example"):
        _ = nn.LazyLinear(3).weight.shape
    with pytest.raises(AttributeError, match="has no attribute 'size'"):
        ag.summary(image_model(), IMAGES)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: nn.LazyConv2d(4, 3)(np.ones((5, 5))), r"LazyConv2d takes x with 3 or 4 axes, not of shape \(5, 5\)"),
        (lambda: nn.LazyBatchNorm1d()(np.ones(5)), r"LazyBatchNorm1d takes x with 2 or 3 axes, not of shape \(5,\)"),
        (lambda: nn.LazyLinear(3)(np.ones(())), r"an axis of features, not of shape \(\)"),
        (lambda: nn.LazyLinear(-1), "out_features must not be negative"),
        (lambda: nn.LazyConv1d(4, 3, groups=3), "number of groups that divides"),
        (lambda: nn.LazyConv1d(4, 3, groups=2)(np.ones((5, 5))), "divides in_channels=5"),
        (lambda: nn.LazyLinear(3).load_state_dict({"bias": np.ones(3)}, strict=False), "bias has no shape yet"),
    ],
)
def test_what_fits_no_layer_is_refused(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        call()
