"""Followers of a learner that rolls back, by the ways that learners do."""

from __future__ import annotations

import pytest

from tests.learn.crashing import crash
from tests.learn.making import example, new_learner
from tests.learn.test_followers import bits, follower_of, making

__all__ = ["making"]


@pytest.mark.parametrize("examples", ["skip", "keep", "learn"])
async def test_a_follower_has_the_learners_bits_after_each_rollback(tmp_path, making, examples):
    found = []
    async with new_learner(tmp_path, checkpoint_every=5) as learner, making(learner) as follower:
        for seed in range(3):
            await learner.learn(example(seed))
        await learner.checkpoint(name="first")
        for seed in range(3, 6):
            await learner.learn(example(seed))
            found.append((await bits(learner), await bits(follower)))
        await learner.rollback(to="first", examples=examples)
        found.append((await bits(learner), await bits(follower)))
        await learner.set_options(lr=0.2)
        for seed in range(6, 12):
            await learner.learn(example(seed))
            if seed % 3 == 0:
                found.append((await bits(learner), await bits(follower)))
        await learner.rollback(to="first", examples=examples)
        await learner.learn(example(12))
        found.append((await bits(learner), await bits(follower)))

    assert all(one == other for one, other in found)


async def test_a_promoted_follower_rolls_back_to_the_versions_of_its_learner(tmp_path):
    learner = new_learner(tmp_path)
    await learner.__aenter__()
    await learner.learn(example(0))
    await learner.checkpoint(name="first")
    expected = await bits(learner)
    await learner.learn(example(1))
    async with follower_of(tmp_path) as follower:
        await crash(learner)
        promoted = await follower.promote()
        await promoted.rollback(to="first", examples="skip")
        found = await bits(promoted)

    assert found == expected
