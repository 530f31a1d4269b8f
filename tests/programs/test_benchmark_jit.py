"""The benchmark of compiled functions: sides agree, what is not compiled is no figure, the page shows the record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncgrad.core.settings.scheduling import WORKERS
from benchmarks import __main__, chain, lstm, runner
from benchmarks import report as reports
from benchmarks.jit import command, gpt, report, steps
from benchmarks.jit.report import JitRecord
from benchmarks.jit.sides import SIDES, Eager, Jitted, make_steady
from benchmarks.jit.trainers import TRAINERS
from benchmarks.jit.workloads import TINY, WORKLOADS, Workload
from benchmarks.peers import Problem
from benchmarks.record import Record, UnusableRecordError
from benchmarks.runner import Result

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes that take no time, one call a sample."""
    for module, name, value in (
        (chain, "ITERATIONS", 5),
        (lstm, "STEPS", 3),
        (gpt, "LAYERS", 1),
        (runner, "SAMPLE_SECONDS", 0.0),
    ):
        monkeypatch.setattr(module, name, value)


def squares(x):
    return (x * x).sum()


def by_hand(x):
    return (x * x).sum(), lambda g: [2 * g * x]


SQUARES = Workload("squares", "squares", squares, squares, by_hand, lambda: Problem([], [np.ones(3)]), {})


def measured(workload: Workload, *words: str) -> tuple[list[Result], steps.Compiling]:
    compiling: steps.Compiling = {}
    benchmarks = steps.benchmarks_of(words, quick=True, compiling=compiling, workloads=[workload])
    return list(runner.run(benchmarks, rounds=2)), compiling


@pytest.mark.slow
@pytest.mark.parametrize("workload", WORKLOADS, ids=[one.title for one in WORKLOADS])
def test_all_sides_agree_on_the_result_and_on_the_gradients_and_the_losses_of_a_training(workload: Workload):
    results, compiling = measured(workload)

    sides = set(SIDES) - set(steps.SLOW) - set(workload.lacks)
    assert sides <= set(results[0].seconds)
    assert all(len(times) == 2 for one in results for times in one.seconds.values())
    assert {"asyncgrad", "table"} <= compiling[workload.title].keys()
    if "asyncgrad" in TRAINERS and workload.is_trained:
        assert results[1].seconds.keys() == TRAINERS.keys()


def test_a_side_that_computes_something_else_is_found_out():
    wrong = SQUARES._replace(model=lambda x: squares(x) * 2, torch=squares, lacks={"JAX": "", "PyTensor": ""})

    with pytest.raises(AssertionError, match=r"squares: step: gradient 0 of asyncgrad, .* is not that of floor"):
        measured(wrong)


def test_steps_are_timed_when_the_last_ones_were_by_a_program_however_late_it_was_ready():
    """Machine code may be ready in any call, and is compared with eager ones before it is used: 4, at any time."""
    side = Eager(SQUARES)
    replays = [*(True,) * 2, *(False,) * 4, *(True,) * 10]
    times: list[float] = []

    steps.run_alone(make_steady(side, lambda: {"replayed": sum(replays[: len(times)])}, times))

    assert len(times) == 9


def test_what_is_not_compiled_is_no_figure():
    view = SQUARES._replace(model=lambda x: x[:1].reshape(()))

    with pytest.raises(RuntimeError, match=r"the calls of a workload are not replayed: .*a view of an argument"):
        steps.run_alone(Jitted(view).compile())


def test_a_quick_run_prints_what_it_has_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    status = command.main(["size 16", "--quick", "--rounds", "1", "--json", str(tmp_path / "raw.json")])

    printed = capsys.readouterr().out
    assert status == 0
    assert "| a step | compiled, ms |" in printed
    assert "| chain of 4,000 nodes, size 16 |" in printed
    assert report.printed(JitRecord.read(tmp_path / "raw.json")) == printed.removesuffix("\n")


