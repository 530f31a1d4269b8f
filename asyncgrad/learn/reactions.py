"""DriftReactions: what a learner does about drifts: a warning, a rollback, a pause, or a function of the user's."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from typing import Any, final

from .activity import Activity
from .drift import DriftEvent, DriftHooks, DriftMonitors

__all__ = ["DriftReactions"]

log: logging.Logger = logging.getLogger("asyncgrad.learn")


@final
class DriftReactions:
    """Shows each step to the detectors, and reacts between two steps to what they tell.

    Args:
        monitors: the detectors.
        activity: has the counts and the stage.
        pause: has nothing be learned any more, for a reason.
        roll_back: goes back to the version that a drift names, or the newest.
    """

    def __init__(
        self,
        monitors: DriftMonitors,
        activity: Activity,
        pause: Callable[[str], Awaitable[None]],
        roll_back: Callable[[DriftEvent], Awaitable[None]],
    ) -> None:
        self._monitors, self._activity, self._pause, self._roll_back = monitors, activity, pause, roll_back
        self._hooks = DriftHooks()
        self._detected: list[DriftEvent] = []

    def look(self, loss: float, examples: Sequence[Any], learned: int) -> None:
        """Show a step to the detectors, after which so many examples are learned."""
        self._detected += self._monitors.update(loss, examples, learned)

    def discard(self) -> None:
        """Forget what was detected: what was done about it is in the journal."""
        self._detected.clear()

    async def react(self, context: Context) -> None:
        """Do what is to be done about what was detected; functions are called in a copy of the context."""
        events, self._detected = self._detected, []
        is_back = False
        for event in events:
            self._activity.note("drifts", "drift")
            log.warning("%s", event)
            try:
                if event.drift.then == "stop":
                    await self._pause(str(event))
                elif event.drift.then == "rollback" and not is_back:
                    await self._roll_back(event)
                    is_back = True
                elif callable(event.drift.then):
                    self._hooks.start(event.drift.then, event, context.copy())
            except Exception as error:
                self._activity.counts["failed_reactions"] += 1
                log.error("nothing was done about the drift, and learning goes on: %s", error)
            finally:
                self._activity.stage = None

    async def end(self) -> None:
        """Cancel the functions that run still, and return once they have ended."""
        await self._hooks.end()
