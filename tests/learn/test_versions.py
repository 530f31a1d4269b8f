"""Versions of a learner: what is gone back to, learned again, kept or dropped, and that a start finds the same."""

from __future__ import annotations

import asyncio
import math
import os
import random
import shutil
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from asyncgrad import optim
from asyncgrad.errors import (
    ArgumentError,
    ArgumentTypeError,
    ExampleError,
    JournalError,
    LearnerClosedError,
    LearningPausedError,
    ModelDirectoryError,
)
from asyncgrad.learn import Learner, Version
from asyncgrad.learn.lineage import CHOICES, Lineage
from asyncgrad.learn.positions import Positions
from tests.learn.actions import Action, Expected, act, bits, bits_of, new_learner, some_actions
from tests.learn.crashing import as_killed, crash
from tests.learn.failing_files import CALLS, FailingFiles
from tests.learn.making import failing_disk, turns_until
from tests.support.loops import run_on
from tests.support.sampling import cases

# --- sets of lines -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(cases(100)))
def test_positions_are_sets(seed):
    rng = random.Random(seed)
    (one, ones), (other, others) = ((Positions((each, each + 1) for each in found), found) for found in _sets(rng))

    for result, expected in ((one | other, ones | others), (one & other, ones & others), (one - other, ones - others)):
        assert (list(result), len(result), bool(result)) == (sorted(expected), len(expected), bool(expected))
        assert [each for each in range(-1, 40) if each in result] == sorted(expected)
        assert all(end < begin for (_, end), (begin, _) in zip(result.ranges, result.ranges[1:], strict=False))
        assert result == Positions(reversed(result.ranges))
    assert list((one | Positions([(40, 41)])).with_one(41)) == [*sorted(ones), 40, 41]
    assert (list(one.with_one(7)), list(one.without_one(7))) == (sorted(ones | {7}), sorted(ones - {7}))


def _sets(rng: random.Random) -> list[set[int]]:
    return [{rng.randrange(30) for _ in range(rng.randrange(20))} for _ in range(2)]


@pytest.mark.parametrize("ranges", [[(3, 1)], [(-1, 2)], [(0.0, 1)], [("0", "1")], [(False, True)]])
def test_what_is_no_range_of_positions_is_refused(ranges):
    with pytest.raises(ValueError, match="a range of positions is two whole numbers from 0"):
        Positions(ranges)


@pytest.mark.parametrize("seed", range(cases(100)))
def test_each_line_is_learned_kept_due_or_dropped_and_no_two_of_these(seed):
    rng = random.Random(seed)
    lineage, versions, dropped = Lineage(), [Positions()], Positions()

    for position in range(40):
        if rng.random() < 0.2:
            to, choice = rng.choice(versions), rng.choice(CHOICES)
            before = lineage
            lineage = lineage.rolled_back(to, choice)
            dropped = (dropped | before.learned | before.due) - lineage.learned - lineage.kept - lineage.due
        else:
            lineage = lineage.after(
                next(iter(lineage.due or lineage.kept), position) if rng.random() < 0.5 else position
            )
        if rng.random() < 0.2:
            versions.append(lineage.learned)
        sets = [*lineage, dropped]
        assert sum(map(len, sets)) == len(sets[0] | sets[1] | sets[2] | sets[3])
        for to in versions:
            # Whatever is gone back to, what may have to be learned again is there.
            needed = lineage.needed(versions)
            assert not lineage.rolled_back(to, "learn").due - needed
            assert not lineage.kept - needed
    assert Lineage.of_tree(lineage.as_tree()) == lineage


# --- versions ------------------------------------------------------------------------------------


async def do(path: Path, *actions: Action, **options: Any) -> tuple[list[Any], Expected]:
    """Do some things, then leave the files as a crash would; return the bits then, and what is expected."""
    expected = Expected()
    learner = await new_learner(path, **options).__aenter__()
    for action in actions:
        await act(learner, action)
        expected.do(action)
    found = bits(learner)
    await crash(learner)
    return found, expected


async def found_in(path: Path) -> list[Any]:
    async with new_learner(path) as learner:
        return bits(learner)


def learn(*numbers: int) -> list[Action]:
    return [("learn", number) for number in numbers]


