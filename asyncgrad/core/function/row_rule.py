"""One call of a Function's `backward_batch`, which answers for several rows of a batch of gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ...errors import InvalidGradientError
from ..arrays import values
from ..arrays.interception import on_device_of_arguments
from ..graph.naming import number_of
from ..settings.arguments import describe
from ..settings.awaiting import finish

__all__ = ["answer_rows"]


class RowRule(Protocol):
    """The node of a Function with a `backward_batch`."""

    @property
    def name(self) -> str:
        """The name that errors show."""

    @property
    def sequence_nr(self) -> int:
        """The number of the node."""

    def answer_batch(self, tensors: Sequence[Any]) -> Any:
        """Return what `backward_batch` does."""

    def check_batch(self, result: Any) -> tuple[Any, ...]:
        """Check what it returned; return the gradients of the tensor arguments."""


async def answer_rows(node: RowRule, rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Return the gradients of the tensor arguments for each row; suspends where the rule does.

    Args:
        node: the node.
        rows: for each row, the gradients of the leaves of the outputs.

    Raises:
        InvalidGradientError: what the rule returned has not one gradient for each argument, or not one for each row.
    """
    stacked = [values.wrap(_stack(column), _device_of(column)) for column in zip(*rows, strict=True)]
    result = node.answer_batch(stacked)
    del stacked
    found = [values.raw(grad) for grad in node.check_batch(await finish(result))]
    for grad in found:
        if grad is not None and np.shape(grad)[:1] != (len(rows),):
            raise InvalidGradientError(
                f"the backward_batch of {node.name} ({number_of(node)}) returned {describe(grad)} for "
                f"{values.counted(len(rows), 'row')}: return gradients whose first axis has one entry for each row, "
                "as those that it takes have"
            )
    return list(zip(*(_each_row(grad, len(rows)) for grad in found), strict=True))


def _each_row(grad: Any, count: int) -> list[Any]:
    if grad.__class__ is np.ndarray:
        return list(grad)
    return [None if grad is None else grad[row] for row in range(count)]


@on_device_of_arguments
def _stack(column: Sequence[Any]) -> Any:
    """Return the gradients of one output as one array, with zeros for those that are undefined; None if all are."""
    arrays = [values.raw(grad) for grad in column]
    like = next((array for array in arrays if array is not None), None)
    if like is None:
        return None
    return np.stack([np.zeros_like(like) if array is None else array for array in arrays])


def _device_of(column: Sequence[Any]) -> Any:
    return next((grad._device for grad in column if grad is not None), None)
