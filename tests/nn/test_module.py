"""Modules: what they consist of, their state, their trees, their hooks."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import math
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, optim, sync
from asyncgrad.errors import ArgumentError, ArgumentTypeError

X = np.random.default_rng(0).standard_normal((5, 3))


class Layer(nn.Module):
    """A linear layer; not one of the library's, so that these tests are of Module alone."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self.inputs = inputs
        self.weight = ag.tensor(np.random.default_rng(inputs).standard_normal((outputs, inputs)), requires_grad=True)
        self.bias = nn.Parameter(np.zeros(outputs))

    def forward(self, x: Any) -> Any:
        return nn.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"inputs={self.inputs}"


class Scale(nn.Module):
    def __init__(self, size: int) -> None:
        self.gain = nn.Parameter(np.full(size, 2.0))
        self.register_buffer("mean", ag.tensor(np.zeros(size)))
        self.register_buffer("cache", ag.tensor(np.zeros(1)), persistent=False)
        self.register_buffer("count", ag.tensor(0))
        self.register_parameter("offset", None)
        self.activation = np.tanh

    def forward(self, x: Any) -> Any:
        if self.training:
            with ag.no_grad():
                self.count += 1
        return self.activation((x - self.mean) * self.gain)


class Net(nn.Module):
    """Has submodules, modules and parameters in containers, and a parameter in two places."""

    def __init__(self) -> None:
        self.layers = nn.Sequential(Layer(3, 4), Scale(4), Layer(4, 2))
        self.heads: list[Any] = [Layer(2, 2), {"scale": nn.Parameter(np.ones(2))}]
        self.tied = self.layers[0].weight

    def forward(self, x: Any) -> Any:
        return self.heads[0](self.layers(x)) * self.heads[1]["scale"] + np.sum(self.tied)


def loss(model: Any, x: Any) -> Any:
    return np.sum(model(x) ** 2)


PARAMETERS = [
    *("tied", "heads.1.scale", "layers.0.bias", "layers.1.gain", "layers.2.weight", "layers.2.bias", "heads.0.weight"),
    "heads.0.bias",
]


@pytest.mark.parametrize(("arguments", "options"), [((3,), {}), ((), {"inplace": True})])
def test_a_module_without_a_constructor_takes_no_arguments(arguments, options):
    with pytest.raises(ArgumentTypeError, match=re.escape("write Sigmoid(), or give it an __init__")):
        nn.Sigmoid(*arguments, **options)


def test_parameters_and_buffers_have_paths_and_come_once() -> None:
    model = Net()

    assert sorted(name for name, _ in model.named_parameters()) == sorted(PARAMETERS)
    assert [name for name, _ in model.named_buffers()] == ["layers.1.mean", "layers.1.cache", "layers.1.count"]
    assert len(list(model.parameters())) == len(PARAMETERS)
    assert [name for name, _ in model.named_modules()] == ["", "layers", "layers.0", "layers.1", "layers.2", "heads.0"]
    assert [name for name, _ in model.named_children()] == ["layers", "heads.0"]
    assert model.get_submodule("layers.1") is model.layers[1]
    assert model.get_parameter("layers.0.weight") is model.tied
    assert model.get_buffer("layers.1.mean") is model.layers[1].mean
    for set_submodule in (model.add_module, model.register_module):
        set_submodule("more", Layer(1, 1))
        assert model.get_submodule("more") is model.more
        del model.more
    assert [name for name, _ in model.named_parameters(recurse=False)] == ["heads.1.scale", "tied"]


def test_a_frozen_parameter_stays_one_and_a_buffer_never_becomes_one() -> None:
    model = Net()
    model.requires_grad_(False)

    assert sorted(name for name, _ in model.named_parameters()) == sorted(PARAMETERS)
    assert not any(param.requires_grad for param in model.parameters())
    model.requires_grad_()
    assert all(param.requires_grad for param in model.parameters())
    model.layers[1].mean = ag.tensor(np.ones(4), requires_grad=True)
    assert "layers.1.mean" in dict(model.named_buffers())


def test_a_buffer_that_a_snapshot_shares_stays_one_when_it_is_written_into_and_assigned() -> None:
    model = Net()
    model.offset = ag.tensor(np.zeros(2))
    model.snapshot()
    model.offset += 1.0

    assert "offset" in dict(model.named_buffers())
    assert "offset" not in dict(model.named_parameters())
    assert "offset" not in model.state_dict()


