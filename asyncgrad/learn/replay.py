"""Replay: what the lines of a journal say is done again, with the bits that it had."""

from __future__ import annotations

import logging
import math
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, final

from ..errors import ModelDirectoryError
from .lines import Record
from .recorded_model import RecordedModel

__all__ = ["Replay"]

log: logging.Logger = logging.getLogger("asyncgrad.learn")


@final
class Replay:
    """Does what lines say, one after another, and compares losses with those of before.

    Attributes:
        examples: how many examples were learned again.

    Args:
        recorded: the model.
        step: makes the step of examples, and returns its loss; given the position of the line that has acknowledged
            them, where a rollback has had them learned once more.
    """

    def __init__(self, recorded: RecordedModel, step: Callable[[list[Any], int | None], Awaitable[float]]) -> None:
        self._recorded, self._step = recorded, step
        self.examples: int = 0
        #: Whether the log says that rounding differs.
        self._has_told_rounding = False

    async def apply(self, record: Record, path: Path | str) -> None:
        """Do what a line says.

        Args:
            record: the line.
            path: names the place of the journal in errors.

        Raises:
            ModelDirectoryError: it cannot be done again, or gives another loss.
        """
        state = self._recorded.state
        try:
            await self._recorded.take_over(record)
            found = await self._step(record.examples, record.again) if record.examples else record.loss
        except Exception as error:
            raise ModelDirectoryError(
                f"{path} has examples in its journal that cannot be learned again, the first of them "
                f"number {state.learned + 1}: {error}"
            ) from error
        self.examples += len(record.examples)
        if record.loss is None or found == record.loss:
            return
        self._check_loss(record.loss, found, path)
        if not self._has_told_rounding:
            text = "%s: the loss of example %d was %r, and is %r in the replay: rounding differs on this machine"
            log.warning(text, path, state.learned, record.loss, found)
            self._has_told_rounding = True

    def _check_loss(self, before: float, now: float | None, path: Path | str) -> None:
        """Raise unless two losses are equal but for rounding: in half of the digits, of large numbers or of 1."""
        state = self._recorded.state
        rounding = state.rounding()
        if now is None or not math.isclose(before, now, rel_tol=rounding, abs_tol=rounding):
            raise ModelDirectoryError(
                f"{path} has example {state.learned} in its journal, whose loss was {before!r} and is {now!r} now: the "
                "loss, the model or what they depend on has changed since. Start it once as it was, and end it in "
                "order: then a checkpoint takes the journal's place, and what comes after may differ. Where no loss "
                "comes out the same twice, give up what was learned since the checkpoint by : > "
                f"{shlex.quote(f'{path}/journal')}"
            )
