"""Indexing is NumPy's; what it leaves out gets gradient 0, what it picks twice gets both gradients."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ChangedTensorError, InPlaceError

SHAPE = (3, 4, 5)
_picked = np.array([2, 0, 2])
_table = np.array([[0, 1], [-1, 3]])
_mask = np.arange(60).reshape(SHAPE) % 7 == 2

BASIC: list[Any] = [
    1,
    -1,
    slice(1, None),
    slice(None, None, -2),
    slice(5, 9),
    Ellipsis,
    None,
    (),
    (1, 2),
    (1, 2, -1),
    (slice(None), 1),
    (..., 0),
    (0, ..., slice(1, 4, 2)),
    (None, 1, None, ..., None),
    (slice(None), None, slice(2), -2),
    np.int64(2),
    (np.int32(1), slice(1, 3)),
]
ADVANCED: list[Any] = [
    _picked,
    [2, 0, 2],
    [],
    _table % 3,
    (_picked, slice(1, 3)),
    (slice(None), _table),
    (slice(None), slice(None), _picked),
    (..., _picked),
    (_picked, _picked),
    (_picked, [1], _table[:, :1]),
    (_picked, slice(None), _picked),
    (0, slice(None), _picked),
    (slice(1, None), 2, _picked),
    (slice(None), _picked, None, 1),
    (None, _picked),
    _mask,
    _mask[:, :, 0],
    _mask[:, 0, 0],
    (slice(None), _mask[0]),
    (_picked, _mask[0, 0][:4]),
    (..., _mask[0, 0]),
    np.zeros(SHAPE, bool),
    True,
    False,
    np.array(1),
    np.array(True),
    (np.array(1), _picked),
    range(2),
    ([0, 1], 1),
    np.array([], int),
    (np.array([1, 2], np.uint8), slice(None, None, 2)),
]


def spelled(index: Any) -> str:
    return repr(index).replace("\n", "")[:40]


def as_tensors(index: Any) -> Any:
    """Return an index with Tensors in the place of its arrays."""
    if isinstance(index, tuple):
        return tuple(as_tensors(item) for item in index)
    return ag.tensor(index) if isinstance(index, np.ndarray) else index


def array() -> np.ndarray:
    return np.arange(60.0).reshape(SHAPE)


@pytest.mark.parametrize("convert", [lambda index: index, as_tensors], ids=["arrays", "tensors"])
@pytest.mark.parametrize("index", BASIC + ADVANCED, ids=spelled)
def test_a_part_is_numpys_and_its_gradient_goes_back_to_where_it_came_from(index: Any, convert: Any) -> None:
    x = ag.tensor(array(), requires_grad=True)
    expected = array()[index]

    part = x[convert(index)]
    g = np.random.default_rng(0).normal(size=expected.shape)
    (grad,) = sync.grad(part, [x], [g])

    assert part.dtype == expected.dtype
    np.testing.assert_array_equal(part.numpy(), expected)
    put_back = np.zeros(SHAPE)
    np.add.at(put_back, index, g)
    np.testing.assert_allclose(grad.numpy(), put_back, rtol=1e-14)


@pytest.mark.parametrize("index", BASIC + ADVANCED, ids=spelled)
def test_the_derivative_of_the_gradient_is_the_part_again(index: Any) -> None:
    x = ag.tensor(array(), requires_grad=True)
    part = x[index]
    g = ag.tensor(np.ones(part.shape), requires_grad=True)
    (grad,) = sync.grad(part, [x], [g], create_graph=True)

    (back,) = sync.grad(grad, [g], [array()])

    np.testing.assert_array_equal(back.numpy(), array()[index])


@pytest.mark.parametrize("index", [1, slice(2), (..., 0), (None, 1), ag.tensor(1)], ids=spelled)
def test_a_basic_index_makes_a_view(index: Any) -> None:
    x = ag.tensor(array())

    assert np.shares_memory(x[index].numpy(), x.numpy())


@pytest.mark.parametrize("index", [[0, 1], _mask, (slice(2), _picked)], ids=spelled)
def test_an_advanced_index_makes_a_copy(index: Any) -> None:
    x = ag.tensor(array())

    assert not np.shares_memory(x[index].numpy(), x.numpy())


def test_a_part_picked_by_indices_does_not_keep_the_array_it_was_picked_from() -> None:
    x = ag.tensor(array(), requires_grad=True)
    doubled = x * 2
    whole = weakref.ref(doubled.numpy().base)
    part = doubled[_picked]
    del doubled

    assert whole() is None
    (grad,) = sync.grad(part.sum(), [x])
    np.testing.assert_array_equal(grad.numpy()[:, 0, 0], [2, 0, 4])


@pytest.mark.parametrize("kind", [np.asarray, ag.tensor])
def test_indices_changed_after_the_call_do_not_change_the_gradient(kind: Any) -> None:
    x = ag.tensor(np.zeros(4), requires_grad=True)
    index = kind(np.array([1, 2]))
    part = x[index]
    index += 1

    (grad,) = sync.grad(part.sum(), [x])

    assert grad.tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64])
def test_the_gradients_of_an_element_picked_often_add_up_in_its_dtype(dtype: Any) -> None:
    x = ag.tensor(np.zeros((3, 2), dtype), requires_grad=True)

    (grad,) = sync.grad(x[[1, 1, 2, 1]], [x], [np.ones((4, 2), dtype)])

    assert grad.dtype == dtype
    np.testing.assert_array_equal(grad.numpy(), [[0, 0], [3, 3], [1, 1]])


@pytest.mark.parametrize("index", [4, (0, 0, 0, 0), [3], 1.0, (0, "a")], ids=spelled)
def test_a_wrong_index_raises_what_numpy_raises(index: Any) -> None:
    with pytest.raises(IndexError):
        ag.tensor(array())[index]


@pytest.mark.parametrize("mode", ["wrap", "clip"])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_take_beyond_the_ends_gives_the_gradient_to_the_element_taken(mode: Any, axis: int | None) -> None:
    x = ag.tensor(array(), requires_grad=True)
    indices = np.array([-70, 4, 99])

    taken: Any = np.take(x, ag.tensor(indices), axis, mode=mode)
    (grad,) = sync.grad(taken, [x], [np.ones(taken.shape)])

    numbers = np.take(np.arange(60).reshape(SHAPE), indices, axis, mode=mode)
    np.testing.assert_array_equal(taken.numpy(), numbers)
    np.testing.assert_array_equal(grad.numpy(), np.bincount(numbers.ravel(), minlength=60).reshape(SHAPE))


def test_a_tensor_of_indices_picks_from_an_array_and_the_result_is_a_tensor() -> None:
    rows = np.arange(6.0).reshape(3, 2)
    indices: Any = ag.tensor([[1, 0], [0, 1], [1, 1]])

    for result, expected in (
        (np.take_along_axis(rows, indices, 1), np.take_along_axis(rows, indices.numpy(), 1)),
        (np.compress(indices[0] == 1, rows, 1), rows[:, :1]),
        (np.choose(indices, [rows, -rows]), np.choose(indices.numpy(), [rows, -rows])),
        (np.select([indices > 0], [rows]), np.where(indices.numpy() > 0, rows, 0)),
        (np.extract(indices > 0, rows), rows[indices.numpy() > 0]),
    ):
        assert isinstance(result, ag.Tensor)
        np.testing.assert_array_equal(result.numpy(), expected)


def test_sorting_sends_each_gradient_back_to_its_element() -> None:
    x = ag.tensor([[3.0, 1.0, 2.0], [0.0, 0.0, -1.0]], requires_grad=True)

    (grad,) = sync.grad(np.sort(x, kind="stable"), [x], [np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])])

    assert grad.tolist() == [[3, 1, 2], [5, 6, 4]]


# Writing.


@pytest.mark.parametrize("index", BASIC + ADVANCED, ids=spelled)
def test_writing_a_part_writes_what_numpy_writes(index: Any) -> None:
    expected = array()
    expected[index] = 7.5
    x = ag.tensor(array())
    x[as_tensors(index)] = 7.5

    np.testing.assert_array_equal(x.numpy(), expected)


def test_a_write_counts_as_a_version_of_the_whole_memory() -> None:
    x = ag.tensor(np.zeros((2, 2)))
    row = x[0]

    row[1] = ag.tensor(3)
    x[1] = np.array([1, 2])

    assert x.tolist() == [[0, 3], [1, 2]]
    assert x._version == row._version == 2


def test_writing_casts_as_assignment_to_an_array_does() -> None:
    x = ag.tensor([1, 2, 3])

    x[1:] = 2.9

    assert x.tolist() == [1, 2, 2]
    with pytest.raises(ValueError, match="could not broadcast"):
        x[:2] = np.zeros(3)


def test_a_write_into_a_leaf_that_requires_grad_is_refused_and_changes_nothing() -> None:
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(InPlaceError, match="is a leaf that requires grad"):
        x[0] = 5.0
    with pytest.raises(InPlaceError, match="is a leaf that requires grad"):
        x[[0]] = 5.0
    with pytest.raises(InPlaceError, match="is a leaf that requires grad"):
        x[0] += 1.0

    assert x.tolist() == [1, 2]


def test_without_grad_mode_a_leaf_can_be_written_into() -> None:
    x = ag.tensor([1.0, 2.0], requires_grad=True)

    with ag.no_grad():
        x[0] = 5.0
        x[1] += x[0]

    assert x.tolist() == [5, 7]
    assert x.is_leaf
    assert x.requires_grad


def test_a_part_saved_for_backward_and_then_written_into_is_noticed() -> None:
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    factor = ag.tensor([3.0, 4.0])
    y = x * factor[:1]
    factor[0] = 0.0

    with pytest.raises(ChangedTensorError, match="changed in place"):
        sync.grad(y.sum(), [x])
