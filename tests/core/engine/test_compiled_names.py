"""Laws of compiled autograd: whatever users call their classes and functions, the source that is generated is right."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import extend, sync
from asyncgrad.graph import Edge, GradientEdge, Node, TraceableNode
from tests.support.arrays import bits
from tests.support.leaves import leaf
from tests.support.settings import compiled_after

pytestmark = pytest.mark.usefixtures("cache", "compiled_where_asked")

#: Several lines, quotes, no names at all, what Python keeps for itself, what it takes for the same, and what the
#: generated source calls something else.
NAMES = [
    "Two\n    raise SystemExit\n#",
    "Two\rlines",
    "Two\u2028lines",
    "Quo'te\"s",
    "with blank",
    "\\",
    "$g",
    "<lambda>",
    "",
    "0digit",
    "class",
    "None",
    "len",
    "tuple",
    "\ufb01",
    "caf\u00e9",
    "n0",
    "task",
    "GuardFailed",
    "is_elsewhere",
]


class Doubling(Node):
    """A node of the tests' own."""

    def apply(self, grads: Any) -> Any:
        return (grads[0] * 2,)


class TraceableDoubling(TraceableNode):
    def apply(self, grads: Any) -> Any:
        return (grads[0] * 2,)


def tripled(traceable: bool, name: str) -> Any:
    class Tripled(ag.Function):
        is_traceable = traceable

        @staticmethod
        def forward(ctx, x):
            return x * 3.0

        @staticmethod
        def backward(ctx, grad):
            return grad * 3.0

    Tripled.__name__ = name
    return Tripled


def roots_behind(kind: type[Node], x: Any) -> list[Any]:
    """A node of this kind beside one of a primitive, so that the function has to look which one an edge leads to."""
    value = np.sin(x)
    edge = ag.graph.get_gradient_edge(value)
    node = kind([Edge(*edge)], [edge.node.input_metadata[0]])
    return [GradientEdge(node, 0), (value * value).sum()]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("base", [Doubling, TraceableDoubling])
def test_a_class_of_nodes_may_have_any_name(cache, base, name):
    kind = type(base)("Kind", (base,), {})
    kind.__name__ = name
    found = []
    for after in (10**9, 0, 0):
        x = leaf(0.5)
        with compiled_after(after):
            sync.backward(roots_behind(kind, x), [np.ones(1), None])
        found.append(bits(x.grad))

    assert found[0] == found[1] == found[2]
    assert cache.stats().hits == 2


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("traceable", [False, True])
def test_a_function_may_have_any_name(cache, traceable, name):
    function = tripled(traceable, name)
    found = []
    for after in (10**9, 0, 0):
        x = leaf(0.5)
        with compiled_after(after):
            sync.backward(np.sin(function.apply(np.cos(x))))
        found.append(bits(x.grad))

    assert found[0] == found[1] == found[2]
    assert cache.stats().hits == 2


@pytest.mark.parametrize("name", NAMES)
def test_a_primitive_may_have_any_name(cache, name):
    def doubled(x):
        return np.multiply(x, 2.0)

    doubled.__name__ = name
    made = extend.primitive()(doubled)
    extend.derivative(made, "x")(lambda g: g * 2.0)
    found = []
    for after in (10**9, 0, 0):
        x = leaf(0.5)
        with compiled_after(after):
            sync.backward(np.sin(made(np.cos(x))))
        found.append(bits(x.grad))

    assert found[0] == found[1] == found[2]
    assert cache.stats().hits == 2


def test_a_name_that_is_none_is_shown_in_one_line():
    function = tripled(False, "Two\nlines")
    x = leaf(0.5)
    with compiled_after(0):
        y = np.sin(function.apply(x))
        sync.backward(y)
    source = ag.engine.compiled_source(y)

    assert "# 'Two\\nlinesBackward, 1 inputs'" in source
    assert all(line.startswith(("async def", "    ")) for line in source.splitlines())


def test_no_class_takes_the_place_of_a_function_that_the_source_calls():
    kind = type(Node)("len", (Doubling,), {})
    x = leaf(0.5)
    with compiled_after(0):
        roots = roots_behind(kind, x)
        sync.backward(roots, [np.ones(1), None])

    assert ".__class__ is not len_2 " in ag.engine.compiled_source(roots)
    assert builtins.len is len
