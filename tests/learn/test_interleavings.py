"""Whatever callers do at a time, in whatever order: a start has the bits of what was killed, and so have followers."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from asyncgrad.errors import ArgumentError, LearningPausedError, ModelDirectoryError
from asyncgrad.learn import Drift, Follower, Learner, PageHinkley
from asyncgrad.learn.lineage import CHOICES
from tests.learn.crashing import crash
from tests.learn.making import example, new_learner
from tests.learn.test_followers import bits, follower_of, follower_over_http
from tests.support.sampling import cases


def state_of(learner: Learner) -> list[Any]:
    """Return all that a start must bring back."""
    state, recorded = learner._trained, learner._recorded
    return [
        learner.learned,
        state.steps,
        state.settings().text(),
        *map(str, state.tensors().items()),
        str(state.optimizer.state_dict()),
        recorded.lineage,
        recorded.paused,
        str(recorded.drift.tree()),
        list(learner.versions()),
    ]


def some_call(rng: random.Random, learner: Learner, number: int) -> Coroutine[Any, Any, Any]:
    """Return one of the calls that change a model, about to be awaited."""
    names = list(learner.versions())
    calls: list[tuple[float, Callable[[], Coroutine[Any, Any, Any]]]] = [
        (6, lambda: learner.learn(example(number))),
        (1, lambda: learner.set_options(lr=rng.random() / 10)),
        (0.5, lambda: learner.set_options(max_grad_norm=rng.random())),
        (1.5, lambda: learner.checkpoint(rng.choice([None, "a", "b", "c"]))),
        (0.5, lambda: learner.learn_kept()),
        (0.3, lambda: learner.pause("enough")),
        (0.6, lambda: learner.resume()),
    ]
    if names:
        calls += [
            (1.5, lambda: learner.rollback(rng.choice(names), examples=rng.choice(CHOICES))),  # type: ignore[arg-type]
            (0.4, lambda: learner.forget(rng.choice(names))),
            (0.4, lambda: learner.serve(rng.choice(names))),
        ]
    return rng.choices([call for _, call in calls], [weight for weight, _ in calls])[0]()


async def settled(learner: Learner) -> list[Any]:
    """Return the state of a learner that has done all that it was asked for, and what rollbacks have left to it."""
    while learner._recorded.lineage.due and not learner.statistics().paused:
        await learner.set_options()
    await learner.set_options()
    return state_of(learner)


@pytest.mark.parametrize("seed", range(cases(20)))
async def test_whatever_is_called_at_a_time_a_start_and_followers_have_the_same_bits(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    every, choice, threshold = rng.choice([2, 5, 100]), rng.choice(CHOICES), rng.choice([None, 1.0, 1000.0])

    def options() -> dict[str, Any]:
        found: dict[str, Any] = {"checkpoint_every": every, "batch_size": 2}
        if threshold is not None:
            detector = PageHinkley(threshold=threshold, min_count=3)
            found["drift"] = [Drift(detector, then="rollback", examples=choice)]  # type: ignore[arg-type]
        return found

    async with contextlib.AsyncExitStack() as stack:
        learner = await new_learner(tmp_path, **options()).__aenter__()
        near: Follower = await stack.enter_async_context(follower_of(tmp_path, **options()))
        far: Follower = await stack.enter_async_context(follower_over_http(learner))
        for turn in range(8):
            calls = [some_call(rng, learner, 10 * turn + number) for number in range(rng.randrange(1, 6))]
            ended = await asyncio.gather(*calls, return_exceptions=True)
            refused = (ArgumentError, LearningPausedError, ModelDirectoryError)
            assert all(not isinstance(each, BaseException) or isinstance(each, refused) for each in ended), ended
            if rng.random() < 0.5:
                await settled(learner)
                assert await bits(rng.choice([near, far])) == await bits(learner)
            if rng.random() < 0.3:
                before = await settled(learner)
                await crash(learner)
                if rng.random() < 0.5:
                    learner = await new_learner(tmp_path, **options()).__aenter__()
                else:
                    learner = await near.promote()
                    near = await stack.enter_async_context(follower_of(tmp_path, **options()))
                far = await stack.enter_async_context(follower_over_http(learner))
                assert await settled(learner) == before
        await settled(learner)
        found = [await bits(each) for each in (near, far, learner)]
        await crash(learner)

    assert found[0] == found[1] == found[2]
