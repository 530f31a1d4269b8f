"""`ag.no_full_collections`: nodes by the million, and no pause in which Python's collector visits them all."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Iterator

import pytest

import asyncgrad as ag
from asyncgrad.core.graph.dealloc import DEALLOCATION_INTERVAL
from asyncgrad.core.settings.scheduling import FULL_COLLECTIONS
from tests.support.clocks import TickingClock, hand_in
from tests.support.leaves import leaf


@pytest.fixture(autouse=True)
def _thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    assert not FULL_COLLECTIONS.extend_hold()
    gc.set_threshold(*before)


def full_collections() -> int:
    return int(gc.get_stats()[2]["collections"])


def make_many() -> list[list[int]]:
    """Return so many objects that the collector would look through all there are, several times."""
    return [[number] for number in range(1_000_000)]


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info >= (3, 14), reason="collections are incremental")
def test_inside_the_block_no_full_collection_begins_and_younger_ones_do():
    before, younger = full_collections(), gc.get_stats()[1]["collections"]
    made = make_many()
    assert full_collections() > before

    del made
    with ag.no_full_collections():
        before = full_collections()
        made = make_many()
        assert full_collections() == before
    assert gc.get_stats()[1]["collections"] > younger
    assert len(made) == 1_000_000


def test_a_full_collection_that_is_asked_for_is_made_inside_the_block():
    with ag.no_full_collections():
        before = full_collections()
        gc.collect()
        assert full_collections() == before + 1


def test_the_end_of_the_last_block_gives_the_threshold_back():
    with ag.no_full_collections():
        with ag.no_full_collections():
            inside = gc.get_threshold()
        assert gc.get_threshold() == inside == (700, 10, 2**31 - 1)
    assert gc.get_threshold() == (700, 10, 10)


def test_an_error_in_the_block_gives_the_threshold_back():
    with pytest.raises(KeyError), ag.no_full_collections():
        raise KeyError
    assert gc.get_threshold() == (700, 10, 10)


def test_blocks_of_several_threads_overlap():
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with ag.no_full_collections():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=hold)
    with ag.no_full_collections():
        thread.start()
        entered.wait()
    assert gc.get_threshold()[2] == 2**31 - 1
    leave.set()
    thread.join()
    assert gc.get_threshold() == (700, 10, 10)


def test_who_sets_a_threshold_inside_has_the_say():
    with ag.no_full_collections():
        gc.set_threshold(500, 5, 5)
    assert gc.get_threshold() == (500, 5, 5)


def test_younger_thresholds_that_are_set_inside_stay():
    with ag.no_full_collections():
        gc.set_threshold(500, 5, gc.get_threshold()[2])
    assert gc.get_threshold() == (500, 5, 10)


async def test_the_block_lasts_until_the_loop_has_freed_what_was_dropped_in_it():
    with hand_in(TickingClock()), ag.loop_budget(0):
        with ag.no_full_collections():
            y = leaf(1.0)
            for _ in range(10 * DEALLOCATION_INTERVAL):
                y = -y
            del y
        for turns in range(100):  # noqa: B007
            if gc.get_threshold()[2] != 2**31 - 1:
                break
            await asyncio.sleep(0)
    assert 5 < turns < 99
    assert gc.get_threshold() == (700, 10, 10)
