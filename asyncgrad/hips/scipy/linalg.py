"""The names of `scipy.linalg`, for functions that are differentiated; needs SciPy."""

from ..plain_names import attach_names

__getattr__, __dir__ = attach_names(globals(), "scipy.linalg", "asyncgrad.scipy.linalg")
