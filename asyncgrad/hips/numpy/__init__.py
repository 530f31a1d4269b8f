"""NumPy's names, for functions that are differentiated; it takes the place of `autograd.numpy`.

A function returns NumPy's own arrays, and Tensors only where an argument is one, or holds one: `np.array([x, 2 * x])`
and `np.sum([x, y])` keep the history of `x`.

Example:
    >>> import asyncgrad.hips.numpy as np
    >>> from asyncgrad.hips import grad
    >>> np.array([1.0, 2.0])
    array([1., 2.])
    >>> float(grad(lambda x: np.sum(np.array([x, x * x])))(3.0))
    7.0
"""

from ..plain_names import attach_names
from . import fft as fft
from . import linalg as linalg
from . import numpy_boxes as numpy_boxes
from . import random as random

__getattr__, __dir__ = attach_names(globals(), "numpy", "asyncgrad.numpy")
