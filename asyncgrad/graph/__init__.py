"""What a graph is: nodes, edges, what they save and what they check. Nothing in here runs one."""

from .hooks import RemovableHandle as RemovableHandle
from .leaf import AccumulateGrad as AccumulateGrad
from .leaf import get_gradient_edge as get_gradient_edge
from .metadata import InputMetadata as InputMetadata
from .node import Edge as Edge
from .node import GradientEdge as GradientEdge
from .node import Node as Node

__all__ = ["AccumulateGrad", "Edge", "GradientEdge", "InputMetadata", "Node", "RemovableHandle", "get_gradient_edge"]
