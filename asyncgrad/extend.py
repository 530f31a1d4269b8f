"""The facade for extensions, which add rules, nodes, devices, and kinds of values that are no arrays."""

from typing import TYPE_CHECKING

from .core.arrays.value_type import ValueType as ValueType
from .core.einops_backend import register_einops as register_einops
from .core.engine.device import Device as Device
from .core.graph.node import Edge as Edge
from .core.graph.node import Node as Node
from .core.graph.node import TraceableNode as TraceableNode
from .core.recording.primitive import Primitive as Primitive
from .core.recording.primitive import derivative as derivative
from .core.recording.primitive import primitive as primitive
from .core.settings.lazy import name_advisor
from .core.value import register_value as register_value

__all__ = [
    "Device",
    "Edge",
    "Node",
    "Primitive",
    "TraceableNode",
    "ValueType",
    "derivative",
    "primitive",
    "register_einops",
    "register_value",
]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:
    # A type checker that saw a `__getattr__` would take any name for one of the module.
    __getattr__ = name_advisor(__name__)
