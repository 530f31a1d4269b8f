"""Whichever call of the system fails: a start finds what was acknowledged, each once, to the last bit."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncgrad import nn, optim
from asyncgrad.errors import ArgumentError, JournalError, ModelDirectoryError
from asyncgrad.learn import Learner
from tests.learn.crashing import as_killed
from tests.learn.failing_files import CALLS, FailingFiles
from tests.learn.making import turns_until
from tests.support.loops import run_on
from tests.support.sampling import cases

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="finds the files of descriptors as on Linux")  # noqa: PTH112

#: An example, or a learning rate.
Action = int | float
ACTIONS: list[Action] = [1, 2, 0.25, 3, 4, 5]


def new_learner(path: Path | None, **options: Any) -> Learner:
    """Return a learner whose every example leaves other bits, in whatever order."""
    model = nn.Linear(1, 1, dtype=np.float64)
    model.update({"weight": np.zeros((1, 1)), "bias": np.zeros(1)})

    def loss(model: Any, batch: Any) -> Any:
        return nn.mse_loss(model(batch), np.tanh(batch))

    return Learner(model, loss, optim.Adam(model, lr=0.01), directory=path, checkpoint_every=2, **options)


async def act(learner: Learner, action: Action) -> None:
    if isinstance(action, float):
        await learner.set_options(lr=action)
    else:
        await learner.learn([float(action)])


def bits(learner: Learner) -> list[Any]:
    return [learner.learned, learner.optimizer.param_groups[0]["lr"], *map(str, learner.model.state_dict().items())]


async def expected(actions: list[Action]) -> list[Any]:
    async with new_learner(None) as learner:
        for action in actions:
            await act(learner, action)
        return bits(learner)


async def acknowledged(path: Path, refused: list[str]) -> list[Action]:
    """Do what a learner in a directory is asked to; return what it acknowledged, and copy what a kill would leave."""
    found: list[Action] = []
    learner = new_learner(path / "a" / "model")
    try:
        await learner.__aenter__()
    except ModelDirectoryError as error:
        refused.append(str(error))
    else:
        for action in ACTIONS:
            try:
                await act(learner, action)
                found.append(action)
            except JournalError as error:
                refused.append(str(error))
    # A copy is of one moment only if nothing is written meanwhile.
    await turns_until(lambda: learner.statistics().stage is None)
    if (path / "a" / "model").exists():
        as_killed(path / "a" / "model", path / "killed")
    if learner._state == "running":
        await learner.__aexit__(None, None, None)
    return found


async def restarted(path: Path) -> list[Any]:
    async with new_learner(path) as learner:
        return bits(learner)


def number_of_calls(folder: Path, names: tuple[str, ...]) -> int:
    folder.mkdir()
    files = FailingFiles(folder, names, None)
    with pytest.MonkeyPatch.context() as patch:
        files.install(patch)
        run_on("asyncio", acknowledged(folder, []))
    return sum(files.counts[name] for name in names)


def some(calls: int) -> list[int]:
    """Return the numbers of calls that fail first: in `make test`, some of them."""
    assert calls > 0
    return sorted(random.Random(calls).sample(range(calls), min(calls, max(6, cases(calls)))))


def check(folder: Path, files: FailingFiles) -> list[str]:
    """Let calls fail, then start from what a kill left, and from what an end in order left."""
    refused: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        files.install(patch)
        found = run_on("asyncio", acknowledged(folder, refused))
    assert files.failed
    for place in (folder / "killed", folder / "a" / "model"):
        if place.exists():
            assert run_on("asyncio", restarted(place)) == run_on("asyncio", expected(found)), (place, refused)
        else:
            assert not found
    return refused


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("is_done", [False, True], ids=["not done", "done"])
@pytest.mark.parametrize("name", CALLS)
def test_whichever_call_fails_what_was_acknowledged_is_learned_once(tmp_path, name, is_done, for_good):
    calls = number_of_calls(tmp_path / "whole", (name,))

    for first in some(calls):
        folder = tmp_path / str(first)
        folder.mkdir()
        check(folder, FailingFiles(folder, (name,), first, for_good, is_done))


@pytest.mark.slow
@pytest.mark.parametrize("is_done", [False, True], ids=["not done", "done"])
def test_what_was_refused_is_not_learned_after_a_restart(tmp_path, is_done):
    names = ("fsync", "ftruncate")
    calls = number_of_calls(tmp_path / "whole", names)
    refused = []

    for first in some(calls):
        folder = tmp_path / str(first)
        folder.mkdir()
        refused += check(folder, FailingFiles(folder, names, first, True, is_done))

    assert refused


def test_where_the_disk_takes_nothing_at_all_an_example_that_may_be_learned_is_told_as_such(tmp_path):
    names = tuple(CALLS)
    calls = number_of_calls(tmp_path / "whole", names)

    for first in some(calls):
        folder = tmp_path / str(first)
        folder.mkdir()
        refused: list[str] = []
        with pytest.MonkeyPatch.context() as patch:
            FailingFiles(folder, names, first, True).install(patch)
            found = run_on("asyncio", acknowledged(folder, refused))
        if not (folder / "killed").exists():
            assert not found
            continue
        learned = run_on("asyncio", restarted(folder / "killed"))
        if learned != run_on("asyncio", expected(found)):
            assert learned == run_on("asyncio", expected(ACTIONS[: len(found) + 1]))
            assert "a restart may still learn it" in refused[0]


def test_a_learner_that_was_stopped_by_its_journal_goes_on_after_a_checkpoint(tmp_path):
    async def main() -> tuple[list[Any], list[Any]]:
        learner = await new_learner(tmp_path / "model").__aenter__()
        await act(learner, 1)
        with pytest.MonkeyPatch.context() as patch:
            FailingFiles(tmp_path, ("fsync", "ftruncate"), 0, True).install(patch)
            with pytest.raises(JournalError):
                await act(learner, 2)
        with pytest.raises(JournalError, match="takes no more since it failed"):
            await act(learner, 2)
        await learner.checkpoint()
        assert learner.statistics().journal_error is None
        await act(learner, 3)
        killed = as_killed(tmp_path / "model", tmp_path / "killed")
        await learner.__aexit__(None, None, None)
        return await restarted(killed), await restarted(tmp_path / "model")

    wanted = run_on("asyncio", expected([1, 3]))
    assert run_on("asyncio", main()) == (wanted, wanted)


def test_the_mark_of_what_was_refused_is_gone_before_anything_follows_it(tmp_path):
    async def main() -> list[str]:
        learner = await new_learner(tmp_path / "model").__aenter__()
        await act(learner, 1)
        with pytest.MonkeyPatch.context() as patch:
            FailingFiles(tmp_path, ("ftruncate",), 0, True).install(patch)
            FailingFiles(tmp_path, ("fsync",), 0).install(patch)
            with pytest.raises(JournalError):
                await act(learner, 2)
        killed = as_killed(tmp_path / "model", tmp_path / "killed")
        await learner.__aexit__(None, None, None)
        assert any(path.name.startswith("journal.cut-") for path in killed.iterdir())
        again = await new_learner(killed).__aenter__()
        names = sorted(path.name for path in killed.iterdir())
        # The same example once more makes the same line in the same place.
        await act(again, 2)
        twice = as_killed(killed, tmp_path / "twice")
        await again.__aexit__(None, None, None)
        assert await restarted(twice) == await expected([1, 2])
        return names

    assert run_on("asyncio", main()) == ["checkpoint.npz", "journal", "lock"]


def test_a_step_that_fails_after_its_line_was_written_is_not_learned_after_a_restart(tmp_path):
    async def main() -> list[Any]:
        learner = await new_learner(tmp_path / "model").__aenter__()
        await act(learner, 1)

        async def fails() -> None:
            raise ArgumentError("a step fails")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(learner.optimizer, "step_async", fails)
            FailingFiles(tmp_path, ("ftruncate",), 0, True).install(patch)
            with pytest.raises(ArgumentError, match="a step fails"):
                await act(learner, 2)
        killed = as_killed(tmp_path / "model", tmp_path / "killed")
        await learner.__aexit__(None, None, None)
        return await restarted(killed)

    assert run_on("asyncio", main()) == run_on("asyncio", expected([1]))


@pytest.mark.parametrize("name", ["replace", "fsync"])
def test_what_follows_a_checkpoint_that_took_its_place_and_failed_is_learned_once(tmp_path, name):
    async def main() -> list[Any]:
        learner = await new_learner(tmp_path / "model").__aenter__()
        await act(learner, 1)
        with pytest.MonkeyPatch.context() as patch:
            # Of fsync, the first is that of a line, and the second that of the file: the third is that of its name.
            FailingFiles(tmp_path, (name,), 2 if name == "fsync" else 0, is_done=True).install(patch)
            await act(learner, 2)
            await turns_until(lambda: learner.statistics().stage is None)
        assert learner.statistics().failed_checkpoints == 1
        with pytest.MonkeyPatch.context() as patch:
            FailingFiles(tmp_path, ("savez",), 0, for_good=True).install(patch)
            await act(learner, 3)
            await turns_until(lambda: learner.statistics().stage is None)
            killed = as_killed(tmp_path / "model", tmp_path / "killed")
        await learner.__aexit__(None, None, None)
        return await restarted(killed)

    assert run_on("asyncio", main()) == run_on("asyncio", expected([1, 2, 3]))
