"""`python -m benchmarks.chaos_learner 200`: learners and their followers are killed by signals, again and again.

A learner behind uvicorn learns, changes its rate, names versions, goes back to them and forgets them. It is killed at a
call of the system: before it, after it, or in the midst of a write or of a checkpoint; in its start, twice in a row; in
the promotion of a follower that takes its place. Or it gets a SIGTERM there, and perhaps SIGKILL while it ends. Its
disk may be full. A follower of its directory and one of its URL read meanwhile, and are killed too, at times with the
learner. After each kill, a start on a copy of the directory must have the bits of what was acknowledged, and perhaps of
what was being done, and nothing twice; after SIGTERM, all was acknowledged, and nothing is left to be replayed. A
follower that was there all the time must have the bits of one that has just begun, and that of the URL those of the
learner; one that reads a flipped bit must stay with the lines before it, and go on once that is mended. In the end the
model moves: the follower of the URL is promoted while the learner learns, and is killed in half of the cases.

A table counts what was killed, and while it did what; anything else ends the program with an AssertionError. Processes
are forked before there is any thread, so that one costs no start of Python.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import logging
import os
import random
import resource
import select
import shutil
import signal
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, final

import httpx  # noqa: F401  # once here, rather than in each process that follows a URL
import uvicorn
from starlette.applications import Starlette

import asyncgrad as ag
from asyncgrad.learn import Learner, http
from asyncgrad.learn.checkpoint_file import read_checkpoint
from benchmarks.following_process import UNREACHABLE, FollowingProcess, digest, forked, in_a_child
from tests.learn.actions import Action, Expected, act, bits, bits_of, new_follower, new_learner, some_actions
from tests.learn.failing_files import CALLS
from tests.learn.making import turns_until
from tests.support.listeners import new_listener

__all__ = ["Service", "main"]

#: How many actions one directory sees.
ACTIONS = 20

#: What followers of the URL must send.
KEY = "a key for this run alone"


@final
class Killing:
    """Has this process killed at a call of the system, by its number.

    Args:
        number: of the call, from 1; 0 for none.
        rng: says whether that is before it, after it, or in its midst.
        told: a file in which it says, before that, what was being done, and the call.
        term: the number of the call at which it gets a SIGTERM; 0 for none.

    Attributes:
        doing: what is being done.
    """

    def __init__(self, number: int, rng: random.Random, told: Path, term: int = 0) -> None:
        self._number, self._rng, self._told, self._term = number, rng, told, term
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
            if self._count == self._term:
                self._told.write_text(f"SIGTERM, {self.doing}: {name}")
                os.kill(os.getpid(), signal.SIGTERM)
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

    async def work(learner: Learner, server: uvicorn.Server) -> None:
        await check_follower(service, learner, server)
        await go_on(learner, service, killing, rng, server)
        await check_follower(service, learner, server)
        killing.doing = "end"

    await serve(lambda stack: _learner_of(service, killing, is_promotion, stack), work, service.listener)


async def _learner_of(
    service: Service, killing: Killing, is_promotion: bool, stack: contextlib.AsyncExitStack
) -> Learner:
    if not is_promotion:
        killing.begin()
        return await stack.enter_async_context(new_learner(service.path, **service.options))
    follower = await stack.enter_async_context(new_follower(service.path, **service.options))
    killing.doing = "promotion"
    killing.begin()
    return await follower.promote()


async def serve(
    begin: Callable[[contextlib.AsyncExitStack], Any],
    work: Callable[[Learner, uvicorn.Server], Any],
    listener: socket.socket,
) -> None:
    """Send a learner's journal to followers until the work is done, or SIGTERM asks for the end.

    The work stands for the requests of clients: what is under way is done before the learner ends.
    """

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            async with contextlib.AsyncExitStack() as stack:
                learner = await begin(stack)
                app.mount("/journal", http.journal_app(learner, key=KEY))
                task = asyncio.create_task(work(learner, server))
                task.add_done_callback(lambda _: setattr(server, "should_exit", True))
                yield
                await task
        except BaseException:
            # uvicorn would log it, and end as if nothing were the matter.
            sys.excepthook(*sys.exc_info())
            os._exit(1)

    config = uvicorn.Config(Starlette(lifespan=lifespan), http=http.connections(), lifespan="on", log_config=None)
    server = uvicorn.Server(config)
    await server.serve(sockets=[listener])


async def check_follower(service: Service, learner: Learner, server: uvicorn.Server) -> None:
    """Raise unless the follower of the URL has the learner's bits, if it lives, and the learner goes on."""
    # What a rollback had left is learned first.
    await turns_until(lambda: not learner._recorded.lineage.due)
    await learner.set_options()
    if service.by_url is None or server.should_exit:
        return
    found = await asyncio.to_thread(service.by_url.digest)
    if server.should_exit and found == UNREACHABLE:
        return  # of SIGTERM, which was on the way, and ends the answers to followers
    assert found in (None, digest(learner)), f"{service}: the follower of the URL has other bits than the learner"


