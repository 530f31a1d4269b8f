"""A call that follows one like it is known by its parts: a model that has changed since is another call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn
from asyncgrad.tracing.last_call import LastCall
from tests.tracing.running import bits


class Block(nn.Module):
    """A model of a user, with attributes of many kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.parts = [nn.Linear(3, 3), nn.Tanh()]
        self.named = {"last": nn.Linear(3, 3)}
        self.factor = 0.5
        self.zero = 0.0
        self.sizes = (1, 2)
        self.numbers = [1.0, 2.0]
        self.word = "relu"
        self.act = np.tanh
        self.nothing = None
        self.register_buffer("shift", ag.tensor(np.ones(3)))

    def scale(self) -> float:
        return self.factor

    def forward(self, x: Any) -> Any:
        x = self.act(self.linear(x)) * self.scale() + self.shift * self.sizes[0]
        for one in self.parts:
            x = one(x)
        x = self.named["last"](x) + self.numbers[0] + np.copysign(1.0, self.zero)
        x = nn.relu(x) if self.word == "relu" else -x
        return x if self.nothing is None else x + self.nothing


def replace_method(model: Block) -> None:
    type(model).scale = lambda self: 0.25  # type: ignore[method-assign]


CHANGES: dict[str, Callable[[Block], Any]] = {
    "float": lambda model: setattr(model, "factor", 0.75),
    "sign of zero": lambda model: setattr(model, "zero", -0.0),
    "tuple": lambda model: setattr(model, "sizes", (2, 2)),
    "list": lambda model: model.numbers.__setitem__(0, 3.0),
    "string": lambda model: setattr(model, "word", "none"),
    "function": lambda model: setattr(model, "act", np.sin),
    "None": lambda model: setattr(model, "nothing", 1.0),
    "parameter in the place of None": lambda model: setattr(model, "nothing", nn.Parameter(np.ones(3))),
    "method": replace_method,
    "method of the object": lambda model: setattr(model, "scale", lambda: 0.125),
    "part": lambda model: model.parts.__setitem__(1, nn.Sigmoid()),
    "parts swapped": lambda model: model.parts.reverse(),
    "further part": lambda model: model.parts.append(nn.Tanh()),
    "named part": lambda model: model.named.__setitem__("last", nn.Identity()),
    "child": lambda model: setattr(model, "linear", nn.Sequential(nn.Linear(3, 3), nn.Tanh())),
    "hook": lambda model: model.register_forward_hook(lambda module, args, result: result * 2),
    "hook of a child": lambda model: model.linear.register_forward_pre_hook(lambda module, args: (args[0] * 2,)),
    "no bias": lambda model: setattr(model.linear, "bias", None),
    "buffer": lambda model: setattr(model, "shift", ag.tensor(np.zeros(1))),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_model_that_has_changed_is_computed_as_it_is(change):
    method = Block.scale
    ag.random.seed(0)
    model = Block()

    def function(x):
        return np.sum(model(x))

    jitted = ag.jit(function, verify=0)
    x = np.linspace(-1.0, 1.0, 6).reshape(2, 3)
    for _ in range(4):
        jitted(x)
    assert jitted.counts["replayed"] == 2
    assert isinstance(jitted._last_call, LastCall)
    before = bits(function(x))

    try:
        CHANGES[change](model)

        assert bits(jitted(x)) == bits(function(x)) != before
    finally:
        Block.scale = method  # type: ignore[method-assign]


def test_a_model_is_taken_apart_without_its_structure():
    model = nn.Sequential(nn.Linear(3, 3), nn.Conv1d(1, 1, 3), nn.Dropout(0.5))

    def function(x):
        return np.sum(model[0](x))

    jitted = ag.jit(function, verify=0)
    for _ in range(3):
        jitted(np.ones((2, 3)))

    used = jitted._last_call._parts_of.__code__.co_names
    assert "has_layout" in used
    assert not {"flatten", "key_of_structure", "key_of_class"} & {*used}


def test_models_of_one_class_change_places_with_their_parameters():
    models = [nn.Linear(3, 2), nn.Linear(3, 2)]

    def function(x, model):
        return np.sum(model(x) ** 2)

    jitted = ag.jit(function, verify=0)
    x = np.ones((2, 3))
    for number in range(8):
        assert bits(jitted(x, models[number % 2])) == bits(function(x, models[number % 2]))
    assert jitted.counts["replayed"] == 6
