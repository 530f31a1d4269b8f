"""Learners that end as in a crash, and what a start finds then."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Any

import pytest

from asyncgrad.learn import Learner
from asyncgrad.learn.directory import ModelDirectory
from tests.learn.making import QUESTION, example, new_learner, turns_until

__all__ = ["as_killed", "crash", "learn", "opened", "reopened"]


async def learn(path: Path, *seeds: int, checkpoint_every: int = 100, **options: Any) -> list[float]:
    """Learn from examples, then leave the files as a crash would; return what the model answers at the end."""
    learner = new_learner(path, checkpoint_every=checkpoint_every, **options)
    await learner.__aenter__()
    for seed in seeds:
        await learner.learn(example(seed))
    outputs: list[float] = (await learner.predict(QUESTION)).tolist()
    await crash(learner)
    return outputs


async def crash(learner: Learner) -> None:
    """End a learner, and leave its files as they are."""
    await turns_until(lambda: learner.statistics().stage is None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ModelDirectory, "save_checkpoint", lambda *given: None)
        await learner.__aexit__(None, None, None)


async def opened(path: Path) -> None:
    """Begin and end a learner."""
    async with new_learner(path):
        pass


async def reopened(path: Path) -> tuple[int, list[float], int]:
    """Return how much a learner finds there, what it answers, and how many bytes of a torn line it cut off."""
    learner = new_learner(path)
    await learner.__aenter__()
    outputs: list[float] = (await learner.predict(QUESTION)).tolist()
    await crash(learner)
    return learner.learned, outputs, learner.statistics().torn_bytes


def as_killed(path: Path, to: Path) -> Path:
    """Return a copy of a directory as it is now, which is what a killed process leaves; without its lock."""
    # A thread may write a checkpoint meanwhile: then what was copied is of no moment, and is copied again.
    while True:
        before = _files(path)
        with contextlib.suppress(shutil.Error):
            shutil.copytree(path, to, ignore=shutil.ignore_patterns("lock"))
            if _files(path) == before:
                return to
        shutil.rmtree(to)


def _files(path: Path) -> set[tuple[str, int, int, int]]:
    found = set()
    # No other folders: they are copies made before.
    for file in [*path.iterdir(), *path.glob("versions/*"), *path.glob("history/*")]:
        if file.is_dir():
            continue
        with contextlib.suppress(FileNotFoundError):
            state = file.stat()
            found.add((str(file), state.st_ino, state.st_size, state.st_mtime_ns))
    return found
