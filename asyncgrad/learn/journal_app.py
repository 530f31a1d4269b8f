"""What a learner's service sends to followers on other machines: its checkpoint, its versions, and its journal."""

from __future__ import annotations

import asyncio
import hmac
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, final

from ..core.settings.arguments import must_be, whole_number
from ..core.settings.extras import missing_extra
from ..errors import ArgumentError, ArgumentTypeError, LearnerClosedError, ModelDirectoryError
from .directory import CHECKPOINT, ModelDirectory
from .journal_reader import CHECKSUM_SIZE, JournalPart, JournalReader, Position
from .learner import Learner, files_of
from .versions import version_path

__all__ = ["JOURNAL", "OFFSET", "SIZE", "TAG", "app_of_journal"]

#: The headers of answers: the name of the journal, where the body begins, how long the whole is, and which file it is.
JOURNAL, OFFSET, SIZE, TAG = "asyncgrad-journal", "asyncgrad-offset", "asyncgrad-size", "asyncgrad-tag"

#: The least characters of a key.
_KEY_SIZE = 16

OK, BAD, UNAUTHORIZED, NOT_FOUND, GONE, UNAVAILABLE = 200, 400, 401, 404, 410, 503


class _FilePart(NamedTuple):
    """Some bytes of a file, where they begin, how long the file is, and which file it is."""

    data: bytes
    offset: int
    size: int
    tag: str


def app_of_journal(learner: Any, key: Any, max_bytes: Any, max_retained: Any) -> Callable[..., Awaitable[None]]:
    """Return the application: `http.journal_app` says what its arguments are."""
    if not isinstance(learner, Learner):
        raise ArgumentTypeError(must_be("learner", "a Learner", learner))
    if learner.directory is None:
        raise ArgumentError("this learner has no journal to follow: make it with directory=...")
    if not isinstance(key, str) or len(key) < _KEY_SIZE or not key.isascii():
        raise ArgumentError(
            f"key must be a str of {_KEY_SIZE} ASCII characters or more, such as secrets.token_urlsafe() makes: "
            "whoever has it reads all that the model learns from"
        )
    routes = _Routes(
        learner,
        learner.directory,
        key.encode(),
        whole_number(max_bytes, "max_bytes", 1),
        whole_number(max_retained, "max_retained", 0),
    )
    try:
        applications, routing = import_module("starlette.applications"), import_module("starlette.routing")
        routes.response = import_module("starlette.responses").Response
    except ImportError as error:
        raise missing_extra("journal_app() needs Starlette", "serve", error=error) from error
    listed = [
        routing.Route("/lines", routes.lines),
        routing.Route("/checkpoint", routes.checkpoint),
        routing.Route("/versions/{name}", routes.version),
        routing.Route("/fence", routes.fence, methods=["POST"]),
    ]
    app: Callable[..., Awaitable[None]] = applications.Starlette(routes=listed)
    return app


