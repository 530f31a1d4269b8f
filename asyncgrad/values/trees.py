"""Tree: nested containers of numbers and arrays as one value, whose gradient is a tree like it."""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np

from ..core.arrays.tensor_base import TensorBase
from ..core.arrays.value_type import ValueType
from ..core.settings.arguments import describe
from ..core.tensor import Tensor
from ..core.tree.structure import TreeStructure, flatten, paths, unflatten
from ..errors import ArgumentTypeError

__all__ = ["Tree"]


class _Description(NamedTuple):
    structure: TreeStructure
    shapes: tuple[tuple[int, ...], ...]


@final
class Tree(ValueType):
    """A tree (`ag.tree`) of numbers and arrays as one value: the settings of a solver, the state of a simulation.

    A gradient is a tree of the same structure, with an array of the same shape at each leaf. The graph has one node for
    all of it, where a tree of tensors has as many leaves as the tree.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> from asyncgrad.values import Tree
        >>> class Energy(ag.Function):
        ...     @staticmethod
        ...     def forward(ctx, state):
        ...         ctx.state = state.value
        ...         return np.array(0.5 * ctx.state["speed"] ** 2 + ctx.state["height"])
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return {"speed": grad * ctx.state["speed"], "height": grad}
        >>> state = ag.leaf({"speed": 3.0, "height": 1.0}, type=Tree())
        >>> ag.sync.backward(Energy.apply(state))
        >>> {name: float(grad) for name, grad in state.grad.items()}
        {'speed': 3.0, 'height': 1.0}
    """

    __slots__ = ()

    def describe(self, value: Any) -> _Description:
        """Return the structure, and the shape of each leaf."""
        leaves, structure = flatten(value)
        for leaf, path in zip(leaves, paths(structure, "value"), strict=True):
            if isinstance(leaf, TensorBase) or np.asarray(leaf).dtype.kind not in "fciub":
                raise ArgumentTypeError(
                    f"a value of type Tree has numbers and arrays at its leaves, and {path} is {describe(leaf)}: "
                    "give t.numpy() for a tensor, and pass what is no number to the Function beside it"
                )
        return _Description(structure, tuple(np.shape(leaf) for leaf in leaves))

    def zero(self, description: _Description) -> Any:
        """Return a tree of zeros."""
        return unflatten(description.structure, [np.zeros(shape) for shape in description.shapes])

    def add(self, first: Any, second: Any) -> Any:
        """Return the sums of the leaves."""
        leaves, structure = flatten(first)
        return unflatten(structure, [one + other for one, other in zip(leaves, flatten(second)[0], strict=True)])

    def convert(self, gradient: Any) -> Any:
        """Return it with arrays in the place of tensors."""
        leaves, structure = flatten(gradient)
        return unflatten(structure, [leaf.numpy() if isinstance(leaf, Tensor) else leaf for leaf in leaves])

    def nbytes(self, value: Any) -> int:
        """Return the bytes of all leaves."""
        return sum(np.asarray(leaf).nbytes for leaf in flatten(value)[0])

    def check(self, gradient: Any, description: _Description) -> None:
        """Raise unless it has the structure of the value, and at each leaf an array of the same shape."""
        leaves, structure = flatten(gradient)
        if structure != description.structure:
            raise ValueError(f"its structure is {structure}, and that of the value is {description.structure}")
        for leaf, shape, path in zip(leaves, description.shapes, paths(structure, "it"), strict=True):
            if np.asarray(leaf).dtype.kind not in "fciub":
                raise TypeError(f"{path} is {describe(leaf)}, and no number or array")
            if np.shape(leaf) != shape:
                raise ValueError(f"{path} has shape {np.shape(leaf)}, and in the value it has {shape}")
