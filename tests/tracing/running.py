"""A compiled function beside the function: both run on the same numbers, and are compared bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

import asyncgrad as ag
from asyncgrad import sync

__all__ = ["bits", "compiled", "grads_of", "same", "same_in_one_program"]


def compiled(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Return the function, compiled and traced for arguments such as these, so that its next call is replayed."""
    jitted = ag.jit(function, verify=0, **options)
    for _ in range(2):
        jitted(*args)
    before = jitted.counts["replayed"]
    jitted(*args)
    assert jitted.counts["replayed"] == before + 1, dict(jitted.counts)
    return jitted


def bits(value: Any) -> Any:
    """Return what is equal for equal bits: shape, dtype and bytes."""
    array = value.numpy() if isinstance(value, ag.Tensor) else value
    return None if array is None else (array.shape, array.dtype, np.ascontiguousarray(array).tobytes())


def grads_of(function: Callable[..., Any], leaves: Sequence[np.ndarray]) -> Any:
    """Return the bits of what a function returns for new leaves, and of their gradients."""
    tensors = [ag.tensor(leaf.copy(), requires_grad=True) for leaf in leaves]
    value = function(*tensors)
    if value.requires_grad:
        sync.backward(value)
    return bits(value), [bits(tensor.grad) for tensor in tensors]


def same(function: Callable[..., Any], jitted: Callable[..., Any], leaves: Sequence[np.ndarray]) -> bool:
    """Tell whether a compiled function does what the function does, bit for bit."""
    return bool(grads_of(function, leaves) == grads_of(jitted, leaves))


def same_in_one_program(
    function: Callable[..., Any], name: str, runs: Iterable[Sequence[Any]], **options: Any
) -> Mapping[str, int]:
    """Hold value and gradient, compiled together, to those of the function in each run; return what became of these.

    Args:
        function: a function of which the first argument is differentiated.
        name: under which its counts are kept; no other test has it.
        runs: the arguments of each.
        options: of `ag.jit`.
    """
    function.__name__ = name
    jitted = ag.func.value_and_grad(ag.jit(function, verify=0, **options))
    eager = ag.func.value_and_grad(function)

    async def compare() -> None:
        for place, args in enumerate(runs):
            assert [*map(bits, await jitted(*args))] == [*map(bits, await eager(*args))], place

    ag.run(compare())
    return ag.jit.stats()[f"ag.func.value_and_grad({name})"]
