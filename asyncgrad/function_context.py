"""FunctionContext: the `ctx` of a Function, which carries what forward leaves for backward."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NamedTuple, final

from .errors import GradientTypeError, GraphError, InPlaceError
from .graph.saved import check_version, output_alias, released, version_of
from .graph.tracked import Tracked
from .graph.values import describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .graph.node import Node

__all__ = ["FunctionContext", "dirty_output"]


class _Saved(NamedTuple):
    """A saved tensor: an input itself, or a detached alias of output `output_nr` (no cycle through the node)."""

    tensor: Tracked | None
    version: int
    output_nr: int | None


@final
class FunctionContext:
    """What `forward` leaves for `backward`: saved tensors, marks, and any attribute that a user sets.

    Example:
        >>> import asyncgrad as ag
        >>> class Scale(ag.Function):
        ...     @staticmethod
        ...     def forward(ctx, x, factor):
        ...         ctx.factor = factor
        ...         return x * factor
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return grad * ctx.factor, None
        >>> Scale.apply(ag.tensor(2.0), 3.0).item()
        6.0
    """

    def __init__(self, node: Node) -> None:
        #: For each argument of forward, whether a gradient is wanted.
        self.needs_input_grad: tuple[bool, ...] = ()
        #: Whether undefined gradients reach backward as zeros.
        self.materialize_grads = True
        # Weak, since the node holds the context: together they are freed as soon as the graph is.
        self._node = weakref.ref(node)
        self._to_save: tuple[Any, ...] = ()
        self._saved: tuple[_Saved, ...] | None = ()
        self._dirty: tuple[Tracked, ...] = ()
        self._non_differentiable: tuple[Tracked, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors for backward: arguments or outputs of forward, or anything between; None stays None.

        They are released after the backward, and checked for writes in place since.
        """
        self._to_save = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        """Say that forward wrote into these arguments in place; forward must return them."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Say that these outputs have no gradient."""
        self._non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Say whether undefined gradients reach backward as zeros (the default) or as None."""
        self.materialize_grads = bool(value)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What was saved, in order.

        Raises:
            ReleasedGraphError: a backward has run before without `retain_graph`.
            ChangedTensorError: a tensor was written into since.
        """
        node = self._node()
        if node is None:
            raise GraphError("the node of this context is gone, and with it what was saved")
        if self._saved is None:
            raise released(node)
        return tuple(self._unpacked(node, saved) for saved in self._saved)

    async def load_saved(self) -> tuple[Any, ...]:
        """Return `saved_tensors`; suspends where unpacking one does."""
        return self.saved_tensors

    @staticmethod
    def _unpacked(node: Node, saved: _Saved) -> Any:
        tensor = saved.tensor
        if tensor is None:
            return None
        check_version(node, tensor, saved.version)
        if saved.output_nr is None:
            return tensor
        return output_alias(tensor, node, saved.output_nr)

    # What Function.apply asks.

    def is_dirty(self, value: Tracked) -> bool:
        """Tell whether forward marked `value` as written into."""
        return _among(value, self._dirty)

    def is_non_differentiable(self, value: Tracked) -> bool:
        """Tell whether forward marked `value` as having no gradient."""
        return _among(value, self._non_differentiable)

    def check_dirty(self, outputs: Sequence[Any]) -> None:
        """Raise if a tensor that forward wrote into is not among its outputs."""
        for dirty in self._dirty:
            if not _among(dirty, outputs):
                raise InPlaceError(f"forward marked a tensor of shape {dirty._data.shape} as dirty: it must return it")

    def save(self, inputs: Sequence[Any], outputs: dict[int, Tracked], node: Node | None) -> None:
        """Take what forward asked to save, now that its outputs are known by their identity in forward."""
        to_save, self._to_save = self._to_save, ()
        dirty, self._dirty = self._dirty, ()
        self._non_differentiable = ()
        if node is None:
            self._saved = None if to_save else ()
            return
        saved = []
        for value in to_save:
            if value is not None and not isinstance(value, Tracked):
                raise GradientTypeError(
                    f"save_for_backward takes tensors and None, not {describe(value)}: keep other values as "
                    "attributes, ctx.value = value"
                )
            output = outputs.get(id(value))
            if value is None:
                saved.append(_Saved(None, 0, None))
            elif output is not None and output._grad_fn is node and not (_among(value, inputs) and not _among(value, dirty)):
                saved.append(_Saved(output_alias(output), version_of(output), output._output_nr))
            else:
                saved.append(_Saved(value, version_of(value), None))
        self._saved = tuple(saved)

    def release(self) -> None:
        """Let go of the saved tensors, if there are any."""
        if self._saved:
            self._saved = None


def _among(value: Any, items: Sequence[Any]) -> bool:
    return any(value is item for item in items)


def dirty_output(value: Tracked, node: Node | None, index: int) -> Tracked:
    """Give an argument that forward wrote into its new place in the graph; return it.

    Raises:
        InPlaceError: it is a leaf that requires grad, or other tensors share its memory.
    """
    if node is not None:
        if value._grad_fn is None and value._requires_grad():
            raise InPlaceError(
                "forward wrote into a leaf that requires grad, whose old value is what its gradient belongs to: "
                "write into a copy"
            )
        if value._data.base is not None or value._counter is not None:
            raise InPlaceError("forward wrote into a tensor that shares its memory with others: that is not supported yet")
        value._grad_fn, value._output_nr, value._meta = node, index, None
    value._bump_version()
    return value
