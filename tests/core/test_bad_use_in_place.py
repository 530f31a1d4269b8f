"""What a write in place gets that would make a gradient wrong: an error that names both versions, or what to write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import (
    ChangedTensorError,
    InPlaceError,
    RequiresGradError,
)
from tests.support.leaves import leaf
from tests.support.refusals import refused
from tests.support.writes import iadd, set_item


def test_a_saved_input_changed_in_place_is_named_with_both_versions_and_its_op():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    with ag.no_grad():
        x += 1
        x *= 2

    parts = ["MultiplyBackward (node #", "shape (2,)", "dtype float64", "version 2", "version 0", "copy()"]
    with refused(ChangedTensorError, RuntimeError, *parts):
        sync.backward(y)
    assert x.grad is None


def test_a_saved_output_changed_in_place_is_named_with_the_op_that_made_it():
    x = leaf(1.0, 2.0)
    y = np.exp(x)
    z = y * 1.0
    with ag.no_grad():
        y += 1

    with refused(ChangedTensorError, RuntimeError, "ExpBackward (node #", "version 1", "version 0"):
        sync.backward(z.sum())


def test_a_saved_tensor_changed_through_a_view_is_noticed():
    x, w = leaf(1.0, 2.0), ag.tensor([3.0, 4.0])
    y = (x * w).sum()
    row = w.reshape(2, 1)[0]
    row += 1

    with refused(ChangedTensorError, RuntimeError, "MultiplyBackward", "version 1"):
        sync.backward(y)


def test_a_tensor_changed_before_it_is_saved_is_no_error():
    x = leaf(1.0, 2.0)
    with ag.no_grad():
        x += 1
    sync.backward((x * x).sum())

    assert x.grad.tolist() == [4.0, 6.0]


def test_a_tensor_that_nobody_saved_may_be_changed():
    x, w = leaf(1.0, 2.0), ag.tensor([3.0, 4.0])
    y = (x + w).sum()
    w += 1
    sync.backward(y)

    assert x.grad.tolist() == [1.0, 1.0]


def set_slice(t: Any) -> None:
    t[:] = 5.0


WRITES = {
    "+=": iadd,
    "[0] =": set_item,
    "[:] =": set_slice,
    "out= of a ufunc": lambda t: np.add(t, 1.0, out=t),
    "out= of a function": lambda t: np.cumsum(ag.tensor([1.0, 2.0]), out=t),
    "copyto": lambda t: np.copyto(t, 5.0),
    "add.at": lambda t: np.add.at(t, [0], 1.0),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_into_a_leaf_that_requires_grad_raises_and_changes_nothing(write):
    x = leaf(2.0, 4.0)

    with pytest.raises(InPlaceError, match="is a leaf that requires grad") as raised:
        write(x)
    assert isinstance(raised.value, TypeError)
    assert (x.tolist(), x._version) == ([2.0, 4.0], 0)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_into_a_leaf_names_what_to_write_instead(write):
    parts = ["shape (2,)", "its old value", "x = x + y", "np.where", "x = x.copy()", "ag.no_grad()"]
    with refused(InPlaceError, RuntimeError, "a leaf that requires grad", *parts):
        write(leaf(1.0, 2.0))
    with refused(InPlaceError, RuntimeError, "view of a leaf that requires grad, of shape (2,)", "x = x.copy()"):
        write(leaf(1.0, 2.0)[:])


def test_a_write_of_what_requires_grad_into_an_array_raises():
    x, array = leaf(1.0, 2.0), np.array([3.0, 4.0])

    for write in (lambda: np.multiply(x, 2, out=array), lambda: np.cumsum(x, out=array)):
        with refused(InPlaceError, RuntimeError, "into an ndarray", "made by", "ag.asarray(array)", "t.detach()"):
            write()
    with refused(RequiresGradError, RuntimeError, "drop its history"):
        array[:] = x
    assert array.tolist() == [3.0, 4.0]
