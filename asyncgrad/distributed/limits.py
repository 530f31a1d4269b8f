"""Limits: what a client of `http_app` may hold and have under way, and the errors that tell it so."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import final

from ..core.settings.arguments import whole_number
from ..errors import BusyError

__all__ = ["Limits"]


@final
@dataclass(frozen=True, slots=True)
class Limits:
    """The figures of `http_app`, each for one client; where there is no authentication, all are one client."""

    max_stages: int
    max_calls: int
    max_transactions: int
    max_requests: int
    max_held_bytes: int
    max_groups: int

    def __post_init__(self) -> None:
        for one in fields(self):
            whole_number(getattr(self, one.name), one.name, 1)

    def check_count(self, count: int, name: str, what: str, instead: str) -> None:
        """Raise if a client would have more of something than it may.

        Args:
            count: how many there would be.
            name: the name of the limit.
            what: what is counted.
            instead: what the client may do.

        Raises:
            BusyError: there are more than the limit.
        """
        limit = getattr(self, name)
        if count > limit:
            raise BusyError(f"a client may have {limit} {what} here ({name}): {instead}")

    def check_held(self, size: int) -> None:
        """Raise if a client would hold more bytes than it may.

        Raises:
            BusyError: it would.
        """
        if size > self.max_held_bytes:
            raise BusyError(
                f"with this a client would hold {size} bytes here, and may hold {self.max_held_bytes} "
                "(max_held_bytes): run the backward of earlier calls, or close stages"
            )
