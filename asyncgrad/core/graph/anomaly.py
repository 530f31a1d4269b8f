"""Anomaly mode: where in the forward each node was made, and the search for NaN in gradients."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, final
from weakref import WeakValueDictionary

from ...errors import AnomalyError, ArgumentTypeError
from ..arrays.values import has_nan
from ..settings.arguments import describe, must_be, truth
from ..settings.callers import is_own_file
from ..settings.context import ANOMALY, CURRENT_NODE, Mode
from .creation import observe_nodes
from .naming import identify, place_of

if TYPE_CHECKING:
    from .node import Node

__all__ = ["Anomaly", "CreationStack", "check_nan", "detect_anomaly", "forward_notes", "line_of"]

#: Keys of a node's metadata: its creation stack, and its parent, the node whose backward made it.
STACK, PARENT = "traceback_", "parent_"


@final
class CreationStack(Sequence[str]):
    """The call stack at a node's creation, outermost call first, without asyncgrad's own frames.

    It holds code objects and line numbers, not frames, and formats them as a traceback does when an item is read.

    Args:
        codes: the code object of each frame, outermost first.
        lines: the current line number of each frame.
    """

    __slots__ = ("__weakref__", "_codes", "_lines")

    def __init__(self, codes: Sequence[CodeType], lines: Sequence[int]) -> None:
        self._codes = tuple(codes)
        self._lines = tuple(lines)

    def __len__(self) -> int:
        return len(self._codes)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(len(self)))]
        code = self._codes[index]
        (text,) = traceback.format_list([(code.co_filename, self._lines[index], code.co_name, None)])
        return text

    def innermost(self) -> str:
        """Return the last line, as `file:line, in function`."""
        code = self._codes[-1]
        return f"{code.co_filename}:{self._lines[-1]}, in {code.co_name}"

    def __str__(self) -> str:
        return "".join(self)


def _user_frames(frame: FrameType | None) -> tuple[list[CodeType], list[int]]:
    """Return the code objects and line numbers of `frame` and its callers, outermost first, without asyncgrad's own."""
    codes: list[CodeType] = []
    lines: list[int] = []
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith("asyncgrad.") and name != "asyncgrad":
            codes.append(frame.f_code)
            lines.append(frame.f_lineno or 0)
        frame = frame.f_back
    return codes[::-1], lines[::-1]


@final
class Anomaly:
    """The state of anomaly mode in one context.

    Args:
        check_nan: whether a backward searches the gradients that nodes return for NaN.
    """

    __slots__ = ("_stacks", "check_nan")

    def __init__(self, check_nan: bool) -> None:
        self.check_nan: bool = check_nan
        #: The stacks that nodes hold. Nodes made at one place share a stack, since a loop makes many of them. The key
        #: may hold ids of code objects because the stack keeps those objects alive.
        self._stacks: WeakValueDictionary[tuple[int, ...], CreationStack] = WeakValueDictionary()

    def note(self, node: Node) -> None:
        """Store the creation stack and the parent of a new node in its metadata."""
        codes, lines = _user_frames(sys._getframe(1))
        key = (*map(id, codes), *lines)
        stack = self._stacks.get(key)
        if stack is None:
            stack = self._stacks[key] = CreationStack(codes, lines)
        # Only the child refers to its parent, so there is no reference cycle.
        node.metadata.update({STACK: stack, PARENT: CURRENT_NODE.get()})


@final
class detect_anomaly(Mode):
    """Inside, a failing backward names the forward line that made the failing node, and a NaN gradient is an error.

    It costs time and memory, so use it for debugging: each operation keeps its call stack, and the gradients that
    each node returns are searched. It is a context manager, and a decorator of functions, generators and their async
    kinds, and holds for the current context only. Put both forward and backward inside: a node that was made outside
    has no stack to show.

    Args:
        check_nan: whether a NaN in a gradient that a node returns raises AnomalyError.

    Source: torch.autograd.detect_anomaly.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> x = ag.tensor(0.0, requires_grad=True)
        >>> with ag.detect_anomaly(), np.errstate(all="ignore"):
        ...     try:
        ...         ag.sync.backward(np.sqrt(x) * 0.0)
        ...     except RuntimeError as error:
        ...         print(str(error).partition(" (")[0])
        SqrtBackward
    """

    __slots__ = ("_anomaly",)

    def __init__(self, check_nan: bool = True) -> None:
        if callable(check_nan):
            raise ArgumentTypeError(must_be("check_nan", "True or False", check_nan, "write @ag.detect_anomaly()"))
        self._anomaly = Anomaly(truth(check_nan, "check_nan"))

    def _get(self) -> Any:
        return ANOMALY.get()

    def _set(self, value: Any, /) -> None:
        ANOMALY.set(value)
        observe_nodes()

    def _value(self) -> Any:
        return self._anomaly

    def _clone(self) -> Mode:
        return detect_anomaly(self._anomaly.check_nan)


def forward_notes(node: Node) -> list[str]:
    """Return notes that locate the forward call of a node and of each ancestor whose backward made it.

    Returns:
        A text for the node, then one for each of its ancestors, nearest first.

    Source: AnomalyMetadata::print_stack of PyTorch.
    """
    stack = _get_note(node, STACK)
    notes = [f"the forward call of {identify(node)} was {_describe_stack(stack, None)}"]
    while (parent := _get_note(node, PARENT)) is not None:
        before, stack = stack, _get_note(parent, STACK)
        made = f"{identify(node)} was made in the backward of {identify(parent)}"
        notes.append(f"{made}, whose forward call was {_describe_stack(stack, before)}")
        node = parent
    return notes


def line_of(node: Node) -> str | None:
    """Return the line of a node's forward call, or else that of a body that the user wrote; None if neither is known.

    The line of the forward call is known if it ran in anomaly mode.
    """
    stack = _get_note(node, STACK)
    if stack:
        return f"forward at {stack.innermost()}"
    function = getattr(node, "function", None)
    for body in (getattr(function, "backward", None), getattr(function, "vjp", None), type(node).apply):
        code = getattr(inspect.unwrap(body), "__code__", None) if callable(body) else None
        if code is not None and not is_own_file(code.co_filename):
            return f"defined at {code.co_filename}:{code.co_firstlineno}"
    return None


def _describe_stack(stack: CreationStack | None, told: CreationStack | None) -> str:
    """Describe the stack of a forward call; say only "at the same place" if the note before `told` the same stack."""
    if stack is None:
        return "outside of anomaly mode, so its line is unknown: run the forward under ag.detect_anomaly() too"
    return "at the same place" if stack is told else f"here:\n{stack}".rstrip()


def _get_note(node: Node, key: str) -> Any:
    meta = node.meta
    return None if meta is None or meta.metadata is None else meta.metadata.get(key)


def check_nan(node: Node, outputs: Sequence[Any]) -> None:
    """Raise if a gradient that `node` returned holds NaN.

    Raises:
        AnomalyError: names the node and the gradient.

    Source: PyTorch's engine, after the post-hooks.
    """
    for index, grad in enumerate(outputs):
        if grad is not None and has_nan(grad):
            raise AnomalyError(
                f"{node.name} ({place_of(node)}) returned NaN in gradient {index}, of "
                f"{len(outputs)}: {describe(grad)}. Look at what its forward call was given, or pass "
                "ag.detect_anomaly(check_nan=False) where NaN is meant"
            )
