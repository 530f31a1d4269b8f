"""The benchmark of graphs of texts measures what it says, and its page shows its record. No other library is needed."""

from __future__ import annotations

import asyncio
import importlib
from pathlib import Path

import pytest

pytest.importorskip("httpx", reason="needs httpx: pip install 'asyncgrad[serve]'")
pytest.importorskip("starlette", reason="needs Starlette: pip install 'asyncgrad[serve]'")
pytest.importorskip("uvicorn", reason="needs uvicorn: pip install 'asyncgrad[serve]'")

from benchmarks import __main__ as benchmarks
from benchmarks.record import UnusableRecordError
from benchmarks.report import BEGIN, END
from benchmarks.text import command
from benchmarks.text.graphs import GRAPHS, PROMPT, layered
from benchmarks.text.line import Line, ModelError
from benchmarks.text.measure import Row, measured
from benchmarks.text.report import TextRecord, block, printed
from benchmarks.text.server import running
from benchmarks.text.sides import Asyncgrad
from tests.support.loops import one_loop

#: A process of its own, which imports uvicorn.
pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def url():
    with running() as base:
        yield base


@pytest.fixture
def record() -> TextRecord:
    rows = [
        Row("12 nodes", 3, "asyncgrad", [0.9, 1.0, 1.5], [2.0], 35, 1, 0, 0, 4, True),
        Row("12 nodes", 3, "TextGrad", [6.0], [9.0], 35, 10, 3, 0, 23, False),
        Row("12 nodes", 3, "autoform", [], [2.5], 46, 1, 0, 2, 46, True),
    ]
    machine = {"processor": "abacus", "cores": "2", "python": "3.13.0"}
    return TextRecord(machine, "2026-11-29", 0.25, {"plait": "pyplait is not installed"}, rows)


def test_the_graphs_have_diamonds_and_every_node_is_used():
    assert [(len(graph.nodes), graph.depth, graph.critiques) for graph in GRAPHS] == [(12, 3, 23), (20, 4, 38)]
    for graph in GRAPHS:
        used = {index for inputs in graph.nodes for index in inputs}
        assert used == {PROMPT, *range(len(graph.nodes) - 1)}
        assert len(graph.nodes[-2]) == 2


@one_loop
async def test_a_run_has_a_request_for_each_answer_and_each_critique_and_one_gradient_however_they_come(url):
    row = await measured(Asyncgrad, layered(2, 2), url, 0.0, 1)

    assert (row.requests, row.gradients) == (5 + 8, 1)
    assert (row.left, row.running, row.is_whole) == (0, 0, True)
    assert 0 < row.asked_again < 8
    assert 0 < row.backward[0] < row.whole[0]


@one_loop
async def test_the_line_says_which_request_fails_and_which_have_no_answer_yet(url):
    async with Line(url, 0.0) as line:
        line.fails_at = 1
        first = await line.ask("why")
        with pytest.raises(ModelError, match="the model is overloaded"):
            await line.ask("why")
        # A blocking call would hold up the loop's tasks, of which there are none.
        again = line.ask_now("why")
        other = await line.ask("how")
        asked = asyncio.ensure_future(line.ask("when"))
        await asyncio.sleep(0)
        is_open = line.open
        await asked

    assert first == again != other
    assert (is_open, line.open, line.sent) == (1, 0, 5)


def test_the_tables_have_medians_and_ratios_and_say_who_is_left_out(record: TextRecord):
    lines = printed(record).splitlines()

    assert lines[2:5] == [
        "| 12 nodes, asyncgrad | 1.00 | 1.33 | 1.00 | 2.00 | 35 |",
        "| 12 nodes, TextGrad | 6.00 | 8.00 | 6.00 | 9.00 | 35 |",
        "| 12 nodes, autoform | – | – | – | 2.50 | 46 |",
    ]
    assert lines[8:11] == [
        "| 12 nodes, asyncgrad | 1 | 0 | 0 | 4 | as without the failure |",
        "| 12 nodes, TextGrad | 10 | 3 | 0 | 23 | has critiques twice |",
        "| 12 nodes, autoform | 1 | 0 | 2 | 46 | as without the failure |",
    ]
    assert lines[-1].endswith("abacus, 2 cores; python 3.13.0. plait is left out: pyplait is not installed.")


def test_a_record_that_is_read_back_is_the_record(record: TextRecord, tmp_path: Path):
    file = tmp_path / "text.json"
    file.write_text(record.text())

    assert TextRecord.read(file) == record


@pytest.mark.parametrize("text", [None, "{}", "[", '{"rows": [{"graf": 1}]}'])
def test_what_is_no_record_is_refused(text: str | None, tmp_path: Path):
    file = tmp_path / "text.json"
    if text is not None:
        file.write_text(text)

    with pytest.raises(UnusableRecordError, match=r"text\.json is no record"):
        TextRecord.read(file)


def test_the_page_and_the_record_are_written(record: TextRecord, tmp_path: Path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / command.PAGE).write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")

    command.write(record, tmp_path)

    page = (tmp_path / command.PAGE).read_text()
    assert page == f"before\n{block(record, '../benchmarks/text.json')}\nafter\n"
    assert TextRecord.read(tmp_path / command.RAW) == record


def test_the_page_shows_the_record_and_nothing_else():
    record = TextRecord.read(command.ROOT / command.RAW)

    assert block(record, f"../{command.RAW}") in (command.ROOT / command.PAGE).read_text()


def test_the_record_keeps_to_the_targets():
    rows = {(row.graph, row.library): row for row in TextRecord.read(command.ROOT / command.RAW).rows}

    for graph in GRAPHS:
        ours, theirs = rows[graph.title, "asyncgrad"], rows[graph.title, "TextGrad"]
        took = sorted(ours.backward)[len(ours.backward) // 2]
        assert ours.requests == theirs.requests
        assert took <= 1.15 * graph.depth * TextRecord.read(command.ROOT / command.RAW).seconds
        assert took <= min(theirs.backward) / 5.0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--rounds", "0"], "--rounds must be at least 1, not 0"),
        (["--seconds", "-1"], "--seconds must not be negative"),
    ],
)
def test_the_command_names_what_it_cannot_use(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        command.main(arguments)

    assert complaint in capsys.readouterr().err


def test_the_benchmarks_have_it_as_the_topic_text(
    record: TextRecord, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "text.json"
    file.write_text(record.text())

    assert benchmarks.run(["text", "--from", str(file)]) == 0
    assert capsys.readouterr().out == f"{printed(record)}\n"


def test_the_command_measures_what_is_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    measuring = importlib.import_module("benchmarks.text.measure")
    monkeypatch.setattr(command, "GRAPHS", (layered(2, 2),))
    monkeypatch.setattr(command, "SIDES", {"asyncgrad": Asyncgrad})
    monkeypatch.setattr(measuring, "RUNS", 2)

    assert command.main(["--rounds", "1", "--seconds", "0.001"]) == 0
    shown = capsys.readouterr().out
    assert "| 5 nodes, asyncgrad |" in shown
    assert "horsona is left out" in shown
