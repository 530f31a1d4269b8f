"""Batches of data for a training: from arrays, sequences, iterables and async iterables, loaded ahead by workers."""

from .batches import Batches as Batches
from .batches import batches as batches

__all__ = ["Batches", "batches"]


def __dir__() -> list[str]:
    return __all__