async def test_a_version_says_what_it_learned_from(tmp_path):
    before = datetime.now(UTC)
    async with new_learner(tmp_path) as learner:
        await learner.learn([1.0, 1.0])
        await learner.set_options(lr=0.5)
        await learner.learn([2.0, 1.0])
        version = await learner.checkpoint("first")
        await learner.learn([3.0, 1.0])
        await learner.rollback("first", examples="skip")
        await learner.learn([4.0, 1.0])
        second = await learner.checkpoint("second")
        found = learner.versions()
    async with new_learner(tmp_path) as again:
        assert again.versions() == found == {"first": version, "second": second}

    assert isinstance(version, Version)
    assert isinstance(second, Version)
    assert (version.name, version.learned, version.steps, version.position) == ("first", 2, 2, 3)
    assert version.lines == ((0, 0), (2, 2))
    assert second.lines == ((0, 0), (2, 2), (5, 5))
    assert (second.learned, second.position) == (3, 6)
    assert version.options[0]["lr"] == 0.5
    assert before <= version.created <= second.created <= datetime.now(UTC)


@pytest.mark.parametrize("checkpoint_every", [1, 2, 100])
@pytest.mark.parametrize("examples", CHOICES)
async def test_after_a_rollback_the_model_is_that_of_the_version_and_of_what_is_learned_again(
    tmp_path, examples, checkpoint_every
):
    actions = [*learn(1, 2), ("name", "v"), ("rate", 0.25), *learn(3, 4, 5), ("back", "v", examples), *learn(6)]

    found, expected = await do(tmp_path, *actions, checkpoint_every=checkpoint_every)

    assert found == await bits_of(expected) == await found_in(tmp_path)


async def test_to_learn_all_again_leads_to_the_same_bits(tmp_path):
    async with new_learner(tmp_path) as learner:
        await act(learner, ("name", "empty"))
        for action in learn(*range(7)):
            await act(learner, action)
        before = bits(learner)
        result = await learner.rollback("empty", examples="learn")
        after = bits(learner)

    assert before == after
    assert result == (7, 7, 0)


async def test_what_is_kept_is_learned_later_in_its_order_before_other_examples(tmp_path):
    actions = [("name", "v"), *learn(1, 2), ("back", "v", "keep"), *learn(3), ("rate", 0.5), ("kept",), *learn(4)]

    found, expected = await do(tmp_path, *actions)

    assert [number for _, number, _ in expected.steps] == [3, 1, 2, 4]
    assert found == await bits_of(expected) == await found_in(tmp_path)


async def test_a_version_of_a_branch_that_was_left_is_gone_back_to_and_nothing_is_learned_twice(tmp_path):
    actions = [
        *learn(1),
        ("name", "a"),
        *learn(2, 3),
        ("name", "b"),
        *learn(4),
        ("back", "a", "keep"),
        *learn(5),
        ("back", "b", "learn"),
        ("kept",),
    ]

    found, expected = await do(tmp_path, *actions)

    assert sorted(number for _, number, _ in expected.steps) == [1, 2, 3, 4, 5]
    assert found == await bits_of(expected) == await found_in(tmp_path)


async def test_the_oldest_version_comes_first_though_a_clock_was_set_back(tmp_path, monkeypatch):
    async with new_learner(tmp_path) as learner:
        for number, now in enumerate([300.0, 200.0, 100.0]):
            monkeypatch.setattr("asyncgrad.learn.versions.time", SimpleNamespace(time=lambda now=now: now))
            await act(learner, ("learn", number))
            await learner.checkpoint(f"v{number}")
        files = learner._recorded.on_disk().versions

        assert list(learner.versions()) == ["v0", "v1", "v2"]
        assert files.newest() == "v2"


async def test_steps_of_several_examples_are_made_again_as_they_were(tmp_path):
    async with new_learner(tmp_path, batch_size=3) as learner:
        await learner.checkpoint("empty")
        await asyncio.gather(*(learner.learn([float(number), 1.0]) for number in range(8)))
        before = bits(learner)
        result = await learner.rollback("empty", examples="learn")
        found = bits(learner)
        again = learner.statistics().learned_again

    assert found == before
    assert (result.again, again) == (learner.statistics().steps, 8)


