"""SciPy's special functions as the ufuncs that they are.

With SCIPY_ARRAY_API=1 SciPy wraps them for arrays of other libraries, and looks for those of tensors in
`asyncgrad.numpy.special`; they take no arrays beside tensors then.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
from scipy import special as _special

__all__ = ["special"]


@final
class UnwrappedFunctions:
    """The functions of `scipy.special`, without wrappers."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        """Return a function."""
        found = getattr(_special, name)
        return getattr(found, "__wrapped__", found)


special: Any = _special if isinstance(_special.gammaln, np.ufunc) else UnwrappedFunctions()
