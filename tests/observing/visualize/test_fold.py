"""Folding finds what repeats, and nothing that only seems to."""

from __future__ import annotations

import numpy as np
import pytest

from asyncgrad.observing.visualize.fold import Group, fold
from tests.support.sampling import cases


def chain(kinds: str) -> list[int | Group]:
    """Fold a list in which each node leads to the next one."""
    numbers = [ord(kind) for kind in kinds]
    return fold(numbers, [[index + 1] if index + 1 < len(kinds) else [] for index in range(len(kinds))])


def spelled(items: list[int | Group], kinds: str) -> str:
    return "".join(
        kinds[item] if isinstance(item, int) else f"{item.repeats}({spelled(item.items, kinds)})" for item in items
    )


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ("", ""),
        ("abc", "abc"),
        ("abab", "abab"),
        ("xabcabcabcy", "x3(abc)y"),
        ("aaaaaa" + "b", "6(a)b"),
        ("abababab" + "c" + "abababab" + "c" + "z", "2(4(ab)c)z"),
        ("abcdefgh" * 2 + "z", "2(abcdefgh)z"),
        ("aab" * 4 + "z", "4(aab)z"),
    ],
)
def test_what_repeats_in_a_chain_is_shown_once(kinds, expected):
    # The last edge of the last repeat leads on, so that it is like the others.
    assert spelled(chain(kinds), kinds) == expected


def test_a_part_whose_edges_lead_elsewhere_is_no_repeat():
    kinds = [1, 2] * 6 + [3]
    targets = [[index + 1] for index in range(12)] + [[]]
    targets[4] = [12]

    folded = fold(kinds, targets)

    assert [item.first for item in folded if isinstance(item, Group)] == [5]


def test_repeats_may_all_lead_to_one_node():
    """As the steps of a loop do, which all use one weight that was computed before."""
    kinds = [1, 2] * 10 + [7]
    targets = [[index + 1, 20] for index in range(20)] + [[]]

    (group, last) = fold(kinds, targets)[:1] + fold(kinds, targets)[-1:]

    assert isinstance(group, Group)
    assert (group.period, group.repeats, last) == (2, 10, 20)


def unfolded(items: list[int | Group], shift: int = 0) -> list[int]:
    """Return the places of the first repeat that each node is shown as, with how far it is away from there."""
    found: list[int] = []
    for item in items:
        if isinstance(item, int):
            found.append(item + shift)
        else:
            for repeat in range(item.repeats):
                found += unfolded(item.items, shift + repeat * item.period)
    return found


@pytest.mark.parametrize("seed", range(cases(200)))
def test_each_node_is_in_exactly_one_place_and_looks_like_the_one_that_is_shown(seed):
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 60))
    kinds = [int(kind) for kind in random.integers(0, 2, count)]
    targets = [[min(index + int(step), count - 1)] for index, step in enumerate(random.integers(1, 3, count))]
    targets[-1] = []

    def check(items, shift):
        for item in items:
            if isinstance(item, int):
                assert kinds[item] == kinds[item + shift]
            else:
                for repeat in range(item.repeats):
                    check(item.items, shift + repeat * item.period)

    items = fold(kinds, targets)
    check(items, 0)

    assert unfolded(items) == list(range(count))
