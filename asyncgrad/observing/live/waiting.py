"""What runs and what it waits for, as numbers and names for a page; which backward passes are stuck."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...core.engine.await_stack import is_asyncio
from ...core.engine.describe import BackwardDescription, NodeDescription, described
from ...core.settings.callers import is_own_file

__all__ = ["running", "stuck"]

#: How many backward passes are shown, the oldest ones, and how many nodes of each.
MOST, NODES = 40, 8
#: How many nodes are walked to count them, each time, so that a page costs its loop no more than a few milliseconds.
WALKED = 5_000
#: The characters of a name that are shown.
_LONGEST = 160
_WAITED_FOR = re.compile(r"backward (\d+)")
_FOLDERS = re.compile(r"[^\s'\"]*[/\\](?=[^\s/\\]+:\d)")


def running(stuck_after: float) -> dict[str, Any]:
    """Return the backward passes of this process that run now, for JSON: names and numbers, and no data.

    Args:
        stuck_after: the seconds without any node's beginning or end after which a backward is stuck.
    """
    found, count = described(MOST, WALKED)
    are_stuck = stuck(found.backwards, stuck_after)
    return {
        "count": count,
        "stuck": len(are_stuck),
        "passes": [_backward(one, one.id in are_stuck) for one in found.backwards],
        "queues": [
            {"place": _cut(one.place), "running": len(one.running), "queued": len(one.queued)} for one in found.queues
        ],
    }


def stuck(backwards: Sequence[BackwardDescription], after: float) -> set[int]:
    """Return the ids of those in which nothing has begun or ended for so many seconds, and nothing can begin.

    One whose event loop is closed is stuck, too. One that waits for another backward, or for a lock that another one
    holds, is stuck if that is; so those are that wait for each other. One that is not among these may move.
    """
    by_id = {one.id: one for one in backwards}
    found = {one.id for one in backwards if one.state == "abandoned" or _stands_still(one, after)}
    while True:
        moving = {
            number
            for number in found
            if by_id[number].state != "abandoned"
            and any(other not in found for other in _waited_for(by_id[number].running))
        }
        if not moving:
            return found
        found -= moving


def _stands_still(backward: BackwardDescription, after: float) -> bool:
    nodes = backward.running
    return bool(nodes) and not backward.ready_count and all((node.seconds or 0.0) >= after for node in nodes)


def _waited_for(nodes: Iterable[NodeDescription]) -> set[int]:
    """Return the ids of the backward passes that nodes wait for."""
    found = {holder for node in nodes if node.lock is not None for holder in node.lock.holders}
    for node in nodes:
        if node.waits_for is not None and (nested := _WAITED_FOR.fullmatch(node.waits_for)) is not None:
            found.add(int(nested[1]))
    return found


def _backward(one: BackwardDescription, is_stuck: bool) -> dict[str, Any]:
    return {
        "id": one.id,
        "parent": one.parent,
        "root": _cut(one.root),
        "state": one.state,
        "task": None if one.task is None else _cut(one.task),
        "seconds": one.seconds,
        "done": one.nodes_done,
        "nodes": one.nodes,
        "ready": one.ready_count,
        "stuck": is_stuck,
        "more": max(len(one.running) - NODES, 0),
        "running": [_node(node) for node in one.running[:NODES]],
    }


def _node(node: NodeDescription) -> Mapping[str, Any]:
    return {
        "name": _cut(node.name),
        "state": node.state,
        "device": node.device,
        "thread": node.thread,
        "seconds": node.seconds,
        "waits": None if node.waits_for is None else _cut(_FOLDERS.sub("", node.waits_for)),
        "where": _place(node),
    }


def _place(node: NodeDescription) -> str | None:
    """Return where the user's code of a node is: a file without its folders, a line and a function."""
    users = [frame for frame in node.stack if not is_own_file(frame.filename) and not is_asyncio(frame)]
    if not users:
        return None
    frame = users[-1]
    return _cut(f"{Path(frame.filename).name}:{frame.lineno}, {frame.name}")


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
