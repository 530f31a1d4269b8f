"""A real browser without a window, for tests of pages: Chromium or Chrome, if one is on the path."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

#: The names under which systems install it.
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
#: Where a person can look at what tests have seen.
SCREENSHOTS = Path(__file__).resolve().parents[2] / "build" / "screenshots"


def browser() -> str:
    """Return the browser's program; skip the test where there is none."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium or Chrome is on the path: apt install chromium")
    return found


def run_page(page: Path, folder: Path, *options: str, fragment: str = "") -> str:
    """Open a page, let its scripts run, and return what the browser has printed: the page, with `--dump-dom`."""
    words = [
        browser(),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--window-size=1400,900",
        "--virtual-time-budget=2000",
        f"--user-data-dir={folder}",
        *options,
        f"{page.as_uri()}{fragment}",
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=50)
    assert done.returncode == 0, done.stderr
    return done.stdout


def with_script(page: Path, script: str, to: Path) -> Path:
    """Return a copy of a page that does something at its end, as a user would."""
    to.write_text(page.read_text(encoding="utf-8").replace("</body>", f"<script>{{{script}}}</script></body>"))
    return to


def said(dom: str) -> str:
    """Return what a script has said by `document.body.dataset.said = …`."""
    found = re.search(r'data-said="([^"]*)"', dom)
    assert found is not None, "the script has not run to its end"
    return found[1].replace("&quot;", '"')


def pixels(picture: bytes) -> tuple[int, int]:
    """Return the width and the height of a PNG."""
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    return int.from_bytes(picture[16:20], "big"), int.from_bytes(picture[20:24], "big")
