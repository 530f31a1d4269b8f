"""Caches of what calls of a function need, by the dtypes, shapes and other things that decide on it."""

from __future__ import annotations

from typing import TypeVar

__all__ = ["MOST_CALLS", "remember"]

K = TypeVar("K")
V = TypeVar("V")

#: The most entries of a cache.
MOST_CALLS = 1024


def remember(cache: dict[K, V], key: K, value: V) -> V:
    """Put a value into a cache that is a plain dict, and return it; a cache that is full is emptied first.

    So a program whose shapes never come again takes no more memory with time, and a look-up costs what that of a dict
    does. Threads share a cache without a lock: an entry that is lost is found anew.
    """
    if len(cache) >= MOST_CALLS:
        cache.clear()
    cache[key] = value
    return value
