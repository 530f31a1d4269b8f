"""Solutions of sparse systems, with derivatives with respect to the matrix's elements and the right-hand side."""

from typing import TYPE_CHECKING

from .functions import expm_multiply as expm_multiply
from .functions import inv as inv
from .functions import norm as norm
from .least_squares import lsmr as lsmr
from .least_squares import lsqr as lsqr
from .systems import Factors as Factors
from .systems import bicgstab as bicgstab
from .systems import cg as cg
from .systems import factorized as factorized
from .systems import gmres as gmres
from .systems import minres as minres
from .systems import splu as splu
from .systems import spsolve as spsolve

__all__ = [
    "Factors",
    "bicgstab",
    "cg",
    "expm_multiply",
    "factorized",
    "gmres",
    "inv",
    "lsmr",
    "lsqr",
    "minres",
    "norm",
    "splu",
    "spsolve",
]

if not TYPE_CHECKING:
    # Hidden from type checkers: with a module `__getattr__` they would accept any name.
    from ...error_names import name_errors
    from ...unsupported import refuse

    __getattr__ = refuse("sparse.linalg")
    name_errors(__name__)


def __dir__() -> list[str]:
    return __all__
