"""InputMetadata, and the checks of the gradients that a node is given and of those that it returns.

Broadcasting and dtype are handled here, once, after a node has run, so that no derivative rule has to
handle them.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...errors import ArgumentTypeError, GradientTypeError, InvalidGradientError
from ..arrays import values
from ..arrays.tensor_base import TensorBase
from ..settings.arguments import describe, must_be
from ..settings.context import is_grad_enabled
from .naming import identify, number_of
from .value_metadata import ValueMetadata

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from .node_like import NodeLike

__all__ = ["InputMetadata", "call_node", "conform", "fit", "metadata_of", "no_tuple_error"]

#: Named here, since an attribute of a module takes twice as long to look up.
_ndarray = np.ndarray


class InputMetadata(NamedTuple):
    """What the gradient of one forward output must look like.

    Without arguments it stands for an output that has no gradient: a value that is no tensor, or an integer tensor.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
        >>> (x * 2).grad_fn.input_metadata[0].shape
        (2,)
    """

    shape: tuple[int, ...] = ()
    dtype: Any = None
    device: Any = None

    @property
    def was_default_constructed(self) -> bool:
        """Whether this is the slot of an output that has no gradient: only undefined gradients fit it."""
        return self.dtype is None


def metadata_of(tensor: TensorBase) -> InputMetadata | ValueMetadata:
    """Return what the gradient of a tensor, or of a value, must look like."""
    found: ValueMetadata | None = tensor._value_metadata
    return InputMetadata(tensor._data.shape, tensor._data.dtype, tensor._device) if found is None else found


def fit(value: Any, metadata: InputMetadata) -> Any:
    """Return `value` as a gradient that `metadata` accepts; or a `str` that says what it is, if it cannot be one."""
    if not hasattr(value, "dtype"):
        return f"{describe(value)}, which is no array"
    if metadata.was_default_constructed:
        return "a gradient where an output has none"
    if value.shape != metadata.shape:
        reduced = values.sum_to(value, metadata.shape)
        if reduced is None:
            return f"a gradient of shape {value.shape}"
        value = reduced
    if value.dtype != metadata.dtype:
        if value.dtype.kind not in "fciub":
            return f"a gradient of dtype {value.dtype}"
        value = values.cast(value, metadata.dtype)
    return value


def conform(producer: NodeLike, index: int, consumer: NodeLike, input_nr: int, value: Any) -> Any:
    """Return gradient `index` of `producer` as input `input_nr` of `consumer` takes it.

    Sums over broadcast axes (never expands) and casts the dtype.

    Raises:
        InvalidGradientError: its shape or dtype cannot be that of the forward input.
        GradientTypeError: it is no array at all.

    Source: validate_outputs of PyTorch's engine.
    """
    is_array = value.__class__ is _ndarray
    # Nearly every gradient fits as it is. Test that without making an InputMetadata. (A node whose slot has no gradient
    # has no dtype.)
    if (
        consumer.meta is None
        and (is_array or values.is_device_array(value))
        and value.shape == consumer.shape
        and value.dtype is consumer.dtype
    ):
        return value
    metadata = consumer.input_metadata[input_nr]
    if isinstance(metadata, ValueMetadata):
        to = metadata.type.name
        return metadata.take(value, lambda it: f"{identify(producer)} returned {it} for input {index}, a {to}")
    if metadata is None or (is_array and value.shape == metadata.shape and value.dtype is metadata.dtype):
        return value
    if not is_array:
        values.refuse_masked(value)
        if isinstance(value, np.matrix):
            # A sum of it, or another shape, would still have two axes.
            value = np.asarray(value)
    if isinstance(value, (int, float, complex)) and not metadata.was_default_constructed:
        value = values.scalar(value, metadata.dtype, metadata.device)
    fitted = fit(value, metadata)
    if not isinstance(fitted, str):
        return fitted
    if metadata.was_default_constructed:
        raise InvalidGradientError(
            f"{identify(producer)} returned {describe(value)} for input {index}, "
            f"which leads to input {input_nr} of {consumer.name}, the slot of an output that has no gradient: "
            "return None"
        )
    error = InvalidGradientError if hasattr(value, "dtype") else GradientTypeError
    transposed = getattr(value, "shape", None) == metadata.shape[::-1] and len(metadata.shape) > 1
    raise error(
        f"{producer.name} returned {fitted} for input {index}, "
        f"which has shape {metadata.shape} and dtype {metadata.dtype}. "
        f"{number_of(producer).capitalize()}, device '{producer.device}'."
        + (" Did the rule forget a transpose?" if transposed else "")
    )


def call_node(node: NodeLike, grads: tuple[Any, ...]) -> Any:
    """Run the body of `node` on `grads`, for `Node.__call__`.

    As in the engine, the results are summed to the shapes and cast to the dtypes of the inputs.
    """
    inputs = node.input_metadata
    if len(grads) != len(inputs):
        raise ArgumentTypeError(
            f"{identify(node)} takes {values.counted(len(inputs), 'gradient')}, one for each output of its forward "
            f"call, and was given {len(grads)}: pass None where one is undefined"
        )
    recorded = is_grad_enabled()
    taken = [_fit_argument(node, index, grad, inputs[index]) for index, grad in enumerate(grads)]
    result = node.apply(
        tuple(
            grad
            if isinstance(slot, ValueMetadata)
            else values.wrap(grad, node.device)
            if recorded
            else values.raw(grad)
            for grad, slot in zip(taken, inputs, strict=True)
        )
    )
    return _await_result(node, result) if inspect.isawaitable(result) else _wrap_result(node, result)


def _fit_argument(node: NodeLike, index: int, grad: Any, metadata: InputMetadata | None) -> Any:
    """Return a gradient in the dtype that the body takes; raise if it does not fit."""
    if grad is None:
        return None
    where = f"gradient {index} of {identify(node)}"
    if isinstance(metadata, ValueMetadata):
        held = metadata.take(grad, lambda it: f"{where} is {it}")
        return None if held is None else held.gradient
    if not (isinstance(grad, TensorBase) or (hasattr(grad, "dtype") and hasattr(grad, "shape"))):
        raise ArgumentTypeError(must_be(where, "a tensor, an array or None", grad, "write np.asarray(...)"))
    if metadata is None:
        return grad
    if metadata.was_default_constructed:
        raise InvalidGradientError(f"{where} belongs to an output that has none: pass None")
    fitted: Any = fit(grad, metadata) if grad.shape == metadata.shape else ""
    if isinstance(fitted, str) or (isinstance(grad, TensorBase) and metadata.device not in (None, grad._device)):
        raise InvalidGradientError(
            f"{where} is {describe(grad)}, and the output that it belongs to has shape {metadata.shape}, dtype "
            f"{metadata.dtype} and device '{metadata.device}': pass one that fits"
        )
    return fitted


def no_tuple_error(node: NodeLike, result: Any) -> GradientTypeError:
    """Return the error for a body that did not return a tuple."""
    return GradientTypeError(
        f"{identify(node)} returned {describe(result)}: apply must return a tuple with a gradient for each input"
    )


async def _await_result(node: NodeLike, result: Awaitable[Any]) -> Any:
    return _wrap_result(node, await result)


def _wrap_result(node: NodeLike, result: Any) -> Any:
    if not isinstance(result, (tuple, list)):
        raise no_tuple_error(node, result)
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
