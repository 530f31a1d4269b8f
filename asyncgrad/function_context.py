"""FunctionContext: the `ctx` of a Function, which carries what forward leaves for backward."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from .context import GRAD_MODE
from .errors import GradientTypeError, GraphError, InPlaceError
from .graph.saved import check_version, detached, output_alias, released, version_of
from .graph.tracked import Tracked
from .graph.values import describe, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .graph.node import Node

__all__ = [
    "FunctionContext",
    "Saved",
    "check_dirty",
    "dirty_output",
    "is_dirty",
    "is_non_differentiable",
    "release",
    "save",
    "unpacked",
]


class Saved(NamedTuple):
    """A saved tensor: an input itself, or a detached alias of output `output_nr` (no cycle through the node)."""

    tensor: Tracked | None
    version: int = 0
    output_nr: int | None = None
    #: What had made the tensor, where it is no output.
    producer: Node | None = None


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
        self._saved: tuple[Saved, ...] | None = ()
        self._dirty: tuple[Any, ...] = ()
        self._non_differentiable: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors for backward: arguments or outputs of forward, or anything between; None stays None.

        They are released after the backward, and checked for writes in place since. An array comes back as a tensor.
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
        return tuple(unpacked(node, saved) for saved in self._saved)

    async def load_saved(self) -> tuple[Any, ...]:
        """Return `saved_tensors`; suspends where unpacking one does."""
        return self.saved_tensors


# What Function.apply and its node ask of a context: functions, so that an attribute of any name may be set on it.


def unpacked(node: Node, saved: Saved) -> Any:
    """Return a saved tensor, an output of forward with its place in the graph.

    Raises:
        ChangedTensorError: it was written into since, or its history is needed and was cut off.
    """
    tensor = saved.tensor
    if tensor is None:
        return None
    check_version(node, tensor, saved.version)
    if saved.output_nr is not None:
        return output_alias(tensor, node, saved.output_nr)
    if tensor._grad_fn is not saved.producer and GRAD_MODE.get():
        raise detached(node, tensor)
    return tensor


def is_dirty(ctx: FunctionContext, value: Tracked) -> bool:
    """Tell whether forward marked `value` as written into."""
    return _among(value, ctx._dirty)


def is_non_differentiable(ctx: FunctionContext, value: Tracked) -> bool:
    """Tell whether forward marked `value`, or the array that it was made of, as having no gradient."""
    return _among(value, ctx._non_differentiable) or _among(value._data, ctx._non_differentiable)


def check_dirty(ctx: FunctionContext, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Raise if what forward says that it wrote into is not both an argument and an output."""
    for dirty in ctx._dirty:
        if not isinstance(dirty, Tracked):
            raise GradientTypeError(f"mark_dirty takes the tensors that forward wrote into, not {describe(dirty)}")
        where = f"a tensor of shape {dirty._data.shape} is marked dirty, that is written into in place"
        if not _among(dirty, inputs):
            raise InPlaceError(f"{where}, and is no argument of forward: mark arguments only")
        if not _among(dirty, outputs):
            raise InPlaceError(f"{where}, and forward does not return it: add it to what forward returns")


def save(ctx: FunctionContext, inputs: Sequence[Any], outputs: dict[int, Tracked], node: Node | None) -> None:
    """Take what forward asked to save, now that its outputs have their places in the graph.

    Args:
        ctx: the context.
        inputs: the arguments of forward.
        outputs: the tensors that apply returns, by the `id` of what forward returned (of the array, for an array).
        node: where they are saved; None where nothing is recorded.
    """
    to_save, ctx._to_save = ctx._to_save, ()
    dirty, ctx._dirty = ctx._dirty, ()
    ctx._non_differentiable = ()
    if node is None:
        ctx._saved = None if to_save else ()
        return
    saved = []
    for value in to_save:
        if value is not None and not isinstance(value, (Tracked, np.ndarray)):
            raise GradientTypeError(
                f"save_for_backward takes tensors, arrays and None, not {describe(value)}: keep other values as "
                "attributes, ctx.value = value"
            )
        output = outputs.get(id(value))
        if value is None:
            saved.append(Saved(None))
        elif output is not None and output._grad_fn is node and (not _among(value, inputs) or _among(value, dirty)):
            saved.append(Saved(output_alias(output), version_of(output), output._output_nr))
        else:
            tensor = wrap(value, node.device)
            saved.append(Saved(tensor, version_of(tensor), None, tensor._grad_fn))
    ctx._saved = tuple(saved)


def release(ctx: FunctionContext) -> None:
    """Let go of the saved tensors, if there are any."""
    if ctx._saved:
        ctx._saved = None


def _among(value: Any, items: Sequence[Any]) -> bool:
    return any(value is item for item in items)


def dirty_output(value: Tracked, node: Node | None, index: int) -> Tracked:
    """Give an argument that forward wrote into its new place in the graph; return it.

    Raises:
        InPlaceError: it is a leaf that requires grad, or it is a view or has views, whose histories would change.
    """
    if node is not None:
        where = f"forward wrote into a tensor of shape {value._data.shape}"
        if value._grad_fn is None and value._requires_grad():
            raise InPlaceError(
                f"{where} that is a leaf and requires grad: its gradient belongs to its old value, "
                "so write into a copy, x = x.copy()"
            )
        if value._counter is not None and value._counter.has_views:
            raise InPlaceError(
                f"{where} that is a view or has views, which is not supported yet: write into a copy, x = x.copy()"
            )
        value._grad_fn, value._output_nr, value._meta = node, index, None
    value._bump_version()
    return value
