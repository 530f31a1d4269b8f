"""Timers that tell how late an event loop is while a profile records."""

from __future__ import annotations

import asyncio
import time
import weakref
from typing import Protocol

from ..loop_timer import LoopTimer

__all__ = ["watch_loop"]

#: The seconds between two timers.
INTERVAL = 0.005


class LatenessRecorder(Protocol):
    """What is told how late timers fire."""

    @property
    def is_open(self) -> bool:
        """Whether it is to be told any more."""

    def note_lateness(self, seconds: float) -> None:
        """Note how late a timer has fired in this thread."""


def watch_loop(recorder: LatenessRecorder) -> None:
    """Have timers of the running loop note how late they fire, until the recorder is closed.

    A loop in virtual time gets none: a timer that is always due would move its clock.
    """
    if abs(asyncio.get_running_loop().time() - time.monotonic()) >= 1.0:
        return
    reference = weakref.ref(recorder)

    def note(seconds: float) -> bool:
        recorder = reference()
        if recorder is None or not recorder.is_open:
            return False
        recorder.note_lateness(seconds)
        return True

    LoopTimer(INTERVAL, note)
