"""Collective: how replicas sum arrays; and InProcessGroup, for replicas that are tasks or threads of one process."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from typing import Any, Protocol, final, runtime_checkable

import numpy as np

from ..arguments import whole_number
from ..errors import ArgumentError, ReplicaError

__all__ = ["Collective", "InProcessGroup"]

#: How many rounds that were decided are remembered: a replica is at most one round ahead of the others.
_REMEMBERED = 64


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

    def abort(self, round_number: int, reason: str) -> bool:
        """End a round without success, for all replicas; return False if its vote is complete, which stays so."""
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
        if not 0 <= whole_number(rank, "rank") < self._size:
            raise ArgumentError(f"rank is a number from 0 to {self._size - 1}, not {rank}")
        return _Member(self, rank, self._size)

    def give(self, rank: int, key: tuple[int, ...], array: np.ndarray) -> concurrent.futures.Future[np.ndarray]:
        """Add what a replica gives; return the future of the sum."""
        future: concurrent.futures.Future[np.ndarray] = concurrent.futures.Future()
        with self._lock:
            if key[0] in self._aborted:
                future.set_exception(ReplicaError(self._aborted[key[0]][0]))
                return future
            waiting = self._waiting.setdefault(key, {})
            waiting[rank] = array, future
            if len(waiting) < self._size:
                return future
            del self._waiting[key]
            if len(key) == 1:
                self._decided[key[0]] = None
                while len(self._decided) > _REMEMBERED:
                    del self._decided[next(iter(self._decided))]
        _resolve(key, [waiting[each] for each in range(self._size)])
        return future

    def abort(self, rank: int, round_number: int, reason: str) -> bool:
        """End a round; see `Collective.abort`."""
        with self._lock:
            if round_number in self._decided:
                return False
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
