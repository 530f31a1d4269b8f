"""A follower of learners that are killed with signal 9, again and again, until it takes their place."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from tests.learn.making import QUESTION, new_learner
from tests.learn.teaching import CHECKPOINT_EVERY, learn_next
from tests.learn.test_followers import follower_of
from tests.support.house import ROOT
from tests.support.loops import one_loop
from tests.support.sampling import cases


async def taught_and_killed(path: Path, examples: int) -> int:
    """Have a process teach until so many examples more were acknowledged, and kill it; return how many there are."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.learn.teaching", str(path)),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=PIPE,
    )
    assert process.stdout is not None
    lines = [int(await process.stdout.readline()) for _ in range(examples + 1)]
    process.kill()
    # What it had printed since was acknowledged, too.
    rest = [int(line) for line in (await process.stdout.read()).splitlines(keepends=True) if line.endswith(b"\n")]
    await process.wait()
    return [*lines, *rest][-1]


@pytest.mark.slow
@one_loop
@pytest.mark.parametrize("seed", range(cases(10)))
async def test_a_follower_of_killed_learners_has_what_was_acknowledged_and_takes_their_place(tmp_path, seed):
    rng = random.Random(seed)
    acknowledged = await taught_and_killed(tmp_path, rng.randrange(4))
    async with follower_of(tmp_path, interval=0.002, checkpoint_every=CHECKPOINT_EVERY) as follower:
        for _ in range(3):
            acknowledged = await taught_and_killed(tmp_path, rng.randrange(1, 25))
            await follower.catch_up()
            assert follower.learned >= acknowledged
        promoted = await follower.promote()
        for _ in range(3):
            acknowledged = await learn_next(promoted)
        found = follower.learned, (await follower.predict(QUESTION)).tolist()
    async with new_learner() as reference:
        while reference.learned < acknowledged:
            await learn_next(reference)
        expected = reference.learned, (await reference.predict(QUESTION)).tolist()

    assert found == expected
