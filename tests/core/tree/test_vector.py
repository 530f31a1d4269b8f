"""ravel: all numbers of a tree as one vector, and back."""

from __future__ import annotations

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync, tree
from asyncgrad.errors import ArgumentError, ArgumentTypeError
from tests.support.leaves import leaf


def test_arrays_and_numbers_make_an_array_and_come_back():
    given = {"w": np.arange(6.0).reshape(2, 3), "b": [1, np.float32(2)], "empty": np.zeros((0, 2)), "none": None}
    vector, unravel = tree.ravel(given)
    made = unravel(vector)

    assert (type(vector), vector.dtype, vector.tolist()) == (np.ndarray, np.float64, [0, 1, 2, 3, 4, 5, 1, 2])
    np.testing.assert_array_equal(made["w"], given["w"])
    assert [type(one) for one in made["b"]] == [np.float64, np.float32]
    assert (made["empty"].shape, made["none"]) == ((0, 2), None)


def test_a_tree_without_numbers_is_an_empty_vector():
    vector, unravel = tree.ravel([None, {}])

    assert (vector.shape, unravel(vector)) == ((0,), [None, {}])


def test_a_tensor_among_the_leaves_makes_the_vector_a_tensor():
    vector, unravel = tree.ravel([ag.tensor([1.0]), 2.0])

    assert isinstance(vector, ag.Tensor)
    assert [type(one) for one in unravel(vector)] == [ag.Tensor, ag.Tensor]


def test_ravel_is_differentiated_both_ways():
    x, y = leaf(1.0, 2.0), leaf(3.0)
    vector, unravel = tree.ravel({"x": x, "y": y})
    back = unravel(vector * vector)
    gx, gy = sync.grad((back["x"] * 10).sum() + back["y"].sum(), [x, y])

    assert (gx.tolist(), gy.tolist()) == ([20.0, 40.0], [6.0])


def test_a_complex_vector_keeps_its_imaginary_part_where_a_leaf_was_real():
    _, unravel = tree.ravel([1.0])

    assert unravel(np.array([1j])) == [1j]


def test_a_leaf_that_is_no_number_is_named_by_its_path():
    with pytest.raises(ArgumentTypeError, match=r"but tree\['layers'\]\[1\] is str 'x'"):
        tree.ravel({"layers": [1.0, "x"]})
    with pytest.raises(ArgumentTypeError, match=r"but tree\[0\] is ndarray of shape \(1,\) and dtype object"):
        tree.ravel([np.array([None])])


def test_a_vector_of_another_size_is_refused():
    _, unravel = tree.ravel([1.0, 2.0])

    with pytest.raises(ArgumentError, match=r"takes a vector of shape \(2,\), not ndarray of shape \(3,\)"):
        unravel(np.ones(3))
