"""What a function of the user is given beside the points at which it is called, and what it refers to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from ..core.graph.saved import ConstantVersions, captured_by
from ..core.tensor import Tensor
from ..core.tree.structure import flatten, unflatten

__all__ = ["Parameters"]


@final
class Parameters:
    """A tree of arguments of the user's functions, its tensors that require grad, and the constants.

    Constants are its other tensors, and all that the functions refer to by themselves: of those that require grad, a
    function may use detached copies, which share their memory. It is made before the functions are called, which may
    write into constants.
    """

    __slots__ = ("_leaves", "_places", "_structure", "constants", "tensors")

    def __init__(self, tree: Any, *functions: Any) -> None:
        self._leaves, self._structure = flatten(tree)
        tensors = [(place, leaf) for place, leaf in enumerate(self._leaves) if isinstance(leaf, Tensor)]
        self._places = [place for place, tensor in tensors if tensor.requires_grad]
        self.tensors: tuple[Tensor, ...] = tuple([self._leaves[place] for place in self._places])
        others = [tensor for _, tensor in tensors if not tensor.requires_grad]
        self.constants = ConstantVersions([*others, *(one for function in functions for one in captured_by(function))])

    @property
    def has_tensors(self) -> bool:
        """Whether any leaf is a tensor."""
        return any(isinstance(leaf, Tensor) for leaf in self._leaves)

    def fill(self, tensors: Sequence[Any]) -> Any:
        """Return the tree with other tensors in the places of those that require grad."""
        filled = list(self._leaves)
        for place, tensor in zip(self._places, tensors, strict=True):
            filled[place] = tensor
        return unflatten(self._structure, filled)