async def test_predictions_are_of_the_version_from_its_return_on_and_never_of_half_of_it(tmp_path):
    async with new_learner(tmp_path) as learner:
        for action in [*learn(1, 2, 3), ("name", "v"), *learn(4, 5)]:
            await act(learner, action)
        seen = [(await learner.predict([1.0, 1.0])).tolist()]
        going = asyncio.create_task(learner.rollback("v", examples="skip"))
        while not going.done():
            answer = (await learner.predict([1.0, 1.0])).tolist()
            if answer not in seen:
                seen.append(answer)
        seen.append((await learner.predict([1.0, 1.0])).tolist())
        now = (await learner.predict([1.0, 1.0])).tolist()

    assert len(set(map(str, seen))) == 2
    assert seen[-1] == now


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        ("", ArgumentError, "the name of a version has up to 64 letters"),
        ("../x", ArgumentError, "the name of a version has up to 64 letters"),
        (".x", ArgumentError, "the name of a version has up to 64 letters"),
        ("x\n", ArgumentError, "the name of a version has up to 64 letters"),
        (65 * "x", ArgumentError, "the name of a version has up to 64 letters"),
        ("current", ArgumentError, "'current' is the model itself"),
        (3, ArgumentTypeError, "the name of a version must be a string"),
        ("taken", ArgumentError, r"there is a version 'taken' already: .* await learner.forget\('taken'\) first"),
    ],
)
async def test_a_name_that_cannot_be_given_is_refused(tmp_path, name, error, text):
    async with new_learner(tmp_path) as learner:
        await learner.checkpoint("taken")
        with pytest.raises(error, match=text):
            await learner.checkpoint(name)

        assert list(learner.versions()) == ["taken"]


async def test_what_a_rollback_does_not_take_is_refused_and_nothing_changes(tmp_path):
    async with new_learner(tmp_path) as learner:
        for action in [("name", "v"), *learn(1)]:
            await act(learner, action)
        before = bits(learner), learner.statistics().journal_records
        with pytest.raises(ArgumentError, match="there is no version 'w': there are 'v'"):
            await learner.rollback("w")
        with pytest.raises(ArgumentError, match="examples must be 'skip', 'keep' or 'learn', not 'all'"):
            await learner.rollback("v", examples="all")  # type: ignore[arg-type]
        with pytest.raises(ArgumentError, match="there is no version 'w'"):
            await learner.forget("w")
        with pytest.raises(ArgumentError, match="there is no version 'w'"):
            await learner.serve("w")

        assert before == (bits(learner), learner.statistics().journal_records)


async def test_versions_need_a_directory_and_a_learner_that_runs(tmp_path):
    learner = new_learner(None)
    with pytest.raises(LearnerClosedError, match=r"await learner.rollback\(...\)"):
        await learner.rollback("v")
    async with learner:
        assert learner.versions() == {}
        for call in (learner.checkpoint("v"), learner.rollback("v"), learner.forget("v"), learner.serve("v")):
            with pytest.raises(ArgumentError, match="this learner has no directory for a checkpoint"):
                await call


async def test_a_rollback_that_cannot_be_written_changes_nothing(tmp_path, monkeypatch):
    async with new_learner(tmp_path, checkpoint_every=100) as learner:
        for action in [*learn(1), ("name", "v"), ("rate", 0.5), *learn(2)]:
            await act(learner, action)
        before = bits(learner)
        with monkeypatch.context() as patch:
            failing_disk(patch, times=1)
            with pytest.raises(JournalError, match="the disk is out of order"):
                await learner.rollback("v")
        assert bits(learner) == before
        assert learner.statistics().rollbacks == 0
        await act(learner, ("learn", 3))
        later = bits(learner)
    expected = Expected()
    for action in [*learn(1), ("rate", 0.5), *learn(2, 3)]:
        expected.do(action)

    assert later == await bits_of(expected) == await found_in(tmp_path)


async def test_a_version_of_another_optimizer_is_not_gone_back_to(tmp_path):
    async with new_learner(tmp_path) as learner:
        for action in [*learn(1), ("name", "v"), *learn(2)]:
            await act(learner, action)
        before = bits(learner)
        state = learner._recorded.directory.versions.read  # type: ignore[union-attr]
        with pytest.MonkeyPatch.context() as patch:
            other = lambda *given: {**state(*given), "optimizer_type": "SGD"}
            patch.setattr(learner._recorded.directory.versions, "read", other)  # type: ignore[union-attr]
            with pytest.raises(ArgumentError, match="it is one of SGD, not Adam"):
                await learner.rollback("v")

        assert bits(learner) == before


