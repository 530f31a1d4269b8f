"""The record of a run on a GPU as JSON, and the report in docs/gpu.md, which is made from the record only."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, final

from ..record import Record
from ..report import marked
from ..runner import Result
from .overlap import Overlap, Span
from .work import bound_by

__all__ = ["GpuRecord", "block", "printed"]

#: The columns of ratios: the library whose time is the numerator, that of the denominator, and the heading.
RATIOS = (
    ("asyncgrad", "torch", "× PyTorch"),
    ("asyncgrad", "torch, fused Adam", "× PyTorch, fused Adam"),
    ("asyncgrad, compiled", "torch", "compiled, × PyTorch"),
    ("asyncgrad", "by hand", "× CuPy by hand"),
)


@final
@dataclass
class GpuRecord:
    """All measurements of one run."""

    #: The machine, and the times of each case in each round.
    timings: Record
    #: By case and library: the peak of the GPU's memory that a training uses, in bytes.
    memory: dict[str, dict[str, int]] = field(default_factory=dict)
    #: By case and library: the number of kernels that a step launches.
    kernels: dict[str, dict[str, int]] = field(default_factory=dict)
    #: By case and library: the milliseconds of a step during which the GPU works.
    busy_ms: dict[str, dict[str, float]] = field(default_factory=dict)
    #: Why the two above were not measured; empty if they were.
    not_measured: str = ""
    #: By activity of the loop: the 99th percentile of a timer's lateness, in seconds.
    lateness: dict[str, float] = field(default_factory=dict)
    overlap: list[Overlap] = field(default_factory=list)

    def text(self) -> str:
        """Return the record as JSON."""
        more = {
            "memory": self.memory,
            "kernels": self.kernels,
            "busy_ms": self.busy_ms,
            "not_measured": self.not_measured,
            "lateness": self.lateness,
            "overlap": [asdict(one) for one in self.overlap],
        }
        return json.dumps({**json.loads(self.timings.text()), **more}, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, path: Path) -> GpuRecord:
        """Return the record that a file contains.

        Raises:
            UnusableRecordError: the file does not contain a record; the message says why.
        """
        timings, raw = Record.read(path), json.loads(path.read_text(encoding="utf-8"))
        return cls(
            timings,
            raw.get("memory", {}),
            raw.get("kernels", {}),
            raw.get("busy_ms", {}),
            raw.get("not_measured", ""),
            raw.get("lateness", {}),
            [_read_overlap(one) for one in raw.get("overlap", [])],
        )


def _read_overlap(raw: Mapping[str, Any]) -> Overlap:
    return Overlap(**{**raw, "timeline": [Span(**span) for span in raw["timeline"]]})


def printed(record: GpuRecord) -> str:
    """Return the report as Markdown."""
    parts = [
        _render_table(record),
        _render_causes(record),
        _render_not_measured(record),
        _render_lateness(record),
        *map(_render_overlap, record.overlap),
        _render_conditions(record),
    ]
    return "\n\n".join(part for part in parts if part)


def block(record: GpuRecord, raw: str) -> str:
    """Return the report as Markdown between markers.

    Args:
        record: the measurements.
        raw: the path of the record, as the page names it.
    """
    return marked("python -m benchmarks.gpu --write", raw, printed(record))


def _render_table(record: GpuRecord) -> str:
    results = record.timings.results
    ratios = [column for column in RATIOS if any(one.ratio(column[1], of=column[0]) is not None for one in results)]
    heads = ["training step", "asyncgrad, ms", *(head for *_, head in ratios)]
    heads += ["kernels", "of PyTorch's"] if record.kernels else []
    heads += ["memory, × PyTorch"] if any(_memory(record, one) for one in results) else []
    lines = [heads, ["---", *(["---:"] * (len(heads) - 1))]]
    for result in results:
        row = [result.name, f"{result.microseconds() / 1e3:,.3f}"]
        row += [_number(result.ratio(peer, of=of)) for of, peer, _ in ratios]
        if record.kernels:
            counts = record.kernels.get(result.name, {})
            row += [str(counts.get(library) or "-") for library in ("asyncgrad", "torch")]
        if len(row) < len(heads):
            row.append(_number(_memory(record, result)))
        lines.append(row)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _render_causes(record: GpuRecord) -> str:
    """Return a table of what explains the times: their spread, the work of the GPU, and the peak of its memory."""
    columns: list[tuple[str, Callable[[GpuRecord, Result, str], str]]] = [("samples, ms", _spread)]
    shows_fastest = any("torch" in result.seconds for result in record.timings.results)
    columns += [("GPU works, ms", _busy), ("bound by", _bound)] if record.busy_ms else []
    columns += [("memory, MiB", _peak)] if any(record.memory.values()) else []
    heads = ["training step", *(title for head, _ in columns for title in (head, "PyTorch's"))]
    heads += ["fastest, × PyTorch"] if shows_fastest else []
    lines = [heads, ["---", *(["---:"] * (len(heads) - 1))]]
    for result in record.timings.results:
        cells = [cell(record, result, library) for _, cell in columns for library in ("asyncgrad", "torch")]
        lines.append([result.name, *cells, *([_number(_fastest(result))] if shows_fastest else [])])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _spread(_: GpuRecord, result: Result, library: str) -> str:
    times = result.seconds.get(library)
    return f"{min(times) * 1e3:,.2f} to {max(times) * 1e3:,.2f}" if times else "-"


def _fastest(result: Result) -> float | None:
    """Return the ratio of the fastest samples, which a machine that others use disturbs least."""
    times = result.seconds
    return min(times["asyncgrad"]) / min(times["torch"]) if "torch" in times else None


def _busy(record: GpuRecord, result: Result, library: str) -> str:
    busy = record.busy_ms.get(result.name, {}).get(library)
    return "-" if busy is None else f"{busy:,.2f}"


def _bound(record: GpuRecord, result: Result, library: str) -> str:
    busy, times = record.busy_ms.get(result.name, {}).get(library), result.seconds.get(library)
    return "-" if busy is None or not times else bound_by(busy / 1e3, statistics.median(times))


def _peak(record: GpuRecord, result: Result, library: str) -> str:
    peak = record.memory.get(result.name, {}).get(library, 0)
    return f"{peak / 2**20:,.0f}" if peak > 0 else "-"


def _render_not_measured(record: GpuRecord) -> str:
    why = record.not_measured
    return f"How long the GPU works in a step, and how many kernels it runs, was not measured: {why}." if why else ""


def _memory(record: GpuRecord, result: Result) -> float | None:
    """Return the ratio of asyncgrad's peak memory to PyTorch's."""
    found = record.memory.get(result.name, {})
    return found["asyncgrad"] / found["torch"] if found.get("asyncgrad") and found.get("torch") else None


def _number(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


def _render_lateness(record: GpuRecord) -> str:
    """Return the lateness of a timer as one sentence."""
    if not record.lateness:
        return ""
    times = ", ".join(f"{what} {1e3 * seconds:.2f} ms" for what, seconds in record.lateness.items())
    return (
        "How late a timer of 1 ms fires on the event loop (99th percentile), on an idle loop and during a training of "
        f"the MLP with the largest products, which awaits each backward and the device: {times}."
    )


def _render_overlap(overlap: Overlap) -> str:
    """Return a comparison, and the timeline of the pieces that run at the same time."""
    times = (
        f"{overlap.name[0].upper()}{overlap.name[1:]}: {overlap.apart_ms:.2f} ms and {overlap.together_ms:.2f} ms "
        f"(× {overlap.together_ms / overlap.apart_ms:.2f}), by CUDA events. In the second case:"
    )
    lines = [
        times,
        "",
        "| work | begins, ms | ends, ms |",
        "| --- | ---: | ---: |",
        *(f"| {span.what} | {span.begin:.2f} | {span.end:.2f} |" for span in overlap.timeline),
    ]
    return "\n".join(lines)


def _render_conditions(record: GpuRecord) -> str:
    """Return a line with the number of rounds, the date, the machine and the versions."""
    machine = record.timings.machine
    rounds = sorted({len(result.seconds["asyncgrad"]) for result in record.timings.results})
    days = sorted({result.measured for result in record.timings.results})
    gpu = f"{machine['gpu']} ({machine['gpu memory']}), driver {machine['driver']}" if "gpu" in machine else "no GPU"
    versions = [
        f"{called} {machine[name]}"
        for name, called in (
            ("cuda", "CUDA"),
            ("cupy", "CuPy"),
            ("torch", "PyTorch"),
            ("numpy", "NumPy"),
            ("python", "Python"),
        )
        if name in machine
    ]
    shown = f"{rounds[0]}" if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]}"
    when = " to ".join(dict.fromkeys([days[0], days[-1]]))
    where = f"{gpu}; {', '.join(versions)}; {machine.get('processor', 'unknown processor')}"
    return f"Medians of {shown} rounds of float32 without TF32, measured {when} on {where}."
