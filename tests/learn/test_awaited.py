"""What a server waits for a client to do, and for how long."""

from __future__ import annotations

import math
from typing import Any

import pytest

from asyncgrad.learn.awaited import ENOUGH, Awaited


class Clock:
    """A loop of which only the time passes."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, Any, Any]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Any) -> Any:
        timer = (when, callback, self)
        self.timers.append(timer)
        clock = self

        class Handle:
            def cancel(self) -> None:
                if timer in clock.timers:
                    clock.timers.remove(timer)

        return Handle()

    def run_until(self, until: float) -> None:
        while due := sorted((one for one in self.timers if one[0] <= until), key=lambda one: one[0]):
            self.timers.remove(due[0])
            self.now = max(self.now, due[0][0])
            due[0][1]()
        self.now = until


class Scene:
    """A client that has ten seconds."""

    def __init__(self) -> None:
        self.clock, self.moved, self.timed_out_at = Clock(), None, None
        loop: Any = self.clock
        self.awaited = Awaited(loop, 10.0, lambda: self.moved, self.note)

    def note(self) -> None:
        assert self.timed_out_at is None
        self.timed_out_at = self.clock.now

    def at(self, when: float, moved: float | None, *, look: bool = True) -> None:
        self.clock.run_until(when)
        self.moved = moved
        if look:
            self.awaited.look()


@pytest.fixture
def scene():
    return Scene()


def test_who_moves_nothing_has_the_time_once(scene):
    scene.at(3, 0)
    scene.clock.run_until(100)

    assert scene.timed_out_at == 13
    assert not scene.clock.timers


def test_a_byte_now_and_then_gains_no_time(scene):
    for second in range(20):
        scene.at(second, second)

    assert scene.timed_out_at == 10


def test_enough_bytes_begin_the_time_anew(scene):
    for step in range(20):
        scene.at(9 * step, ENOUGH * step)
    scene.clock.run_until(1000)

    assert scene.timed_out_at == 9 * 19 + 10


def test_what_moved_without_a_look_is_seen_when_the_time_is_over(scene):
    scene.at(0, 0)
    scene.at(5, ENOUGH, look=False)
    scene.clock.run_until(1000)

    assert scene.timed_out_at == 20


def test_who_is_not_awaited_is_never_timed_out(scene):
    scene.at(0, 0)
    scene.at(9, None)
    scene.clock.run_until(1000)
    assert scene.timed_out_at is None
    assert scene.awaited.since() is None

    scene.at(1000, 0)
    scene.clock.run_until(2000)

    assert scene.timed_out_at == 1010


def test_who_waits_for_the_server_has_the_time_from_when_the_server_goes_on(scene):
    scene.at(0, math.inf)
    scene.at(95, 5, look=False)
    scene.clock.run_until(1000)

    # Looked at every ten seconds.
    assert scene.timed_out_at == 100


def test_nothing_is_awaited_of_who_is_forgotten(scene):
    scene.at(0, 0)
    scene.awaited.forget()
    scene.clock.run_until(1000)

    assert scene.timed_out_at is None
    assert not scene.clock.timers
