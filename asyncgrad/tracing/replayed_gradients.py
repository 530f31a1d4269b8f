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
from ..core.graph.saved import check_version, released_error
from ..core.recording.handwritten_node import HandwrittenNode
from ..core.settings.context import GRAD_MODE, enable_grad
from ..core.tensor import Tensor
from ..sync import grad as blocking_grad
from .beginnings import as_it_lies

__all__ = [
    "GradientsNode",
    "bare_unless",
    "gradients_of",
    "has_graph",
    "own_copy",
    "with_versions",
    "without_graph",
]

#: Returns the gradients for incoming gradients, with a graph, and the tensors in the place of the arguments to which
#: that graph leads; it goes on from there to the arguments if it is told so.
Differentiate = Callable[[Sequence[Any], bool], tuple[Sequence[Any], list[Any]]]


@final
class GradientsNode(HandwrittenNode):
    """The node of gradients that a program has computed.

    Args:
        differentiate: computes the same by the function.
        arguments: the arguments of the call.
        wanted: which of them have a gradient.
        grads: the incoming gradients, Tensors or None.
        arrays: the gradients; None where there is none.
        differentiable: which of them have a graph.
        device: theirs.
    """

    __slots__ = ("_differentiable", "_differentiate", "_grads", "_metadata")

    is_users = False

    def __init__(
        self,
        differentiate: Differentiate,
        arguments: Sequence[Any],
        wanted: Sequence[int],
        grads: Sequence[Any],
        arrays: Sequence[Any],
        differentiable: Sequence[bool],
        device: Any,
    ) -> None:
        edges = [gradient_edge(arguments[index]) for index in wanted]
        self._connect([*edges, *[None if one is None else gradient_edge(one) for one in grads]])
        self.meta = None
        self.device: Any = device
        self.shape = self.dtype = None
        self._metadata: tuple[InputMetadata | None, ...] = tuple(
            [None if one is None else InputMetadata(one.shape, one.dtype, device) for one in arrays]
        )
        self._differentiate: Differentiate | None = differentiate
        self._differentiable = differentiable
        self._grads = with_versions(grads)

    @property
    def name(self) -> str:
        """The name that errors and drawings show."""
        return "ReplayBackwardBackward"

    @property
    def input_metadata(self) -> tuple[InputMetadata | None, ...]:
        """The InputMetadata of each gradient."""
        return self._metadata

    def gradients(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Return the gradients as tensors, with this history where they have one."""
        found = list(without_graph(arrays, self.device))
        for index, is_differentiable in enumerate(self._differentiable):
            if is_differentiable:
                found[index] = Tensor(found[index]._data, self, index, self.device)
        return tuple(found)

    def apply(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the gradients of the arguments and of the incoming gradients."""
        return self.apply_generic(grads)

    def apply_generic(self, grad: Any) -> tuple[Any, ...]:
        """Return the gradients of the arguments and of the incoming gradients, given those of all gradients."""
        given = [None] * len(self._metadata) if grad is None else list(grad)
        create_graph = GRAD_MODE.get() is not False
        differentiate = self._differentiate
        if differentiate is None:
            raise released_error(self)
        for value, version in self._grads:
            if isinstance(value, TensorBase):
                check_version(self, value, version)
        grads = [own_copy(one) if has_graph(one) else one for one, _ in self._grads]
        found, arguments = differentiate(grads, create_graph)
        places = [*arguments, *grads]
        inputs = [one for one in places if has_graph(one)]
        by_input = dict(zip(map(id, inputs), gradients_of(found, inputs, given, create_graph), strict=True))
        return bare_unless(create_graph, [by_input.get(id(one)) for one in places])

    def release_variables(self) -> None:
        """Let go of what it reads; with several gradients, each of which may be differentiated by itself, keep it."""
        if sum(self._differentiable) == 1:
            self._differentiate = None
            self._grads = []


def with_versions(values: Sequence[Any]) -> list[tuple[Any, int]]:
    """Return each of some values with its version; 0 for one that is no tensor."""
    # As `version_of`, without a call for each of the parameters of a model.
    return [
        (one, 0 if not isinstance(one, TensorBase) or one._counter is None else one._counter.value) for one in values
    ]


def without_graph(arrays: Sequence[Any], device: Any) -> tuple[Any, ...]:
    """Return arrays as tensors without a history, each with memory of its own; None where there is none."""
    seen: set[int] = set()
    found: list[Any] = []
    for one in arrays:
        own = one.copy("K") if id(one) in seen and one is not None else one
        seen.add(id(one))
        found.append(None if own is None else Tensor(own, None, 0, device))
    return tuple(found)


def own_copy(tensor: Any) -> Any:
    """Return a tensor as the result of an operation, so that a graph leads to it."""
    with enable_grad():
        return np.positive(tensor)


def gradients_of(
    results: Sequence[Any], inputs: Sequence[Any], grads: Sequence[Any], create_graph: bool
) -> Sequence[Any]:
    """Return the gradients for inputs; results without a graph, and those without an incoming gradient, add none."""
    given = [(one, grad) for one, grad in zip(results, grads, strict=True) if grad is not None and has_graph(one)]
    if not given:
        return (None,) * len(inputs)
    starts = [as_it_lies(one, grad) for one, grad in given]
    found: Sequence[Any] = blocking_grad(
        [root for root, _ in starts],
        inputs,
        [grad for _, grad in starts],
        create_graph=create_graph,
        allow_unused=True,
    )
    return found


def bare_unless(create_graph: bool, grads: Sequence[Any]) -> tuple[Any, ...]:
    """Return what a node returns: tensors where they are recorded, arrays else."""
    return tuple([one if create_graph or one is None else one._data for one in grads])


def has_graph(value: object) -> bool:
    """Tell whether a gradient leads anywhere."""
    return isinstance(value, TensorBase) and value._requires_grad()
