"""once_differentiable, and the node that raises if a gradient that cannot be differentiated is."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, TypeVar, final

from ...errors import ArgumentTypeError, GraphError
from ..arrays import values
from ..arrays.tensor_base import TensorBase
from ..graph.leaf import gradient_edge
from ..graph.node import Edge, Node, NodeMeta
from ..graph.wrappers import register_wrapper
from ..settings.arguments import describe
from ..settings.context import GRAD_MODE, Watcher, watched_no_grad
from ..tree.structure import flatten, leaves, unflatten
from .function_context import FunctionContext, edges_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["DelayedError", "once_differentiable", "forbid_derivative"]

#: A profile of the whole process replaces it: see core/graph/wrappers.py.
_grad_mode = GRAD_MODE.get
register_wrapper(globals())

F = TypeVar("F", bound="Callable[..., Any]")


@final
class DelayedError(Node):
    """The grad_fn of a gradient that cannot be differentiated again; raises when a backward reaches it.

    Source: DelayedError of PyTorch.
    """

    __slots__ = ("_message",)

    def __init__(self, message: str, edges: Sequence[Edge], like: Any) -> None:
        self._message = message
        self._connect(edges)
        self.shape = like.shape
        self.dtype: Any = like.dtype
        self.device: Any = None
        self.meta = NodeMeta()

    def apply(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Raise the GraphError."""
        raise GraphError(self._message)


def forbid_derivative(grads: Sequence[Any], edges: Iterable[Edge | None], device: Any, message: str) -> list[Any]:
    """Return gradients as tensors whose derivative raises, if recording is on; otherwise return them unchanged.

    Args:
        grads: tensors, whose history is dropped, arrays, or None, which stays None.
        edges: the edges of the tensors that they were computed from, None for one that does not require grad. If none
            does, the gradients are returned unchanged.
        device: the device of arrays.
        message: the message of the error.
    """
    mode, known = _grad_mode(), list(dict.fromkeys(edge for edge in edges if edge is not None))
    if not mode or not known:
        return [*grads]
    results = []
    for grad in grads:
        result = values.wrap(values.raw(grad), grad._device if isinstance(grad, TensorBase) else device)
        if isinstance(result, TensorBase):
            result._grad_fn = DelayedError(message, known, result._data)
            if mode is not True:
                mode.created(result._grad_fn)
        results.append(result)
    return results


def once_differentiable(backward: F) -> F:
    """Decorate a `backward` that cannot itself be differentiated: it runs with recording off.

    Under `create_graph`, differentiating its result raises, rather than give a wrong gradient. This holds with respect
    to the gradients that it takes, the arguments of forward, and each tensor that requires grad and is saved, kept in
    an attribute of `ctx`, or used by an operation in it.

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
    if isinstance(backward, staticmethod):
        return staticmethod(once_differentiable(backward.__func__))  # type: ignore[return-value]
    if inspect.isclass(backward) or not callable(backward):
        raise ArgumentTypeError(
            f"once_differentiable marks a backward, not {describe(backward)}: write @ag.once_differentiable "
            "above `def backward(ctx, ...)`, and @staticmethod above that"
        )
    name = getattr(backward, "__qualname__", type(backward).__name__)
    if inspect.iscoroutinefunction(backward):

        @functools.wraps(backward)
        async def wrapper(ctx: Any, *grads: Any) -> Any:
            used_inputs = _DifferentiableInputs(grads)
            with watched_no_grad(used_inputs.watcher):
                result = await backward(ctx, *grads)
            return _guard_result(result, ctx, used_inputs, name)

    else:

        @functools.wraps(backward)
        def wrapper(ctx: Any, *grads: Any) -> Any:
            used_inputs = _DifferentiableInputs(grads)
            with watched_no_grad(used_inputs.watcher):
                result = backward(ctx, *grads)
            return _guard_result(result, ctx, used_inputs, name)

    return wrapper  # type: ignore[return-value]


def _guard_result(result: Any, ctx: Any, used_inputs: _DifferentiableInputs, name: str) -> Any:
    """Return the result of the backward called `name`; if recording is on, differentiating the result raises."""
    if not used_inputs.is_recorded:
        return result
    edges = [*map(gradient_edge, used_inputs.tensors), *(edges_of(ctx) if isinstance(ctx, FunctionContext) else ())]
    device = used_inputs.tensors[0]._device if used_inputs.tensors else None
    message = (
        f"{name} is marked once_differentiable, and its result was to be differentiated: "
        "remove the mark if its formula is made of differentiable functions"
    )
    grads, structure = flatten(result)
    return unflatten(structure, forbid_derivative(grads, edges, device, message))


@final
class _DifferentiableInputs(Watcher):
    """Collects the tensors that require grad among the gradients that a backward takes and those that it uses.

    Args:
        grads: the gradients that the backward takes, trees among them.
    """

    __slots__ = ("is_recorded", "tensors")

    def __init__(self, grads: Sequence[Any]) -> None:
        #: Whether recording is on around the backward, under `create_graph`.
        self.is_recorded = bool(GRAD_MODE.get())
        self.tensors: list[TensorBase] = []
        self.used(*leaves(grads))

    @property
    def watcher(self) -> Watcher | bool:
        """The watcher of operations in the backward: this object under `create_graph`, else False."""
        return self if self.is_recorded else False

    def in_backward(self) -> Watcher | bool:
        """Return this: the result depends on what the rules of a nested backward use."""
        return self

    def used(self, *values: Any) -> None:
        """Collect those that require grad."""
        if self.is_recorded:
            self.tensors += [value for value in values if isinstance(value, TensorBase) and value._requires_grad()]
