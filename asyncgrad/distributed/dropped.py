"""DroppedStages: up to which attempt stages were dropped: a request to create one that comes late is refused."""

from __future__ import annotations

from typing import final

__all__ = ["DroppedStages"]

#: How many stages of one client are remembered.
_REMEMBERED = 4096


@final
class DroppedStages:
    """Remembers for each client the stages that were dropped last, whether they were here or not.

    Each client has a number of its own, so that none pushes out what another one has dropped.

    Example:
        >>> from asyncgrad.distributed.dropped import DroppedStages
        >>> dropped = DroppedStages()
        >>> dropped.note("alice", "one", 2, 0.0)
        >>> dropped.attempt("alice", "one"), dropped.attempt("bob", "one")
        (2, 0)
    """

    __slots__ = ("_by_client",)

    def __init__(self) -> None:
        #: By client and name: the attempt, and when it was dropped; the latest last.
        self._by_client: dict[str, dict[str, tuple[int, float]]] = {}

    def __len__(self) -> int:
        """Return how many are remembered."""
        return sum(map(len, self._by_client.values()))

    def note(self, client: str, name: str, attempt: int, now: float) -> None:
        """Note that a stage was dropped, of an attempt and all before it."""
        known = self._by_client.setdefault(client, {})
        known[name] = max(attempt, known.pop(name, (0, now))[0]), now
        if len(known) > _REMEMBERED:
            del known[next(iter(known))]

    def attempt(self, client: str, name: str) -> int:
        """Return up to which attempt a stage was dropped; 0 for none."""
        known = self._by_client.get(client)
        return 0 if known is None else known.get(name, (0, 0.0))[0]

    def expire(self, before: float) -> None:
        """Forget what was dropped before some time: no message is as late."""
        for client, known in list(self._by_client.items()):
            while known and known[oldest := next(iter(known))][1] < before:
                del known[oldest]
            if not known:
                del self._by_client[client]
