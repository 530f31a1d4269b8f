"""Rows that succeed or fail together: what is told of those that ran to their end, and were taken back."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.errors import ReleasedGraphError
from tests.support.failing import Trouble
from tests.support.leaves import leaf


def rows_whose_last_callback_fails(tasks: list[Any]) -> tuple[Any, Any]:
    """Return a leaf, and what is computed from it."""

    def fail() -> None:
        if len(tasks) == 2:
            raise Trouble("a final callback")

    def note(_: Any) -> None:
        tasks.append(ag.engine.current_graph_task())
        ag.engine.queue_callback(fail)

    x = leaf(0.3, 0.7)
    y = np.exp(x)
    y.register_hook(note)
    return x, np.exp(y)


async def test_rows_that_are_taken_back_have_captured_nothing_and_have_failed_for_observers(caplog):
    tasks: list[Any] = []
    x, y = rows_whose_last_callback_fails(tasks)
    with caplog.at_level(logging.DEBUG, "asyncgrad"), pytest.raises(Trouble):
        await ag.grad([y], [x], [np.eye(2)], is_grads_batched=True, retain_graph=True)
    assert [task.captured_grads for task in tasks] == [[None], [None]]
    assert sum("failed after" in record.getMessage() for record in caplog.records) == 2


async def test_rows_that_have_released_their_graph_and_are_taken_back_say_so_to_the_next_try():
    x, y = rows_whose_last_callback_fails([])
    with pytest.raises(Trouble):
        await ag.grad([y], [x], [np.eye(2)], is_grads_batched=True)
    with pytest.raises(ReleasedGraphError, match="The earlier backward raised Trouble"):
        await ag.grad(y.sum(), [x])
