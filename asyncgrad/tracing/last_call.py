"""The call that was replayed last: another one like it is known by a comparison, without a key."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, final

import numpy as np

from ..core.arrays.tensor_base import TensorBase
from ..core.tensor import Tensor
from ..core.tree.registry import container_type
from ..core.tree.structure import TreeStructure, flatten
from .call_key import has_grad, key_of_leaf, places_of, whole_context
from .captured import Captured
from .object_key import key_of_structure
from .variant import Variant

__all__ = ["LastCall"]


@final
class LastCall:
    """What a call must be like for a program that has been compared to run again.

    Args:
        variant: the program.
        leaves: the leaves of the call.
        structure: their structure.
        args: the arguments.
        kwargs: the keyword arguments.
        captured: what the function had captured.
        state: what it had read, but for the numbers of arrays and the context.
    """

    __slots__ = (
        "_captured",
        "_context",
        "_is_flat",
        "_models",
        "_names",
        "_specs",
        "_structure",
        "firsts",
        "places",
        "state",
        "variant",
    )

    def __init__(
        self,
        variant: Variant,
        leaves: Sequence[Any],
        structure: TreeStructure,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        captured: Captured,
        state: Hashable,
    ) -> None:
        self.variant = variant
        self.state = state
        self._captured = captured
        self._context = whole_context()
        self._structure = structure
        self._names = tuple(kwargs)
        self._models = key_of_structure(structure)
        self.places = places_of(leaves)
        #: Where each of the arrays and tensors is for the first time.
        numbers = sorted({one for one in self.places if one is not None})
        self.firsts: list[int] = [self.places.index(number) for number in numbers]
        self._specs = [_spec(leaf) for leaf in leaves]
        #: Whether each argument is a leaf, and nothing that was captured has numbers.
        self._is_flat: bool = not captured.values and all(
            one is not None and container_type(type(one)) is None for one in (*args, *kwargs.values())
        )

    def match(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], captured: Captured
    ) -> tuple[list[Any], TreeStructure] | None:
        """Return the leaves of a call that is like this one, and their structure; None for one that is not."""
        if captured is not self._captured and captured.key != self._captured.key:
            return None
        if whole_context() != self._context:
            return None
        if self._is_flat:
            if len(args) + len(kwargs) != len(self._specs) or tuple(kwargs) != self._names:
                return None
            leaves, structure = [*args, *kwargs.values()], self._structure
        else:
            leaves, structure = flatten((args, kwargs, captured.values))
            if structure != self._structure or key_of_structure(structure) != self._models:
                return None
        if places_of(leaves) != self.places:
            return None
        for leaf, spec in zip(leaves, self._specs, strict=True):
            if not _fits(leaf, spec):
                return None
        return leaves, structure


def _spec(leaf: Any) -> Any:
    """Return what a leaf in the place of this one is compared with."""
    if not isinstance(leaf, (TensorBase, np.ndarray)):
        return key_of_leaf(leaf)
    tensor = leaf if isinstance(leaf, TensorBase) else None
    array: np.ndarray = leaf._data if isinstance(leaf, TensorBase) else leaf
    place: tuple[Any, ...] = (None, None, None)
    if tensor is not None:
        place = tensor._requires_grad(), tensor._device, (tensor._grad_fn is None, has_grad(tensor))
    flags = array.flags.aligned, array.flags.writeable, array.base is None
    return [tensor is not None, array.shape, array.dtype, array.strides, flags, *place]


def _fits(leaf: Any, spec: Any) -> bool:
    if type(spec) is not list:
        return not isinstance(leaf, (TensorBase, np.ndarray)) and bool(key_of_leaf(leaf) == spec)
    is_tensor, shape, dtype, strides, flags, requires_grad, device, state = spec
    if is_tensor:
        if type(leaf) is not Tensor or leaf._requires_grad() is not requires_grad or leaf._device is not device:
            return False
        if (leaf._grad_fn is None, has_grad(leaf)) != state:
            return False
        leaf = leaf._data
    return (
        type(leaf) is np.ndarray
        and leaf.shape == shape
        and leaf.dtype == dtype
        and leaf.strides == strides
        and (leaf.flags.aligned, leaf.flags.writeable, leaf.base is None) == flags
    )
