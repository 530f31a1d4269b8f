"""`python -m benchmarks`: measure asyncgrad and its peers, and print one table of ratios.

`python -m benchmarks jit` measures compiled functions beside other compilers, `python -m benchmarks waiting` programs
that wait beside what their waits allow, and `python -m benchmarks text` backward passes that ask a language model.
"""

from __future__ import annotations

import os
import sys

# One BLAS thread for every peer. The libraries read these variables when the imports below load them.
os.environ.update(
    dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1")
)

from collections.abc import Callable, Sequence
from importlib import import_module

from .command import main
from .jit.command import main as main_of_jit
from .waiting.command import main as main_of_waiting

__all__ = ["run"]


def run(arguments: Sequence[str]) -> int:
    """Run the command whose name comes first, else that of the other topics."""
    if arguments[:1] == ["jit"]:
        return main_of_jit(arguments[1:])
    if arguments[:1] == ["waiting"]:
        return main_of_waiting(arguments[1:])
    if arguments[:1] == ["text"]:
        # It needs httpx, which the others do without.
        return main_of_text()(arguments[1:])
    return main(arguments)


def main_of_text() -> Callable[[Sequence[str]], int]:
    """Return the command of graphs of texts."""
    return import_module("benchmarks.text.command").main  # type: ignore[no-any-return]


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
