"""Solutions of sparse systems, with derivatives with respect to the matrix's elements and the right-hand side."""

from .systems import bicgstab as bicgstab
from .systems import cg as cg
from .systems import gmres as gmres
from .systems import spsolve as spsolve

__all__ = ["bicgstab", "cg", "gmres", "spsolve"]


def __dir__() -> list[str]:
    return __all__
