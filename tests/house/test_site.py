"""A real browser looks at a notebook and at the site's first page; a test that is skipped says what is missing."""

from __future__ import annotations

import functools
import html
import http.server
import importlib.util
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import browser, pixels, run_page, said, with_script
from tests.support.devtools import Devtools, devtools
from tools import docs_site, gallery

NOTEBOOK = docs_site.DOCS / "notebooks" / "seeing.ipynb"
#: The pages of the site that are built here; all of them would take minutes.
PAGES = (
    *("index", "tutorial", "visualizing", "notebooks/seeing"),
    *("gallery/index", "gallery/async_rule", "gallery/gaussian_process", "reference/asyncgrad.tree"),
)
#: Where a person can look at the pages.
SCREENSHOTS = docs_site.ROOT / "build" / "screenshots"
#: Says whether all pictures have been loaded, whether the page fits into the window, and how many panels are visible.
LOOK = """
document.body.dataset.said = JSON.stringify({
  pictures: [...document.images].every(one => one.naturalWidth > 0),
  fits: document.documentElement.scrollWidth <= window.innerWidth,
  panels: [...document.querySelectorAll(%r)].filter(one => one.offsetHeight > 10 && one.offsetWidth > 100).length,
});
"""


def page_of(notebook: Path) -> str:
    """Return a page with the cells of a notebook and their outputs, each in its richest form, as Jupyter shows them."""
    parts = ['<meta charset="utf-8"><style>pre { white-space: pre-wrap }</style><body style="font-family: sans-serif">']
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        parts.append(f"<pre>{html.escape(''.join(cell['source']))}</pre>")
        parts += [f'<div class="output">{shown(output)}</div>' for output in cell.get("outputs", ())]
    return "\n".join([*parts, "</body>"])