def test_a_state_dict_has_all_parameters_and_persistent_buffers_and_is_a_copy() -> None:
    model = Net()
    state = model.state_dict()

    assert sorted(state) == sorted([*PARAMETERS, "layers.0.weight", "layers.1.mean", "layers.1.count"])
    before = state["layers.1.gain"].tolist()
    with ag.no_grad():
        model.layers[1].gain *= 3.0
    assert state["layers.1.gain"].tolist() == before
    assert not any(tensor.requires_grad for tensor in state.values())


def test_a_state_dict_loads_into_the_tensors_that_are_there() -> None:
    model, other = Net(), Net()
    with ag.no_grad():
        for param in model.parameters():
            param.__iadd__(1.0)
    tensors = list(other.parameters())
    found = other.load_state_dict({path: tensor.numpy() for path, tensor in model.state_dict().items()})

    assert found == ([], [])
    assert loss(other, X).item() == loss(model, X).item()
    assert all(one is param for one, param in zip(tensors, other.parameters(), strict=True))


def test_what_does_not_fit_in_a_state_dict_is_named_with_both_shapes_and_nothing_is_loaded() -> None:
    model = Net()
    before = model.state_dict()
    state: dict[str, Any] = {path: tensor.numpy() + 1 for path, tensor in before.items()}
    del state["layers.2.bias"]
    state |= {"layers.1.gain": np.ones(7), "more": np.ones(1)}
    with pytest.raises(ArgumentError) as caught:
        model.load_state_dict(state)

    for part in (
        "layers.1.gain has shape (4,), but in the state dict (7,)",
        "layers.2.bias is missing",
        "more is unexpected",
    ):
        assert part in str(caught.value)
    assert all(np.array_equal(before[path].numpy(), tensor.numpy()) for path, tensor in model.state_dict().items())
    del state["layers.1.gain"]
    assert model.load_state_dict(state, strict=False) == (["layers.1.gain", "layers.2.bias"], ["more"])
    assert model.layers[0].bias.tolist() == [1.0] * 4


def test_gradients_of_a_module_are_a_module_in_which_constants_are_none() -> None:
    model = Net()
    model.layers[2].bias.requires_grad_(False)
    value, grads = sync.func.value_and_grad(loss)(model, X)
    total = loss(model, X)
    sync.backward(total)

    assert value.item() == total.item()
    assert isinstance(grads, Net)
    assert grads.layers[1].mean is grads.layers[2].bias is None
    found = dict(grads.named_parameters())
    for path, param in model.named_parameters():
        if param.requires_grad:
            np.testing.assert_allclose(found[path].detach().numpy(), param.grad.numpy(), err_msg=path)
    assert "layers.2.bias" not in found


def test_a_parameter_in_two_places_has_the_gradient_of_both_at_both() -> None:
    grads = sync.func.grad(loss)(Net(), X)

    assert grads.tied is grads.layers[0].weight


class TwoBiases(nn.Module):
    """Has two parameters that always have the same gradient."""

    def __init__(self) -> None:
        self.first, self.second = nn.Parameter(np.ones(3)), nn.Parameter(np.ones(3))

    def forward(self, x: Any) -> Any:
        return x + self.first + self.second


@pytest.mark.parametrize("recorded", [True, False])
def test_two_parameters_of_the_same_gradient_are_two_in_a_module_of_gradients(recorded: bool) -> None:
    with ag.set_grad_enabled(recorded):
        grads = sync.func.grad(loss)(TwoBiases(), X)

    assert [name for name, _ in grads.named_parameters()] == ["first", "second"]
    np.testing.assert_array_equal(grads.first.detach().numpy(), grads.second.detach().numpy())


def test_a_parameter_in_two_places_counts_once_in_a_norm_in_sums_and_in_averages() -> None:
    model = Tied()
    accumulator, average = optim.GradientAccumulator(), optim.ExponentialMovingAverage(model)
    for _ in range(2):
        accumulator.add(sync.func.grad(loss)(model, X))
    sync.backward(loss(model, X))
    grads = accumulator.mean()
    expected = optim.clip_grad_norm(model.parameters(), 1.0)
    clipped, norm = optim.clip_grad_norm(grads, 1.0)

    assert norm == pytest.approx(expected)
    assert optim.clip_grad_norm(model, math.inf) == pytest.approx(1.0, rel=1e-5)
    assert optim.clip_grad_norm(clipped, math.inf)[1] == pytest.approx(1.0, rel=1e-5)
    for param, grad in zip(model.parameters(), clipped.parameters(), strict=True):
        np.testing.assert_allclose(grad.numpy(), param.grad.numpy())
    average.update()
    averaged = average.averages()
    assert averaged.second.weight is averaged.first.weight
    assert len(average.state_dict()["averages"]) == 3


