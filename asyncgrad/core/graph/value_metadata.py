"""ValueMetadata: what the gradient of a forward output that is no array must look like."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ...errors import GradientTypeError, InvalidGradientError
from ..arrays.value_type import ValueGradient, ValueType
from ..arrays.values import raw
from ..settings.arguments import describe
from .naming import identify

if TYPE_CHECKING:
    from .node_like import NodeLike

__all__ = ["ValueMetadata", "held", "may_await_merge", "replaced", "unheld"]

_OBJECT = np.dtype(object)

_REPLACED = (
    ". The leaf has got another object, v.value = other: set v.grad = None then, and run the backward of graphs that "
    "were made before it, or make a new leaf"
)


@final
class ValueMetadata:
    """What the gradient of a value must look like. It stands where an InputMetadata does for an array.

    Args:
        type: that of the value.
        description: what the type says of the value.
        device: where the value was made.

    Example:
        >>> import asyncgrad as ag
        >>> class Notes(ag.extend.ValueType):
        ...     def describe(self, value):
        ...         return len(value)
        >>> ag.graph.get_gradient_edge(ag.leaf("why", type=Notes())).node.input_metadata
        (ValueMetadata(Notes(), 3),)
    """

    __slots__ = ("description", "device", "is_replaced", "type")

    #: For those who show it beside arrays.
    shape: tuple[int, ...] = ()
    dtype = _OBJECT
    was_default_constructed = False

    def __init__(self, type: ValueType, description: object, device: Any) -> None:  # noqa: A002
        self.type: ValueType = type
        self.description: object = description
        self.device: Any = device
        #: Whether the value is a leaf that had another object before.
        self.is_replaced: bool = False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ValueMetadata):
            return NotImplemented
        return self.type is other.type and self.description is other.description and self.device is other.device

    def __hash__(self) -> int:
        return hash((id(self.type), id(self.description)))

    def __repr__(self) -> str:
        return f"ValueMetadata({self.type!r}, {self.description!r})"

    def zero(self) -> Any:
        """Return the gradient of an output to which none has come."""
        return self.type.zero(self.description)

    def take(self, value: Any, said: Callable[[str], str]) -> Any:
        """Return a gradient as the engine holds it; None for one that counts as missing.

        Args:
            value: the gradient; or one that the engine holds already.
            said: returns the begin of an error, from what the gradient is.

        Raises:
            InvalidGradientError: the type refuses it.
            GradientTypeError: the same, where its class is wrong.
        """
        if value is None or value.__class__ is ValueGradient:
            return value
        if inspect.isawaitable(value):
            raise GradientTypeError(f"{said(describe(value))}: await it first")
        try:
            converted = self.type.convert(value)
            if converted is None or self.type.is_missing(converted):
                return None
            self.type.check(converted, self.description)
        except (TypeError, ValueError) as error:
            kind = GradientTypeError if isinstance(error, TypeError) else InvalidGradientError
            raise kind(
                f"{said(describe(value))}, which is no gradient of type {self.type.name}: {error}"
                + (_REPLACED if self.is_replaced else "")
            ) from error
        return ValueGradient(self, (converted,))

    def merged(self, held: ValueGradient, value: Any, node: NodeLike) -> ValueGradient | None:
        """Return what the merge of gradients has returned, as the engine holds it."""
        where = f"for {len(held.gradients)} gradients at {identify(node)}"
        if value is None:
            raise GradientTypeError(f"{self.type.name}.merge returned None {where}: return one gradient")
        taken: ValueGradient | None = self.take(value, lambda it: f"{self.type.name}.merge returned {it} {where}")
        return taken


def held(edge: Any, grad: Any) -> Any:
    """Return a gradient that flows along an edge as the engine holds it: the array of a tensor, say."""
    metadata = edge.node.input_metadata[edge.input_nr]
    if isinstance(metadata, ValueMetadata):
        return metadata.take(grad, lambda it: f"the gradient of a {metadata.type.name} is {it}")
    return raw(grad)


def unheld(grads: Sequence[Any]) -> Sequence[Any]:
    """Return gradients as bodies and hooks see them: what is no array as it is."""
    if any(grad.__class__ is ValueGradient for grad in grads):
        return tuple(grad.gradient if grad.__class__ is ValueGradient else grad for grad in grads)
    return grads


def replaced(held: ValueGradient, result: Any, where: str) -> ValueGradient | None:
    """Return the gradient that a hook has returned in the place of another one, as the engine holds it.

    Args:
        held: the other one.
        result: what the hook has returned.
        where: the hook, in an error.
    """
    taken: ValueGradient | None = held.metadata.take(result, lambda it: f"{where} returned {it}")
    return taken


def may_await_merge(node: NodeLike) -> bool:
    """Tell whether gradients that meet at a node are merged by an `async def`."""
    return any(
        isinstance(slot, ValueMetadata) and inspect.iscoroutinefunction(slot.type.merge) for slot in node.input_metadata
    )
