"""Views: of the base's memory and of its history, made anew where the memory was written into."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import InPlaceError
from tests.support.leaves import leaf, leaf_of
from tests.support.refusals import refused


def block_of_numbers() -> Any:
    return leaf_of(np.arange(24.0).reshape(2, 3, 4)) * 1


VIEWS = {
    "[1]": lambda t: t[1],
    "[:, ::2]": lambda t: t[:, ::2],
    "[..., None]": lambda t: t[..., None],
    "[::-1]": lambda t: t[::-1],
    "reshape": lambda t: t.reshape(6, 4),
    "np.reshape": lambda t: np.reshape(t, (4, 6)),
    "ravel": lambda t: t.ravel(),
    "ravel in the order of memory": lambda t: np.ravel(t.T, "K"),
    "transpose": lambda t: np.transpose(t, (1, 2, 0)),
    "T": lambda t: t.T,
    "mT": lambda t: t.mT,
    "swapaxes": lambda t: t.swapaxes(0, 2),
    "moveaxis": lambda t: np.moveaxis(t, 0, -1),
    "rollaxis": lambda t: np.rollaxis(t, 2),
    "expand_dims": lambda t: np.expand_dims(t, (0, 2)),
    "squeeze": lambda t: t[:1].squeeze(0),
    "atleast_3d": lambda t: np.atleast_3d(t[0]),
    "flip": lambda t: np.flip(t, 1),
    "real": lambda t: t.real,
    "iteration": lambda t: [*t][1],
    "as_strided": lambda t: t.as_strided((2, 2), (96, 16)),
    "unstack": lambda t: np.unstack(t, axis=1)[2] if hasattr(np, "unstack") else t[:, 2],
}
READ_ONLY = {
    "broadcast_to": lambda t: np.broadcast_to(t, (2, 2, 3, 4)),
    "diagonal": lambda t: np.diagonal(t, 1, 0, 2),
    "sliding_window_view": lambda t: np.lib.stride_tricks.sliding_window_view(t, 2, 1),
    "windows of two axes": lambda t: np.lib.stride_tricks.sliding_window_view(t, (2, 3), (1, 2)),
    "windows in windows": lambda t: np.lib.stride_tricks.sliding_window_view(t, (2, 2), (2, 2)),
}
SPLITS = {
    "split": lambda t: np.split(t, [1, 3], 2)[1],
    "array_split": lambda t: np.array_split(t, 2, 1)[0],
}
COPIES = {
    "[[1]]": lambda t: t[[1]],
    "a mask": lambda t: t[t.numpy() > 3],
    "a reshape that cannot": lambda t: t.T.reshape(-1),
    "flatten": lambda t: t.flatten(),
    "imag of a real array": lambda t: t.imag,
}
ALL = {**VIEWS, **READ_ONLY, **SPLITS}


@pytest.mark.parametrize("view", ALL.values(), ids=ALL)
def test_a_view_shares_memory_and_counter_with_its_base(view):
    t = block_of_numbers()
    part = view(t)
    t += 1

    assert (part.is_view, part._version, np.shares_memory(part.numpy(), t.numpy())) == (True, 1, True)


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
def test_a_copy_is_no_view(copy):
    t = block_of_numbers()

    assert (copy(t).is_view, t.is_view, t.detach().is_view) == (False, False, False)


@pytest.mark.parametrize("replays", [False, True], ids=["strides", "replay"])
@pytest.mark.parametrize("view", [*VIEWS.values(), *READ_ONLY.values()], ids=[*VIEWS, *READ_ONLY])
def test_a_view_follows_a_write_into_its_base(view, replays):
    x = leaf_of(np.arange(24.0).reshape(2, 3, 4) / 7)
    fixed = np.cos(np.arange(24.0)).reshape(2, 3, 4)
    with ag.graph.replay_views(replays):
        t = x * 1
        part = view(t)
        t *= fixed
        weights = np.sin(np.arange(float(part.size))).reshape(part.shape)
        sync.backward((part * part * weights).sum())
    again = leaf_of(x.numpy())
    part = view(again * fixed)
    sync.backward((part * part * weights).sum())

    np.testing.assert_allclose(x.grad.numpy(), again.grad.numpy(), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("replays", [False, True], ids=["strides", "replay"])
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_write_into_a_view_has_the_gradient_that_the_same_without_a_view_has(view, replays):
    x = leaf_of(np.arange(24.0).reshape(2, 3, 4) / 7)
    numbers = view(ag.tensor(np.arange(24.0).reshape(2, 3, 4))).numpy().astype(int)
    factor = leaf_of(np.cos(np.arange(float(numbers.size))).reshape(numbers.shape))
    with ag.graph.replay_views(replays):
        t = x * 1
        part = view(t)
        part *= factor
        sync.backward((t * t).sum() + (part * 3).sum())
    spread = np.ones(24)
    spread[numbers.reshape(-1)] = factor.numpy().reshape(-1)
    touched = np.zeros(24)
    touched[numbers.reshape(-1)] = 3
    value = x.numpy().reshape(-1)
    outer = 2 * value * spread + touched

    np.testing.assert_allclose(x.grad.numpy().reshape(-1), outer * spread, rtol=1e-13)
    np.testing.assert_allclose(factor.grad.numpy(), (outer * value)[numbers], rtol=1e-13)


@pytest.mark.parametrize("view", READ_ONLY.values(), ids=READ_ONLY)
def test_a_view_that_is_read_only_in_numpy_is_read_only_here(view):
    part = view(block_of_numbers())

    with pytest.raises((ValueError, InPlaceError), match=r"read-only|share memory"):
        part += 1
    with ag.no_grad(), pytest.raises(ValueError, match="read-only"):
        part[...] = 1


@pytest.mark.parametrize("part", ["real", "imag"])
@pytest.mark.parametrize("replays", [False, True], ids=["strides", "replay"])
def test_a_part_of_complex_numbers_is_a_view_to_write_into(part, replays):
    x, factor = leaf_of([1 + 2j, 3 - 1j]), leaf(2.0, 5.0)
    with ag.graph.replay_views(replays):
        z = x * (1 + 1j)
        view = getattr(z, part)
        view *= factor
        sync.backward((view * view).sum() + (z * z.conj()).real.sum())

    again, factor_again = leaf_of([1 + 2j, 3 - 1j]), leaf(2.0, 5.0)
    z = again * (1 + 1j)
    rest = z.imag if part == "real" else z.real
    written = getattr(z, part) * factor_again
    sync.backward((2 * written * written + rest * rest).sum())

    np.testing.assert_allclose(x.grad.numpy(), again.grad.numpy())
    np.testing.assert_allclose(factor.grad.numpy(), factor_again.grad.numpy())


# The base of all of them, and a grad_fn that is made anew.


def test_a_view_of_a_view_has_the_first_base_and_follows_writes_from_anywhere():
    x = leaf(1.0, 2.0, 3.0, 4.0)
    y = x * 1
    outer = y[1:]
    inner = outer[1:]
    outer *= 2
    inner *= 3
    sync.backward(inner.sum() + y.sum())

    assert (y.tolist(), inner.tolist()) == ([1.0, 4.0, 18.0, 24.0], [18.0, 24.0])
    assert x.grad.tolist() == [1.0, 2.0, 12.0, 12.0]


def test_after_a_write_into_a_view_the_base_has_copy_slices_and_views_are_strided():
    y = leaf(1.0, 2.0, 3.0, 4.0) * 1
    written, other = y[:2], y[1:3]
    inner = written[:1]
    before = other.grad_fn
    written *= 2

    assert y.grad_fn.name == "CopySlices"
    assert {view.grad_fn.name for view in (written, other, inner)} == {"AsStridedBackward"}
    assert other.grad_fn is not before
    assert other.grad_fn is other.grad_fn
    assert other.grad_fn.next_edges[0] == (y.grad_fn, 0)


def test_after_a_write_into_the_base_that_has_the_node_of_the_write():
    y = leaf(1.0, 2.0) * 1
    view = y[:1]
    y += 1

    assert (y.grad_fn.name, view.grad_fn.name, view.grad_fn.next_edges[0].node) == (
        "AddBackward",
        "AsStridedBackward",
        y.grad_fn,
    )


def test_replayed_views_have_the_nodes_of_their_functions():
    y = leaf(1.0, 2.0) * 1
    view = y[:1].reshape(1, 1)
    y += 1

    with ag.graph.replay_views():
        assert (view.grad_fn.name, view.grad_fn.next_edges[0].node.name) == ("ReshapeBackward", "PartBackward")


def test_the_grad_fn_is_made_anew_with_grad_mode_off_too():
    y = leaf(1.0, 2.0) * 1
    view = y[:1]
    y += 1
    with ag.no_grad():
        node = view.grad_fn

    assert (node.name, view.grad_fn) == ("AsStridedBackward", node)


def test_asking_for_requires_grad_makes_nothing_anew():
    made = []
    y = leaf(1.0, 2.0) * 1
    view = y[:1]
    y += 1
    with ag.graph.node_creation_hook(lambda node: made.append(node.name)):
        assert view.requires_grad
        assert made == []
        assert not view.is_leaf

    assert made == ["AsStridedBackward"]


def state(t: Any) -> tuple[bool, bool, Any, bool]:
    return t.requires_grad, t.is_leaf, t.grad_fn, (t * 2).requires_grad


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize(
    "base", [lambda: leaf_of(np.arange(24.0).reshape(2, 3, 4)), block_of_numbers], ids=["leaf", "computed"]
)
def test_a_view_made_under_no_grad_requires_no_grad(base, view):
    t = base()
    with ag.no_grad():
        made = view(t)

    assert state(made) == (False, True, None, False)
    assert state(made[..., :1]) == (False, True, None, False)


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_view_made_inside_the_forward_of_a_function_requires_no_grad(view):
    seen = []

    class Looks(ag.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            seen.append(view(x).requires_grad)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    Looks.apply(block_of_numbers())

    assert seen == [False]


def test_a_view_made_before_its_base_requires_grad_requires_none():
    base = ag.tensor([1.0, 2.0])
    view = base[:1]
    base.requires_grad_()

    assert state(view) == (False, True, None, False)


def test_a_view_made_under_no_grad_can_be_made_to_require_grad_by_itself():
    x = leaf(1.0, 2.0)
    with ag.no_grad():
        view = x[:1]
    view.requires_grad_()
    sync.backward((view * 3).sum())

    assert (view.grad.tolist(), x.grad) == ([3.0], None)


def test_a_write_into_a_view_made_under_no_grad_is_refused_and_not_lost():
    y = leaf(1.0, 2.0) * 1
    with ag.no_grad():
        view = y[:1]
    with pytest.raises(InPlaceError, match="made under no_grad"):
        view += 1.0
    with pytest.raises(InPlaceError, match="made under no_grad"):
        view[...] = 1.0

    assert y.tolist() == [1.0, 2.0]


def test_a_write_into_a_view_of_what_has_become_a_leaf_that_requires_grad_is_refused():
    base = ag.tensor([1.0, 2.0])
    view = base[:1]
    base.requires_grad_()
    with pytest.raises(InPlaceError, match="view of a leaf that requires grad"):
        view *= 2


def test_a_view_of_a_base_that_comes_to_require_grad_requires_it_too():
    x, base = leaf(1.0, 2.0), ag.tensor([1.0, 2.0, 3.0])
    early = base[1:]
    assert not early.requires_grad
    base[:2] = x
    sync.backward((early * early).sum())

    assert (base.grad_fn.name, early.requires_grad, x.grad.tolist()) == ("CopySlices", True, [0.0, 4.0])


def test_a_plain_view_of_a_plain_base_stays_plain():
    base = ag.tensor([1.0, 2.0, 3.0])
    view = base[1:]
    base += 1

    assert (view.grad_fn, view.requires_grad, view.is_leaf) == (None, False, True)


def test_a_base_lives_as_long_as_its_views():
    x = leaf(1.0, 2.0)
    y = x * 1
    view = y[:1]
    kept = weakref.ref(y)
    del y
    view *= 3
    assert kept() is not None
    sync.backward(view.sum())
    assert x.grad.tolist() == [3.0, 0.0]
    gc.disable()
    try:
        del view
        assert kept() is None
    finally:
        gc.enable()


def test_detach_in_place_of_a_view_is_refused_and_of_a_base_leaves_its_views():
    x = leaf(1.0, 2.0)
    y = x * 1
    view = y[:1]
    with refused(InPlaceError, RuntimeError, "a view, of shape (1,)", "t.detach()"):
        view.detach_()
    y.detach_()
    sync.backward(view.sum())

    assert (y.requires_grad, x.grad.tolist()) == (False, [1.0, 0.0])


def test_hooks_and_retained_gradients_belong_to_the_view_as_it_is_then():
    x, seen = leaf(1.0, 2.0), []
    y = x * 1
    view = y[:1]
    view.register_hook(lambda grad: seen.append(("old", grad.tolist())))
    view.retain_grad()
    y *= 3
    view.register_hook(lambda grad: seen.append(("new", grad.tolist())))
    sync.backward(view.sum() * 5)

    assert (seen, view.retains_grad, view.grad.tolist()) == ([("new", [5.0])], True, [5.0])


def test_a_view_and_its_base_survive_a_base_that_got_another_array():
    x = leaf(1.0, 2.0)
    sync.backward((x * 2).sum())
    part = x.grad[:1]
    sync.backward((x * 2).sum())

    with refused(InPlaceError, RuntimeError, "not in the memory of its base", "make the view again"):
        part *= leaf(1.0)
    assert x.grad.tolist() == [4.0, 4.0]