async def go_on(
    learner: Learner, service: Service, killing: Killing, rng: random.Random, server: uvicorn.Server
) -> None:
    """Do the rest of what is to be done, on a disk that is full now and then."""
    journal = service.path / "journal"
    with service.acknowledged.open("a", buffering=1) as file:
        for action in service.actions[service.done() :]:
            if server.should_exit:
                return
            killing.doing = action[0] if action[0] != "back" else f"rollback, {action[2]}"
            if rng.random() < 0.2:
                await act_on_a_full_disk(learner, action, journal.stat().st_size + rng.randrange(300))
            else:
                await act(learner, action)
            print(".", end="", file=file, flush=True)


async def learn_until_fenced(service: Service, killing: Killing, move: Move) -> None:
    """Learn one example after another, until a follower has taken the place; write down what was acknowledged."""

    async def work(learner: Learner, server: uvicorn.Server) -> None:
        await asyncio.to_thread(os.read, move.begun, 1)
        killing.begin()
        with service.acknowledged.open("a", buffering=1) as file, contextlib.suppress(ag.errors.JournalError):
            for number in itertools.count(ACTIONS):
                await act(learner, ("learn", number))
                print(".", end="", file=file, flush=True)
                has_moved = select.select([move.ended], [], [], 0)[0]
                assert not has_moved, f"{service}: the learner goes on, whose model has moved"
        # The follower reads what is left.
        await asyncio.to_thread(os.read, move.ended, 1)

    os.close(move.end)
    await serve(
        lambda stack: stack.enter_async_context(new_learner(service.path, **service.options)), work, move.listener
    )


async def move_to(path: Path, service: Service, move: Move) -> None:
    """Follow, and be promoted in a new directory; tell the bits that it begins with."""
    move.listener.close()
    async with new_follower(move.url, key=KEY, **service.options) as follower:
        os.write(move.begin, b".")
        try:
            learner = await follower.promote(path)
        except ConnectionError:
            # The learner was killed when it had been told, and before all was read.
            learner = await follower.promote(path)
        service.told.write_text(digest(learner))


async def check_move(service: Service, path: Path, is_in_order: bool) -> None:
    """Raise unless the new directory has what was acknowledged; of a learner that was killed, what came first of it."""
    async with new_learner(path, **service.options) as learner:
        found, tells = bits(learner), digest(learner)
    assert tells == service.told.read_text(), f"{service}: a promoted follower has other bits than its directory"
    done = service.done()
    fewest = done if is_in_order else ACTIONS
    learned = [("learn", number) for number in range(ACTIONS, done + 1)]
    for count in range(fewest, done + 1 if is_in_order else done + 2):
        expected = Expected()
        for action in [*service.actions, *learned[: count - ACTIONS]]:
            expected.do(action)
        if found == await bits_of(expected):
            break
    else:
        raise AssertionError(f"{service}: a promoted follower has other bits than those of {fewest} to {done} actions")
    if not is_in_order:
        return
    try:
        async with new_learner(service.path, **service.options):
            raise AssertionError(f"{service}: the learner goes on, whose model has moved")
    except ag.errors.ModelDirectoryError:
        pass


@final
class Move:
    """What a learner and the follower that takes its place have in common: a socket, and two pipes.

    Attributes:
        listener: of the learner alone, so that nobody listens once it is killed.
        url: of its journal.
        begun, begin: the ends of a pipe: the follower has begun.
        ended, end: the same: the follower has ended, or the learner may.
    """

    def __init__(self) -> None:
        self.listener: socket.socket = new_listener()
        self.url: str = url_of(self.listener)
        self.begun, self.begin = os.pipe()
        self.ended, self.end = os.pipe()

    def close(self) -> None:
        """Close what this process has of it."""
        self.listener.close()
        for descriptor in (self.begun, self.begin, self.ended, self.end):
            os.close(descriptor)


def url_of(listener: socket.socket) -> str:
    """Return where the journal is that is sent by this socket."""
    return f"http://127.0.0.1:{listener.getsockname()[1]}/journal"


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


