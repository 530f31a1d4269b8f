"""OpenStages: the stages that a transport has had made, and not dropped: they end when it is closed."""

from __future__ import annotations

from typing import final

from .transport import Request

__all__ = ["OpenStages"]


@final
class OpenStages:
    """Keeps the workers and names of stages that may be there, by the requests that a transport sends.

    Example:
        >>> from asyncgrad.distributed import Request
        >>> from asyncgrad.distributed.open_stages import OpenStages
        >>> found = OpenStages()
        >>> found.note("a", Request("create", "one", {"attempt": 1}))
        >>> [(worker, request.op) for worker, request in found.take()], found.take()
        ([('a', 'drop')], [])
    """

    __slots__ = ("_attempts",)

    def __init__(self) -> None:
        self._attempts: dict[tuple[str, str], int] = {}

    def note(self, worker: str, request: Request) -> None:
        """Note a request before it is sent: a stage may be there also if no reply comes."""
        if request.op not in ("create", "drop"):
            return
        place, attempt = (worker, request.stage), request.fields.get("attempt", 0)
        if request.op == "create":
            self._attempts[place] = max(attempt, self._attempts.get(place, 0))
        elif attempt >= self._attempts.get(place, 0):
            self._attempts.pop(place, None)

    def take(self) -> list[tuple[str, Request]]:
        """Return the requests that drop them, each with its worker, and forget them."""
        taken, self._attempts = self._attempts, {}
        return [(worker, Request("drop", stage, {"attempt": attempt})) for (worker, stage), attempt in taken.items()]
