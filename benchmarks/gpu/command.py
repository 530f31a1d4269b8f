"""The command line of the benchmarks on a GPU.

python -m benchmarks.gpu                    measure all cases, and print the tables
python -m benchmarks.gpu --quick            the same in less than 3 minutes, with fewer rounds
python -m benchmarks.gpu mlp --quick        only cases whose name has a word
python -m benchmarks.gpu --kernels lstm     print each kernel of a step, with its time, beside those of PyTorch
python -m benchmarks.gpu --write            write benchmarks/gpu.json and the tables of docs/gpu.md
python -m benchmarks.gpu --device cpu       try the program on tiny models, without a GPU
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from .hardware import describe, missing

__all__ = ["PAGE", "RAW", "ROOT", "main"]

ROOT = Path(__file__).parent.parent.parent
#: The files that `--write` writes, as paths from the root of the project.
RAW, PAGE = "benchmarks/gpu.json", "docs/gpu.md"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the checked options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description="Measure asyncgrad on a GPU.")
    parser.add_argument("words", nargs="*", metavar="word", help="measure only cases whose name has one of these")
    parser.add_argument("--device", default="cuda:0", help="where to measure (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and no compiled autograd")
    parser.add_argument("--alone", action="store_true", help="leave PyTorch out")
    parser.add_argument(
        "--kernels", action="store_true", help="measure steps alone, quickly, and print the kernels of each"
    )
    parser.add_argument("--steps-only", action="store_true", help="measure neither the event loop nor overlap")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record there")
    parser.add_argument("--write", action="store_true", help=f"write {RAW} and the tables of {PAGE}")
    options = parser.parse_args(arguments)
    options.quick |= options.kernels
    if options.kernels and (options.alone or options.device == "cpu"):
        parser.error("--kernels needs a GPU, and PyTorch to record its kernels: leave out --alone, --device cpu")
    if options.write and (_is_partial(options) or options.device == "cpu"):
        parser.error(
            "--write writes all measurements on a GPU: leave out words, --alone, --kernels, --steps-only, --device cpu"
        )
    if options.json is not None and not options.json.parent.is_dir():
        parser.error(f"--json: there is no folder {options.json.parent}")
    return options


def _is_partial(options: argparse.Namespace) -> bool:
    """Tell whether something is left out."""
    return bool(options.words or options.alone or options.kernels or options.steps_only)


async def _measure(options: argparse.Namespace) -> tuple[Any, dict[str, dict[str, Any]]]:
    """Return the record of a run, and the work of the GPU in a step, by case and library."""
    measure, report = import_module("benchmarks.gpu.measure"), import_module("benchmarks.gpu.report")
    record, machine = import_module("benchmarks.record"), import_module("benchmarks.machine")
    device, alone, quick, words = options.device, options.alone, options.quick, options.words
    about = {**machine.describe(), **describe(device, torch_too=not alone)}
    print(", ".join(f"{name} {value}" for name, value in about.items()), file=sys.stderr, flush=True)
    steps = await measure.measure_steps(device, measure.Budget.of(quick=quick), alone=alone, quick=quick, words=words)
    found = report.GpuRecord(record.Record(about, steps.results), steps.memory)
    if not (options.steps_only or options.kernels):
        print("measuring the lateness of a timer ...", file=sys.stderr, flush=True)
        found.lateness = await import_module("benchmarks.gpu.loop").measure_lateness(device)
        if device != "cpu":
            print("measuring overlap ...", file=sys.stderr, flush=True)
            found.overlap = await import_module("benchmarks.gpu.overlap").measure_overlap(device)
    return found, await _measure_work(options, found)


async def _measure_work(options: argparse.Namespace, found: Any) -> dict[str, dict[str, Any]]:
    """Return the work of the GPU in each step, and put its figures, or why there are none, into the record."""
    measure, work = import_module("benchmarks.gpu.measure"), import_module("benchmarks.gpu.work")
    works: dict[str, dict[str, Any]] = {}
    if options.device == "cpu":
        found.not_measured = "this is no GPU"
    elif options.alone:
        found.not_measured = "--alone leaves out PyTorch, whose profiler records it"
    else:
        try:
            works = await measure.measure_work(options.device, options.words, quick=options.quick)
        except work.NotMeasuredError as error:
            found.not_measured = str(error)
    found.kernels = {case: {name: one.kernels for name, one in each.items()} for case, each in works.items()}
    found.busy_ms = {case: {name: one.busy_ms for name, one in each.items()} for case, each in works.items()}
    return works


def write(record: Any, root: Path) -> None:
    """Write the record, and the tables of the page; write nothing if the page has no markers for the tables."""
    gpu_report, report = import_module("benchmarks.gpu.report"), import_module("benchmarks.report")
    report.write(root / RAW, record.text(), root / PAGE, gpu_report.block(record, f"../{RAW}"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write; return the exit status, which is 2 if a library or the GPU is missing."""
    options = parse(arguments)
    lacks = missing(options.device, torch_too=not options.alone)
    if lacks is not None:
        print(f"python -m benchmarks.gpu: {lacks}", file=sys.stderr)
        return 2
    found, works = import_module("asyncgrad").run(_measure(options))
    if options.kernels and works:
        print(import_module("benchmarks.gpu.work").tables_of_cases(works, found.timings.results), end="\n\n")
    print(import_module("benchmarks.gpu.report").printed(found))
    if options.json is not None:
        options.json.write_text(found.text(), encoding="utf-8")
    if options.write:
        write(found, ROOT)
    return 0
