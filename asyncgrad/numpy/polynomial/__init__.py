"""The modules of `numpy.polynomial`: series by their coefficients, the constant one first, with Tensors as results.

Each function of `polynomial`, `chebyshev`, `legendre`, `hermite`, `hermite_e` and `laguerre` is differentiable by the
coefficients and by the points, roots and values that it takes. Its name, arguments and results are NumPy's, and so are
those of the classes. NumPy's own make arrays of what they are given, and so refuse coefficients that require grad.

Example:
    >>> import asyncgrad as ag
    >>> from asyncgrad.numpy.polynomial import chebyshev
    >>> coefficients = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> ag.sync.backward(chebyshev.chebval(0.5, coefficients))
    >>> coefficients.grad.tolist()
    [1.0, 0.5, -0.5]
"""

from . import chebyshev as chebyshev
from . import hermite as hermite
from . import hermite_e as hermite_e
from . import laguerre as laguerre
from . import legendre as legendre
from . import polynomial as polynomial
from .classes import Chebyshev as Chebyshev
from .classes import Hermite as Hermite
from .classes import HermiteE as HermiteE
from .classes import Laguerre as Laguerre
from .classes import Legendre as Legendre
from .classes import Polynomial as Polynomial

__all__ = [
    "Chebyshev",
    "Hermite",
    "HermiteE",
    "Laguerre",
    "Legendre",
    "Polynomial",
    "chebyshev",
    "hermite",
    "hermite_e",
    "laguerre",
    "legendre",
    "polynomial",
]


def __dir__() -> list[str]:
    return __all__
