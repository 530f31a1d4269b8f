"""InputMetadata, and the check of what a node returned against it.

Broadcasting, dtype and device are settled here, once, after a node has run, so that no derivative rule
need think of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import GradientTypeError, InvalidGradientError
from . import values
from .naming import identify, number_of

if TYPE_CHECKING:
    from .node import Node

__all__ = ["InputMetadata", "conform", "fit"]


class InputMetadata(NamedTuple):
    """What the gradient of one forward output must look like.

    Made without arguments it stands for an output that has no gradient, being no tensor, or an integer one.

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


def fit(value: Any, metadata: InputMetadata) -> Any:
    """Return `value` as a gradient that `metadata` accepts, or a sentence on why it cannot be one.

    The sentence is a `str`, which no gradient is.
    """
    if not hasattr(value, "dtype"):
        return f"{values.describe(value)}, which is no array"
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


def conform(producer: Node, index: int, consumer: Node, input_nr: int, value: Any) -> Any:
    """Return gradient `index` of `producer` as input `input_nr` of `consumer` takes it.

    Sums over broadcast axes (never expands) and casts the dtype.

    Raises:
        InvalidGradientError: its shape or dtype cannot be that of the forward input.
        GradientTypeError: it is no array at all.

    Source: validate_outputs of PyTorch's engine.
    """
    is_array = value.__class__ is np.ndarray
    # Nearly every one, without making a metadata for it. (Where a slot has no gradient the node has no dtype.)
    if is_array and consumer.special is None and value.shape == consumer.shape and value.dtype is consumer.dtype:
        return value
    metadata = consumer.input_metadata[input_nr]
    if metadata is None or (is_array and value.shape == metadata.shape and value.dtype is metadata.dtype):
        return value
    if not is_array:
        values.refuse_masked(value)
    if isinstance(value, (int, float, complex)) and not metadata.was_default_constructed:
        value = values.number(value, metadata.dtype, metadata.device)
    fitted = fit(value, metadata)
    if not isinstance(fitted, str):
        return fitted
    if metadata.was_default_constructed:
        raise InvalidGradientError(
            f"{identify(producer)} returned {values.describe(value)} for input {index}, "
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