async def test_what_cannot_be_learned_again_is_kept_and_told(tmp_path, caplog):
    refused: list[float] = []

    def loss(model: Any, batch: Any) -> Any:
        if batch[0, 0] in refused:
            raise ValueError("not today")
        return (model(batch) ** 2).mean()

    def learner_with_loss() -> Learner:
        made = new_learner(tmp_path)
        return Learner(made.model, loss, optim.Adam(made.model, lr=0.01), directory=tmp_path)

    async with learner_with_loss() as learner:
        await learner.checkpoint("v")
        for action in learn(1, 2, 3):
            await act(learner, action)
        refused.append(2.0)
        result = await learner.rollback("v", examples="learn")
        assert result == (2, 2, 1)
        assert learner.statistics().kept == 1
        assert "line 1 of the journal could not be learned again, and is kept: ValueError('not today')" in caplog.text
        assert await learner.learn_kept() == (2, 0, 1)
        await crash(learner)
    refused.clear()
    async with learner_with_loss() as again:
        assert (again.learned, again.statistics().kept) == (2, 1)
        assert await again.learn_kept() == (3, 1, 0)


async def test_nothing_is_kept_of_versions_that_are_forgotten(tmp_path):
    async with new_learner(tmp_path, checkpoint_every=2) as learner:
        for action in [("name", "a"), *learn(1, 2, 3), ("name", "b"), *learn(4, 5), ("save",)]:
            await act(learner, action)
        assert {path.name for path in (tmp_path / "history").iterdir()} == {f"{at:016d}" for at in (0, 2, 4)}
        await learner.forget("a")
        await learner.checkpoint()
        # The version was written in the midst of the second.
        assert {path.name for path in (tmp_path / "history").iterdir()} == {f"{at:016d}" for at in (2, 4)}
        await learner.forget("b")
        await learner.checkpoint()

        assert not any((tmp_path / "history").iterdir())
        assert not any((tmp_path / "versions").iterdir())
        assert learner.versions() == {}


async def test_a_version_that_was_gone_back_to_may_be_forgotten_before_a_kill(tmp_path):
    actions = [("name", "v"), *learn(1, 2), ("back", "v", "keep"), ("forget", "v"), *learn(3), ("kept",)]

    found, expected = await do(tmp_path, *actions, checkpoint_every=100)

    assert found == await bits_of(expected) == await found_in(tmp_path)


async def test_a_directory_without_versions_has_the_files_that_it_had(tmp_path):
    await do(tmp_path, *learn(1, 2, 3, 4))

    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.npz", "journal", "lock"]


async def test_what_versions_make_is_for_its_owner_alone(tmp_path):
    mask = os.umask(0)
    try:
        await do(tmp_path / "model", ("name", "v"), *learn(1, 2, 3, 4))
    finally:
        os.umask(mask)
    modes = {path.relative_to(tmp_path): path.stat().st_mode & 0o777 for path in (tmp_path / "model").rglob("*")}

    assert all(mode == (0o700 if (tmp_path / path).is_dir() else 0o600) for path, mode in modes.items()), modes


# --- what is between two steps -------------------------------------------------------------------


async def test_who_does_not_wait_for_a_rollback_any_more_does_not_stop_it(tmp_path):
    async with new_learner(tmp_path) as learner:
        for action in [("name", "v"), *learn(1, 2, 3)]:
            await act(learner, action)
        going = asyncio.create_task(learner.rollback("v", examples="learn"))
        await turns_until(lambda: learner.statistics().rollbacks == 1)
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going
        await learner.checkpoint()

        assert (learner.learned, learner.statistics().kept) == (3, 0)


async def test_who_goes_before_a_rollback_begins_has_none(tmp_path):
    async with new_learner(tmp_path) as learner:
        await learner.checkpoint("v")
        going = asyncio.create_task(learner.rollback("v"))
        await asyncio.sleep(0)
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going
        await learner.checkpoint()

        assert learner.statistics().rollbacks == 0


@pytest.mark.parametrize("is_failed", [False, True])
async def test_a_learner_that_ends_while_it_learns_again_leaves_the_rest_to_the_next_start(tmp_path, is_failed):
    async with new_learner(tmp_path) as learner:
        for action in [("name", "v"), *learn(1, 2, 3, 4, 5)]:
            await act(learner, action)
        before = bits(learner)
    learner = new_learner(tmp_path)
    with pytest.raises(ZeroDivisionError) if is_failed else nullcontext():
        async with learner:
            going = asyncio.create_task(learner.rollback("v", examples="learn"))
            await turns_until(lambda: learner.statistics().learned_again >= 2)
            if is_failed:
                raise ZeroDivisionError
    with pytest.raises(LearnerClosedError, match="before all was learned again: the next start goes on"):
        await going
    assert learner.learned in (2, 3)
    async with new_learner(tmp_path) as again:
        await turns_until(lambda: not again.statistics().kept)
        await again.checkpoint()

        assert bits(again) == before


