"""Who keeps an array that a trace has met, as told by what refers to it."""

from __future__ import annotations

import gc

import numpy as np

from asyncgrad.tracing import outside


class Keeper:
    """What is no library's."""

    def __init__(self, kept):
        self.kept = kept


def owner_of(*arrays):
    return outside._owner_among_referrers(list(arrays), {id(arrays)})


def test_an_owner_is_found_through_containers_and_told_with_its_array():
    first, second = np.ones(2), np.ones(3)
    keeper = Keeper({"weights": [(second,)]})

    found = owner_of(first, second)

    assert found is not None
    assert found[0] is second
    assert found[1] == "an object of class Keeper"
    assert keeper.kept


def test_what_keeps_arrays_is_found_by_few_looks_at_the_heap(monkeypatch):
    """A look takes a second where gigabytes of objects are, and each container used to be one."""
    array = np.ones(2)
    lists = [[[array]] for _ in range(20)]
    looks = []
    monkeypatch.setattr(outside, "gc", Counted(looks))

    assert owner_of(array) is None
    assert len(lists) == 20
    assert len(looks) <= outside._DEPTH + 1


def test_an_array_in_more_containers_than_can_be_looked_at_counts_as_kept():
    array = np.ones(2)
    lists = [[array] for _ in range(outside._MOST_PARTS + 1)]

    found = owner_of(array)

    assert found is not None
    assert found[1] == "more than can be looked at"
    assert lists


class Counted:
    """The module gc, whose looks at the heap are counted."""

    get_referents = staticmethod(gc.get_referents)

    def __init__(self, looks):
        self.looks = looks

    def get_referrers(self, *parts):
        self.looks.append(len(parts))
        return gc.get_referrers(*parts)
