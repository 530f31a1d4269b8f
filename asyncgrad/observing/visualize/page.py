"""The page for a browser: one file that fetches nothing. Python says what is there, the page lays it out.

The layout is the page's, since it changes as frames are folded: see `page.html`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.graph.html import escape
from .colours import heat, ink_on

if TYPE_CHECKING:
    from .picture import Box, Picture

__all__ = ["page_text"]

_TEMPLATE = Path(__file__).with_name("page.html")


def page_text(picture: Picture) -> str:
    """Return a picture as a page."""
    hottest = max((box.nanoseconds or 0 for box in picture.boxes), default=0)
    data = {
        "timed": picture.is_timed and hottest > 0,
        "program": picture.is_program,
        "boxes": [_box(box, hottest) for box in picture.boxes],
        "frames": [
            {
                "key": frame.key,
                "outer": None if frame.outer is None else frame.outer.key,
                "title": frame.title,
                "period": frame.group.period,
                "repeats": frame.group.repeats,
            }
            for frame in picture.frames
        ],
        "arrows": [[arrow.source, arrow.target, arrow.is_next] for arrow in picture.arrows],
    }
    # In a script, only what could end it has to be escaped.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    page = _TEMPLATE.read_text(encoding="utf-8")
    for place, value in (("TITLE", escape(picture.title)), ("CAPTION", escape(picture.caption)), ("DATA", text)):
        page = page.replace(f"<!--{place}-->", value, 1) if place != "TITLE" else page.replace("<!--TITLE-->", value)
    return page


def _box(box: Box, hottest: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "key": box.key,
        "kind": box.kind,
        "title": box.title,
        "count": box.count,
        "lines": box.lines,
        "details": box.details,
        "marks": box.marks,
        "frame": None if box.frame is None else box.frame.key,
    }
    if box.nanoseconds is not None and hottest:
        found["fill"] = heat(box.nanoseconds / hottest)
        found["ink"] = ink_on(found["fill"])
    return found
