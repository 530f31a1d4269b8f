"""Weights that are computed from others: values, gradients and state are PyTorch's, and the module stays a tree."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.errors import ArgumentError
from asyncgrad.nn.utils import parametrizations, parametrize

MAKERS: dict[str, Any] = {
    "weight norm": lambda nn: nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)),
    "one norm": lambda nn: nn.utils.parametrizations.weight_norm(nn.Linear(3, 4), dim=None),
    "spectral norm": lambda nn: nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4), n_power_iterations=2),
    "reflections": lambda nn: nn.utils.parametrizations.orthogonal(nn.Linear(3, 4), use_trivialization=False),
    "exponential": lambda nn: nn.utils.parametrizations.orthogonal(nn.Linear(3, 3)),
    "Cayley, wide": lambda nn: nn.utils.parametrizations.orthogonal(nn.Linear(3, 2), orthogonal_map="cayley"),
}


@pytest.mark.parametrize("name", MAKERS)
def test_values_gradients_and_state_are_those_of_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = MAKERS[name](nn), MAKERS[name](torch.nn).double()
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict(theirs.state_dict())
    x = np.random.default_rng(0).standard_normal((5, 3))
    for _ in range(2):
        output, expected = ours(x), theirs(torch.tensor(x))
    sync.backward((output * output).sum())
    (expected * expected).sum().backward()

    np.testing.assert_allclose(output.numpy(), expected.detach().numpy(), rtol=1e-10)
    for (path, one), (other_path, other) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert path == other_path
        np.testing.assert_allclose(one.grad.numpy(), other.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_a_weight_has_the_norms_that_are_trained_and_the_largest_singular_value_1() -> None:
    normed = parametrizations.weight_norm(nn.Linear(3, 4))
    before = normed.weight.numpy().copy()
    with ag.no_grad():
        normed.get_parameter("parametrizations.weight.original0")[...] *= 2.0
    np.testing.assert_allclose(normed.weight.numpy(), 2 * before)

    layer = parametrizations.spectral_norm(nn.Conv2d(2, 3, 2), n_power_iterations=50)
    assert np.linalg.norm(layer.weight.numpy().reshape(3, -1), 2) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("prefix", ["", "0."])
def test_a_state_with_the_old_names_of_a_norm_and_a_direction_is_loaded(prefix: str) -> None:
    layer = parametrizations.weight_norm(nn.Linear(3, 4))
    norm, direction = np.full((4, 1), 2.0), np.arange(12.0).reshape(4, 3)
    model = nn.Sequential(layer) if prefix else layer
    state = {"bias": np.zeros(4), "weight_g": norm, "weight_v": direction}
    model.load_state_dict({prefix + name: array for name, array in state.items()})

    expected = direction * norm / np.linalg.norm(direction, axis=1, keepdims=True)
    np.testing.assert_allclose(layer.weight.numpy(), expected, rtol=1e-6)
    assert sorted(state) == ["bias", "weight_g", "weight_v"]


def test_a_parametrized_module_is_copied_mapped_and_differentiated_as_any() -> None:
    model = parametrizations.weight_norm(nn.Linear(3, 4))
    x = np.ones((2, 3))
    grads = sync.func.grad(lambda model: model(x).sum())(model)
    sync.backward(model(x).sum())

    found, wanted = (one.get_submodule("parametrizations.weight").original0 for one in (grads, model))
    np.testing.assert_allclose(found.numpy(), wanted.grad.numpy())
    np.testing.assert_array_equal(copy.deepcopy(model)(x).numpy(), model(x).numpy())
    doubled = ag.tree.map(lambda leaf: leaf * 2, model)
    np.testing.assert_allclose(doubled(x).numpy(), 2 * model(x).numpy())


def test_a_weight_stays_orthogonal_and_begins_with_one_that_is() -> None:
    weight = np.linalg.qr(np.random.default_rng(0).standard_normal((2, 4, 3)))[0]
    stack: Any = nn.Module()
    stack.weight = nn.Parameter(weight + 0j)
    parametrizations.orthogonal(stack)
    np.testing.assert_allclose(stack.weight.numpy(), weight, atol=1e-12)
    with ag.no_grad():
        stack.get_parameter("parametrizations.weight.original")[...] += 0.3j
    found = stack.weight.numpy()
    assert abs(found - weight).max() > 0.1
    np.testing.assert_allclose(found.conj().mT @ found, np.broadcast_to(np.eye(3), (2, 3, 3)), atol=1e-12)

    layer: Any = parametrizations.orthogonal(nn.Linear(4, 3), use_trivialization=False)
    layer.weight = weight[0].T
    np.testing.assert_allclose(layer.weight.numpy(), weight[0].T, atol=1e-12)


def test_what_cannot_be_orthogonal_is_named() -> None:
    with pytest.raises(ArgumentError, match="two axes or more, not of shape"):
        parametrizations.orthogonal(nn.Linear(2, 2), "bias")
    with pytest.raises(ArgumentError, match="must be one of matrix_exp, cayley, householder, not 'qr'"):
        parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="qr")
    layer: Any = parametrizations.orthogonal(nn.Linear(2, 2), use_trivialization=False)
    with pytest.raises(NotImplementedError, match="use_trivialization=True"):
        layer.weight = np.eye(2)


class Squares(nn.Module):
    def forward(self, x: Any) -> Any:
        return x * x

    def right_inverse(self, value: Any) -> Any:
        return np.sqrt(value)


class Halves(nn.Module):
    def forward(self, x: Any) -> Any:
        return x[:1]


def test_a_tensor_is_set_by_the_inverse_and_becomes_one_that_is_stored_again() -> None:
    model: Any = nn.Linear(1, 2, bias=False)
    model.load_state_dict({"weight": np.array([[4.0], [9.0]])})
    plain, weight = type(model), model.weight
    parametrize.register_parametrization(model, "weight", Squares())

    assert model.parametrizations.weight.original.tolist() == [[2.0], [3.0]]
    model.weight = np.array([[16.0], [25.0]])
    assert model.parametrizations["weight"].original.tolist() == [[4.0], [5.0]]
    assert parametrize.is_parametrized(model, "weight")
    parametrize.remove_parametrizations(model, "weight")
    assert type(model) is plain
    assert model.weight.tolist() == [[16.0], [25.0]]
    assert not parametrize.is_parametrized(model)
    assert [name for name, _ in model.named_parameters()] == ["weight"]
    assert weight.shape == model.weight.shape


def test_what_cannot_be_computed_is_named() -> None:
    with pytest.raises(ArgumentError, match="has no parameter or buffer 'name'"):
        parametrize.register_parametrization(nn.Linear(1, 2), "name", Squares())
    with pytest.raises(ArgumentError, match="pass unsafe=True if that is meant"):
        parametrize.register_parametrization(nn.Linear(1, 2), "weight", Halves())
    with pytest.raises(ArgumentError, match="has no parametrization"):
        parametrize.remove_parametrizations(nn.Linear(1, 2), "weight")
