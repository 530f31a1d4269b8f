"""Where hooks may be: on several outputs of one node, views, roots, leaves before and after their first use."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.errors import HookError, RequiresGradError
from tests.core.engine.hooking import KINDS, as_kind, backward, both_drives, every_kind, number, register
from tests.support.functions import calling, split
from tests.support.graphs import node_of
from tests.support.leaves import leaf
from tests.support.refusals import refused


def noting(seen: list[Any], name: str, kind: str = "function") -> Any:
    """A hook that notes its name and the gradients it sees."""
    return as_kind(kind, lambda *args: seen.append((name, *[number(value) for value in args])))


# Several outputs of one node.


@every_kind
@both_drives
async def test_hooks_of_several_outputs_run_output_by_output_in_order_of_their_first_hooks(kind, drive):
    seen: list[Any] = []
    first, second = np.split(leaf(1.0, 2.0), 2)
    second.register_hook(noting(seen, "second 1", kind))
    first.register_hook(noting(seen, "first 1", kind))
    second.register_hook(noting(seen, "second 2", kind))

    await backward(drive, np.add(np.multiply(first, 5.0), np.multiply(second, 7.0)))

    assert seen == [("second 1", [7.0]), ("second 2", [7.0]), ("first 1", [5.0])]


def test_hooks_of_several_outputs_run_in_the_order_of_pytorch():
    torch = pytest.importorskip("torch")
    seen: list[str] = []
    first, second = torch.split(torch.tensor([1.0, 2.0], requires_grad=True), 1)
    second.register_hook(lambda grad: seen.append("second 1"))
    first.register_hook(lambda grad: seen.append("first 1"))
    second.register_hook(lambda grad: seen.append("second 2"))

    (first * 5.0 + second * 7.0).backward()

    assert seen == ["second 1", "second 2", "first 1"]


@every_kind
@both_drives
async def test_the_hook_of_an_output_that_nothing_used_sees_no_gradient(kind, drive):
    seen: list[Any] = []
    bodies: list[Any] = []
    x = leaf(1.0)
    used, unused = split(x, lambda first, second: bodies.append((first, second)) or first)
    used.register_hook(noting(seen, "used", kind))
    unused.register_hook(noting(seen, "unused", kind))
    unused.retain_grad()
    used.grad_fn.register_prehook(noting(seen, "node", kind))

    await backward(drive, np.multiply(used, 5.0))

    assert seen == [("used", [5.0]), ("unused", None), ("node", ([5.0], None))]
    assert bodies[0][0].item() == 5.0
    assert (bodies[0][1], unused.grad, x.grad.item()) == (None, None, 5.0)


@both_drives
async def test_each_output_keeps_a_gradient_of_its_own(drive):
    x = leaf(1.0, 2.0)
    first, second = np.split(x, 2)
    first.retain_grad()
    second.retain_grad()
    second.register_hook(lambda grad: grad * 10.0)

    await backward(drive, np.add(np.multiply(first, 5.0), np.multiply(second, 7.0)))

    assert (first.grad.item(), second.grad.item()) == (5.0, 70.0)
    assert x.grad.tolist() == [5.0, 70.0]


@both_drives
async def test_a_hook_of_one_output_changes_that_one_only(drive):
    got: list[Any] = []
    first, second = split(leaf(1.0), lambda *grads: got.append([grad.item() for grad in grads]) or grads[0])
    second.register_hook(lambda grad: grad * 10.0)

    await backward(drive, np.add(np.multiply(first, 5.0), np.multiply(second, 7.0)))

    assert got == [[5.0, 70.0]]


@both_drives
async def test_an_output_that_is_used_twice_calls_its_hook_once_with_the_sum(drive):
    seen: list[Any] = []
    first, second = np.split(leaf(1.0, 2.0), 2)
    first.register_hook(noting(seen, "first"))

    await backward(drive, np.add(np.multiply(first, 5.0), np.multiply(np.add(first, second), 7.0)))

    assert seen == [("first", [12.0])]


# Views.


@both_drives
async def test_a_view_and_what_it_looks_at_have_hooks_of_their_own(drive):
    seen: list[Any] = []
    x = leaf(1.0, 2.0, 3.0)
    base = np.multiply(x, 2.0)
    view = base[:2]
    assert view.is_view
    base.register_hook(noting(seen, "base"))
    view.register_hook(noting(seen, "view"))
    view.register_hook(lambda grad: grad * 10.0)
    view.retain_grad()
    base.retain_grad()

    await backward(drive, np.sum(view) + np.sum(base))

    assert seen == [("view", [1.0, 1.0]), ("base", [11.0, 11.0, 1.0])]
    assert view.grad.tolist() == [10.0, 10.0]
    assert base.grad.tolist() == [11.0, 11.0, 1.0]
    assert x.grad.tolist() == [22.0, 22.0, 2.0]


@both_drives
async def test_a_view_of_a_leaf_is_no_leaf(drive):
    seen: list[Any] = []
    x = leaf(1.0, 2.0)
    x.register_hook(noting(seen, "leaf"))
    view = x[1:]
    view.register_hook(noting(seen, "view"))
    with refused(HookError, RuntimeError, "belongs on a leaf", view.grad_fn.name):
        view.register_post_accumulate_grad_hook(print)

    await backward(drive, np.multiply(view, 3.0))

    assert seen == [("view", [3.0]), ("leaf", [0.0, 3.0])]


# Leaves.


@every_kind
@both_drives
@pytest.mark.parametrize("when", ["before the first use", "after it", "between two graphs"])
async def test_a_leafs_hooks_run_whenever_they_were_registered(kind, drive, when):
    seen: list[Any] = []
    x = leaf(2.0)

    def put() -> None:
        x.register_hook(noting(seen, "tensor", kind))
        x.register_post_accumulate_grad_hook(as_kind(kind, lambda tensor: seen.append(("leaf", tensor.grad.item()))))

    if when == "before the first use":
        put()
    out = np.multiply(x, 3.0)
    if when == "after it":
        put()
    if when == "between two graphs":
        await backward(drive, out)
        assert seen == []
        del out
        gc.collect()
        x.grad = None
        put()
        out = np.multiply(x, 3.0)
    await backward(drive, out)

    assert seen == [("tensor", [3.0]), ("leaf", 3.0)]


@both_drives
async def test_hooks_of_a_leaf_see_the_sum_once_in_each_backward(drive):
    seen: list[Any] = []
    x = leaf(2.0)
    x.register_hook(noting(seen, "tensor"))
    x.register_post_accumulate_grad_hook(lambda tensor: seen.append(("total", tensor.grad.item())))

    await backward(drive, np.add(np.multiply(x, 3.0), np.multiply(x, 4.0)))
    await backward(drive, np.multiply(x, 1.0))

    assert seen == [("tensor", [7.0]), ("total", 7.0), ("tensor", [1.0]), ("total", 8.0)]


@both_drives
async def test_hooks_on_a_leafs_node_go_with_its_last_graph_and_those_on_the_leaf_stay(drive):
    seen: list[Any] = []
    x = leaf(2.0)
    x.register_hook(noting(seen, "leaf"))
    out = np.multiply(x, 3.0)
    node_of(x).register_prehook(noting(seen, "node"))
    await backward(drive, out)
    del out
    gc.collect()

    await backward(drive, np.multiply(x, 3.0))

    assert [name for name, _ in seen] == ["leaf", "node", "leaf"]


@both_drives
async def test_a_leaf_that_no_longer_requires_grad_accumulates_nothing_and_its_hooks_run(drive):
    seen: list[Any] = []
    x, w = leaf(2.0), leaf(3.0)
    x.register_hook(noting(seen, "tensor"))
    x.register_post_accumulate_grad_hook(lambda tensor: seen.append(("leaf", tensor.grad)))
    out = np.multiply(x, w)
    x.requires_grad_(False)

    await backward(drive, out)

    assert seen == [("tensor", [3.0]), ("leaf", None)]
    assert w.grad.item() == 2.0


@both_drives
async def test_the_hooks_of_a_leaf_that_is_the_root_run(drive):
    seen: list[Any] = []
    x = leaf(2.0)
    x.register_hook(noting(seen, "tensor"))
    x.register_hook(lambda grad: grad * 5.0)
    x.register_post_accumulate_grad_hook(lambda tensor: seen.append(("leaf", tensor.grad.item())))

    await backward(drive, x)

    assert seen == [("tensor", [1.0]), ("leaf", 5.0)]


# The root, and tensors that die.


@every_kind
@both_drives
@pytest.mark.parametrize("roots", ["one root", "two roots", "one root twice", "a root above a root"])
async def test_the_hooks_of_a_root_see_what_the_backward_starts_from_and_what_arrives(kind, drive, roots):
    seen: list[Any] = []
    x = leaf(2.0)
    root = np.multiply(x, 3.0)
    root.register_hook(noting(seen, "root", kind))
    root.retain_grad()
    started = {
        "one root": ([root], [np.array([2.0])], 2.0),
        "two roots": ([root, np.multiply(x, 5.0)], [np.array([2.0]), np.array([1.0])], 2.0),
        "one root twice": ([root, root], [np.array([2.0]), np.array([5.0])], 7.0),
        "a root above a root": ([root, np.multiply(root, 5.0)], [np.array([2.0]), np.array([1.0])], 7.0),
    }
    tensors, grads, expected = started[roots]

    await backward(drive, tensors, grads)

    assert seen == [("root", [expected])]
    assert root.grad.item() == expected


@both_drives
async def test_the_hooks_of_a_root_get_its_dtype(drive):
    seen: list[Any] = []
    x = ag.tensor(np.ones(2, np.float32), requires_grad=True)
    out = np.multiply(x, 2.0)
    assert out.dtype == np.float32
    out.register_hook(lambda grad: seen.append(grad.dtype))

    await backward(drive, out, np.ones(2, np.float64))

    assert seen == [np.float32]


@every_kind
@both_drives
async def test_the_hooks_of_a_tensor_that_is_gone_still_run(kind, drive):
    seen: list[Any] = []
    x = leaf(2.0)
    middle = np.multiply(x, 3.0)
    middle.register_hook(noting(seen, "middle", kind))
    middle.retain_grad()
    out = np.multiply(middle, 5.0)
    del middle

    await backward(drive, out)

    assert seen == [("middle", [5.0])]


@both_drives
async def test_two_tensors_that_one_call_gives_twice_share_their_hooks(drive):
    """A Function that returns its input as it is: the new tensor has a node of its own."""
    seen: list[Any] = []
    x = leaf(2.0)
    middle = np.multiply(x, 3.0)
    copy = calling(middle, lambda grad: None)
    middle.register_hook(noting(seen, "middle"))
    copy.register_hook(noting(seen, "copy"))

    await backward(drive, copy)

    assert seen == [("copy", [1.0]), ("middle", [1.0])]


# Where they may not be.


def test_hooks_need_a_tensor_that_requires_grad():
    plain = ag.tensor([1.0])
    for call in (plain.register_hook, plain.register_post_accumulate_grad_hook):
        with refused(RequiresGradError, RuntimeError, "requires grad", ".requires_grad_()"):
            call(print)
    with refused(RequiresGradError, RuntimeError, "requires grad", ".requires_grad_()"):
        plain.retain_grad()


def test_what_cannot_be_called_is_no_hook_anywhere():
    x = leaf(1.0)
    middle = np.multiply(x, 2.0)
    for where, tensor in [(where, middle) for where in ("tensor hook", "pre-hook", "post-hook")] + [
        ("post-accumulate hook", x)
    ]:
        for wrong in (None, 3, "print", [print]):
            with pytest.raises(TypeError, match=r"a hook must be callable, not .*: pass a function or an async def"):
                register(where, tensor, wrong)


async def test_keeping_the_gradient_of_a_leaf_changes_nothing():
    x = leaf(1.0)
    x.retain_grad()

    await ag.backward(np.multiply(x, 2.0))

    assert not x.retains_grad
    assert x.grad.item() == 2.0


@both_drives
async def test_keeping_a_gradient_twice_keeps_it_once_and_the_next_backward_adds_in_a_new_object(drive):
    middle = np.multiply(leaf(1.0), 2.0)
    middle.retain_grad()
    middle.retain_grad()
    out = np.multiply(middle, 3.0)

    await backward(drive, out, retain_graph=True)
    first = middle.grad
    await backward(drive, out)

    assert (first.item(), middle.grad.item()) == (3.0, 6.0)
    assert middle.grad is not first


@pytest.mark.parametrize("kind", KINDS)
async def test_hooks_run_on_a_graph_of_one_node_and_none(kind):
    """Nothing but a hooked root, whose edges all lead nowhere."""
    seen: list[Any] = []

    class Sink(ag.graph.Node):
        def apply(self, grads):
            return ()

    node = Sink()
    node.register_prehook(as_kind(kind, lambda grads: seen.append(grads)))
    node.register_hook(as_kind(kind, lambda outputs, grads: seen.append((outputs, grads))))

    await ag.backward(ag.graph.GradientEdge(node, 0), 2.0)

    assert seen == [(2.0,), ((), (2.0,))]
