"""Hooks added and removed while a backward runs, and the handles that remove them."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.arrays.hooks import HookList
from tests.core.engine.hooking import as_kind, backward, both_drives, every_kind, number, register
from tests.support.functions import awaiting, calling, split
from tests.support.graphs import node_of
from tests.support.leaves import leaf
from tests.support.settings import loop_budget

PLACES = ["tensor hook", "pre-hook", "post-hook", "post-accumulate hook"]
every_place = pytest.mark.parametrize("where", PLACES)


def negated_or_leaf(where: str) -> tuple[Any, Any]:
    """A tensor that may have a hook `where`, and what to run backward from."""
    tensor = leaf(2.0) if where == "post-accumulate hook" else np.negative(leaf(2.0))
    return tensor, np.multiply(tensor, 3.0)


# Snapshots.


@every_kind
@both_drives
@every_place
async def test_a_hook_added_by_one_of_its_list_runs_from_the_next_backward_on(where, kind, drive):
    seen: list[str] = []
    tensor, out = negated_or_leaf(where)

    def adds(*args: Any) -> None:
        seen.append("adds")
        register(where, tensor, as_kind(kind, lambda *args: seen.append("added")))
        handle.remove()

    handle = register(where, tensor, as_kind(kind, adds))
    await backward(drive, out, retain_graph=True)
    assert seen == ["adds"]
    await backward(drive, out)

    assert seen == ["adds", "added"]


@every_kind
@both_drives
@every_place
async def test_a_hook_removed_by_one_of_its_list_runs_this_once_more(where, kind, drive):
    seen: list[str] = []
    tensor, out = negated_or_leaf(where)
    register(where, tensor, as_kind(kind, lambda *args: handle.remove()))
    handle = register(where, tensor, as_kind(kind, lambda *args: seen.append("ran")))

    await backward(drive, out, retain_graph=True)
    await backward(drive, out)

    assert seen == ["ran"]


@every_kind
@both_drives
@every_place
async def test_a_hook_may_remove_itself(where, kind, drive):
    seen: list[str] = []
    tensor, out = negated_or_leaf(where)

    def once(*args: Any) -> None:
        seen.append("ran")
        handle.remove()

    handle = register(where, tensor, as_kind(kind, once))
    await backward(drive, out, retain_graph=True)
    await backward(drive, out)

    assert seen == ["ran"]


@every_kind
@both_drives
@every_place
async def test_a_hook_added_to_a_node_that_has_yet_to_run_runs(where, kind, drive):
    """The node had none before; the backward finds it all the same."""
    seen: list[str] = []
    tensor, out = negated_or_leaf(where)
    above = np.multiply(out, 1.0)
    above.register_hook(as_kind(kind, lambda grad: register(where, tensor, lambda *args: seen.append("ran")) and None))

    await backward(drive, above)

    assert seen == ["ran"]


@both_drives
@every_place
async def test_a_hook_removed_from_a_node_that_has_yet_to_run_does_not_run(where, drive):
    seen: list[str] = []
    tensor, out = negated_or_leaf(where)
    handle = register(where, tensor, lambda *args: seen.append("ran"))
    out.register_hook(lambda grad: handle.remove())

    await backward(drive, out)

    assert seen == []


@both_drives
async def test_a_gradient_is_kept_if_that_is_asked_for_before_its_node_runs(drive):
    middle = np.multiply(leaf(2.0), 3.0)
    out = np.multiply(middle, 5.0)
    out.register_hook(lambda grad: middle.retain_grad())

    await backward(drive, out)

    assert middle.grad.item() == 5.0


@both_drives
async def test_what_one_sort_of_hook_adds_to_a_later_sort_of_its_node_runs_this_time(drive):
    """As in PyTorch, which looks at each sort when its turn comes."""
    seen: list[str] = []
    x = leaf(2.0)
    out = np.negative(x)
    node = out.grad_fn

    def first(grad: Any) -> None:
        node.register_prehook(second)
        handle.remove()

    def second(grads: Any) -> None:
        seen.append("pre-hook")
        node.register_hook(lambda outputs, grads: seen.append("post-hook"))

    handle = out.register_hook(first)
    await backward(drive, out)

    assert seen == ["pre-hook", "post-hook"]


@both_drives
async def test_the_first_hook_of_another_output_of_the_running_node_waits_for_the_next_backward(drive):
    seen: list[str] = []
    first, second = np.split(leaf(1.0, 2.0), 2)

    def adds(grad: Any) -> None:
        second.register_hook(lambda grad: seen.append("second"))
        handle.remove()

    handle = first.register_hook(adds)
    out = np.add(first, second)
    await backward(drive, out, retain_graph=True)
    assert seen == []
    await backward(drive, out)

    assert seen == ["second"]


@both_drives
async def test_a_hook_of_another_output_may_be_removed_before_its_turn(drive):
    seen: list[str] = []
    first, second = np.split(leaf(1.0, 2.0), 2)
    first.register_hook(lambda grad: handle.remove())
    handle: Any = second.register_hook(lambda grad: seen.append("second"))

    await backward(drive, np.add(first, second))

    assert seen == []


@both_drives
@pytest.mark.parametrize("make", [calling, awaiting], ids=["function", "async def"])
async def test_a_post_hook_registered_by_the_body_runs_with_no_inputs(make, drive):
    seen: list[Any] = []
    x = leaf(2.0)

    def registers(grad: Any) -> None:
        middle.grad_fn.register_hook(lambda outputs, inputs: seen.append((number(outputs), inputs)))

    middle = make(x, as_kind("function" if make is calling else "async def", registers))
    await backward(drive, np.multiply(middle, 3.0))

    assert seen == [(([3.0],), ())]


@both_drives
async def test_a_post_hook_registered_by_a_post_accumulate_hook_runs_with_no_inputs(drive):
    seen: list[Any] = []
    x = leaf(2.0)
    node = node_of(x)
    x.register_post_accumulate_grad_hook(
        lambda tensor: node.register_hook(lambda outputs, inputs: seen.append((outputs, inputs))) and None
    )

    await backward(drive, np.multiply(x, 3.0))

    assert seen == [((), ())]


@both_drives
async def test_a_post_hook_beside_which_the_body_registers_another_gets_its_inputs_as_does_the_other(drive):
    seen: list[Any] = []
    x = leaf(2.0)

    def registers(grad: Any) -> None:
        middle.grad_fn.register_hook(lambda outputs, inputs: seen.append(("second", number(inputs))))

    middle = calling(x, registers)
    middle.grad_fn.register_hook(lambda outputs, inputs: seen.append(("first", number(inputs))))
    await backward(drive, np.multiply(middle, 3.0))

    assert seen == [("first", ([3.0],)), ("second", ([3.0],))]


@both_drives
async def test_a_post_hook_removed_by_the_body_does_not_run(drive):
    seen: list[str] = []
    middle = calling(leaf(2.0), lambda grad: handle.remove())
    handle = middle.grad_fn.register_hook(lambda outputs, inputs: seen.append("ran"))

    await backward(drive, middle)

    assert seen == []


class Breathing:
    """A backward of plain nodes only that lets the event loop breathe after each, so that another task may meddle."""

    def __init__(self) -> None:
        self.x, self.middle, out = leaf(2.0), None, None
        self.middle = np.multiply(self.x, 3.0)
        # The leaf is reached at once, and so is the product; both wait while the chain runs.
        chain = leaf(1.0)
        for _ in range(20):
            chain = np.multiply(chain, 1.0)
        out = np.add(np.multiply(chain, self.middle), self.x)
        self.out = out

    async def run_while(self, meddle: Any) -> None:
        with loop_budget(-1.0):
            backward = asyncio.ensure_future(self.out.backward())
            # Two nodes have run, and wait for the rest of the chain.
            for _ in range(8):
                await asyncio.sleep(0)
            assert not backward.done()
            assert self.x.grad is None
            meddle()
            await backward


@every_place
async def test_a_hook_that_another_task_adds_runs_if_its_node_has_yet_to(where):
    seen: list[str] = []
    graph = Breathing()
    tensor = graph.x if where == "post-accumulate hook" else graph.middle
    await graph.run_while(lambda: register(where, tensor, lambda *args: seen.append("ran")))
    assert seen == ["ran"]
    assert graph.x.grad.item() == 4.0


async def test_a_gradient_that_another_task_asks_for_is_kept_if_its_node_has_yet_to_run():
    graph = Breathing()
    await graph.run_while(lambda: graph.middle.retain_grad())
    assert graph.middle.grad.item() == 1.0


# Handles.


@every_place
async def test_removing_twice_does_nothing_and_takes_nobody_elses_hook(where):
    seen: list[str] = []
    tensor, out = negated_or_leaf(where)
    handle = register(where, tensor, lambda *args: seen.append("first"))
    register(where, tensor, lambda *args: seen.append("second"))
    handle.remove()
    handle.remove()

    await ag.backward(out)

    assert seen == ["second"]


@every_place
async def test_a_function_registered_twice_runs_twice_and_each_handle_removes_one(where):
    seen: list[str] = []
    tensor, out = negated_or_leaf(where)

    def hook(*args: Any) -> None:
        seen.append("ran")

    first, second = register(where, tensor, hook), register(where, tensor, hook)
    await ag.backward(out, retain_graph=True)
    first.remove()
    await ag.backward(out, retain_graph=True)
    second.remove()
    await ag.backward(out)

    assert len(seen) == 3


@every_place
async def test_a_handle_is_a_block_that_removes_its_hook_even_where_the_block_fails(where):
    seen: list[str] = []
    tensor, out = negated_or_leaf(where)

    with register(where, tensor, lambda *args: seen.append("in the block")) as handle:
        await ag.backward(out, retain_graph=True)
    with pytest.raises(KeyError), register(where, tensor, lambda *args: seen.append("not at all")):
        raise KeyError
    await ag.backward(out)

    assert seen == ["in the block"]
    handle.remove()


def test_a_handle_outlives_its_tensor():
    x = leaf(2.0)
    handle = x.register_hook(print)
    del x
    gc.collect()

    handle.remove()


async def test_a_handle_removes_the_hook_of_a_tensor_that_is_gone_from_the_node_that_is_not():
    seen: list[str] = []
    middle = np.multiply(leaf(2.0), 3.0)
    handle = middle.register_hook(lambda grad: seen.append("ran"))
    out = np.multiply(middle, 5.0)
    del middle
    handle.remove()

    await ag.backward(out)

    assert seen == []


def test_a_removed_hook_is_let_go_of():
    hooks = HookList()
    held = {1}

    class Hook:
        def __call__(self, grad: Any) -> None: ...

        def __del__(self) -> None:
            held.clear()

    handle = hooks.add(Hook())
    gc.collect()
    assert held
    handle.remove()
    gc.collect()

    assert not held
    assert len(hooks) == 0


async def test_a_removed_hook_that_held_others_up_does_so_no_more():
    x = leaf(2.0)
    handle = x.register_post_accumulate_grad_hook(as_kind("suspending", lambda tensor: None), overlap=False)
    handle.remove()
    seen: list[Any] = []
    x.register_post_accumulate_grad_hook(seen.append)

    await ag.backward(np.multiply(x, 2.0))

    assert len(seen) == 1


@both_drives
async def test_hooks_of_nodes_that_get_no_gradient_at_all_may_change_too(drive):
    seen: list[Any] = []
    x = leaf(1.0)
    middle = np.multiply(x, 3.0)
    blind = split(middle, lambda first, second: middle.register_hook(seen.append) and None)[0]

    await backward(drive, blind)

    assert seen == [None]
