"""A real file system of few bytes, for what is to happen when it is full."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.house import ROOT

__all__ = ["run_on_small_disk"]


@functools.cache
def _refused() -> str | None:
    """Why no file system can be mounted here; None where one can."""
    tried = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", "mount -t tmpfs -o size=64k none /tmp"]
    try:
        finished = subprocess.run(tried, capture_output=True, text=True, timeout=20, check=False)
    except FileNotFoundError:
        return "needs unshare and mount, which Linux has"
    return None if finished.returncode == 0 else f"this system mounts nothing for its users: {finished.stderr.strip()}"


def run_on_small_disk(directory: Path, size: str, command: Sequence[object]) -> subprocess.CompletedProcess[str]:
    """Run a command that finds an empty file system of some bytes at a directory; both end together.

    Where none can be mounted, the test is skipped.
    """
    if (reason := _refused()) is not None:
        pytest.skip(reason)
    mount = 'mount -t tmpfs -o size="$1" none "$2" && shift 2 && exec "$@"'
    before = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh", size, directory)
    return subprocess.run(
        list(map(str, (*before, *command))),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
