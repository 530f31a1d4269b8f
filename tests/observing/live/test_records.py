"""Records: a ring, in which a flood of one kind takes one place."""

from __future__ import annotations

from asyncgrad.observing.live.records import Records


class Clock:
    """A clock that a test sets."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_as_many_are_kept_as_may_be_and_the_oldest_goes_first():
    records = Records(3)
    for value in range(5):
        records.add("done", float(value))

    assert [(one.number, one.value) for one in records.since(0)] == [(2, 2.0), (3, 3.0), (4, 4.0)]
    assert (len(records), records.added) == (3, 5)


def test_since_gives_those_from_a_number_on():
    records = Records(4)
    for value in range(6):
        records.add("done", float(value))

    assert [[one.number for one in records.since(number)] for number in (0, 4, 6, 9)] == [[2, 3, 4, 5], [4, 5], [], []]


def test_a_flood_of_one_kind_is_one_record_as_long_as_nobody_was_given_it():
    clock = Clock()
    records = Records(3, clock)
    records.add("done", 1.0)
    for _ in range(1000):
        records.add("refused")
    first = [(one.kind, one.times) for one in records.since(0)]
    records.add("refused")
    records.add("cancelled")

    assert first == [("done", 1), ("refused", 1000)]
    assert [(one.kind, one.times) for one in records.since(0)] == [("refused", 1000), ("refused", 1), ("cancelled", 1)]


def test_what_is_further_apart_is_not_one_record_and_neither_are_values():
    clock = Clock()
    records = Records(clock=clock)
    records.add("refused")
    clock.now = 0.3
    records.add("refused")
    records.add("done", 1.0)
    records.add("done", 1.0)

    assert [(one.at, one.kind, one.times) for one in records.since(0)] == [
        (0.0, "refused", 1),
        (0.3, "refused", 1),
        (0.3, "done", 1),
        (0.3, "done", 1),
    ]
