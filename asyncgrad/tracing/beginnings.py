"""Where a backward begins: at which outputs of a program, and how the gradients of these lie in memory.

In which order NumPy adds up the elements of an array depends on how that lies, so a program is for one beginning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, final

import numpy as np

from ..core.arrays.tensor_base import TensorBase
from ..core.arrays.values import is_dense, raw
from ..core.graph.leaf import gradient_edge
from ..core.graph.metadata import InputMetadata
from ..core.recording.handwritten_node import HandwrittenNode
from ..core.settings.context import GRAD_MODE
from ..core.tensor import Tensor
from .iterations import memory_like

__all__ = ["Beginning", "as_it_lies", "beginning_of", "ones_lying_as"]

#: By the number of each output at which a backward begins, the strides of its gradient.
Beginning: TypeAlias = Mapping[int, tuple[int, ...]]


def beginning_of(grads: Sequence[object], metadata: Sequence[InputMetadata | None]) -> Beginning | None:
    """Return how a backward begins; None where no program can begin so.

    Args:
        grads: the gradient of each output, or None.
        metadata: what each gradient must be.
    """
    found: dict[int, tuple[int, ...]] = {}
    for index, (grad, expected) in enumerate(zip(grads, metadata, strict=True)):
        if grad is None:
            continue
        if type(grad) is not np.ndarray or expected is None or grad.dtype != expected.dtype or not grad.flags.aligned:
            return None
        if any(step % grad.itemsize for step in grad.strides):
            return None
        found[index] = grad.strides
    return found


def ones_lying_as(shape: tuple[int, ...], dtype: np.dtype, strides: Sequence[int]) -> np.ndarray:
    """Return an array of ones with these strides."""
    ones = memory_like((dtype.str, shape, tuple(strides)))
    ones.fill(1)
    return ones


def as_it_lies(result: Any, gradient: Any) -> tuple[Any, Any]:
    """Return a root and its gradient, for `ag.grad`, so that a backward begins with a gradient as it lies in memory.

    The engine copies the gradient of a root, and a copy of one that lies spread out, such as that of a sum, is dense.
    """
    if is_dense(raw(gradient)):
        return result, gradient
    return Tensor(np.zeros(()), _Start(result, gradient), 0, result._device), None


@final
class _Start(HandwrittenNode):
    """The node of a root that passes a gradient on to a result.

    Args:
        result: the result.
        gradient: its gradient.
    """

    __slots__ = ("_gradient",)

    def __init__(self, result: Any, gradient: Any) -> None:
        self._connect([gradient_edge(result)])
        self.meta = None
        self.device: Any = result._device
        self.shape, self.dtype = (), np.dtype(float)
        self._gradient = gradient

    @property
    def name(self) -> str:
        """The name that errors and drawings show."""
        return "StartBackward"

    @property
    def input_metadata(self) -> tuple[InputMetadata | None, ...]:
        """The InputMetadata of the root."""
        return (InputMetadata((), np.dtype(float), self.device),)

    def apply(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the gradient of the result."""
        return self.apply_generic(grads)

    def apply_generic(self, grad: Any) -> tuple[Any, ...]:
        """Return the gradient of the result."""
        gradient = self._gradient
        if GRAD_MODE.get() is False:
            return (raw(gradient),)
        return (gradient if isinstance(gradient, TensorBase) else Tensor(gradient, None, 0, self.device),)
