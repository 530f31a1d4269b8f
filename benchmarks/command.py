"""The command line: which benchmarks, how many rounds, and where the figures go."""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from .peers import torch
from .runner import Result, run, table

__all__ = ["TOPICS", "main"]

TOPICS = (
    "chain",
    "mlp",
    "transformer",
    "lstm",
    "in_place",
    "many",
    "waiting",
    "branches",
    "lateness",
    "checkpoint",
    "offload",
)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options, checked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure asyncgrad against its peers.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(TOPICS)}; all if left out")
    parser.add_argument("--rounds", type=int, default=15, help="how often each peer is measured (default: 15)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the seconds of every round there")
    parser.add_argument("--gc", action="store_true", help="leave the garbage collector on while measuring")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in TOPICS]:
        parser.error(f"no benchmark is called {unknown[0]!r}: there are {', '.join(TOPICS)}")
    if options.rounds < 1:
        parser.error(f"--rounds must be at least 1, not {options.rounds}")
    if options.json is not None and not options.json.parent.is_dir():
        parser.error(f"--json: there is no folder {options.json.parent}")
    return options


def machine() -> dict[str, str]:
    """Return what the figures depend on."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for package in ("asyncgrad", "numpy", "torch", "autograd", "uvloop"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; return the exit status."""
    options = parse(arguments)
    if torch is not None:
        torch.set_num_threads(1)
    results: list[Result] = []
    for name in options.names or TOPICS:
        results.extend(run(import_module(f"benchmarks.{name}").BENCHMARKS, options.rounds, collect=options.gc))
    print(table(results))
    versions = ", ".join(f"{name} {value}" for name, value in machine().items())
    print(f"\nMedians of {options.rounds} rounds, one thread each; {versions}.")
    if options.json is not None:
        raw = {"machine": machine(), "rounds": options.rounds, "seconds": {one.name: one.seconds for one in results}}
        options.json.write_text(json.dumps(raw, indent=1) + "\n")
    return 0
