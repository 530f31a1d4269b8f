"""Answers of a language model in a file: what has been answered once is not asked again, and a run can be replayed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple, final


class Answer(NamedTuple):
    """What the model said, and the tokens that the request and the answer took."""

    text: str
    tokens: int


@final
class AnswersError(LookupError):
    """A file of answers cannot be read, or has no answer to a request of a run that is replayed."""


@final
class Answers:
    """Answers by their requests, in memory and as lines of JSON in a file.

    The file is a cache for later runs. With `replay=True` it is the whole world: nothing else may be asked.

    Args:
        path: the file; None keeps the answers in memory alone.
        replay: whether a request without an answer is an error.

    Raises:
        FileNotFoundError: there is no file to replay.
        AnswersError: a line of the file is no answer.
    """

    def __init__(self, path: Path | None = None, *, replay: bool = False) -> None:
        self.path, self.replay = path, replay
        self._kept: dict[str, Answer] = {}
        if path is None:
            return
        if replay or path.exists():
            # A process that was killed may have left half a line, which the next one must not be appended to.
            whole, _, torn = path.read_bytes().rpartition(b"\n")
            for number, line in enumerate(whole.splitlines(), 1):
                try:
                    entry = json.loads(line)
                    self._kept[key_of(entry["request"])] = Answer(entry["answer"], entry["tokens"])
                except (ValueError, TypeError, KeyError) as error:
                    raise AnswersError(
                        f"line {number} of {path} is no answer: name another file, or mend it"
                    ) from error
            if torn and not replay:
                path.write_bytes(whole + b"\n" if whole else b"")

    def find(self, request: dict[str, Any]) -> Answer | None:
        """Return the answer to a request, or None.

        Raises:
            AnswersError: there is none, and a run is replayed.
        """
        found = self._kept.get(key_of(request))
        if found is None and self.replay:
            raise AnswersError(
                f"{self.path} has no answer to this request: {key_of(request)}\n"
                "Replay with the model and the options with which the file was written, or run without --replay"
            )
        return found

    def keep(self, request: dict[str, Any], answer: Answer) -> None:
        """Keep an answer; it is in the file when this returns."""
        self._kept[key_of(request)] = answer
        if self.path is not None:
            line = json.dumps({"request": request, "answer": answer.text, "tokens": answer.tokens})
            with self.path.open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")

    def __len__(self) -> int:
        return len(self._kept)


def key_of(request: dict[str, Any]) -> str:
    """Return a text that two requests have in common if they are the same."""
    return json.dumps(request, sort_keys=True)
