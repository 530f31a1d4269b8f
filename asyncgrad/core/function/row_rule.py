"""One call of a Function's `backward_batch`, which answers for several rows of a batch of gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ...errors import InvalidGradientError
from ..arrays import values
from ..arrays.interception import on_device_of_arguments
from ..arrays.tensor_base import TensorBase
from ..graph.naming import number_of
from ..settings.arguments import describe
from ..settings.awaiting import finish
from ..settings.context import GRAD_MODE

__all__ = ["answer_rows", "stack_rows"]


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

    def check_batch(self, result: Any, given: Sequence[Any]) -> tuple[Any, ...]:
        """Check what it returned for the gradients `given`; return the gradients of the tensor arguments."""


async def answer_rows(node: RowRule, rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Return the gradients of the tensor arguments for each row; suspends where the rule does.

    Under `create_graph` all of it is recorded: that the rows become one array, the rule, and that it becomes rows.

    Args:
        node: the node.
        rows: for each row, the gradients of the leaves of the outputs, as tensors.

    Raises:
        InvalidGradientError: what the rule returned has not one gradient for each argument, or not one for each row.
    """
    recorded = bool(GRAD_MODE.get())
    stacked = [_stack(column, recorded) for column in zip(*rows, strict=True)]
    result = node.answer_batch(stacked)
    given = stacked if recorded else ()
    del stacked
    found = node.check_batch(await finish(result), given)
    if not recorded:
        found = tuple(map(values.raw, found))
    for grad in found:
        if grad is not None and np.shape(grad)[:1] != (len(rows),):
            raise InvalidGradientError(
                f"the backward_batch of {node.name} ({number_of(node)}) returned {describe(grad)} for "
                f"{values.counted(len(rows), 'row')}: return gradients whose first axis has one entry for each row, "
                "as those that it takes have"
            )
    return list(zip(*(_each_row(grad, len(rows)) for grad in found), strict=True))


def _each_row(grad: Any, count: int) -> list[Any]:
    # A tensor becomes rows by one node for all of them.
    may_iterate = grad.__class__ is np.ndarray or isinstance(grad, TensorBase)
    if may_iterate:
        return list(grad)
    return [None if grad is None else grad[row] for row in range(count)]


def _stack(column: Sequence[Any], recorded: bool) -> Any:
    """Return the gradients of one output as one tensor, with zeros for those that are undefined; None if all are."""
    like = next((grad for grad in column if grad is not None), None)
    if like is None or recorded:
        return stack_rows(column)
    return values.wrap(stack_rows([values.raw(grad) for grad in column]), like._device)


@on_device_of_arguments
def stack_rows(rows: Sequence[Any]) -> Any:
    """Return rows as one array or tensor, with zeros for those that are None; None if all are."""
    like = next((row for row in rows if row is not None), None)
    if like is None:
        return None
    return np.stack([np.zeros_like(like) if row is None else row for row in rows])
