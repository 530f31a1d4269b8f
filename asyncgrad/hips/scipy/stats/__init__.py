"""The names of `scipy.stats`, for functions that are differentiated; needs SciPy.

As in HIPS autograd, some distributions are modules, so that `import asyncgrad.hips.scipy.stats.norm as norm` finds one.
"""

from ...plain_names import attach_names
from . import beta as beta
from . import chi2 as chi2
from . import dirichlet as dirichlet
from . import gamma as gamma
from . import multivariate_normal as multivariate_normal
from . import norm as norm
from . import poisson as poisson
from . import t as t

__getattr__, __dir__ = attach_names(globals(), "scipy.stats", "asyncgrad.scipy.stats")
