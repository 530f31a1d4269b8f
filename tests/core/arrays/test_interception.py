"""What is called in the place of functions of arrays: interceptors compose, and leave no trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.arrays.device_functions import register_functions, unregister_functions
from asyncgrad.core.arrays.interception import DEVICES, LAYERS, RECORDERS, STREAMS, TIMES, intercept, stop_intercepting
from asyncgrad.core.recording.primitive import RULES


def interceptor(layer: str, seen: list[Any]) -> Callable[..., Any]:
    """Return an interceptor that notes its layer and the name of the function."""

    def around(function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            seen.append((layer, name))
            return function(*args, **kwargs)

        return call

    return around


@pytest.fixture(autouse=True)
def _without() -> Iterator[None]:
    yield
    for layer in LAYERS:
        stop_intercepting(layer)


def names_of(function: Any) -> Any:
    return RULES[function].__globals__


@pytest.mark.parametrize("order", list(permutations(LAYERS)), ids="-".join)
def test_interceptors_are_applied_in_one_order_whichever_began_first(order: tuple[str, ...]) -> None:
    seen: list[Any] = []
    x = ag.tensor([1.0])
    for layer in order:
        intercept(layer, interceptor(layer, seen))
    np.tanh(x)
    assert seen == [(layer, "tanh") for layer in (DEVICES, STREAMS, RECORDERS, TIMES)]

    for layer in order:
        stop_intercepting(layer)
        del seen[:]
        np.tanh(x)
        assert layer not in [one for one, _ in seen]
    assert seen == []
    assert names_of(np.tanh)["_function"] is np.tanh


@pytest.mark.parametrize("is_intercepted_first", [True, False])
def test_interceptors_stay_around_a_fused_kernel(is_intercepted_first: bool) -> None:
    class Array:
        pass

    class Compiler:
        def launcher(self, formula: Any) -> Any:
            raise NotImplementedError

        update = launcher

    seen: list[Any] = []
    if is_intercepted_first:
        intercept(RECORDERS, interceptor("recorders", seen))
    register_functions(Array, {}, Compiler())  # type: ignore[arg-type]
    try:
        if not is_intercepted_first:
            intercept(RECORDERS, interceptor("recorders", seen))
        np.tanh(ag.tensor([1.0]))
        assert seen == [("recorders", "tanh")]
        assert names_of(np.tanh)["_inner_function"] is names_of(np.tanh)["_fused"].call
        stop_intercepting(RECORDERS)
        assert names_of(np.tanh)["_function"] is names_of(np.tanh)["_fused"].call
    finally:
        unregister_functions(Array)
    assert names_of(np.tanh)["_function"] is np.tanh


def test_recorders_see_operations_and_no_entry_points() -> None:
    seen: list[Any] = []
    intercept(RECORDERS, interceptor("recorders", seen))
    x = ag.tensor([2.0, 1.0])
    x.sort()
    y = (x > 1) * x
    y += 1
    y[0] = 3

    assert [name for _, name in seen if name] == [name for _, name in seen]
    assert ("recorders", "greater") in seen
    assert ("recorders", "multiply") in seen
