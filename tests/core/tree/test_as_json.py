"""Trees as JSON: they arrive as they were, and what cannot be written is named by its place."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.distributed.payload import arrays_of, pack, unpack
from asyncgrad.errors import ArgumentTypeError
from asyncgrad.learn.encoding import array_as_text, array_of_text, decode, encode

TREES = [
    None,
    1.5,
    "a",
    [],
    (),
    {},
    [1, (2, "b", None), {"c": [True], 3: ()}],
    {"a": {"b": ({"c": 1e-300},)}},
    np.array([1.0, 2.0]),
    ({"x": np.arange(3)}, [np.zeros((0, 2)), np.array(3, np.int8)]),
]


def sent(value: Any) -> Any:
    """Send a tree as a message does."""
    skeleton, leaves = pack(value)
    return unpack(json.loads(json.dumps(skeleton)), arrays_of(leaves))


def kept(value: Any) -> Any:
    """Write a tree as a journal does, and read it."""
    return decode(json.loads(json.dumps(encode(value, array_as_text, "example"))), array_of_text)


def shown(value: Any) -> str:
    return repr(value)


@pytest.mark.parametrize("way", [sent, kept])
@pytest.mark.parametrize("tree", TREES, ids=shown)
def test_a_tree_arrives_with_its_types_and_numbers(way, tree):
    assert shown(way(tree)) == shown(tree)


@pytest.mark.parametrize("tree", TREES, ids=shown)
def test_a_message_and_a_journal_write_a_tree_alike_but_for_its_arrays(tree):
    def number(_: Any) -> int:
        numbers.append(len(numbers))
        return numbers[-1]

    numbers: list[int] = []
    assert encode(tree, number, "example") == pack(tree)[0]


@pytest.mark.parametrize("read", [lambda value: unpack(value, []), lambda value: decode(value, array_of_text)])
@pytest.mark.parametrize("value", [{"set": [1]}, {"list": [{"Tuple": []}]}, {}, {"list": [], "tuple": []}])
def test_what_is_no_tree_is_refused(read, value):
    with pytest.raises(ValueError, match=r"a tree has arrays|unpack"):
        read(value)


def test_what_cannot_be_written_is_named_by_its_place():
    with pytest.raises(ArgumentTypeError, match=r"example\[1\]\['a'\] cannot be written"):
        encode([1, {"a": object()}], array_as_text, "example")
    with pytest.raises(ArgumentTypeError, match=r"a key of example\[0\] must be"):
        encode([{(1, 2): 1}], array_as_text, "example")
    with pytest.raises(ArgumentTypeError, match="stage a takes and returns arrays"):
        pack([1, {"a": object()}], "stage a")


def test_a_tensor_is_kept_as_an_array():
    assert kept([ag.tensor([1.0, 2.0])])[0].tolist() == [1.0, 2.0]
