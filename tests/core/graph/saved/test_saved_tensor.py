"""SavedTensor: what `node.saved_tensors` shows, its version check, and hooks on one of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ChangedTensorError, HookError, HookTypeError, ReleasedGraphError
from asyncgrad.graph import Node, SavedTensor
from tests.core.graph.saved.packing import Store, as_is
from tests.support.functions import function
from tests.support.leaves import leaf


def add_in_place(x: Any) -> None:
    with ag.no_grad():
        x[...] = x.numpy() + 1.0


# What is saved, and how it comes back.


def test_an_input_is_saved_as_the_tensor_itself():
    x, y = leaf(1.0), leaf(2.0)
    first, second = (x * y).grad_fn.saved_tensors

    assert (first.unpack() is x, second.unpack() is y) == (True, True)


def test_an_output_comes_back_as_an_alias_with_its_place_in_the_graph():
    y = np.exp(leaf(1.0))
    (saved,) = y.grad_fn.saved_tensors
    out = saved.unpack()

    assert (out is y, out.grad_fn is y.grad_fn, out.output_nr) == (False, True, 0)
    assert np.shares_memory(out.numpy(), y.numpy())


def test_a_saved_output_shares_its_version_counter():
    y = np.exp(leaf(1.0))
    out = y.grad_fn.saved_tensors[0].unpack()
    add_in_place(y)

    assert out._version == y._version == 1


def test_an_output_of_a_function_comes_back_as_that_output():
    def forward(ctx: Any, x: Any) -> Any:
        outputs = ag.tensor(x.numpy()), ag.tensor(x.numpy() * 2)
        ctx.save_for_backward(outputs[1])
        return outputs

    _, second = function(forward).apply(leaf(1.0))
    (saved,) = second.grad_fn.saved_tensors

    assert (saved.unpack().grad_fn is second.grad_fn, saved.unpack().output_nr) == (True, 1)


def test_a_node_without_saved_tensors_shows_none():
    x = leaf(1.0)
    y = x + 1.0

    assert (y.grad_fn.saved_tensors, y.grad_fn.next_edges[0].node.saved_tensors, Node().saved_tensors) == ((), (), ())


def test_only_what_formulas_need_is_saved():
    x = leaf(1.0)

    assert [saved.unpack() is x for saved in (x * ag.tensor([2.0])).grad_fn.saved_tensors] == [False]


def test_none_that_a_function_saved_comes_back_as_none():
    y = function(lambda ctx, x: (ctx.save_for_backward(None, x), x * 2)[1]).apply(leaf(1.0))

    assert y.grad_fn.saved_tensors[0].unpack() is None


def test_looking_at_what_is_saved_leaves_the_node_plain():
    y = leaf(1.0) * leaf(2.0)
    y.grad_fn.saved_tensors[0].unpack()

    assert y.grad_fn.meta is None


def test_a_saved_tensor_names_its_node():
    y = leaf(1.0) * 2.0 * leaf(3.0)

    assert "MultiplyBackward" in repr(y.grad_fn.saved_tensors[0])


def test_after_release_there_is_nothing_to_unpack():
    x = leaf(1.0)
    y = x * x
    saved = y.grad_fn.saved_tensors[0]
    sync.backward(y)

    with pytest.raises(ReleasedGraphError):
        saved.unpack()
    with pytest.raises(ReleasedGraphError):
        _ = y.grad_fn.saved_tensors


def test_under_retain_graph_it_is_unpacked_again():
    x = leaf(3.0)
    y = x * x
    for _ in range(2):
        sync.backward(y, retain_graph=True)

    assert (x.grad.tolist(), y.grad_fn.saved_tensors[0].unpack() is x) == ([12.0], True)


# The version check.


def test_a_write_since_raises_and_names_operation_shape_versions_and_a_way_out():
    x = leaf(1.0, 2.0)
    y = np.exp(x)
    z = y * y
    add_in_place(y)

    with pytest.raises(ChangedTensorError) as raised:
        sync.backward(z.sum())
    for part in ("MultiplyBackward", "shape (2,)", "ExpBackward", "output 0", "version 1", "version 0", "copy"):
        assert part in str(raised.value)


def test_a_write_into_a_detached_alias_is_seen():
    x = leaf(1.0)
    z = x * x
    add_in_place(x.detach())

    with pytest.raises(ChangedTensorError):
        sync.backward(z)


def test_a_write_before_the_save_does_not_matter():
    x = leaf(1.0)
    add_in_place(x)
    sync.backward(x * x)

    assert x.grad.tolist() == [4.0]


def test_unpacking_by_hand_checks_the_version_too():
    x = leaf(1.0)
    saved = (x * x).grad_fn.saved_tensors[0]
    add_in_place(x)

    with pytest.raises(ChangedTensorError):
        saved.unpack()


# Hooks on one of them.


def test_hooks_on_one_saved_tensor_are_called_for_it_alone():
    x, y, store = leaf(3.0), leaf(5.0), Store()
    z = x * y
    z.grad_fn.saved_tensors[1].register_hooks(store.pack, store.unpack)

    assert [shown.tolist() for shown in store.shown] == [[5.0]]
    sync.backward(z)
    assert (store.unpacked, x.grad.tolist(), y.grad.tolist()) == ([0], [5.0], [3.0])


def test_pack_is_called_once_at_registration_with_a_detached_alias_and_recording_off():
    x = leaf(3.0)
    seen: list[Any] = []

    def pack(tensor: Any) -> Any:
        seen.append(
            (tensor is x, tensor.requires_grad, np.shares_memory(tensor.numpy(), x.numpy()), ag.is_grad_enabled())
        )
        return tensor

    z = x * 1.0 * x
    z.grad_fn.saved_tensors[1].register_hooks(pack, as_is)

    assert seen == [(False, False, True, False)]
    assert ag.is_grad_enabled()


def test_a_leaf_that_was_packed_comes_back_with_its_accumulator():
    x = leaf(3.0)
    z = x * x
    z.grad_fn.saved_tensors[0].register_hooks(lambda t: t.numpy().copy(), as_is)
    back = z.grad_fn.saved_tensors[0].unpack()

    assert (back is x, back.requires_grad, back.is_leaf) == (False, True, True)
    assert ag.graph.get_gradient_edge(back) == ag.graph.get_gradient_edge(x)


def test_what_hooks_of_one_saved_tensor_have_copied_is_not_checked():
    x = leaf(3.0)
    z = x * x
    for saved in z.grad_fn.saved_tensors:
        saved.register_hooks(lambda t: t.numpy().copy(), as_is)
    add_in_place(x)
    sync.backward(z)

    assert x.grad.tolist() == [6.0]


def test_hooks_are_set_once():
    z = leaf(3.0) * leaf(4.0)
    saved = z.grad_fn.saved_tensors[0]
    saved.register_hooks(as_is, as_is)

    with pytest.raises(HookError, match="already"):
        saved.register_hooks(as_is, as_is)
    with pytest.raises(HookError, match="already"):
        z.grad_fn.saved_tensors[0].register_hooks(as_is, as_is)


def test_hooks_are_set_once_also_where_a_block_has_set_them():
    with Store().hooks():
        z = leaf(3.0) * leaf(4.0)

    with pytest.raises(HookError, match="already"):
        z.grad_fn.saved_tensors[0].register_hooks(as_is, as_is)


def test_hooks_cannot_be_set_after_release():
    z = leaf(3.0) * leaf(4.0)
    saved = z.grad_fn.saved_tensors[0]
    sync.backward(z)

    with pytest.raises(ReleasedGraphError):
        saved.register_hooks(as_is, as_is)


def test_hooks_cannot_be_set_on_none():
    y = function(lambda ctx, x: (ctx.save_for_backward(None), x * 2)[1]).apply(leaf(1.0))

    with pytest.raises(HookError, match="None"):
        y.grad_fn.saved_tensors[0].register_hooks(as_is, as_is)


def test_hooks_cannot_be_set_on_what_was_written_into():
    x = leaf(3.0)
    z = x * x
    add_in_place(x)

    with pytest.raises(ChangedTensorError):
        z.grad_fn.saved_tensors[0].register_hooks(as_is, as_is)


@pytest.mark.parametrize("hooks", [(1, as_is), (as_is, None)])
def test_what_cannot_be_called_is_no_hook(hooks: Any):
    saved = (leaf(3.0) * leaf(4.0)).grad_fn.saved_tensors[0]

    with pytest.raises(HookTypeError, match="must be callable"):
        saved.register_hooks(*hooks)
    with pytest.raises(HookTypeError, match="must be callable"):
        ag.graph.saved_tensors_hooks(*hooks)


def test_a_failing_pack_leaves_the_saved_tensor_as_it_was():
    x = leaf(3.0)
    z = x * x
    saved = z.grad_fn.saved_tensors[0]

    with pytest.raises(ZeroDivisionError):
        saved.register_hooks(lambda t: 1 / 0, as_is)
    sync.backward(z)
    assert x.grad.tolist() == [6.0]


def test_pack_may_not_write_into_the_tensor():
    x = leaf(3.0)
    z = x * x

    with pytest.raises(HookError, match="changed its input in place") as raised:
        z.grad_fn.saved_tensors[0].register_hooks(add_in_place, as_is)
    assert "MultiplyBackward" in str(raised.value)


async def test_an_async_hook_on_one_saved_tensor_is_awaited():
    x, store = leaf(3.0), Store()
    z = x * x
    saved = z.grad_fn.saved_tensors[0]
    saved.register_hooks(store.pack_later, store.unpack_later)
    with pytest.raises(HookError, match=r"await saved\.load\(\)"):
        saved.unpack()
    assert (await saved.load()).tolist() == [3.0]
    await z.backward()
    assert x.grad.tolist() == [6.0]


async def test_load_does_what_unpack_does_where_nothing_suspends():
    x = leaf(3.0)
    assert await (x * x).grad_fn.saved_tensors[0].load() is x


def test_the_saved_tensor_of_a_node_made_by_hand_is_its_own_affair():
    assert isinstance((leaf(1.0) * leaf(1.0)).grad_fn.saved_tensors[0], SavedTensor)
