"""What the tests of offloading run."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np

import asyncgrad as ag
from tests.support.house import ROOT

__all__ = ["Chain", "files_in", "is_empty", "run_program"]


class Chain:
    """A chain of matrix products and tanh, from one seed: its leaves, and the gradients of a run."""

    def __init__(self, links: int = 5, size: int = 8) -> None:
        random = np.random.default_rng(0)
        self.weights = [ag.tensor(random.standard_normal((size, size)), requires_grad=True) for _ in range(links)]
        self.x = ag.tensor(random.standard_normal((size, size)))

    def forward(self, block: Any = None) -> Any:
        """The loss, with the saved tensors where `block` puts them."""
        with contextlib.nullcontext() if block is None else block:
            return self.compute()

    def compute(self) -> Any:
        y = self.x
        for weight in self.weights:
            y = np.tanh(y @ weight)
        return (y * y).sum()

    def gradients(self) -> list[bytes]:
        """The bits of the gradients, which are then cleared."""
        found = [weight.grad.numpy().tobytes() for weight in self.weights]
        for weight in self.weights:
            weight.grad = None
        return found

    def expected(self) -> list[bytes]:
        """The bits of a run that keeps all in memory."""
        ag.sync.backward(self.compute())
        return self.gradients()


def is_empty(directory: Path) -> bool:
    """Tell whether a directory holds nothing, not even a lock file."""
    return not list(directory.iterdir())


def files_in(directory: Path) -> list[Path]:
    """The files of saved tensors below a directory."""
    return [path for path in directory.rglob("*") if path.is_file() and path.suffix != ".lock"]


def run_program(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-X", "dev", "-c", textwrap.dedent(program), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
