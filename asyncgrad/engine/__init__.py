"""How a graph runs. Nothing in here knows NumPy."""

from .engine import Engine as Engine
from .graph_task import GraphTask as GraphTask

__all__ = ["Engine", "GraphTask"]
