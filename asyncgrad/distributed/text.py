"""Texts of clients: JSON can say half of a pair of surrogates, of which no bytes can be made."""

from __future__ import annotations

from ..errors import ArgumentError

__all__ = ["check_text"]


def check_text(text: str, what: str) -> str:
    r"""Return a text of which bytes can be made.

    Args:
        text: the text.
        what: what it is, for the error.

    Raises:
        ArgumentError: none can be made of it.

    Example:
        >>> from asyncgrad.distributed.text import check_text
        >>> check_text("ä", "a name")
        'ä'
    """
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ArgumentError(
                f"{what} is Unicode text, and {text[:80]!r} has half of a pair of surrogates in it"
            ) from None
    return text
