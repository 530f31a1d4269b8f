"""The total order of hooks at one node: tensor hooks, retained gradient, pre-hooks, body, post-hooks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from tests.core.engine.hooking import Journal, Ours, Torchs, as_kind, backward, both_drives, every_kind, register
from tests.support.functions import calling
from tests.support.graphs import node_of
from tests.support.leaves import leaf

LEAF_ORDER = ["tensor hook 1", "tensor hook 2", "pre-hook 1", "pre-hook 2"]
LEAF_ORDER += ["post-accumulate hook 1", "post-accumulate hook 2", "post-hook 1", "post-hook 2"]


@both_drives
@every_kind
async def test_at_a_leaf_the_order_is_that_of_the_kinds_and_then_of_registration(kind, drive):
    seen: list[Any] = []
    x = leaf(1.0)
    accumulator = node_of(x)
    for turn in (1, 2):
        for where in ("post-hook", "post-accumulate hook", "pre-hook", "tensor hook"):
            note = f"{where} {turn}"
            hook = as_kind(
                kind, lambda *args, note=note: seen.append((note, None if x.grad is None else x.grad.item()))
            )
            register(where, x, hook)

    await backward(drive, np.multiply(x, 3.0))

    assert [what for what, _ in seen] == LEAF_ORDER
    # What comes before the accumulation, and what after.
    assert [grad for _, grad in seen] == [None] * 4 + [3.0] * 4
    assert accumulator.variable is x


@both_drives
@every_kind
async def test_at_a_result_tensor_hooks_come_first_then_the_retained_gradient_pre_hooks_body_and_post_hooks(
    kind, drive
):
    seen: list[str] = []
    x = leaf(1.0)
    middle = calling(np.multiply(x, 1.0), lambda grad: seen.append(f"body, retained {middle.grad.item():g}"))

    def note(where: str, turn: int) -> Any:
        def hook(*args: Any) -> None:
            seen.append(f"{where} {turn}" + ("" if middle.grad is None else f", retained {middle.grad.item():g}"))

        return as_kind(kind, hook)

    for turn in (1, 2):
        for where in ("post-hook", "pre-hook"):
            register(where, middle, note(where, turn))
    middle.retain_grad()
    for turn in (1, 2):
        register("tensor hook", middle, note("tensor hook", turn))

    await backward(drive, np.multiply(middle, 3.0))

    assert seen == [
        "tensor hook 1",
        "tensor hook 2",
        "pre-hook 1, retained 3",
        "pre-hook 2, retained 3",
        "body, retained 3",
        "post-hook 1, retained 3",
        "post-hook 2, retained 3",
    ]


@both_drives
@every_kind
@pytest.mark.parametrize("retained", ["before the hooks", "after the hooks"])
async def test_a_retained_gradient_has_all_that_tensor_hooks_change_and_nothing_that_pre_hooks_do(
    kind, drive, retained
):
    x = leaf(1.0)
    middle = np.multiply(x, 1.0)
    if retained == "before the hooks":
        middle.retain_grad()
    register("pre-hook", middle, as_kind(kind, lambda grads: (grads[0] * 100.0,)))
    register("tensor hook", middle, as_kind(kind, lambda grad: grad * 2.0))
    register("tensor hook", middle, as_kind(kind, lambda grad: grad * 5.0))
    if retained == "after the hooks":
        middle.retain_grad()

    await backward(drive, np.multiply(middle, 3.0))

    assert middle.grad.item() == 30.0
    assert x.grad.item() == 3000.0


@both_drives
@every_kind
async def test_each_hook_sees_what_the_ones_before_have_made(kind, drive):
    seen: list[Any] = []
    x = leaf(1.0)
    middle = np.negative(x)

    def times(factor: float) -> Any:
        def hook(*args: Any) -> Any:
            (grad,) = args[0] if isinstance(args[0], tuple) else (args[0],)
            seen.append(grad.item())
            return (grad * factor,) if isinstance(args[0], tuple) else grad * factor

        return as_kind(kind, hook)

    for where in ("post-hook", "pre-hook", "tensor hook"):
        for factor in (2.0, 3.0):
            register(where, middle, times(factor))

    await backward(drive, middle, np.ones(1))

    assert seen == [1.0, 2.0, 6.0, 12.0, -36.0, -72.0]
    assert x.grad.item() == -216.0


@both_drives
async def test_post_hooks_of_a_leaf_get_no_outputs_and_the_gradient_that_was_accumulated(drive):
    seen: list[Any] = []
    x = leaf(1.0)
    accumulator = node_of(x)
    accumulator.register_prehook(lambda grads: (grads[0] * 10.0,))
    accumulator.register_hook(lambda outputs, grads: seen.append((outputs, grads[0].item())))

    await backward(drive, np.multiply(x, 2.0))

    assert seen == [((), 20.0)]
    assert x.grad.item() == 20.0


def whole_order(library: Any, **limits: Any) -> list[str]:
    """Which hooks run, in which order, where there is one of each sort everywhere."""
    x, w = library.leaf(1.0, 2.0), library.leaf(3.0, 4.0)
    p = x * w
    q = p * x
    out = (p * 5.0) + q
    journal = Journal(library)
    journal.watch_all(x=x, w=w, p=p, q=q, out=out)
    library.backward([out], [library.leaf(1.0, 1.0).detach()])
    return journal.order()


def test_the_order_over_a_whole_graph_is_that_of_pytorch():
    assert whole_order(Ours()) == whole_order(Torchs())
    assert whole_order(Ours())[:6] == [
        "out: tensor hook",
        "out: pre-hook",
        "out: post-hook",
        "q: tensor hook",
        "q: pre-hook",
        "q: post-hook",
    ]


@both_drives
async def test_an_async_hook_that_suspends_keeps_its_place_among_those_of_its_node(drive):
    seen: list[str] = []
    x = leaf(1.0)
    middle = calling(np.multiply(x, 1.0), lambda grad: seen.append("body"))
    for where in ("tensor hook", "pre-hook", "post-hook"):
        for kind in ("suspending", "function", "async def", "awaitable"):
            register(where, middle, as_kind(kind, lambda *args, note=f"{where}, {kind}": seen.append(note)))

    await backward(drive, middle)

    kinds = ["suspending", "function", "async def", "awaitable"]
    before = [f"{where}, {kind}" for where in ("tensor hook", "pre-hook") for kind in kinds]
    assert seen == [*before, "body", *[f"post-hook, {kind}" for kind in kinds]]


@both_drives
async def test_a_node_is_released_after_its_post_hooks(drive):
    x = leaf(3.0)
    middle = np.multiply(x, x)
    middle.grad_fn.register_hook(lambda outputs, grads: kept.append(middle.grad_fn(np.ones(1))))
    kept: list[Any] = []

    await backward(drive, middle)

    assert [value.item() for value in kept[0]] == [3.0, 3.0]
    with pytest.raises(ag.errors.ReleasedGraphError):
        middle.grad_fn(np.ones(1))
