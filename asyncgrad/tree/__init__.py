"""Trees: nested dicts, lists, tuples, named tuples, dataclasses and registered classes of tensors and other things.

None is a tree without leaves, as in JAX; whatever is no container is a leaf. The leaves of a dict come in its own
order; where two trees are taken together, the entries of dicts are matched by key.
"""

from .registry import register as register
from .structure import flatten as flatten
from .structure import leaves as leaves
from .structure import map as map
from .structure import unflatten as unflatten
from .vector import ravel as ravel

__all__ = ["flatten", "leaves", "map", "ravel", "register", "unflatten"]


def __dir__() -> list[str]:
    return __all__
