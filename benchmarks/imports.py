"""`python -m benchmarks.imports`: how long an import takes, in fresh processes, beside that of NumPy.

The processes take turns, so that what else the machine does meanwhile slows all of them alike. The time of a process
that imports nothing is taken off. Bytecode is cached, as it is after the first run of a program.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from time import perf_counter

__all__ = ["PROGRAMS", "main", "measure", "table"]

NOTHING, FLOOR = "nothing", "import numpy"
PROGRAMS = {
    NOTHING: "pass",
    FLOOR: "import numpy",
    "import asyncgrad": "import asyncgrad",
    "import asyncgrad, numpy; a first tensor": "import numpy, asyncgrad as ag; ag.tensor(1.0)",
    "import torch": "import torch",
}


def measure(rounds: int) -> dict[str, list[float]]:
    """Return the seconds that each program took, by its name and round, less those of a process that does nothing."""
    found: dict[str, list[float]] = {name: [] for name in PROGRAMS if name != NOTHING}
    if importlib.util.find_spec("torch") is None:
        del found["import torch"]
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        # The first round fills the cache of bytecode.
        for number in range(rounds + 1):
            nothing = _seconds(PROGRAMS[NOTHING], environment)
            for name, seconds in found.items():
                took = _seconds(PROGRAMS[name], environment) - nothing
                if number:
                    seconds.append(took)
    return found


def _seconds(program: str, environment: dict[str, str]) -> float:
    began = perf_counter()
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    return perf_counter() - began


def table(found: dict[str, list[float]]) -> str:
    """Return medians as a table: milliseconds, and the ratio to the import of NumPy of the same round."""
    lines = ["| program | ms | × import numpy |", "| --- | ---: | ---: |"]
    for name, seconds in found.items():
        ratio = statistics.median(mine / floor for mine, floor in zip(seconds, found[FLOOR], strict=True))
        lines.append(f"| `{name}` | {statistics.median(seconds) * 1e3:.0f} | {ratio:.2f} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.imports", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=11, help="how often each program runs (default: %(default)s)")
    print(table(measure(parser.parse_args(arguments).rounds)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
