"""The messages between a stage at home and its host, and the Transport protocol that carries them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, final, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from .definition import Definition


__all__ = ["MOST_LISTED", "Reply", "Request", "Transport"]

#: How many calls, transactions or effects a home names in one list of a request: what it has to say beyond that comes
#: with the next. A server of clients that it does not trust refuses more.
MOST_LISTED = 4096


@final
@dataclass(frozen=True, slots=True)
class Request:
    """What a stage asks of its host: an operation, small JSON fields, and arrays.

    Example:
        >>> from asyncgrad.distributed import Request
        >>> Request("ping", "stage-1").arrays
        []
    """

    #: One of the operations of `StageHost`.
    op: str
    #: The name of the stage; unique among all homes.
    stage: str
    #: JSON; in "create" also the definition, in whatever form `Transport.export` gave it.
    fields: dict[str, Any] = field(default_factory=dict)
    #: The arrays that skeletons in `fields` refer to; None for a gradient that is not there.
    arrays: list[np.ndarray | None] = field(default_factory=list)


@final
@dataclass(frozen=True, slots=True)
class Reply:
    """What a host answers: JSON fields, `error` among them where the request failed, and arrays.

    Example:
        >>> from asyncgrad.distributed import Reply
        >>> Reply().fields
        {}
    """

    fields: dict[str, Any] = field(default_factory=dict)
    arrays: list[np.ndarray | None] = field(default_factory=list)


@runtime_checkable
class Transport(Protocol):
    """Abstract: carries requests to the hosts of stages, each known by the address of its worker.

    A transport need not keep order, and may deliver a request late, and twice: each says by its numbers whether it
    still counts. It must tell a worker that is lost from one that is slow. All methods may be called from any event
    loop.

    Example:
        >>> import asyncgrad as ag
        >>> isinstance(ag.distributed.SimulatedTransport(["a"]), ag.distributed.Transport)
        True
    """

    #: The most bytes that the arrays of a message may have.
    max_bytes: int

    def export(self, definition: Definition) -> object:
        """Return the form in which the definition of a stage travels; called once for each stage."""
        ...

    def load_error(self, data: bytes) -> Any:
        """Return what a host has pickled of an exception; None where the hosts are not trusted with that."""
        ...

    async def workers(self) -> Sequence[str]:
        """Return the addresses of the workers that are there."""
        ...

    async def call(self, worker: str, request: Request) -> Reply:
        """Return the reply of a worker. A call that is cancelled need not reach it.

        Raises:
            WorkerLostError: the worker has gone, or does not answer.
            ArgumentError: there has never been such a worker.
        """
        ...

    def send(self, worker: str, request: Request) -> None:
        """Send a request whose reply nobody needs; from any thread, never suspends, and raises nothing."""
        ...
