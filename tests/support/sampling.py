"""How many of its cases a law is held to: a part in `make test`, all of them in `make test-all`.

The environment variable ASYNCGRAD_CASES says which share of them: 1 is all, and 100 is a hundred times as many where
they are drawn at random. Where it is less than 0.11, a test with the mark `slow`, which takes a second or more, is
left out, for others try in a moment what makes it up; if ten or more of its cases would be run, a tenth of them is, and
if it is `sampled` too, one at least. Where it is less than 1, each case is run on one kind of event loop, now this and
now that, and a test on each kind with one case at least, as long as the share is no less than 0.11.
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
from typing import Any, TypeVar

import pytest

from tests.support.loops import run_on

__all__ = ["MOST", "QUICK", "SHARE", "cases", "sampled", "some"]

#: Without the variable, this is what `make test` runs.
SHARE = float(os.environ.get("ASYNCGRAD_CASES", "0.1"))

#: Below this share, slow tests are left out, and what has one case is run on one kind of loop.
QUICK = 0.11

#: The most cases of a test that is not marked as `sampled`.
MOST = int(os.environ.get("ASYNCGRAD_MOST", sys.maxsize))

T = TypeVar("T")
#: How many cases of a law are run, of so many.
Kept = Callable[[int], int]


def cases(whole: int, share: float = SHARE) -> int:
    """Return how many are run of so many cases: schedules, programs, hypothesis's examples, levels of nesting."""
    return max(1, round(whole * share))


def some(many: Iterable[T], share: float = SHARE, of: str = "") -> list[T]:
    """Return a part of many cases, in their order, and at least one of them; of another law, another part."""
    whole = list(many)
    count = min(len(whole), math.ceil(len(whole) * share))
    chosen = Random(len(whole) + crc32(of.encode())).sample(range(len(whole)), count)
    return [whole[index] for index in sorted(chosen)]


def sampled(
    items: list[pytest.Item], share: float = SHARE, most: int = MOST
) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Split tests into those to run and those to leave out: of a test marked `sampled`, a part of its cases is run.

    `sampled("function")` runs at least one case with each value of that parameter. Of a test without the mark, `most`
    cases are run. A case is chosen by its name, so that a new one changes little about the others. Unless the tests are
    all of one file, which somebody has named, a case is run on one kind of loop where the share is less than 1, and
    slow ones are left out where it is small.
    """
    are_many = len({item.path for item in items}) > 1
    is_quick = share < QUICK and are_many
    left_out: set[pytest.Item] = set()

    def leave_out(items: Iterable[pytest.Item], law: Callable[[pytest.Item], Hashable], kept: Kept) -> None:
        laws: dict[Hashable, list[pytest.Item]] = defaultdict(list)
        for item in items:
            if item not in left_out:
                laws[law(item)].append(item)
        for ones in laws.values():
            left_out.update(_by_hash(ones)[kept(len(ones)) :])

    marked = [item for item in items if _has(item, "sampled")]
    if share < 1 and are_many:
        left_out |= _on_other_loops(items, is_each_needed=not is_quick)
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


def _on_other_loops(items: Iterable[pytest.Item], is_each_needed: bool) -> set[pytest.Item]:
    """Return what runs a case on another kind of loop than is chosen for it; a test may need a case on each kind."""
    chosen: set[pytest.Item] = set()
    by_hash = _by_hash(item for item in items if _on_a_loop(item))
    for law in (_but_for_its_loop, _but_for_its_case) if is_each_needed else (_but_for_its_loop,):
        seen = {law(item) for item in chosen}
        for item in by_hash:
            if law(item) not in seen:
                seen.add(law(item))
                chosen.add(item)
    return set(by_hash) - chosen


def _but_for_its_loop(item: pytest.Item) -> Hashable:
    """Return what a test has in common with itself on other kinds of loops."""
    loops = _on_a_loop(item)
    return _name(item), *((name, id(one)) for name, one in sorted(_parameters(item).items()) if name not in loops)


def _but_for_its_case(item: pytest.Item) -> Hashable:
    """Return what a test has in common with its other cases on the same kind of loop."""
    return _name(item), *(id(_parameters(item)[name]) for name in _on_a_loop(item))


def _on_a_loop(item: pytest.Item) -> list[str]:
    """Return the names of the parameters that say on which kind of loop a test runs; none where it is not said."""
    parameters = _parameters(item)
    begins_one = getattr(parameters.get("run"), "func", None) is run_on
    return [name for name in ("_asyncio_loop_factory", "run") if name in parameters and (name != "run" or begins_one)]


def _parameters(item: pytest.Item) -> dict[str, Any]:
    """Return what a case is parametrized with; nothing where it has no parameters, as a doctest."""
    return item.callspec.params if hasattr(item, "callspec") else {}


def _by_hash(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    return sorted(items, key=lambda item: (crc32(item.nodeid.encode()), item.nodeid))


def _law(item: pytest.Item) -> Hashable:
    """Return what all cases of a law have in common."""
    mark = item.get_closest_marker("sampled")
    assert mark is not None
    assert isinstance(item, pytest.Function)
    values = [item.callspec.params[name] for name in mark.args]
    return _name(item), *(one if isinstance(one, Hashable) else id(one) for one in values)
