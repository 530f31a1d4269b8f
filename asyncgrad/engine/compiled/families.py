"""What is remembered of graphs: how often each was seen, its functions, and what tells it from others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, final

from ...graph.node import LEAF_ORDER
from .description import token_of
from .gathering import MOST_NODES

if TYPE_CHECKING:
    from ...graph.node import Node
    from ..exec_info import ExecInfos
    from .description import Description
    from .program import Program

__all__ = ["Candidate", "Family", "State", "sketch_of"]

#: Nodes in a sketch, the root included.
SKETCHED = 3
#: Places that a sketch may have beside them, and how many edges may lead there.
MOST_PATHS = 4
LONGEST_PATH = 64
#: Graphs of one state that are remembered and have no function; and states of one family, those with one included.
MOST_CANDIDATES = 8
MOST_STATES = 512


class Candidate(NamedTuple):
    """A graph that has no function so far, and how often it has been seen."""

    description: Description
    seen: int


@final
class State:
    """What is known of the graphs of one sketch."""

    __slots__ = ("candidates", "is_busy", "misfits", "programs", "seen", "skipped", "strangers")

    def __init__(self) -> None:
        #: Descriptions and their functions, the one that fitted last in front.
        self.programs: list[tuple[Description, Program]] = []
        #: How often a graph has been seen before one was walked through.
        self.seen = 0
        #: Those that were walked through, the last one in front.
        self.candidates: list[Candidate] = []
        #: How badly the function in front has fitted of late: see MISFIT.
        self.misfits = 0
        #: How many walks in a row have found a graph that is not remembered; and backward passes since the last.
        self.strangers = 0
        self.skipped = 0
        #: Whether a backward walks through its graph, or compiles it; another one does not, meanwhile.
        self.is_busy = False

    def remember(self, description: Description, seen: int) -> None:
        """Put a graph in front of the candidates, of which only so many are kept."""
        known = [one for one in self.candidates if one.description is not description]
        self.candidates = [Candidate(description, seen), *known][:MOST_CANDIDATES]


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
        return self._state_at(self._key(partial(_token_at, root, limits), partial(_length, root, limits)))

    def state_for(self, description: Description) -> State:
        """Return the state of the graphs that a description is of."""
        return self._state_at(self._key(description.token_at, lambda: description.length))

    def _state_at(self, key: tuple[Any, ...]) -> State:
        state = self.states.get(key)
        if state is None:
            self._make_room()
            state = self.states[key] = State()
        return state

    def _make_room(self) -> None:
        """Forget the oldest state that has no function if there are as many as may be."""
        if len(self.states) < MOST_STATES:
            return
        oldest = next((key for key, state in self.states.items() if not state.programs), None)
        if oldest is not None:
            del self.states[oldest]

    def learn(self, description: Description, step: int) -> None:
        """Tell graphs apart by what follows a step of `description`, too."""
        if self.measures_length and len(self.paths) >= MOST_PATHS:
            return
        to_step = description.path_to(step)
        if len(to_step) >= LONGEST_PATH:
            self._measure_length()
        if len(self.paths) >= MOST_PATHS:
            return
        self._follow(_onward(description, to_step, step))

    def tell_apart(self, one: Description, other: Description, step: int) -> None:
        """Tell graphs apart by what tells these two apart, whose steps before this one are alike.

        Those of a recurrent network differ in their lengths, whose sequences are not all of one length.
        """
        if not self.measures_length and one.length != other.length:
            self._measure_length()
            return
        to_step = one.path_to(step)
        paths = [path for path in (to_step, *_onward(one, to_step, step)) if one.token_at(path) != other.token_at(path)]
        self._follow(paths)

    def _follow(self, paths: list[tuple[int, ...]]) -> None:
        """Look where these paths lead from now on, as far as there is room for them."""
        new = [path for path in paths if path not in self.paths and len(path) <= LONGEST_PATH]
        new = new[: max(MOST_PATHS - len(self.paths), 0)]
        if new:
            self.paths += new
            self._sort_anew()

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
            for candidate in reversed(state.candidates):
                self.state_for(candidate.description).remember(*candidate)


def _onward(description: Description, to_step: tuple[int, ...], step: int) -> list[tuple[int, ...]]:
    """Return the paths to where the edges of a step lead."""
    targets = description.steps[step].targets
    return [(*to_step, edge) for edge, target in enumerate(targets) if target is not None]


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


def _token_at(root: Any, limits: ExecInfos | None, path: tuple[int, ...]) -> Any:
    """Return what `Description.token_at` does of this backward's description."""
    node = root
    for edge in path:
        targets = node.next_nodes
        is_left_out = edge >= len(targets) or (limits is not None and not limits[node].needed)
        node = None if is_left_out else targets[edge]
        if node is None or (limits is not None and not limits.executes(node)):
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
