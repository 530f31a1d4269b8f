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
from ..core.graph.node import THREADS, next_order
from ..core.graph.saved import check_version
from ..core.recording.handwritten_node import HandwrittenNode
from ..core.settings.context import GRAD_MODE, enable_grad
from ..core.tensor import Tensor
from ..sync import grad as blocking_grad

__all__ = ["recorded_gradients"]

#: Returns gradients with a graph, for others in the place of the arguments and of the incoming gradients.
Differentiate = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]


def recorded_gradients(
    differentiate: Differentiate,
    arguments: Sequence[tuple[Any, int]],
    wanted: Sequence[int],
    grads: Sequence[Any],
    arrays: Sequence[Any],
    device: Any,
) -> tuple[Any, ...]:
    """Return what a program's backward has computed as tensors with a history.

    Args:
        differentiate: computes the same with a graph.
        arguments: the arguments of the call with their versions.
        wanted: which of them have a gradient.
        grads: the incoming gradients, Tensors or None.
        arrays: the gradients; None where there is none.
        device: theirs.
    """
    node = _GradientsNode(differentiate, arguments, wanted, grads, arrays, device)
    mode = GRAD_MODE.get()
    if mode is not True and mode is not False:
        mode.created(node)
    return tuple([None if one is None else Tensor(one, node, index, device) for index, one in enumerate(arrays)])


@final
class _GradientsNode(HandwrittenNode):
    __slots__ = ("_arguments", "_differentiate", "_grads", "_metadata", "_wanted")

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
        edges += [None if one is None else gradient_edge(one) for one in grads]
        self.connect(
            tuple([None if edge is None else edge[0] for edge in edges]),
            tuple([0 if edge is None else edge[1] for edge in edges]),
        )
        self.order: int = next_order()
        if len(THREADS) > 1:
            self._note_thread()
        self.meta = None
        self.device: Any = device
        self.shape = self.dtype = None
        self._metadata: tuple[InputMetadata | None, ...] = tuple(
            [None if one is None else InputMetadata(one.shape, one.dtype, device) for one in arrays]
        )
        self._differentiate = differentiate
        self._arguments = arguments
        self._wanted = wanted
        self._grads = grads

    @property
    def name(self) -> str:
        """The name that errors and drawings show."""
        return "ReplayBackwardBackward"

    @property
    def input_metadata(self) -> tuple[InputMetadata | None, ...]:
        """The InputMetadata of each gradient."""
        return self._metadata

    def apply(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the gradients of the arguments and of the incoming gradients."""
        return self.apply_generic(grads)

    def apply_wanted(self, grad: Any, wanted: Sequence[bool]) -> tuple[Any, ...]:
        """Return what `apply` does, with None for what is not wanted."""
        found = self.apply_generic(grad)
        return tuple([one if is_wanted else None for one, is_wanted in zip(found, wanted, strict=True)])

    def apply_generic(self, grad: Any) -> tuple[Any, ...]:
        """Return the gradients of the arguments and of the incoming gradients, given those of all gradients."""
        given = [None] * len(self._metadata) if grad is None else list(grad)
        create_graph = GRAD_MODE.get() is not False
        for argument, version in self._arguments:
            if isinstance(argument, TensorBase):
                check_version(self, argument, version)
        with enable_grad():
            own: list[Any] = [argument for argument, _ in self._arguments]
            for index in self._wanted:
                own[index] = np.positive(own[index])
            grads = [_copied(one) for one in self._grads]
            found = self._differentiate(own, grads)
        pairs = [
            (one, outer)
            for one, outer in zip(found, given, strict=True)
            if one is not None and outer is not None and one._requires_grad()
        ]
        places = [own[index] for index in self._wanted] + grads
        inputs = [one for one in places if isinstance(one, TensorBase) and one._requires_grad()]
        if not pairs:
            return (None,) * len(places)
        second = blocking_grad(
            [one for one, _ in pairs],
            inputs,
            [outer for _, outer in pairs],
            create_graph=create_graph,
            allow_unused=True,
        )
        by_input = {id(one): two for one, two in zip(inputs, second, strict=True)}
        results = [by_input.get(id(one)) for one in places]
        return tuple([one if create_graph or one is None else one._data for one in results])


def _copied(grad: Any) -> Any:
    """Return an incoming gradient as the result of an operation, where it has a history."""
    has_history = isinstance(grad, TensorBase) and grad._requires_grad()
    return np.positive(grad) if has_history else grad
