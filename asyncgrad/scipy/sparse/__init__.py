"""Sparse matrices whose elements are a Tensor, and SciPy's sparse matrices as constants beside tensors."""

from typing import TYPE_CHECKING

from . import linalg as linalg
from .arrays import SparseArray as SparseArray
from .arrays import block_array as block_array
from .arrays import block_diag as block_diag
from .arrays import bsr_array as bsr_array
from .arrays import coo_array as coo_array
from .arrays import csc_array as csc_array
from .arrays import csr_array as csr_array
from .arrays import dia_array as dia_array
from .arrays import diags_array as diags_array
from .arrays import eye_array as eye_array
from .arrays import find as find
from .arrays import hstack as hstack
from .arrays import kron as kron
from .arrays import tril as tril
from .arrays import triu as triu
from .arrays import vstack as vstack
from .constants import add as add
from .constants import matmul as matmul
from .constants import multiply as multiply

__all__ = [
    "SparseArray",
    "add",
    "block_array",
    "block_diag",
    "bsr_array",
    "coo_array",
    "csc_array",
    "csr_array",
    "dia_array",
    "diags_array",
    "eye_array",
    "find",
    "hstack",
    "kron",
    "linalg",
    "matmul",
    "multiply",
    "tril",
    "triu",
    "vstack",
]

if not TYPE_CHECKING:
    # Hidden from type checkers: with a module `__getattr__` they would accept any name.
    from ..error_names import name_errors
    from ..unsupported import refuse

    __getattr__ = refuse("sparse")
    name_errors(__name__)


def __dir__() -> list[str]:
    return __all__