@dataclasses.dataclass
class Changing:
    """A dataclass whose fields are children."""

    layer: Layer
    factor: float


@dataclasses.dataclass
class Scaled(nn.Module):
    """A module that is a dataclass, and has another dataclass in it."""

    layer: Layer
    inner: Changing
    power: int = 2

    def forward(self, x: Any) -> Any:
        return self.inner.layer(self.layer(x)) * self.inner.factor**self.power


@dataclasses.dataclass(frozen=True)
class Fixed(nn.Module):
    """A module whose attributes cannot be assigned."""

    layer: Layer

    def forward(self, x: Any) -> Any:
        return self.layer(x)


@pytest.mark.parametrize("make", [lambda: Scaled(Layer(3, 2), Changing(Layer(2, 2), 3.0)), lambda: Fixed(Layer(3, 2))])
def test_a_module_may_be_a_dataclass(make: Callable[[], Any]) -> None:
    model = make()
    optimizer = optim.SGD(model, lr=1e-6)
    grads = sync.func.grad(loss)(model, X)
    sync.backward(loss(model, X))
    first = loss(model, X).item()
    for path, param in model.named_parameters():
        np.testing.assert_allclose(grads.get_parameter(path).detach().numpy(), param.grad.numpy())
    assert loss(copy.deepcopy(model), X).item() == loss(pickle.loads(pickle.dumps(model)), X).item() == first
    optimizer.step(grads)

    assert loss(model, X).item() < first
    assert not any(module.training for module in model.eval().modules())
    assert loss(model.to(np.float32), X.astype(np.float32)).dtype == np.float32


def test_an_optimizer_can_be_pickled_with_its_model() -> None:
    model = Net()
    optimizer = optim.Adam(model, lr=0.01)
    optimizer.step(sync.func.grad(loss)(model, X))
    other, resumed = pickle.loads(pickle.dumps((model, optimizer)))
    for one, stepping in ((model, optimizer), (other, resumed)):
        stepping.step(sync.func.grad(loss)(one, X))

    for param, expected in zip(other.parameters(), model.parameters(), strict=True):
        np.testing.assert_array_equal(param.detach().numpy(), expected.detach().numpy())


@pytest.mark.parametrize("how", ["parameters", "module"])
def test_an_optimizer_steps_by_a_module_of_gradients(how: str) -> None:
    model, other = Net(), Net()
    optimizer = optim.Adam(model.parameters() if how == "parameters" else model, lr=0.1)
    peer = optim.Adam(other.parameters(), lr=0.1)
    model.heads[1]["scale"].requires_grad_(False)
    other.heads[1]["scale"].requires_grad_(False)
    for _ in range(3):
        optimizer.step(sync.func.grad(loss)(model, X))
        peer.zero_grad()
        sync.backward(loss(other, X))
        peer.step()

    for (path, param), expected in zip(model.named_parameters(), other.parameters(), strict=True):
        np.testing.assert_allclose(param.numpy(), expected.numpy(), rtol=1e-9, err_msg=path)
    assert model.tied is model.layers[0].weight


def test_gradients_of_another_model_are_named_by_their_path() -> None:
    model, other = nn.Sequential(Layer(3, 2), Layer(2, 2)), nn.Sequential(Layer(3, 4), Layer(4, 2))
    optimizer, before = optim.SGD(model.parameters(), lr=0.1), model.state_dict()
    with pytest.raises(ArgumentError, match=re.escape("grads.0.weight has shape (4, 3), but parameter 0 of")):
        optimizer.step(sync.func.grad(loss)(other, X))
    with pytest.raises(ArgumentError, match="of a model of 2 parameters, but there are 4 to update"):
        optimizer.step(sync.func.grad(loss)(other[0], X))

    assert all(np.array_equal(before[path].numpy(), tensor.numpy()) for path, tensor in model.state_dict().items())


