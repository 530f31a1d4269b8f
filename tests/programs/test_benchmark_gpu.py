"""The benchmarks on a GPU, run on the cpu with tiny models; and the page shows what was recorded."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

import asyncgrad as ag
from benchmarks import report
from benchmarks.gpu import command, hardware, loop, measure, work
from benchmarks.gpu import report as gpu_report
from benchmarks.gpu.cases import CASES, TINY
from benchmarks.gpu.overlap import Overlap, Span
from benchmarks.gpu.work import Event, KernelTotal, Work
from benchmarks.peers import torch
from benchmarks.record import Record, UnusableRecordError
from benchmarks.runner import Result
from tests.support.loops import one_loop
from tests.support.processes import run_python

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
        {"MLP": {"asyncgrad": 3 << 20, "torch": 2 << 20}},
        {"MLP": {"asyncgrad": 40, "torch": 50}},
        {"MLP": {"asyncgrad": 0.5, "torch": 3.6}},
        "",
        {"idle": 1e-4, "training": 2e-3},
        [Overlap("two branches", 4.0, 3.0, [Span("branch 1", 0.0, 2.0), Span("branch 2", 0.5, 3.0)])],
    )


@pytest.mark.slow
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


@one_loop
async def test_the_loop_is_measured_idle_and_beside_a_training() -> None:
    found = await loop.measure_lateness("cpu", seconds=0.01)

    assert found.keys() == {"idle", "training", "idle again"}
    assert min(found.values()) > 0


def test_a_record_that_is_read_back_is_the_record(record: gpu_report.GpuRecord, tmp_path: Path) -> None:
    (tmp_path / "gpu.json").write_text(record.text(), encoding="utf-8")

    assert gpu_report.GpuRecord.read(tmp_path / "gpu.json") == record


def test_the_report_shows_ratios_kernels_memory_lateness_and_overlap(record: gpu_report.GpuRecord) -> None:
    shown = gpu_report.printed(record)

    assert "| training step | asyncgrad, ms | × PyTorch | compiled, × PyTorch | kernels | of PyTorch's |" in shown
    assert "| MLP | 2.500 | 0.62 | 0.25 | 40 | 50 | 1.50 |" in shown
    assert "| samples, ms | PyTorch's | GPU works, ms | PyTorch's | bound by | PyTorch's | memory, MiB |" in shown
    assert "| MLP | 2.00 to 3.00 | 4.00 to 4.00 | 0.50 | 3.60 | host | GPU | 3 | 2 | 0.50 |" in shown
    assert "idle 0.10 ms, training 2.00 ms" in shown
    assert "Two branches: 4.00 ms and 3.00 ms (× 0.75)" in shown
    assert "| branch 2 | 0.50 | 3.00 |" in shown
    assert "on Abacus (8 GiB), driver 1.0; CUDA 13.1, CuPy 14.2, PyTorch 2" in shown


def test_a_report_without_the_work_of_the_gpu_says_why(record: gpu_report.GpuRecord) -> None:
    record.kernels, record.busy_ms, record.not_measured = {}, {}, "PyTorch is built without CUPTI"

    shown = gpu_report.printed(record)

    assert "| training step | samples, ms | PyTorch's | memory, MiB | PyTorch's | fastest, × PyTorch |" in shown
    assert "was not measured: PyTorch is built without CUPTI." in shown


#: Two steps. In each, a copy runs beside a product and ends after it.
EVENTS = [
    event
    for begin in (0.0, 1000.0)
    for event in (
        Event("add", begin + 300, begin + 310),
        Event("product", begin, begin + 100),
        Event("Memcpy HtoD", begin + 50, begin + 150),
        Event("add", begin + 200, begin + 230),
    )
]


def test_the_work_of_a_step_is_the_time_in_which_anything_runs_and_the_total_of_each_kernel() -> None:
    found = work.summarize(EVENTS, steps=2)

    assert found == Work(
        kernels=3,
        busy_ms=0.19,
        totals=[KernelTotal("product", 1, 100), KernelTotal("Memcpy HtoD", 1, 100), KernelTotal("add", 2, 40)],
    )


@pytest.mark.parametrize(("busy", "bound"), [(0.59, "host"), (0.6, "both"), (0.79, "both"), (0.8, "GPU"), (1.1, "GPU")])
def test_a_step_is_bound_by_the_gpu_if_that_works_most_of_the_time(busy: float, bound: str) -> None:
    assert work.bound_by(busy, 1.0) == bound


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("asyncgrad_add_ff", "asyncgrad_add_ff"),
        ("sm80_xmma_gemm_f32f32_tn_n(Params<float>)", "sm80_xmma_gemm_f32f32_tn_n"),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::tanh(float)>(int)",
            "vectorized_elementwise_kernel<4, tanh(float)>",
        ),
        ("x" * 200, "x" * 109 + "…"),
    ],
)
def test_a_kernel_is_shown_by_what_tells_it_from_others(name: str, short: str) -> None:
    assert work.short_name(name) == short


def test_the_kernels_of_both_libraries_are_listed_with_what_bounds_the_step(record: gpu_report.GpuRecord) -> None:
    works = {"MLP": {"asyncgrad": work.summarize(EVENTS, 2), "torch": Work(1, 3.6, [KernelTotal("gemm", 1, 3600)])}}

    shown = work.tables_of_cases(works, record.timings.results).splitlines()

    assert shown == [
        "MLP",
        "",
        "asyncgrad: a step takes 2.500 ms, of which the GPU works 0.190 ms (8%, bound by: host); 3 kernels",
        "        µs    calls  kernel",
        "     100.0        1  product",
        "     100.0        1  Memcpy HtoD",
        "      40.0        2  add",
        "",
        "torch: a step takes 4.000 ms, of which the GPU works 3.600 ms (90%, bound by: GPU); 1 kernels",
        "        µs    calls  kernel",
        "   3,600.0        1  gemm",
    ]


class Profiler:
    """PyTorch's profiler, with what it is to have recorded: one kernel in each step, and a call of the host."""

    ProfilerActivity = SimpleNamespace(CUDA="cuda")

    def __init__(self, activities: set[str], kernels: int) -> None:
        self.activities, self.kernels = activities, kernels

    def supported_activities(self) -> set[str]:
        return self.activities

    def profile(self, activities: list[str]) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """It has recorded."""

    def events(self) -> list[Any]:
        def event(name: str, device: str, begin: float) -> Any:
            times = SimpleNamespace(start=begin, end=begin + 5)
            return SimpleNamespace(name=name, device_type=device, time_range=times)

        return [event("launch", "CPU", 0.0), *(event("kernel", "CUDA", 10.0 * nr) for nr in range(self.kernels))]


