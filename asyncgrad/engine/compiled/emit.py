"""The source of a compiled backward under way: its lines, its local names, where gradients are kept, its guards."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, final

from ...graph.cost import OffloadSignal
from ...graph.leaf import AccumulateGrad
from ...graph.metadata import conform
from ...graph.values import sum_to
from ..body import run_here
from ..device import needs_care
from .calls import captured_at, is_for_a_worker, run_measured, run_node_task
from .program import GuardFailed, LineKind, Place, Slot, SourceMapEntry, pause

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .trace import LeafPlace, Op

__all__ = [
    "GradLocals",
    "CARRIED",
    "FEW_LEAVES",
    "LocalAllocator",
    "SourceBuilder",
    "leaf_guards",
    "limits_guards",
    "node_guards",
    "write_results",
]


@final
class LocalAllocator:
    """Gives out names that begin with a letter; a name given back is the next to be given out."""

    __slots__ = ("_free", "_made")

    def __init__(self) -> None:
        self._free: dict[str, list[str]] = {}
        self._made: dict[str, int] = {}

    def take(self, letter: str) -> str:
        """Return a name that holds nothing."""
        free = self._free.setdefault(letter, [])
        if free:
            name = free.pop()
        else:
            number = self._made.get(letter, 0)
            self._made[letter] = number + 1
            name = f"{letter}{number}"
        return name

    def free(self) -> list[str]:
        """Return the names that hold nothing that is needed, and may still hold what they held last."""
        return sorted(name for free in self._free.values() for name in free)

    def give_back(self, name: str) -> None:
        """Take a name whose value is not needed any more."""
        self._free[name[0]].append(name)


#: When something has arrived that arrived before the segment that is being written.
CARRIED: Place = (-1, 0)


@final
class GradLocals:
    """The gradients that arrive at the inputs of one node."""

    __slots__ = ("_first", "_owned", "letter", "names")

    def __init__(self, inputs: int, letter: str) -> None:
        self.letter = letter
        #: By input; None where nothing has arrived.
        self.names: list[str | None] = [None] * inputs
        self._first: list[Place | None] = [None] * inputs
        self._owned: list[Place | None] = [None] * inputs

    def expect(self, input_nr: int, names: LocalAllocator) -> str | None:
        """Return a name for the first gradient to arrive at an input; None where one has arrived."""
        if self.names[input_nr] is not None:
            return None
        name = self.names[input_nr] = names.take(self.letter)
        return name

    def arrive(self, input_nr: int, value: str, place: Place) -> str | None:
        """Let the gradient named `value` arrive; return the line that does it, if it takes one."""
        name = self.names[input_nr]
        assert name is not None
        if self._first[input_nr] is None:
            self._first[input_nr] = place
            return None if value == name else f"{name} = {value}"
        if self._owned[input_nr] is not None:
            return f"{name} += {value}"
        self._owned[input_nr] = place
        return f"{name} = {name} + {value}"

    def name_of_first(self, input_nr: int) -> str | None:
        """Return the name that waits for the first gradient of an input; None where that has arrived."""
        return self.names[input_nr] if self._first[input_nr] is None else None

    def arrived(self) -> list[str]:
        """Return the names of what has arrived."""
        pairs = zip(self.names, self._first, strict=True)
        return [name for name, first in pairs if name is not None and first is not None]

    def rename(self, names: LocalAllocator) -> None:
        """Give new names to what has arrived, which is carried into another segment."""
        for input_nr, first in enumerate(self._first):
            if first is not None:
                self.names[input_nr] = names.take(self.letter)
                self._first[input_nr] = CARRIED
                self._owned[input_nr] = None if self._owned[input_nr] is None else CARRIED

    def slots(self) -> tuple[Slot | None, ...]:
        """Return where all that was kept."""
        return tuple(
            None if name is None or first is None else Slot(name, first, owned)
            for name, first, owned in zip(self.names, self._first, self._owned, strict=True)
        )


#: Python would take other letters for those that look like them.
_NOT_IN_NAMES = re.compile(r"^(?=\d|$)|\W", re.ASCII)
_PLACEHOLDER = re.compile(r"\$(\w+)")
#: What local names look like, and the parameters.
_LOCAL = re.compile(
    r"[nghstlx]\d+|_|task|clock|deadline|limits|captured|whole|leaves|left|grads|state|base|segments|segment\d+|backward"
)


@final
class SourceBuilder:
    """Lines of source, each with what an error in it means."""

    __slots__ = ("_constants", "_tuples", "lines", "namespace", "op", "text")

    def __init__(self) -> None:
        self.text: list[str] = []
        #: For each line what it belongs to; None for one in which nothing can go wrong.
        self.lines: list[SourceMapEntry | None] = []
        self.namespace: dict[str, Any] = {
            "AccumulateGrad": AccumulateGrad,
            "GuardFailed": GuardFailed,
            "OffloadSignal": OffloadSignal,
            "captured_at": captured_at,
            "run_node_task": run_node_task,
            "conform": conform,
            "needs_care": needs_care,
            "is_for_a_worker": is_for_a_worker,
            "pause": pause,
            "run_here": run_here,
            "run_measured": run_measured,
            "sum_to": sum_to,
        }
        self._constants = {id(value): name for name, value in self.namespace.items()}
        #: Equal ones count as one object.
        self._tuples: dict[Any, Any] = {}
        #: The op that is being written, counted from the first of its segment.
        self.op = 0

    def constant(self, name: str, value: Any) -> str:
        """Return the name of a constant, one for each object; `name` is what it is called if that is free.

        Classes and functions may be called anything at all, so only what is plain in a name is used of it.
        """
        if isinstance(value, tuple):
            value = self._tuples.setdefault(value, value)
        known = self._constants.get(id(value))
        if known is None:
            name = _NOT_IN_NAMES.sub("_", name)
            known, number = name, 1
            while not _is_free(known) or known in self.namespace:
                number += 1
                known = f"{name}_{number}"
            self._constants[id(value)] = known
            self.namespace[known] = value
        return known

    def dtype(self, dtype: Any) -> str:
        """Return the name of a dtype."""
        return self.constant(str(dtype), dtype)

    def filled(self, source: str, names: Mapping[str, str], constants: Mapping[str, Any]) -> str:
        """Return source with its placeholders filled in: by names, or by those of constants."""

        def name_of(match: re.Match[str]) -> str:
            key = match[1]
            known = names.get(key)
            return self.constant(re.sub(r"^c\d+_", "", key), constants[key]) if known is None else known

        return _PLACEHOLDER.sub(name_of, source)

    def emit(self, line: str, kind: LineKind | None = None, edge: int = -1, leaf: int = -1) -> None:
        """Add a line to the function."""
        self.text.append(f"    {line}")
        self.lines.append(None if kind is None else SourceMapEntry(self.op, kind, edge, leaf))

    def emit_comment(self, comment: str) -> None:
        """Add a comment, in one line whatever is in it."""
        self.emit(f"# {comment if comment.isprintable() else ascii(comment)}")

    def emit_head(self, line: str) -> None:
        """Add the line that begins a function."""
        self.text.append(line)
        self.lines.append(None)

    def shorten(self, length: int) -> None:
        """Take back the lines from number `length` on."""
        del self.text[length:], self.lines[length:]


def _is_free(name: str) -> bool:
    """Tell whether a name means nothing to Python, and is no local one."""
    return not (keyword.iskeyword(name) or hasattr(builtins, name) or _LOCAL.fullmatch(name))


def write_results(text: SourceBuilder, op: Op, names: dict[str, str], values: Sequence[str | None]) -> None:
    """Write what computes the gradients of an op.

    Args:
        text: where to.
        op: whose gradients.
        names: those of the op.
        values: for each edge the name of its gradient; None where none is wanted.
    """
    body = op.body
    assert body is not None
    results, constants = body.results, body.constants
    if isinstance(results, str):
        taken = ", ".join(value or "_" for value in values)
        text.emit(f"{taken}{',' * (len(values) == 1)} = {text.filled(results, names, constants)}", LineKind.BODY)
        return
    for value, source in zip(values, results, strict=True):
        # A gradient that is handed on keeps its name.
        if value is not None and source != "$g":
            assert source is not None
            text.emit(f"{value} = {text.filled(source, names, constants)}", LineKind.BODY)


#: Up to as many leaves are compared one by one; more are kept in a set.
FEW_LEAVES = 8


def node_guards(text: SourceBuilder, name: str, op: Op, before: str, after: str | None) -> list[str]:
    """Return what is true of a node that is not the expected one.

    Args:
        text: for the names of constants.
        name: of the node.
        op: what it is to be.
        before: the node that runs before it, of those that have been reached.
        after: the one that runs after it.
    """
    guards = []
    body = op.body
    if op.runs_node_task:
        guards.append(f"{name}.meta is None")
        guards.append(f"{name}.meta.stream is not None")
        if op.runs_body:
            guards += _class_guards(text, name, op)
    elif body is not None:
        guards += [text.filled(guard, {"node": name}, body.constants) for guard in body.guards]
        if not body.fixes_edges:
            guards += _class_guards(text, name, op)
    if not op.has_meta:
        guards.append(f"{name}.meta is not None")
    if op.shape is None:
        metadata = text.constant("metadata", op.metadata)
        guards += [f"{name}.shape is not None", f"{name}.input_metadata != {metadata}"]
    else:
        guards += [f"{name}.shape != {op.shape}", f"{name}.dtype is not {text.dtype(op.metadata[0].dtype)}"]  # type: ignore[union-attr]
    guards.append(f"{name}.order <= {before}.order")
    if after is not None:
        guards.append(f"{name}.order >= {after}.order")
    return guards + limits_guards(text, name, op.limits)


def _class_guards(text: SourceBuilder, name: str, op: Op) -> list[str]:
    # Nodes of one plan may be of several classes.
    kind = op.token[0]
    if kind is op.node_class:
        guard = f"{name}.__class__ is not {text.constant(kind.__name__, kind)}"
    else:
        guard = f"{name}.plan is not {text.constant(f'plan_of_{op.name}', kind)}"
    return [guard, f"len({name}.next_nodes) != {len(op.targets)}"]


def leaf_guards(text: SourceBuilder, name: str, leaf: LeafPlace, others: list[str] | None, may_move: bool) -> list[str]:
    """Return what is true of a node that is not the expected leaf's.

    Args:
        text: for the names of constants.
        name: of the node.
        leaf: what it is to be.
        others: leaves that have been met before, and are not in the set; None where all edges to leaves have been
            counted.
        may_move: whether it may be on another device than what comes before.
    """
    guards = [
        f"{name}.__class__ is not AccumulateGrad",
        f"{name}.meta is {'' if leaf.runs_node_task else 'not '}None",
        f"{name}.shape != {leaf.shape}",
        f"{name}.dtype is not {text.dtype(leaf.dtype)}",
    ]
    if leaf.runs_node_task:
        guards.append(f"{name}.meta.stream is not None")
    if leaf.runs_node_task or may_move:
        guards.append(f"needs_care({name}.device)")
    if others is None:
        # One that has been met is not there any more.
        guards.append(f"left.pop({name}, 0) != {leaf.edges}")
    else:
        guards += [f"{name} is {other}" for other in others]
    return guards + limits_guards(text, name, leaf.limits)


def limits_guards(text: SourceBuilder, name: str, limits: Any) -> list[str]:
    """Return what is true of a node that a backward with given inputs treats in another way than expected."""
    if limits is None:
        return []
    needed, captures = limits
    if needed and not captures:
        return [f"{name} not in whole and not limits.only_runs({name})"]
    return [
        f"{name} not in limits",
        f"limits[{name}].needed is not {needed}",
        f"limits[{name}].captures != {text.constant('captures', list(captures))}",
    ]
