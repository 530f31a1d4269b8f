"""The machine that figures depend on: the processor, the libraries, and their versions."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

try:
    import threadpoolctl
except ImportError:
    threadpoolctl = None

__all__ = ["describe", "versions"]

#: The packages whose versions are recorded if they are installed.
PACKAGES = ("asyncgrad", "numpy", "torch", "autograd", "mygrad", "uvloop")


def describe() -> dict[str, str]:
    """Return the machine: its processor, cores and system, NumPy's BLAS with its kernels, Python, and the packages."""
    found = {
        "processor": _processor(),
        "cores": str(_cores()),
        "platform": platform.platform(),
        "blas": _blas(),
        "python": platform.python_version(),
    }
    return {**found, **versions(PACKAGES)}


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def _cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _blas() -> str:
    """Return NumPy's BLAS, with the kernels that it uses if threadpoolctl is installed."""
    # NumPy's wheels have a BLAS of their own beside the package; other libraries may have loaded another.
    beside = str(Path(np.__file__).parent)
    loaded = threadpoolctl.threadpool_info() if threadpoolctl is not None else []
    libraries = [library for library in loaded if library["user_api"] == "blas"]
    libraries.sort(key=lambda library: not str(library["filepath"]).startswith(beside))
    if libraries:
        shown = f"{libraries[0]['internal_api']} {libraries[0]['version']}"
        kernels = libraries[0].get("architecture")
        return f"{shown}, {kernels} kernels" if kernels else shown
    built = np.show_config(mode="dicts")
    about = built["Build Dependencies"]["blas"] if built else {}
    return f"{about.get('name', 'unknown')} {about.get('version', '')}".strip()
