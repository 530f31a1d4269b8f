"""Graphs of which a node queues final callbacks, and ways to run them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.engine import queue_callback
from asyncgrad.extend import derivative, primitive
from tests.support.functions import awaiting, calling
from tests.support.turns import one_turn

__all__ = ["GRAPHS", "ROUTES", "queueing", "queueing_at_async_body", "queueing_at_body"]


def queueing(*callbacks: Any) -> Any:
    """A body that queues callbacks."""

    def body(grad):
        for callback in callbacks:
            queue_callback(callback)

    return body


@primitive()
def _queueing(x):
    return x * 1.0


_to_queue: list[Any] = []


@functools.partial(derivative(_queueing, "x"))
def _queueing_rule(g):
    while _to_queue:
        queue_callback(_to_queue.pop(0))
    return g


def unwatched(x: ag.Tensor, *callbacks: Any) -> Any:
    """An operation in a graph of plain nodes; its derivative queues callbacks, and nothing else tells it apart."""
    _to_queue[:] = callbacks
    return np.multiply(_queueing(np.multiply(x, 2.0)), 3.0)


def queueing_at_body(x: ag.Tensor, *callbacks: Any) -> Any:
    return np.multiply(calling(x, queueing(*callbacks)), 6.0)


def queueing_at_async_body(x: ag.Tensor, *callbacks: Any) -> Any:
    async def body(grad):
        await one_turn()
        queueing(*callbacks)(grad)

    return np.multiply(awaiting(x, body), 6.0)


#: From a body, from a body that waits, from a rule in a graph of plain nodes.
GRAPHS: dict[str, Callable[..., Any]] = {
    "body": queueing_at_body,
    "async body": queueing_at_async_body,
    "plain graph": unwatched,
}


def _beside_a_loop(run: Any, out: ag.Tensor) -> None:
    async def main() -> None:
        sync.backward(out)

    run(main())


_DRIVES: dict[str, Callable[[Any, ag.Tensor], None]] = {
    "await": lambda run, out: run(ag.backward(out)),
    "sync": lambda run, out: sync.backward(out),
    "sync beside a loop": _beside_a_loop,
}

#: Every way to run every graph; but a blocking backward beside a loop refuses a body that suspends.
ROUTES = [
    pytest.param(drive, graph, id=f"{how}, {what}")
    for how, drive in _DRIVES.items()
    for what, graph in GRAPHS.items()
    if (how, what) != ("sync beside a loop", "async body")
]
