"""Series of Legendre's polynomials: the functions of `numpy.polynomial.legendre`, with Tensors as results."""

from .functions import attach_functions

__getattr__, __dir__ = attach_functions(__name__)