async def test_a_pause_refuses_examples_until_it_ends_also_after_a_kill(tmp_path):
    async with new_learner(tmp_path / "a") as learner:
        await learner.learn([1.0, 1.0])
        await learner.pause("a flood of spam")
        with pytest.raises(LearningPausedError, match=r"until await learner.resume\(\): a flood of spam"):
            await learner.learn([2.0, 1.0])
        assert learner.statistics().paused == "a flood of spam"
        await learner.predict([1.0, 1.0])
        killed = as_killed(tmp_path / "a", tmp_path / "b")
        await learner.resume()
        assert (await learner.learn([2.0, 1.0])).learned == 2
    for place in (killed, tmp_path / "a"):
        async with new_learner(place) as again:
            paused = again.statistics().paused
            if paused:
                with pytest.raises(LearningPausedError):
                    await again.learn([2.0, 1.0])
                await again.checkpoint()
                as_killed(place, tmp_path / "c")
                async with new_learner(tmp_path / "c") as third:
                    assert third.statistics().paused == paused

            assert paused == ("a flood of spam" if place == killed else None)


async def test_a_pause_tells_those_who_wait(tmp_path):
    async with new_learner(tmp_path) as learner:
        await learner.learn([0.0, 1.0])
        tasks = [asyncio.create_task(learner.learn([float(number), 1.0])) for number in range(3)]
        await asyncio.sleep(0)
        await learner.pause("enough")
        results = await asyncio.gather(*tasks, return_exceptions=True)

        assert {type(each).__name__ for each in results[1:]} == {"LearningPausedError"}
        with pytest.raises(ArgumentTypeError, match="reason must be a text that says why"):
            await learner.pause("")


# --- served side by side -------------------------------------------------------------------------


async def test_a_version_answers_beside_the_model(tmp_path):
    question = [1.0, 2.0]
    async with new_learner(tmp_path) as learner:
        await act(learner, ("learn", 1))
        old = (await learner.predict(question)).tolist()
        await learner.checkpoint("old")
        for action in learn(2, 3):
            await act(learner, action)
        before = bits(learner)
        await learner.serve("old")
        found = [(await learner.predict(question, version=name)).tolist() for name in ("old", "current")]

        assert found == [old, (await learner.predict(question)).tolist()]
        assert found[0] != found[1]
        assert bits(learner) == before
        await learner.serve()
        with pytest.raises(ExampleError, match="version must be one that is served, 'current', not 'old'"):
            await learner.predict(question, version="old")


async def test_versions_are_compared_on_the_same_examples_and_change_no_bit(tmp_path):
    numbers = [1, 2, 3, 4]
    async with new_learner(None) as other:
        for number in numbers:
            await act(other, ("learn", number))
        expected = bits(other)
    async with new_learner(tmp_path) as learner:
        await learner.checkpoint("start")
        await act(learner, ("learn", numbers[0]))
        await learner.serve("start")
        alone = []
        for number in numbers[1:]:
            alone.append(await learner.compare([[float(number), 1.0]]))
            await act(learner, ("learn", number))
        await learner.checkpoint()
        found = learner.losses()
        both = await learner.compare([[1.0, 1.0], [2.0, 1.0]])
        apart = [await learner.compare([[number, 1.0]]) for number in (1.0, 2.0)]

        assert bits(learner) == expected
    assert set(found) == {"current", "start"}
    for name, loss in found.items():
        assert loss.examples == 3
        assert loss.last == alone[-1][name]
        assert math.isclose(loss.mean, sum(each[name] for each in alone) / 3)
        assert math.isclose(both[name], sum(each[name] for each in apart) / 2)
    assert alone[0]["start"] != alone[0]["current"]


async def test_a_loss_that_fails_for_a_version_is_told_and_learning_goes_on(tmp_path, caplog):
    made = new_learner(tmp_path)

    def loss(model: Any, batch: Any) -> Any:
        if not model.training:
            raise ValueError("only of a model that learns")
        return (model(batch) ** 2).mean()

    async with Learner(made.model, loss, optim.SGD(made.model, lr=0.1), directory=tmp_path) as learner:
        await learner.checkpoint("v")
        await learner.serve("v")
        assert (await learner.learn([1.0, 1.0])).learned == 1
        await learner.checkpoint()
        with pytest.raises(ValueError, match="only of a model that learns"):
            await learner.compare([[1.0, 1.0]])
        with pytest.raises(ArgumentError, match=r"compare\(\) takes at least one example"):
            await learner.compare([])

        assert learner.losses() == {}
    assert "the loss of a version could not be computed, and learning goes on" in caplog.text


