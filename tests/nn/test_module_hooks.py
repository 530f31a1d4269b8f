"""Hooks of a module's backward and of its state, extra state, modules put at a path, and parameters as one vector."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.errors import ArgumentError, HookError


def line() -> nn.Linear:
    model = nn.Linear(2, 3)
    model.load_state_dict({"weight": np.arange(6.0).reshape(3, 2), "bias": np.zeros(3)})
    return model


def test_backward_hooks_see_and_replace_the_gradients_of_outputs_and_arguments() -> None:
    model, seen = line(), []
    x = ag.tensor([[1.0, 2.0]], requires_grad=True)

    def double(module: nn.Module, grad_output: Any) -> Any:
        return (grad_output[0] * 2,)

    def triple(module: nn.Module, grad_input: Any, grad_output: Any) -> Any:
        seen.append((module is model, grad_input[0].tolist(), grad_output[0].tolist()))
        return (grad_input[0] * 3,)

    with model.register_full_backward_pre_hook(double), model.register_full_backward_hook(triple):
        sync.backward(model(x).sum())

    assert seen == [(True, [[12.0, 18.0]], [[2.0, 2.0, 2.0]])]
    assert x.grad is not None
    assert x.grad.tolist() == [[36.0, 54.0]]
    assert model.weight.grad is not None
    assert model.weight.grad.tolist() == [[2.0, 4.0]] * 3
    sync.backward(model(x).sum())
    assert len(seen) == 1


def test_a_backward_hook_may_be_async_and_is_called_where_no_argument_requires_grad() -> None:
    model, seen = line(), []

    async def note(module: nn.Module, grad_input: Any, grad_output: Any) -> None:
        seen.append((grad_input, grad_output[0].tolist()))

    model.register_full_backward_hook(note)
    sync.backward(model(np.ones((1, 2))).sum())

    assert seen == [((None,), [[1.0, 1.0, 1.0]])]


def test_a_backward_hook_that_returns_gradients_of_another_number_is_an_error() -> None:
    model = line()
    model.register_full_backward_hook(lambda module, grad_input, grad_output: grad_input * 2)

    with pytest.raises(HookError, match="returns None or 1 gradients"):
        sync.backward(model(ag.tensor([1.0, 2.0], requires_grad=True)).sum())


class Counter(nn.Module):
    def __init__(self) -> None:
        self.scale = nn.Parameter(np.ones(1))
        self.count = 0

    def get_extra_state(self) -> Any:
        return {"count": self.count}

    def set_extra_state(self, state: Any) -> None:
        self.count = state["count"]


def test_an_extra_state_is_in_the_state_dict_and_is_loaded() -> None:
    model, other = nn.Sequential(Counter()), nn.Sequential(Counter())
    model[0].count = 3
    state = model.state_dict()

    assert state["0._extra_state"] == {"count": 3}
    other.load_state_dict(state)
    assert other[0].count == 3
    del state["0._extra_state"]
    with pytest.raises(ArgumentError, match="_extra_state is missing"):
        other.load_state_dict(state)


def test_hooks_of_a_state_dict_may_rename_what_is_saved_and_loaded() -> None:
    def forget(module: nn.Module, state: dict[str, Any], prefix: str, metadata: Any) -> None:
        del state[prefix + "bias"]

    def rename(module: nn.Module, state: dict[str, Any], prefix: str, *others: Any) -> None:
        state[prefix + "bias"] = state.pop(prefix + "old")

    model, calls = nn.Sequential(line()), []
    model[0].register_load_state_dict_pre_hook(rename)
    model.register_load_state_dict_post_hook(lambda module, keys: calls.append(keys))
    model[0].register_state_dict_pre_hook(lambda module, prefix, keep_vars: calls.append(prefix))
    given = {"0.weight": np.zeros((3, 2)), "0.old": np.ones(3)}
    found = model.load_state_dict(given)

    assert model[0].bias.tolist() == [1.0, 1.0, 1.0]
    assert "0.old" in given
    model[0].register_state_dict_post_hook(forget)
    assert list(model.state_dict()) == ["0.weight"]
    assert calls == [found, "0."]


def test_a_module_is_put_at_a_path() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU()))
    model.set_submodule("1.0", nn.Tanh())
    model.set_submodule("0", line())

    assert isinstance(model.get_submodule("1.0"), nn.Tanh)
    assert model[0].bias.tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(ArgumentError, match=r"has no module '1\.name'"):
        model.set_submodule("1.name", nn.Tanh(), strict=True)


def test_a_model_changes_its_precision() -> None:
    model = line()

    assert [getattr(model, name)().weight.dtype.name for name in ("half", "float", "double")] == [
        "float16",
        "float32",
        "float64",
    ]


def test_parameters_become_one_vector_with_a_history_and_take_one_over() -> None:
    model = line()
    vector = nn.utils.parameters_to_vector(model.parameters())
    sync.backward((vector * np.arange(9.0)).sum())

    assert vector.tolist() == [*np.arange(6.0), 0.0, 0.0, 0.0]
    assert model.bias is not None
    assert model.bias.grad is not None
    assert model.bias.grad.tolist() == [6.0, 7.0, 8.0]
    nn.utils.vector_to_parameters(np.arange(9.0)[::-1].copy(), model.parameters())
    assert model.bias.tolist() == [2.0, 1.0, 0.0]
    with pytest.raises(ArgumentError, match="a vector of 9 elements"):
        nn.utils.vector_to_parameters(np.zeros(8), model.parameters())


class Scaled(nn.Module):
    """Returns x times a factor that is given by name."""

    def forward(self, x: Any, *, factor: float = 1.0) -> Any:
        if factor == 0:
            raise ZeroDivisionError("nothing is left")
        return x * factor


def test_forward_hooks_take_keyword_arguments_and_come_first_where_they_ask_for_it() -> None:
    model, seen = Scaled(), []
    model.register_forward_pre_hook(lambda module, args: seen.append("last"))
    model.register_forward_pre_hook(
        lambda module, args, kwargs: ((args[0] + 1,), {"factor": kwargs["factor"] * 2}), prepend=True, with_kwargs=True
    )
    model.register_forward_hook(lambda module, args, output: output + 100)
    model.register_forward_hook(
        lambda module, args, kwargs, output: seen.append((args, kwargs, output)), prepend=True, with_kwargs=True
    )

    assert model(1.0, factor=3.0) == 112.0
    assert seen == ["last", ((2.0,), {"factor": 6.0}, 12.0)]


def test_a_forward_pre_hook_with_kwargs_returns_both_kinds_of_arguments() -> None:
    model = Scaled()
    model.register_forward_pre_hook(lambda module, args, kwargs: args, with_kwargs=True)

    with pytest.raises(HookError, match="returns None or a tuple of args and a dict"):
        model(1.0)


class Waiting(nn.Module):
    """Fails after it has waited."""

    async def forward(self, x: Any) -> Any:
        await asyncio.sleep(0)
        raise ZeroDivisionError("nothing is left")


@pytest.mark.parametrize("make", [Scaled, Waiting])
def test_a_hook_that_is_always_called_sees_that_forward_has_failed(make: Any) -> None:
    model, seen = make(), []

    def fail(*arguments: Any) -> None:
        raise KeyError("hook")

    model.register_forward_hook(lambda module, args, output: seen.append("not called"))
    model.register_forward_hook(lambda module, args, output: seen.append((args, output)), always_call=True)
    model.register_forward_hook(fail, always_call=True)

    async def call() -> None:
        result = model(1.0, **({"factor": 0} if make is Scaled else {}))
        await result

    with pytest.raises(ZeroDivisionError) as caught:
        ag.run(call())
    assert seen == [((1.0,), None)]
    assert "which is always called, raised KeyError('hook')" in caught.value.__notes__[0]


def test_a_state_is_assigned_with_its_arrays_and_dtypes() -> None:
    model = nn.Sequential(line(), nn.BatchNorm1d(3))
    model[0].bias.requires_grad_(False)
    state = {path: tensor.numpy().astype(np.float32) for path, tensor in model.state_dict().items()}
    state["1.num_batches_tracked"] = np.array(5)
    model.load_state_dict(state, assign=True)

    assert np.shares_memory(model[0].weight.numpy(), state["0.weight"])
    assert {tensor.dtype.name for tensor in model.parameters()} == {"float32"}
    assert [tensor.requires_grad for tensor in model.parameters()] == [True, False, True, True]
    assert list(model.state_dict()) == list(state)
    kept = model[0].weight
    with pytest.raises(ArgumentError, match=r"0\.weight is a parameter, and has dtype int64"):
        model.load_state_dict({**state, "0.weight": np.zeros((3, 2), int)}, assign=True)
    assert model[0].weight is kept


def test_an_assigned_state_that_is_refused_leaves_lazy_layers_lazy() -> None:
    model = nn.Sequential(line(), nn.LazyLinear(1))
    state = nn.Sequential(line(), nn.Linear(3, 1)).state_dict()

    with pytest.raises(ArgumentError, match=r"0\.weight is a parameter"):
        model.load_state_dict({**state, "0.weight": np.zeros((3, 2), int)}, assign=True)
    assert type(model[1]) is nn.LazyLinear
