"""A backward whose loop ends under it has not happened, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import numpy as np
import pytest

from tests.support.functions import awaiting
from tests.support.leaves import leaf
from tests.support.loops import LOOP_KINDS, loop_factory
from tests.support.settings import loop_budget
from tests.support.turns import settle


async def test_a_backward_that_is_closed_while_it_waits_closes_its_bodies_and_has_not_happened():
    """As happens to the coroutines of a loop that is shut down."""

    x = leaf(1.0)
    seen: list[str] = []

    async def body(grad):
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("closed")

    backward = np.add(np.multiply(x, 2.0), awaiting(leaf(1.0), body)).backward()
    with loop_budget(math.inf):
        backward.send(None)
    assert x.grad is not None
    backward.close()
    assert seen == ["closed"]
    assert x.grad is None
    await settle()


@pytest.mark.parametrize("kind", LOOP_KINDS)
def test_a_loop_that_ends_cancels_what_still_runs(kind):
    """asyncio.run cancels all tasks at its end, bodies and drivers alike, in any order."""
    x = leaf(1.0)
    ended: list[str] = []
    tasks: list[asyncio.Future[Any]] = []

    async def body(grad):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cleaned up")

    async def main():
        out = np.add(np.add(np.multiply(x, 2.0), awaiting(leaf(1.0), body)), awaiting(leaf(1.0), body))
        tasks.append(asyncio.ensure_future(out.backward()))
        await settle()
        assert x.grad is not None

    with asyncio.Runner(loop_factory=loop_factory(kind)) as runner:
        runner.run(main())

    assert tasks[0].cancelled()
    assert ended == ["cleaned up"] * 2
    assert x.grad is None
