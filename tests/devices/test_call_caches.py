"""A cache of calls has a bound."""

from __future__ import annotations

from asyncgrad.devices._call_caches import MOST_CALLS, remember


def test_a_cache_of_calls_never_has_more_than_its_bound() -> None:
    cache: dict[int, str] = {}
    sizes = set()

    for number in range(3 * MOST_CALLS):
        assert remember(cache, number, str(number)) == cache[number]
        sizes.add(len(cache))

    assert max(sizes) == MOST_CALLS
