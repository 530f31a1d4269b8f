"""Series of Laguerre's polynomials: the functions of `numpy.polynomial.laguerre`, with Tensors as results."""

from .functions import attach_functions

__getattr__, __dir__ = attach_functions(__name__)
