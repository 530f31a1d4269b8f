"""The event loops that each benchmark of this folder runs on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from importlib.util import find_spec
from typing import Any

import asyncgrad as ag

from ..runner import Benchmark

__all__ = ["LOOPS", "OnEachLoop"]

LOOPS = ("asyncio", "uvloop") if find_spec("uvloop") else ("asyncio",)


class OnEachLoop(Benchmark):
    """Abstract: a benchmark whose last parameter is the kind of event loop that it runs on.

    Its second peer is the limit: the shortest time that the waits allow. The floor, if there is one, is what the
    event loop makes of the same waits without asyncgrad.
    """

    @staticmethod
    def start_loop(*params: Any) -> Callable[[Coroutine[Any, Any, Any]], Any]:
        """Return a function that runs a coroutine on a new loop of that kind."""
        return asyncio.run if params[-1] == "asyncio" else ag.run
