"""The benchmark of programs that wait: all sides compute the same, requests are counted, the page shows the record."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import __main__, many, runner
from benchmarks import report as reports
from benchmarks.record import Record, UnusableRecordError
from benchmarks.runner import Benchmark, Result
from benchmarks.waiting import command, critical_path, report, requests, rows
from benchmarks.waiting.critical_path import CriticalPath
from benchmarks.waiting.loops import LOOPS
from benchmarks.waiting.passes import Passes
from benchmarks.waiting.requests import Requests
from benchmarks.waiting.rows import Rows

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes that take no time, one call a sample."""
    for module, name, value in (
        (many, "PASSES", 4),
        (rows, "ROWS", 4),
        (rows, "SECONDS", 0.001),
        (requests, "RULES", 8),
        (requests, "SECONDS", 0.001),
        (critical_path, "NODES", 10),
        (critical_path, "DEPTH", 3),
        (critical_path, "SECONDS", 0.001),
        (runner, "SAMPLE_SECONDS", 0.0),
    ):
        monkeypatch.setattr(module, name, value)


def measured(benchmark: type[Benchmark]) -> list[Result]:
    return list(runner.run([benchmark], rounds=2))


@pytest.mark.parametrize("benchmark", [Rows, Requests, CriticalPath, Passes])
def test_all_sides_agree_and_are_timed_on_each_loop_in_every_round(benchmark: type[Benchmark]):
    results = measured(benchmark)

    assert {result.case.rpartition(", on ")[2] for result in results} == set(LOOPS)
    for result in results:
        assert list(result.seconds) == list(benchmark.params[0])
        assert all(len(times) == 2 and min(times) > 0 for times in result.seconds.values())


