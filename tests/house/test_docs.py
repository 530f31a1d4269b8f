"""The pages in docs/ tell the truth: names resolve, links lead somewhere, no name of PyTorch's is left out.

And no public name is left out of the reference, which is checked without building the site.
"""

from __future__ import annotations

import ast
import doctest
import gc
import importlib
import re
from collections import Counter
from pathlib import Path

import pytest

import asyncgrad as ag
from tests.support import house_rules
from tests.support.fake_cupy import open_gpus
from tests.support.gpus import GPU, why_not
from tests.support.pages import anchors, broken_links, links, opening, prose
from tools import docs_site, gallery, reference

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), *(DOCS.parent / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG"))]
NAMES = (DOCS / "pytorch-names.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in NAMES.splitlines()
    if line.startswith("| ") and not line.startswith("| PyTorch")
]
#: Names in backticks of the column of ours, in the forms that can be looked up.
OURS = sorted(
    {name for row in ROWS for name in re.findall(r"`((?:ag|asyncgrad|Node|Tensor|GraphTask)\.[\w.]+)`", row[1])}
)
PATHS = sorted(
    {
        path
        for page in ("engine", "layout")
        for path in re.findall(r"`(core/[\w/]+\.py)`", (DOCS / f"{page}.md").read_text())
    }
)

#: Examples that only a GPU can run follow this line, which readers do not see.
NEEDS_GPU = re.compile(r"<!-- needs (?:a GPU|two GPUs) -->\n```pycon\n(.*?)```\n", re.DOTALL)
#: Those that need two, which the tests run on a stand-in.
NEEDS_TWO_GPUS = re.compile(r"<!-- needs two GPUs -->\n```pycon\n(.*?)```\n", re.DOTALL)

#: The classes that the tables call by their last name.
SHORT = {"Node": ag.graph.Node, "Tensor": ag.Tensor, "GraphTask": ag.engine.GraphTask, "ag": ag}

#: A name of ours in code: what is called, or said to be there.
NAME = re.compile(r"`@?(?:await )?((?:ag|asyncgrad)(?:\.[A-Za-z]\w*)+)")

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def resolve(name: str) -> object:
    head, *rest = name.split(".")
    if head == "asyncgrad":
        module = ["asyncgrad"]
        while rest:
            try:
                importlib.import_module(".".join([*module, rest[0]]))
            except ImportError:
                break
            module.append(rest.pop(0))
        found: object = importlib.import_module(".".join(module))
    else:
        found = SHORT[head]
    for part in rest:
        found = getattr(found, part)
    return found


def test_every_name_of_ours_in_the_table_is_there() -> None:
    assert [name for name in OURS if resolve(name) is None] == []


def test_the_rows_have_three_cells_each() -> None:
    assert {len(row) for row in ROWS} == {3}
    assert len(OURS) > 50


def test_every_row_without_a_name_of_ours_says_why() -> None:
    assert [row[0] for row in ROWS if row[1] == "none" and not row[2]] == []


def test_what_is_said_to_be_not_yet_is_not() -> None:
    """A name that has come must not stay in the table as missing."""
    late = [name for row in ROWS if row[2].startswith("not yet") for name in re.findall(r"`([\w.:]+)`", row[0])]
    facades = (ag, ag.graph, ag.engine, ag.Tensor, ag.graph.Node)

    assert [name for name in late if any(hasattr(facade, re.split(r"\.|::", name)[-1]) for facade in facades)] == []


@pytest.mark.parametrize(
    "module",
    ["", ".function", ".graph", ".functional", ".forward_ad", ".profiler", ".grad_mode", ".anomaly_mode"],
)
def test_no_name_of_pytorch_is_left_out(module: str) -> None:
    pytest.importorskip("torch")
    theirs = importlib.import_module(f"torch.autograd{module}")
    public = getattr(theirs, "__all__", None) or [
        name
        for name, value in vars(theirs).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == theirs.__name__
    ]
    listed = {re.split(r"\.|::", name)[-1] for row in ROWS for name in re.findall(r"`([\w.:]+)`", row[0])}

    assert set(public) - listed == set()


@pytest.mark.parametrize("path", PATHS)
def test_every_file_that_the_pages_on_the_engine_and_the_layout_name_is_there(path: str) -> None:
    assert (DOCS.parent / "asyncgrad" / path).is_file()


def test_the_pages_on_the_engine_and_the_layout_name_every_file_of_the_engine_and_the_graph() -> None:
    told = "".join((DOCS / page).read_text() for page in ("engine.md", "layout.md"))
    core = DOCS.parent / "asyncgrad" / "core"
    files = {file.name for folder in ("", "arrays", "engine", "graph") for file in (core / folder).glob("*.py")}

    assert {name for name in files - {"__init__.py"} if f"{name}`" not in told} == set()


@each_page
def test_links_of_a_page_lead_to_files_and_headings_that_are_there(page: Path) -> None:
    assert list(broken_links(page)) == []


def test_a_link_to_no_file_or_no_heading_is_named(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Heads, and `tails`\n[a](gone.md) [b](#heads-and-tails) [c](#tails) [d](page.md#heads) `[e](f.md)`"
    )

    assert list(broken_links(page)) == ["gone.md", "#tails", "page.md#heads"]


def test_headings_of_the_same_words_have_numbered_anchors() -> None:
    assert anchors("# Views\n## Views\n```\n# no heading\n```\n## What's new?\n") == ["views", "views-1", "whats-new"]


@each_page
def test_no_row_of_a_table_stands_twice_on_a_page(page: Path) -> None:
    rows = [line for line in page.read_text().splitlines() if line.startswith("| ") and "---" not in line]

    assert [row for row, count in Counter(rows).items() if count > 1 and len(row) > 60] == []


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.name)
def test_a_page_says_first_whom_it_is_for(page: Path) -> None:
    assert re.search(r"(page|documentation) is for ", " ".join(opening(page.read_text()).split()))


@pytest.mark.parametrize("page", PAGES[:-1], ids=lambda page: page.name)  # the changelog names what has gone, too
def test_every_name_of_ours_that_a_page_mentions_is_there(page: Path) -> None:
    assert [name for name in NAME.findall(prose(page.read_text())) if not is_there(name)] == []


def is_there(name: str) -> bool:
    try:
        resolve(name)
    except AttributeError:
        return False
    except ImportError:
        # PyTorch or JAX is not installed: see what asyncgrad.interop.torch, say, offers in its source.
        library, _, short = name.partition("interop.")[2].partition(".")
        source = (DOCS.parent / f"asyncgrad/interop/{library}.py").read_text()
        return not short or f'"{short}",' in source.partition("__all__")[2].replace("]", ",")
    return True


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_a_name_of_a_module_whose_library_is_missing_is_looked_for_in_its_source(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setitem(globals(), "resolve", missing)

    assert is_there(f"asyncgrad.interop.{library}.wrap")
    assert not is_there(f"asyncgrad.interop.{library}.unwrap")


def test_every_page_has_a_place_in_the_navigation_and_a_page_that_links_to_it() -> None:
    pages = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")}
    linked = {(page.parent / link.partition("#")[0]).resolve() for page in PAGES for link in links(page.read_text())}

    assert pages - set(docs_site.places()) == {"index"}
    assert [path.name for path in DOCS.rglob("*.md") if path not in linked] == []


@pytest.fixture(scope="module")
def assembled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of what Sphinx reads."""
    folder = tmp_path_factory.mktemp("source")
    docs_site.assemble(folder)
    return folder


def test_the_site_is_put_together_with_links_that_lead_somewhere(assembled: Path) -> None:
    pages = [path for path in assembled.rglob("*.md") if "source" not in path.relative_to(assembled).parts]
    examples = [path.stem for path in (assembled / "gallery").iterdir()]

    assert len(pages) == len(PAGES) - 1 + 1 + len(examples)  # without the README, with the licence and the gallery
    assert sorted(examples) == sorted(["index", *(path.stem for path in gallery.EXAMPLES.glob("[a-z]*.py"))])
    assert [link for page in pages for link in broken_links(page)] == []


def test_links_of_the_site_read_as_titles_and_what_newcomers_search_is_found(assembled: Path) -> None:
    pages = [path for path in assembled.rglob("*.md") if "source" not in path.relative_to(assembled).parts]

    labels = [label for page in pages for label in re.findall(r"\[(`?[\w./-]+\.md`?)\]\(", page.read_text())]
    assert labels == []
    for name, headings in docs_site.SEARCHED.items():
        text = (assembled / f"{name}.md").read_text()
        for heading, phrases in headings.items():
            entries = ", ".join(f"! {phrase}" for phrase in phrases)
            entry = re.escape(f"\n```{{index}} {entries}\n```\n")
            # A comment behind it would take its anchor off the page.
            assert re.search(rf"\n{re.escape(heading)}\n(?:\n<!--[^>]*-->\n)?{entry}(?!\n<!--)", text), heading


def test_a_search_finds_no_source(assembled: Path) -> None:
    sources = [path.read_text() for path in (assembled / "source").rglob("*.md")]

    assert sources
    assert all(text.startswith("---\norphan: true\nnosearch: true\n---\n") for text in sources)


def test_a_page_that_a_browser_shows_stands_in_the_place_of_its_picture(assembled: Path) -> None:
    page = (assembled / "visualizing.md").read_text()

    assert "graph-page.png" not in page
    assert '<iframe class="graph" src="visualizing-graph.html"' in page
    assert "MeanBackward" in (assembled / "extra" / "visualizing-graph.html").read_text()


def test_a_picture_of_the_site_leaves_its_colours_to_the_site(assembled: Path) -> None:
    pictures = [path.read_text() for path in assembled.rglob("*.svg")]

    assert len(pictures) >= 5
    assert not any("prefers-color-scheme" in text for text in pictures)


def test_every_public_name_is_documented() -> None:
    found = [
        complaint
        for name, thing in reference.public_names().items()
        if reference.is_ours(thing)
        for complaint in house_rules.undocumented(name, thing)
        if complaint.endswith("has no docstring")
    ]

    assert found == []


def test_every_public_name_has_one_entry_in_the_reference() -> None:
    entries = [
        entry if entry.startswith("asyncgrad.") else f"{module}.{entry}"
        for text in reference.pages().values()
        for module in re.findall(r"^\.\. py:(?:current)?module:: (\S+)$", text, re.MULTILINE)
        for entry in re.findall(r"^\.\. (?:py:data|auto(?:class|data|exception|function)):: (\S+)$", text, re.MULTILINE)
    ]

    assert sorted(entries) == sorted(reference.public_names())
    assert len(entries) > 1_500


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.name)
def test_examples_of_a_page_run_as_printed(page: Path) -> None:
    missing = NEEDS_TWO_GPUS if why_not() is None and GPU.startswith("cuda") else NEEDS_GPU
    text = missing.sub("", page.read_text())
    text = text.replace("```", "")
    examples = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    told: list[str] = []
    # A backward whose loop a test has closed is shown among those that run, until it is collected.
    gc.collect()
    doctest.DocTestRunner(verbose=False).run(examples, out=told.append)

    assert "".join(told) == ""
    assert len(examples.examples) == text.count("\n>>> ")


def test_examples_that_need_a_gpu_are_marked_and_valid() -> None:
    text = (DOCS / "gpu.md").read_text()
    blocks = NEEDS_GPU.findall(text)

    assert len(blocks) == text.count("```pycon") > 5
    for block in blocks:
        examples = doctest.DocTestParser().get_examples(block)
        assert len(examples) == f"\n{block}".count("\n>>> ")
        assert all(ast.parse(example.source) for example in examples)


def test_examples_for_two_gpus_run_as_printed_on_a_stand_in() -> None:
    text = ">>> import numpy as np\n>>> import asyncgrad as ag\n>>> from asyncgrad import nn, optim\n"
    blocks = NEEDS_TWO_GPUS.findall((DOCS / "gpu.md").read_text())
    examples = doctest.DocTestParser().get_doctest(text + "".join(blocks), {}, "gpu.md", "gpu.md", 0)
    told: list[str] = []
    with open_gpus(2):
        doctest.DocTestRunner(verbose=False).run(examples, out=told.append)

    assert "".join(told) == ""
    assert len(blocks) == 1


def test_the_page_on_views_has_examples() -> None:
    assert (DOCS / "views.md").read_text().count("```pycon") >= 8
