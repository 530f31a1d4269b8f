"""What an ArraySpec takes, and what it says of the rest."""

from __future__ import annotations

import contextlib
import json
import math

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
    "huge": ([[1, 10**400]], "x[0][1] must lie within -1e+06 and 1e+06, and is 1e+400"),
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
    spec = ArraySpec((2,), np.int64)

    for value in (1.5, 3.0, -0.0, 1e300, float("nan")):
        with pytest.raises(ExampleError, match=r"value\[1\] must be a whole number for int64, 3 and not 3\.0, and is "):
            spec.check([1, value])
    with pytest.raises(ExampleError, match="value must be of whole numbers, and has dtype float64"):
        spec.check(np.ones(2))


WHOLE = [np.dtype(kind) for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")]
FLOATING = [np.dtype(kind) for kind in ("f2", "f4", "f8")]


def widest(dtype):
    return ArraySpec((2,), dtype, low=-math.inf, high=math.inf)


def in_every_form(numbers):
    """Yield whole numbers as a list, a tuple, and where a dtype holds them, as an array, its numbers and a tensor."""
    yield from (list(numbers), tuple(numbers))
    for dtype in (np.int64, np.uint64):
        with contextlib.suppress(OverflowError):
            array = np.array(numbers, dtype)
            yield from (array, list(array), ag.tensor(array))


@pytest.mark.parametrize("dtype", WHOLE, ids=str)
def test_a_whole_dtype_takes_what_it_holds_and_refuses_the_next_number(dtype):
    least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)

    for given in in_every_form([least, most]):
        found = widest(dtype).check(given)
        assert (found.dtype, found.tolist()) == (dtype, [least, most])
    for beyond in (least - 1, most + 1, 2**64, -(2**63) - 1, 10**400, -(10**5000)):
        for given in in_every_form([0, beyond]):
            with pytest.raises(ExampleError) as caught:
                widest(dtype).check(given, "x")
            shown = str(beyond) if abs(beyond) < 10**20 else {1: "1e+400", -1: "-1e+5000"}[1 if beyond > 0 else -1]
            assert str(caught.value) == f"x[1] must lie within {least} and {most}, the range of {dtype}, and is {shown}"


#: By the size of a floating dtype, numbers that it would turn into infinite ones.
BEYOND = {2: (65520.0, 70000), 4: (1e39, 10**39), 8: (10**400,)}


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_a_floating_dtype_rounds_what_lies_between_its_numbers(dtype):
    info = np.finfo(dtype)
    least, most = float(info.smallest_subnormal), float(info.max)
    held = [0.0, -0.0, least, -least, least / 8, most, -most, float(str(info.max)), 0.1, 1 / 3, 2049]

    with np.errstate(all="raise"):
        found = ArraySpec((None,), dtype, low=-math.inf, high=math.inf).check(held)

    assert found.dtype == dtype
    assert np.isfinite(found).all()
    with np.errstate(under="ignore"):
        assert found.tobytes() == np.array(held).astype(dtype).tobytes()


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_a_floating_dtype_refuses_what_would_become_infinite(dtype):
    for value in BEYOND[dtype.itemsize]:
        for given in (value, -value):
            with pytest.raises(ExampleError, match=rf"x\[1\] must lie within .*, the range of {dtype}, and is -?\d"):
                widest(dtype).check([0.5, given], "x")


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_no_array_with_a_number_that_is_not_finite_is_taken(dtype, value):
    with pytest.raises(ExampleError, match=r"value\[1\] must lie within"):
        ArraySpec((2,), dtype).check(np.array([0, value], dtype))


def test_the_ends_of_a_range_are_compared_exactly():
    spec = ArraySpec((), np.int64, low=-(2**53), high=2**53)

    assert spec.check(2**53) == 2**53
    for value in (2**53 + 1, np.int64(2**53 + 1)):
        with pytest.raises(
            ExampleError, match="value must lie within -9007199254740992 and 9007199254740992, and is 9007"
        ):
            spec.check(value)
    assert ArraySpec((), np.float32, high=0.1).check(np.float32(0.1)) == np.float32(0.1)
    with pytest.raises(ExampleError, match=r"within -1e\+06 and 1e\+06, and is 1000001"):
        ArraySpec((), np.int64).check(1_000_001)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([], "example must be an object with x and n, and is an array"),
        ({"x": [[1, 2]]}, "example lacks n: it must be an object with x and n"),
        ({"x": [[1, 2]], "n": [1, [1]], "lr": 1}, "example has no field 'lr', only x, n"),
        ({"x": [[1, 2]], "n": [1]}, "example.n must be an array of 2 parts, and is 1 of them"),
        ({"x": [[1, 2]], "n": "12"}, "example.n must be an array of 2 parts, and is a string"),
        ({"x": [[1, 2]], "n": [1.5, [1]]}, "example.n[0] must be a whole number for int64, 3 and not 3.0, and is 1.5"),
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
        ([1, 10**400], "example has a whole number that no dtype of NumPy holds"),
        ({"x": np.array(["2020-01-01"], "M8[D]")}, "example.x must be an array of numbers"),
    ],
)
def test_without_specs_anything_that_makes_finite_arrays_is_taken(value, text):
    found = as_arrays({"x": [[1, 2]], "name": "a", "rest": (None, 2.0)}, "example")
    assert found["x"].shape == (1, 2)
    assert found["name"] == "a"
    assert found["rest"] == (None, 2.0)

    with pytest.raises(ExampleError, match=text):
        as_arrays(value, "example")


def test_a_tree_without_specs_is_only_so_deep():
    deep = 1.0
    for _ in range(600):
        deep = {"a": deep}

    with pytest.raises(ExampleError, match=r"example(\.a)+.* is deeper than 64 levels"):
        as_arrays(deep, "example")


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
    with pytest.raises(ArgumentError, match="low must be a finite number, not float nan"):
        ArraySpec((2,), low=math.nan)


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        (np.uint8, 256, 300),
        (np.uint8, -5, -1),
        (np.int8, 0.2, 0.8),
        (np.float16, 1e5, 1e6),
        (np.int64, 2**63, math.inf),
    ],
)
def test_a_range_without_any_number_of_the_dtype_is_refused(dtype, low, high):
    with pytest.raises(ArgumentError, match=f"there is no {np.dtype(dtype)} from .*: nothing would be taken"):
        ArraySpec((), dtype, low=low, high=high)