# --- kills, damage and disks that fail -----------------------------------------------------------


@pytest.mark.parametrize("seed", range(cases(40)))
async def test_wherever_a_learner_is_killed_a_start_has_the_bits_and_goes_on_with_them(tmp_path, seed):
    rng = random.Random(seed)
    actions = some_actions(rng, 25)
    options = {"checkpoint_every": rng.choice([1, 2, 3, 7, 100])}
    expected = Expected()
    moments = []
    async with new_learner(tmp_path / "whole", **options) as learner:
        for at, action in enumerate(actions):
            await act(learner, action)
            expected.do(action)
            assert learner.statistics().kept == len(expected.kept)
            if rng.random() < 0.4:
                assert bits(learner) == await bits_of(expected), (actions[: at + 1], options)
                moments.append((at, as_killed(tmp_path / "whole", tmp_path / str(at)), expected.copy()))
    for at, killed, so_far in moments:
        async with new_learner(killed, **options) as again:
            assert bits(again) == await bits_of(so_far), (actions[: at + 1], options)
            assert (set(again.versions()), again.statistics().kept) == (set(so_far.versions), len(so_far.kept))
            for action in actions[at + 1 :]:
                await act(again, action)

            assert bits(again) == await bits_of(expected), (actions, at, options)


async def acknowledged(path: Path, actions: list[Action], refused: list[str]) -> Expected:
    """Do what is asked, and copy what a kill would leave; return what is so by what was acknowledged."""
    expected = Expected()
    learner = new_learner(path / "a" / "model")
    try:
        await learner.__aenter__()
    except ModelDirectoryError as error:
        refused.append(str(error))
        return expected
    for action in actions:
        if action[0] in ("back", "forget") and action[1] not in expected.versions:
            continue
        try:
            await act(learner, action)
        except (JournalError, OSError) as error:
            refused.append(str(error))
            if action[0] == "forget" and action[1] not in learner.versions():
                # The file is gone, and perhaps not its name on the disk.
                expected.do(action)
        else:
            expected.do(action)
    await turns_until(lambda: learner.statistics().stage is None)
    as_killed(path / "a" / "model", path / "killed")
    await learner.__aexit__(None, None, None)
    return expected


#: Without what is learned again, which is half-done where the disk fails in its midst.
ACTIONS: list[Action] = [
    ("learn", 1),
    ("name", "a"),
    ("learn", 2),
    ("rate", 0.25),
    ("learn", 3),
    ("back", "a", "keep"),
    ("learn", 4),
    ("name", "b"),
    ("learn", 5),
    ("back", "b", "skip"),
    ("forget", "a"),
    ("learn", 6),
]


def number_of_calls(folder: Path, names: tuple[str, ...], actions: list[Action]) -> int:
    folder.mkdir()
    files = FailingFiles(folder, names, None)
    with pytest.MonkeyPatch.context() as patch:
        files.install(patch)
        run_on("asyncio", acknowledged(folder, actions, []))
    return sum(files.counts[name] for name in names)


