"""Steps of optimizers as a profile sees them: when a step computes, and when it waits for a closure or a worker.

A step that nothing records is not looked at: see `steps_are_recorded`. What records is put among OPTIMIZER_STEPS
(`core/settings/observers.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any

from ..core.settings.observers import OPTIMIZER_STEPS, OptimizerRecorder

__all__ = ["Steps", "recorded", "steps_are_recorded"]

#: What one call of `Optimizer.step` does: see `Optimizer._steps`.
Steps = Generator[Callable[[], Any] | None, Any, Any]

#: Whether anything records steps, in whatever context.
steps_are_recorded: list[bool] = [False]


def _update(whole_process: bool) -> None:
    steps_are_recorded[0] = OPTIMIZER_STEPS.are_put()


OPTIMIZER_STEPS.when_changed(_update)


def recorded(steps: Steps, name: str) -> Steps:
    """Do what `steps` do (see `Optimizer._steps`), and tell what records in this context."""
    runs = _begin(name)
    status, answer, is_first = "failed", None, True
    try:
        while True:
            wanted = steps.send(answer)
            # The closure that comes before all else is no part of the step.
            is_before, is_first = is_first and wanted is None, False
            if is_before:
                runs = []
            for recorder, token in runs:
                recorder.step_suspends(token)
                if wanted is not None:
                    wanted = recorder.step_in_worker(token, wanted)
            answer = yield wanted
            if is_before:
                runs = _begin(name)
            for recorder, token in runs if not is_before else ():
                recorder.step_resumes(token)
    except StopIteration as end:
        status = "done"
        return end.value
    except GeneratorExit as end:
        # It is closed since its closure or its worker has failed, or was cancelled.
        if isinstance(end.__context__, asyncio.CancelledError):
            status = "cancelled"
        raise
    finally:
        steps.close()
        for recorder, token in runs:
            recorder.step_ends(token, status)


def _begin(name: str) -> list[tuple[OptimizerRecorder, Any]]:
    return [(recorder, recorder.step_begins(name)) for recorder in OPTIMIZER_STEPS.found()]
