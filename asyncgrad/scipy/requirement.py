"""The extra `scipy`: SciPy is there, or the error says what to install."""

from __future__ import annotations

from ..core.settings.extras import missing_extra

try:
    import scipy
except ImportError as error:
    raise missing_extra("asyncgrad.scipy needs SciPy", "scipy", error=error) from error

__all__ = ["SCIPY_VERSION"]

#: The version of SciPy that is installed.
SCIPY_VERSION: str = scipy.__version__