def some(calls: int) -> list[int]:
    return sorted(random.Random(calls).sample(range(calls), min(calls, max(6, cases(calls)))))


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("is_done", [False, True], ids=["not done", "done"])
@pytest.mark.parametrize("name", CALLS)
def test_whichever_call_fails_what_was_acknowledged_is_so(tmp_path, name, is_done, for_good):
    calls = number_of_calls(tmp_path / "whole", (name,), ACTIONS)

    for first in some(calls):
        folder = tmp_path / str(first)
        folder.mkdir()
        refused: list[str] = []
        files = FailingFiles(folder, (name,), first, for_good, is_done)
        with pytest.MonkeyPatch.context() as patch:
            files.install(patch)
            expected = run_on("asyncio", acknowledged(folder, ACTIONS, refused))
        assert files.failed
        for place in (folder / "killed", folder / "a" / "model"):
            if place.exists():
                found = run_on("asyncio", found_in(place))
                assert found == run_on("asyncio", bits_of(expected)), (place, refused, first)
            else:
                assert not expected.steps


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("name", ["write", "fsync", "replace", "savez"])
def test_whichever_call_fails_while_examples_are_learned_again_they_are_all_learned_once(tmp_path, name):
    actions = [("name", "a"), *learn(1, 2, 3, 4, 5), ("back", "a", "learn"), ("save",)]
    whole = run_on("asyncio", do(tmp_path / "expected", *actions))[0]
    # Those of what the rollback has to do, and some that never come.
    calls = 16

    for first in some(calls):
        folder = tmp_path / str(first)
        folder.mkdir()

        async def main(folder: Path = folder, first: int = first) -> list[Any]:
            learner = await new_learner(folder / "model").__aenter__()
            for action in actions[:-2]:
                await act(learner, action)
            with pytest.MonkeyPatch.context() as patch:
                FailingFiles(folder, (name,), first).install(patch)
                try:
                    await act(learner, actions[-2])
                except OSError:
                    if not learner.statistics().rollbacks:
                        await act(learner, actions[-2])
                await turns_until(lambda: learner.statistics().stage is None)
                as_killed(folder / "model", folder / "killed")
            await act(learner, ("save",))
            await learner.__aexit__(None, None, None)
            return bits(learner)

        assert run_on("asyncio", main()) == whole
        assert run_on("asyncio", settled(folder / "killed")) == whole


async def settled(path: Path) -> list[Any]:
    """Return the bits of a learner once it has learned what was left to be learned again."""
    async with new_learner(path) as learner:
        await turns_until(lambda: not learner.statistics().kept)
        await learner.checkpoint()
        return bits(learner)


async def test_a_version_that_was_damaged_is_refused_and_the_model_stays(tmp_path):
    await do(tmp_path / "a", *learn(1), ("name", "v"), *learn(2))
    path = tmp_path / "a" / "versions" / "v.npz"
    data = bytearray(path.read_bytes())
    data[data.rindex(b"NUMPY") + 130] ^= 1
    path.write_bytes(data)

    async with new_learner(tmp_path / "a") as learner:
        before = bits(learner)
        with pytest.raises(ModelDirectoryError, match=r"v\.npz cannot be read .*: restore it from a copy"):
            await learner.rollback("v")
        with pytest.raises(ModelDirectoryError, match=r"v\.npz cannot be read"):
            await learner.serve("v")

        assert bits(learner) == before


@pytest.mark.parametrize("harm", ["removed", "another", "damaged"])
async def test_a_version_that_the_journal_goes_back_to_must_be_there(tmp_path, harm):
    await do(tmp_path, ("name", "v"), *learn(1), ("back", "v", "keep"), checkpoint_every=100)
    path = tmp_path / "versions" / "v.npz"
    if harm == "removed":
        path.unlink()
    elif harm == "damaged":
        path.write_bytes(path.read_bytes()[:-1])
    else:
        await do(tmp_path / "b", ("name", "v"))
        shutil.copy(tmp_path / "b" / "versions" / "v.npz", path)

    with pytest.raises(ModelDirectoryError, match=r"v.npz.*: restore it from a copy|there is no version 'v'"):
        await new_learner(tmp_path).__aenter__()


async def test_a_line_of_the_history_that_was_damaged_is_kept_and_told(tmp_path, caplog):
    await do(tmp_path, ("name", "v"), *learn(1, 2, 3), ("save",), *learn(4), checkpoint_every=3)
    path = tmp_path / "history" / f"{0:016d}"
    data = bytearray(path.read_bytes())
    data[data.index(b"\n") + 40] ^= 1
    path.write_bytes(data)

    async with new_learner(tmp_path) as learner:
        result = await learner.rollback("v", examples="learn")

        assert result == (3, 3, 1)
    assert "line 1 of the journal could not be learned again, and is kept" in caplog.text
    assert "cannot be read at line 1" in caplog.text


