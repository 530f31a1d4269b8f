"""The names of `numpy.random`, for functions that are differentiated."""

from ..plain_names import attach_plain_names

__getattr__, __dir__ = attach_plain_names(globals(), "numpy.random", "asyncgrad.numpy.random")
