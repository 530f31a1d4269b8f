"""Hooks that keep a tensor itself, and writes into it: an error. Hooks that copy it: the value that was saved."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ChangedTensorError
from asyncgrad.graph import saved_tensors_hooks
from tests.core.graph.saved.packing import as_is
from tests.support.functions import function
from tests.support.leaves import leaf


async def as_is_later(value: Any) -> Any:
    return value


def bare(tensor: Any) -> Any:
    return tensor.numpy()


#: Pack and unpack hooks that bring back the memory that was packed.
KEEPERS = {
    "the tensor": (as_is, as_is),
    "a detached alias": (lambda t: t.detach(), as_is),
    "its array": (bare, as_is),
    "a view": (lambda t: t[None], lambda t: t[0]),
    "a view of its array": (lambda t: t.numpy()[None], lambda array: array[0]),
    "an async pack": (as_is_later, as_is),
    "an async unpack": (as_is, as_is_later),
    "both async": (as_is_later, as_is_later),
    "an async unpack of its array": (bare, as_is_later),
}


async def copied_later(tensor: Any) -> Any:
    return tensor.numpy().copy()


#: Those that bring back memory of their own.
COPIERS = {
    "a copy": (lambda t: t.copy(), as_is),
    "a clone": (lambda t: t.clone(), as_is),
    "a copy of the array": (lambda t: t.numpy().copy(), as_is),
    "numbers": (lambda t: t.tolist(), np.array),
    "an async pack": (copied_later, as_is),
    "an async unpack": (lambda t: t.numpy().copy(), as_is_later),
    "both async": (copied_later, as_is_later),
}


def multiply_in_place(tensor: Any) -> None:
    with ag.no_grad():
        tensor *= 10.0


def product(x: Any) -> tuple[Any, Any]:
    """The sum of y * y, and y, whose gradient is 6 x where nobody writes into y."""
    y = np.multiply(x, 3.0)
    return (y * y).sum(), y


def square_of_own(x: Any) -> tuple[Any, Any]:
    """What a Function saves."""

    def forward(ctx: Any, y: Any) -> Any:
        ctx.save_for_backward(y)
        return y.numpy() ** 2

    async def backward(ctx: Any, grad: Any) -> Any:
        (y,) = await ctx.load_saved()
        return 2 * y * grad

    y = np.multiply(x, 3.0)
    return function(forward, backward).apply(y).sum(), y


def output(x: Any) -> tuple[Any, Any]:
    """What a node saves is its own output."""
    y = np.exp(x)
    return y.sum(), y


PROGRAMS = {"an input": product, "a Function's": square_of_own, "an output": output}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("hooks", KEEPERS.values(), ids=KEEPERS)
async def test_what_comes_back_in_the_packed_memory_must_not_have_been_written_into(hooks: Any, program: Any):
    x = leaf(1.0, 2.0)
    async with saved_tensors_hooks(*hooks):
        loss, y = program(x)
    multiply_in_place(y)
    with pytest.raises(ChangedTensorError) as raised:
        await loss.backward()
    for part in ("Backward (node #", "shape (2,)", "output 0 of", "version 1", "version 0 was saved", "t.copy()"):
        assert part in str(raised.value)
    assert x.grad is None


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("hooks", COPIERS.values(), ids=COPIERS)
async def test_what_comes_back_in_memory_of_its_own_is_what_was_saved(hooks: Any, program: Any):
    x, expected = leaf(1.0, 2.0), leaf(1.0, 2.0)
    async with saved_tensors_hooks(*hooks):
        loss, y = program(x)
    multiply_in_place(y)
    await loss.backward()
    await program(expected)[0].backward()
    assert x.grad.tolist() == expected.grad.tolist()


@pytest.mark.parametrize("hooks", KEEPERS.values(), ids=KEEPERS)
async def test_hooks_that_keep_the_tensor_change_nothing_where_nobody_writes(hooks: Any):
    x = leaf(1.0, 2.0)
    async with saved_tensors_hooks(*hooks):
        loss, _ = product(x)
    await loss.backward(retain_graph=True)
    await loss.backward()
    assert x.grad.tolist() == [36.0, 72.0]


@pytest.mark.parametrize("hooks", KEEPERS.values(), ids=KEEPERS)
async def test_hooks_of_one_saved_tensor_must_not_return_memory_that_was_written_into(hooks: Any):
    x = leaf(1.0, 2.0)
    y = x * 3.0
    z = y * 5.0 * x
    for saved in z.grad_fn.saved_tensors:
        saved.register_hooks(*hooks)
    multiply_in_place(x)
    with pytest.raises(ChangedTensorError, match=r"shape \(2,\).*version 1, and version 0 was saved"):
        await z.sum().backward()


def test_what_was_packed_after_a_write_has_that_version():
    x = leaf(1.0, 2.0)
    y = x * 3.0
    multiply_in_place(y)
    with saved_tensors_hooks(as_is, as_is):
        loss = (y * y).sum()
    sync.backward(loss)

    assert x.grad.tolist() == [180.0, 360.0]


def test_of_nested_hooks_the_inner_ones_must_not_return_memory_that_was_written_into():
    x = leaf(1.0, 2.0)
    with saved_tensors_hooks(lambda t: t.copy(), as_is):
        outer, kept = product(x)
        with saved_tensors_hooks(as_is, as_is):
            inner, changed = product(x)
    multiply_in_place(kept)
    multiply_in_place(changed)

    sync.backward(outer)
    with pytest.raises(ChangedTensorError):
        sync.backward(inner)


def test_a_block_that_allows_writes_keeps_allowing_them_and_hooks_inside_keep_by_themselves():
    x = leaf(1.0, 2.0)
    with ag.graph.allow_mutation_on_saved_tensors():
        allowed, kept = product(x)
        with saved_tensors_hooks(as_is, as_is):
            refused, changed = product(x)
        multiply_in_place(kept)
        multiply_in_place(changed)
    sync.backward(allowed)

    assert x.grad.tolist() == [18.0, 36.0]
    with pytest.raises(ChangedTensorError):
        sync.backward(refused)


def test_a_copy_beside_the_tensor_in_one_allocation_is_memory_of_its_own():
    pool = np.zeros((2, 2))
    x = ag.asarray(pool[0])
    x[...] = [1.0, 2.0]
    x.requires_grad_()

    def pack(tensor: Any) -> Any:
        pool[1] = tensor.numpy()
        return pool[1]

    with saved_tensors_hooks(pack, as_is):
        loss = (x * x).sum()
    multiply_in_place(x)
    sync.backward(loss)

    assert x.grad.tolist() == [2.0, 4.0]


def test_a_write_into_a_view_or_the_base_of_what_was_packed_counts():
    for write_into in (lambda y: y[:1], lambda y: y.detach()):
        with saved_tensors_hooks(as_is, as_is):
            loss, y = product(leaf(1.0, 2.0))
        multiply_in_place(write_into(y))

        with pytest.raises(ChangedTensorError):
            sync.backward(loss)


@pytest.mark.parametrize("keeps", [False, True])
def test_an_operation_that_writes_into_memory_that_it_saved_saves_a_copy(keeps: bool):
    def written(x: Any) -> Any:
        y = x * 1.0
        y[1:] *= y[:-1]
        out: Any = ag.tensor([2.0, 3.0, 4.0])
        out *= x
        np.multiply(out, x, out=out)
        return (y + out).sum()

    x, expected = leaf(1.0, 2.0, 3.0), leaf(1.0, 2.0, 3.0)
    with saved_tensors_hooks(as_is if keeps else lambda t: t.copy(), as_is):
        loss = written(x)
    sync.backward(loss)
    sync.backward(written(expected))

    assert x.grad.tolist() == expected.grad.tolist()


def test_the_check_keeps_no_array_alive():
    with saved_tensors_hooks(lambda t: t.tolist(), np.array):
        loss, y = product(leaf(1.0, 2.0))
    gone = weakref.ref(y.numpy().base)
    gc.disable()
    try:
        del y
        assert gone() is None
    finally:
        gc.enable()
    sync.backward(loss)


# What became of a saved tensor's history.


def test_the_error_for_a_saved_tensor_with_another_place_in_the_graph_says_what_has_happened():
    def second(change_history: Any) -> str:
        x = leaf(1.0, 2.0)
        y = x * 3.0
        loss = (y * y).sum()
        change_history(x, y)
        with pytest.raises(ChangedTensorError) as raised:
            sync.grad(loss, [x], create_graph=True)
        return str(raised.value)

    cut = second(lambda x, y: y.detach_())
    moved = second(lambda x, y: ag.graph.set_gradient_edge(y, ag.graph.get_gradient_edge(np.sin(x))))

    assert "detach_() has cut that history" in cut
    assert "set_gradient_edge" not in cut
    assert "set_gradient_edge()" in moved
    assert "SinBackward" in moved
    assert "detach_()" not in moved
