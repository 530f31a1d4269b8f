"""Random graphs that are cancelled, or fail, at random points have not happened, and run again."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import asyncgrad as ag
from tests.core.engine.states import state_of
from tests.support import oracle
from tests.support.failing import Trouble
from tests.support.sampling import cases
from tests.support.settings import loop_budget
from tests.support.strategies import GraphProgram, programs


def prepared(program: GraphProgram, data: st.DataObject) -> tuple[list[ag.Tensor], list[ag.Tensor]]:
    """Return the program's tensors and roots; some tensors have or keep a gradient."""
    tensors = program.tensors()
    for index in data.draw(st.sets(st.sampled_from(program.tracked))):
        if tensors[index].is_leaf:
            tensors[index].grad = ag.tensor(np.ones(tensors[index].shape))
        else:
            tensors[index].retain_grad()
    return tensors, [tensors[root] for root in program.roots]


def expected_grads(program: GraphProgram, tensors: list[ag.Tensor]) -> list[Any]:
    """Return the gradients that a backward leaves, the ones that were there before included."""
    values = program.variables()
    found = oracle.backward([values[root] for root in program.roots], [oracle.Var(grad) for grad in program.root_grads])
    assume(all(grad is None or np.all(np.abs(grad.value) < 2.0**40) for grad in found.values()))
    expected: list[Any] = []
    for tensor, value in zip(tensors, values, strict=True):
        before = None if tensor.grad is None else tensor.grad.numpy().copy()
        grad = found.get(value) if tensor.retains_grad or (tensor.is_leaf and tensor.requires_grad) else None
        added = None if grad is None else grad.value
        total = before if added is None else added if before is None else before + added
        expected.append(None if total is None else total.tolist())
    return expected


def grads_of(tensors: list[ag.Tensor]) -> list[Any]:
    return [None if tensor.grad is None else tensor.grad.tolist() for tensor in tensors]


@pytest.mark.slow
@given(programs(), st.data())
@settings(max_examples=cases(150))
async def test_a_random_graph_that_is_cancelled_has_not_happened_and_runs_again(program, data):
    tensors, roots = prepared(program, data)
    expected, before = expected_grads(program, tensors), state_of(*tensors)
    turns = data.draw(st.integers(0, 25))
    breathes = data.draw(st.booleans())

    with loop_budget(-1.0 if breathes else 10.0):
        task = asyncio.ensure_future(ag.backward(roots, program.root_grads, retain_graph=True))
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    if task.cancelled():
        assert state_of(*tensors) == before
        await ag.backward(roots, program.root_grads)
    assert grads_of(tensors) == expected


@given(programs(), st.data())
@settings(max_examples=cases(150))
async def test_a_random_graph_that_fails_has_not_happened_and_runs_again(program, data):
    tensors, roots = prepared(program, data)
    expected = expected_grads(program, tensors)
    turns = data.draw(st.integers(0, 3))
    failing = data.draw(st.sampled_from(program.tracked))
    reached: list[bool] = []

    async def fail(grad):
        reached.append(True)
        for _ in range(turns):
            await asyncio.sleep(0)
        raise Trouble

    async def main():
        with tensors[failing].register_hook(fail):
            before = state_of(*tensors)
            try:
                await ag.backward(roots, program.root_grads, retain_graph=True)
            except Trouble:
                assert reached
                assert state_of(*tensors) == before
                assert asyncio.all_tasks() == {asyncio.current_task()}
            else:
                assert not reached
                return
        await ag.backward(roots, program.root_grads)
        assert grads_of(tensors) == expected

    await main()


@given(st.data())
@settings(max_examples=cases(100))
async def test_of_two_backwards_over_shared_leaves_just_those_that_succeed_have_happened(data):
    """Both programs run at once on the same leaves, and each may be cancelled at any time."""
    first = data.draw(programs())
    second = data.draw(programs(leaves=first.leaves))
    leaves = [ag.tensor(leaf, requires_grad=needs) for leaf, needs in first.leaves]
    graphs = [made.tensors(leaves) for made in (first, second)]
    cancels = [data.draw(st.none() | st.integers(0, 12)) for _ in graphs]

    async def main():
        tasks = [
            asyncio.ensure_future(ag.backward([tensors[root] for root in made.roots], made.root_grads))
            for made, tensors in zip((first, second), graphs, strict=True)
        ]
        for turn in range(13):
            for task, cancel in zip(tasks, cancels, strict=True):
                if cancel == turn:
                    task.cancel()
            await asyncio.sleep(0)
        await asyncio.wait(tasks)
        totals: dict[int, Any] = {}
        for made, task in zip((first, second), tasks, strict=True):
            if not task.cancelled():
                values = made.variables()
                starts = [oracle.Var(grad) for grad in made.root_grads]
                found = oracle.backward([values[root] for root in made.roots], starts)
                for index in range(len(leaves)):
                    grad = found.get(values[index])
                    if grad is not None and leaves[index].requires_grad:
                        totals[index] = totals.get(index, 0.0) + grad.value
        assume(all(np.all(np.abs(total) < 2.0**40) for total in totals.values()))
        assert grads_of(leaves) == [
            np.asarray(totals[index]).tolist() if index in totals else None for index in range(len(leaves))
        ]

    await main()


def test_the_comparison_of_states_sees_a_gradient_that_was_not_put_back():
    x = ag.tensor(1.0, requires_grad=True)
    before = state_of(x)
    x.grad = ag.tensor(0.0)

    with pytest.raises(AssertionError):
        assert state_of(x) == before
