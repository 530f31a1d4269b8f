"""Programs that need a process of their own: what an import does first, and what is left at the end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

__all__ = ["run_each", "run_python"]


def run_python(program: str, **environment: str) -> str:
    """Run a program in a process of its own, with these environment variables besides; return what it printed."""
    command, variables = [sys.executable, "-c", program], {**os.environ, **environment}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def run_each(programs: Sequence[str]) -> list[str]:
    """Run each program in a process of its own, in which NumPy is loaded already; return the printed lines."""
    program = (
        "import asyncio, os, sys, numpy\n"
        f"for program in {list(programs)!r}:\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        exec(program, {})\n"
        "        sys.exit()\n"
        "    if os.waitpid(child, 0)[1]:\n"
        "        sys.exit(program)"
    )
    return run_python(program).splitlines()
