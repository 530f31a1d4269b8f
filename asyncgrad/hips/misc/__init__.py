"""Small tools of `autograd.misc`."""

from . import fixed_points as fixed_points
from . import optimizers as optimizers
from .flatten import flatten as flatten

__all__ = ["fixed_points", "flatten", "optimizers"]
