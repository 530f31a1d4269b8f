"""Tables of text: columns as wide as what stands in them."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

__all__ = ["columns_of_text", "short_line"]


def columns_of_text(rows: Sequence[Sequence[str]], right: Collection[int]) -> list[str]:
    """Return the lines of a table, the first row being its head; columns in `right` are set to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return lines


def short_line(line: str | None) -> str:
    """Return a line of source as a table shows it: the name of its file, without the folders."""
    return "" if line is None else os.path.basename(line)  # noqa: PTH119  # of a text that need not be a path