def test_a_mapped_module_is_a_new_module_of_the_same_structure() -> None:
    model = Net()
    doubled = ag.tree.map(lambda leaf: leaf * 2, model)

    assert isinstance(doubled, Net)
    assert doubled.layers[1].gain.tolist() == [4.0] * 4
    assert doubled.layers[1].activation is np.tanh
    assert ag.tree.flatten(doubled)[1] == ag.tree.flatten(model)[1]
    model.eval()
    assert ag.tree.flatten(doubled)[1] != ag.tree.flatten(model)[1]


class Tied(nn.Module):
    def __init__(self) -> None:
        self.first, self.second = Layer(3, 3), Layer(3, 3)
        self.second.weight = self.first.weight

    def forward(self, x: Any) -> Any:
        return self.second(np.tanh(self.first(x)))


def test_a_mapped_module_keeps_its_ties_so_that_a_step_by_trees_is_that_of_an_optimizer() -> None:
    model, other = Tied(), Tied()
    optimizer = optim.SGD(other.parameters(), lr=0.01)
    for _ in range(3):
        grads = sync.func.grad(loss)(model, X)
        model = ag.tree.map(lambda param, grad: (param - 0.01 * grad).detach().requires_grad_(), model, grads)
        optimizer.step(sync.func.grad(loss)(other, X))

    assert model.second.weight is model.first.weight
    for param, expected in zip(model.parameters(), other.parameters(), strict=True):
        np.testing.assert_allclose(param.detach().numpy(), expected.detach().numpy())


class Mixed(nn.Module):
    """Has parameters and buffers that are frozen, by attribute and in a list, from the start and later."""

    def __init__(self) -> None:
        self.layer, self.frozen = Layer(3, 3), nn.Parameter(np.ones(3), requires_grad=False)
        self.listed = [nn.Parameter(np.ones(3)), nn.Parameter(np.ones(3), False), ag.tensor(np.ones(3)), np.arange(3)]
        self.layer.bias.requires_grad_(False)
        self.constant = ag.tensor(np.ones(3))

    def forward(self, x: Any) -> Any:
        return self.layer(x) * self.frozen * self.listed[0] * self.listed[1] * self.listed[2] * self.constant


def test_a_parameter_that_was_frozen_before_it_was_assigned_is_one() -> None:
    model = Mixed()

    names = {"frozen", "listed.0", "listed.1", "layer.weight", "layer.bias"}
    assert {name for name, _ in model.named_parameters()} == names
    assert {name for name, _ in model.named_buffers()} == {"listed.2", "constant"}
    assert not model.frozen.requires_grad
    assert "constant" not in model.state_dict()


def descend(model: Any, grads: Any) -> Any:
    with ag.no_grad():
        return ag.tree.map(lambda param, grad: param if grad is None else param - 0.01 * grad, model, grads)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_model_of_tensors_that_do_not_require_grad_is_trained_on_as_the_one_that_it_was_made_from(
    copied: Callable[[Any], Any],
) -> None:
    model, trained = Mixed(), Mixed()
    optimizer = optim.SGD(trained, lr=0.01)
    for _ in range(3):
        grads = sync.func.grad(loss)(model, X)
        assert {name for name, _ in grads.named_parameters()} == {"listed.0", "layer.weight"}
        model = copied(descend(model, grads))
        optimizer.step(sync.func.grad(loss)(trained, X))

    assert not any(param.requires_grad for param in model.parameters())
    for (name, param), (path, expected) in zip(model.named_parameters(), trained.named_parameters(), strict=True):
        assert name == path
        np.testing.assert_allclose(param.numpy(), expected.detach().numpy())


def test_a_model_of_arrays_is_differentiated_by_its_parameters() -> None:
    grads = sync.func.grad(loss)(ag.tree.map(lambda leaf: np.array(leaf.tolist()), Mixed()), X)
    expected = sync.func.grad(loss)(Mixed(), X)

    assert isinstance(grads.layer.weight, np.ndarray)
    np.testing.assert_allclose(grads.layer.weight, expected.layer.weight.detach().numpy())
    assert grads.constant is grads.frozen is grads.layer.bias is grads.listed[1] is None


def test_a_model_that_a_tree_function_made_is_frozen_as_any_other() -> None:
    model = ag.tree.map(lambda leaf: leaf.detach() if isinstance(leaf, ag.Tensor) else leaf, Mixed())
    model.layer.requires_grad_(False)
    grads = sync.func.grad(loss)(model, X)

    assert {name for name, _ in grads.named_parameters()} == {"listed.0"}


