"""What a graph is: nodes, edges, what they save and what they check. Nothing in here runs one."""

from ..context import current_node as current_node
from .creation import node_creation_hook as node_creation_hook
from .gradient_edges import any_requires_grad as any_requires_grad
from .gradient_edges import collect_next_edges as collect_next_edges
from .gradient_edges import create_gradient_edge as create_gradient_edge
from .gradient_edges import set_gradient_edge as set_gradient_edge
from .hooks import RemovableHandle as RemovableHandle
from .leaf import AccumulateGrad as AccumulateGrad
from .leaf import get_gradient_edge as get_gradient_edge
from .metadata import InputMetadata as InputMetadata
from .multi_grad import register_multi_grad_hook as register_multi_grad_hook
from .node import Edge as Edge
from .node import GradientEdge as GradientEdge
from .node import Node as Node
from .node import TraceableNode as TraceableNode

__all__ = [
    "AccumulateGrad",
    "Edge",
    "GradientEdge",
    "InputMetadata",
    "Node",
    "RemovableHandle",
    "TraceableNode",
    "any_requires_grad",
    "collect_next_edges",
    "create_gradient_edge",
    "current_node",
    "get_gradient_edge",
    "node_creation_hook",
    "register_multi_grad_hook",
    "set_gradient_edge",
]
