"""`python -m benchmarks.chaos_learner 200`: learners and their followers are killed by SIGKILL, again and again.

A learner learns, changes its rate, names versions, goes back to them and forgets them. It is killed at a call of the
system: before it, after it, or in the midst of a write or of a checkpoint; in its start, twice in a row; in the
promotion of a follower that takes its place. Its disk may be full. A follower reads meanwhile, and is killed too, at
times with the learner. After each kill, a start on a copy of the directory must have the bits of what was acknowledged,
and perhaps of what was being done, and nothing twice; a follower that was there all the time must have the bits of one
that has just begun; and one that reads a flipped bit must stay with the lines before it, and go on once that is mended.

A table counts what was killed, and while it did what; anything else ends the program with an AssertionError. Processes
are forked before there is any thread, so that one costs no start of Python.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import logging
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, final

import asyncgrad as ag
from asyncgrad.learn import Follower, Learner
from asyncgrad.learn.checkpoint_file import read_checkpoint
from asyncgrad.learn.journal_reader import JournalReader
from tests.learn.actions import Action, Expected, act, bits, bits_of, new_follower, new_learner, some_actions
from tests.learn.failing_files import CALLS
from tests.learn.making import turns_until

__all__ = ["Service", "in_a_child", "main"]

#: How many actions one directory sees.
ACTIONS = 20


def in_a_child(work: Callable[[], Any]) -> int:
    """Do something in a process of its own; return its exit code, or minus the signal that has ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(_forked(work), 0)[1])


def _forked(work: Callable[[], Any]) -> int:
    child = os.fork()
    if not child:
        try:
            work()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    return child


@final
class Killing:
    """Has this process killed at a call of the system, by its number.

    Args:
        number: of the call, from 1.
        rng: says whether that is before it, after it, or in its midst.
        told: a file in which it says, before that, what was being done, and the call.

    Attributes:
        doing: what is being done.
    """

    def __init__(self, number: int, rng: random.Random, told: Path) -> None:
        self._number, self._rng, self._told = number, rng, told
        self._count = 0
        self.doing: str = "start"

    def begin(self) -> None:
        """Count from here on."""
        for name, module in CALLS.items():
            setattr(module, name, self._wrapped(name, getattr(module, name)))

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **options: Any) -> Any:
            if name == "open" and not given[1] & os.O_CREAT:
                return real(*given, **options)
            self._count += 1
            if self._count == self._number:
                self._told.write_text(f"{self.doing}: {name}")
                self._do_in_part(name, real, *given, **options)
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*given, **options)

        return call

    def _do_in_part(self, name: str, real: Callable[..., Any], *given: Any, **options: Any) -> None:
        if name == "write":
            real(given[0], given[1][: self._rng.randrange(len(given[1]) + 1)])
        elif self._rng.random() < 0.5:
            real(*given, **options)
            if name == "savez":
                given[0].flush()
                given[0].truncate(self._rng.randrange(given[0].tell() + 1))


