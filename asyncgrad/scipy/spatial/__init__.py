"""Functions of `scipy.spatial`, with Tensors as results."""

from typing import TYPE_CHECKING

from . import distance as distance
from .points import distance_matrix as distance_matrix
from .points import geometric_slerp as geometric_slerp
from .points import minkowski_distance as minkowski_distance
from .points import minkowski_distance_p as minkowski_distance_p
from .points import procrustes as procrustes

__all__ = [
    "distance",
    "distance_matrix",
    "geometric_slerp",
    "minkowski_distance",
    "minkowski_distance_p",
    "procrustes",
]

if not TYPE_CHECKING:
    # Hidden from type checkers: with a module `__getattr__` they would accept any name.
    from ..error_names import name_errors
    from ..unsupported import refuse

    __getattr__ = refuse("spatial")
    name_errors(__name__)


def __dir__() -> list[str]:
    return __all__
