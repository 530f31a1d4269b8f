"""The names of `numpy.random`, for functions that are differentiated."""

from ..plain_names import attach_names

__getattr__, __dir__ = attach_names(globals(), "numpy.random", "asyncgrad.numpy.random")
