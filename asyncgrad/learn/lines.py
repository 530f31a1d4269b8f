"""The lines of a journal: a checksum, the length of what follows, and JSON; and what a crash makes of the last one."""

from __future__ import annotations

import json
import re
import zlib
from typing import Any, NamedTuple

from .encoding import array_as_text, array_of_text, decode, encode

__all__ = ["Record", "is_torn", "line_of", "record_of"]


class Record(NamedTuple):
    """What a line says of a step; or, without examples, of a change of settings, a rollback, or a pause.

    Lines of the first format have neither a journal, nor settings, nor a loss, and those of the second no position.
    """

    #: The name of the journal, which the checkpoint before it has told.
    journal: str | None
    #: How many examples were learned before.
    learned: int
    #: Those of the step, each a tree as `encode` takes it.
    examples: list[Any]
    #: What holds from this step on, in the form of `Settings.text`; None if nothing has changed.
    settings: str | None = None
    #: The loss of the step.
    loss: float | None = None
    #: How many lines the directory has had before, since it was made.
    position: int | None = None
    #: The position of the line whose examples are learned once more.
    again: int | None = None
    #: The version that holds from here on: its name ("to"), its "id", how many examples it has "learned", and what
    #: becomes of the "examples" that it has not, a `Choice`.
    rollback: dict[str, Any] | None = None
    #: The position of a line that was to be learned once more, could not, and is kept.
    keep: int | None = None
    #: Why nothing is learned from here on; empty where it is again.
    paused: str | None = None
    #: The settings that the code gave at the start, if they have changed.
    code: str | None = None


def line_of(record: Record) -> bytes:
    """Return the line of a record, with its end."""
    encoded = [encode(example, array_as_text, "example") for example in record.examples]
    given = {name: value for name, value in record._asdict().items() if value is not None}
    text = json.dumps({**given, "examples": encoded}).encode()
    body = b"%d %s" % (len(text), text)
    return b"%08x %s\n" % (zlib.crc32(body), body)


def record_of(line: bytes) -> Record:
    """Return what a line says.

    Raises:
        ValueError: it is damaged.
    """
    text = _text(line.removesuffix(b"\n"))
    if text is None:
        raise ValueError("its checksum is wrong")
    try:
        found = json.loads(text)
        examples = [decode(example, array_of_text) for example in found.pop("examples")]
        record = Record(found.pop("journal", None), found.pop("learned"), examples, **found)
    except Exception as error:
        raise ValueError(f"it says something else than a step: {error!r}") from error
    if type(record.learned) is not int:
        raise ValueError(f"it says something else than a step: {record.learned!r} examples learned")
    if any(type(value) not in (int, type(None)) for value in (record.position, record.again, record.keep)):
        raise ValueError("it says something else than a step: its positions are no numbers")
    if record.rollback is not None and not {"to", "id", "learned", "examples"} <= set(record.rollback):
        raise ValueError(f"it says something else than a rollback: {record.rollback!r}")
    return record


def _text(line: bytes) -> bytes | None:
    """Return the JSON of a line without its end; None if the checksum is wrong."""
    checksum, _, body = line.partition(b" ")
    if checksum != b"%08x" % zlib.crc32(body):
        return None
    # Lines of the first format have no length.
    return body if body.startswith(b"{") else body.partition(b" ")[2]


#: What a line may begin with that ends within its head; and a whole head.
_PART_OF_HEAD = re.compile(rb"[0-9a-f]{0,7}|[0-9a-f]{8}(?: \d*)?")
_HEAD = re.compile(rb"[0-9a-f]{8} (\d{1,18}) ")


def is_torn(line: bytes) -> bool:
    """Return whether a line is as a crash leaves one that was not acknowledged; if so, it is the last of the file.

    The file ends within the line, or has grown for it and was not filled. Where all bytes are there and some of them
    are others, zeros too, it may have been acknowledged.
    """
    if line.endswith(b"\n"):
        return False
    if not line.strip(b"\0") or _PART_OF_HEAD.fullmatch(line):
        return True
    head = _HEAD.match(line)
    if head is not None:
        # With its end, it has one byte more.
        return len(line) <= head.end() + int(head[1])
    # The first format does not tell its length. Without the last character, it may be right.
    return line[8:10] == b" {" and not line.endswith(b"\0") and _text(line[:-1]) is None
