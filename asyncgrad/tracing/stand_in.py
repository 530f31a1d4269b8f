"""A tensor in the place of an argument, with whose numbers and history something else is to happen."""

from __future__ import annotations

from typing import Any, final

from ..core.graph.metadata import InputMetadata
from ..core.recording.handwritten_node import HandwrittenNode
from ..core.tensor import Tensor

__all__ = ["stand_in"]


def stand_in(argument: Any, array: Any) -> Any:
    """Return a tensor with an array, which is a leaf where the argument is one, and requires grad where that does."""
    if argument._grad_fn is not None:
        return Tensor(array, _Argument(array, argument._device), 0, argument._device)
    new = Tensor(array, None, 0, argument._device)
    if argument._requires_grad():
        new._autograd_meta().requires_grad = True
    return new


@final
class _Argument(HandwrittenNode):
    """The node of an argument that is no leaf: a graph ends here, as the rest of it is not that of the function."""

    __slots__ = ()

    def __init__(self, array: Any, device: Any) -> None:
        self._connect(())
        self.meta = None
        self.device: Any = device
        self.shape, self.dtype = array.shape, array.dtype

    @property
    def name(self) -> str:
        """The name that errors and drawings show."""
        return "ArgumentBackward"

    @property
    def input_metadata(self) -> tuple[InputMetadata | None, ...]:
        """The InputMetadata of the argument."""
        return (InputMetadata(self.shape or (), self.dtype, self.device),)

    def apply(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return no gradients."""
        return ()

    def apply_generic(self, grad: Any) -> tuple[Any, ...]:
        """Return no gradients."""
        return ()
