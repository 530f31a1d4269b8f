"""How many of its cases a law is held to: a part in `make test`, all of them in `make test-all`.

The environment variable ASYNCGRAD_CASES says which share of them: 1 is all, and 100 is a hundred times as many where
they are drawn at random. Where it is less than a fifth, a test with the mark `slow`, which takes a second or more, is
left out, for others try in a moment what makes it up; if ten or more of its cases would be run, a tenth of them is, and
if it is `sampled` too, one at least. And each case is run on one kind of event loop, now this and now that.
ASYNCGRAD_MOST says of how many cases, at most, any other test is run: `make test-compiled` sets it, for all have been
run otherwise. The same part is run each time, and on every machine.
"""

from __future__ import annotations

import math
import os
import sys
from binascii import crc32
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from random import Random
from typing import TypeVar

import pytest

from tests.support.loops import run_on

__all__ = ["MOST", "QUICK", "SHARE", "cases", "sampled", "some"]

#: Without the variable, this is what `make test` runs.
SHARE = float(os.environ.get("ASYNCGRAD_CASES", "0.1"))

#: Below this share, slow tests are left out, and each case is run on one kind of loop.
QUICK = 0.2

#: The most cases of a test that is not marked as `sampled`.
MOST = int(os.environ.get("ASYNCGRAD_MOST", sys.maxsize))

T = TypeVar("T")
#: How many cases of a law are run, of so many.
Kept = Callable[[int], int]


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
    cases are run. A case is chosen by its name, so that a new one changes little about the others. Where the share is
    small and the tests are not all of one file, which somebody has named, slow ones are left out, and all but one kind
    of loop.
    """
    is_quick = share < QUICK and len({item.path for item in items}) > 1
    left_out: set[pytest.Item] = set()

    def leave_out(items: Iterable[pytest.Item], law: Callable[[pytest.Item], Hashable], kept: Kept) -> None:
        laws: dict[Hashable, list[pytest.Item]] = defaultdict(list)
        for item in items:
            if item not in left_out:
                laws[law(item)].append(item)
        for ones in laws.values():
            left_out.update(_by_hash(ones)[kept(len(ones)) :])

    marked = [item for item in items if _has(item, "sampled")]
    if is_quick:
        leave_out(items, _but_for_its_loop, lambda count: 1)
    leave_out(marked, _law, lambda count: math.ceil(count * share))
    if most < sys.maxsize:
        leave_out((item for item in items if not _has(item, "sampled")), _name, lambda count: most)
    if is_quick:
        # Of what is sampled and slow, a tenth of its part, and one at least.
        leave_out((item for item in marked if _has(item, "slow")), _name, lambda count: max(1, count // 10))
        slow = (item for item in items if _has(item, "slow") and not _has(item, "sampled"))
        leave_out(slow, _name, lambda count: count // 10)
    return [item for item in items if item not in left_out], [item for item in items if item in left_out]


def _has(item: pytest.Item, mark: str) -> bool:
    return item.get_closest_marker(mark) is not None


def _name(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _but_for_its_loop(item: pytest.Item) -> Hashable:
    """Return what a test has in common with itself on other kinds of loops."""
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return item
    on_a_loop = {"_asyncio_loop_factory"}
    if getattr(item.callspec.params.get("run"), "func", None) is run_on:
        on_a_loop.add("run")
    others = [(name, id(one)) for name, one in sorted(item.callspec.params.items()) if name not in on_a_loop]
    return _name(item), *others


def _by_hash(items: list[pytest.Item]) -> list[pytest.Item]:
    return sorted(items, key=lambda item: (crc32(item.nodeid.encode()), item.nodeid))


def _law(item: pytest.Item) -> Hashable:
    """Return what all cases of a law have in common."""
    mark = item.get_closest_marker("sampled")
    assert mark is not None
    assert isinstance(item, pytest.Function)
    values = [item.callspec.params[name] for name in mark.args]
    return _name(item), *(one if isinstance(one, Hashable) else id(one) for one in values)
