"""The text of a compiled backward under way: its lines, what each belongs to, and the constants that they name."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Mapping
from time import perf_counter
from typing import Any, final

from ...graph.heavy import Heavy
from ...graph.leaf import AccumulateGrad
from ...graph.metadata import conform
from ...graph.values import sum_into, sum_to
from ..body import run_here
from ..device import needs_care
from .careful import captured_at, careful
from .measured import is_for_a_worker, run_measured
from .program import Differs, Line, LineKind, pause

__all__ = ["Text"]

#: Python would take other letters for those that look like them.
_NOT_IN_NAMES = re.compile(r"^(?=\d|$)|\W", re.ASCII)
_PLACEHOLDER = re.compile(r"\$(\w+)")
#: What local names look like, and the parameters.
_LOCAL = re.compile(
    r"[nghstlx]\d+|_|task|deadline|limits|captured|whole|leaves|left|grads|state|base|pieces|piece\d+|backward"
)


@final
class Text:
    """Lines of source, each with what an error in it means."""

    __slots__ = ("_constants", "_tuples", "lines", "namespace", "step", "text")

    def __init__(self) -> None:
        self.text: list[str] = []
        #: For each line what it belongs to; None for one in which nothing can go wrong.
        self.lines: list[Line | None] = []
        self.namespace: dict[str, Any] = {
            "AccumulateGrad": AccumulateGrad,
            "Differs": Differs,
            "Heavy": Heavy,
            "clock": perf_counter,
            "captured_at": captured_at,
            "careful": careful,
            "conform": conform,
            "needs_care": needs_care,
            "is_for_a_worker": is_for_a_worker,
            "pause": pause,
            "run_here": run_here,
            "run_measured": run_measured,
            "sum_into": sum_into,
            "sum_to": sum_to,
        }
        self._constants = {id(value): name for name, value in self.namespace.items()}
        #: Equal ones count as one object.
        self._tuples: dict[Any, Any] = {}
        #: The step that is being written, counted from the first of its piece.
        self.step = 0

    def constant(self, name: str, value: Any) -> str:
        """Return the name of a constant, one for each object; `name` is what it is called if that is free.

        Classes and functions may be called anything at all, so only what is plain in a name is used of it.
        """
        if isinstance(value, tuple):
            value = self._tuples.setdefault(value, value)
        known = self._constants.get(id(value))
        if known is None:
            name = _NOT_IN_NAMES.sub("_", name)
            known, number = name, 1
            while not _is_free(known) or known in self.namespace:
                number += 1
                known = f"{name}_{number}"
            self._constants[id(value)] = known
            self.namespace[known] = value
        return known

    def dtype(self, dtype: Any) -> str:
        """Return the name of a dtype."""
        return self.constant(str(dtype), dtype)

    def filled(self, source: str, names: Mapping[str, str], constants: Mapping[str, Any]) -> str:
        """Return source with its placeholders filled in: by names, or by those of constants."""

        def name_of(match: re.Match[str]) -> str:
            key = match[1]
            known = names.get(key)
            return self.constant(re.sub(r"^c\d+_", "", key), constants[key]) if known is None else known

        return _PLACEHOLDER.sub(name_of, source)

    def emit(self, line: str, kind: LineKind | None = None, edge: int = -1, leaf: int = -1) -> None:
        """Add a line to the function."""
        self.text.append(f"    {line}")
        self.lines.append(None if kind is None else Line(self.step, kind, edge, leaf))

    def emit_comment(self, comment: str) -> None:
        """Add a comment, in one line whatever is in it."""
        self.emit(f"# {comment if comment.isprintable() else ascii(comment)}")

    def emit_head(self, line: str) -> None:
        """Add the line that begins a function."""
        self.text.append(line)
        self.lines.append(None)

    def shorten(self, length: int) -> None:
        """Take back the lines from number `length` on."""
        del self.text[length:], self.lines[length:]


def _is_free(name: str) -> bool:
    """Tell whether a name means nothing to Python, and is no local one."""
    return not (keyword.iskeyword(name) or hasattr(builtins, name) or _LOCAL.fullmatch(name))
