"""Trees: nested containers of tensors and other objects, as JAX's and PyTorch's pytrees.

Containers are dicts, lists, tuples, named tuples, dataclasses and instances of registered classes. None is a container
without children, as in JAX. Any other object is a leaf. The leaves of a dict come in the order of its keys; functions
of several trees match the entries of dicts by key.
"""

from typing import TYPE_CHECKING

from .core.settings.lazy import name_advisor
from .core.tree.registry import register as register
from .core.tree.structure import flatten as flatten
from .core.tree.structure import leaves as leaves
from .core.tree.structure import map as map
from .core.tree.structure import unflatten as unflatten
from .core.tree.vector import ravel as ravel

__all__ = ["flatten", "leaves", "map", "ravel", "register", "unflatten"]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:
    # A type checker that saw a `__getattr__` would take any name for one of the module.
    __getattr__ = name_advisor(__name__)
