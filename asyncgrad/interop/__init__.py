"""Other libraries as nodes: modules and functions of PyTorch and JAX in a graph, and asyncgrad's functions in theirs.

Each module needs its library: `pip install 'asyncgrad[torch]'`, `pip install 'asyncgrad[jax]'`. Neither is imported
before the module is asked for. docs/interoperability.md shows both.
"""

from typing import TYPE_CHECKING

from ..core.settings.lazy import attach

if TYPE_CHECKING:
    from . import jax as jax
    from . import torch as torch

__all__ = ["jax", "torch"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(__name__, {"": ["jax", "torch"]})
