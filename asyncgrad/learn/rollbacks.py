"""Rollbacks: a learner goes back to a version, and makes steps again that the version has not."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple, final

from ..core.settings.awaiting import is_cancelled
from ..errors import JournalError, LearnerClosedError
from .positions import Positions
from .recorded_model import RecordedModel

__all__ = ["RolledBack", "Rollbacks"]

log: logging.Logger = logging.getLogger("asyncgrad.learn")


class RolledBack(NamedTuple):
    """What a rollback has led to: how many examples the model has learned; how many steps were made again, and kept."""

    learned: int
    again: int
    kept: int


@final
class Rollbacks:
    """Goes back to versions, and learns lines again. Only the task that learns awaits it.

    Args:
        recorded: the model.
        learn_line: makes the step of the line at a position again, as a line of its own.
        after_step: awaited after each step.
        is_running: whether the learner runs.
    """

    def __init__(
        self,
        recorded: RecordedModel,
        learn_line: Callable[[int], Awaitable[None]],
        after_step: Callable[[], Awaitable[None]],
        is_running: Callable[[], bool],
    ) -> None:
        self._recorded, self._learn_line = recorded, learn_line
        self._after_step, self._is_running = after_step, is_running

    async def roll_back(self, name: str, examples: str) -> RolledBack:
        """Have a version hold, and learn again what is to be."""
        await self._recorded.roll_back(name, examples)
        before = self._recorded.state.steps
        if examples == "learn":
            await self._learn_again(lambda: self._recorded.lineage.due)
        return self._result(before)

    async def learn_kept(self) -> RolledBack:
        """Learn again what is kept."""
        before, kept = self._recorded.state.steps, self._recorded.lineage.kept
        await self._learn_again(lambda: kept & self._recorded.lineage.kept)
        return self._result(before)

    def _result(self, steps_before: int) -> RolledBack:
        state = self._recorded.state
        return RolledBack(state.learned, state.steps - steps_before, len(self._recorded.lineage.kept))

    async def learn_due(self) -> None:
        """Learn again what a rollback of a process that has ended was to."""
        try:
            if self._recorded.lineage.due and self._is_running():
                await self._learn_again(lambda: self._recorded.lineage.due)
        except LearnerClosedError:
            pass  # the next start goes on
        except JournalError as error:
            log.error("what a rollback has left to be learned again waits for the next example: %s", error)

    async def _learn_again(self, which: Callable[[], Positions]) -> None:
        """Make the steps of lines again, the first of those that are left before the others.

        Raises:
            JournalError: one could not be written; it and those that follow are left.
            LearnerClosedError: the learner ends; what is left is learned by the next start.
        """
        failed = Positions()
        while positions := which() - failed:
            if not self._is_running():
                raise LearnerClosedError("the learner was closed before all was learned again: the next start goes on")
            source = next(iter(positions))
            try:
                await self._learn_line(source)
            except (JournalError, KeyboardInterrupt, SystemExit, GeneratorExit):
                raise
            except BaseException as error:
                if not self._is_running() and is_cancelled(error):
                    continue
                log.error("line %d of the journal could not be learned again, and is kept: %r", source, error)
                if source in self._recorded.lineage.due:
                    await self._recorded.keep(source)
                failed = failed.with_one(source)
            await self._after_step()
