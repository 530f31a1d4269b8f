"""Series of Hermite's polynomials: the functions of `numpy.polynomial.hermite`, with Tensors as results."""

from .functions import attach_functions

__getattr__, __dir__ = attach_functions(__name__)
