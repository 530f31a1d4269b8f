"""SciPy's names, for functions that are differentiated; it takes the place of `autograd.scipy` and needs SciPy.

Example:
    >>> import numpy as np
    >>> from asyncgrad.hips import grad
    >>> from asyncgrad.hips.scipy.stats import norm
    >>> float(norm.logpdf(0.0)), float(grad(norm.logpdf)(1.0))
    (-0.9189385332046727, -1.0)
"""

from . import integrate as integrate
from . import linalg as linalg
from . import signal as signal
from . import special as special
from . import stats as stats

__all__ = ["integrate", "linalg", "signal", "special", "stats"]