def test_train_and_eval_reach_all_modules() -> None:
    model = Net()
    model.eval()
    model(X)
    assert model.layers[1].count.item() == 0
    assert not any(module.training for module in model.modules())
    model.train()
    model(X)
    assert model.layers[1].count.item() == 1


def test_a_module_moves_to_a_dtype_and_a_device_with_its_gradients_and_ties() -> None:
    model = Net()
    sync.backward(loss(model, X))
    model.to("thread:0", np.float32)

    assert {param.dtype for param in model.parameters()} == {np.dtype(np.float32)}
    assert {tensor.device.name for tensor in ag.tree.leaves(model)} == {"thread:0"}
    assert model.layers[1].count.dtype == np.int64
    assert model.tied is model.layers[0].weight
    assert model.tied.requires_grad
    assert model.tied.grad is not None
    assert model.tied.grad.dtype == np.float32
    assert sorted(name for name, _ in model.named_parameters()) == sorted(PARAMETERS)
    with pytest.raises(ArgumentError, match="a module computes in a floating dtype, not int32"):
        model.to(np.int32)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_is_whole_and_has_its_own_tensors(copied: Callable[[Any], Any]) -> None:
    model = Net()
    other = copied(model)

    assert loss(other, X).item() == loss(model, X).item()
    assert other.tied is other.layers[0].weight
    assert other.tied is not model.tied
    assert [name for name, _ in other.named_parameters()] == [name for name, _ in model.named_parameters()]


def test_a_shallow_copy_has_the_same_tensors_and_its_own_attributes() -> None:
    model = Layer(3, 2)
    other = copy.copy(model)
    other.more = nn.Parameter(np.ones(1))

    assert other.weight is model.weight
    assert [name for name, _ in other.named_parameters()] == ["weight", "bias", "more"]
    assert [name for name, _ in model.named_parameters()] == ["weight", "bias"]
    assert model._record is not other._record
    other.register_forward_hook(lambda module, args, output: output * 0)
    assert model(X).any()


def test_apply_calls_the_innermost_modules_first() -> None:
    seen: list[str] = []
    Net().apply(lambda module: seen.append(type(module).__name__))

    assert seen == ["Layer", "Scale", "Layer", "Sequential", "Layer", "Net"]


def test_zero_grad_clears_gradients() -> None:
    model = Net()
    sync.backward(loss(model, X))
    model.zero_grad(set_to_none=False)
    assert all(param.grad is not None and not param.grad.numpy().any() for param in model.parameters())
    model.zero_grad()
    assert all(param.grad is None for param in model.parameters())


def test_a_repr_shows_options_shapes_and_the_number_of_parameters() -> None:
    model = nn.Sequential(Layer(3, 4), Scale(4))
    model[1].gain.requires_grad_(False)

    assert repr(model) == (
        "Sequential(\n"
        "  (0): Layer(inputs=3, weight (4, 3), bias (4,))\n"
        "  (1): Scale(gain (4,), mean (4,), cache (1,), count ())\n"
        ")  # 20 parameters, 4 of them frozen"
    )


def test_forward_hooks_change_arguments_and_outputs_until_they_are_removed() -> None:
    model = Layer(3, 2)
    plain = model(X).tolist()
    before = model.register_forward_pre_hook(lambda module, args: args[0] * 0)
    after = model.register_forward_hook(lambda module, args, output: output + 1)

    assert model(X).tolist() == [[1.0, 1.0]] * 5
    before.remove()
    after.remove()
    assert model(X).tolist() == plain


class Waits(nn.Module):
    def __init__(self, factor: float) -> None:
        self.factor = nn.Parameter(factor)

    async def forward(self, x: Any) -> Any:
        await asyncio.sleep(0)
        return x * self.factor


async def test_an_async_forward_is_awaited_in_a_sequence_and_by_hooks_and_transforms() -> None:
    model = nn.Sequential(Waits(3.0), Layer(3, 2), Waits(0.5))

    async def hook(module: Any, args: Any, output: Any) -> Any:
        await asyncio.sleep(0)
        return output * 2

    plain = await model(X)
    model.register_forward_hook(hook)

    async def total(model: Any) -> Any:
        return np.sum(await model(X))

    doubled = await model(X)
    grads = await ag.func.grad(total)(model)
    np.testing.assert_allclose(doubled.numpy(), 2 * plain.numpy())
    np.testing.assert_allclose(grads[1].bias.detach().numpy(), [5.0, 5.0])


