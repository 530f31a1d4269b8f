"""What is compared between a forward and its recomputation, and the report where they differ."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple, final

from ..errors import CheckpointError
from ..graph.node import LEAF_ORDER
from ..graph.values import counted

if TYPE_CHECKING:
    from types import FrameType

    from ..graph.node import Node
    from .recomputed import Frame

__all__ = ["Noted", "Operations", "mismatch", "too_few", "too_many"]

#: How many differences a report shows.
SHOWN = 10


class Noted(NamedTuple):
    """What a saved tensor looked like, and the name of the node that saved it."""

    shape: tuple[int, ...]
    dtype: Any
    device: Any
    owner: str

    @classmethod
    def of(cls, node: Node, tensor: Any) -> Noted:
        """Note a tensor that `node` saves."""
        data = tensor._data
        return cls(data.shape, data.dtype, tensor._device, node.name)

    def is_like(self, other: Noted) -> bool:
        """Tell whether one may stand for the other."""
        return self == other

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)} on '{self.device}', saved by {self.owner}"


@final
class Operations:
    """The operations that were recorded, each with the line of the user's that called it."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: list[str] = []

    def note(self, node: Node) -> None:
        """Add the operation that made a node."""
        if node.order == LEAF_ORDER:
            # Made once for each leaf, whoever uses that first.
            return
        looks = ", ".join(
            f"{metadata.dtype}{list(metadata.shape)}" for metadata in node.input_metadata if metadata is not None
        )
        self._lines.append(f"{node.name} {looks}".rstrip() + f"  {_line_of_the_user()}")

    def beside(self, again: Operations) -> str:
        """Return both, line by line, with a mark where they differ; lines of code count as a difference, too."""
        lines = []
        for number, (one, two) in enumerate(zip_longest(self._lines, again._lines, fillvalue="nothing"), 1):
            if one == two:
                lines.append(f"    {number}. {one}")
            else:
                lines += [f"  - {number}. {one}", f"  + {number}. {two}"]
        return "\n".join(lines)


def _line_of_the_user() -> str:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name != "asyncgrad" and not name.startswith("asyncgrad."):
            return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
        frame = frame.f_back
    return "of no line of yours"


def too_few(frame: Frame, count: int, again: Operations | None) -> CheckpointError:
    """Return the error for a recomputation that saved less than the forward."""
    lacking = frame.noted[count]
    return _error(
        frame,
        f"saved {counted(len(frame.noted), 'tensor')} in the forward and {counted(count, 'tensor')} when it was called "
        f"again; number {count} in the forward was {lacking}",
        again,
    )


def too_many(frame: Frame, count: int, again: Operations | None) -> CheckpointError:
    """Return the error for a recomputation that saved more than the forward."""
    return _error(
        frame,
        f"saved {counted(len(frame.noted), 'tensor')} in the forward and {counted(count, 'tensor')} when it was called "
        "again",
        again,
    )


def mismatch(
    frame: Frame, differences: Sequence[tuple[int, Noted, Noted]], again: Operations | None
) -> CheckpointError:
    """Return the error for a recomputation that saved other tensors than the forward."""
    lines = [
        f"\n  tensor {index}: {before} in the forward\n  {' ' * len(f'tensor {index}')}  {after} when called again"
        for index, before, after in differences[:SHOWN]
    ]
    if len(differences) > SHOWN:
        lines.append(f"\n  and {len(differences) - SHOWN} more")
    return _error(frame, f"saved other tensors when it was called again than in the forward:{''.join(lines)}", again)


def _error(frame: Frame, what: str, again: Operations | None) -> CheckpointError:
    hint = "pass debug=True to ag.checkpoint to see the operations of both"
    if frame.operations is not None and again is not None:
        hint = (
            "the operations of the forward (-) and of the recomputation (+), where they differ:\n"
            f"{frame.operations.beside(again)}"
        )
    return CheckpointError(
        f"{frame.name} is checkpointed and {what}.\nA checkpointed function must do the same each time: it may not "
        "hang on state that changes, on the time, or on a random stream that ag.checkpoint does not know (name it by "
        f"generators=[...]).\n{hint}"
    )
