"""What a hook finds around it, what it may do: modes, current node and task, recording, writes, nested backwards."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from tests.core.engine.hooking import as_kind, backward, both_drives, every_kind, grad, product_or_leaf, register
from tests.support.graphs import node_of
from tests.support.leaves import leaf

PLACES = ["tensor hook", "pre-hook", "post-hook", "post-accumulate hook"]
every_place = pytest.mark.parametrize("where", PLACES)
create_graph_or_not = pytest.mark.parametrize("create_graph", [False, True])
quiet = pytest.mark.filterwarnings("ignore:backward.. with create_graph")


# Modes, node and task.


@pytest.mark.slow
@quiet
@every_kind
@both_drives
@every_place
@create_graph_or_not
@pytest.mark.parametrize("around", [ag.no_grad, ag.enable_grad])
async def test_grad_mode_is_create_graph_whatever_it_is_around_the_backward(where, kind, drive, create_graph, around):
    modes: list[bool] = []
    tensor, out = product_or_leaf(where)
    register(where, tensor, as_kind(kind, lambda *args: modes.append(ag.is_grad_enabled())))

    with around():
        await backward(drive, out, create_graph=create_graph)
        assert ag.is_grad_enabled() is (around is ag.enable_grad)

    assert modes == [create_graph]


@every_kind
@both_drives
@every_place
async def test_the_current_node_and_task_are_the_hooks_own(where, kind, drive):
    found: list[Any] = []
    tensor, out = product_or_leaf(where)
    node = node_of(tensor)

    def look(*args: Any) -> None:
        task = ag.engine.current_graph_task()
        assert task is not None
        found.append(
            (ag.graph.current_node(), task.id, ag.engine.current_graph_task_id(), ag.engine.will_execute(node))
        )

    register(where, tensor, as_kind(kind, look))
    await backward(drive, out, retain_graph=True)
    await backward(drive, out)

    (first_node, first_id, first_again, first_will), (second_node, second_id, second_again, _) = found
    assert first_node is second_node is node
    assert first_id == first_again < second_id == second_again
    assert first_will
    assert ag.graph.current_node() is None
    assert ag.engine.current_graph_task_id() == -1


async def test_the_current_node_and_task_are_still_the_hooks_own_after_it_has_waited_beside_others():
    barrier = asyncio.Barrier(3)
    leaves = [leaf(float(each)) for each in range(3)]
    nodes = [node_of(x) for x in leaves]
    found: dict[int, Any] = {}

    def looking(index: int) -> Any:
        async def hook(grad: Any) -> None:
            await barrier.wait()
            found[index] = ag.graph.current_node(), ag.is_grad_enabled()

        return hook

    for index, x in enumerate(leaves):
        x.register_hook(looking(index))
    await np.add(np.add(leaves[0], leaves[1]), leaves[2]).backward()
    assert found == {index: (node, False) for index, node in enumerate(nodes)}


@every_kind
@both_drives
@every_place
async def test_a_hook_sees_the_callers_context_and_its_changes_stay_its_own(where, kind, drive):
    setting: contextvars.ContextVar[str] = contextvars.ContextVar("setting", default="none")
    seen: list[str] = []
    tensor, out = product_or_leaf(where)

    def hook(*args: Any) -> None:
        seen.append(setting.get())
        setting.set("the hook's")
        ag.set_grad_enabled(True)

    register(where, tensor, as_kind(kind, hook))
    for each in (tensor, out):
        register("tensor hook", each, lambda grad: seen.append(f"{setting.get()}, {ag.is_grad_enabled()}"))
    token = setting.set("the caller's")
    try:
        await backward(drive, out)
        assert setting.get() == "the caller's"
    finally:
        setting.reset(token)

    assert seen.count("the caller's") == 1
    assert "the caller's, False" in seen


# Recording.


@every_kind
@both_drives
async def test_under_create_graph_hooks_get_and_return_tensors_with_a_history(kind, drive):
    x = leaf(3.0)
    middle = np.multiply(x, x)
    histories: list[bool] = []

    def hook(gradient: Any) -> Any:
        histories.append(gradient.requires_grad)
        return gradient * x

    out = np.multiply(middle, middle)
    # out = x ** 4; the gradient of middle is 2 x ** 2, times x; that of x is 4 x ** 4, and its own 16 x ** 3.
    with middle.register_hook(as_kind(kind, hook)):
        (first,) = await grad(drive, out, x, create_graph=True)
    (second,) = await grad(drive, first, x)

    assert histories == [True]
    assert (first.item(), second.item()) == (324.0, 432.0)


@every_kind
@both_drives
@pytest.mark.parametrize("where", ["pre-hook", "post-hook"])
async def test_under_create_graph_hooks_of_nodes_get_and_return_tensors_with_a_history(where, kind, drive):
    x = leaf(3.0)
    middle = np.negative(x)
    out = np.multiply(middle, middle)

    # out = x ** 2, of gradient 2 x, times x; 2 x ** 2 has the gradient 4 x.
    with register(where, middle, as_kind(kind, lambda grads, *_: (grads[0] * x,))):
        (first,) = await grad(drive, out, x, create_graph=True)
    (second,) = await grad(drive, first, x)

    assert (first.item(), second.item()) == (18.0, 12.0)


@both_drives
async def test_a_hook_runs_again_where_the_gradient_is_differentiated_through_its_node(drive):
    x, seen = leaf(3.0), []
    middle = np.multiply(x, x)
    middle.register_hook(lambda gradient: seen.append(gradient.item()))

    (first,) = await grad(drive, np.multiply(middle, middle), x, create_graph=True)
    await grad(drive, first, x)

    # 2 x ** 2, and what the gradient 4 x ** 3 = 2 middle * 2 x makes of it by way of middle: 4 x.
    assert seen == [18.0, 12.0]


@quiet
async def test_a_post_accumulate_hook_may_differentiate_the_gradient_under_create_graph():
    found: list[float] = []
    x = leaf(3.0)

    async def hook(tensor: Any) -> None:
        assert tensor.grad.requires_grad
        (second,) = await ag.grad(tensor.grad, tensor, retain_graph=True)
        found.append(second.item())

    x.register_post_accumulate_grad_hook(hook)
    await ag.backward(np.multiply(np.multiply(x, x), x), create_graph=True)

    assert found == [18.0]
    x.grad = None


async def test_without_create_graph_hooks_record_nothing_unless_they_ask():
    made: list[Any] = []
    x = leaf(3.0)

    def hook(gradient: Any) -> None:
        made.append((gradient * x).requires_grad)
        with ag.enable_grad():
            made.append((gradient * x).requires_grad)

    x.register_hook(hook)
    await ag.backward(np.multiply(x, x))

    assert made == [False, True]


# Writes.


@every_kind
@both_drives
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("where", ["tensor hook", "pre-hook"])
async def test_what_a_hook_writes_into_a_gradient_is_seen_downstream(where, size, kind, drive):
    def write(arg: Any) -> None:
        gradient = arg[0] if isinstance(arg, tuple) else arg
        gradient *= 10.0

    x = leaf(*range(size))
    middle = np.negative(x)
    register(where, middle, as_kind(kind, write))

    await backward(drive, np.multiply(middle, 2.0), np.ones(size))

    assert x.grad.tolist() == [-20.0] * size


@both_drives
@pytest.mark.parametrize("where", ["tensor hook", "pre-hook", "post-hook"])
async def test_what_a_hook_writes_into_a_gradient_without_axes_is_seen_downstream(where, drive):
    def write(arg: Any, *_: Any) -> None:
        gradient = arg[0] if isinstance(arg, tuple) else arg
        gradient *= 10.0

    x = ag.tensor(2.0, requires_grad=True)
    middle = np.negative(x)
    register(where, middle, write)

    await backward(drive, np.multiply(middle, 2.0))

    assert x.grad.item() == -20.0


@both_drives
async def test_what_a_post_hook_writes_into_the_outputs_is_handed_on(drive):
    def write(outputs: Any, grads: Any) -> None:
        outputs[0][...] = 5.0

    x = leaf(1.0, 2.0)
    middle = np.negative(x)
    middle.grad_fn.register_hook(write)

    await backward(drive, np.multiply(middle, 2.0), np.ones(2))

    assert x.grad.tolist() == [5.0, 5.0]


@both_drives
async def test_a_gradient_that_a_hook_keeps_does_not_change_any_more(drive):
    kept: list[Any] = []
    x = leaf(1.0, 2.0)
    x.register_hook(kept.append)
    for _ in range(3):
        await backward(drive, np.multiply(x, 2.0), np.ones(2))

    assert [each.tolist() for each in kept] == [[2.0, 2.0]] * 3
    assert x.grad.tolist() == [6.0, 6.0]