def test_modules_obey_checkpoints_and_compiled_autograd() -> None:
    expected = sync.func.grad(loss)(Net(), X)
    model = Net().eval()
    sync.backward(np.sum(ag.checkpoint(model, ag.tensor(X), use_reentrant=False) ** 2))
    np.testing.assert_allclose(model.tied.grad.numpy(), expected.tied.detach().numpy())

    for _ in range(3):
        model.zero_grad()
        with ag.compiled_autograd():
            sync.backward(loss(model, X))
        np.testing.assert_allclose(model.tied.grad.numpy(), expected.tied.detach().numpy())


def test_lists_and_dicts_of_modules_are_those_of_python() -> None:
    first, second, third = Layer(1, 1), Layer(2, 2), Layer(3, 3)
    modules = nn.ModuleList([first])
    modules.append(third).insert(1, second)

    assert list(modules) == [first, second, third]
    assert modules[-1] is third
    assert list(modules[1:]) == [second, third]
    del modules[0]
    assert [name for name, _ in modules.named_parameters()] == ["0.weight", "0.bias", "1.weight", "1.bias"]
    named = nn.ModuleDict({"a": first})
    named["b"] = second
    assert list(named) == ["a", "b"]
    assert "b" in named
    del named["a"]
    assert list(named.items()) == [("b", second)]
    assert [name for name, _ in nn.Sequential({"x": first, "y": second}).named_children()] == ["x", "y"]
    assert isinstance(nn.Sequential(first, second)[:1], nn.Sequential)
    joined = modules + nn.ModuleList([first])
    assert list(joined) == [*modules, first]
    joined += [first]
    assert len(joined) == len(modules) + 2
    assert len(nn.Sequential(first) + nn.Sequential(second)) == 2
    parameters = nn.ParameterList([np.ones(2), ag.tensor([1.0])])
    assert [name for name, _ in parameters.named_parameters()] == ["0", "1"]
    assert parameters[0].requires_grad
    assert nn.ParameterDict({"w": np.ones(2)})["w"].requires_grad


def named_sizes(module: nn.Module) -> list[tuple[str, int]]:
    return [(name, child.in_features) for name, child in module.named_children()]  # type: ignore[misc]  # all are Linear


@pytest.mark.parametrize("kind", [nn.Sequential, nn.ModuleList])
def test_a_list_of_modules_has_the_methods_of_a_list_and_renumbers(kind: Any) -> None:
    modules = [nn.Linear(size, 1) for size in (1, 2, 3, 4)]
    held, python = (kind(*modules) if kind is nn.Sequential else kind(modules)), list(modules)
    extra = nn.Linear(5, 1)

    def check() -> None:
        assert named_sizes(held) == [(str(number), one.in_features) for number, one in enumerate(python)]

    assert held.pop(1) is python.pop(1)
    check()
    assert held.pop() is python.pop()
    check()
    held.insert(-1, extra)
    python.insert(-1, extra)
    check()
    held[np.int64(-1)] = python[-1] = nn.Linear(6, 1)
    check()
    python += (more := [nn.Linear(7, 1), nn.Linear(8, 1)])
    held.extend(iter(more))
    check()
    del held[1:3]
    del python[1:3]
    check()
    assert list(reversed(held)) == python[::-1]
    assert extra not in held
    with pytest.raises(ArgumentTypeError, match="holds modules"):
        held.extend([extra, 3])
    check()
    with pytest.raises(IndexError, match="none at index 9"):
        del held[9]


def test_modules_of_a_sequence_keep_their_names_in_a_part_of_it_and_when_others_come_and_go() -> None:
    first, second, third = (nn.Linear(size, 1) for size in (1, 2, 3))
    assert named_sizes(nn.Sequential(first, second, third)[1:]) == [("1", 2), ("2", 3)]
    assert named_sizes(nn.Sequential(first, second, third)[2:].append(first)) == [("2", 3), ("1", 1)]
    named = nn.Sequential({"a": first, "b": second})
    named.insert(0, third)
    named[1] = second
    del named[-1]
    assert named_sizes(named) == [("2", 3), ("a", 2)]
    twice = 2 * nn.Sequential(first, second)
    assert named_sizes(twice) == [("0", 1), ("1", 2)]
    assert list(twice) == [first, second, first, second]


