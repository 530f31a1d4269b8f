"""Saved tensors are PyTorch's: what a node keeps, how it comes back, when that is checked, and when it is let go."""

from __future__ import annotations

import gc
import re
import weakref
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from tests.core.graph.saved.packing import as_is
from tests.support.functions import function
from tests.support.leaves import leaf
from tests.support.libraries import Library


class Parcel:
    """Something that a pack hook returns and that a test can watch."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


def pack_copy(tensor: Any) -> Parcel:
    return Parcel(tensor.detach().clone())


def unpack_copy(parcel: Parcel) -> Any:
    return parcel.tensor


# What is kept.


def test_an_input_comes_back_as_the_very_tensor(library: Library):
    x, y = library.leaf(1.0), library.leaf(2.0) * 1
    first, second = library.unpacked((x * y).grad_fn)

    assert (first is x, second is y) == (True, True)


def test_an_output_comes_back_as_another_tensor_with_its_grad_fn_and_its_counter(library: Library):
    y = library.exp(library.leaf(1.0))
    (back,) = library.unpacked(y.grad_fn)
    with library.no_grad():
        y += 1

    assert (back is y, back.grad_fn is y.grad_fn, back.output_nr) == (False, True, 0)
    assert (back.tolist(), back._version) == (y.tolist(), 1)


def test_a_saved_output_is_freed_with_its_graph_and_without_the_garbage_collector(library: Library):
    gc.collect()
    gc.disable()
    try:
        y = library.exp(library.leaf(1.0))
        y.grad_fn.metadata["watched"] = Parcel(None)
        kept = weakref.ref(y), weakref.ref(y.grad_fn.metadata["watched"])
        del y
        assert [reference() for reference in kept] == [None, None]
    finally:
        gc.enable()


def test_a_write_into_a_view_that_saves_its_own_result_is_freed_without_the_garbage_collector():
    gc.collect()
    gc.disable()
    try:
        base = leaf(1.0, 2.0) * 1
        view = base[:1]
        np.exp(view, out=view)
        kept = [weakref.ref(thing) for thing in (base, view, base.grad_fn)]
        del base, view
        assert [reference() for reference in kept] == [None] * 3
    finally:
        gc.enable()


def test_a_python_number_is_not_packed(library: Library):
    shown: list[Any] = []
    x = library.leaf(3.0)
    with library.hooks(lambda tensor: (shown.append(tensor.tolist()), tensor)[1], as_is):
        y = x * 2.0
        y = y / 4.0
        y = y**3
    library.backward(y.sum())

    # The base of the power is all that a gradient needs.
    assert (shown, x.grad.tolist()) == ([[1.5]], [3.375])


def test_with_hooks_a_node_keeps_only_what_pack_returned(library: Library):
    with library.hooks(pack_copy, unpack_copy):
        y = library.leaf(3.0) * 1
        z = y * y
    kept = weakref.ref(y)
    node = z.grad_fn
    del y
    gc.collect()

    assert kept() is None
    assert [back.tolist() for back in library.unpacked(node)] == [[3.0], [3.0]]


# How it comes back from hooks.


def test_a_leaf_comes_back_requiring_grad_as_it_did_when_it_was_saved(library: Library):
    x = library.leaf(3.0)
    with library.hooks(pack_copy, unpack_copy):
        y = x * x
    x.requires_grad_(False)
    back = library.unpacked(y.grad_fn)[0]

    assert (back is x, back.requires_grad, back.is_leaf, back.tolist()) == (False, True, True, [3.0])


def test_a_leaf_comes_back_with_its_own_accumulator(library: Library):
    x = library.leaf(3.0)
    with library.hooks(pack_copy, unpack_copy):
        y = x * x
    back = library.unpacked(y.grad_fn)[0]

    assert library.gradient_edge(back).node is library.gradient_edge(x).node


def test_a_result_comes_back_with_its_place_in_the_graph_and_the_counter_of_what_was_unpacked(library: Library):
    between = library.leaf(3.0) * 1
    with library.hooks(pack_copy, unpack_copy):
        y = between * between
    first, _ = library.unpacked(y.grad_fn)
    again = library.unpacked(y.grad_fn)[0]
    with library.no_grad():
        first += 1

    assert (first.grad_fn is between.grad_fn, first.output_nr, between._version) == (True, 0, 0)
    assert (first._version, again._version) == (1, 1)


def test_what_has_no_history_comes_back_as_the_very_tensor_that_unpack_returned(library: Library):
    x, constant, returned = library.leaf(3.0), library.vector(5.0), library.vector(5.0)
    with library.hooks(as_is, lambda tensor: returned):
        y = x * constant

    assert [back for back in library.unpacked(y.grad_fn) if back is not None][-1] is returned


def test_unpack_runs_in_the_grad_mode_of_its_caller(library: Library):
    modes: list[bool] = []
    x = library.leaf(3.0)
    with library.hooks(as_is, lambda tensor: (modes.append(library.is_grad_enabled()), tensor)[1]):
        y = library.exp(x)
    library.grad(y, [x], retain_graph=True)
    library.grad(y, [x], create_graph=True)
    library.unpacked(y.grad_fn)
    with library.no_grad():
        library.unpacked(y.grad_fn)

    assert modes == [False, True, True, False]


def test_each_backward_unpacks_anew(library: Library):
    calls: list[str] = []
    x = library.leaf(3.0)
    with library.hooks(pack_copy, lambda parcel: (calls.append("unpack"), parcel.tensor)[1]):
        y = x * x
    library.backward(y, retain_graph=True)
    library.backward(y)

    assert (len(calls), x.grad.tolist()) == (4, [12.0])


# Hooks on one of them.


def test_hooks_of_one_saved_input_see_a_detached_alias_at_once_with_grad_mode_off(library: Library):
    seen: list[Any] = []
    x = library.leaf(3.0)
    y = x * x
    first, _ = library.saved(y.grad_fn)
    first.register_hooks(
        lambda tensor: (seen.append((tensor is x, tensor.requires_grad, library.is_grad_enabled())), tensor)[1], as_is
    )

    assert seen == [(False, False, False)]


def test_a_pack_may_not_write_into_what_it_is_shown(library: Library):
    def pack(tensor: Any) -> Any:
        tensor += 1
        return tensor

    y = library.leaf(3.0) * library.leaf(4.0)

    with pytest.raises(RuntimeError, match=r"in ?place"):
        library.saved(y.grad_fn)[0].register_hooks(pack, as_is)


def test_hooks_are_registered_once_before_the_release_and_are_something_to_call(library: Library):
    y = library.leaf(3.0) * library.leaf(4.0)
    first, second = library.saved(y.grad_fn)
    first.register_hooks(as_is, as_is)

    with pytest.raises(RuntimeError, match="already"):
        first.register_hooks(as_is, as_is)
    with pytest.raises(TypeError):
        second.register_hooks(1, as_is)
    library.backward(y)
    with pytest.raises(RuntimeError):
        second.register_hooks(as_is, as_is)


def test_an_unpack_that_returns_no_tensor_is_a_type_error(library: Library):
    with library.hooks(as_is, lambda tensor: "a path"):
        y = library.leaf(3.0) * library.leaf(4.0)

    with pytest.raises(TypeError):
        library.backward(y)


# The check of the version, and what detach_() does.


def test_without_hooks_a_write_since_is_an_error_that_shows_shape_operation_and_both_versions(library: Library):
    y = library.leaf(1.0, 2.0) * 1
    with library.no_grad():
        y += 1
    loss = (y * y).sum()
    y += 1
    y += 1

    with pytest.raises(RuntimeError) as raised:
        library.backward(loss)
    for part in (r"[(\[]2,?[)\]]", "Add", "output 0", "version 3", "version 1"):
        assert re.search(part, str(raised.value)), part


def test_what_hooks_have_copied_is_not_checked(library: Library):
    x = library.leaf(3.0)
    with library.hooks(pack_copy, unpack_copy):
        y = x * x
    x.detach()[...] = 100.0
    library.backward(y)

    assert x.grad.tolist() == [6.0]


def test_detach_in_place_spares_a_node_that_saved_the_tensor_as_its_output(library: Library):
    x = library.leaf(0.0)
    y = library.exp(x)
    node = library.gradient_edge(y)
    y.detach_()

    assert library.grad(node, [x])[0].tolist() == [1.0]


def test_detach_in_place_of_an_input_leaves_its_value_and_takes_its_history_from_second_derivatives():
    """PyTorch refuses the first derivative too, though it needs the value alone."""
    x = leaf(3.0)
    y = x * 1
    z = y * y
    y.detach_()

    assert sync.grad(z, [x], retain_graph=True)[0].tolist() == [6.0]
    with pytest.raises(RuntimeError, match=r"needs the history.*detach_\(\)"):
        sync.grad(z, [x], create_graph=True)


# What is let go.


def test_a_release_lets_go_of_what_was_packed_and_of_the_hooks(library: Library):
    def pack(tensor: Any) -> Parcel:
        return pack_copy(tensor)

    def unpack(parcel: Parcel) -> Any:
        return parcel.tensor

    parcels: list[Any] = []
    x = library.leaf(3.0)
    with library.hooks(lambda tensor: (parcel := pack(tensor), parcels.append(weakref.ref(parcel)))[0], unpack):
        y = x * x
    hook = weakref.ref(unpack)
    del unpack
    gc.collect()
    assert None not in [parcel() for parcel in parcels]
    assert hook() is not None
    library.backward(y)
    gc.collect()

    assert ([parcel() for parcel in parcels], hook()) == ([None, None], None)
    assert y.grad_fn is not None


def test_a_release_lets_go_of_saved_tensors(library: Library):
    def build() -> tuple[Any, Any]:
        inner = library.leaf(3.0) * 1
        return inner * inner, weakref.ref(inner)

    y, kept = build()
    assert kept() is not None
    library.backward(y)
    gc.collect()

    assert kept() is None
    with pytest.raises(RuntimeError):
        library.unpacked(y.grad_fn)


def test_none_that_was_saved_comes_back_as_none_after_the_release_too():
    y = function(lambda ctx, x: (ctx.save_for_backward(None), x * 2)[1]).apply(ag.tensor([1.0], requires_grad=True))
    (saved,) = y.grad_fn.saved_tensors

    assert saved.unpack() is None
