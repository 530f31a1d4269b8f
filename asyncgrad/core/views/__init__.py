"""Views and writes in place: the location of a view in its base, and the effect of a write on the history of both."""

from ..recording.handwritten_node import HandwrittenNode as HandwrittenNode
from .geometry import TensorGeometry as TensorGeometry
from .geometry import ViewFunc as ViewFunc
from .geometry import replay_views as replay_views
from .nodes import CopyBackwards as CopyBackwards
from .nodes import CopySlices as CopySlices
from .versions import increment_version as increment_version

__all__ = [
    "CopyBackwards",
    "CopySlices",
    "HandwrittenNode",
    "TensorGeometry",
    "ViewFunc",
    "increment_version",
    "replay_views",
]
