"""The names of `scipy.stats`, for functions that are differentiated; needs SciPy."""

from ..plain_names import attach_names

__getattr__, __dir__ = attach_names(globals(), "scipy.stats", "asyncgrad.scipy.stats")