@pytest.mark.parametrize("examples", CHOICES)
async def test_versions_of_a_later_time_than_what_was_restored_are_gone_back_to_and_no_line_is_taken_for_another(
    tmp_path, caplog, examples
):
    async with new_learner(tmp_path / "a", checkpoint_every=2) as learner:
        for action in [("name", "first"), *learn(1, 2, 3)]:
            await act(learner, action)
        older = as_killed(tmp_path / "a", tmp_path / "b")
        for action in [*learn(4, 5, 6), ("name", "later"), *learn(7)]:
            await act(learner, action)
        as_killed(tmp_path / "a", tmp_path / "c")
    for name in ("checkpoint.npz", "journal"):
        shutil.copy(older / name, tmp_path / "c" / name)

    expected = Expected(versions={"first": ([], 0.01), "later": ([(n - 1, n, 0.01) for n in range(1, 7)], 0.01)})
    for action in learn(1, 2, 3):
        expected.do(action)
    expected.count = 100
    actions = [*learn(8, 9), ("back", "later", examples), *learn(10), ("back", "first", "keep"), ("kept",)]
    async with new_learner(tmp_path / "c", checkpoint_every=2) as again:
        for action in actions:
            await act(again, action)
            expected.do(action)
            assert bits(again) == await bits_of(expected), action
        killed = as_killed(tmp_path / "c", tmp_path / "d")

    assert "has versions of a later time than its journal" in caplog.text
    assert await found_in(killed) == await bits_of(expected)


async def test_a_new_model_in_the_place_of_one_that_was_removed_takes_no_line_for_one_of_its_versions(tmp_path):
    async with new_learner(tmp_path) as learner:
        for action in [*learn(1, 2), ("name", "old")]:
            await act(learner, action)
    for name in ("checkpoint.npz", "journal"):
        (tmp_path / name).unlink()
    expected = Expected(versions={"old": ([(-2, 1, 0.01), (-1, 2, 0.01)], 0.01)})
    async with new_learner(tmp_path) as again:
        for action in [*learn(3), ("back", "old", "learn")]:
            await act(again, action)
            expected.do(action)
        found = bits(again)

    assert found == await bits_of(expected) == await found_in(tmp_path)


async def test_a_flipped_bit_in_the_line_of_a_rollback_is_refused(tmp_path):
    await do(tmp_path, ("name", "v"), *learn(1), ("back", "v", "skip"), *learn(2), checkpoint_every=100)
    path = tmp_path / "journal"
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    assert b'"rollback"' in lines[1]
    start = len(lines[0])

    for place in range(start, start + len(lines[1]), 7):
        data = bytearray(whole)
        data[place] ^= 1 << place % 8
        path.write_bytes(data)
        with pytest.raises(ModelDirectoryError, match=r"line 2 of .*journal is damaged"):
            await new_learner(tmp_path).__aenter__()
        assert path.read_bytes() == data


@pytest.mark.parametrize("length", [1, 9, 30, -1])
async def test_a_torn_line_of_a_rollback_is_cut_off_and_nothing_was_gone_back_to(tmp_path, length):
    before, expected = await do(tmp_path, ("name", "v"), *learn(1, 2), checkpoint_every=100)
    whole = (tmp_path / "journal").read_bytes()
    async with new_learner(tmp_path, checkpoint_every=100) as learner:
        await learner.rollback("v", examples="skip")
        line = (tmp_path / "journal").read_bytes()[len(whole) :]
        killed = as_killed(tmp_path, tmp_path / "b")
    (killed / "journal").write_bytes(whole + line[:length])

    assert await found_in(killed) == before == await bits_of(expected)


@pytest.mark.parametrize("order", [[0, 1, 1, 2], [0, 2], [1, 2], [0, 1, 3], [0, 1, 2, 3, 3]])
async def test_lines_around_a_rollback_that_are_missing_or_repeated_are_refused(tmp_path, order):
    await do(tmp_path, ("name", "v"), *learn(1), ("back", "v", "skip"), *learn(2, 3), checkpoint_every=100)
    lines = (tmp_path / "journal").read_bytes().splitlines(keepends=True)
    (tmp_path / "journal").write_bytes(b"".join(lines[at] for at in order))

    with pytest.raises(ModelDirectoryError, match=r"repeats what|lacks what was"):
        await new_learner(tmp_path).__aenter__()


async def test_a_crash_between_checkpoint_and_journal_after_a_rollback_does_nothing_twice(tmp_path):
    _, expected = await do(
        tmp_path, *learn(1), ("name", "v"), *learn(2, 3), ("back", "v", "keep"), *learn(4), checkpoint_every=100
    )
    lines = (tmp_path / "journal").read_bytes()
    async with new_learner(tmp_path):
        pass
    (tmp_path / "journal").write_bytes(lines)

    after, _ = await do(tmp_path, ("kept",), checkpoint_every=100)
    expected.do(("kept",))

    assert after == await bits_of(expected) == await found_in(tmp_path)
