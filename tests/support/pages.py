"""Pages of Markdown: what they link to, which headings they have, and which of their links lead nowhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

#: A block of code, or code in a line: nothing in it is a link, a heading or a name.
_FENCE = re.compile(r"^(`{3,}).*?^\1\n?", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`[^`\n]+`")
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


def prose(text: str) -> str:
    """The text without its blocks of code."""
    return _FENCE.sub("", text)


def opening(text: str) -> str:
    """What stands above the first heading below the title."""
    return prose(text).split("\n## ")[0]


def anchors(text: str) -> list[str]:
    """The anchors that a repository page, and the site, give to the headings: words joined by hyphens."""
    found: list[str] = []
    for heading in _HEADING.findall(prose(text)):
        words = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        again = sum(one == words or re.fullmatch(rf"{re.escape(words)}-\d+", one) is not None for one in found)
        found.append(f"{words}-{again}" if again else words)
    return found


def links(text: str) -> list[str]:
    """The links of a page that lead to files, and to headings of its own."""
    return [link for link in _LINK.findall(_CODE.sub("", prose(text))) if not re.match(r"\w+:", link)]


def broken_links(page: Path) -> Iterator[str]:
    """The links of a page whose file or whose heading is not there."""
    for link in links(page.read_text()):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            yield link
