"""A real browser looks at a notebook and at pages of the site; a test that is skipped says what is missing."""

from __future__ import annotations

import functools
import html
import http.server
import importlib.util
import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import asyncgrad as ag
from tests.support.browser import SCREENSHOTS, browser, pixels, run_page, said, with_script
from tests.support.devtools import Devtools, devtools
from tools import docs_site, gallery, pictures

NOTEBOOK = docs_site.DOCS / "notebooks" / "seeing.ipynb"
#: The pages of the site that are built here; all of them would take minutes.
PAGES = (
    *("index", "tutorial", "visualizing", "notebooks/seeing"),
    *("gallery/index", "gallery/gaussian_process", "reference/asyncgrad.tree"),
)
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
            pytest.skip(f"{package} is not installed: pip install --group site")
    source, target, given = (tmp_path_factory.mktemp("site") / name for name in ("source", "site", "given"))
    docs_site.assemble(source, {"gaussian_process": a_run(given)})
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


def a_run(folder: Path) -> gallery.Run:
    """Return what an example might have given: a line that it prints, a picture, and the graph of a guide."""
    folder.mkdir()
    shutil.copyfile(docs_site.DOCS / "pictures" / "waiting.svg", folder / "picture.svg")
    loss, model = pictures.graph_of_the_guide()
    ag.visualize(loss, folder / "graph.html", params=model)
    return gallery.Run("gradients 3\n", "2030-01-31", ("picture.svg", "graph.html"), folder)


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


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_page_is_light_or_dark_as_its_reader_chooses_and_its_pictures_with_it(window: Devtools, served: str) -> None:
    window.open(f"{served}/index.html", 1400, is_dark=False)
    seen = window.ask("""(() => {
      const seen = {};
      for (let turn = 0; turn < 3; turn++) {
        document.querySelector(".theme-toggle").click();
        const filter = getComputedStyle(document.querySelector("article img[src$='.svg']")).filter;
        seen[document.body.dataset.theme] = [getComputedStyle(document.body).backgroundColor, filter.split("(")[0]];
      }
      return seen;
    })()""")

    assert seen["light"] == seen["auto"] == ["rgb(255, 255, 255)", "none"]
    assert seen["dark"][0] != seen["light"][0]
    assert seen["dark"][1] == "invert"


#: What is on a page: whether its pictures have been loaded, how its code stands in its column, and what tells of it.
PARTS = """(() => {
  const blocks = [...document.querySelectorAll("div.highlight > pre")];
  return {
    pictures: [...document.images].filter(one => one.naturalWidth === 0).length,
    wide: blocks.filter(one => one.scrollWidth > one.clientWidth).length,
    uncopied: blocks.filter(one => !one.parentNode.querySelector("button.copy")).length,
    icon: document.querySelector("link[rel~=icon]")?.getAttribute("href").split("/").at(-1) ?? "",
    card: [...document.querySelectorAll("meta[property^='og:']")].map(one => one.getAttribute("property")).sort(),
  };
})()"""


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("page", "part", "count"), [("tutorial", "img", 1), ("notebooks/seeing", ".cell_output", 9)])
def test_a_page_has_its_pictures_its_code_in_the_column_and_an_icon(
    window: Devtools, served: str, page: str, part: str, count: int
) -> None:
    window.open(f"{served}/{page}.html", 1400, is_dark=False)

    assert window.ask(f"document.querySelectorAll({part!r}).length") >= count
    assert window.ask(PARTS) == {
        "pictures": 0,
        "wide": 0,
        "uncopied": 0,
        "icon": "favicon.svg",
        "card": ["og:description", "og:site_name", "og:title", "og:type"],
    }


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_search_shows_what_it_has_found_at_an_anchor_with_dots(window: Devtools, served: str) -> None:
    window.open(f"{served}/search.html", 1400, is_dark=False)

    shown = """Search.htmlToText('<main role="main"><p id="ag.tree.map">told</p></main>', "#ag.tree.map")"""

    assert (window.ask(shown), window.complaints) == ("told", [])


#: What a visitor opens, by the name of the screenshot, with what has to be there, and how often at least.
VISITED = {
    "landing": ("index.html", "div.cards li", 4),
    "gallery": ("gallery/index.html", "div.cards img", 1),
    "example": ("gallery/gaussian_process.html", "iframe.graph", 1),
    "graph-in-a-guide": ("visualizing.html", "iframe.graph", 1),
    "reference": ("reference/asyncgrad.tree.html", "dl.py", 1),
    "search": ("search.html?q=gradient", "#search-results li", 1),
    "graph": ("gallery/gaussian_process-graph.html", "svg", 1),
}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", VISITED)
def test_a_page_fits_the_window_without_a_complaint_and_asks_nothing_of_other_machines(
    window: Devtools, served: str, name: str
) -> None:
    address, part, count = VISITED[name]
    found = []
    for width, is_dark in itertools.product((1400, 390), (False, True)):
        window.open(f"{served}/{address}", width, is_dark)
        # The results of a search come one after the other.
        window.ask(f"""new Promise(done => {{
          const isThere = () => document.querySelectorAll({part!r}).length >= {count};
          const look = () => isThere() ? done() : requestAnimationFrame(look);
          look();
        }})""")
        window.photograph(SCREENSHOTS / f"{name}-{width}-{'dark' if is_dark else 'light'}.png")
        brightness = window.ask("""(() => {
          const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number);
          return (r + g + b) / 765;
        })()""")
        inside, outside = window.ask("[document.documentElement.scrollWidth, window.innerWidth]")
        elsewhere = [one for one in window.requests if not one.startswith((served, "data:", "blob:"))]
        found.append((inside <= outside, outside, brightness < 0.5, list(window.complaints), elsewhere))

    assert found == [(True, width, is_dark, [], []) for width in (1400, 390) for is_dark in (False, True)]
