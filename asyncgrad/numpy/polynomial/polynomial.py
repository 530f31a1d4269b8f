"""Power series by their coefficients: the functions of `numpy.polynomial.polynomial`, with Tensors as results."""

from .functions import attach_functions

__getattr__, __dir__ = attach_functions(__name__)
