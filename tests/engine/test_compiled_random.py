"""On random graphs a compiled backward gives the bits of the engine, hooks, failures and cancellations included."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.engine.compiled import mode
from asyncgrad.engine.compiled.cache import Cache
from asyncgrad.engine.compiled.mode import COMPILED_AFTER
from asyncgrad.scheduling import LOOP_BUDGET
from tests.strategies import Program, programs


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch) -> Cache:
    """One cache for all examples of a test: many of their graphs have one sketch, and differ below it."""
    made = Cache()
    monkeypatch.setattr(mode, "CACHE", made)
    return made


@contextlib.contextmanager
def compiled(after: int | None) -> Iterator[None]:
    token = COMPILED_AFTER.set(after)
    try:
        yield
    finally:
        COMPILED_AFTER.reset(token)


def fractions(program: Program) -> Program:
    """Return the program on numbers whose sums depend on their order."""
    leaves = tuple((data * 0.7 + 0.1, needs) for data, needs in program.leaves)
    return program._replace(leaves=leaves, root_grads=tuple(grad * 0.3 + 0.7 for grad in program.root_grads))


def bits(tensors: list[Any]) -> list[Any]:
    """Return the gradients of leaves as bytes."""
    return [None if tensor.grad is None else (tensor.grad.shape, tensor.grad.numpy().tobytes()) for tensor in tensors]


def roots_of(program: Program, values: list[Any]) -> tuple[list[Any], list[Any]]:
    return [values[root] for root in program.roots], list(program.root_grads)


@settings(max_examples=150)
@given(programs(), st.sampled_from([0, 1]))
def test_a_random_graph_gets_the_bits_of_the_engine(program, after):
    program = fractions(program)
    found = []
    for mode_after in (None, after, after):
        values = program.tensors()
        with compiled(mode_after):
            sync.backward(*roots_of(program, values))
        found.append(bits(values[: len(program.leaves)]))

    assert found[0] == found[1] == found[2]


@settings(max_examples=100)
@given(programs(functions=False), st.data())
def test_inputs_and_captures_of_a_random_graph_get_the_bits_of_the_engine(program, data):
    program = fractions(program)
    wanted = data.draw(st.lists(st.sampled_from(program.tracked), min_size=1, max_size=3))
    found = []
    for after in (None, 0, 0):
        values = program.tensors()
        inputs = [values[index] for index in wanted]
        with compiled(after):
            grads = sync.grad(*roots_of(program, values)[:1], inputs, roots_of(program, values)[1], allow_unused=True)
        found.append([None if grad is None else (grad.shape, grad.numpy().tobytes()) for grad in grads])

    assert found[0] == found[1] == found[2]


@settings(max_examples=60)
@given(programs(), st.integers(0, 12))
def test_a_random_graph_cancelled_at_any_turn_has_happened_or_not(run, program, turns):
    program = fractions(program)

    async def stopped(after: int | None, count: int) -> tuple[Any, Any, Any]:
        values = program.tensors()
        leaves = values[: len(program.leaves)]
        with compiled(after):
            budget = LOOP_BUDGET.set(-1.0)
            try:
                task = asyncio.ensure_future(ag.backward(*roots_of(program, values)))
                for _ in range(count):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
            finally:
                LOOP_BUDGET.reset(budget)
        return task.cancelled(), bits(leaves), [None] * len(leaves)

    async def main() -> None:
        with compiled(0):
            values = program.tensors()
            await ag.backward(*roots_of(program, values))
        whole = bits(values[: len(program.leaves)])
        cancelled, found, nothing = await stopped(0, turns)
        assert found == (nothing if cancelled else whole)

    run(main())


@settings(max_examples=60)
@given(programs(functions=False), st.integers(0, 5))
def test_a_random_graph_with_a_failing_hook_leaves_every_gradient(program, which):
    program = fractions(program)

    def fail(grad: Any) -> None:
        raise ArithmeticError("on the way")

    with compiled(0):
        values = program.tensors()
        leaves = values[: len(program.leaves)]
        sync.backward(*roots_of(program, values))
        before = bits(leaves)
        again = program.tensors(leaves)
        hooked = again[program.tracked[which % len(program.tracked)]]
        handle = hooked.register_hook(fail)
        failed = False
        try:
            sync.backward(*roots_of(program, again))
        except ArithmeticError:
            failed = True
        handle.remove()

    assert not failed or bits(leaves) == before
