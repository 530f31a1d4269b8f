"""What CodeGenerator writes with: lines of source, local variables, the gradients in them, and guards."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, final

from ...arrays.values import add, add_into, sum_to
from ...graph.body_signals import OffloadSignal
from ...graph.leaf import AccumulateGrad
from ...graph.metadata import conform
from ...settings.source import SourceWriter
from ..body import run_here
from ..device import needs_engine
from .calls import capture_at, run_measured, run_node_task, should_offload
from .program import GuardFailed, LineKind, ProgramPoint, Slot, SourceMapEntry, pause

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .trace import LeafSpec, Op

__all__ = [
    "GradLocals",
    "CARRIED",
    "MAX_COMPARED_LEAVES",
    "LocalAllocator",
    "SourceBuilder",
    "leaf_guards",
    "limits_guards",
    "node_guards",
    "write_results",
]


@final
class LocalAllocator:
    """Allocates the names of local variables by their first letter; the name released last is allocated first."""

    __slots__ = ("_free", "_made")

    def __init__(self) -> None:
        self._free: dict[str, list[str]] = {}
        self._made: dict[str, int] = {}

    def allocate(self, letter: str) -> str:
        """Return a name whose variable holds nothing that is needed."""
        free = self._free.setdefault(letter, [])
        if free:
            name = free.pop()
        else:
            number = self._made.get(letter, 0)
            self._made[letter] = number + 1
            name = f"{letter}{number}"
        return name

    def free_names(self) -> list[str]:
        """Return the released names; their variables may still hold their last values."""
        return sorted(name for free in self._free.values() for name in free)

    def release(self, name: str) -> None:
        """Make a name free whose value is not needed any more."""
        self._free[name[0]].append(name)


#: The point at which a gradient arrives that an earlier segment passes on.
CARRIED: ProgramPoint = (-1, 0)


@final
class GradLocals:
    """The local variables that hold the gradients of the inputs of one node.

    Args:
        inputs: the number of inputs.
        letter: the first letter of the variables.
        adds_by_function: whether sums are calls of functions, which use the kernel of a device, and not operators.
    """

    __slots__ = ("_adds_by_function", "_first", "_owned", "letter", "names")

    def __init__(self, inputs: int, letter: str, adds_by_function: bool) -> None:
        self.letter: str = letter
        self._adds_by_function = adds_by_function
        #: By input; None where no gradient is expected yet.
        self.names: list[str | None] = [None] * inputs
        self._first: list[ProgramPoint | None] = [None] * inputs
        self._owned: list[ProgramPoint | None] = [None] * inputs

    def expect(self, input_nr: int, names: LocalAllocator) -> str | None:
        """Return a new name for the first gradient of an input; None if the input has a name already."""
        if self.names[input_nr] is not None:
            return None
        name = self.names[input_nr] = names.allocate(self.letter)
        return name

    def arrive(self, input_nr: int, value: str, point: ProgramPoint) -> str | None:
        """Add the gradient named `value` to an input; return the line that does so, None if none is needed."""
        name = self.names[input_nr]
        assert name is not None
        if self._first[input_nr] is None:
            self._first[input_nr] = point
            return None if value == name else f"{name} = {value}"
        if self._owned[input_nr] is not None:
            return f"{name} = add_into({name}, {value})" if self._adds_by_function else f"{name} += {value}"
        self._owned[input_nr] = point
        return f"{name} = add({name}, {value})" if self._adds_by_function else f"{name} = {name} + {value}"

    def owned_sum(self, input_nr: int) -> str | None:
        """Return the name of the sum of an input, if that is an array which may be written into; else None."""
        return None if self._owned[input_nr] is None else self.names[input_nr]

    def name_of_first(self, input_nr: int) -> str | None:
        """Return the name for the first gradient of an input; None if that gradient has arrived."""
        return self.names[input_nr] if self._first[input_nr] is None else None

    def arrived(self) -> list[str]:
        """Return the names of the gradients that have arrived."""
        pairs = zip(self.names, self._first, strict=True)
        return [name for name, first in pairs if name is not None and first is not None]

    def rename(self, names: LocalAllocator) -> None:
        """Give new names to the gradients that have arrived, at the beginning of another segment."""
        for input_nr, first in enumerate(self._first):
            if first is not None:
                self.names[input_nr] = names.allocate(self.letter)
                self._first[input_nr] = CARRIED
                self._owned[input_nr] = None if self._owned[input_nr] is None else CARRIED

    def slots(self) -> tuple[Slot | None, ...]:
        """Return the slot of each input; None where no gradient has arrived."""
        return tuple(
            None if name is None or first is None else Slot(name, first, owned)
            for name, first, owned in zip(self.names, self._first, self._owned, strict=True)
        )


_PLACEHOLDER = re.compile(r"\$(\w+)")
#: The local variables and parameters of compiled functions.
_LOCAL = re.compile(
    r"[nghstlx]\d+|_|task|clock|deadline|limits|captured|whole|leaves|left|grads|state|base|segments|segment\d+|backward"
)


@final
class SourceBuilder:
    """The source of a compiled backward, as it is written: the source-map entry of each line, beside the lines."""

    __slots__ = ("op", "source_map", "writer")

    def __init__(self) -> None:
        #: Has the lines, and the constants that they use.
        self.writer: SourceWriter = SourceWriter(
            {
                "AccumulateGrad": AccumulateGrad,
                "GuardFailed": GuardFailed,
                "add": add,
                "add_into": add_into,
                "OffloadSignal": OffloadSignal,
                "capture_at": capture_at,
                "run_node_task": run_node_task,
                "conform": conform,
                "needs_engine": needs_engine,
                "should_offload": should_offload,
                "pause": pause,
                "run_here": run_here,
                "run_measured": run_measured,
                "sum_to": sum_to,
            }
        )
        #: By line; None for a line that cannot raise.
        self.source_map: list[SourceMapEntry | None] = []
        #: The op that is being written, counted from the first of its segment.
        self.op: int = 0

    def constant(self, name: str, value: Any) -> str:
        """Return the name of a constant, one for each object: `name`, or one derived from it."""
        return self.writer.constant(name, value, _LOCAL.fullmatch)

    def dtype(self, dtype: Any) -> str:
        """Return the name of a dtype."""
        return self.constant(str(dtype), dtype)

    def fill(self, source: str, names: Mapping[str, str], constants: Mapping[str, Any]) -> str:
        """Return source in which each placeholder is replaced by a name of `names`, or by that of a constant."""

        def name_of(match: re.Match[str]) -> str:
            key = match[1]
            known = names.get(key)
            return self.constant(re.sub(r"^c\d+_", "", key), constants[key]) if known is None else known

        return _PLACEHOLDER.sub(name_of, source)

    def emit(self, line: str, kind: LineKind | None = None, edge: int = -1, leaf: int = -1) -> None:
        """Add a line to the function."""
        self.writer.write(line)
        self.source_map.append(None if kind is None else SourceMapEntry(self.op, kind, edge, leaf))

    def emit_comment(self, comment: str) -> None:
        """Add a comment; it stays in one line, whatever characters it has."""
        self.emit(f"# {comment if comment.isprintable() else ascii(comment)}")

    def emit_head(self, head: str) -> None:
        """Begin a function; `head` is its first line, without the colon."""
        self.writer.begin(head)
        self.source_map.append(None)

    def truncate(self, length: int) -> None:
        """Remove the lines from number `length` on."""
        self.writer.truncate(length)
        del self.source_map[length:]


def write_results(text: SourceBuilder, op: Op, names: dict[str, str], values: Sequence[str | None]) -> None:
    """Write the lines that compute the gradients of an op.

    Args:
        text: the source to write to.
        op: the op.
        names: the names that replace the placeholders of its body.
        values: for each edge the name of its gradient; None where none is wanted.
    """
    body = op.body
    assert body is not None
    results, constants = body.results, body.constants
    if isinstance(results, str):
        variables = ", ".join(value or "_" for value in values)
        text.emit(f"{variables}{',' * (len(values) == 1)} = {text.fill(results, names, constants)}", LineKind.BODY)
        return
    for value, source in zip(values, results, strict=True):
        # An op that returns its own gradient needs no line: the gradient keeps its name.
        if value is not None and source != "$g":
            assert source is not None
            text.emit(f"{value} = {text.fill(source, names, constants)}", LineKind.BODY)


#: Up to this number of leaves are compared one by one; more are kept in a set.
MAX_COMPARED_LEAVES = 8


def node_guards(text: SourceBuilder, name: str, op: Op, before: str, after: str | None) -> list[str]:
    """Return the guards of a node: expressions that are true if it is not like an op of the trace.

    Args:
        text: the source, which names constants.
        name: the local variable of the node.
        op: the op.
        before: the variable of the node that runs just before it, of those that have been reached.
        after: the variable of the one that runs just after it; None if there is none.
    """
    guards = []
    body = op.body
    if op.runs_node_task:
        guards.append(f"{name}.meta is None")
        guards.append(f"{name}.meta.stream is not None")
        if op.runs_body:
            guards += _class_guards(text, name, op)
    elif body is not None:
        guards += [text.fill(guard, {"node": name}, body.constants) for guard in body.guards]
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
    # A plan is compared where there is one, since its nodes may be of several classes.
    kind = op.token[0]
    if kind is op.node_class:
        guard = f"{name}.__class__ is not {text.constant(kind.__name__, kind)}"
    else:
        guard = f"{name}.plan is not {text.constant(f'plan_of_{op.name}', kind)}"
    return [guard, f"len({name}.next_nodes) != {len(op.targets)}"]


def leaf_guards(text: SourceBuilder, name: str, leaf: LeafSpec, others: list[str] | None, may_move: bool) -> list[str]:
    """Return the guards of an AccumulateGrad: expressions that are true if it is not like a leaf of the trace.

    Args:
        text: the source, which names constants.
        name: the local variable of the AccumulateGrad.
        leaf: the leaf of the trace.
        others: the variables of the leaves that were reached before and are not in the set of leaves; None if the
            function counts the edges to each leaf.
        may_move: whether the leaf may be on another device than the node before it.
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
        guards.append(f"needs_engine({name}.device)")
    if others is None:
        # The function removes a leaf from `left` when it reaches it, so a second visit gives 0 and fails.
        guards.append(f"left.pop({name}, 0) != {leaf.edges}")
    else:
        guards += [f"{name} is {other}" for other in others]
    return guards + limits_guards(text, name, leaf.limits)


def limits_guards(text: SourceBuilder, name: str, limits: Any) -> list[str]:
    """Return guards that are true if a backward with `inputs` treats a node in another way than in the trace."""
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
