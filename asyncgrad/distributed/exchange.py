"""One request over HTTP and its reply, which may be given up at any moment without a connection that is never closed.

httpx cancels well while a message is on its way. A cancellation that comes while it takes a connection from its pool,
opens one, or gives one back, leaves that in the pool for ever, with its descriptor. So what httpx does for a request is
a task of its own, which is cancelled where it can be: as soon as the message is on its way.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping
from typing import Any, final

from ..core.engine.eager_task import EagerTask, start_task
from ..errors import RemoteError
from .concurrency import retrieve, wait_until_done
from .wire import read_bytes

__all__ = ["Exchange", "reply_to"]

#: The encoding of what is sent as it is.
_PLAIN = "identity"

#: What httpx tells of while a cancellation closes the connection, and takes it out of the pool.
_MAY_BE_CANCELLED = (
    "send_request_headers.started",
    "send_request_body.started",
    "receive_response_headers.started",
    "receive_response_body.started",
)


async def reply_to(
    new_exchange: Callable[[], Exchange], lost: tuple[type[Exception], ...], limit: int, what: str
) -> tuple[int, bytearray]:
    """Return the status and the bytes of the reply to a request that may arrive twice.

    The other side may have ended a kept connection, and others beside it. httpx forgets each as that shows, so that the
    last try goes over a new one.

    Args:
        new_exchange: makes the request.
        lost: what httpx raises where a connection has failed.
        limit: as for `Exchange.run`.
        what: likewise.

    Raises:
        PayloadError: the reply is too long. And what httpx raises for the last try.
    """
    while True:
        exchange = new_exchange()
        try:
            return await exchange.run(limit, what)
        except lost:
            if not exchange.is_over_kept_connection:
                raise


@final
class Exchange:
    """A request, and the bytes of its reply.

    Args:
        client: the httpx.AsyncClient.
        url: what is asked.
        body: the request.
        headers: those of the request.
        timeout: the httpx.Timeout.
        patience: how many seconds what was given up may take until it can be cancelled; it is cancelled anyhow then.
        given_up: where to keep the tasks of requests that were given up, until they have ended.
        method: that of HTTP.
    """

    __slots__ = (
        "_body",
        "_client",
        "_given_up",
        "_has_begun",
        "_headers",
        "_is_given_up",
        "_may_be_cancelled",
        "_method",
        "_patience",
        "_timeout",
        "_url",
        "is_over_kept_connection",
    )

    def __init__(
        self,
        client: Any,
        url: str,
        body: bytes,
        *,
        headers: Mapping[str, str],
        timeout: Any,
        patience: float,
        given_up: set[EagerTask],
        method: str = "POST",
    ) -> None:
        self._client = client
        self._url = url
        self._body = body
        self._method = method
        self._headers = headers
        self._timeout = timeout
        self._patience = patience
        self._given_up = given_up
        self._is_given_up = False
        self._may_be_cancelled = False
        self._has_begun = False
        #: Whether the request goes over a connection that had been kept from one before. The other side may have ended
        #: that long ago, which shows only now.
        self.is_over_kept_connection: bool = False

    async def run(self, limit: int, what: str) -> tuple[int, bytearray]:
        """Return the status and the bytes of the reply.

        Args:
            limit: how many bytes the reply may have.
            what: what errors call it.

        Raises:
            PayloadError: it has more.
        """
        task = start_task(self._ask(limit, what), contextvars.copy_context(), "an HTTP request")
        try:
            await wait_until_done(task)
        except asyncio.CancelledError:
            self._give_up(task)
            raise
        found: tuple[int, bytearray] = task.result()
        return found

    def _give_up(self, task: EagerTask) -> None:
        if task.done():
            retrieve(task)
            return
        self._is_given_up = True
        self._given_up.add(task)
        task.add_done_callback(self._given_up.discard)
        task.add_done_callback(retrieve)
        if self._may_be_cancelled:
            task.cancel()
        else:
            # Where it is not told what httpx does, as by a transport of the user's own, this alone ends it.
            late = task.get_loop().call_later(self._patience, task.cancel)
            task.add_done_callback(lambda _: late.cancel())

    async def _ask(self, limit: int, what: str) -> tuple[int, bytearray]:
        options = {
            "content": self._body,
            "headers": {**self._headers, "accept-encoding": _PLAIN},
            "timeout": self._timeout,
            "extensions": {"trace": self._note},
        }
        async with self._client.stream(self._method, self._url, **options) as response:
            if response.headers.get("content-encoding", _PLAIN) != _PLAIN:
                # A few bytes may be gigabytes once they are decoded, and no limit is looked at before that
                # (test_a_reply_that_is_compressed_is_not_decoded).
                raise RemoteError(f"{what} is compressed, which was not asked for, and is not decoded")
            return response.status_code, await read_bytes(response.aiter_bytes(), limit, what)

    async def _note(self, event: str, _: Mapping[str, Any]) -> None:
        """Note what httpx begins or has done; it awaits this."""
        if not self._has_begun:
            # The first event is that of a new connection, where there is to be one.
            self._has_begun = True
            self.is_over_kept_connection = not event.startswith("connection.")
        self._may_be_cancelled = event.endswith(_MAY_BE_CANCELLED)
        if self._may_be_cancelled and self._is_given_up:
            self._is_given_up = False
            raise asyncio.CancelledError
