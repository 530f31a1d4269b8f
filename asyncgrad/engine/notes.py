"""What an error that ends a backward is told to say beside its own message."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ..graph.naming import place_of

if TYPE_CHECKING:
    from ..graph.node import Node

__all__ = ["add_later_error", "add_note"]


def add_note(error: BaseException, note: str) -> None:
    """Add a note to an error; to one that takes none, nothing happens."""
    # A frozen dataclass refuses to have any attribute set, and what is raised is to be the user's error all the same.
    with contextlib.suppress(Exception):
        error.add_note(note)


def add_later_error(error: BaseException, later: BaseException, node: Node | None, when: str) -> None:
    """Note in the error of a backward that another one came after it.

    Args:
        error: what the backward raises.
        later: what would be lost otherwise; nothing is noted where it is the same object.
        node: where the later one was raised; None in a final callback.
        when: what was going on, as a clause.
    """
    if later is error:
        return
    name, place = ("a final callback", "") if node is None else (node.name, f" ({place_of(node)})")
    try:
        text = str(later)
    except Exception:
        text = "(an error without words: its __str__ raises)"
    add_note(error, f"later error, {when}{place}: {name} raised {type(later).__name__}: {text}")
