"""A service that answers requests when a test says so, and rules that ask it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import asyncgrad as ag
from tests.support.functions import awaiting

__all__ = ["Service", "cancelled", "chains"]


class Service:
    """Doubles the items that it is asked for, and remembers the sizes of the requests.

    Args:
        turns: how many turns of the loop an answer takes.
        before: called in each request with its items.
    """

    def __init__(self, turns: int = 3, before: Callable[[list[Any]], Any] = lambda items: None) -> None:
        self.sizes: list[int] = []
        self.running = 0
        self.cancelled = 0
        self._turns, self._before = turns, before

    async def double(self, items: list[Any]) -> list[Any]:
        self.sizes.append(len(items))
        self.running += 1
        try:
            self._before(items)
            for _ in range(self._turns):
                await asyncio.sleep(0)
            return [item * 2 for item in items]
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1


def chains(x: Any, count: int, depth: int, ask: Callable[[Any], Any]) -> list[ag.Tensor]:
    """Return the ends of chains of async rules, each of which asks for its gradient."""
    ends = []
    for _ in range(count):
        y = x
        for _ in range(depth):
            y = awaiting(y, ask)
        ends.append(y.sum())
    return ends


async def cancelled(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks, and wait for their end."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
