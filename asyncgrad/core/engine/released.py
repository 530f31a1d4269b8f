"""What a backward that failed has released, remembered in its graph, so that the error of the next one says so."""

from __future__ import annotations

from asyncio import CancelledError
from collections import deque
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ...errors import ReleasedGraphError
from ..graph.leaf import Leaf
from ..graph.naming import identify

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..graph.node import Node
    from .graph_task import GraphTask

__all__ = ["explain_release", "remember_release"]

#: By node, how the backward has failed that started there, or failed there, and had released something. Not in the
#: NodeMeta: a backward that fails leaves all nodes as they were
#: (test_any_error_comes_out_of_a_blocking_backward_as_well).
_failures: WeakKeyDictionary[Node, str] = WeakKeyDictionary()


#: How many nodes are looked at, from the roots on: a walk through a million would keep the event loop from turning.
_MOST = 10_000


def remember_release(graph_task: GraphTask, error: BaseException, node: Node | None) -> None:
    """Note, at the roots of a backward that failed and where it did, that it has released saved tensors, if it has.

    Args:
        graph_task: the backward.
        error: its error.
        node: the node that raised it; None where no node did, as in most cancellations.
    """
    if graph_task.keep_graph or isinstance(error, ReleasedGraphError):
        return
    roots = graph_task.graph_roots
    # Not only those with greater numbers than the node's: a leaf runs whenever its gradients have arrived, and while a
    # body or a hook waits, others run.
    if not any(one.saved_entries() is None for one in _nodes_from(roots)):
        return
    place = "" if node is None else f" in {identify(node)}"
    text = f"was cancelled{place}" if isinstance(error, CancelledError) else f"raised {type(error).__name__}{place}"
    for one in (*roots, *(() if node is None else (node,))):
        if not isinstance(one, Leaf):
            _failures[one] = text


def explain_release(graph_task: GraphTask, error: BaseException) -> None:
    """Add to the error of a backward that met released tensors that the one before has failed, and how to try again."""
    if not (_failures and isinstance(error, ReleasedGraphError)) or len(error.args) != 1:
        return
    failure = next(filter(None, map(_failures.get, _nodes_from(graph_task.graph_roots))), None)
    if failure is None or failure in error.args[0]:
        return
    told = (
        f"{error.args[0]}. The earlier backward {failure}; what it had run through was released by then, and no .grad "
        "has changed. To try again, run the forward again; or let each try keep the graph until one has succeeded, by "
        'retain_graph="until_success"'
    )
    error.args = (told,)


def _nodes_from(roots: Sequence[Node]) -> Iterator[Node]:
    """Yield nodes that lead from roots, each once; not all."""
    seen = set(roots)
    waiting = deque(roots)
    for _ in range(_MOST):
        if not waiting:
            return
        node = waiting.popleft()
        yield node
        for after in node.next_nodes:
            if after is not None and after not in seen:
                seen.add(after)
                waiting.append(after)
