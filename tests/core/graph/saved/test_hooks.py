"""Saved-tensor hooks that are plain functions: what they are called with, what they may return, where they hold."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ArgumentTypeError, HookError, HookTypeError, ReleasedGraphError
from asyncgrad.graph import disable_saved_tensors_hooks, saved_tensors_hooks
from tests.core.graph.saved.packing import Store, as_is, saving_chain
from tests.support.leaves import leaf, leaf_of

# What packs, and when.


def test_each_saved_tensor_is_packed_when_it_is_saved_and_unpacked_when_its_node_runs():
    x, store = leaf(0.5, 1.0), Store()
    with store.hooks():
        y = saving_chain(x)
    packed = len(store.arrays)

    assert (packed, store.unpacked) == (8, [])
    sync.backward(y)
    assert sorted(store.unpacked) == list(range(packed))


def test_gradients_are_those_without_hooks():
    x, twin = leaf(0.5, 1.0), leaf(0.5, 1.0)
    with Store().hooks():
        y = saving_chain(x)
    sync.backward(y)
    sync.backward(saving_chain(twin))

    assert x.grad.tolist() == twin.grad.tolist()


def test_a_tensor_that_is_saved_twice_is_packed_twice():
    x, store = leaf(3.0), Store()
    with store.hooks():
        y = x * x
    sync.backward(y)

    assert (len(store.arrays), sorted(store.unpacked), x.grad.tolist()) == (2, [0, 1], [6.0])


def test_pack_is_given_an_input_as_it_is_and_an_output_as_a_detached_alias():
    x, store = leaf(3.0), Store()
    with store.hooks():
        y = np.exp(x * x)
    first, second, out = store.shown

    assert (first is x, second is x) == (True, True)
    assert (out is y, out.requires_grad, np.shares_memory(out.numpy(), y.numpy())) == (False, False, True)


def test_pack_runs_with_recording_off_and_is_not_packed_itself():
    calls: list[bool] = []

    def pack(tensor: Any) -> Any:
        calls.append(ag.is_grad_enabled())
        with ag.enable_grad():
            tensor * tensor
        return tensor

    with saved_tensors_hooks(pack, as_is):
        y = leaf(3.0) * leaf(4.0)

    assert (calls, y.requires_grad, ag.is_grad_enabled()) == ([False, False], True, True)


def test_what_a_backward_does_not_need_is_not_unpacked():
    x, y, store = leaf(3.0), leaf(4.0), Store()
    with store.hooks():
        z = x * y
    sync.grad(z, [x])

    assert [store.arrays[number].tolist() for number in store.unpacked] == [[4.0]]


def test_nothing_is_packed_where_nothing_is_recorded():
    store = Store()
    with store.hooks():
        ag.tensor([1.0]) * ag.tensor([2.0])
        with ag.no_grad():
            leaf(1.0) * leaf(2.0)

    assert store.arrays == []


def test_under_retain_graph_each_backward_unpacks_again():
    x, store = leaf(3.0), Store()
    with store.hooks():
        y = x * x
    for _ in range(3):
        sync.backward(y, retain_graph=True)

    assert (len(store.arrays), sorted(store.unpacked), x.grad.tolist()) == (2, [0, 0, 0, 1, 1, 1], [18.0])


def test_a_second_backward_without_retain_graph_finds_nothing_to_unpack():
    store = Store()
    with store.hooks():
        y = leaf(3.0) * leaf(4.0)
    sync.backward(y)

    with pytest.raises(ReleasedGraphError):
        sync.backward(y)
    assert len(store.unpacked) == 2


def test_nodes_unpack_in_the_order_in_which_they_run():
    x, store = leaf(2.0), Store()
    with store.hooks():
        y = np.exp(np.sin(np.tanh(x)))
    sync.backward(y)

    assert store.unpacked == [2, 1, 0]


def test_what_was_packed_as_a_copy_is_not_checked():
    x = leaf(3.0)
    with Store().hooks():
        y = x * x
    with ag.no_grad():
        x[...] = 100.0
    sync.backward(y)

    assert x.grad.tolist() == [6.0]


def test_hooks_may_return_the_tensor_itself():
    x = leaf(0.5, 1.0)
    with saved_tensors_hooks(as_is, as_is):
        y = saving_chain(x)
    sync.backward(y)
    expected = x.grad.tolist()
    x.grad = None
    sync.backward(saving_chain(x))

    assert x.grad.tolist() == expected


def test_scalars_and_complex_numbers_and_single_precision_are_packed_as_they_are():
    for value in (np.float64(2.0), np.array([1 + 2j]), np.array([1.0, 2.0], np.float32)):
        x, twin = leaf_of(value), leaf_of(value)
        with Store().hooks():
            y = (x * x * x).sum()
        sync.backward(y, y.numpy() * 0 + 1)
        z = (twin * twin * twin).sum()
        sync.backward(z, z.numpy() * 0 + 1)
        assert (x.grad.tolist(), x.grad.dtype) == (twin.grad.tolist(), twin.grad.dtype)


# Gradients of gradients.


def test_what_is_unpacked_has_its_place_in_the_graph():
    x, twin = leaf(0.5, 1.0), leaf(0.5, 1.0)
    with Store().hooks():
        y = saving_chain(x)
    (g,) = sync.grad(y, [x], create_graph=True)
    sync.backward(g.sum())
    (expected,) = sync.grad(saving_chain(twin), [twin], create_graph=True)
    sync.backward(expected.sum())

    np.testing.assert_allclose(x.grad.numpy(), twin.grad.numpy())


def test_nodes_of_a_recorded_backward_are_packed_too():
    x, store = leaf(0.5, 1.0), Store()
    with store.hooks():
        y = saving_chain(x)
        before = len(store.arrays)
        (g,) = sync.grad(y, [x], create_graph=True)
    assert len(store.arrays) > before
    sync.backward(g.sum())
    packed = x.grad.tolist()
    x.grad = None
    (g,) = sync.grad(saving_chain(x), [x], create_graph=True)
    sync.backward(g.sum())

    assert packed == x.grad.tolist()


def test_gradcheck_and_gradgradcheck_hold_through_packed_tensors():
    def packed(x: Any) -> Any:
        with Store().hooks():
            return saving_chain(x)

    x = leaf_of(np.array([0.3, 0.7]))
    assert sync.gradcheck(packed, [x])
    assert sync.gradgradcheck(packed, [x])


# What hooks may not do.


def test_a_pack_that_fails_fails_the_forward_at_once():
    with saved_tensors_hooks(lambda t: 1 / 0, as_is), pytest.raises(ZeroDivisionError):
        leaf(1.0) * leaf(2.0)
    assert (leaf(1.0) * leaf(2.0)).requires_grad


def test_a_pack_that_writes_into_its_input_is_refused():
    def pack(tensor: Any) -> Any:
        tensor += 1
        return tensor

    with saved_tensors_hooks(pack, as_is), pytest.raises(HookError, match="changed its input in place") as raised:
        leaf(1.0) * leaf(2.0)
    assert "MultiplyBackward" in str(raised.value)
    assert "copy" in str(raised.value)


def test_a_failing_unpack_fails_the_backward_names_the_node_and_leaves_gradients():
    x, w = leaf(1.0), leaf(2.0)
    with saved_tensors_hooks(as_is, lambda t: 1 / 0):
        inner = x * x
    loss = (w * 2.0 + inner).sum()

    with pytest.raises(ZeroDivisionError) as raised:
        sync.backward(loss)
    assert any("MultiplyBackward" in note for note in raised.value.__notes__)
    assert (x.grad, w.grad) == (None, None)


@pytest.mark.parametrize("returned", [None, 1.0, [1.0], "path"])
def test_an_unpack_that_returns_no_array_is_refused(returned: Any):
    with saved_tensors_hooks(as_is, lambda t: returned):
        y = leaf(1.0) * leaf(2.0)

    with pytest.raises(HookTypeError, match="return the tensor that was packed") as raised:
        sync.backward(y)
    assert "MultiplyBackward" in str(raised.value)


@pytest.mark.parametrize("returned", [np.ones(2), np.ones(()), np.ones((1, 1)), np.ones(1, np.float32)])
def test_an_unpack_that_returns_another_shape_or_dtype_is_refused(returned: Any):
    with saved_tensors_hooks(as_is, lambda t: returned):
        y = leaf(1.0) * leaf(2.0)

    with pytest.raises(HookError, match=r"shape \(1,\) and dtype float64"):
        sync.backward(y)


# Where they hold.


def test_of_nested_hooks_the_innermost_alone_are_used():
    outer, inner = Store(), Store()
    with outer.hooks():
        leaf(1.0) * leaf(2.0)
        with inner.hooks():
            leaf(1.0) * leaf(2.0)
        leaf(1.0) * leaf(2.0)

    assert (len(outer.arrays), len(inner.arrays)) == (4, 2)


def test_after_an_error_the_outer_hooks_hold_again():
    outer = Store()
    with outer.hooks():
        with pytest.raises(KeyError), Store().hooks():
            raise KeyError
        leaf(1.0) * leaf(2.0)

    assert len(outer.arrays) == 2


def test_saved_tensor_hooks_as_a_decorator_hold_in_the_body():
    store = Store()

    @store.hooks()
    def square(x: Any) -> Any:
        return x * x

    square(leaf(1.0))
    leaf(1.0) * leaf(1.0)
    assert len(store.arrays) == 2


def test_entering_hooks_where_they_are_disabled_raises_the_message():
    with disable_saved_tensors_hooks("not in here"):
        with pytest.raises(HookError, match=r"^not in here$"), Store().hooks():
            pass
        assert (leaf(1.0) * leaf(2.0)).requires_grad


def test_the_outer_message_holds_again_after_the_inner_block():
    with disable_saved_tensors_hooks("outer"):
        with disable_saved_tensors_hooks("inner"), pytest.raises(HookError, match="inner"), Store().hooks():
            pass
        with pytest.raises(HookError, match="outer"), Store().hooks():
            pass
    with Store().hooks():
        pass


def test_disabling_inside_of_hooks_raises_the_message_and_leaves_the_hooks():
    store = Store()
    with store.hooks():
        with pytest.raises(HookError, match=r"^too late$"), disable_saved_tensors_hooks("too late"):
            pass
        leaf(1.0) * leaf(2.0)

    assert len(store.arrays) == 2


def test_the_message_is_text():
    with pytest.raises(ArgumentTypeError, match="str"):
        disable_saved_tensors_hooks(None)  # type: ignore[arg-type]


def test_hooks_of_one_saved_tensor_may_be_set_where_blocks_are_disabled():
    with disable_saved_tensors_hooks("no blocks"):
        y = leaf(1.0) * leaf(2.0)
        y.grad_fn.saved_tensors[0].register_hooks(as_is, as_is)
    sync.backward(y)


async def test_other_tasks_do_not_see_saved_tensor_hooks():
    store = Store()

    inside, computed = asyncio.Event(), asyncio.Event()

    async def other() -> None:
        await inside.wait()
        leaf(1.0) * leaf(2.0)
        computed.set()

    task = asyncio.ensure_future(other())
    with store.hooks():
        inside.set()
        await computed.wait()
    await task
    assert store.arrays == []


async def test_a_task_that_begins_inside_takes_saved_tensor_hooks_along():
    store = Store()

    async def compute() -> None:
        leaf(1.0) * leaf(2.0)

    with store.hooks():
        await asyncio.ensure_future(compute())
    assert len(store.arrays) == 2


def test_other_threads_do_not_see_saved_tensor_hooks():
    store = Store()
    with store.hooks():
        thread = threading.Thread(target=lambda: leaf(1.0) * leaf(2.0))
        thread.start()
        thread.join()

    assert store.arrays == []


# Beside other observers.


def test_a_creation_hook_sees_the_node_with_what_was_packed():
    store = Store()
    seen: list[int] = []
    with store.hooks(), ag.graph.node_creation_hook(lambda node: seen.append(len(store.arrays))):
        leaf(1.0) * leaf(2.0)

    assert seen[-1] == 2


def test_under_anomaly_mode_the_error_shows_the_line_of_the_forward():
    with ag.detect_anomaly(), saved_tensors_hooks(as_is, lambda t: 1 / 0):
        y = leaf(1.0) * leaf(2.0)  # this line
        with pytest.raises(ZeroDivisionError) as raised:
            sync.backward(y)

    assert any("# this line" in note for note in raised.value.__notes__)


def test_hooks_of_the_node_run_around_the_unpacking():
    order: list[str] = []
    with saved_tensors_hooks(as_is, lambda t: (order.append("unpack"), t)[1]):
        y = np.exp(leaf(1.0))
    y.grad_fn.register_prehook(lambda grads: order.append("before"))
    y.grad_fn.register_hook(lambda outputs, grads: order.append("after"))
    sync.backward(y)

    assert order == ["before", "unpack", "after"]