@pytest.mark.slow
def test_least_squares_over_http_finds_what_scipy_does_with_as_many_requests(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("scipy", reason="needs SciPy: pip install 'asyncgrad[scipy]'")
    pytest.importorskip("uvicorn", reason="needs uvicorn: pip install 'asyncgrad[serve]'")
    least_squares: Any = importlib.import_module("benchmarks.waiting.least_squares")
    server: Any = importlib.import_module("benchmarks.waiting.server")
    for module in (least_squares, server):
        monkeypatch.setattr(module, "RESIDUALS", 8)
    with server.running_server(0.001) as address:
        results = measured(least_squares.least_squares_at(address))

    assert len(results) == 3 * len(LOOPS)
    assert all(list(result.seconds) == ["asyncgrad", "steps", "floor"] for result in results)


def test_a_jacobian_that_is_not_that_by_hand_is_found_out(monkeypatch: pytest.MonkeyPatch):
    async def wrong(ctx: Any, grads: Any) -> Any:
        return grads.numpy() * 1.001, None

    monkeypatch.setattr(rows.Together, "backward_batch", staticmethod(wrong))

    with pytest.raises(AssertionError, match=r"backward_batch.*: jacobian: gradient 0 of asyncgrad, .* is not that of"):
        measured(Rows)


def test_a_call_that_has_not_all_rows_is_found_out(monkeypatch: pytest.MonkeyPatch):
    jacobian = rows.ag.jacobian

    async def by_pairs(fn: Any, x: Any) -> Any:
        return await jacobian(fn, x, concurrency=2)

    monkeypatch.setattr(rows.ag, "jacobian", by_pairs)

    with pytest.raises(AssertionError, match=r"calls of backward_batch for 4 rows had \[2, 2"):
        measured(Rows)


def test_more_requests_than_rules_lie_one_beneath_another_are_found_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(requests.ag, "batched", requests.ag.batched(max_size=4))

    with pytest.raises(AssertionError, match="backward passes of depth 1 made 4 requests, not 2"):
        measured(Requests)


def test_what_a_benchmark_has_opened_is_closed_also_after_a_failure():
    closed: list[str] = []

    class Opened(Benchmark):
        title = "opened"
        params = (("asyncgrad", "floor"),)

        async def setup(self, peer: str) -> None:
            self.peer = peer

        async def close(self) -> None:
            closed.append(self.peer)

        def gradients(self) -> list[Any]:
            return [np.array(1.0 if self.peer == "floor" else 2.0)]

        def time_backward(self) -> float:
            return 1.0

    with pytest.raises(AssertionError, match="gradient 0 of asyncgrad"):
        measured(Opened)

    assert closed == ["asyncgrad", "floor"]


def test_the_command_prints_what_it_has_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    status = command.main(["@ag.batched, on", "--rounds", "1", "--json", str(tmp_path / "raw.json")])

    printed = capsys.readouterr().out
    assert status == 0
    assert "| 200 rules of 20 ms at depth 4 by @ag.batched | as many waits |" in printed
    assert report.printed(Record.read(tmp_path / "raw.json")) == printed.removesuffix("\n")


def test_the_benchmarks_have_it_as_the_command_waiting(monkeypatch: pytest.MonkeyPatch):
    seen: list[Any] = []
    monkeypatch.setattr(__main__, "main_of_waiting", lambda arguments: seen.append(arguments) or 7)

    assert __main__.run(["waiting", "jacobian"]) == 7
    assert seen == [["jacobian"]]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["hessian"], "no case is called 'hessian': there are Jacobian of 100 rows"),
        (["--rounds", "0"], "--rounds must be at least 1, not 0"),
        (["--write", "jacobian"], "--write writes all measurements: leave out words"),
        (["--from", "raw.json", "jacobian"], "--from measures nothing: leave out words and --rounds"),
        (["--from", "nowhere/raw.json"], "nowhere/raw.json cannot be read: No such file or directory"),
    ],
    ids=["word", "rounds", "write", "from", "record"],
)
def test_the_command_names_what_it_cannot_use(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as exit_:
        command.main(arguments)

    assert exit_.value.code == 2
    assert complaint in capsys.readouterr().err


def row(name: str, **seconds: list[float]) -> Result:
    order = [list(seconds)] * len(seconds["asyncgrad"])
    return Result(name, seconds, order, topic="rows", measured="2030-01-31")


@pytest.fixture
def record() -> Record:
    """A case that was measured on two loops, and one that was on one of them."""
    rows_of_record = [
        row("a, on asyncio: backward", asyncgrad=[0.3, 0.6], requests=[0.2, 0.3], floor=[0.3, 0.5]),
        row("a, on uvloop: backward", asyncgrad=[0.25, 0.25], requests=[0.2, 0.2], floor=[0.25, 0.25]),
        row("b, on asyncio: backward", asyncgrad=[1.5], torch=[3.0]),
    ]
    return Record({"processor": "Abacus 3"}, rows_of_record)


@pytest.mark.skipif(len(LOOPS) < 2, reason="the table has a column for uvloop")
def test_the_table_has_a_row_for_each_case_and_ratios_of_the_same_round_on_each_loop(record: Record):
    table, about = report.printed(record).split("\n\n")
    ratios = "÷ limit | aim | by hand ÷ limit | ÷ by hand"

    assert table.splitlines() == [
        f"|  | limit | asyncio, ms | {ratios} | uvloop, ms | {ratios} |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| a | as many waits | 450.0 | 1.75 | 1.30 | 1.58 | 1.10 | 250.0 | 1.25 | 1.30 | 1.25 | 1.00 |",
        "| b | PyTorch's, one by one | 1,500.0 | 0.50 | 0.55 | - | - | - | - | - | - | - |",
    ]
    assert about.startswith("Medians of 1 to 2 rounds, measured 2030-01-31 on Abacus 3")


def test_the_page_and_the_record_are_written(record: Record, tmp_path: Path):
    for name in (command.PAGE, command.RAW):
        (tmp_path / name).parent.mkdir()
    (tmp_path / command.PAGE).write_text(f"before\n\n{reports.BEGIN}\nold\n{reports.END}\n\nafter\n")

    command.write(record, tmp_path)

    page = (tmp_path / command.PAGE).read_text()
    assert page == f"before\n\n{report.block(record, '../benchmarks/waiting.json')}\n\nafter\n"
    assert Record.read(tmp_path / command.RAW) == record


def test_a_page_without_markers_keeps_the_record_from_being_written(record: Record, tmp_path: Path):
    for name in (command.PAGE, command.RAW):
        (tmp_path / name).parent.mkdir()
    (tmp_path / command.PAGE).write_text("no markers\n")

    with pytest.raises(UnusableRecordError, match="must have the lines"):
        command.write(record, tmp_path)

    assert not (tmp_path / command.RAW).exists()


def test_the_page_shows_the_record_and_nothing_else():
    page = (ROOT / command.PAGE).read_text(encoding="utf-8")
    block = report.block(Record.read(ROOT / command.RAW), f"../{command.RAW}")

    assert reports.replaced(page, block, ROOT / command.PAGE) == page


def test_every_case_has_been_recorded():
    recorded = {one.topic for one in Record.read(ROOT / command.RAW).results}

    assert recorded == {"rows", "least_squares", "requests", "critical_path", "passes"}
