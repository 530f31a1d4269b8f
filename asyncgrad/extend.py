"""The facade for extensions, which add rules, nodes and devices."""

from .engine.device import Device as Device
from .graph.node import Edge as Edge
from .graph.node import Node as Node
from .graph.node import TraceableNode as TraceableNode
from .ops.primitive import Primitive as Primitive
from .ops.primitive import derivative as derivative
from .ops.primitive import primitive as primitive

__all__ = ["Device", "Edge", "Node", "Primitive", "TraceableNode", "derivative", "primitive"]


def __dir__() -> list[str]:
    return __all__
