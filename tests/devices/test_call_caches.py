"""A cache of calls has a bound, and a look-up in it is one in a dict."""

from __future__ import annotations

from asyncgrad.devices._call_caches import MOST_CALLS, remember


def test_a_cache_of_calls_never_has_more_than_its_bound() -> None:
    cache: dict[int, int] = {}

    sizes = [remember(cache, number, number) * 0 + len(cache) for number in range(3 * MOST_CALLS)]

    assert max(sizes) == MOST_CALLS
    assert cache[3 * MOST_CALLS - 1] == 3 * MOST_CALLS - 1