async def check_start(service: Service, copy: Path, is_in_order: bool) -> None:
    """Raise unless a start has the bits of what was acknowledged, and perhaps of the action that was being done.

    A follower that was there before it has those bits in the end. What one has that begins before the start is told.
    After an end in order all was acknowledged, and nothing is replayed.
    """
    candidates = may_be(service.actions, service.done())[: 1 if is_in_order else None]
    async with contextlib.AsyncExitStack() as stack:
        follower = None
        if (copy / "checkpoint.npz").exists():
            follower = await stack.enter_async_context(new_follower(copy, interval=100.0))
            service.told.write_text(digest(follower))
        async with new_learner(copy, **service.options) as learner:
            await turns_until(lambda: not learner._recorded.lineage.due)
            await learner.set_options()
            found = bits(learner), set(learner.versions()), learner.statistics().kept
            assert not is_in_order or learner.statistics().replayed == 0, f"{service}: an end in order leaves a journal"
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
class Service:
    """One directory, what is to be done with it, and how far that is.

    Attributes:
        path: the directory.
        actions: what is to be done.
        acknowledged: a file with a dot for each of them that is done.
        options: of its learners.
        told: a file in which a process says something before it ends.
        listener: where followers of the URL find its learners, one after another, as with a socket of systemd.
        by_url: the process that follows the URL, if there is one.
    """

    def __init__(self, folder: Path, rng: random.Random) -> None:
        folder.mkdir()
        self.path: Path = folder / "model"
        self.actions: list[Action] = some_actions(rng, ACTIONS)
        self.options: dict[str, Any] = {"checkpoint_every": rng.choice([1, 2, 3, 7, 100])}
        self.acknowledged: Path = folder / "acknowledged"
        self.acknowledged.touch()
        self.told: Path = folder / "told"
        self.listener: socket.socket = new_listener()
        self.by_url: FollowingProcess | None = None
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
            while (code := self._lead(counts)) != 0:
                self._check(counts, is_in_order=code == -signal.SIGTERM)
            assert not in_a_child(lambda: ag.run(check_end(self)))
            self._move(counts)
        finally:
            self._end_following()
            self._end_by_url()
            self.listener.close()

    def _lead(self, counts: Counter[str]) -> int:
        """Have a process do the rest; return 0 if it was done, or minus the signal by which it has ended."""
        rng = self._rng
        is_begun = (self.path / "checkpoint.npz").exists()
        if self._following is None and is_begun:
            self._following = FollowingProcess(self.path, rng.choice([None, None, rng.randrange(1, 40)]))
        if self.by_url is None:
            often = rng.choice([None, None, rng.randrange(1, 100)])
            self.by_url = FollowingProcess(url_of(self.listener), often, key=KEY, interval=0.02)
        is_promotion = is_begun and rng.random() < 0.3
        # A small number is that of a call of the start, or of the promotion.
        number = rng.randrange(1, 10 if rng.random() < 0.3 else 60)
        term = number if rng.random() < 0.3 else 0
        if term:
            # As if the end took too long.
            number = rng.choice([0, 0, number + rng.randrange(1, 15)])
        killing = Killing(number, random.Random(rng.random()), self.told, term)
        chance = random.Random(rng.random())
        code = in_a_child(lambda: ag.run(lead(self, killing, chance, is_promotion)))
        if code != 0:
            assert code in (-signal.SIGKILL, -signal.SIGTERM), f"{self}: a learner has ended with {code}"
            counts[self.told.read_text()] += 1
        return code

    def _check(self, counts: Counter[str], *, is_in_order: bool) -> None:
        """Raise unless what was killed has left what it should have."""
        rng = self._rng
        if self._following is not None and rng.random() < 0.2:
            self._end_following()
            counts["learner and follower"] += 1
        following = self._following and self._following.digest()
        if self._following is not None and following is None:
            assert self._end_following() == -signal.SIGKILL, f"{self}: a follower has ended by itself"
            counts["follower"] += 1
        if self.by_url is not None and self.by_url.is_killed():
            self.by_url = None
            counts["follower of the URL"] += 1
        self.told.write_text("")
        assert not self._in_a_copy(lambda copy: check_start(self, copy, is_in_order))
        if following is not None:
            assert following == self.told.read_text(), f"{self}: a follower has other bits than one that begins"
        if self._has_a_line() and rng.random() < 0.5:
            chance = random.Random(rng.random())
            assert not self._in_a_copy(lambda copy: check_flipped(self, copy, chance))

    def _move(self, counts: Counter[str]) -> None:
        """Have a follower of the URL be promoted elsewhere; raise unless it has what was acknowledged."""
        rng, move, path = self._rng, Move(), self._folder / "moved"
        killing = Killing(rng.choice([0, rng.randrange(1, 40)]), random.Random(rng.random()), self._folder / "killed")
        killing.doing = "move"
        learner = forked(lambda: ag.run(learn_until_fenced(self, killing, move)))
        follower = in_a_child(lambda: ag.run(move_to(path, self, move)))
        move.close()
        code = os.waitstatus_to_exitcode(os.waitpid(learner, 0)[1])
        assert follower == 0, f"{self}: the promotion has ended with {follower}"
        assert code in (0, -signal.SIGKILL), f"{self}: the learner whose model has moved has ended with {code}"
        if code:
            counts[(self._folder / "killed").read_text()] += 1
        counts["moved"] += 1
        assert not in_a_child(lambda: ag.run(check_move(self, path, is_in_order=code == 0)))

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

    def _end_by_url(self) -> None:
        if self.by_url is not None:
            self.by_url.end()


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
