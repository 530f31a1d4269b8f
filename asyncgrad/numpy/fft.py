"""The functions of `numpy.fft`, with Tensors as results."""

from .names import attach_names

__getattr__, __dir__ = attach_names(__name__)
