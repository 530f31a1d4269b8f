"""The pages in docs/ tell the truth: names resolve, links lead somewhere, no name of PyTorch's is left out."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
from pathlib import Path

import pytest

import asyncgrad as ag
from tests.gpus import GPU, why_not

DOCS = Path(__file__).parent.parent / "docs"
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
PATHS = sorted(set(re.findall(r"`((?:graph|engine)/\w+\.py)`", (DOCS / "engine.md").read_text())))

#: Examples that only a GPU can run follow this line, which readers do not see.
NEEDS_GPU = re.compile(r"<!-- needs a GPU -->\n```pycon\n(.*?)```\n", re.DOTALL)

#: The classes that the tables call by their last name.
SHORT = {"Node": ag.graph.Node, "Tensor": ag.Tensor, "GraphTask": ag.engine.GraphTask, "ag": ag}


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


@pytest.mark.parametrize("name", OURS)
def test_every_name_of_ours_in_the_table_is_there(name: str) -> None:
    assert resolve(name) is not None


def test_the_rows_have_three_cells_each() -> None:
    assert {len(row) for row in ROWS} == {3}
    assert len(OURS) > 50


def test_every_row_without_a_name_of_ours_says_why() -> None:
    assert [row[0] for row in ROWS if row[1] == "none" and not row[2]] == []


def test_what_is_said_to_be_not_yet_is_not() -> None:
    """A name that has come must not stay in the table as missing."""
    late = [name for row in ROWS if row[2].startswith("not yet") for name in re.findall(r"`([\w.:]+)`", row[0])]
    facades = (ag, ag.graph, ag.engine, ag.Tensor, ag.graph.Node)

    assert late
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
def test_every_file_that_the_page_on_the_engine_names_is_there(path: str) -> None:
    assert (DOCS.parent / "asyncgrad" / path).is_file()


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([\w./-]+)\)", page.read_text())

    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_examples_of_a_page_run_as_printed(page: Path) -> None:
    text = page.read_text() if why_not() is None and GPU.startswith("cuda") else NEEDS_GPU.sub("", page.read_text())
    text = text.replace("```", "")
    examples = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    told: list[str] = []
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


def test_the_page_on_views_has_examples() -> None:
    assert (DOCS / "views.md").read_text().count("```pycon") >= 8
