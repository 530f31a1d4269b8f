"""What a function refers to by names of the functions around it."""

from __future__ import annotations

import types
from typing import Any, final

__all__ = ["MISSING", "content_of", "contents_of_cells"]


@final
class MISSING:
    """What is in a cell that nothing was written into, or under a name that is gone."""


def content_of(cell: types.CellType) -> Any:
    """Return what is in a cell; MISSING for one that is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def contents_of_cells(function: Any) -> list[Any]:
    """Return what is in each cell of a function, in the order of its free variables; nothing of another callable."""
    return [content_of(cell) for cell in getattr(function, "__closure__", None) or ()]
