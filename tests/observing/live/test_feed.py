"""LiveFeed: one sample for all who look, none while nobody does, and the whole again for who has missed one."""

from __future__ import annotations

import asyncio

from asyncgrad.observing.latency import LatencyHistogram, LatencyWindow
from asyncgrad.observing.live.feed import PAUSE, SAMPLES, TOLD, LiveFeed
from tests.observing.live.making import new_feed, parsed


def event_of(feed: LiveFeed, last: str | None) -> tuple[str, bytes]:
    """Return the event that follows, which there must be."""
    found = feed.event(last)
    assert found is not None
    return found


async def test_nothing_is_sampled_until_somebody_looks():
    feed, source, _ = new_feed()
    before = source.samples
    feed.open()
    feed.close()

    assert (before, source.samples, source.begun, feed.watching) == (0, 1, 1, 0)


async def test_all_who_look_share_one_sample_and_its_bytes():
    feed, source, clock = new_feed()
    feed.open()
    feed.open()
    first = [event_of(feed, None) for _ in range(2)]
    clock.now += feed.interval
    last = first[0][0]
    second = [event_of(feed, last) for _ in range(2)]

    assert first[0][1] is first[1][1]
    assert second[0][1] is second[1][1]
    assert (source.samples, source.seconds) == (2, [0.0, 0.5])
    assert [parsed(one[1])[1] for one in (first[0], second[0])] == ["whole", "next"]
    assert feed.event(second[0][0]) is None
    feed.close()
    feed.close()


async def test_who_has_missed_a_sample_gets_the_whole_and_so_does_one_of_another_process():
    feed, source, clock = new_feed()
    feed.open()
    last, _ = event_of(feed, None)
    for _ in range(3):
        clock.now += feed.interval
        source.records.add("done", 1.0)
        event_of(feed, None)
    found = [parsed(event_of(feed, name)[1]) for name in (last, "0-3", "nonsense")]
    feed.close()

    assert [kind for _, kind, _ in found] == ["whole"] * 3
    assert [len(data["samples"]) for _, _, data in found] == [4] * 3
    assert [len(data["records"]) for _, _, data in found] == [3] * 3


async def test_each_record_is_told_once_in_the_whole_and_what_follows_it():
    feed, source, clock = new_feed()
    source.records.add("done", 0.5)
    feed.open()
    source.records.add("done", 1.5)
    last, whole = event_of(feed, None)
    clock.now += feed.interval
    source.records.add("refused")
    _, following = event_of(feed, last)
    feed.close()

    assert [value for _, _, value, _ in parsed(whole)[2]["records"]] == [0.5]
    assert [(kind, value) for _, kind, value, _ in parsed(following)[2]["records"]] == [
        ("done", 1.5),
        ("refused", None),
    ]


async def test_one_event_tells_at_most_so_many_values_and_all_marks():
    feed, source, clock = new_feed()
    feed.open()
    last, _ = event_of(feed, None)
    for value in range(3 * TOLD):
        source.records.add("done", float(value))
        if value % 10 == 0:
            source.records.add("refused")
    clock.now += feed.interval
    records = parsed(event_of(feed, last)[1])[2]["records"]
    feed.close()

    assert sum(kind == "done" for _, kind, _, _ in records) == TOLD
    assert sum(kind == "refused" for _, kind, _, _ in records) == 4
    assert records[-1][2] == 3 * TOLD - 1


async def test_who_looks_first_is_told_all_that_was_kept_before():
    feed, source, _ = new_feed()
    for value in range(2000):
        source.records.add("done", float(value))
    feed.open()
    records = parsed(event_of(feed, None)[1])[2]["records"]
    feed.close()

    assert [value for _, _, value, _ in records] == [float(value) for value in range(2000 - 1024, 2000)]


async def test_a_page_that_goes_on_with_another_stream_loses_no_window():
    feed, source, clock = new_feed()
    feed.open()
    feed.close()
    clock.now += (PAUSE - 1) * feed.interval
    feed.open()
    feed.close()
    soon = source.begun
    clock.now += (PAUSE + 1) * feed.interval
    feed.open()
    feed.close()

    assert (soon, source.begun) == (1, 2)


async def test_samples_are_bounded():
    feed, _, clock = new_feed()
    feed.open()
    for _ in range(SAMPLES + 20):
        clock.now += feed.interval
        event_of(feed, None)
    whole = parsed(event_of(feed, None)[1])[2]
    feed.close()

    assert len(whole["samples"]) == SAMPLES


async def test_a_loop_that_was_blocked_is_late_and_one_that_nobody_watches_has_no_timer():
    feed, _, clock = new_feed()
    loop = asyncio.get_running_loop()
    feed.open()
    timer = feed._lateness._timer._handle
    # The loop does not turn for as long as this takes; how long it is, the timer tells.
    begun = loop.time()
    while loop.time() < begun + 0.06:
        pass
    clock.now += feed.interval
    late = parsed(event_of(feed, None)[1])[2]["samples"][-1]["late"]
    feed.close()

    assert timer is not None
    assert late[1] >= 0.03
    assert feed._lateness._timer is None
    assert timer.cancelled()


def test_a_window_has_what_was_added_in_its_looks_alone():
    histogram = LatencyHistogram()
    window = LatencyWindow(histogram, 2)
    found = []
    for seconds in (0.002, 0.3, 7.0):
        histogram.add(seconds)
        found.append(window.look())

    assert [(one.count, one.quantile(0.5), one.quantile(1.0)) for one in found] == [
        (1, 0.0025, 0.0025),
        (2, 0.0025, 0.5),
        (2, 0.5, 10.0),
    ]
