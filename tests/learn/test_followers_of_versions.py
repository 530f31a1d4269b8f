"""Followers of a learner that rolls back, by the ways that learners do."""

from __future__ import annotations

import pytest

from asyncgrad.errors import LearningPausedError
from asyncgrad.learn import Drift, Learner, PageHinkley
from tests.learn.crashing import crash
from tests.learn.making import example, new_learner
from tests.learn.test_followers import bits, follower_of, follower_over_http, making

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


def settings_of(learner: Learner) -> tuple[float, float]:
    return learner.optimizer.param_groups[0]["lr"], learner._trained.settings().max_grad_norm


async def test_a_promotion_takes_no_option_of_the_follower_for_one_of_the_code(tmp_path):
    learner = new_learner(tmp_path)
    await learner.__aenter__()
    await learner.set_options(lr=0.05)
    async with follower_of(tmp_path) as follower:
        # It is not level: what it has is neither the code's nor the last.
        await learner.set_options(lr=0.2, max_grad_norm=2.0)
        await learner.learn(example(0))
        await crash(learner)
        promoted = settings_of(await follower.promote())
    async with new_learner(tmp_path) as restarted:
        found = settings_of(restarted)

    assert promoted == (0.2, 2.0)
    assert found == (0.2, 2.0)


async def test_a_follower_of_a_url_is_promoted_with_the_options_and_the_pause_of_its_learner(tmp_path):
    async with new_learner(tmp_path / "old") as learner, follower_over_http(learner) as follower:
        await learner.set_options(lr=0.2, max_grad_norm=2.0)
        await learner.pause("these examples are of a broken sensor")
        promoted = await follower.promote(tmp_path / "new")
        options = settings_of(promoted)
        with pytest.raises(LearningPausedError, match="a broken sensor"):
            await follower.learn(example(0))
        await promoted.resume()
        await follower.learn(example(0))
    async with new_learner(tmp_path / "new", seed=3) as restarted:
        found = settings_of(restarted)
        seed = restarted._trained.settings().seed

    assert options == found == (0.2, 2.0)
    # Edited in the code since.
    assert seed == 3


@pytest.mark.parametrize("way", ["journal", "checkpoint"])
async def test_a_promotion_over_http_tells_how_many_lines_rollbacks_have_left(tmp_path, caplog, way):
    async with new_learner(tmp_path / "old") as learner, follower_over_http(learner) as follower:
        await learner.checkpoint("first")
        for seed in range(3):
            await learner.learn(example(seed))
        await learner.rollback("first", examples="keep")
        if way == "checkpoint":
            await learner.checkpoint()
        await learner.learn(example(3))
        await follower.promote(tmp_path / "new")

    assert "has not the examples of 3 lines that rollbacks have left to be learned again" in caplog.text


async def test_what_was_kept_is_learned_after_a_promotion_in_the_directory(tmp_path):
    learner = new_learner(tmp_path)
    await learner.__aenter__()
    await learner.checkpoint("first")
    for seed in range(3):
        await learner.learn(example(seed))
    expected = await bits(learner)
    async with follower_of(tmp_path) as follower:
        await learner.rollback("first", examples="keep")
        await crash(learner)
        promoted = await follower.promote()
        again = await promoted.learn_kept()
        found = await bits(promoted)

    assert again == (3, 3, 0)
    assert found == expected


async def test_the_drift_of_a_promoted_follower_is_told_from_what_the_learner_has_seen(tmp_path):
    def watched() -> list[Drift]:
        return [Drift(PageHinkley(threshold=1e9, min_count=3))]

    learner = new_learner(tmp_path, drift=watched())
    await learner.__aenter__()
    async with follower_of(tmp_path, drift=watched()) as follower:
        for seed in range(5):
            await learner.learn(example(seed))
        await follower.catch_up()
        await crash(learner)
        promoted = await follower.promote()
        found = promoted.statistics().drift

    assert found == learner.statistics().drift
    assert found[0].count == 5
