"""The extra `scipy`: SciPy is there, or the error says what to install."""

from __future__ import annotations

try:
    import scipy
except ImportError as error:
    raise ImportError("asyncgrad.scipy needs SciPy: pip install 'asyncgrad[scipy]'") from error

__all__ = ["SCIPY_VERSION"]

#: The version of SciPy that is installed.
SCIPY_VERSION: str = scipy.__version__
