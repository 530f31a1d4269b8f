"""Functions of JAX as nodes, and asyncgrad's functions in JAX.

Needs JAX: `pip install 'asyncgrad[jax]'`.
"""

from .jax_arrays import to_tensors as to_tensors
from .jax_callbacks import as_custom_vjp as as_custom_vjp
from .jax_functions import JaxFunction as JaxFunction
from .jax_functions import wrap as wrap

__all__ = ["JaxFunction", "as_custom_vjp", "to_tensors", "wrap"]
