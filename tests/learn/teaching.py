"""A process that teaches a learner one example after another, until it is killed."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

from asyncgrad.learn import Learner
from tests.learn.making import example, new_learner

__all__ = ["CHECKPOINT_EVERY", "learn_next"]

CHECKPOINT_EVERY = 10
#: After so many examples the learning rate changes.
RATE_EVERY = 7


async def learn_next(learner: Learner) -> int:
    """Learn the example that comes next, by its own rate; return how many were learned."""
    number = learner.learned
    if number % RATE_EVERY == 0:
        # A process that was killed in between does so again.
        await learner.set_options(lr=0.001 * (1 + number % 5))
    return (await learner.learn(example(number))).learned


def _lines(path: Path) -> Iterator[int]:
    with asyncio.Runner() as runner:
        learner = runner.run(new_learner(path, checkpoint_every=CHECKPOINT_EVERY).__aenter__())
        yield learner.learned
        for _ in itertools.count():
            yield runner.run(learn_next(learner))


if __name__ == "__main__":
    for line in _lines(Path(sys.argv[1])):
        # What is here was acknowledged.
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
