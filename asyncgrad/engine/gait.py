"""How far a run of nodes has come: what the state machine of a GraphTask tells its driver."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ..graph.node import Node

__all__ = ["Gait", "NodeTurn"]


class Gait(enum.Enum):
    """Why a run of nodes came to a stop."""

    DRAINED = "nothing is ready to run"
    BREATHE = "the time budget is spent"
    COUNT = "what comes next needs the counted gait"
    CAREFUL = "the node in `turn` needs more than a plain call"


class NodeTurn(NamedTuple):
    """A node whose turn it is, and the gradients that have arrived at its inputs."""

    node: Node
    grads: list[Any]
