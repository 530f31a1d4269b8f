"""Generated source: what runs it, and has tracebacks show its lines.

A function that is generated for the number of its arguments, or for the values that a node saves, takes less time than
one that loops over them. Its file name begins with `GENERATED` and says what it is, whichever module writes it.
"""

from __future__ import annotations

import linecache
from typing import Any

from .process import keep_lines

__all__ = ["GENERATED", "run_source"]

#: What the file name of generated code begins with.
GENERATED = "<asyncgrad: "


def run_source(text: str, what: str, namespace: dict[str, Any]) -> None:
    """Run generated source in a namespace.

    Args:
        text: the source.
        what: what it is, for its file name. Another text of that name gets a number.
        namespace: the names that it uses, and defines.
    """
    lines = text.splitlines(keepends=True)
    name, number = f"{GENERATED}{what}>", 1
    while linecache.cache.get(name, ("", None, lines))[2:3] != (lines,):
        number += 1
        name = f"{GENERATED}{what}, {number}>"
    keep_lines(name, lines)
    exec(compile(text, name, "exec"), namespace)  # noqa: S102
