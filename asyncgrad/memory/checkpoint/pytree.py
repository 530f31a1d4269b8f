"""Trees of tensors and other things: their tensors apart from the rest, and put back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...core.arrays.tensor_base import TensorBase
from ...core.tree.structure import LEAF, TreeStructure
from ...core.tree.structure import flatten as flatten_tree
from ...core.tree.structure import unflatten as unflatten_tree
from .rng import STREAM_TYPES

__all__ = ["TreeTemplate", "flatten", "unflatten"]


class TreeTemplate(NamedTuple):
    """A tree without its tensors."""

    structure: TreeStructure
    #: The leaves, with None in place of each tensor.
    leaves: list[Any]
    #: Where the tensors belong among the leaves.
    positions: list[int]


_ONE_TENSOR = TreeTemplate(LEAF, [None], [0])


def flatten(value: Any, tensors: list[Any], streams: list[Any] | None = None) -> TreeTemplate:
    """Return a tree without its tensors, for `unflatten`.

    Args:
        value: a tensor, a tree (`ag.tree`) of tensors and other things, or anything else.
        tensors: the tensors found are appended here.
        streams: random streams found are appended here, if given; they stay in the template.
    """
    if isinstance(value, TensorBase):
        tensors.append(value)
        return _ONE_TENSOR
    leaves, structure = flatten_tree(value)
    positions = []
    for position, leaf in enumerate(leaves):
        if isinstance(leaf, TensorBase):
            tensors.append(leaf)
            positions.append(position)
            leaves[position] = None
        elif streams is not None and isinstance(leaf, STREAM_TYPES):
            streams.append(leaf)
    return TreeTemplate(structure, leaves, positions)


def unflatten(template: TreeTemplate, tensors: Sequence[Any]) -> Any:
    """Return the tree of a template with `tensors` in the places of those that `flatten` found."""
    if template is _ONE_TENSOR:
        (tensor,) = tensors
        return tensor
    leaves = list(template.leaves)
    for position, tensor in zip(template.positions, tensors, strict=True):
        leaves[position] = tensor
    return unflatten_tree(template.structure, leaves)
