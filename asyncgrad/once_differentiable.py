"""once_differentiable: marks a backward whose result has no derivative, so that asking for one raises."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, TypeVar, final

from .context import GRAD_MODE, no_grad
from .errors import ArgumentTypeError, GraphError
from .graph import values
from .graph.leaf import gradient_edge
from .graph.node import Edge, Node, Special
from .graph.tracked import Tracked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["OnceDifferentiableNode", "once_differentiable"]

F = TypeVar("F", bound="Callable[..., Any]")


@final
class OnceDifferentiableNode(Node):
    """Stands behind a gradient that cannot be differentiated again, and says so when it is."""

    __slots__ = ("_message",)

    def __init__(self, message: str, edges: Sequence[Edge | None], like: Any) -> None:
        self._message = message
        self._connect(edges)
        self.shape = like.shape
        self.dtype = like.dtype
        self.device = None
        self.special = Special()

    def apply(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Raise."""
        raise GraphError(self._message)


def _check(backward: Any) -> None:
    if not callable(backward):
        raise ArgumentTypeError(
            f"once_differentiable marks a backward, not {values.describe(backward)}: write @ag.once_differentiable "
            "above `def backward(ctx, ...)`, and @staticmethod above that"
        )


def once_differentiable(backward: F) -> F:
    """Decorate a `backward` that cannot itself be differentiated: it runs with recording off.

    Differentiating its result, under `create_graph`, raises, rather than give a wrong gradient.

    Example:
        >>> import asyncgrad as ag
        >>> class Double(ag.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return x * 2
        ...     @staticmethod
        ...     @ag.once_differentiable
        ...     def backward(ctx, grad):
        ...         return grad * 2
        >>> Double.apply(ag.tensor(1.0)).item()
        2.0
    """
    _check(backward)
    message = (
        f"{backward.__qualname__} is marked once_differentiable, and its result was to be differentiated: "
        "remove the mark if its formula is made of differentiable functions"
    )

    def guarded(result: Any, grads: tuple[Any, ...]) -> Any:
        mode = GRAD_MODE.get()
        if not mode:
            return result
        known = [grad for grad in grads if isinstance(grad, Tracked)]
        edges = [gradient_edge(grad) for grad in known]

        def fenced(grad: Any) -> Any:
            fence = values.wrap(values.raw(grad), known[0]._device if known else None)
            if isinstance(fence, Tracked):
                fence._grad_fn = OnceDifferentiableNode(message, edges, fence._data)
                if mode is not True:
                    mode.created(fence._grad_fn)
            return fence

        return tuple(map(fenced, result)) if isinstance(result, (tuple, list)) else fenced(result)

    if inspect.iscoroutinefunction(backward):

        @functools.wraps(backward)
        async def wrapper(ctx: Any, *grads: Any) -> Any:
            with no_grad():
                result = await backward(ctx, *grads)
            return guarded(result, grads)

    else:

        @functools.wraps(backward)
        def wrapper(ctx: Any, *grads: Any) -> Any:
            with no_grad():
                result = backward(ctx, *grads)
            return guarded(result, grads)

    return wrapper  # type: ignore[return-value]
