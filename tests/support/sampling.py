"""How many of its cases a law is held to: a part in `make test`, all of them in `make test-all`.

The environment variable ASYNCGRAD_CASES says which share of them: 1 is all, and 100 is a hundred times as many where
they are drawn at random. A test with the mark `whole_program`, which runs a program for seconds, is run where the share
is a fifth or more: others try in a moment what makes it up. ASYNCGRAD_MOST says of how many cases, at most, any other
test is run: `make test-compiled`, whose cases have all been run otherwise, sets it. The same part is run each time, and
on every machine.
"""

from __future__ import annotations

import math
import os
import sys
from binascii import crc32
from collections import defaultdict
from collections.abc import Hashable, Iterable
from random import Random
from typing import TypeVar

import pytest

__all__ = ["MOST", "SHARE", "WHOLE_PROGRAMS", "cases", "sampled", "some"]

#: Without the variable, this is what `make test` runs.
SHARE = float(os.environ.get("ASYNCGRAD_CASES", "0.1"))

#: From which share on the tests of whole programs are run.
WHOLE_PROGRAMS = 0.2

#: The most cases of a test that is not marked as `sampled`.
MOST = int(os.environ.get("ASYNCGRAD_MOST", sys.maxsize))

T = TypeVar("T")


def cases(whole: int, share: float = SHARE) -> int:
    """Return how many are run of so many cases: schedules, programs, hypothesis's examples, levels of nesting."""
    return max(1, round(whole * share))


def some(many: Iterable[T], share: float = SHARE) -> list[T]:
    """Return a part of many cases, in their order, and at least one of them."""
    whole = list(many)
    count = min(len(whole), math.ceil(len(whole) * share))
    return [whole[index] for index in sorted(Random(len(whole)).sample(range(len(whole)), count))]


def sampled(
    items: list[pytest.Item], share: float = SHARE, most: int = MOST
) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Split tests into those to run and those to leave out: of a test marked `sampled`, a part of its cases is run.

    `sampled("function")` runs at least one case with each value of that parameter. Of a test without the mark, `most`
    cases are run. A case is chosen by its name, so that a new one changes little about the others. Tests marked
    `whole_program` are left out where the share is small, unless all are of one file: somebody has named it.
    """
    marked: dict[Hashable, list[pytest.Item]] = defaultdict(list)
    others: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled") is not None:
            marked[_law(item)].append(item)
        elif most < sys.maxsize:
            others[item.nodeid.partition("[")[0]].append(item)
    left_out: set[pytest.Item] = set()
    if share < WHOLE_PROGRAMS and len({item.path for item in items}) > 1:
        left_out.update(item for item in items if item.get_closest_marker("whole_program") is not None)
    for ones in marked.values():
        left_out.update(_by_hash(ones)[math.ceil(len(ones) * share) :])
    for ones in others.values():
        left_out.update(_by_hash(ones)[most:])
    return [item for item in items if item not in left_out], [item for item in items if item in left_out]


def _by_hash(items: list[pytest.Item]) -> list[pytest.Item]:
    return sorted(items, key=lambda item: (crc32(item.nodeid.encode()), item.nodeid))


def _law(item: pytest.Item) -> Hashable:
    """Return what all cases of a law have in common."""
    mark = item.get_closest_marker("sampled")
    assert mark is not None
    assert isinstance(item, pytest.Function)
    values = [item.callspec.params[name] for name in mark.args]
    return item.nodeid.partition("[")[0], *(one if isinstance(one, Hashable) else id(one) for one in values)
