"""Sparse matrices whose elements are a Tensor, and SciPy's sparse matrices as constants beside tensors."""

from .constants import add as add
from .constants import apply_operator as apply_operator
from .constants import matmul as matmul
from .constants import multiply as multiply
