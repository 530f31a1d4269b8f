"""What is remembered of graphs: how often each was seen, its functions, and what tells it from others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, final

from ...graph.node import LEAF_ORDER
from .description import token_of
from .gathering import MOST_NODES

if TYPE_CHECKING:
    from ...graph.node import Node
    from ..exec_info import ExecInfos
    from .description import Description
    from .program import Program

__all__ = ["Family", "State", "sketch_of"]

#: Nodes in a sketch, the root included.
SKETCHED = 3
#: Places that a sketch may have beside them, and how many edges may lead there.
MOST_PATHS = 4
LONGEST_PATH = 64


@final
class State:
    """What is known of the graphs of one sketch."""

    __slots__ = ("description", "is_busy", "misfits", "programs", "seen", "skipped", "strangers")

    def __init__(self) -> None:
        #: Descriptions and their functions, the one that fitted last in front.
        self.programs: list[tuple[Description, Program]] = []
        #: How often in a row the same graph has been seen, and no function run.
        self.seen = 0
        #: Of the last of them, if that was walked through.
        self.description: Description | None = None
        #: How badly the function in front has fitted of late: see MISFIT.
        self.misfits = 0
        #: How many walks in a row have found a graph that was not the one before; and backward passes since the last.
        self.strangers = 0
        self.skipped = 0
        #: Whether a backward walks through its graph, or compiles it; another one does not, meanwhile.
        self.is_busy = False


@final
class Family:
    """The states of graphs with one root; where `paths` lead tells them apart, and perhaps how long they are."""

    __slots__ = ("measures_length", "only", "paths", "states")

    def __init__(self) -> None:
        self.paths: list[tuple[int, ...]] = []
        self.measures_length = False
        #: The one state while there is no path.
        self.only = State()
        self.states: dict[Any, State] = {(): self.only}

    def state_of(self, root: Node, limits: ExecInfos | None) -> State:
        """Return the state of a graph, made now if it is the first of its kind."""
        if not self.paths and not self.measures_length:
            return self.only
        return self._state_at(self._key(partial(_token_at, root), partial(_length, root, limits)))

    def state_for(self, description: Description) -> State:
        """Return the state of the graphs that a description is of."""
        return self._state_at(self._key(description.token_at, lambda: description.length))

    def _state_at(self, key: tuple[Any, ...]) -> State:
        state = self.states.get(key)
        if state is None:
            state = self.states[key] = State()
        return state

    def learn(self, description: Description, step: int) -> None:
        """Tell graphs apart by what follows a step of `description`, too."""
        if self.measures_length and len(self.paths) >= MOST_PATHS:
            return
        to_step = description.path_to(step)
        if len(to_step) >= LONGEST_PATH:
            self._measure_length()
        if len(self.paths) >= MOST_PATHS:
            return
        paths = [(*to_step, edge) for edge, target in enumerate(description.steps[step].targets) if target is not None]
        new = [path for path in paths if path not in self.paths and len(path) <= LONGEST_PATH]
        if not new:
            return
        self.paths += new[: MOST_PATHS - len(self.paths)]
        self._sort_anew()

    def measure_length(self, one: Description, other: Description) -> bool:
        """Tell graphs apart by their lengths from now on, if these two differ in it; tell whether that is new.

        Those of a recurrent network do, whose sequences are not all of one length.
        """
        if self.measures_length or one.length == other.length:
            return False
        self._measure_length()
        return True

    def _measure_length(self) -> None:
        if not self.measures_length:
            self.measures_length = True
            self._sort_anew()

    def _key(self, token_at: Callable[[tuple[int, ...]], Any], length: Callable[[], int]) -> tuple[Any, ...]:
        tokens = tuple([token_at(path) for path in self.paths])
        return (length(), *tokens) if self.measures_length else tokens

    def _sort_anew(self) -> None:
        states, self.states = self.states, {}
        for state in states.values():
            for described, program in state.programs:
                self.state_for(described).programs.append((described, program))


def _length(node: Any, limits: ExecInfos | None) -> int:
    """Return how many nodes follow each other by the first edge that leads anywhere."""
    length = 0
    while node is not None and length < MOST_NODES and (limits is None or limits[node].needed):
        for target in node.next_nodes:
            if target is not None:
                break
        else:
            break
        if target.order == LEAF_ORDER or (limits is not None and not limits.executes(target)):
            break
        node = target
        length += 1
    return length


def _token_at(node: Any, path: tuple[int, ...]) -> Any:
    for edge in path:
        targets = node.next_nodes
        node = targets[edge] if edge < len(targets) else None
        if node is None:
            return None
    return token_of(node)


def sketch_of(root: Node, limits: ExecInfos | None, captures: int, keep_graph: bool, input_nr: int) -> tuple[Any, ...]:
    """Return what the graph of a backward is told from others by before anybody walks through it."""
    node: Any = root
    limited = None if limits is None else (limits.executed, captures)
    found: list[Any] = [keep_graph, limited, root.dtype, input_nr]
    if root.shape is None:
        # The function that is picked looks at all nodes but the root.
        found.append(root.input_metadata)
    for _ in range(SKETCHED):
        plan = getattr(node, "plan", None)
        found.append(type(node) if plan is None else plan)
        found.append(node.shape)
        found.append(node.special is None)
        for target in node.next_nodes:
            if target is not None:
                node = target
                break
        else:
            break
    return tuple(found)
