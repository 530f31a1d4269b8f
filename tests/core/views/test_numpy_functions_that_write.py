"""NumPy's functions that write by index, mask or axis: values exactly NumPy's, gradients of finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ArgumentTypeError
from tests.support.leaves import leaf, leaf_of
from tests.support.loops import one_loop
from tests.support.refusals import refused

MASK = np.array([[True, False, True], [False, True, False]])

#: Each writes `values`, of shape (2, 3), or a part of them, into `t`, of the same shape.
WRITES = {
    "[0]": lambda t, values: t.__setitem__(0, values[1]),
    "[1, 2]": lambda t, values: t.__setitem__((1, 2), values[0, 0]),
    "[:, ::2]": lambda t, values: t.__setitem__((slice(None), slice(None, None, 2)), values[:, :2]),
    "[...]": lambda t, values: t.__setitem__(..., values),
    "[None]": lambda t, values: t.__setitem__(None, values),
    "[::-1, ::-1]": lambda t, values: t.__setitem__((slice(None, None, -1),) * 2, values),
    "with axes of length 1 in front": lambda t, values: t.__setitem__(0, values[None, 1:]),
    "broadcast": lambda t, values: t.__setitem__(slice(None), values[0, 0]),
    "[[1, 0]]": lambda t, values: t.__setitem__([1, 0], values),
    "[[1, 0], [2, 2]]": lambda t, values: t.__setitem__(([1, 0], [2, 2]), values[:, 0]),
    "with one index twice": lambda t, values: t.__setitem__(([1, 1, 0], [2, 2, 1]), values[1]),
    "with one index twice, broadcast": lambda t, values: t.__setitem__([0, 0], values[0]),
    "with axes in front of a list": lambda t, values: t.__setitem__([0, 1], values[None]),
    "[mask]": lambda t, values: t.__setitem__(MASK, values[0]),
    "[mask] of one number": lambda t, values: t.__setitem__(MASK, values[0, 0]),
    "[:, [2, 0]]": lambda t, values: t.__setitem__((slice(None), [2, 0]), values[:, 1:]),
    "copyto": lambda t, values: np.copyto(t, values[1]),
    "copyto where": lambda t, values: np.copyto(t, values[1], where=MASK),
    "copyto unsafe": lambda t, values: np.copyto(t, values, casting="unsafe", where=MASK[0]),
    "put": lambda t, values: np.put(t, [5, 0, 5, 1], values[0]),
    "put clip": lambda t, values: np.put(t, [7, -3], values[1], mode="clip"),
    "put wrap": lambda t, values: np.put(t, [7, -3], values[1], "wrap"),
    "place": lambda t, values: np.place(t, MASK, values[0, :2]),
    "putmask": lambda t, values: np.putmask(t, MASK, values[1]),
    "put_along_axis": lambda t, values: np.put_along_axis(t, np.array([[2, 0], [1, 1]]), values[:, :2], 1),
    "put_along_axis 0": lambda t, values: np.put_along_axis(t, np.array([[1, 0, 1]]), values[:1], axis=0),
    "put_along_axis None": lambda t, values: np.put_along_axis(t, np.array([4, 2]), values[0, :2], None),
    "fill_diagonal": lambda t, values: np.fill_diagonal(t, values[0, 0]),
    "fill_diagonal of many": lambda t, values: np.fill_diagonal(t.T, values[0], wrap=True),
    "fill": lambda t, values: t.fill(0.5),
    "add.at": lambda t, values: np.add.at(t, ([1, 1, 0], [0, 0, 2]), values[0]),
    "add.at of rows": lambda t, values: np.add.at(t, [1, 1], values),
    "add.at by a slice": lambda t, values: np.add.at(t, 0, values[1]),
    "subtract.at": lambda t, values: np.subtract.at(t, ([1, 1, 0], [0, 0, 2]), values[0]),
    "multiply.at": lambda t, values: np.multiply.at(t, ([1, 1, 0], [0, 0, 2]), values[0]),
    "power.at": lambda t, values: np.power.at(t, ([1, 1, 1], [0, 0, 2]), values[0]),
    "sin.at": lambda t, values: np.sin.at(t, [1, 1]),
}
START = np.array([[0.5, 1.25, 0.75], [1.5, 2.5, 0.25]])
VALUES = np.array([[2.0, 0.5, 1.75], [3.0, 1.125, 0.875]])


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_values_are_exactly_numpys_recorded_or_not(write):
    array = START.copy()
    write(array, VALUES)
    plain, recorded = ag.tensor(START), leaf_of(START) * 1
    write(plain, VALUES)
    write(recorded, leaf_of(VALUES))

    assert plain.tolist() == recorded.tolist() == array.tolist()


@pytest.mark.slow
@one_loop
@pytest.mark.sampled("write")
@pytest.mark.parametrize("form", ["itself", "a view", "a transposed view"])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_gradients_are_those_of_finite_differences_twice(write, form):
    def written(start: Any, values: Any) -> Any:
        t = (start.T if form == "a transposed view" else start) * 1
        target = {"itself": t, "a view": t[:], "a transposed view": t.T}[form]
        write(target, values * 1)
        return (t * t).sum() + np.sin(target).sum()

    inputs = leaf_of(START), leaf_of(VALUES)

    assert await ag.gradcheck(written, inputs)
    assert await ag.gradgradcheck(written, inputs)


@one_loop
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_what_requires_no_grad_can_be_written_with_what_does(write):
    def written(values: Any) -> Any:
        t = ag.tensor(START)
        write(t, values * 1)
        return (t * t).sum() + (values * 0).sum()

    assert await ag.gradcheck(written, [leaf_of(VALUES)])


def test_the_last_of_several_values_for_one_element_has_its_gradient():
    values = leaf(1.0, 2.0, 3.0)
    t = ag.tensor([0.0, 0.0])
    t[[0, 0, 1]] = values
    sync.backward(t.sum())

    assert (t.tolist(), values.grad.tolist()) == ([2.0, 3.0], [0.0, 1.0, 1.0])


def test_a_part_may_be_written_with_an_overlapping_part():
    x = leaf(1.0, 2.0, 3.0)
    t = x * 1
    t[1:] = t[:-1]
    t[:-1] += t[1:]
    sync.backward((t * [1.0, 10.0, 100.0]).sum())

    assert (t.tolist(), x.grad.tolist()) == ([2.0, 3.0, 2.0], [12.0, 110.0, 0.0])


def test_an_index_that_is_changed_later_is_not_seen():
    x, index = leaf(5.0), np.array([0])
    t = ag.tensor([1.0, 2.0])
    t[index] = x
    index[0] = 1
    sync.backward(t[:1].sum())

    assert x.grad.tolist() == [1.0]


def test_python_writes_a_view_back_without_another_node():
    t = leaf(1.0, 2.0) * 1
    before = t.grad_fn
    t[:1] *= 2

    assert t.grad_fn.next_edges[0].node is before


def test_whole_numbers_take_values_without_a_gradient():
    t = ag.tensor([1, 2])
    t[0] = leaf(5.75)[0]

    assert (t.tolist(), t.requires_grad) == ([5, 2], False)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("copyto", lambda target, v: np.copyto(target, v)),
        ("put", lambda target, v: np.put(target, [0], v)),
        ("place", lambda target, v: np.place(target, np.array([True]), v)),
        ("putmask", lambda target, v: np.putmask(target, np.array([True]), v)),
        ("put_along_axis", lambda target, v: np.put_along_axis(target, np.array([0]), v, 0)),
    ],
)
@pytest.mark.parametrize("target", [[1.0], 1.0, None], ids=["a list", "a number", "None"])
def test_what_is_no_array_cannot_be_written_into_and_the_error_names_the_function(name, call, target):
    with refused(ArgumentTypeError, TypeError, f"{name} writes into a tensor or an array", "not "):
        call(target, leaf(2.0))


@pytest.mark.parametrize("index", [[3], [-4], [0, 7]])
def test_an_index_outside_is_refused_before_anything_is_written(index):
    t, values = leaf(1.0, 2.0, 3.0) * 1, leaf(5.0)
    for write in (np.put, lambda t, index, v: np.put_along_axis(t, np.array(index), v, None)):
        with pytest.raises(IndexError, match=f"{index[-1]}"):
            write(t, index, values)

    assert (t.tolist(), t._version) == ([1.0, 2.0, 3.0], 0)


def test_the_diagonal_of_many_axes_is_filled_and_one_of_unequal_ones_refused_as_numpy_does():
    for shape in ((2, 2, 2), (3, 3, 3, 3), (4, 2), (2, 4), (5, 2)):
        for wrap in (False, True):
            array, t = np.zeros(shape), ag.tensor(np.zeros(shape))
            np.fill_diagonal(array, [1.0, 2.0], wrap)
            np.fill_diagonal(t, leaf(1.0, 2.0), wrap)

            assert t.tolist() == array.tolist(), (shape, wrap)
    for shape in ((2, 3, 2), (3,)):
        with pytest.raises(ValueError, match="must be"):
            np.fill_diagonal(ag.tensor(np.zeros(shape)), leaf(1.0))


@pytest.mark.parametrize("write", [np.place, np.putmask], ids=lambda write: write.__name__)
def test_a_number_is_written_by_a_mask_with_its_history(write):
    x, value = leaf_of(2.0), leaf_of(3.0)
    y = x * 1

    write(y, np.array(True), value)
    sync.backward(y * np.array(4.0))

    assert (x.grad.item(), value.grad.item()) == (0.0, 4.0)


@pytest.mark.parametrize("index", [..., slice(None), ()], ids=repr)
def test_a_detached_tensor_takes_the_history_of_what_is_written_into_it_even_where_the_memory_is_the_same(index):
    x = leaf(2.0, 3.0)
    y = x * 2
    cut = y.detach()

    cut[index] = y
    sync.backward((cut * cut).sum())

    assert x.grad.tolist() == [16.0, 24.0]


def test_a_constant_on_the_same_memory_cuts_the_history_of_what_it_is_written_into():
    x = leaf(2.0, 3.0)
    y = x * 2
    with ag.no_grad():
        constant = y[...]

    y[...] = constant
    sync.backward((y * y).sum())

    assert x.grad.tolist() == [0.0, 0.0]
