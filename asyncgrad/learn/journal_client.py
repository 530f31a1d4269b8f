"""The journal of a learner on another machine, over HTTP: what `http.journal_app` sends."""

from __future__ import annotations

import asyncio
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, final

from ..core.settings.arguments import must_be
from ..core.settings.extras import missing_extra
from ..errors import ArgumentError, ArgumentTypeError, ModelDirectoryError
from .checkpoint_file import read_checkpoint
from .journal_app import GONE, JOURNAL, NOT_FOUND, OFFSET, OK, SIZE, TAG, UNAUTHORIZED
from .journal_reader import JournalPart, Position

__all__ = ["UrlSource"]

#: The seconds in which the learner's machine must go on answering.
TIMEOUT = 10.0

#: How often a checkpoint may be replaced while it is sent, and a connection be cut before its answer.
MOST_TRIES = 5


@final
class UrlSource:
    """What a learner's `journal_app` sends; a checkpoint comes in parts, into a temporary file.

    Args:
        url: where the application is mounted.
        key: the one that it has.

    Raises:
        ArgumentError, ArgumentTypeError: the key is missing, or none.
        ModuleNotFoundError: httpx is not installed.
    """

    def __init__(self, url: str, key: Any) -> None:
        if key is None:
            raise ArgumentError("a URL is followed with the key that the learner's journal_app has: write key=...")
        if not isinstance(key, str):
            raise ArgumentTypeError(must_be("key", "a str", key))
        try:
            self._httpx: Any = import_module("httpx")
        except ImportError as error:
            raise missing_extra("follow() of a URL needs httpx", "serve", error=error) from error
        self._url, self._headers = url.rstrip("/"), {"authorization": f"Bearer {key}"}
        #: Made when it is needed: it belongs to the event loop.
        self._client: Any = None

    async def checkpoint(self) -> dict[str, Any]:
        """Return the content of the checkpoint.

        Raises:
            ModelDirectoryError: the learner refuses the key, or sends something else than a checkpoint.
            OSError: it cannot be reached.
        """
        found = await self._load("checkpoint")
        if found is None:
            raise ModelDirectoryError(f"{self._url}/checkpoint is not there: mount learn.http.journal_app(learner)")
        return found

    async def version(self, name: str) -> dict[str, Any] | None:
        """Return the content of a version; None if there is none of that name any more."""
        return await self._load(f"versions/{name}")

    async def read(self, position: Position) -> JournalPart | None:
        """Return what follows a position; None if only a checkpoint leads on from there.

        Raises:
            ModelDirectoryError: the learner refuses the key.
            OSError: it cannot be reached.
        """
        names = {"journal": position.journal or "", "checksum": position.checksum.decode()}
        answer = await self._get("lines", {**names, "offset": position.offset, "last": position.last})
        if answer.status_code == GONE:
            return None
        headers = self._checked(answer)
        is_same = headers[JOURNAL] == (position.journal or "")
        begin = position if is_same else Position(headers[JOURNAL] or None)
        return JournalPart(begin, answer.content, int(headers[SIZE]))

    async def fence(self) -> bool:
        """Have the learner acknowledge nothing more; return whether it could be reached.

        Raises:
            ModelDirectoryError: it refuses the key.
            OSError: it could not write that down.
        """
        try:
            answer = await self._ask("POST", "fence")
        except ConnectionError:
            return False
        self._check_status(answer)
        return True

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()

    async def _load(self, what: str) -> dict[str, Any] | None:
        with tempfile.TemporaryDirectory(prefix="asyncgrad-") as folder:
            path = Path(folder) / "checkpoint.npz"
            for _ in range(MOST_TRIES):
                with path.open("wb") as file:
                    is_whole = await self._receive(what, file)
                if is_whole is None:
                    return None
                if is_whole:
                    return await asyncio.to_thread(read_checkpoint, path)
        raise OSError(
            f"{self._url}/{what} was replaced {MOST_TRIES} times while it was sent: raise the learner's "
            "checkpoint_every, or journal_app's max_bytes"
        )

    async def _receive(self, what: str, file: BinaryIO) -> bool | None:
        """Write a file of the learner's; return whether it is whole, and None if it is not there."""
        offset, tag = 0, ""
        while True:
            answer = await self._get(what, {"offset": offset, "tag": tag})
            if answer.status_code == NOT_FOUND:
                return None
            if answer.status_code == GONE:
                return False
            headers = self._checked(answer)
            await asyncio.to_thread(file.write, answer.content)
            offset, tag = offset + len(answer.content), headers[TAG]
            if offset >= int(headers[SIZE]):
                return True
            if not answer.content:
                raise OSError(f"{self._url}/{what} sends nothing from byte {offset} on")

    async def _get(self, what: str, query: dict[str, Any]) -> Any:
        return await self._ask("GET", what, params=query)

    async def _ask(self, method: str, what: str, **options: Any) -> Any:
        if self._client is None:
            self._client = self._httpx.AsyncClient(headers=self._headers, timeout=TIMEOUT)
        was_cut, tries = (self._httpx.RemoteProtocolError, self._httpx.ReadError), MOST_TRIES
        while True:
            tries -= 1
            try:
                return await self._client.request(method, f"{self._url}/{what}", **options)
            except self._httpx.HTTPError as error:
                # A request that was cut off, as by a proxy, may have arrived: to send any of them again does no harm.
                if tries and isinstance(error, was_cut):
                    continue
                raise ConnectionError(f"{self._url} cannot be reached: {error or type(error).__name__}") from error
            except self._httpx.InvalidURL as error:
                raise ArgumentError(f"{self._url} is no URL: {error}") from error

    def _checked(self, answer: Any) -> Any:
        """Return the headers of an answer.

        Raises:
            ModelDirectoryError, OSError: it is none of a learner's.
        """
        self._check_status(answer)
        if OFFSET not in answer.headers or not answer.headers.get(SIZE, "").isdigit():
            raise ModelDirectoryError(f"{self._url} is no learn.http.journal_app: say where that is mounted")
        return answer.headers

    def _check_status(self, answer: Any) -> None:
        if answer.status_code == UNAUTHORIZED:
            raise ModelDirectoryError(f"{self._url} refuses the key: give the one that its journal_app has")
        if answer.status_code != OK:
            raise OSError(f"{self._url} answers with {answer.status_code}: {answer.text[:200]}")
