"""Calling a node: its body alone, on gradients that the caller gives."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from ..context import is_grad_enabled
from ..errors import ArgumentTypeError, GradientTypeError, InvalidGradientError
from . import values
from .metadata import InputMetadata, conform, fit
from .naming import identify
from .tracked import Tracked

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from .node import Node

__all__ = ["call_node"]


def call_node(node: Node, grads: tuple[Any, ...]) -> Any:
    """Run the body of `node` on `grads`; return what `Node.__call__` does.

    The results are as the engine would hand them on: summed to the shapes and cast to the dtypes of the inputs.
    """
    inputs = node.input_metadata
    if len(grads) != len(inputs):
        raise ArgumentTypeError(
            f"{identify(node)} takes {values.counted(len(inputs), 'gradient')}, one for each output of its forward "
            f"call, and was given {len(grads)}: pass None where one is undefined"
        )
    recorded = is_grad_enabled()
    taken = [_taken(node, index, grad, inputs[index]) for index, grad in enumerate(grads)]
    result = node.apply(tuple(values.wrap(grad, node.device) if recorded else values.raw(grad) for grad in taken))
    return _awaited(node, result) if inspect.isawaitable(result) else _returned(node, result)


def _taken(node: Node, index: int, grad: Any, metadata: InputMetadata | None) -> Any:
    """Return a gradient as the body takes it, or raise."""
    if grad is None:
        return None
    where = f"gradient {index} of {identify(node)}"
    if not (isinstance(grad, Tracked) or (hasattr(grad, "dtype") and hasattr(grad, "shape"))):
        raise ArgumentTypeError(
            f"{where} must be a tensor, an array or None, not {values.describe(grad)}: write np.asarray(...)"
        )
    if metadata is None:
        return grad
    if metadata.was_default_constructed:
        raise InvalidGradientError(f"{where} belongs to an output that has none: pass None")
    fitted: Any = fit(grad, metadata) if grad.shape == metadata.shape else ""
    if isinstance(fitted, str) or (isinstance(grad, Tracked) and metadata.device not in (None, grad._device)):
        raise InvalidGradientError(
            f"{where} is {values.describe(grad)}, and the output that it belongs to has shape {metadata.shape}, dtype "
            f"{metadata.dtype} and device '{metadata.device}': pass one that fits"
        )
    return fitted


async def _awaited(node: Node, result: Awaitable[Any]) -> Any:
    return _returned(node, await result)


def _returned(node: Node, result: Any) -> Any:
    if not isinstance(result, (tuple, list)):
        raise GradientTypeError(
            f"{identify(node)} returned {values.describe(result)}: "
            "apply must return a tuple with a gradient for each input"
        )
    if len(result) != len(node.next_nodes):
        raise InvalidGradientError(
            f"{identify(node)} returned {values.counted(len(result), 'gradient')}, and has "
            f"{values.counted(len(node.next_nodes), 'edge')}: return one for each, None where there is none"
        )
    grads = []
    for index, (target, input_nr, grad) in enumerate(zip(node.next_nodes, node.input_nrs, result, strict=True)):
        fitting = grad
        if grad is not None and target is not None:
            fitting = conform(node, index, target, input_nr, grad)
        grads.append(values.wrap(fitting, node.device))
    return grads[0] if len(grads) == 1 else tuple(grads)