def test_dicts_of_modules_and_of_parameters_have_the_methods_of_a_dict() -> None:
    first, second = nn.Linear(1, 1), nn.Linear(2, 1)
    modules = nn.ModuleDict([("a", first), ("b", second)])
    assert modules.pop("a") is first
    modules.update(nn.ModuleDict({"c": first}))
    assert list(modules) == ["b", "c"]
    modules.clear()
    assert list(modules.parameters()) == []
    params = nn.ParameterDict({"u": np.ones(1), "v": np.ones(2)})
    u, v = params["u"], params["v"]
    assert params.popitem() == ("v", v)
    assert params.get("v") is None
    assert params.setdefault("v", v) is v
    assert list(reversed(params)) == ["v", "u"]
    joined = params | {"w": np.ones(3)}
    assert list(joined.keys()) == ["u", "v", "w"]
    assert joined.pop("u") is u
    params |= joined
    assert [name for name, _ in params.copy().named_parameters()] == ["u", "v", "w"]
    assert list(params.fromkeys(["x", "y"], u).keys()) == ["x", "y"]
    params.clear()
    assert len(params) == 0
    listed = nn.ParameterList([u])
    listed += [v]
    assert list(listed) == [u, v]


def test_one_path_of_a_tensor_in_two_places_is_enough_to_load_it() -> None:
    model = nn.ModuleDict({"a": nn.Linear(2, 2, bias=False), "b": nn.Linear(2, 2, bias=False)})
    model["b"].weight = model["a"].weight
    for path in ("a.weight", "b.weight"):
        values = np.random.default_rng(0).standard_normal((2, 2))

        assert model.load_state_dict({path: values}) == ([], [])
        np.testing.assert_array_equal(model.get_parameter("b.weight").numpy(), values)
    with pytest.raises(ArgumentError, match=re.escape("a.weight is missing; b.weight is missing")):
        model.load_state_dict({})


def test_a_state_dict_of_pytorch_may_be_of_bfloat16() -> None:
    torch = pytest.importorskip("torch")
    peer = torch.nn.Linear(3, 2).bfloat16()
    layer = nn.Linear(3, 2)
    layer.load_state_dict(peer.state_dict())

    np.testing.assert_array_equal(layer.weight.numpy(), peer.weight.detach().double().numpy())


def test_the_dtype_of_a_module_may_be_given_by_its_name() -> None:
    assert nn.Linear(1, 1).to("float32").weight.dtype == np.float32
    assert nn.Linear(1, 1).to("cpu", "float32").weight.dtype == np.float32


def test_an_optimizer_takes_parameters_with_their_names() -> None:
    layer = nn.Linear(1, 1)
    for given in (layer.named_parameters(), list(layer.named_parameters()), [{"params": layer.named_parameters()}]):
        optimizer = optim.SGD(given)

        assert optimizer.param_groups[0]["params"] == [layer.weight, layer.bias]


def test_a_state_dict_may_have_a_prefix_and_the_tensors_themselves() -> None:
    layer = nn.Linear(1, 1)
    found = layer.state_dict(prefix="head.", keep_vars=True)

    assert list(found) == ["head.weight", "head.bias"]
    assert found["head.weight"] is layer.weight


def computed() -> Any:
    layer = Layer(3, 2)
    layer.weight = layer.weight * 2


