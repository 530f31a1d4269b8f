"""SciPy's functions by SciPy's names, with derivatives; the extra `scipy`.

What SciPy returns as an array is a Tensor here, also where no argument is one. SciPy's ufuncs, those of
`scipy.special`, ask tensors: they have derivatives as they stand. The functions here are for the rest, which would
convert a tensor to an array.

Example:
    >>> from asyncgrad.scipy import special
    >>> special.expit([0.0]).tolist()
    [0.5]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.settings.lazy import attach
from .requirement import SCIPY_VERSION as SCIPY_VERSION

if TYPE_CHECKING:
    from . import fft as fft
    from . import integrate as integrate
    from . import interpolate as interpolate
    from . import linalg as linalg
    from . import ndimage as ndimage
    from . import optimize as optimize
    from . import signal as signal
    from . import sparse as sparse
    from . import spatial as spatial
    from . import special as special
    from . import stats as stats

__all__ = [
    "SCIPY_VERSION",
    "fft",
    "integrate",
    "interpolate",
    "linalg",
    "ndimage",
    "optimize",
    "signal",
    "sparse",
    "spatial",
    "special",
    "stats",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "": [
                "fft",
                "integrate",
                "interpolate",
                "linalg",
                "ndimage",
                "optimize",
                "signal",
                "sparse",
                "spatial",
                "special",
                "stats",
            ]
        },
    )
