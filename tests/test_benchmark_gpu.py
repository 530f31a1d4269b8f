"""The benchmarks on a GPU, run on the cpu with tiny models; and the page shows what was recorded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import asyncgrad as ag
from benchmarks import report
from benchmarks.gpu import command, hardware, loop, measure
from benchmarks.gpu import report as gpu_report
from benchmarks.gpu.cases import CASES, TINY
from benchmarks.gpu.overlap import Overlap, Span
from benchmarks.peers import torch
from benchmarks.record import Record, UnusableRecordError
from benchmarks.runner import Result

ALONE = torch is None
SHORT = measure.Budget(rounds=3, sample_seconds=0.0, case_seconds=0.0)


def measured(*words: str) -> measure.Steps:
    return ag.run(measure.measure_steps("cpu", SHORT, alone=ALONE, quick=False, words=words))


@pytest.fixture
def record() -> gpu_report.GpuRecord:
    """A record with all that there can be."""
    seconds = {"asyncgrad": [2e-3, 3e-3], "asyncgrad, compiled": [1e-3, 1e-3], "torch": [4e-3, 4e-3]}
    order = [list(seconds)] * 2
    machine = {"gpu": "Abacus", "gpu memory": "8 GiB", "driver": "1.0", "cuda": "13.1", "cupy": "14.2", "torch": "2"}
    rows = [Result("MLP", seconds, order, topic="gpu", measured="2030-01-31")]
    return gpu_report.GpuRecord(
        Record(machine, rows),
        {"MLP": {"asyncgrad": 300, "torch": 200}},
        {"MLP": {"asyncgrad": 40, "torch": 50}},
        {"idle": 1e-4, "training": 2e-3},
        [Overlap("two branches", 4.0, 3.0, [Span("branch 1", 0.0, 2.0), Span("branch 2", 0.5, 3.0)])],
    )


def test_every_model_is_trained_by_all_libraries_whose_gradients_agree() -> None:
    found = measured()

    assert [one.name for one in found.results] == [case.name for case in TINY]
    for result, case in zip(found.results, TINY, strict=True):
        assert ("by hand" in result.seconds) is ("by hand" in case.models)
        assert ("asyncgrad, compiled" in result.seconds) is not case.updates_only
        assert ({"torch", "torch, fused Adam"} <= result.seconds.keys()) is not ALONE
        assert {len(times) for times in result.seconds.values()} == {3}
        assert [sorted(turn) for turn in result.order] == [sorted(result.seconds)] * 3


def test_the_models_of_a_gpu_are_the_kinds_that_are_tried_on_the_cpu() -> None:
    def kinds(cases: Any) -> set[str]:
        return {case.name.partition(",")[0] for case in cases}

    assert kinds(CASES) == kinds(TINY)


def test_a_word_chooses_the_cases() -> None:
    assert [one.name.partition(",")[0] for one in measured("lstm").results] == ["LSTM"]


def test_a_library_that_computes_something_else_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    model = TINY[0].models["by hand"]

    def wrong(*arrays: Any) -> Any:
        loss, pullback = model(*arrays)
        return loss, lambda g: [gradient * 1.01 for gradient in pullback(g)]

    monkeypatch.setitem(TINY[0].models, "by hand", wrong)

    with pytest.raises(AssertionError, match=r"by hand: gradient 0, float32\[16, 16\], differs from that of the first"):
        measured()


def test_the_loop_is_measured_idle_and_beside_a_training() -> None:
    found = ag.run(loop.measure_lateness("cpu", seconds=0.01))

    assert found.keys() == {"idle", "training", "idle again"}
    assert min(found.values()) > 0


def test_a_record_that_is_read_back_is_the_record(record: gpu_report.GpuRecord, tmp_path: Path) -> None:
    (tmp_path / "gpu.json").write_text(record.text(), encoding="utf-8")

    assert gpu_report.GpuRecord.read(tmp_path / "gpu.json") == record


def test_the_report_shows_ratios_kernels_memory_lateness_and_overlap(record: gpu_report.GpuRecord) -> None:
    shown = gpu_report.printed(record)

    assert "| training step | asyncgrad, ms | × PyTorch | compiled, × PyTorch | kernels | of PyTorch's |" in shown
    assert "| MLP | 2.500 | 0.62 | 0.25 | 40 | 50 | 1.50 |" in shown
    assert "idle 0.10 ms, training 2.00 ms" in shown
    assert "Two branches: 4.00 ms and 3.00 ms (× 0.75)" in shown
    assert "| branch 2 | 0.50 | 3.00 |" in shown
    assert "on Abacus (8 GiB), driver 1.0; CUDA 13.1, CuPy 14.2, PyTorch 2" in shown


def test_the_page_shows_the_record_and_nothing_else() -> None:
    page, raw = command.ROOT / command.PAGE, command.ROOT / command.RAW
    record = gpu_report.GpuRecord.read(raw) if raw.exists() else None
    text = page.read_text(encoding="utf-8")

    assert report.replaced(text, gpu_report.block(record, report.BEGIN, report.END), page) == text


def test_a_record_is_written_with_its_page(record: gpu_report.GpuRecord, tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "docs").mkdir()
    page = tmp_path / command.PAGE
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")

    command.write(record, tmp_path)

    assert gpu_report.GpuRecord.read(tmp_path / command.RAW) == record
    assert page.read_text() == f"before\n{gpu_report.block(record, report.BEGIN, report.END)}\nafter\n"


def test_a_page_without_markers_keeps_the_record_from_being_written(
    record: gpu_report.GpuRecord, tmp_path: Path
) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / command.PAGE).write_text("no markers\n")

    with pytest.raises(UnusableRecordError, match="must have the lines"):
        command.write(record, tmp_path)

    assert not (tmp_path / command.RAW).exists()


def test_the_command_prints_a_table_and_writes_the_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["conv", "--device", "cpu", "--quick", "--steps-only", "--json", str(tmp_path / "gpu.json")]

    status = command.main([*arguments, "--alone"])

    assert status == 0
    assert "| conv net, 3 layers, 2 × 3 × 8 × 8 |" in capsys.readouterr().out
    (row,) = gpu_report.GpuRecord.read(tmp_path / "gpu.json").timings.results
    assert row.seconds.keys() == {"asyncgrad"}


def test_without_a_gpu_the_command_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hardware, "find_spec", lambda name: None)

    status = command.main([])

    assert status == 2
    assert "CuPy is not installed: pip install 'asyncgrad[cuda13]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["mlp", "--write"], "--write writes all measurements on a GPU: leave out words"),
        (["--device", "cpu", "--write"], "--write writes all measurements on a GPU"),
        (["--json", "nowhere/gpu.json"], "--json: there is no folder nowhere"),
    ],
    ids=["word", "cpu", "json"],
)
def test_the_command_names_what_it_cannot_use(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        command.main(arguments)

    assert exit_.value.code == 2
    assert complaint in capsys.readouterr().err


def test_importing_the_command_imports_neither_cupy_nor_pytorch() -> None:
    script = "import sys, benchmarks.gpu.command; print({'cupy', 'torch'} & set(sys.modules))"

    done = subprocess.run([sys.executable, "-c", script], cwd=command.ROOT, capture_output=True, text=True, check=True)

    assert done.stdout == "set()\n"