async def act_on_a_full_disk(learner: Learner, action: Action, room: int) -> None:
    """Do something while files cannot grow beyond so many bytes; if that fails, again once they can."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        await act(learner, action)
        return
    except (ag.errors.JournalError, OSError):
        pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    if learner.statistics().journal_error is not None:
        await learner.checkpoint()
    await act(learner, action)


async def lead(service: Service, killing: Killing, rng: random.Random, is_promotion: bool) -> None:
    """Do the rest of what is to be done, by a learner or a follower that takes its place; write down what was done."""
    if is_promotion:
        follower = new_follower(service.path, **service.options)
        async with follower:
            killing.doing = "promotion"
            killing.begin()
            await go_on(await follower.promote(), service, killing, rng)
            killing.doing = "end"
        return
    killing.begin()
    async with new_learner(service.path, **service.options) as learner:
        await go_on(learner, service, killing, rng)
        killing.doing = "end"


async def go_on(learner: Learner, service: Service, killing: Killing, rng: random.Random) -> None:
    """Do the rest of what is to be done, on a disk that is full now and then."""
    journal = service.path / "journal"
    with service.acknowledged.open("a", buffering=1) as file:
        for action in service.actions[service.done() :]:
            killing.doing = action[0] if action[0] != "back" else f"rollback, {action[2]}"
            if rng.random() < 0.2:
                await act_on_a_full_disk(learner, action, journal.stat().st_size + rng.randrange(300))
            else:
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


def digest(one: Learner | Follower) -> str:
    """Return what tells a model from another, to the last bit, in few characters."""
    return hashlib.sha256(repr(bits(one)).encode()).hexdigest()


async def check_start(service: Service, copy: Path) -> None:
    """Raise unless a start has the bits of what was acknowledged, and perhaps of the action that was being done.

    A follower that was there before it has those bits in the end. What one has that begins before the start is told.
    """
    candidates = may_be(service.actions, service.done())
    async with contextlib.AsyncExitStack() as stack:
        follower = None
        if (copy / "checkpoint.npz").exists():
            follower = await stack.enter_async_context(new_follower(copy, interval=100.0))
            service.told.write_text(digest(follower))
        async with new_learner(copy, **service.options) as learner:
            await turns_until(lambda: not learner._recorded.lineage.due)
            await learner.set_options()
            found = bits(learner), set(learner.versions()), learner.statistics().kept
            if follower is not None:
                await follower.catch_up()
                assert bits(follower) == found[0], f"{service}: a follower of a start has other bits"
    # To learn all again may lead to the same bits: what may be done is, or it would be begun again for ever.
    for done, expected in reversed(candidates):
        if found == (await bits_of(expected), set(expected.versions), len(expected.kept)):
            service.acknowledged.write_text(done * ".")
            return
    raise AssertionError(f"{service}: {found} is none of {candidates}")


async def check_flipped(service: Service, copy: Path, rng: random.Random) -> None:
    """Raise unless a follower that reads a flipped bit stays with the lines before it, and goes on once that is mended.

    A byte at random, or of the last line, which a kill may have torn.
    """
    journal = copy / "journal"
    data = journal.read_bytes()
    last = data.rfind(b"\n", 0, -1) + 1
    place = rng.randrange(rng.choice([0, last]), len(data))
    flipped = bytearray(data)
    flipped[place] ^= 1 << rng.randrange(8)
    before = data[: data.rfind(b"\n", 0, place) + 1]
    journal.write_bytes(before)
    async with new_follower(copy, interval=100.0) as follower:
        of_lines_before = bits(follower)
        journal.write_bytes(flipped)
        with contextlib.suppress(ag.errors.ModelDirectoryError):
            await follower.catch_up()
        assert bits(follower) == of_lines_before, f"{service}: bit flips at {place} of {data!r} are learned"
        journal.write_bytes(data)
        await follower.catch_up()
        found = bits(follower)
    async with new_follower(copy, interval=100.0) as other:
        assert bits(other) == found, f"{service}: a follower that has seen a flipped bit has other bits"


async def check_end(service: Service) -> None:
    """Raise unless all was done in the end, each once."""
    ((_, expected),) = may_be(service.actions, len(service.actions))
    async with new_learner(service.path, **service.options) as learner:
        # The last rollback may be done but for what the next start learns again.
        await turns_until(lambda: not learner._recorded.lineage.due)
        assert bits(learner) == await bits_of(expected), f"{service}: the end has other bits"


@final
class FollowingProcess:
    """A process that follows a directory, and is asked for its bits; it may be killed when it has read so often.

    Args:
        path: the directory.
        number: how often; None for never.
    """

    def __init__(self, path: Path, number: int | None) -> None:
        asked, ask = os.pipe()
        answer, answered = os.pipe()
        self.process: int = _forked(lambda: ag.run(_answer(path, number, os.fdopen(asked), os.fdopen(answered, "w"))))
        os.close(asked)
        os.close(answered)
        self._ask, self._answer = os.fdopen(ask, "w"), os.fdopen(answer)

    def digest(self) -> str | None:
        """Return the digest of its bits, once it has caught up; None if it was killed."""
        with contextlib.suppress(BrokenPipeError):
            print("bits", file=self._ask, flush=True)
        return self._answer.readline().strip() or None

    def end(self) -> int:
        """Kill it, if it lives; return its exit code, or minus the signal that has ended it."""
        with contextlib.suppress(BrokenPipeError):
            self._ask.close()
        self._answer.close()
        os.kill(self.process, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


async def _answer(path: Path, number: int | None, asked: IO[str], answered: IO[str]) -> None:
    count, real = 0, JournalReader.read

    def read(*given: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*given, **options)

    JournalReader.read = read  # type: ignore[method-assign]
    async with new_follower(path) as follower:
        while await asyncio.to_thread(asked.readline):
            await follower.catch_up()
            print(digest(follower), file=answered, flush=True)


@final
class Service:
    """One directory, what is to be done with it, and how far that is.

    Attributes:
        path: the directory.
        actions: what is to be done.
        acknowledged: a file with a dot for each of them that is done.
        options: of its learners.
        told: a file in which a process says something before it ends.
    """

    def __init__(self, folder: Path, rng: random.Random) -> None:
        folder.mkdir()
        self.path: Path = folder / "model"
        self.actions: list[Action] = some_actions(rng, ACTIONS)
        self.options: dict[str, Any] = {"checkpoint_every": rng.choice([1, 2, 3, 7, 100])}
        self.acknowledged: Path = folder / "acknowledged"
        self.acknowledged.touch()
        self.told: Path = folder / "told"
        self._folder, self._rng, self._following = folder, rng, None

    _following: FollowingProcess | None

    def __str__(self) -> str:
        return f"{self.path}: {self.actions} with {self.options}"

    def done(self) -> int:
        """Return how many actions were acknowledged."""
        return len(self.acknowledged.read_text())

    def run(self, counts: Counter[str]) -> None:
        """Kill its processes until all is done; count the kills."""
        try:
            while not self._is_done_by_a_leader(counts):
                self._check(counts)
            assert not in_a_child(lambda: ag.run(check_end(self)))
        finally:
            self._end_following()

    def _is_done_by_a_leader(self, counts: Counter[str]) -> bool:
        """Have a process do the rest; return whether it was done, and not killed."""
        rng = self._rng
        is_begun = (self.path / "checkpoint.npz").exists()
        if self._following is None and is_begun:
            self._following = FollowingProcess(self.path, rng.choice([None, None, rng.randrange(1, 40)]))
        is_promotion = is_begun and rng.random() < 0.3
        # A small number is that of a call of the start, or of the promotion.
        number = rng.randrange(1, 10 if rng.random() < 0.3 else 60)
        killing = Killing(number, random.Random(rng.random()), self.told)
        chance = random.Random(rng.random())
        code = in_a_child(lambda: ag.run(lead(self, killing, chance, is_promotion)))
        if code == -signal.SIGKILL:
            counts[self.told.read_text()] += 1
        else:
            assert code == 0, f"{self}: a learner has ended with {code}"
        return code == 0

    def _check(self, counts: Counter[str]) -> None:
        """Raise unless what was killed has left what it should have."""
        rng = self._rng
        if self._following is not None and rng.random() < 0.2:
            self._end_following()
            counts["learner and follower"] += 1
        following = self._following and self._following.digest()
        if self._following is not None and following is None:
            assert self._end_following() == -signal.SIGKILL, f"{self}: a follower has ended by itself"
            counts["follower"] += 1
        self.told.write_text("")
        assert not self._in_a_copy(lambda copy: check_start(self, copy))
        if following is not None:
            assert following == self.told.read_text(), f"{self}: a follower has other bits than one that begins"
        if self._has_a_line() and rng.random() < 0.5:
            chance = random.Random(rng.random())
            assert not self._in_a_copy(lambda copy: check_flipped(self, copy, chance))

    def _has_a_line(self) -> bool:
        checkpoint, journal = self.path / "checkpoint.npz", self.path / "journal"
        if not checkpoint.exists() or not journal.exists():
            return False
        # What is left of the journal before is skipped, flipped or not.
        name = str(read_checkpoint(checkpoint)["journal"]).encode()
        return name in journal.read_bytes().partition(b"\n")[0]

    def _in_a_copy(self, check: Callable[[Path], Any]) -> int:
        copy = self._folder / "copy"
        if self.path.exists():
            shutil.copytree(self.path, copy)
        try:
            return in_a_child(lambda: ag.run(check(copy)))
        finally:
            shutil.rmtree(copy, ignore_errors=True)

    def _end_following(self) -> int:
        following, self._following = self._following, None
        return 0 if following is None else following.end()


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill learners as often as the command line says, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos_learner", description=__doc__)
    parser.add_argument("kills", type=int, help="how many learners are to be killed, at least")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    rng, counts = random.Random(options.seed), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        number = 0
        while sum(count for what, count in counts.items() if ": " in what) < options.kills:
            Service(Path(folder) / str(number), rng).run(counts)
            number += 1
    for what, count in sorted(counts.items()):
        print(f"{count:5}  {what}")
    learners = sum(count for what, count in counts.items() if ": " in what)
    print(f"{learners:5}  learners killed, of {number} models: all that was acknowledged is there, once")
    return 0


if __name__ == "__main__":
    sys.exit(main())
