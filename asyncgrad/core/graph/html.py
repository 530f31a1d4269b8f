"""HTML for notebooks: tables and their style. What is shown is escaped, nothing is fetched; it reads in dark and light.

A notebook's own style sheet decides on the page. So the colours here are those of the text around, thinned: they fit
whatever the background is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["escape", "facts", "panel", "pre", "table"]

_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})

_LINE = "1px solid color-mix(in srgb, currentColor 22%, transparent)"
_MUTED = "opacity:.72"
_TABLE = '<table style="border-collapse:collapse;border:0;margin:0;font-size:13px">'
_CELL = f"padding:.22em .7em;border:0;border-bottom:{_LINE};text-align:left;vertical-align:top;background:none"
_NUMBER = _CELL.replace("text-align:left", "text-align:right") + ";font-variant-numeric:tabular-nums"


def escape(text: object) -> str:
    """Return text as HTML that shows it."""
    return str(text).translate(_ESCAPED)


def panel(title: str, body: str, note: str = "") -> str:
    """Return a frame with a title; `body` is HTML, the title and the note are text."""
    noted = f'<span style="{_MUTED};margin-left:.8em;font-weight:400">{escape(note)}</span>' if note else ""
    return (
        f'<div class="asyncgrad" style="display:inline-block;max-width:100%;overflow-x:auto;border:{_LINE};'
        'border-radius:6px;padding:.55em .8em;font:13px/1.45 system-ui,sans-serif;box-sizing:border-box">'
        f'<div style="font-weight:600;margin-bottom:.3em">{escape(title)}{noted}</div>{body}</div>'
    )


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], numbers: Iterable[int] = ()) -> str:
    """Return a table of text.

    Args:
        head: the titles of the columns; empty for none.
        rows: the cells, escaped here.
        numbers: the columns that are set to the right.
    """
    right = set(numbers)
    titles = "".join(
        f'<th style="{_NUMBER if index in right else _CELL};font-weight:600;{_MUTED}">{escape(title)}</th>'
        for index, title in enumerate(head)
    )
    lines = "".join(
        '<tr style="background:none">'
        + "".join(
            f'<td style="{_NUMBER if index in right else _CELL}">{escape(cell)}</td>' for index, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    header = f"<thead><tr>{titles}</tr></thead>" if head else ""
    return f"{_TABLE}{header}<tbody>{lines}</tbody></table>"


def facts(pairs: Iterable[tuple[str, Any]]) -> str:
    """Return two columns: what, and what it is."""
    lines = "".join(
        f'<tr style="background:none"><th style="{_CELL};border:0;padding-left:0;font-weight:400;white-space:nowrap;'
        f'{_MUTED}">{escape(name)}</th><td style="{_CELL};border:0">{escape(value)}</td></tr>'
        for name, value in pairs
    )
    return f"{_TABLE}<tbody>{lines}</tbody></table>"


def pre(text: str) -> str:
    """Return text in a fixed font, with its lines and spaces."""
    return (
        '<pre style="margin:.2em 0;padding:0;background:none;color:inherit;border:0;font:12.5px/1.4 ui-monospace,'
        f'SFMono-Regular,Menlo,Consolas,monospace;white-space:pre">{escape(text)}</pre>'
    )
