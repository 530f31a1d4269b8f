"""Tensor: what it converts to, how it is copied and pickled, and how it prints."""

from __future__ import annotations

import copy
import operator
import pickle

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import RequiresGradError
from tests.making import leaf, leaf_of

# Conversions.


@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize("convert", [bool, float, int, complex, lambda t: t.item(), lambda t: t.tolist()])
def test_one_element_converts_as_numpys_does(convert, requires_grad):
    array = np.array(2.5)
    t = ag.tensor(array, requires_grad=requires_grad)

    assert convert(array) == convert(t)


def test_item_takes_an_index_and_refuses_several_elements():
    t = ag.tensor([[1.0, 2.0], [3.0, 4.0]])

    assert t.item(1, 0) == 3.0
    with pytest.raises(ValueError, match="size 1"):
        t.item()


@pytest.mark.parametrize("convert", [bool, operator.index, len, iter, float])
@pytest.mark.parametrize("data", [np.array(2), np.array(2.5), np.ones(3)], ids=["integer", "float", "three"])
def test_a_conversion_fails_where_numpys_does(convert, data):
    t = ag.tensor(data)
    try:
        convert(data)
    except (TypeError, ValueError) as error:
        with pytest.raises(type(error)):
            convert(t)
    else:
        convert(t)


def test_an_integer_tensor_is_an_index():
    assert "abcd"[ag.tensor(2)] == "c"


def test_iteration_gives_differentiable_rows():
    x = leaf_of([[1.0, 2.0], [3.0, 4.0]])
    first, second = x
    sync.backward((first * second).sum())

    assert len(x) == 2
    assert x.grad.tolist() == [[3.0, 4.0], [1.0, 2.0]]


def test_tensors_are_hashed_by_identity():
    x, y = leaf(1.0), leaf(1.0)

    assert {x: 1, y: 2}[y] == 2


def test_an_ndarray_of_a_tensor_without_grad_shares_its_memory():
    t = ag.tensor([1.0, 2.0])

    assert np.shares_memory(np.asarray(t), t.numpy())
    assert not np.shares_memory(np.array(t), t.numpy())
    assert np.float32 == np.asarray(t, dtype=np.float32).dtype
    assert np.shares_memory(np.asarray(t, copy=False), t.numpy())
    assert not np.shares_memory(np.asarray(t, copy=True), t.numpy())
    with pytest.raises(ValueError, match="copy"):
        np.asarray(t, dtype=np.float32, copy=False)


@pytest.mark.parametrize("convert", [np.asarray, np.array, lambda t: np.asarray(t, dtype=np.float32)])
@pytest.mark.parametrize("computed", [True, False])
def test_an_ndarray_of_a_tensor_that_requires_grad_raises(convert, computed):
    x = leaf(1.0, 2.0)

    with pytest.raises(RequiresGradError, match=r"shape \(2,\).*t\.numpy\(\)"):
        convert(x * 2 if computed else x)


# Copies.


COPIES = {
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "pickle": lambda t: pickle.loads(pickle.dumps(t)),
}


@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)
def test_a_copy_of_a_leaf_is_a_leaf_with_its_data_and_its_requires_grad(duplicate, requires_grad):
    t = ag.tensor(np.asfortranarray([[1.0, 2.0], [3.0, 4.0]], np.float32), requires_grad=requires_grad)
    copied = duplicate(t)

    assert copied is not t
    assert (True, requires_grad, t.device) == (copied.is_leaf, copied.requires_grad, copied.device)
    assert (t.dtype, t.tolist(), t.numpy().strides) == (copied.dtype, copied.tolist(), copied.numpy().strides)
    assert not np.shares_memory(t.numpy(), copied.numpy())


def test_a_deep_copy_has_a_copy_of_the_gradient_and_the_others_have_none():
    x = leaf(1.0, 2.0)
    x.grad = ag.tensor([3.0, 4.0])
    deep = copy.deepcopy(x)

    assert deep.grad.tolist() == [3.0, 4.0]
    assert deep.grad is not x.grad
    assert COPIES["pickle"](x).grad is None
    assert copy.copy(x).grad is None


def test_a_deep_copy_keeps_a_tensor_that_is_held_twice_one():
    x = leaf(1.0)
    parameters, same = copy.deepcopy(([x, x], x))

    assert parameters[0] is parameters[1] is same


@pytest.mark.parametrize(("duplicate", "done"), [(copy.deepcopy, "deep-copied"), (pickle.dumps, "pickled")])
def test_what_was_computed_is_not_copied_with_its_graph(duplicate, done):
    with pytest.raises(RequiresGradError, match=rf"{done}.*shape \(2,\).*MultiplyBackward.*t\.detach\(\)"):
        duplicate(leaf(1.0, 2.0) * 2)


# How it prints.


@pytest.mark.parametrize(
    ("made", "printed"),
    [
        (lambda: ag.tensor([1.0, 2.0]), "tensor([1., 2.], dtype=float64, device='cpu')"),
        (lambda: ag.tensor(3), "tensor(3, dtype=int64, device='cpu')"),
        (lambda: leaf(1.5), "tensor([1.5], dtype=float64, device='cpu', requires_grad=True)"),
        (lambda: leaf(1.5) * 2, "tensor([3.], dtype=float64, device='cpu', grad_fn=<MultiplyBackward>)"),
        (lambda: ag.tensor([[True], [False]]), "tensor([[ True],\n        [False]], dtype=bool, device='cpu')"),
        (lambda: ag.tensor(np.zeros((0, 3), np.float32)), "tensor([], shape=(0, 3), dtype=float32, device='cpu')"),
        (lambda: ag.tensor(np.arange(2000)), "tensor([   0,    1,    2, ..., 1997, 1998, 1999], shape=(2000,), ...)"),
    ],
)
def test_repr_shows_data_dtype_device_and_history(made, printed):
    assert printed.removesuffix("...)") == repr(made())[: len(printed.removesuffix("...)"))]
