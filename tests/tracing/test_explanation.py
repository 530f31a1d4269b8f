"""`ag.jit.explain` shows the program of a call and its guards, or why there is none."""

from __future__ import annotations

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn
from asyncgrad.errors import ArgumentTypeError
from tests.support.leaves import leaf


def test_a_program_is_shown_call_by_call_with_its_guards():
    explanation = ag.jit.explain(lambda x, y, n: (np.sin(x) * y + n).sum(), leaf(1.0, 2.0), np.ones((2, 2)).T, 3)

    assert explanation.reason is None
    assert explanation.guards == [
        "Tensor of shape (2,) and dtype float64, requires grad",
        "array of shape (2, 2) and dtype float64 and strides (8, 16)",
        "3",
    ]
    assert explanation.forward == [
        "%2 = sin(%0)",
        "%3 = multiply(%2, %1)",
        "%4 = add(%3, 3)",
        "%5 = add.reduce(%4, axis=None, keepdims=False)",
    ]
    assert str(explanation).splitlines()[0].startswith("a program of 4 calls forward and ")


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(np.ones(2))

    @ag.jit(static="power")
    def forward(self, x, power):
        return (self.weight * x) ** power


def test_a_method_is_explained_with_its_object_and_its_static_arguments():
    explanation = ag.jit.explain(Scaled().forward, np.ones(2), 2)

    assert explanation.reason is None
    assert explanation.guards == [
        "Tensor of shape (2,) and dtype float64, requires grad",
        "array of shape (2,) and dtype float64",
        "static 2",
    ]


@pytest.mark.parametrize("transform", [ag.func.value_and_grad, ag.sync.func.grad])
@pytest.mark.parametrize("compiled", [True, False])
def test_the_gradient_of_a_function_is_explained_as_one_program(transform, compiled):
    def function(x):
        return (np.sin(x) * 2).sum()

    explanation = ag.jit.explain(transform(ag.jit(function) if compiled else function), np.ones(2))

    assert explanation.reason is None
    assert any("cos" in line for line in explanation.forward)
    assert explanation.backward == []


def test_what_is_read_besides_the_arguments_is_a_guard():
    settings, rate = {"scale": np.ones(2), "power": 3}, 2.0

    def function(x, by=3):
        return half(x * settings["scale"] * rate * by)

    guards = ag.jit.explain(function, leaf(1.0, 2.0)).guards

    assert guards[1:] == [
        "closure rate: float 2.0",
        "closure settings: array of shape (2,) and dtype float64",
        "closure settings: 3",
        "global half: the function half",
        "default 0: int 3",
    ]


def test_a_map_is_explained_by_the_function_that_it_maps():
    with pytest.raises(ArgumentTypeError, match="pass the function that it maps, with one row"):
        ag.jit.explain(ag.func.vmap(half), np.ones((3, 2)))


def half(x):
    return x / 2


def test_what_makes_arrays_of_its_own_is_named():
    explanation = ag.jit.explain(lambda x: np.where(x > 0, x, 0.0), leaf(1.0, 2.0))

    assert explanation.opaque == ["where"]
    assert "results are copied of where" in str(explanation)


def test_where_there_is_no_program_the_reason_is_told():
    assert str(ag.jit.explain(lambda x: x[:1], leaf(1.0, 2.0))).startswith("eager: it returns a view of an argument")


def test_stats_tell_of_each_compiled_function():
    @ag.jit
    def doubled(x):
        return x * 2

    doubled(leaf(1.0))

    assert ag.jit.stats()[doubled.name] == {"calls": 1, "eager: not traced yet": 1}
    assert repr(doubled) == f"<ag.jit of {doubled.name}: 0 of 1 calls replayed>"
    assert repr(ag.jit) == "ag.jit"
