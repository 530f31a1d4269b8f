"""Batches of data for a training: from arrays, sequences, iterables and async iterables, loaded ahead by workers."""

from typing import TYPE_CHECKING

from ..core.settings.lazy import name_advisor
from .batches import Batches as Batches
from .batches import batches as batches

__all__ = ["Batches", "batches"]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:
    # A type checker that saw a `__getattr__` would take any name for one of the module.
    __getattr__ = name_advisor(__name__)