@final
class _Routes:
    """The answers to followers of one learner.

    Args:
        learner: the learner.
        path: its directory.
        key: what a follower must send.
        max_bytes: the most bytes of an answer.
        max_retained: the most bytes of the journal before that are kept in memory.
    """

    #: Starlette's Response.
    response: Any

    def __init__(self, learner: Learner, path: Path, key: bytes, max_bytes: int, max_retained: int) -> None:
        self._learner, self._path, self._key = learner, path, key
        self._max_bytes, self._max_retained = max_bytes, max_retained
        self._reader = JournalReader(path)

    async def lines(self, request: Any) -> Any:
        """Answer with what the journal has from a position on."""
        position = _position(request.query_params)
        if isinstance(position, str):
            return self.response(position, BAD)
        return await self._answer(request, self._read_lines, position)

    async def checkpoint(self, request: Any) -> Any:
        """Answer with a part of the checkpoint's file."""
        return await self._answer_file(request, self._path / CHECKPOINT)

    async def version(self, request: Any) -> Any:
        """Answer with a part of a version's file."""
        try:
            path = version_path(self._path, request.path_params["name"])
        except ModelDirectoryError:
            return self.response("no version has such a name", NOT_FOUND)
        return await self._answer_file(request, path)

    async def fence(self, request: Any) -> Any:
        """Have the learner acknowledge nothing more, and answer once all that it has acknowledged can be read."""
        answer = await self._answer(request, self._fence)
        if answer.status_code == OK:
            # It is written between two steps: no step that was acknowledged is under way any more.
            with suppress(OSError):
                await self._learner.checkpoint()
        return answer

    @staticmethod
    def _fence(directory: ModelDirectory) -> tuple[bytes, dict[str, str]]:
        directory.fence()
        return b"", {}

    async def _answer_file(self, request: Any, path: Path) -> Any:
        offset, tag = request.query_params.get("offset", "0"), request.query_params.get("tag", "")
        if not _is_whole(offset):
            return self.response("offset must be a whole number of bytes", BAD)
        return await self._answer(request, self._read_file, path, int(offset), tag)

    async def _answer(self, request: Any, read: Callable[..., Any], *args: Any) -> Any:
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not hmac.compare_digest(given.encode(), self._key):
            return self.response("the key is missing, or is another one", UNAUTHORIZED)
        directory = files_of(self._learner)
        if directory is None or not self._learner.is_running:
            return self.response("the learner does not run", UNAVAILABLE, {"Retry-After": "1"})
        try:
            data, headers = await asyncio.to_thread(read, directory, *args)
        except _Answered as answered:
            return self.response(answered.text, answered.status)
        except (OSError, ModelDirectoryError, LearnerClosedError):
            # Which files there are is nobody's business.
            return self.response("the learner's files cannot be read", UNAVAILABLE, {"Retry-After": "1"})
        return self.response(data, OK, headers, "application/octet-stream")

    def _read_lines(self, directory: ModelDirectory, position: Position) -> tuple[bytes, dict[str, str]]:
        directory.retains = self._max_retained
        part = self._of_journal_before(directory, position)
        if part is None:
            part = self._reader.read(position, self._max_bytes, directory.confirmed)
        if part is None:
            raise _Answered(GONE, "no journal goes on from there: load the checkpoint")
        begin = part.position
        return part.data, {JOURNAL: begin.journal or "", OFFSET: str(begin.offset), SIZE: str(part.size)}

    def _of_journal_before(self, directory: ModelDirectory, position: Position) -> JournalPart | None:
        """Return what follows a position in the journal whose place a checkpoint has taken; None if nothing does."""
        confirmed, retained = directory.confirmed, directory.retained
        if retained is None or retained[0] != position.journal or position.offset >= len(retained[1]):
            return None
        data = retained[1]
        if position.checksum and data[position.last : position.last + CHECKSUM_SIZE] != position.checksum:
            return None
        return JournalPart(position, data[position.offset :][: self._max_bytes], len(data) + confirmed[1])

    def _read_file(self, _: ModelDirectory, path: Path, offset: int, tag: str) -> tuple[bytes, dict[str, str]]:
        try:
            part = _part_of_file(path, offset, self._max_bytes)
        except FileNotFoundError:
            raise _Answered(NOT_FOUND, "there is none of that name") from None
        if tag and tag != part.tag:
            raise _Answered(GONE, "another one has taken its place: begin again")
        return part.data, {OFFSET: str(part.offset), SIZE: str(part.size), TAG: part.tag}


@final
class _Answered(Exception):
    """An answer that is no 200."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(status, text)
        self.status, self.text = status, text


def _position(given: Mapping[str, str]) -> Position | str:
    """Return the position that a query names, or what is wrong with it."""
    offset, last, checksum = given.get("offset", "0"), given.get("last", "0"), given.get("checksum", "")
    if not _is_whole(offset) or not _is_whole(last):
        return "offset and last must be whole numbers of bytes"
    if len(checksum) not in (0, CHECKSUM_SIZE) or not checksum.isascii():
        return f"checksum must be {CHECKSUM_SIZE} characters, or none"
    return Position(given.get("journal") or None, int(offset), int(last), checksum.encode())


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18


def _part_of_file(path: Path, offset: int, most: int) -> _FilePart:
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        file.seek(offset)
        tag = f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"
        return _FilePart(file.read(most), offset, found.st_size, tag)
