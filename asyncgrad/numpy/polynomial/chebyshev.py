"""Series of Chebyshev's polynomials: the functions of `numpy.polynomial.chebyshev`, with Tensors as results."""

from .functions import attach_functions

__getattr__, __dir__ = attach_functions(__name__)
