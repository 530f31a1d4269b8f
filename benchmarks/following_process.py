"""FollowingProcess: a process that follows a learner, by its directory or its URL, and is asked for its bits."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, final

import asyncgrad as ag
from asyncgrad.learn import Follower, Learner
from tests.learn.actions import bits, new_follower

__all__ = ["UNREACHABLE", "FollowingProcess", "digest", "forked", "in_a_child"]

#: What a follower answers that cannot reach its learner.
UNREACHABLE = "unreachable"


def in_a_child(work: Callable[[], Any]) -> int:
    """Do something in a process of its own; return its exit code, or minus the signal that has ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(forked(work), 0)[1])


def forked(work: Callable[[], Any]) -> int:
    """Begin to do something in a process of its own; return its id."""
    child = os.fork()
    if not child:
        try:
            work()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    return child


def digest(one: Learner | Follower) -> str:
    """Return what tells a model from another, to the last bit, in few characters."""
    return hashlib.sha256(repr(bits(one)).encode()).hexdigest()


@final
class FollowingProcess:
    """A process that follows a learner, and is asked for its bits; it may be killed when it has read so often.

    Args:
        source: the directory, or the URL.
        number: how often; None for never.
        options: of the follower.
    """

    def __init__(self, source: Path | str, number: int | None, **options: Any) -> None:
        asked, ask = os.pipe()
        answer, answered = os.pipe()

        def work() -> None:
            ag.run(_answer(source, number, os.fdopen(asked), os.fdopen(answered, "w"), options))

        self.process: int = forked(work)
        os.close(asked)
        os.close(answered)
        self._has_ended = False
        self._ask, self._answer = os.fdopen(ask, "w"), os.fdopen(answer)

    def digest(self) -> str | None:
        """Return the digest of its bits, once it has caught up, or `UNREACHABLE`; None if it was killed."""
        # Whoever has asked before may have been killed, and its answer be there still.
        name = secrets.token_hex(8)
        with contextlib.suppress(BrokenPipeError):
            print(name, file=self._ask, flush=True)
        while line := self._answer.readline():
            if line.startswith(name):
                return line.split()[1]
        return None

    def is_killed(self) -> bool:
        """Whether it has ended: by the signal, or there is an AssertionError."""
        process, status = os.waitpid(self.process, os.WNOHANG)
        if process:
            self._has_ended = True
            code = os.waitstatus_to_exitcode(status)
            assert code == -signal.SIGKILL, f"a follower has ended by itself, with {code}"
            self._close()
        return bool(process)

    def end(self) -> int:
        """Kill it, if it lives; return its exit code, or minus the signal that has ended it."""
        self._close()
        if self._has_ended:
            return -signal.SIGKILL
        os.kill(self.process, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])

    def _close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._ask.close()
        self._answer.close()


async def _answer(
    source: Path | str, number: int | None, asked: IO[str], answered: IO[str], options: dict[str, Any]
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        follower = await _begun(stack, source, options)
        _kill_at_read(follower, number)
        while name := (await asyncio.to_thread(asked.readline)).strip():
            try:
                await follower.catch_up()
            except ConnectionError:
                print(name, UNREACHABLE, file=answered, flush=True)
            else:
                print(name, digest(follower), file=answered, flush=True)


async def _begun(stack: contextlib.AsyncExitStack, source: Path | str, options: dict[str, Any]) -> Follower:
    """Return a follower that has begun, as soon as a learner answers."""
    while True:
        try:
            return await stack.enter_async_context(new_follower(source, **options))
        except ConnectionError:
            # The learner was killed in the midst of its answer, or it takes long until there is another one.
            continue


def _kill_at_read(follower: Follower, number: int | None) -> None:
    count, kind = 0, type(follower._source)
    real = kind.read

    def read(*given: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*given, **options)

    kind.read = read  # type: ignore[method-assign]
