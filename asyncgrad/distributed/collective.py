"""Collective: how replicas sum arrays.

InProcessGroup serves replicas that are tasks or threads of one process, RemoteGroup those that are anywhere: one worker
of a transport has an InProcessGroup, and all send their arrays there.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import hmac
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol, final, runtime_checkable

import numpy as np

from ..core.settings.arguments import must_be, number, whole_number
from ..core.settings.awaiting import wake
from ..errors import ArgumentError, ArgumentTypeError, ReplicaError, WorkerLostError
from .concurrency import compute, start_lasting
from .failures import restore_error
from .payload import check_size
from .text import check_text
from .transport import Reply, Request, Transport

__all__ = ["Collective", "InProcessGroup", "RemoteGroup", "check_rank"]

#: How many rounds that were decided are remembered: a replica is at most one round ahead of the others.
_REMEMBERED = 64

#: What the key of an array counts for, with the entry that has it.
_KEY_BYTES = 512


@runtime_checkable
class Collective(Protocol):
    """Abstract: one replica's way to the others, for `ag.distributed.DataParallel`. The rest is one method.

    Example:
        >>> import asyncgrad as ag
        >>> isinstance(ag.distributed.InProcessGroup(2).member(0), ag.distributed.Collective)
        True
    """

    #: The number of this replica, from 0.
    rank: int
    #: How many replicas there are.
    size: int

    async def all_reduce(self, key: tuple[int, ...], array: np.ndarray) -> np.ndarray:
        """Return the sum of the arrays that all replicas give under a key, from rank 0 on: the same bits for all.

        The result may be shared: it is not to be written into.

        Args:
            key: the number of the round, that is of the backward, and what else names the array; the round alone for
                the vote that ends it.
            array: of one shape and dtype at all replicas.

        Raises:
            ReplicaError: a replica has aborted the round, or has gone.
        """
        ...

    def abort(self, round_number: int, reason: str) -> bool | Awaitable[bool]:
        """End a round without success, for all replicas; return False if its vote is complete, which stays so.

        May be an `async def`.
        """
        ...


@final
class InProcessGroup:
    """Replicas in one process: tasks of one event loop, or of loops in several threads.

    Args:
        size: how many replicas there are.

    Example:
        >>> import asyncio, numpy as np, asyncgrad as ag
        >>> async def main():
        ...     group = ag.distributed.InProcessGroup(2)
        ...     members = [group.member(rank) for rank in range(2)]
        ...     return await asyncio.gather(*(one.all_reduce((1, 0), np.array([1.0, 2.0])) for one in members))
        >>> ag.run(main())
        [array([2., 4.]), array([2., 4.])]
    """

    def __init__(self, size: int) -> None:
        self._size = whole_number(size, "size", 1)
        self._lock = threading.Lock()
        #: By key, what each rank has given, and whom the sum goes to.
        self._waiting: dict[tuple[int, ...], dict[int, tuple[np.ndarray, concurrent.futures.Future[np.ndarray]]]] = {}
        self._decided: dict[int, None] = {}
        #: By round, why it was aborted, and which ranks know.
        self._aborted: dict[int, tuple[str, set[int]]] = {}

    def member(self, rank: int) -> Collective:
        """Return the Collective of one replica."""
        check_rank(rank, self._size)
        return _Member(self, rank, self._size)

    def give(self, rank: int, key: tuple[int, ...], array: np.ndarray) -> concurrent.futures.Future[np.ndarray]:
        """Add what a replica gives; return the future of the sum."""
        future, add_up = self.collect(rank, key, array)
        if add_up is not None:
            add_up()
        return future

    def collect(
        self, rank: int, key: tuple[int, ...], array: np.ndarray
    ) -> tuple[concurrent.futures.Future[np.ndarray], Callable[[], None] | None]:
        """Add what a replica gives; return the future of the sum, and what makes it once all have given theirs."""
        future: concurrent.futures.Future[np.ndarray] = concurrent.futures.Future()
        with self._lock:
            if key[0] in self._aborted:
                future.set_exception(ReplicaError(self._aborted[key[0]][0]))
                return future, None
            if key[0] in self._decided:
                future.set_exception(ReplicaError(f"round {key[0]} of this group is over: a new run needs a new group"))
                return future, None
            waiting = self._waiting.setdefault(key, {})
            waiting[rank] = array, future
            if len(waiting) < self._size:
                return future, None
            del self._waiting[key]
            if len(key) == 1:
                self._decided[key[0]] = None
                while len(self._decided) > _REMEMBERED:
                    del self._decided[next(iter(self._decided))]
        return future, partial(_resolve, key, [waiting[each] for each in range(self._size)])

    def held_bytes(self) -> int:
        """Return the bytes of the arrays that wait for those of other replicas."""
        with self._lock:
            return sum(array.nbytes for waiting in self._waiting.values() for array, _ in waiting.values())

    def abort(self, rank: int, round_number: int, reason: str) -> bool:
        """End a round; see `Collective.abort`."""
        with self._lock:
            if round_number in self._decided:
                return False
            while len(self._aborted) > _REMEMBERED:
                # Replicas are within a round of each other: the oldest are asked for no more.
                del self._aborted[next(iter(self._aborted))]
            reason, ranks = self._aborted.setdefault(round_number, (reason, set()))
            ranks.add(rank)
            if len(ranks) == self._size:
                # All know: nobody asks for this round any more.
                del self._aborted[round_number]
            ended = [self._waiting.pop(key) for key in list(self._waiting) if key[0] == round_number]
        for waiting in ended:
            for _, future in waiting.values():
                if future.set_running_or_notify_cancel():
                    future.set_exception(ReplicaError(reason))
        return True


@final
class _Member:
    """A Collective of an InProcessGroup."""

    __slots__ = ("_group", "rank", "size")

    def __init__(self, group: InProcessGroup, rank: int, size: int) -> None:
        self._group = group
        self.rank: int = rank
        self.size: int = size

    async def all_reduce(self, key: tuple[int, ...], array: np.ndarray) -> np.ndarray:
        """Return the sum; see `Collective.all_reduce`."""
        return await asyncio.wrap_future(self._group.give(self.rank, key, array))

    def abort(self, round_number: int, reason: str) -> bool:
        """End a round; see `Collective.abort`."""
        return self._group.abort(self.rank, round_number, reason)


@final
class RemoteGroup:
    """Replicas in processes of their own, on any machines: their arrays are summed at one worker of a transport.

    Each replica makes one with the same arguments. If one fails, all raise `ReplicaError`, and so do those that wait
    for one that has died for `timeout` seconds, or whose worker is lost.

    Args:
        transport: carries the arrays; over HTTP the server must allow it, by `http_app(..., replicas=True)`.
        size: how many replicas there are.
        worker: the address of the worker where they meet.
        name: that of this run; another run, also of the same program, needs another one.
        timeout: how many seconds a replica waits for the others.
        secret: what the members know and nobody else; that of the first one decides. Over HTTP a group needs one.

    Example:
        >>> import asyncio, numpy as np, asyncgrad as ag
        >>> transport = ag.distributed.SimulatedTransport(["a"])
        >>> async def replica(rank):
        ...     group = ag.distributed.RemoteGroup(transport, 2, worker="a", name="run 7")
        ...     return await group.member(rank).all_reduce((1, 0), np.array([1.0, rank]))
        >>> async def main():
        ...     return await asyncio.gather(replica(0), replica(1))
        >>> ag.run(main())
        [array([2., 1.]), array([2., 1.])]
    """

    def __init__(
        self,
        transport: Transport,
        size: int,
        *,
        worker: str,
        name: str,
        timeout: float = 600.0,
        secret: str | None = None,
    ) -> None:
        self.transport: Transport = transport
        self.size: int = whole_number(size, "size", 1)
        self.worker: str = worker
        self.name: str = name
        self.timeout: float = number(timeout, "timeout", 0)
        if secret is not None and not isinstance(secret, str):
            raise ArgumentTypeError(must_be("secret", "a string, as secrets.token_urlsafe() makes one", secret))
        self._secret = {} if secret is None else {"secret": check_text(secret, "secret")}

    def member(self, rank: int) -> Collective:
        """Return the Collective of one replica."""
        check_rank(rank, self.size)
        return _RemoteMember(self, rank)

    async def close(self) -> None:
        """Have the worker forget the group; when all replicas have ended."""
        reply = await self.transport.call(
            self.worker, Request("drop", self.name, {**self.secret_fields(), "group": True})
        )
        if (error := reply.fields.get("error")) is not None:
            raise restore_error(error, self.worker, self.transport.load_error)

    def secret_fields(self) -> dict[str, object]:
        """Return what requests say besides: the secret, if there is one."""
        return dict(self._secret)


@final
class _RemoteMember:
    """A Collective of a RemoteGroup."""

    __slots__ = ("_group", "rank", "size")

    def __init__(self, group: RemoteGroup, rank: int) -> None:
        self._group = group
        self.rank: int = rank
        self.size: int = group.size

    async def all_reduce(self, key: tuple[int, ...], array: np.ndarray) -> np.ndarray:
        """Return the sum; see `Collective.all_reduce`."""
        group = self._group
        check_size([array], group.transport.max_bytes, "a bucket of gradients")
        try:
            async with asyncio.timeout(group.timeout):
                reply = await self._ask("all_reduce", {"key": list(key)}, [array])
        except TimeoutError:
            reason = f"replica {self.rank} has waited {group.timeout:g} s for the others"
            await self.abort(key[0], reason)
            raise ReplicaError(reason) from None
        reduced: np.ndarray = reply.arrays[0]
        return reduced

    async def abort(self, round_number: int, reason: str) -> bool:
        """End a round; see `Collective.abort`."""
        try:
            reply = await self._ask("abort", {"round": round_number, "reason": reason}, [])
        except ReplicaError:
            # Where the others meet is lost: they raise by themselves.
            return True
        return bool(reply.fields["aborted"])

    async def _ask(self, op: str, fields: dict[str, Any], arrays: list[Any]) -> Any:
        group = self._group
        request = Request(
            op, group.name, {"rank": self.rank, "size": self.size, **group.secret_fields(), **fields}, arrays
        )
        try:
            reply = await group.transport.call(group.worker, request)
        except WorkerLostError as lost:
            raise ReplicaError(f"the worker where replicas meet is lost: {lost}") from lost
        error = reply.fields.get("error")
        if error is not None:
            raise restore_error(error, group.worker, group.transport.load_error)
        return reply


@final
class GroupHost:
    """Where the replicas of a RemoteGroup meet: answers what they ask.

    Args:
        size: how many replicas there are.
        secret: that of the first member; None for none.
    """

    __slots__ = ("_futures", "_group", "_secret", "_size", "touched")

    def __init__(self, size: int, secret: str | None = None) -> None:
        self._size = size
        self._secret = secret
        self._group = InProcessGroup(size)
        #: By rank and key, for a request that comes twice; those of rounds that a replica has ended are dropped.
        self._futures: dict[tuple[int, tuple[int, ...]], concurrent.futures.Future[np.ndarray]] = {}
        #: When somebody has asked for anything last.
        self.touched = 0.0

    def held_bytes(self) -> int:
        """Return the bytes of arrays that replicas have given, and some for each round that is remembered."""
        arrays = list(self._futures.values())
        done = [one.result() for one in arrays if one.done() and not one.cancelled() and one.exception() is None]
        return sum(one.nbytes for one in done) + _KEY_BYTES * (len(arrays) + self._size) + self._group.held_bytes()

    def check(self, secret: Any) -> None:
        """Raise unless a secret is that of the group.

        Raises:
            PermissionError: it is another.
        """
        check_secret(self._secret or "", secret if isinstance(secret, str) else "")

    async def answer(self, request: Request) -> Reply:
        """Answer a request of a replica."""
        fields = request.fields
        self.check(fields.get("secret"))
        rank, size = fields["rank"], fields["size"]
        if size != self._size or not 0 <= rank < size:
            raise ReplicaError(f"this group has {self._size} replicas, and one says that it is number {rank} of {size}")
        if request.op == "abort":
            return Reply({"aborted": self._group.abort(rank, fields["round"], fields["reason"])})
        key, (array,) = tuple(fields["key"]), request.arrays
        if array is None:
            raise ReplicaError(f"replica {rank} gives no array under {key}")
        future = self._futures.get((rank, key))
        if future is None:
            for known in [one for one in self._futures if one[0] == rank and one[1][0] < key[0]]:
                del self._futures[known]
            future, add_up = self._group.collect(rank, key, array)
            self._futures[rank, key] = future
            if add_up is not None:
                # All wait for it, whoever of them may go.
                _ = start_lasting(compute(add_up, self._size * array.nbytes), "sum the arrays of replicas")
        # Whoever waits may go: what it has given is given.
        loop = asyncio.get_running_loop()
        ended = loop.create_future()
        future.add_done_callback(lambda _: loop.is_closed() or loop.call_soon_threadsafe(wake, ended))
        await ended
        return Reply({}, [future.result()])


def check_secret(known: str, given: str) -> None:
    """Raise unless a secret is that of a group, in a time that tells nothing of it.

    Raises:
        PermissionError: it is another.
    """
    if not hmac.compare_digest(known.encode(), given.encode()):
        raise PermissionError("this group has another secret: make each RemoteGroup with the same secret=...")


def check_rank(rank: int, size: int) -> None:
    """Raise unless a replica has a place in a group of `size`."""
    if not 0 <= whole_number(rank, "rank") < size:
        raise ArgumentError(f"rank is a number from 0 to {size - 1}, not {rank}")


def _resolve(key: tuple[int, ...], given: list[tuple[np.ndarray, Any]]) -> None:
    """Give all replicas the sum, or the error that there is none."""
    kinds = list(dict.fromkeys((array.shape, array.dtype.str) for array, _ in given))
    error = None if len(kinds) == 1 else ReplicaError(f"replicas give arrays of different kinds under {key}: {kinds}")
    total = given[0][0]
    if error is None:
        for index, (array, _) in enumerate(given[1:]):
            # The first array belongs to its replica.
            total = np.add(total, array) if index == 0 or not total.shape else np.add(total, array, out=total)
    for _, future in given:
        if not future.set_running_or_notify_cancel():
            continue
        if error is None:
            future.set_result(total)
        else:
            future.set_exception(error)
