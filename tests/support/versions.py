"""Which NumPy and PyTorch are installed, for laws that hold from one version on."""

from __future__ import annotations

from importlib import metadata

import numpy as np
import pytest

__all__ = ["is_numpy", "is_pytorch", "needs_numpy"]


def is_numpy(version: str) -> bool:
    """Tell whether NumPy is that version or a later one."""
    return bool(np.lib.NumpyVersion(np.__version__) >= f"{version}.0")


def is_pytorch(version: str) -> bool:
    """Tell whether PyTorch, which has to be installed, is that version or a later one."""
    return bool(np.lib.NumpyVersion(metadata.version("torch").partition("+")[0]) >= f"{version}.0")


def needs_numpy(version: str, reason: str) -> pytest.MarkDecorator:
    """Return the mark of a test or case of what older versions of NumPy do not have."""
    return pytest.mark.skipif(not is_numpy(version), reason=f"NumPy {version} is the first {reason}")
