"""Which hooks run where a backward is limited to inputs, and what is captured before and after them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from tests.core.engine.hooking import Journal, Ours, Torchs, as_kind, backward, both_drives, every_kind, grad, number
from tests.support.leaves import leaf


def limited(library: Any, how: str, *targets: str) -> tuple[list[Any], Any]:
    """Put hooks of all sorts everywhere on a small graph; give what those that ran saw, and what was captured.

    u and v are computed from m, and m from x and w; y is a leaf that only v has.
    """
    x, w, y = library.leaf(1.0, 2.0), library.leaf(3.0, 4.0), library.leaf(5.0, 6.0)
    m = x * w
    u = m * m
    v = m * y
    out = u + v
    tensors = {"x": x, "w": w, "y": y, "m": m, "u": u, "v": v, "out": out}
    journal = Journal(library)
    journal.watch_all(**tensors)
    start = library.leaf(1.0, 1.0).detach()
    wanted = [tensors[name] for name in targets]
    if how == "grad":
        captured = number(library.grad([out], wanted, [start]))
        return journal.entries, captured
    library.backward([out], [start], inputs=wanted)
    return journal.entries, None


TARGETS = [["x"], ["y"], ["m"], ["v"], ["out"], ["m", "x"], ["x", "w"], ["u", "y"], ["out", "m", "x"], ["m", "m"]]


@pytest.mark.parametrize("how", ["grad", "inputs"])
@pytest.mark.parametrize("targets", TARGETS, ids=" ".join)
def test_the_hooks_that_run_for_some_inputs_are_those_of_pytorch(how, targets):
    assert limited(Ours(), how, *targets) == limited(Torchs(), how, *targets)


def hooks_that_ran(how: str, *targets: str) -> dict[str, list[str]]:
    """The hooks that ran, by tensor, of those where any did."""
    found: dict[str, list[str]] = {}
    for name, where, *_ in limited(Ours(), how, *targets)[0]:
        found.setdefault(name, []).append(where)
    return found


EVERYTHING = ["tensor hook", "pre-hook", "post-hook"]
LEAF = ["tensor hook", "pre-hook", "post-accumulate hook", "post-hook"]


def test_a_target_of_grad_runs_its_tensor_hooks_only_what_is_on_the_way_runs_all_and_the_rest_none():
    assert hooks_that_ran("grad", "y") == {"out": EVERYTHING, "v": EVERYTHING, "y": ["tensor hook"]}
    assert hooks_that_ran("grad", "m") == {"out": EVERYTHING, "u": EVERYTHING, "v": EVERYTHING, "m": ["tensor hook"]}


def test_inputs_of_backward_run_all_their_hooks_as_does_what_is_on_the_way_and_the_rest_none():
    assert hooks_that_ran("inputs", "y") == {"out": EVERYTHING, "v": EVERYTHING, "y": LEAF}
    assert hooks_that_ran("inputs", "m") == {"out": EVERYTHING, "u": EVERYTHING, "v": EVERYTHING, "m": EVERYTHING}


@every_kind
@both_drives
async def test_a_capture_is_taken_after_the_tensor_hooks_of_a_node_that_does_not_run(kind, drive):
    x = leaf(2.0)
    m = np.multiply(x, 2.0)
    m.register_hook(as_kind(kind, lambda grad: grad * 10.0))

    assert number(await grad(drive, np.negative(m), [m])) == ([-10.0],)


@every_kind
@both_drives
async def test_a_capture_is_taken_before_the_tensor_hooks_of_a_node_that_runs(kind, drive):
    """The quirk of PyTorch: the same question has another answer where something below is asked for too."""
    x = leaf(2.0)
    m = np.multiply(x, 2.0)
    m.register_hook(as_kind(kind, lambda grad: grad * 10.0))

    assert number(await grad(drive, np.positive(m), [m, x])) == ([1.0], [20.0])


@both_drives
async def test_a_write_into_a_gradient_shows_in_no_gradient_that_was_captured_before(drive):
    def write(gradient: Any) -> None:
        gradient *= 10.0

    x = leaf(2.0, 3.0)
    m = np.multiply(x, 2.0)
    m.register_hook(write)

    assert number(await grad(drive, np.negative(m), [m, x], np.ones(2))) == ([-1.0, -1.0], [-20.0, -20.0])


@both_drives
async def test_a_retained_gradient_is_kept_where_its_node_captures_only(drive):
    x = leaf(2.0)
    m = np.multiply(x, 2.0)
    m.retain_grad()
    m.register_hook(lambda gradient: gradient * 10.0)

    captured = await grad(drive, np.negative(m), [m])

    assert number(captured) == ([-10.0],)
    assert m.grad.item() == -10.0
    assert m.grad is not captured[0]


@both_drives
async def test_inputs_of_backward_that_are_no_leaves_keep_their_gradient_from_then_on(drive):
    x = leaf(2.0)
    m = np.multiply(x, 2.0)
    m.register_hook(lambda gradient: gradient * 10.0)
    assert not m.retains_grad

    await backward(drive, np.negative(m), inputs=[m], retain_graph=True)

    assert m.retains_grad
    assert (m.grad.item(), x.grad) == (-10.0, None)


@both_drives
async def test_a_hook_that_raises_off_the_way_does_not_run(drive):
    def fails(*args: Any) -> None:
        raise ZeroDivisionError

    x, w = leaf(2.0), leaf(3.0)
    off = np.multiply(w, 2.0)
    off.register_hook(fails)
    w.register_hook(fails)
    w.register_post_accumulate_grad_hook(fails)
    x.register_post_accumulate_grad_hook(fails)

    assert number(await grad(drive, np.add(np.multiply(x, 5.0), off), [x])) == ([5.0],)


@both_drives
async def test_hooks_run_once_where_an_input_is_named_twice(drive):
    seen: list[Any] = []
    x = leaf(2.0)
    x.register_hook(lambda gradient: seen.append(gradient.item()) or gradient * 2.0)

    assert number(await grad(drive, np.multiply(x, 5.0), [x, x])) == ([10.0], [10.0])
    assert seen == [5.0]


@both_drives
async def test_one_output_of_a_node_is_captured_and_hooks_of_the_others_run_too(drive):
    seen: list[Any] = []
    x = leaf(1.0, 2.0)
    first, second = np.split(x, 2)
    first.register_hook(lambda gradient: seen.append("first") or gradient * 2.0)
    second.register_hook(lambda gradient: seen.append("second") or gradient * 3.0)

    captured = await grad(drive, np.add(np.multiply(first, 5.0), np.multiply(second, 7.0)), [second])

    # The gradient of the first is not on the way, and yet PyTorch computes it for the same node.
    assert number(captured) == ([21.0],)
    assert seen == ["first", "second"]


def test_pytorch_captures_one_output_of_a_node_and_runs_hooks_of_the_others_too():
    torch = pytest.importorskip("torch")
    seen: list[Any] = []
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    first, second = torch.split(x, 1)
    first.register_hook(lambda gradient: seen.append("first"))
    second.register_hook(lambda gradient: seen.append("second") or gradient * 3.0)

    (captured,) = torch.autograd.grad(first * 5.0 + second * 7.0, [second])

    assert captured.item() == 21.0
    assert seen == ["first", "second"]


@pytest.mark.parametrize("create_graph", [False, True])
async def test_a_root_that_is_an_input_is_captured_after_its_hooks(create_graph):
    x = leaf(2.0)
    x.register_hook(lambda gradient: gradient * 3.0)
    m = np.multiply(x, 2.0)
    m.register_hook(lambda gradient: gradient * 5.0)

    assert number(await ag.grad(m, [m], create_graph=create_graph)) == ([5.0],)
    assert number(await ag.grad(m, [m, x], create_graph=create_graph)) == ([1.0], [30.0])
