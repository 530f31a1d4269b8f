"""NumPy's functions by NumPy's names, with Tensors as results; it follows the Python array API standard 2024.12.

`import asyncgrad.numpy as np` takes the place of `import numpy as np`: what NumPy returns as an array is a Tensor here,
also where no argument is one, and so is all that is computed from a Tensor. A number that NumPy computes without one,
as in `np.prod((2, 3))`, is NumPy's own, and so are types, constants and what is not about arrays. A function has one
derivative, which `numpy.sum(t)` and `asyncgrad.numpy.sum(t)` both lead to. `Tensor.__array_namespace__()` returns this
package.

Example:
    >>> import asyncgrad.numpy as np
    >>> np.linspace(0.0, 1.0, 3).tolist()
    [0.0, 0.5, 1.0]
"""

from .names import attach_names

__getattr__, __dir__ = attach_names(__name__)