BAD: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (computed, ArgumentError, "Layer.weight is a parameter, and Tensor of shape (2, 3)"),
    (lambda: setattr(Layer(3, 2), "weight", 3.0), ArgumentTypeError, "Layer.weight is a parameter, and cannot become"),
    (lambda: nn.Module()(1), NotImplementedError, "Module has no forward"),
    (lambda: nn.Sequential(Layer), ArgumentTypeError, "call it, to make an instance"),
    (lambda: nn.Sequential(np.tanh), ArgumentTypeError, "Sequential holds modules, and not the function tanh"),
    (lambda: nn.Sequential(np.tanh), ArgumentTypeError, "write a Module whose forward calls it"),
    (lambda: nn.Sequential([Layer(1, 1)]), ArgumentTypeError, "write nn.Sequential(*modules)"),
    (lambda: nn.ModuleList([Layer(1, 1)])(1), NotImplementedError, "for module in modules: x = module(x)"),
    (lambda: nn.ModuleDict({"a": Layer(1, 1)})(1), NotImplementedError, "modules['name'](x)"),
    (
        lambda: nn.Linear(1, 1)(None),
        ArgumentTypeError,
        "linear takes a tensor or an array as x, not NoneType None: does the",
    ),
    (lambda: nn.ModuleDict({"a.b": Layer(1, 1)}), ArgumentError, "a non-empty string without dots, not 'a.b'"),
    (lambda: nn.ModuleDict({"parameters": Layer(1, 1)}), ArgumentError, "'parameters' is an attribute of every"),
    (lambda: nn.ModuleList([Layer(1, 1)])[3], IndexError, "ModuleList has 1 modules, and none at index 3"),
    (lambda: nn.ModuleDict()["a"], KeyError, "there is no module 'a'"),
    (lambda: Layer(1, 1).register_buffer("mean", np.ones(1)), ArgumentTypeError, "mean must be a Tensor or None"),
    (lambda: Layer(1, 1).register_buffer("inputs", None), ArgumentError, "has an attribute 'inputs' already"),
    (lambda: Net().get_submodule("layers.9"), ArgumentError, "Net has no module 'layers.9': there are layers"),
    (lambda: Net().get_buffer("layers.0.weight"), ArgumentError, "Net has no buffer 'layers.0.weight': there are"),
    (lambda: Net().add_module("x", np.tanh), ArgumentTypeError, "module must be a Module, not the function tanh"),  # type: ignore[arg-type]
    (lambda: Net().get_parameter("x"), ArgumentError, "Net has no parameter 'x'"),
    (lambda: Net().load_state_dict([]), ArgumentTypeError, "state_dict must be a dict of tensors"),  # type: ignore[arg-type]
    (lambda: Layer(1, 1).train("yes"), ArgumentTypeError, "mode must be True or False"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("make", "error", "message"), BAD, ids=[message for _, _, message in BAD])
def test_bad_use_of_a_module_is_named(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        make()


def test_layers_are_shown_as_pytorch_shows_them() -> None:
    shown = {
        nn.Linear(2, 3): "in_features=2, out_features=3, bias=True",
        nn.Bilinear(2, 3, 4, bias=False): "in1_features=2, in2_features=3, out_features=4, bias=False",
        nn.InstanceNorm1d(3): "3, eps=1e-05, momentum=0.1, affine=False, bias=False, track_running_stats=False",
        nn.LayerNorm(3, bias=False): "(3,), eps=1e-05, elementwise_affine=True, bias=False",
        nn.GroupNorm(1, 3): "1, 3, eps=1e-05, affine=True, bias=True",
        nn.Conv1d(2, 3, 3, padding="same"): "2, 3, kernel_size=(3,), stride=(1,), padding=same",
        nn.AvgPool1d(2): "kernel_size=(2,), stride=(2,), padding=(0,)",
        nn.LPPool1d(2, 3): "norm_type=2, kernel_size=3, stride=None, ceil_mode=False",
        nn.ConstantPad1d(1, 2): "padding=(1, 1), value=2",
        nn.ConstantPad1d(1, -math.inf): "padding=(1, 1), value=-inf",
        nn.Softshrink(): "0.5",
        nn.Hardshrink(2): "2",
        nn.ReLU(inplace=True): "inplace=True",
        nn.LeakyReLU(0.2, inplace=True): "negative_slope=0.2, inplace=True",
        nn.Hardtanh(-math.inf, 1): "min_val=-inf, max_val=1",
        nn.Dropout(): "p=0.5, inplace=False",
        nn.BatchNorm1d(3, 1, 0): "3, eps=1, momentum=0, affine=True, bias=True, track_running_stats=True",
        nn.Embedding(3, 2, max_norm=1, norm_type=math.inf): "3, 2, max_norm=1, norm_type=inf",
        nn.MaxUnpool1d(3): "kernel_size=(3,), stride=(3,), padding=(0,)",
        nn.ConvTranspose1d(2, 3, 3, 2, output_padding=1): "2, 3, kernel_size=(3,), stride=(2,), output_padding=(1,)",
    }

    assert [layer.extra_repr() for layer in shown] == list(shown.values())


def test_a_missing_argument_is_one_of_the_class_that_is_written() -> None:
    classes = [one for name in nn.__all__ if isinstance(one := getattr(nn, name), type) and issubclass(one, nn.Module)]
    makers = {one.__name__: one.__init__ for one in classes if one.__init__ is not object.__init__}

    assert len(makers) > 100
    assert [name for name, maker in makers.items() if maker.__qualname__ != f"{name}.__init__"] == []
    with pytest.raises(TypeError, match=r"Conv2d\.__init__\(\) missing 1 required positional argument: 'kernel_size'"):
        nn.Conv2d(3, 8)  # type: ignore[call-arg]
