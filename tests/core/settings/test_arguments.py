"""Numbers that are no plain Python ones, as arguments."""

import datetime
import decimal
import fractions

import numpy as np
import pytest

from asyncgrad.core.settings.arguments import describe, number, truth, whole_number
from asyncgrad.errors import ArgumentError, ArgumentTypeError

#: More digits than Python writes.
HUGE = 10**5000


@pytest.mark.parametrize(
    "value", [decimal.Decimal("0.5"), fractions.Fraction(1, 2), np.float32(0.5), np.array(0.5)], ids=repr
)
def test_a_number_of_any_kind_is_taken(value):
    assert number(value, "per") == 0.5


@pytest.mark.parametrize(
    "value",
    [
        np.timedelta64(5, "ms"),
        np.datetime64(5, "ns"),
        np.complex128(1.0),
        np.array("5"),
        np.array(True),
        bytearray(b"5"),
    ],
    ids=repr,
)
def test_what_python_converts_to_another_number_than_it_is_is_refused(value):
    with pytest.raises(ArgumentTypeError, match=r"^per must be a number, not "):
        number(value, "per")


@pytest.mark.parametrize("value", [np.timedelta64(5, "ms"), datetime.timedelta(milliseconds=5)], ids=repr)
def test_a_length_of_time_is_told_to_be_written_in_seconds(value):
    with pytest.raises(ArgumentTypeError, match=r"write its seconds as a number$"):
        number(value, "per")


def test_a_length_of_time_is_no_whole_number_and_no_truth_value():
    with pytest.raises(ArgumentTypeError, match=r"^rate must be an int, not timedelta64"):
        whole_number(np.timedelta64(1, "s"), "rate", 1)
    with pytest.raises(ArgumentTypeError, match=r"^debug must be True or False, not timedelta64"):
        truth(np.timedelta64(1, "s"), "debug")


def test_a_number_with_more_digits_than_python_writes_is_described():
    with pytest.raises(ArgumentError, match=r"^per must be a finite number, not int <16610 bits>$"):
        number(HUGE, "per")
    with pytest.raises(ArgumentError, match=r"^rate must be at least 1, not <negative, 16610 bits>: more$"):
        whole_number(-HUGE, "rate", 1, "more")

    assert describe([1, HUGE]) == "list [1, <16610 bits>]"


def test_an_object_whose_name_raises_is_described():
    class Nameless:
        @property
        def __name__(self):
            raise ValueError("no name yet")

    assert describe(Nameless()) == "an object of the class Nameless"
