"""The names of `scipy.integrate`, for functions that are differentiated; needs SciPy."""

from ..plain_names import attach_names

__getattr__, __dir__ = attach_names(globals(), "scipy.integrate", "asyncgrad.scipy.integrate")
