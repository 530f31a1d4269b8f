"""Notes on the error that ends a backward."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ..graph.naming import place_of

if TYPE_CHECKING:
    from ..graph.node import Node

__all__ = ["add_later_error", "add_note", "later_errors_of", "text_of"]

_LATER = "later error, "


def add_note(error: BaseException, note: str) -> None:
    """Add a note to an error; do nothing if the error accepts none."""
    # A frozen dataclass refuses any new attribute. The user's error is to be raised all the same.
    with contextlib.suppress(Exception):
        error.add_note(note)


def text_of(error: BaseException) -> str:
    """Return the type and the message of an error, also where its `__str__` raises."""
    try:
        text = str(error)
    except Exception:
        text = "(its __str__ raises)"
    return f"{type(error).__name__}: {text}"


def add_later_error(error: BaseException, later: BaseException, node: Node | None, when: str) -> None:
    """Add a note to the error of a backward about a later error.

    Args:
        error: the error that the backward raises.
        later: the error that would be lost otherwise; nothing is added if it is the same object.
        node: the node that raised the later error; None for a final callback.
        when: a clause that says when it was raised.
    """
    if later is error:
        return
    name, place = ("a final callback", "") if node is None else (node.name, f" ({place_of(node)})")
    add_note(error, f"{_LATER}{when}{place}: {name} raised {text_of(later)}")


def later_errors_of(error: BaseException) -> list[str]:
    """Return what the notes of an error say of later ones: when they were raised, where, and what they are."""
    notes = [note for note in getattr(error, "__notes__", ()) if isinstance(note, str)]
    return [note.removeprefix(_LATER) for note in notes if note.startswith(_LATER)]
