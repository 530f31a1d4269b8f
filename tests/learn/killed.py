"""A program that has learners with versions killed by SIGKILL at calls of the system, and checks what a start finds.

`python -m tests.learn.killed FOLDER SEED COUNT` says how many were killed. It forks before there is any thread, so
that a process costs no start of Python.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncgrad as ag
from tests.learn.actions import Action, Expected, act, bits, bits_of, new_learner, some_actions
from tests.learn.failing_files import CALLS
from tests.learn.making import turns_until


def in_a_child(work: Callable[[], Any]) -> int:
    """Do something in a process of its own; return its exit code, or minus the signal that has ended it."""
    child = os.fork()
    if not child:
        try:
            work()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill_at(number: int, rng: random.Random) -> None:
    """Have the process killed at a call, by its number: before it, after it, or in the midst of a write."""
    count = [0]

    def wrapped(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **options: Any) -> Any:
            if name == "open" and not given[1] & os.O_CREAT:
                return real(*given, **options)
            count[0] += 1
            if count[0] == number:
                if name == "write":
                    real(given[0], given[1][: rng.randrange(len(given[1]) + 1)])
                elif rng.random() < 0.5:
                    real(*given, **options)
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*given, **options)

        return call

    for name, module in CALLS.items():
        setattr(module, name, wrapped(name, getattr(module, name)))


async def go_on(path: Path, actions: list[Action], acknowledged: Path, options: dict[str, Any]) -> None:
    """Do the rest of what is to be done, and write down what was acknowledged."""
    with acknowledged.open("a", buffering=1) as file:
        async with new_learner(path, **options) as learner:
            for action in actions[len(acknowledged.read_text()) :]:
                await act(learner, action)
                print(".", end="", file=file, flush=True)


def may_be(actions: list[Action], done: int) -> list[tuple[int, Expected]]:
    """Return what may be so after some actions were acknowledged, and the next not: how many are done, and what."""
    before = Expected()
    for action in actions[:done]:
        before.do(action)
    found = [(done, before)]
    if done == len(actions):
        return found
    after = before.copy()
    after.do(actions[done])
    if actions[done][0] == "kept":
        for line, number in sorted(before.kept.items()):
            part = found[-1][1].copy()
            del part.kept[line]
            part.steps.append((line, number, part.rate))
            found.append((done, part))
    return [*found, (done + 1, after)]


async def check(path: Path, actions: list[Action], acknowledged: Path, options: dict[str, Any]) -> None:
    """Raise unless a start has the bits of what was acknowledged, and perhaps of the action that was being done."""
    candidates = may_be(actions, len(acknowledged.read_text()))
    async with new_learner(path, **options) as learner:
        await turns_until(lambda: not learner._recorded.lineage.due)
        await learner.set_options()
        found = bits(learner), set(learner.versions()), learner.statistics().kept
    # To learn all again may lead to the same bits: what may be done is, or it would be begun again for ever.
    for done, expected in reversed(candidates):
        if found == (await bits_of(expected), set(expected.versions), len(expected.kept)):
            acknowledged.write_text(done * ".")
            return
    raise AssertionError(f"{path}: {actions} with {options}: {found} is none of {candidates}")


async def check_end(path: Path, actions: list[Action], options: dict[str, Any]) -> None:
    """Raise unless all was done in the end, each once."""
    ((_, expected),) = may_be(actions, len(actions))
    async with new_learner(path, **options) as learner:
        assert bits(learner) == await bits_of(expected), (path, actions, options)


def main(folder: Path, seed: int, count: int) -> int:
    """Kill so many learners, and each some times; return how often that was."""
    killed = 0
    rng = random.Random(seed)
    while killed < count:
        actions, options = some_actions(rng, 20), {"checkpoint_every": rng.choice([1, 2, 3, 7, 100])}
        place = folder / f"{seed}-{killed}"
        place.mkdir()
        acknowledged = place / "acknowledged"
        acknowledged.touch()
        path = place / "model"

        def work(number: int, chance: random.Random) -> Callable[[], Any]:
            def run() -> None:
                kill_at(number, chance)
                ag.run(go_on(path, actions, acknowledged, options))  # noqa: B023  # it is called in this turn

            return run

        while (code := in_a_child(work(rng.randrange(1, 60), random.Random(rng.random())))) == -signal.SIGKILL:
            killed += 1
            assert not in_a_child(lambda: ag.run(check(path, actions, acknowledged, options)))  # noqa: B023
        assert code == 0
        assert not in_a_child(lambda: ag.run(check_end(path, actions, options)))  # noqa: B023
    return killed


if __name__ == "__main__":
    sys.stdout.write(f"{main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))}\n")
