"""NumPy's functions by NumPy's names, with Tensors as results; it follows the Python array API standard 2024.12.

`import asyncgrad.numpy as np` takes the place of `import numpy as np`: whatever NumPy returns as an array, or as one of
its numbers, is a Tensor here, also where no argument is one. A function has one derivative, which `numpy.sum(t)` and
`asyncgrad.numpy.sum(t)` both lead to. Types, constants and what is not about arrays are NumPy's own.
`Tensor.__array_namespace__()` returns this package.

Example:
    >>> import asyncgrad.numpy as np
    >>> np.linspace(0.0, 1.0, 3).tolist()
    [0.0, 0.5, 1.0]
"""

from .names import attach_names

__getattr__, __dir__ = attach_names(__name__)
