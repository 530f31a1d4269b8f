"""A program runs for calls that are like the traced one in all but the numbers of arrays, and for no other."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from tests.support.leaves import leaf
from tests.tracing.running import bits, compiled

SCALE = 2.0
SETTINGS = {"scale": 2.0}
WEIGHTS = ag.tensor([1.0, 2.0], requires_grad=True)
HELPERS = types.ModuleType("helpers")
exec("SCALE = 2.0\ndef scaled(x):\n    return x * SCALE", vars(HELPERS))  # noqa: S102  # a module of its own


def test_each_kind_of_argument_has_the_result_of_the_function():
    function = ag.jit(lambda x: x * 2 + 1, verify=0)
    kinds: list[Any] = [
        leaf(1.0, 2.0),
        ag.tensor([1.0, 2.0]),
        leaf(1.0, 2.0, 3.0),
        ag.tensor(np.float32([1.0, 2.0])),
        ag.asarray(np.arange(4.0)[::2]),
        np.array([1.0, 2.0]),
        ag.tensor([1, 2]),
    ]

    for _ in range(4):
        for x in kinds:
            found, expected = function(x), x * 2 + 1
            assert bits(found) == bits(expected)
            assert type(found) is type(expected)
            assert getattr(found, "requires_grad", None) == getattr(expected, "requires_grad", None)
    assert function.counts["replayed"] == 2 * len(kinds)


@pytest.mark.parametrize(("first", "second"), [(1, 1.0), (1, True), (0.0, -0.0), ("a", b"a"), (1.0, np.float64(1.0))])
def test_numbers_that_are_equal_are_not_taken_for_each_other(first, second):
    jitted = ag.jit(lambda x, kind: (x, repr(kind)), verify=0)

    for _ in range(4):
        assert (jitted(leaf(1.0), first)[1], jitted(leaf(1.0), second)[1]) == (repr(first), repr(second))


def test_grad_mode_and_the_default_dtype_are_guarded():
    jitted = compiled(lambda x: x * np.ones(2) + ag.tensor([1.0, 2.0]), leaf(1.0, 2.0))

    with ag.no_grad():
        assert not jitted(leaf(1.0, 2.0)).requires_grad
    assert jitted(leaf(1.0, 2.0)).requires_grad


def test_static_arguments_are_compared_by_their_own_equality():
    class Size:
        def __init__(self, number):
            self.number = number

        def __eq__(self, other):
            return isinstance(other, Size) and other.number == self.number

        def __hash__(self):
            return hash(self.number)

    jitted = ag.jit(lambda x, size: x * size.number, static="size", verify=0)

    for number in (2, 3, 2, 3, 2, 3, 2):
        assert jitted(leaf(1.0), Size(number)).tolist() == [number]
    assert jitted.counts["replayed"] == 3


@pytest.mark.parametrize(("one", "other"), [(0.0, -0.0), ((1, 0.0), (1, -0.0)), ((1,), (True,)), ((1,), (1.0,))])
def test_static_numbers_that_are_equal_and_not_the_same_have_programs_of_their_own(one, other):
    jitted = ag.jit(lambda x, static: x * len(repr(static)), static="static", verify=0)

    for value in (one, other) * 4:
        assert jitted(leaf(1.0), value).tolist() == [len(repr(value))]
    assert jitted.counts["replayed"] == 4


def test_the_mode_and_each_attribute_of_a_module_are_guarded():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = 2.0

        def forward(self, x):
            return x * (self.factor if self.training else 1.0)

    model = nn.Sequential(Scaled())
    jitted = compiled(lambda model, x: model(x), model, leaf(1.0))

    assert jitted(model, leaf(1.0)).tolist() == [2.0]
    model.eval()
    assert jitted(model, leaf(1.0)).tolist() == [1.0]
    model.train()
    model[0].factor = 5.0
    assert jitted(model, leaf(1.0)).tolist() == [5.0]


def after(module, given, result):
    return np.tanh(result)


def before(module, given):
    return np.tanh(given[0])


@pytest.mark.parametrize(
    ("kind", "hook"), [("register_forward_hook", after), ("register_forward_pre_hook", before)], ids=["after", "before"]
)
def test_the_forward_hooks_of_a_module_are_guarded(kind, hook):
    model = nn.Linear(2, 2)
    jitted = compiled(lambda model, x: model(x), model, np.ones((1, 2)))
    handles = []
    for call in range(20):
        if call in (4, 8):
            handles.append(getattr(model, kind)(hook))
        if call == 12:
            handles.pop(0).remove()
        x = np.full((1, 2), call * 0.1)
        assert bits(jitted(model, x).detach()) == bits(model(x).detach())
    assert jitted.counts["replayed"] > 10, dict(jitted.counts)


def test_a_global_number_may_change(monkeypatch):
    jitted = compiled(lambda x: x * SCALE, leaf(1.0))
    monkeypatch.setitem(globals(), "SCALE", 3.0)

    assert jitted(leaf(1.0)).tolist() == [3.0]


def test_a_global_dict_may_change(monkeypatch):
    jitted = compiled(lambda x: x * SETTINGS["scale"], leaf(1.0))
    monkeypatch.setitem(SETTINGS, "scale", 3.0)

    assert jitted(leaf(1.0)).tolist() == [3.0]


def test_what_a_module_of_the_user_has_may_change(monkeypatch):
    jitted = compiled(lambda x: x * HELPERS.SCALE, leaf(1.0))
    monkeypatch.setattr(HELPERS, "SCALE", 3.0)

    assert jitted(leaf(1.0)).tolist() == [3.0]


def test_what_a_function_reads_that_it_calls_may_change(monkeypatch):
    jitted = compiled(lambda x: HELPERS.scaled(x), leaf(1.0))
    monkeypatch.setattr(HELPERS, "SCALE", 3.0)

    assert jitted(leaf(1.0)).tolist() == [3.0]


def test_a_closure_may_change():
    factor = 2.0

    def function(x):
        return x * factor

    jitted = compiled(function, leaf(1.0))
    factor = 3.0

    assert jitted(leaf(1.0)).tolist() == [3.0]


def test_a_global_tensor_is_an_argument_that_gets_its_gradient(monkeypatch):
    jitted = compiled(lambda x: (x * WEIGHTS).sum(), leaf(1.0, 1.0))
    other = ag.tensor([5.0, 7.0], requires_grad=True)
    monkeypatch.setitem(globals(), "WEIGHTS", other)

    found = jitted(leaf(1.0, 1.0))
    sync.backward(found)

    assert found.item() == 12.0
    assert other.grad.tolist() == [1.0, 1.0]


def test_a_number_on_which_the_way_depends_is_compared_in_each_run():
    def function(x):
        return x * 2 if x.sum() > 0 else x * 3

    jitted = compiled(function, leaf(1.0))

    assert jitted(leaf(-1.0)).tolist() == [-3.0]
    assert jitted(leaf(1.0)).tolist() == [2.0]
    for _ in range(3):
        jitted(leaf(-1.0))
    assert jitted.counts["failed checks"] > 0
    before = jitted.counts["replayed"]
    assert (jitted(leaf(-1.0)).tolist(), jitted(leaf(1.0)).tolist()) == ([-3.0], [2.0])
    assert jitted.counts["replayed"] == before + 2


def test_after_eight_ways_it_is_eager_for_good():
    jitted = ag.jit(lambda x: x * float(x.sum()), verify=0)

    for number in range(20):
        assert jitted(leaf(float(number))).tolist() == [number**2]
    assert jitted.counts["eager: more than 8 programs, by the numbers on which its way depends"] > 0


def test_after_eight_kinds_of_arguments_others_are_eager():
    jitted = ag.jit(lambda x: x * 2, verify=0)

    for _ in range(3):
        for length in range(1, 13):
            assert jitted(ag.tensor(np.ones(length))).tolist() == [2.0] * length
    assert jitted.counts["eager: more than 8 kinds of arguments"] == 12


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        (ag.detect_anomaly, "anomaly mode"),
        (lambda: ag.graph.node_creation_hook(lambda node: None), "somebody looks at what is recorded"),
        (lambda: ag.default_device("null:0"), "a default device"),
    ],
)
def test_where_somebody_looks_it_is_eager_and_says_so(mode, reason):
    jitted = compiled(lambda x: x * 2, leaf(1.0))

    with mode():
        assert jitted(leaf(1.0)).tolist() == [2.0]
    assert f"eager: {reason}" in jitted.counts


def test_tensors_of_other_devices_are_eager():
    jitted = ag.jit(lambda x: x * 2)
    for _ in range(4):
        jitted(ag.tensor([1.0], device="thread:0"))

    assert jitted.counts["eager: device 'thread:0'"] == 4
