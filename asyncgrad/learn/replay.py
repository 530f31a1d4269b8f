"""Replay: what the lines of a journal say is done again, with the bits that it had."""

from __future__ import annotations

import logging
import math
import shlex
from pathlib import Path
from typing import Any, final

from ..errors import ModelDirectoryError
from .lines import Record
from .model_steps import ModelSteps
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
        steps: makes its steps.
    """

    def __init__(self, recorded: RecordedModel, steps: ModelSteps) -> None:
        self._recorded, self._steps = recorded, steps
        self.examples: int = 0
        #: Whether the log says that rounding differs.
        self._has_told_rounding = False

    async def apply(self, record: Record, path: Path | str, version: Any = None) -> float | None:
        """Do what a line says; return the loss of its step, if it is one.

        Args:
            record: the line.
            path: names the place of the journal in errors.
            version: the state of the version that the line goes back to.

        Raises:
            ModelDirectoryError: it cannot be done again, or gives another loss.
        """
        found = record.loss
        try:
            self._recorded.take_over(record, version)
            if record.examples:
                source = record.position if record.again is None else record.again
                found = await self._steps.make_again(record.examples, source)
        except Exception as error:
            raise self.refusal(path, error) from error
        self.examples += len(record.examples)
        if record.loss is None or found == record.loss:
            return found
        self._check_loss(record.loss, found, path)
        if not self._has_told_rounding:
            text = "%s: the loss of example %d was %r, and is %r in the replay: rounding differs on this machine"
            log.warning(text, path, self._recorded.state.learned, record.loss, found)
            self._has_told_rounding = True
        return found

    def refusal(self, path: Path | str, error: Exception) -> ModelDirectoryError:
        """Return the error of a line that cannot be done again."""
        return ModelDirectoryError(
            f"{path} has examples in its journal that cannot be learned again, the first of them number "
            f"{self._recorded.state.learned + 1}: {error}"
        )

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
