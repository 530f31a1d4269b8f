"""core/graph/calls.py: what a frame is calling, when it calls a function that has no frame of its own."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from asyncgrad.core.graph.calls import Call, call_of


class Asked:
    """What notes the call that asks it for a number or an array."""

    seen: Call | None = None

    def __float__(self) -> float:
        self.seen = call_of(sys._getframe(1))
        return 1.0

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        self.seen = call_of(sys._getframe(1))
        return np.array(1.0)

    def __iter__(self) -> Any:
        self.seen = call_of(sys._getframe(1))
        return iter(())

    def __getitem__(self, index: Any) -> None:
        self.seen = call_of(sys._getframe(1))

    def __setitem__(self, index: Any, value: Any) -> None:
        self.seen = call_of(sys._getframe(1))


VECTOR, RNG = np.ones(3), np.random.default_rng(0)


def _with_a_local(one: Any) -> None:
    convert = float
    convert(one)


def _write(one: Any) -> None:
    one[0] = 1


def _of_a_closure(convert: Any) -> Callable[[Any], None]:
    return lambda one: convert(one)


CALLS: dict[str, tuple[Callable[[Any], Any], str, Any, Any]] = {
    "a builtin": (lambda one: float(one), "float", float, None),
    "a local": (_with_a_local, "convert", float, None),
    "a closure": (_of_a_closure(float), "convert", float, None),
    "of a module": (lambda one: math.sqrt(one), "math.sqrt", math.sqrt, None),
    "a ufunc": (lambda one: np.sqrt([one]), "np.sqrt", np.sqrt, None),
    "of a module of a module": (lambda one: os.path.sep.join(one), "os.path.sep.join", str.join, os.sep),
    "a method": (lambda one: VECTOR.dot(one), "VECTOR.dot", np.ndarray.dot, VECTOR),
    "a method of a generator": (lambda one: RNG.normal(one), "RNG.normal", np.random.Generator.normal, RNG),
    "a method of a result": (
        lambda one: np.random.default_rng(0).normal(one),
        "np.random.default_rng().normal",
        None,
        None,
    ),
    "an argument of another call": (lambda one: max(float(one), float(2)), "float", float, None),
    "with keywords": (lambda one: np.array(object=one, dtype=float), "np.array", np.array, None),
    "an operation": (lambda one: "%f" % one, "%", None, None),  # noqa: UP031
    "an index": (lambda one: one[0], "[]", None, None),
    "a write": (lambda one: _write(one), "[]=", None, None),
}


@pytest.mark.parametrize(("make", "name", "function", "owner"), CALLS.values(), ids=CALLS)
def test_a_call_is_told_by_the_names_it_is_written_with(make, name, function, owner):
    asked = Asked()
    make(asked)

    assert asked.seen is not None
    assert asked.seen.name == name
    assert function is None or asked.seen.function == function
    assert asked.seen.owner is owner


def test_no_code_of_the_user_is_run_to_find_a_function():
    class Holder:
        @property
        def convert(self) -> Any:
            reads.append(1)
            return float

    reads: list[int] = []
    holder, asked = Holder(), Asked()
    holder.convert(asked)

    assert reads == [1]


def test_code_without_positions_tells_nothing():
    asked = Asked()
    code = compile("float(asked)", "<made>", "eval")
    exec(_without_positions(code), {"asked": asked, "float": float})  # noqa: S102

    assert asked.seen is None


def _without_positions(code: Any) -> Any:
    return code.replace(co_linetable=b"")
