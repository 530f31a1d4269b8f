"""The functions of `scipy.special`, with Tensors as results.

Importing this package fills the table of rules with those of SciPy's ufuncs: `scipy.special.expit(t)` imports it when
it is first called on a tensor.
"""

from ...numpy.names import attach_names
from . import elementary as elementary

__getattr__, __dir__ = attach_names(__name__)
