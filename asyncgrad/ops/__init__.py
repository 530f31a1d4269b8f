"""NumPy's functions, each with its derivative right beneath; one topic a file.

Importing this package fills the table `RULES`, which says what runs when a NumPy function is called on a Tensor.
"""

from . import arithmetic as arithmetic
from . import exponential as exponential
from . import extremes as extremes
from . import nondifferentiable as nondifferentiable
from . import trigonometric as trigonometric
from .dispatch import call_function as call_function
from .dispatch import call_ufunc as call_ufunc
from .primitive import RULES as RULES
