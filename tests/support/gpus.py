"""The GPU that tests use: the device that the environment variable ASYNCGRAD_GPU names, as `make test-gpu` sets it.

`ASYNCGRAD_GPU=simulated` tries the tests on a SimulatedAccelerator; those that need CuPy are skipped then.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

from asyncgrad.testing import SimulatedAccelerator
from benchmarks.gpu.hardware import describe, missing

__all__ = ["GPU", "about", "run_script", "script_command", "why_not"]

ROOT = Path(__file__).parents[2]
#: The name of the device, such as `cuda:0`; empty where no test uses one.
GPU = os.environ.get("ASYNCGRAD_GPU", "")
if GPU == "simulated":
    #: It is found by its name while there is a reference to it.
    SIMULATED = SimulatedAccelerator()
    GPU = SIMULATED.name


def why_not() -> str | None:
    """Return why no test can use a GPU; None if it can."""
    if not GPU:
        return "needs an NVIDIA GPU: make test-gpu, which sets ASYNCGRAD_GPU=cuda:0"
    return missing(GPU)


def about() -> str:
    """Return which GPU, driver, CuPy and PyTorch the tests use."""
    torch_too = missing(GPU, torch_too=True) is None
    return ", ".join(f"{name} {value}" for name, value in describe(GPU, torch_too=torch_too).items()) or GPU


def script_command(script: str) -> list[str]:
    """Return the command of a process of its own that runs a script, in which GPU names the device."""
    return [sys.executable, "-W", "ignore", "-c", f"GPU = {GPU!r}\n{dedent(script)}"]


def run_script(script: str) -> str:
    """Run a script in a process of its own, in which GPU names the device; return what it printed."""
    done = subprocess.run(script_command(script), cwd=ROOT, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
