"""The engine gives what the oracle gives, bit for bit, on random graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import asyncgrad as ag
from asyncgrad import sync
from tests.support import oracle
from tests.support.sampling import cases
from tests.support.settings import loop_budget
from tests.support.strategies import GraphProgram, programs

#: Larger whole numbers than this are not exact in every partial sum.
EXACT = 2.0**46


def by_oracle(program: GraphProgram) -> tuple[list[oracle.Var], dict[oracle.Var, oracle.Var | None]]:
    """Return the values of a program and their gradients; give up examples that leave the whole numbers."""
    values = program.variables()
    found = oracle.backward([values[root] for root in program.roots], [oracle.Var(grad) for grad in program.root_grads])
    assume(all(grad is None or np.all(np.abs(grad.value) < EXACT) for grad in found.values()))
    return values, found


def data_of(gradient: Any) -> Any:
    """Return a gradient of either kind as nested lists, with its shape and dtype; None where it is undefined."""
    if gradient is None:
        return None
    array = gradient.value if isinstance(gradient, oracle.Var) else gradient.numpy()
    return array.shape, array.dtype, array.tolist()


def expected_of(program: GraphProgram, wanted: Sequence[int]) -> list[Any]:
    values, found = by_oracle(program)
    return [data_of(found.get(values[index])) for index in wanted]


def tracked_leaves(program: GraphProgram) -> list[int]:
    return [index for index in program.tracked if index < len(program.leaves)]


def start(program: GraphProgram, tensors: list[ag.Tensor]) -> tuple[list[ag.Tensor], tuple[np.ndarray, ...]]:
    return [tensors[root] for root in program.roots], program.root_grads


#: In seconds: a plain graph runs node by node, or whole in the call that begins it.
BUDGETS = (0.0, 10.0)


@given(programs(), st.sampled_from(BUDGETS))
async def test_backward_gives_every_leaf_what_the_oracle_gives(program, budget):
    leaves = tracked_leaves(program)
    expected = expected_of(program, leaves)
    tensors = program.tensors()

    with loop_budget(budget):
        await ag.backward(*start(program, tensors))

    assert [data_of(tensors[leaf].grad) for leaf in leaves] == expected
    assert all(tensor.grad is None for index, tensor in enumerate(tensors) if index not in leaves)


@given(programs())
def test_a_blocking_backward_gives_what_the_oracle_gives(program):
    leaves = tracked_leaves(program)
    expected = expected_of(program, leaves)
    tensors = program.tensors()

    sync.backward(*start(program, tensors))

    assert [data_of(tensors[leaf].grad) for leaf in leaves] == expected


@given(programs(functions=False))
def test_a_plain_graph_gives_what_the_oracle_gives(program):
    leaves = tracked_leaves(program)
    expected = expected_of(program, leaves)
    tensors = program.tensors()

    sync.backward(*start(program, tensors))

    assert [data_of(tensors[leaf].grad) for leaf in leaves] == expected


@given(st.data())
async def test_grad_captures_what_the_oracle_gives_for_any_inputs(data):
    program = data.draw(programs())
    wanted = data.draw(st.lists(st.sampled_from(program.tracked), min_size=1, max_size=4))
    expected = expected_of(program, wanted)
    tensors = program.tensors()
    roots, grads = start(program, tensors)

    found = await ag.grad(roots, [tensors[index] for index in wanted], grads, allow_unused=True)

    assert [data_of(gradient) for gradient in found] == expected
    assert all(tensor.grad is None for tensor in tensors)


@given(st.data())
def test_a_blocking_grad_captures_what_the_oracle_gives(data):
    program = data.draw(programs())
    wanted = data.draw(st.lists(st.sampled_from(program.tracked), min_size=1, max_size=4))
    expected = expected_of(program, wanted)
    tensors = program.tensors()
    roots, grads = start(program, tensors)

    found = sync.grad(roots, [tensors[index] for index in wanted], grads, allow_unused=True)

    assert [data_of(gradient) for gradient in found] == expected


@given(st.data())
async def test_grad_refuses_just_the_inputs_that_the_oracle_has_no_gradient_for(data):
    program = data.draw(programs())
    wanted = data.draw(st.lists(st.sampled_from(program.tracked), min_size=1, max_size=3))
    expected = expected_of(program, wanted)
    tensors = program.tensors()
    roots, grads = start(program, tensors)
    call = ag.grad(roots, [tensors[index] for index in wanted], grads)

    if None in expected:
        with pytest.raises(ag.errors.UnusedInputError, match=f"^input {expected.index(None)} "):
            await call
    else:
        assert [data_of(gradient) for gradient in await call] == expected


@given(st.data())
async def test_grad_of_edges_equals_grad_of_tensors(data):
    program = data.draw(programs())
    wanted = data.draw(st.lists(st.sampled_from(program.tracked), min_size=1, max_size=3))
    expected = expected_of(program, wanted)
    tensors = program.tensors()
    edges = [ag.graph.get_gradient_edge(tensor) if tensor.requires_grad else None for tensor in tensors]
    roots = [edges[root] for root in program.roots]

    found = await ag.grad(roots, [edges[index] for index in wanted], program.root_grads, allow_unused=True)

    assert [data_of(gradient) for gradient in found] == expected


@given(st.data())
async def test_backward_with_inputs_accumulates_there_and_nowhere_else(data):
    program = data.draw(programs())
    wanted = data.draw(st.lists(st.sampled_from(program.tracked), min_size=1, max_size=4))
    expected = expected_of(program, wanted)
    tensors = program.tensors()

    await ag.backward(*start(program, tensors), inputs=[tensors[index] for index in wanted])

    assert [data_of(tensors[index].grad) for index in wanted] == expected
    assert all(tensor.grad is None for index, tensor in enumerate(tensors) if index not in wanted)


@given(programs())
async def test_a_kept_graph_gives_the_same_again_and_again(program):
    leaves = tracked_leaves(program)
    expected = expected_of(program, leaves)
    tensors = program.tensors()
    roots, grads = start(program, tensors)
    before = [grad.copy() for grad in grads]

    for turn, keep in enumerate([True, True, False], 1):
        await ag.backward(roots, grads, retain_graph=keep)
        for leaf, once in zip(leaves, expected, strict=True):
            total = None if once is None else (once[0], once[1], (np.array(once[2]) * turn).tolist())
            assert data_of(tensors[leaf].grad) == total
    for given_grad, copy in zip(grads, before, strict=True):
        np.testing.assert_array_equal(given_grad, copy)


@given(programs(max_steps=8))
@settings(max_examples=cases(60))
async def test_second_derivatives_are_those_of_the_oracle(program):
    leaves = tracked_leaves(program)
    values, found = by_oracle(program)
    tensors = program.tensors()
    roots, grads = start(program, tensors)
    inputs = [tensors[leaf] for leaf in leaves]

    async def main():
        first = await ag.grad(roots, inputs, grads, create_graph=True, allow_unused=True)
        assert [data_of(gradient) for gradient in first] == [data_of(found.get(values[leaf])) for leaf in leaves]
        chosen = [index for index, gradient in enumerate(first) if gradient is not None and gradient.requires_grad]
        assume(chosen)
        again = [oracle.Var(np.full(first[index].shape, 1.0 + index)) for index in chosen]
        deeper = oracle.backward([found[values[leaves[index]]] for index in chosen], again)  # type: ignore[misc]
        assume(all(grad is None or np.all(np.abs(grad.value) < EXACT) for grad in deeper.values()))
        second = await ag.grad(
            [first[index] for index in chosen],
            inputs,
            [seed.value for seed in again],
            materialize_grads=True,
        )
        for leaf, gradient in zip(leaves, second, strict=True):
            expected = deeper.get(values[leaf])
            zeros = np.zeros(tensors[leaf].shape)
            np.testing.assert_array_equal(gradient.numpy(), zeros if expected is None else expected.value)

    await main()
