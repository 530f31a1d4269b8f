"""How many of its cases a law is held to: a part in `make test`, all of them in `make test-all`.

The environment variable ASYNCGRAD_CASES says which share of them: 1 is all, and 100 is a hundred times as many where
they are drawn at random. The same part is run each time, and on every machine.
"""

from __future__ import annotations

import math
import os
from binascii import crc32
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

import pytest

__all__ = ["SHARE", "cases", "part_of", "sampled"]

#: Without the variable, this is what `make test` runs.
SHARE = float(os.environ.get("ASYNCGRAD_CASES", "0.2"))

T = TypeVar("T")


def cases(whole: int) -> int:
    """Return how many are run of so many cases drawn at random: schedules, programs, hypothesis's examples."""
    return max(1, round(whole * SHARE))


def part_of(many: Iterable[T], law: Callable[[T], Hashable], name: Callable[[T], str], share: float = SHARE) -> list[T]:
    """Return a part of many cases in their order, at least one of each law.

    Which ones is up to their names alone: a new case changes little about the others.
    """
    of_law: dict[Hashable, list[T]] = defaultdict(list)
    for one in many:
        of_law[law(one)].append(one)
    kept: set[int] = set()
    for ones in of_law.values():
        first = sorted(ones, key=lambda one: (crc32(name(one).encode()), name(one)))
        kept.update(id(one) for one in first[: math.ceil(len(ones) * share)])
    return [one for ones in of_law.values() for one in ones if id(one) in kept]


def sampled(items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Split tests into those to run and those to leave out: of a test marked `sampled`, a part of its cases is run.

    `sampled("function")` runs at least one case with each value of that parameter.
    """
    marked = [item for item in items if item.get_closest_marker("sampled") is not None]
    kept = {id(item) for item in part_of(marked, _law, lambda item: item.nodeid)}
    left_out = {id(item) for item in marked if id(item) not in kept}
    return [one for one in items if id(one) not in left_out], [one for one in items if id(one) in left_out]


def _law(item: pytest.Item) -> Hashable:
    """Return what all cases of a law have in common."""
    mark = item.get_closest_marker("sampled")
    assert mark is not None
    assert isinstance(item, pytest.Function)
    values = [item.callspec.params[name] for name in mark.args]
    return item.nodeid.partition("[")[0], *(one if isinstance(one, Hashable) else id(one) for one in values)