def test_the_benchmarks_have_it_as_the_topic_jit(monkeypatch: pytest.MonkeyPatch):
    seen: list[Any] = []
    monkeypatch.setattr(__main__, "main_of_jit", lambda arguments: seen.append(arguments) or 7)

    assert __main__.run(["jit", "mlp", "--quick"]) == 7
    assert seen == [["mlp", "--quick"]]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["mpl"], "no workload is called 'mpl': there are chain of 4,000 nodes, size 16"),
        (["--rounds", "0"], "--rounds must be at least 1, not 0"),
        (["--write", "--quick"], "--write writes all measurements: leave out words and --quick"),
        (["--from", "raw.json", "mlp"], "--from measures nothing: leave out words, --rounds, --quick and --gc"),
        (["--from", "nowhere/raw.json"], "nowhere/raw.json cannot be read: No such file or directory"),
    ],
    ids=["word", "rounds", "write", "from", "record"],
)
def test_the_command_names_what_it_cannot_use(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as exit_:
        command.main(arguments)

    assert exit_.value.code == 2
    assert complaint in capsys.readouterr().err


def row(name: str, lacks: dict[str, str] | None = None, **seconds: list[float]) -> Result:
    order = [list(seconds)] * len(seconds["asyncgrad"])
    return Result(name, seconds, order, topic="steps", lacks=lacks or {}, measured="2030-01-31")


@pytest.fixture
def record() -> JitRecord:
    """A model that gains, one that does not, and a training."""
    rows = [
        row(
            "a: step", {"PyTensor": "it is slow"}, asyncgrad=[1.0, 2.0], table=[1.5, 3.0], eager=[2, 4], floor=[0.5, 1]
        ),
        row("b: step", asyncgrad=[2.0], eager=[1.0], JAX=[1.0], floor=[1.0]),
        row("a, with Adam: step", asyncgrad=[2.0], JAX=[4.0]),
    ]
    return JitRecord(
        Record({"processor": "Abacus 3"}, rows), {"a": {"asyncgrad": 3.0, "JAX": 0.25}, "b": {"asyncgrad": 1.0}}
    )


def test_tables_have_ratios_of_the_same_round_and_the_calls_that_pay_for_compiling(record: JitRecord):
    step, trained, compiling, lacks, about = report.printed(record).split("\n\n")

    assert step.splitlines() == [
        "| a step | compiled, ms | ÷ JAX | ÷ eager | ÷ by hand | table ÷ by hand |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        "| a | 1500.00 | - | 0.50 | 2.00 | 3.00 |",
        "| b | 2000.00 | 2.00 | 2.00 | 2.00 | - |",
    ]
    assert trained.splitlines()[2:] == ["| a | 2000.00 | 0.50 |"]
    assert compiling.splitlines() == [
        "| compiling, s | compiled | JAX | pays after, calls |",
        "| --- | ---: | ---: | ---: |",
        "| a | 3.00 | 0.25 | 2 |",
        "| b | 1.00 | - | never |",
        "| a, with Adam | - | - | - |",
    ]
    assert lacks == "PyTensor does not take part in “a”: it is slow."
    assert about.startswith("Medians of 1 to 2 rounds, measured 2030-01-31 on Abacus 3")


def test_a_record_that_is_read_back_is_the_record(record: JitRecord, tmp_path: Path):
    (tmp_path / "raw.json").write_text(record.text(), encoding="utf-8")

    assert JitRecord.read(tmp_path / "raw.json") == record


def test_a_record_without_the_times_of_compiling_is_refused(record: JitRecord, tmp_path: Path):
    (tmp_path / "raw.json").write_text(record.timings.text(), encoding="utf-8")

    with pytest.raises(UnusableRecordError, match='needs an object of numbers "compiling"'):
        JitRecord.read(tmp_path / "raw.json")


def test_the_page_and_the_record_are_written(record: JitRecord, tmp_path: Path):
    for name in (command.PAGE, command.RAW):
        (tmp_path / name).parent.mkdir()
    (tmp_path / command.PAGE).write_text(f"before\n\n{reports.BEGIN}\nold\n{reports.END}\n\nafter\n")

    command.write(record, tmp_path)

    page = (tmp_path / command.PAGE).read_text()
    assert page == f"before\n\n{report.block(record, '../benchmarks/jit.json')}\n\nafter\n"
    assert JitRecord.read(tmp_path / command.RAW) == record


def test_the_page_shows_the_record_and_nothing_else():
    page = (ROOT / command.PAGE).read_text(encoding="utf-8")
    block = report.block(JitRecord.read(ROOT / command.RAW), f"../{command.RAW}")

    assert reports.replaced(page, block, ROOT / command.PAGE) == page


def test_every_workload_has_been_recorded():
    recorded = {one.case for one in JitRecord.read(ROOT / command.RAW).timings.results}

    assert {one.title for one in WORKLOADS} <= recorded


def test_a_step_runs_without_workers():
    async def workers() -> int:
        return WORKERS.get().limit

    assert steps.run_alone(workers()) == 0


def test_each_side_is_warmed_by_a_model_of_its_own():
    warmed = []

    def side(workload: Workload) -> Any:
        warmed.append(workload)
        return Jitted(workload)

    steps.run_alone(steps.warm(quick=True, sides={"asyncgrad": side, "PyTensor": side}))

    assert warmed == [TINY]
