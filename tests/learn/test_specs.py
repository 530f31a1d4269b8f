"""What an ArraySpec takes, and what it says of the rest."""

from __future__ import annotations

import json

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.errors import ArgumentError, ExampleError
from asyncgrad.learn import ArraySpec
from asyncgrad.learn.specs import as_arrays, conform

ROWS = ArraySpec((None, 2), max_size=20)
FIELDS = {"x": ROWS, "n": (ArraySpec((), np.int64), ArraySpec((1,)))}


@pytest.mark.parametrize(
    ("spec", "value", "expected"),
    [
        (ROWS, [[1, 2.5]], np.array([[1, 2.5]])),
        (ROWS, ((1, 2), (3, 4)), np.array([[1.0, 2], [3, 4]])),
        (ROWS, np.ones((3, 2), np.float32), np.ones((3, 2))),
        (ROWS, ag.tensor(np.ones((3, 2)), requires_grad=True), np.ones((3, 2))),
        (ArraySpec((), np.float32), 3, np.float32(3)),
        (ArraySpec((2,), np.int32), [1, 2], np.array([1, 2], np.int32)),
        (ArraySpec((0,)), [], np.empty(0)),
        (ArraySpec((1,), high=1e20), [10**19], np.array([1e19])),
    ],
)
def test_what_fits_becomes_an_array_of_the_dtype(spec, value, expected):
    found = spec.check(value)

    assert isinstance(found, np.ndarray)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


BAD = {
    "a string": ("12", "x must be an array with 2 axes, and is a string"),
    "empty": ([], "x must have shape (any, 2), and has (0, 0)"),
    "flat": ([1, 2], "x[0] must be an array with 1 axis, and is a number"),
    "wide": ([[1, 2, 3]], "x must have shape (any, 2), and has (1, 3)"),
    "ragged": ([[1, 2], [1]], "x[1] has shape (1,), but x[0] has (2,)"),
    "ragged at first": ([[1], [1, 2]], "x[1] has shape (2,), but x[0] has (1,)"),
    "digits in a string": ([[1, "2"]], "x[0][1] must be a number, and is a string"),
    "true": ([[1, 2], [3, True]], "x[1][1] must be a number, and is true"),
    "null": ([[1, None]], "x[0][1] must be a number, and is null"),
    "an object": ([[1, {}]], "x[0][1] must be a number, and is an object"),
    "deep": ([[1, [2]]], "x[0][1] must be a number, and is an array"),
    "NaN": (json.loads("[[1, NaN]]"), "x[0][1] must lie within -1e+06 and 1e+06, and is NaN"),
    "infinite": (json.loads("[[1, 2], [1, -1e999]]"), "x[1][1] must lie within -1e+06 and 1e+06, and is -inf"),
    "huge": ([[1, 10**400]], "x[0][1] must lie within -1e+06 and 1e+06, and is 1e+300"),
    "many": ([[1, 2]] * 11, "x has 22 numbers, and at most 20 are taken at once"),
    "complex": (np.ones((1, 2), complex), "x must be of numbers, and has dtype complex128"),
    "bools": (np.ones((1, 2), bool), "x must be of numbers, and has dtype bool"),
    "another shape": (np.ones(3), "x must have shape (any, 2), and has (3,)"),
}


@pytest.mark.parametrize(("value", "text"), BAD.values(), ids=BAD)
def test_what_does_not_fit_is_named_by_its_place(value, text):
    with pytest.raises(ExampleError) as caught:
        ROWS.check(value, "x")

    assert str(caught.value) == text


def test_whole_numbers_are_not_made_of_others():
    with pytest.raises(ExampleError, match="value must be of whole numbers, and has dtype float64"):
        ArraySpec((1,), np.int64).check([1.5])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([], "example must be an object with x and n, and is an array"),
        ({"x": [[1, 2]]}, "example lacks n: it must be an object with x and n"),
        ({"x": [[1, 2]], "n": [1, [1]], "lr": 1}, "example has no field 'lr', only x, n"),
        ({"x": [[1, 2]], "n": [1]}, "example.n must be an array of 2 parts, and is 1 of them"),
        ({"x": [[1, 2]], "n": "12"}, "example.n must be an array of 2 parts, and is a string"),
        ({"x": [[1, 2]], "n": [1.5, [1]]}, "example.n[0] must be of whole numbers, and has dtype float64"),
        ({"x": [[1, 2]], "n": [1, [None]]}, "example.n[1][0] must be a number, and is null"),
    ],
)
def test_of_a_tree_of_specs_the_place_is_named(value, text):
    with pytest.raises(ExampleError) as caught:
        conform(FIELDS, value, "example")

    assert str(caught.value) == text


def test_a_tree_of_specs_gives_its_own_containers():
    found = conform(FIELDS, {"n": [3, [4]], "x": [[1, 2]]}, "example")

    assert list(found) == ["x", "n"]
    assert isinstance(found["n"], tuple)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([[1], [1, 2]], "example makes no array"),
        ({"x": float("nan")}, "example.x has a number that is infinite or NaN"),
        ((1, object()), r"example\[1\] must be an array of numbers"),
        (["a"], "example must be an array of numbers"),
    ],
)
def test_without_specs_anything_that_makes_finite_arrays_is_taken(value, text):
    found = as_arrays({"x": [[1, 2]], "name": "a", "rest": (None, 2.0)}, "example")
    assert found["x"].shape == (1, 2)
    assert found["name"] == "a"
    assert found["rest"] == (None, 2.0)

    with pytest.raises(ExampleError, match=text):
        as_arrays(value, "example")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (((2.5,),), "the shape of an ArraySpec must be of sizes and None"),
        (((2,), bool), "the dtype of an ArraySpec must be of whole or floating numbers"),
    ],
)
def test_a_spec_that_nothing_fits_is_refused(arguments, text):
    with pytest.raises(ArgumentError, match=text):
        ArraySpec(*arguments)
    with pytest.raises(ArgumentError, match="low must be at most high"):
        ArraySpec((2,), low=1, high=0)