class Idle:
    """A training that does nothing."""

    async def step(self) -> None:
        """A step."""

    async def synchronize(self) -> None:
        """There is nothing to wait for."""


def profiled(monkeypatch: pytest.MonkeyPatch, *, activities: set[str], kernels: int) -> Work:
    fake: Any = SimpleNamespace(
        __version__="2.0",
        profiler=Profiler(activities, kernels),
        autograd=SimpleNamespace(DeviceType=SimpleNamespace(CUDA="CUDA")),
    )
    monkeypatch.setattr(work, "torch", fake)
    training: Any = Idle()
    return ag.run(work.profile_work(training))


def test_the_profiler_records_the_kernels_and_not_the_calls_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    found = profiled(monkeypatch, activities={"cpu", "cuda"}, kernels=3)

    assert found == Work(kernels=1, busy_ms=0.005, totals=[KernelTotal("kernel", 1, 5)])


@pytest.mark.parametrize(
    ("activities", "kernels", "reason"),
    [
        ({"cpu"}, 0, "PyTorch 2.0 is built without CUDA or CUPTI, or finds no GPU"),
        ({"cpu", "cuda"}, 0, "PyTorch's profiler recorded nothing on the GPU: CUPTI is missing"),
    ],
    ids=["no CUPTI", "nothing recorded"],
)
def test_where_kernels_cannot_be_recorded_the_reason_is_given(
    activities: set[str], kernels: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(work.NotMeasuredError, match=reason):
        profiled(monkeypatch, activities=activities, kernels=kernels)


def test_the_page_shows_the_record_and_nothing_else() -> None:
    page, raw = command.ROOT / command.PAGE, command.ROOT / command.RAW
    record = gpu_report.GpuRecord.read(raw)
    text = page.read_text(encoding="utf-8")

    assert report.replaced(text, gpu_report.block(record, f"../{command.RAW}"), page) == text


def test_a_record_is_written_with_its_page(record: gpu_report.GpuRecord, tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "docs").mkdir()
    page = tmp_path / command.PAGE
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")

    command.write(record, tmp_path)

    assert gpu_report.GpuRecord.read(tmp_path / command.RAW) == record
    assert page.read_text() == f"before\n{gpu_report.block(record, f'../{command.RAW}')}\nafter\n"


def test_a_page_without_markers_keeps_the_record_from_being_written(
    record: gpu_report.GpuRecord, tmp_path: Path
) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / command.PAGE).write_text("no markers\n")

    with pytest.raises(UnusableRecordError, match="must have the lines"):
        command.write(record, tmp_path)

    assert not (tmp_path / command.RAW).exists()


@pytest.mark.slow
def test_the_command_prints_a_table_and_writes_the_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["conv", "--device", "cpu", "--quick", "--steps-only", "--json", str(tmp_path / "gpu.json")]

    status = command.main([*arguments, "--alone"])

    assert status == 0
    shown = capsys.readouterr().out
    assert "| conv net, 3 layers, 2 × 3 × 8 × 8 |" in shown
    assert "was not measured: this is no GPU" in shown
    (row,) = gpu_report.GpuRecord.read(tmp_path / "gpu.json").timings.results
    assert row.seconds.keys() == {"asyncgrad"}


def test_without_a_gpu_the_command_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hardware, "find_spec", lambda name: None)

    status = command.main([])

    assert status == 2
    assert "CuPy is not installed: pip install -e '.[cuda13]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["mlp", "--write"], "--write writes all measurements on a GPU: leave out words"),
        (["--kernels", "--write"], "--write writes all measurements on a GPU: leave out words"),
        (["--kernels", "mlp", "--device", "cpu"], "--kernels needs a GPU, and PyTorch to record its kernels"),
        (["--device", "cpu", "--write"], "--write writes all measurements on a GPU"),
        (["--json", "nowhere/gpu.json"], "--json: there is no folder nowhere"),
    ],
    ids=["word", "kernels to write", "kernels without a GPU", "cpu", "json"],
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

    assert run_python(script) == "set()"
