"""The node of the gradients that a program has computed where they are to be differentiated again.

The program gives their numbers at once. The function itself runs again, with a graph, only where somebody
differentiates them: most gradients that are recorded are never differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from ..core.arrays.tensor_base import TensorBase
from ..core.graph.leaf import gradient_edge
from ..core.graph.metadata import InputMetadata
from ..core.graph.saved import check_version
from ..core.recording.handwritten_node import HandwrittenNode
from ..core.settings.context import GRAD_MODE, enable_grad
from ..core.tensor import Tensor
from ..sync import grad as blocking_grad

__all__ = ["GradientsNode", "bare_unless", "gradients_of", "own_copy"]

#: Returns the gradients for arguments with their versions and for incoming gradients, with a graph if it is told so,
#: and the tensors in the place of the arguments to which that graph leads.
Differentiate = Callable[[Sequence[tuple[Any, int]], Sequence[Any], bool], tuple[Sequence[Any], list[Any]]]


@final
class GradientsNode(HandwrittenNode):
    """The node of gradients that a program has computed.

    Args:
        differentiate: computes the same by the function.
        arguments: the arguments of the call with their versions.
        wanted: which of them have a gradient.
        grads: the incoming gradients, Tensors or None.
        arrays: the gradients; None where there is none.
        device: theirs.
    """

    __slots__ = ("_arguments", "_differentiate", "_grads", "_metadata")

    is_users = False

    def __init__(
        self,
        differentiate: Differentiate,
        arguments: Sequence[tuple[Any, int]],
        wanted: Sequence[int],
        grads: Sequence[Any],
        arrays: Sequence[Any],
        device: Any,
    ) -> None:
        edges = [gradient_edge(arguments[index][0]) for index in wanted]
        self._connect([*edges, *[None if one is None else gradient_edge(one) for one in grads]])
        self.meta = None
        self.device: Any = device
        self.shape = self.dtype = None
        self._metadata: tuple[InputMetadata | None, ...] = tuple(
            [None if one is None else InputMetadata(one.shape, one.dtype, device) for one in arrays]
        )
        self._differentiate = differentiate
        self._arguments = arguments
        self._grads = grads

    @property
    def name(self) -> str:
        """The name that errors and drawings show."""
        return "ReplayBackwardBackward"

    @property
    def input_metadata(self) -> tuple[InputMetadata | None, ...]:
        """The InputMetadata of each gradient."""
        return self._metadata

    def gradients(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Return the gradients as tensors with this history."""
        pairs = enumerate(arrays)
        return tuple([None if one is None else Tensor(one, self, index, self.device) for index, one in pairs])

    def apply(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the gradients of the arguments and of the incoming gradients."""
        return self.apply_generic(grads)

    def apply_generic(self, grad: Any) -> tuple[Any, ...]:
        """Return the gradients of the arguments and of the incoming gradients, given those of all gradients."""
        given = [None] * len(self._metadata) if grad is None else list(grad)
        create_graph = GRAD_MODE.get() is not False
        for argument, version in self._arguments:
            if isinstance(argument, TensorBase):
                check_version(self, argument, version)
        grads = [own_copy(one) if _has_graph(one) else one for one in self._grads]
        found, arguments = self._differentiate(self._arguments, grads, True)
        places = [*arguments, *grads]
        inputs = [one for one in places if _has_graph(one)]
        by_input = dict(zip(map(id, inputs), gradients_of(found, inputs, given, create_graph), strict=True))
        return bare_unless(create_graph, [by_input.get(id(one)) for one in places])


def own_copy(tensor: Any) -> Any:
    """Return a tensor as the result of an operation, so that a graph leads to it."""
    with enable_grad():
        return np.positive(tensor)


def gradients_of(
    results: Sequence[Any], inputs: Sequence[Any], grads: Sequence[Any], create_graph: bool
) -> Sequence[Any]:
    """Return the gradients for inputs; results without a graph, and those without an incoming gradient, add none."""
    pairs = [(one, grad) for one, grad in zip(results, grads, strict=True) if grad is not None and _has_graph(one)]
    if not pairs:
        return (None,) * len(inputs)
    found: Sequence[Any] = blocking_grad(
        [one for one, _ in pairs],
        inputs,
        [grad for _, grad in pairs],
        create_graph=create_graph,
        allow_unused=True,
    )
    return found


def bare_unless(create_graph: bool, grads: Sequence[Any]) -> tuple[Any, ...]:
    """Return what a node returns: tensors where they are recorded, arrays else."""
    return tuple([one if create_graph or one is None else one._data for one in grads])


def _has_graph(value: Any) -> bool:
    return isinstance(value, TensorBase) and value._requires_grad()
