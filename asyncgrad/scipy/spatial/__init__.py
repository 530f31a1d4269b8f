"""Functions of `scipy.spatial`, with Tensors as results."""

from . import distance as distance

__all__ = ["distance"]


def __dir__() -> list[str]:
    return __all__
