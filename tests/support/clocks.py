"""Clocks that a test hands in, so that a time budget is spent by what is done and not by how fast the machine is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from asyncgrad.core.settings.scheduling import CLOCK, Clock


class TickingClock:
    """A clock that goes on by one tick whenever it is read."""

    def __init__(self, tick: float = 1.0) -> None:
        self.now = 0.0
        self.tick = tick

    def __call__(self) -> float:
        self.now += self.tick
        return self.now


@contextlib.contextmanager
def hand_in(clock: Clock) -> Iterator[None]:
    """Measure every time budget that begins inside by `clock`."""
    token = CLOCK.set(clock)
    try:
        yield
    finally:
        CLOCK.reset(token)
