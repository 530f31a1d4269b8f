"""What a GraphTask tells of itself."""

from __future__ import annotations

from typing import Any

__all__ = ["told_of_itself"]


def told_of_itself(task: Any) -> dict[str, Any]:
    """What every backward shows, whatever it runs."""
    return {
        "id": task.id,
        "reentrant_depth": task.reentrant_depth,
        "owner": task.owner,
        "keep_graph": task.keep_graph,
        "has_error": task.has_error,
        "exit_on_error": task.exit_on_error,
        "graph_roots": task.graph_roots,
        "nodes_in_graph": task.nodes_in_graph,
        "exec_info": dict(task.exec_info),
        "captured_grads": task.captured_grads,
        "leaf_streams": task.leaf_streams,
        "can_checkpoint": task.can_checkpoint(),
    }
