"""The page for a browser: one file that fetches nothing but its events, and runs no script but its own."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import NamedTuple

from ...core.graph.html import escape

__all__ = ["Page", "live_page"]

_TEMPLATE = Path(__file__).with_name("page.html")


class Page(NamedTuple):
    """A page, and the Content-Security-Policy that lets it do what it does, and nothing else."""

    text: bytes
    policy: str


def live_page(title: str) -> Page:
    """Return the page with this title, which is escaped."""
    template = _TEMPLATE.read_text(encoding="utf-8")
    script = template.partition("<script>")[2].partition("</script>")[0]
    # The hash lets this script run alone: one that a name brought in would not be run.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return Page(template.replace("<!--TITLE-->", escape(title)).encode(), policy)
