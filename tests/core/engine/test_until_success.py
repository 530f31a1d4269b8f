"""`retain_graph="until_success"`: what failed is tried again, and what succeeded has released its graph."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.engine.exec_info import STEP
from asyncgrad.errors import ArgumentTypeError, ChangedTensorError, ReleasedGraphError
from asyncgrad.graph import Edge, GradientEdge, Node
from tests.core.engine.stepwise import StepGraph, Steps
from tests.support.arrays import bits_of_grads
from tests.support.failing import Trouble, raise_trouble, raising
from tests.support.functions import awaiting, calling
from tests.support.graphs import nodes_below
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop, one_loop
from tests.support.refusals import refused
from tests.support.sampling import cases
from tests.support.settings import compiled_after, loop_budget
from tests.support.strategies import programs
from tests.support.turns import one_turn, turns

UNTIL: Any = "until_success"


def released(nodes: Sequence[Node]) -> list[bool]:
    """For each node, whether it has let go of what it had saved."""
    return [node.saved_entries() is None for node in nodes]


def one_failing_hook(tensor: Any) -> Any:
    return tensor.register_hook(raising(Trouble("once")))


# What is tried again.


@pytest.mark.parametrize("after", [None, 0], ids=["node by node", "compiled"])
@on_each_loop
@given(programs())
@settings(max_examples=cases(150))
def test_after_a_fault_at_each_node_in_turn_a_random_graph_gets_the_bits_of_a_clean_run(run, after, program):
    program = program.with_fractions()
    clean, values = program.tensors(), program.tensors()
    sync.backward([clean[root] for root in program.roots], program.root_grads)
    roots = [values[root] for root in program.roots]
    nodes = nodes_below(*roots)

    async def main() -> None:
        for node in nodes:
            handle = node.register_prehook(raising(Trouble(node.name)))
            with pytest.raises(Trouble):
                await ag.backward(roots, program.root_grads, retain_graph=UNTIL)
            handle.remove()
            assert not any(released(nodes))
            assert all(value.grad is None for value in values)
        await ag.backward(roots, program.root_grads, retain_graph=UNTIL)

    with compiled_after(after):
        run(main())
    assert bits_of_grads(values[: len(program.leaves)]) == bits_of_grads(clean[: len(program.leaves)])
    assert released(nodes) == released(nodes_below(*(clean[root] for root in program.roots)))


@given(programs(), st.data())
@settings(max_examples=cases(150))
def test_what_is_released_by_a_success_is_what_the_default_releases(program, data):
    """Of a backward, one with inputs, and a grad; the nodes that only capture stay as they are."""
    wanted = data.draw(st.lists(st.sampled_from(program.tracked), min_size=1, max_size=3))
    way = data.draw(st.sampled_from(["backward", "inputs", "grad"]))
    found = []
    for retain in (None, UNTIL):
        values = program.tensors()
        roots = [values[root] for root in program.roots]
        nodes, inputs = nodes_below(*roots), [values[index] for index in wanted]
        if way == "grad":
            sync.grad(roots, inputs, program.root_grads, retain_graph=retain, allow_unused=True)
        else:
            given_inputs = inputs if way == "inputs" else None
            sync.backward(roots, program.root_grads, retain_graph=retain, inputs=given_inputs)
        found.append((released(nodes), bits_of_grads(values[: len(program.leaves)])))

    assert found[0] == found[1]


@pytest.mark.slow
async def test_a_graph_with_every_kind_of_hook_that_failed_at_each_step_is_what_it_would_have_been():
    for seed in range(cases(20)):
        steps = Steps()
        graph = StepGraph(seed, steps, suspends=True)
        for index in range(10_000):
            steps.arm(index, raise_trouble)
            try:
                await ag.backward(graph.root_tensors, graph.root_grads, retain_graph=UNTIL)
                break
            except Trouble:
                assert graph.watched.actual() == graph.watched.expected()
        graph.expect_backward()
        assert graph.watched.actual() == graph.watched.expected()


async def test_a_second_backward_after_a_success_says_what_to_write():
    x = leaf(2.0)
    out = np.multiply(x, x)
    await out.backward(retain_graph=UNTIL)

    with refused(ReleasedGraphError, RuntimeError, "MultiplyBackward", 'retain_graph="until_success"'):
        await out.backward(retain_graph=UNTIL)
    assert x.grad.item() == 4.0


async def test_after_a_timeout_the_same_call_can_be_made_again():
    x = leaf(2.0)
    held = asyncio.Event()

    async def waits(grad: Any) -> None:
        await held.wait()

    out = np.multiply(awaiting(np.multiply(x, x), waits), x)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await out.backward(retain_graph=UNTIL)
    assert x.grad is None
    held.set()
    await out.backward(retain_graph=UNTIL)

    assert x.grad.item() == 12.0


def test_blocking_calls_are_tried_again_too():
    x = leaf(2.0)
    out = np.multiply(x, x)
    with one_failing_hook(x):
        for call in (sync.backward, lambda out, **options: sync.grad(out, [x], **options)):
            with pytest.raises(Trouble):
                call(out, retain_graph=UNTIL)
    (found,) = sync.grad(out, [x], retain_graph=UNTIL)

    assert found.item() == 4.0
    with pytest.raises(ReleasedGraphError):
        sync.backward(out)


@one_loop
async def test_a_recorded_backward_is_tried_again_and_differentiated():
    x = leaf(3.0)
    out = np.multiply(np.multiply(x, x), x)
    with one_failing_hook(x), pytest.raises(Trouble):
        await ag.grad(out, [x], create_graph=True, retain_graph=UNTIL)
    (found,) = await ag.grad(out, [x], create_graph=True, retain_graph=UNTIL)
    with pytest.raises(ReleasedGraphError):
        await ag.grad(out, [x])

    assert found.item() == 27.0


@one_loop
async def test_a_batch_of_gradients_is_tried_again_and_released_by_its_last_row():
    x = leaf(1.0, 2.0)
    out = np.multiply(x, x)
    seen: list[int] = []

    def fails_at_the_last_row(grad: Any) -> None:
        seen.append(1)
        if len(seen) == 2:
            raise Trouble("the second row")

    out.register_hook(fails_at_the_last_row)
    options: Any = {"grad_outputs": np.eye(2), "is_grads_batched": True, "retain_graph": UNTIL}
    with pytest.raises(Trouble):
        await ag.grad(out, [x], **options)
    (found,) = await ag.grad(out, [x], **options)

    assert found.tolist() == [[2.0, 0.0], [0.0, 4.0]]
    with pytest.raises(ReleasedGraphError):
        await ag.grad(out, [x], np.ones(2))


@one_loop
async def test_a_write_between_the_tries_into_what_was_saved_is_the_error_that_it_always_is():
    x = leaf(2.0)
    middle = np.multiply(x, 3.0)
    out = np.multiply(middle, middle)
    with one_failing_hook(x), pytest.raises(Trouble):
        await out.backward(retain_graph=UNTIL)
    with ag.no_grad():
        middle += 1.0

    with refused(ChangedTensorError, RuntimeError, "MultiplyBackward", "changed in place"):
        await out.backward(retain_graph=UNTIL)
    assert x.grad is None


@one_loop
async def test_writes_through_views_are_tried_again():
    def model(x: Any) -> Any:
        y = np.multiply(x, 2.0)
        y[:1] *= y[1:]
        return np.multiply(y, y).sum()

    clean, x = leaf(2.0, 3.0), leaf(2.0, 3.0)
    await model(clean).backward()
    out = model(x)
    with one_failing_hook(x):
        for _ in range(3):
            with pytest.raises(Trouble):
                await out.backward(retain_graph=UNTIL)
    await out.backward(retain_graph=UNTIL)

    assert x.grad.tolist() == clean.grad.tolist()
    with pytest.raises(ReleasedGraphError):
        await out.backward()


@one_loop
@pytest.mark.parametrize("use_reentrant", [True, False], ids=["reentrant", "recomputed"])
async def test_a_checkpoint_is_tried_again(use_reentrant):
    x = leaf(2.0)
    out = np.multiply(ag.checkpoint(lambda x: np.exp(np.sin(x)), x, use_reentrant=use_reentrant), x)
    with one_failing_hook(x):
        for _ in range(2):
            with pytest.raises(Trouble):
                await out.backward(retain_graph=UNTIL)
    await out.backward(retain_graph=UNTIL)
    with pytest.raises(ReleasedGraphError):
        await out.backward()

    again = leaf(2.0)
    await np.multiply(np.exp(np.sin(again)), again).backward()
    assert x.grad.tolist() == again.grad.tolist()


def test_a_formula_that_raised_midway_is_tried_again():
    x = leaf(0.0, 2.0)
    out = np.multiply(np.sqrt(np.multiply(x, x)), 3.0).sum()
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        sync.backward(out, retain_graph=UNTIL)
    with np.errstate(divide="ignore", invalid="ignore"):
        sync.backward(out, retain_graph=UNTIL)

    assert x.grad.tolist()[1] == 3.0


@one_loop
async def test_what_lies_on_disk_stays_there_until_the_success(tmp_path):
    x = leaf(2.0, 3.0)
    async with ag.graph.save_to_disk(tmp_path, min_bytes=0):
        out = np.multiply(np.exp(x), x).sum()
    with one_failing_hook(x), pytest.raises(Trouble):
        await out.backward(retain_graph=UNTIL)
    before = len([path for path in tmp_path.rglob("*") if path.is_file()])
    await out.backward(retain_graph=UNTIL)

    assert before > 0
    assert x.grad is not None
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@one_loop
async def test_nodes_on_a_device_with_a_thread_of_its_own_are_tried_again():
    x = leaf(2.0)
    out = np.multiply(np.exp(x.to("thread:0")), 3.0).to("cpu")
    with one_failing_hook(x), pytest.raises(Trouble):
        await out.backward(retain_graph=UNTIL)
    await out.backward(retain_graph=UNTIL)

    assert x.grad.item() == 3.0 * np.exp(2.0)


@one_loop
async def test_under_anomaly_mode_and_a_profile_it_is_tried_again():
    with ag.detect_anomaly():
        x = leaf(2.0)
        out = np.multiply(x, x)
        with one_failing_hook(x), pytest.raises(Trouble):
            await out.backward(retain_graph=UNTIL)
        with ag.profile() as found:
            await out.backward(retain_graph=UNTIL)

    assert x.grad.item() == 4.0
    assert any(event.name == "MultiplyBackward" for event in found.events)


# What succeeds late, or not at all.


@one_loop
async def test_a_final_callback_that_fails_leaves_the_graph_for_another_try():
    x = leaf(2.0)
    told: list[str] = []

    def commit() -> None:
        told.append("commit")
        if len(told) == 1:
            raise Trouble("not yet")

    def queue(grad: Any) -> None:
        ag.engine.queue_callback(commit, on_failure=lambda: told.append("roll back"))

    out = np.multiply(calling(x, queue), x)
    with pytest.raises(Trouble):
        await out.backward(retain_graph=UNTIL)
    assert x.grad is None
    await out.backward(retain_graph=UNTIL)

    assert told == ["commit", "roll back", "commit"]
    assert x.grad.item() == 4.0


@one_loop
@pytest.mark.parametrize("outer_retain", [None, True, UNTIL])
async def test_what_a_nested_backward_ran_is_released_once_the_outer_one_has_succeeded(outer_retain):
    w, x = leaf(3.0), leaf(2.0)
    inner = np.multiply(w, w)
    fails = [False, True]

    async def body(grad: Any) -> None:
        await ag.backward(inner, retain_graph=UNTIL)
        assert not any(released(nodes_below(inner)))
        await one_turn()
        if fails.pop():
            raise Trouble("after the nested one")

    # Its node saves nothing, so that it runs again whatever the outer backward releases.
    out = awaiting(x, body)
    with pytest.raises(Trouble):
        await out.backward(retain_graph=outer_retain)
    assert w.grad is None
    await out.backward(retain_graph=outer_retain)

    assert w.grad.item() == 6.0
    with pytest.raises(ReleasedGraphError):
        await inner.backward()


@one_loop
async def test_a_body_tries_its_nested_backward_again():
    w, x = leaf(3.0), leaf(2.0)
    inner = np.multiply(w, w)
    fails = [True]

    def hook(grad: Any) -> None:
        if fails:
            fails.pop()
            raise Trouble("once")

    w.register_hook(hook)

    async def body(grad: Any) -> None:
        with pytest.raises(Trouble):
            await ag.backward(inner, retain_graph=UNTIL)
        await ag.backward(inner, retain_graph=UNTIL)

    await awaiting(x, body).backward()

    assert w.grad.item() == 6.0
    assert released(nodes_below(inner))[0]


class Stubborn(Node):
    """Raises when it is told to release."""

    __slots__ = ("told",)

    def __init__(self, following: GradientEdge) -> None:
        super().__init__([Edge(*following)], [following.node.input_metadata[0]])
        self.told: list[str] = []

    def apply(self, grads):
        self.told.append("body")
        return grads

    def will_release_variables(self):
        self.told.append("will release")

    def release_variables(self):
        self.told.append("release")
        raise Trouble("no")


@one_loop
async def test_where_a_node_refuses_to_let_go_the_others_are_released_and_the_backward_has_happened():
    x = leaf(2.0)
    middle = np.multiply(x, x)
    node = Stubborn(ag.graph.get_gradient_edge(middle))
    with pytest.raises(Trouble):
        await ag.backward(GradientEdge(node, 0), np.ones(1), retain_graph=UNTIL)

    assert node.told == ["body", "release"]
    assert x.grad.item() == 4.0
    with pytest.raises(ReleasedGraphError):
        await middle.backward()


# What can be seen of it.


@one_loop
async def test_a_body_sees_that_the_graph_is_kept_until_the_success():
    seen: list[Any] = []

    def look(grad: Any) -> None:
        task = ag.engine.current_graph_task()
        assert task is not None
        seen.append((task.keep_graph, task.until_success, "until it succeeds" in task._repr_html_()))

    for retain in (None, True, UNTIL):
        await calling(leaf(1.0), look).backward(retain_graph=retain)

    assert seen == [(False, False, False), (True, False, False), (True, True, True)]


@one_loop
async def test_a_body_that_has_another_node_run_has_that_released_too():
    w, x = leaf(3.0), leaf(2.0)
    spared = np.multiply(w, w)

    def wake(grad: Any) -> None:
        task = ag.engine.current_graph_task()
        assert task is not None
        task.exec_info[spared.grad_fn].needed = True
        task.exec_info[ag.graph.get_gradient_edge(w).node].needed = True

    out = calling(np.add(np.multiply(x, x), spared), wake)
    await ag.backward(out, inputs=[x], retain_graph=UNTIL)

    assert (x.grad.item(), w.grad.item()) == (4.0, 6.0)
    with pytest.raises(ReleasedGraphError):
        await spared.backward()


@pytest.mark.slow
async def test_the_loop_runs_while_a_deep_graph_is_walked_before_the_backward():
    x = leaf(1.0)
    y = x
    for _ in range(8 * STEP):
        y = y * 1.0
    taken = [0]

    async def tick() -> None:
        while True:
            taken[0] += 1
            await asyncio.sleep(0)

    begun: list[int] = []
    y.register_hook(lambda grad: begun.append(taken[0]))
    ticker = asyncio.ensure_future(tick())
    with loop_budget(-1.0):
        await y.backward(retain_graph=UNTIL)
    ticker.cancel()
    await asyncio.wait([ticker])

    assert begun[0] >= 8


# Wrong use.


@pytest.mark.parametrize("wrong", ["until-success", "UNTIL_SUCCESS", "", "true"])
@pytest.mark.parametrize(
    "call",
    [
        lambda x, wrong: sync.backward(x * 2.0, retain_graph=wrong),
        lambda x, wrong: ag.run((x * 2.0).backward(retain_graph=wrong)),
        lambda x, wrong: sync.grad(x * 2.0, [x], retain_graph=wrong),
        lambda x, wrong: ag.run(ag.grad(x * 2.0, [x], retain_graph=wrong)),
    ],
)
def test_another_word_is_refused_and_the_right_one_named(call, wrong):
    with refused(ArgumentTypeError, TypeError, "retain_graph", repr(wrong), 'retain_graph="until_success"'):
        call(leaf(1.0), wrong)


def test_a_word_that_was_put_together_is_the_word():
    x = leaf(2.0)
    out = np.multiply(x, x)
    sync.backward(out, retain_graph="UNTIL_SUCCESS".lower())

    with pytest.raises(ReleasedGraphError):
        sync.backward(out)


# Memory.


@one_loop
async def test_a_success_lets_go_of_what_was_saved_and_a_failure_of_nothing(no_collector):
    x = leaf(1.0, 2.0)
    middle = np.exp(x)
    out = np.multiply(middle, middle).sum()
    saved = weakref.ref(middle._data)
    del middle
    handle = one_failing_hook(x)
    with pytest.raises(Trouble):
        await out.backward(retain_graph=UNTIL)
    assert saved() is not None
    handle.remove()
    await out.backward(retain_graph=UNTIL)

    assert saved() is None


@pytest.mark.slow
def test_ten_thousand_tries_leave_nothing_behind(no_collector):
    x = leaf(1.0, 2.0)
    out = np.multiply(awaiting(np.exp(x), lambda grad: one_turn()), x).sum()

    def fails(grad: Any) -> None:
        raise Trouble("always")

    x.register_hook(fails)

    async def tries(count: int) -> None:
        for _ in range(count):
            try:
                await out.backward(retain_graph=UNTIL)
            except Trouble:
                continue
            raise AssertionError("the hook has let a gradient pass")

    def objects() -> int:
        return len(gc.get_objects())

    async def main() -> tuple[int, int]:
        await tries(100)
        before = objects()
        await tries(cases(10_000, 1.0))
        return before, objects()

    before, after = ag.run(main())
    assert after - before < 100


# On any schedule.


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(8))
async def test_cancelled_at_every_turn_and_tried_again_it_gets_the_bits_of_a_clean_run(seed):
    def graph() -> tuple[list[Any], Any]:
        leaves = [leaf(0.1, 0.7), leaf(1e16, 0.3)]
        out = leaves[0]
        for index in range(5):
            hop = seed * 7 + index
            out = np.add(awaiting(np.multiply(out, leaves[hop % 2]), lambda grad, hop=hop: turns(hop % 3)), leaves[1])
        return leaves, np.multiply(out, out).sum()

    clean, out = graph()
    await out.backward()
    leaves, out = graph()
    for turn in range(10_000):
        task = asyncio.ensure_future(out.backward(retain_graph=UNTIL))
        await turns(turn)
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            break
        assert all(one.grad is None for one in leaves)

    assert task.exception() is None
    assert turn > 0
    assert bits_of_grads(leaves) == bits_of_grads(clean)
    with pytest.raises(ReleasedGraphError):
        await out.backward()