def shown(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    for kind in ("text/html", "image/svg+xml"):
        if kind in data:
            return "".join(data[kind])
    return f"<pre>{html.escape(''.join(output.get('text') or data['text/plain']))}</pre>"


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_browser_shows_what_a_notebook_displays(tmp_path: Path) -> None:
    browser()
    page, picture = tmp_path / "notebook.html", tmp_path / "notebook.png"
    page.write_text(page_of(NOTEBOOK), encoding="utf-8")

    outputs = page.read_text().count('class="output"')
    dom = run_page(with_script(page, LOOK % ".output", tmp_path / "look.html"), tmp_path / "a", "--dump-dom")
    run_page(page, tmp_path / "b", f"--screenshot={picture}")

    assert json.loads(said(dom)) == {"pictures": True, "fits": True, "panels": outputs}
    assert pixels(picture.read_bytes()) == (1400, 900)
    assert picture.stat().st_size > 20_000


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a site of a few pages, made as `make docs` makes the whole."""
    browser()
    for package in ("sphinx", "furo", "myst_nb"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: pip install --group docs")
    source, target = (tmp_path_factory.mktemp("site") / name for name in ("source", "site"))
    docs_site.assemble(source, gallery.run_all(["async_rule", "gaussian_process"]))
    others = [
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.suffix in {".md", ".rst", ".ipynb"} and path.relative_to(source).with_suffix("").as_posix() not in PAGES
    ]
    words = ["-m", "sphinx", "--quiet", "-D", f"exclude_patterns={','.join(['conf.py', *others])}", source, target]
    environment = {**os.environ, "PYTHONPATH": str(docs_site.ROOT)}
    # It warns of links to the pages that are left out.
    done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


@pytest.mark.timeout(300)
def test_the_first_page_of_the_site_has_its_picture_a_search_and_a_dark_mode(site: Path, tmp_path: Path) -> None:
    script = f"""{LOOK % "img, form[role=search] input"}
    const colour = () => getComputedStyle(document.body).backgroundColor;
    const seen = [];
    window.addEventListener("load", () => {{
      for (let turn = 0; turn < 3; turn++) {{
        document.querySelector(".theme-toggle").click();
        seen.push(document.body.dataset.theme + " " + (colour() === "rgb(255, 255, 255)" ? "is light" : "is dark"));
      }}
      document.body.dataset.themes = seen.sort().join(", ");
    }});
    """
    picture = tmp_path / "index.png"
    dom = run_page(with_script(site / "index.html", script, site / "look.html"), tmp_path / "a", "--dump-dom")
    run_page(site / "index.html", tmp_path / "b", f"--screenshot={picture}")

    assert json.loads(said(dom)) == {"pictures": True, "fits": True, "panels": 4}  # with the logo
    assert re.findall(r'data-themes="([^"]*)"', dom) == ["auto is light, dark is dark, light is light"]
    assert pixels(picture.read_bytes()) == (1400, 900)
    assert picture.stat().st_size > 50_000


@pytest.mark.timeout(300)
def test_the_site_shows_a_notebook_with_its_outputs(site: Path, tmp_path: Path) -> None:
    page, picture = site / "notebooks" / "seeing.html", tmp_path / "notebook.png"
    look = with_script(page, LOOK % ".cell_output > *", site / "notebooks" / "look.html")
    dom = run_page(look, tmp_path / "a", "--dump-dom")
    run_page(page, tmp_path / "b", f"--screenshot={picture}")
    found = json.loads(said(dom))

    assert found["pictures"]
    assert found["fits"]
    assert found["panels"] >= 9
    assert picture.stat().st_size > 50_000


#: Says how a page is laid out, which of its parts are there, and what it has asked of other machines.
PARTS = """
const blocks = [...document.querySelectorAll("div.highlight > pre")];
document.body.dataset.said = JSON.stringify({
  width: window.innerWidth,
  fits: document.documentElement.scrollWidth <= window.innerWidth,
  wide: blocks.filter(one => one.scrollWidth > one.clientWidth).length,
  uncopied: blocks.filter(one => !one.parentNode.querySelector("button.copy")).length,
  blocks: blocks.length,
  icon: document.querySelector("link[rel~=icon]")?.getAttribute("href") ?? "",
  card: [...document.querySelectorAll("meta[property^='og:']")].map(one => one.getAttribute("property")).sort(),
  elsewhere: performance.getEntriesByType("resource").map(one => one.name).filter(one => !one.startsWith("file:")),
});
"""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("width", [1400, 500])
def test_pages_hold_their_code_in_the_column_and_ask_nothing_of_other_machines(
    site: Path, tmp_path: Path, width: int
) -> None:
    script = f'window.addEventListener("load", () => {{ {PARTS} }});'
    page = with_script(site / "tutorial.html", script, site / "parts.html")
    found = json.loads(said(run_page(page, tmp_path / "a", "--dump-dom", f"--window-size={width},900")))

    assert found.pop("blocks") > 10
    assert found == {
        "width": width,
        "fits": True,
        "wide": 0 if width == 1400 else found["wide"],
        "uncopied": 0,
        "icon": "_static/favicon.svg",
        "card": ["og:description", "og:site_name", "og:title", "og:type"],
        "elsewhere": [],
    }


@pytest.mark.timeout(300)
def test_a_picture_is_dark_on_a_dark_page(site: Path, tmp_path: Path) -> None:
    script = """
    const filter = () => getComputedStyle(document.querySelector("article img[src$='.svg']")).filter;
    window.addEventListener("load", () => {
      const seen = {};
      for (const theme of ["light", "dark"]) { document.body.dataset.theme = theme; seen[theme] = filter(); }
      document.body.dataset.said = JSON.stringify(seen);
    });
    """
    page = with_script(site / "index.html", script, site / "dark.html")
    found = json.loads(said(run_page(page, tmp_path / "a", "--dump-dom")))

    assert found["light"] == "none"
    assert found["dark"].startswith("invert(")


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files, and writes no log."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def served(site: Path) -> Iterator[str]:
    """Return the address of the site on a server of this machine: a search asks for the pages that it has found."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devtools]:
    """Return a browser that is told what to show."""
    with devtools(tmp_path_factory.mktemp("browser")) as found:
        yield found


#: What a visitor opens, by the name of the screenshot, and what has to be there.
VISITED = {
    "landing": ("index.html", "div.cards li"),
    "gallery": ("gallery/index.html", "div.cards img"),
    "example": ("gallery/async_rule.html", "iframe.graph"),
    "picture": ("gallery/gaussian_process.html", "article img"),
    "graph-in-a-guide": ("visualizing.html", "iframe.graph"),
    "reference": ("reference/asyncgrad.tree.html", "dl.py"),
    "search": ("search.html?q=gradient", "#search-results li"),
    "graph": ("gallery/async_rule-graph.html", "svg"),
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("name", VISITED)
def test_a_page_fits_the_window_without_a_complaint_and_asks_nothing_of_other_machines(
    window: Devtools, served: str, name: str, width: int, is_dark: bool
) -> None:
    address, part = VISITED[name]
    window.open(f"{served}/{address}", width, is_dark)
    # The results of a search come one after the other.
    window.ask(f"""new Promise(done => {{
      const look = () => document.querySelector({part!r}) ? done() : requestAnimationFrame(look);
      look();
    }})""")
    window.photograph(SCREENSHOTS / f"{name}-{width}-{'dark' if is_dark else 'light'}.png")
    brightness = window.ask("""(() => {
      const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number);
      return (r + g + b) / 765;
    })()""")
    wide = window.ask("[document.documentElement.scrollWidth, window.innerWidth, window.outerWidth]")

    assert wide[0] <= wide[1] == width
    assert (brightness < 0.5) == is_dark
    assert window.complaints == []
    assert [one for one in window.requests if not one.startswith((served, "data:", "blob:"))] == []
    assert len(window.requests) > (0 if name == "graph" else 3)
