"""The record of a run on a GPU as JSON, and the page's text between its markers, made from the record alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, final

from ..record import Record
from ..runner import Result
from .overlap import Overlap, Span

__all__ = ["GpuRecord", "block", "printed"]

#: The columns of ratios: the library whose time is divided, by which, and the heading.
RATIOS = (
    ("asyncgrad", "torch", "× PyTorch"),
    ("asyncgrad", "torch, fused Adam", "× PyTorch, fused Adam"),
    ("asyncgrad, compiled", "torch", "compiled, × PyTorch"),
    ("asyncgrad", "by hand", "× CuPy by hand"),
)


@final
@dataclass
class GpuRecord:
    """All that one run has measured."""

    #: The machine, and the seconds of every round.
    timings: Record
    #: By case and library, the most bytes of the GPU that a training uses.
    memory: dict[str, dict[str, int]] = field(default_factory=dict)
    #: By case and library, the kernels that a step launches.
    kernels: dict[str, dict[str, int]] = field(default_factory=dict)
    #: The 99th percentile of a timer's lateness in seconds, by what the loop does.
    lateness: dict[str, float] = field(default_factory=dict)
    overlap: list[Overlap] = field(default_factory=list)

    def text(self) -> str:
        """Return the record as JSON."""
        more = {
            "memory": self.memory,
            "kernels": self.kernels,
            "lateness": self.lateness,
            "overlap": [asdict(one) for one in self.overlap],
        }
        return json.dumps({**json.loads(self.timings.text()), **more}, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, path: Path) -> GpuRecord:
        """Return the record in a file.

        Raises:
            UnusableRecordError: the file is no record; the message says why.
        """
        timings, raw = Record.read(path), json.loads(path.read_text(encoding="utf-8"))
        return cls(
            timings,
            raw.get("memory", {}),
            raw.get("kernels", {}),
            raw.get("lateness", {}),
            [_overlap(one) for one in raw.get("overlap", [])],
        )


def _overlap(raw: Mapping[str, Any]) -> Overlap:
    return Overlap(**{**raw, "timeline": [Span(**span) for span in raw["timeline"]]})


def printed(record: GpuRecord) -> str:
    """Return the whole report as text, which is Markdown too."""
    parts = [_table(record), _lateness(record), *map(_overlapped, record.overlap), _measured_on(record)]
    return "\n\n".join(part for part in parts if part)


def block(record: GpuRecord | None, begin: str, end: str) -> str:
    """Return the report between two markers; where there is no record, a sentence that says so."""
    if record is None:
        return f"{begin}\n\nNo measurement is recorded yet: `make bench-gpu` prints one.\n\n{end}"
    note = "<!-- Written by `python -m benchmarks.gpu --write` from benchmarks/gpu.json: change nothing by hand. -->"
    return f"{begin}\n{note}\n\n{printed(record)}\n\n{end}"


def _table(record: GpuRecord) -> str:
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


def _memory(record: GpuRecord, result: Result) -> float | None:
    """Return the ratio of asyncgrad's peak memory to PyTorch's."""
    found = record.memory.get(result.name, {})
    return found["asyncgrad"] / found["torch"] if found.get("asyncgrad") and found.get("torch") else None


def _number(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


def _lateness(record: GpuRecord) -> str:
    """Return the lateness of a timer in one sentence."""
    if not record.lateness:
        return ""
    times = ", ".join(f"{what} {1e3 * seconds:.2f} ms" for what, seconds in record.lateness.items())
    return (
        "How late a timer of 1 ms fires on the event loop (99th percentile) while nothing runs, and beside a training "
        f"of the MLP with the largest products, which awaits each backward and the device: {times}."
    )


def _overlapped(overlap: Overlap) -> str:
    """Return a comparison and the timeline of the pieces together."""
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


def _measured_on(record: GpuRecord) -> str:
    """Return a line that says how often, when and on what was measured."""
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
