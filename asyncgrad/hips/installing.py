"""HIPS autograd's own module names for asyncgrad's, for packages that import HIPS autograd themselves."""

from __future__ import annotations

import sys

from ..core.settings.process import set_module

__all__ = ["install"]

_PACKAGE = __name__.rpartition(".")[0]
#: What there is below `autograd`.
_NAMES = (
    "",
    ".builtins",
    ".extend",
    ".misc",
    ".misc.fixed_points",
    ".misc.flatten",
    ".misc.optimizers",
    ".numpy",
    ".numpy.fft",
    ".numpy.linalg",
    ".numpy.numpy_boxes",
    ".numpy.random",
    ".scipy",
    ".scipy.integrate",
    ".scipy.linalg",
    ".scipy.signal",
    ".scipy.special",
    ".scipy.stats",
    ".scipy.stats.beta",
    ".scipy.stats.chi2",
    ".scipy.stats.dirichlet",
    ".scipy.stats.gamma",
    ".scipy.stats.multivariate_normal",
    ".scipy.stats.norm",
    ".scipy.stats.poisson",
    ".scipy.stats.t",
    ".test_util",
    ".tracer",
)


def install() -> None:
    """Have `import autograd`, in this process, find asyncgrad: for packages that import HIPS autograd themselves.

    Call it before anything imports HIPS autograd, which need not be installed. A second call does nothing.

    Raises:
        ArgumentError: HIPS autograd has been imported already.

    Example:
        >>> import asyncgrad.hips
        >>> asyncgrad.hips.install()  # doctest: +SKIP
        >>> from autograd import grad  # doctest: +SKIP
    """
    for name in _NAMES:
        set_module(f"autograd{name}", sys.modules[f"{_PACKAGE}{name}"])
