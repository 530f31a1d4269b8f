"""What `retain_graph="until_success"` releases, and when: all that ran, once the outermost backward has succeeded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from .exec_info import STEP

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..graph.node import Node
    from .exec_info import ExecInfos

__all__ = ["UNTIL_SUCCESS", "ToRelease", "collect_runs", "release_all"]

UNTIL_SUCCESS: Final = "until_success"


@final
class ToRelease:
    """The nodes that are to be released once a backward has succeeded.

    Args:
        own: those that it runs, where it keeps the graph until its success; else None.
    """

    __slots__ = ("nested", "own")

    def __init__(self, own: dict[Node, None] | None) -> None:
        self.own: dict[Node, None] | None = own
        #: Those that nested backward passes have left to it.
        self.nested: dict[Node, None] = {}


def collect_runs(found: dict[Node, None], root: Node, limits: ExecInfos | None) -> Iterator[None]:
    """Add the nodes to `found` whose bodies a backward from `root` runs; a generator that pauses after STEP nodes.

    Args:
        found: the nodes.
        root: the node that the backward starts from.
        limits: what it runs and captures; None runs all.
    """
    stack, seen, steps = [root], {root}, 0
    while stack:
        node = stack.pop()
        steps += 1
        if not steps % STEP:
            yield
        if limits is not None and not limits.runs(node):
            continue
        found[node] = None
        for target in node.next_nodes:
            if target is not None and target not in seen:
                seen.add(target)
                if limits is None or limits.executes(target):
                    stack.append(target)


def release_all(nodes: Iterable[Node]) -> None:
    """Release all of these nodes; then raise the first error, if a node has raised one."""
    first: BaseException | None = None
    for node in nodes:
        try:
            node.release_variables()
        except BaseException as error:
            first = first or error
        if (meta := node.meta) is not None:
            meta.forget_answers()
    if first is not None:
        try:
            raise first
        finally:
            # Its traceback refers to this frame: leave no cycle.
            del first
