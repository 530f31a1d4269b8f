"""Pictures of graphs: `ag.visualize` walks, folds what repeats, and writes SVG, DOT or a page for a browser."""

from .drawing import Drawing as Drawing
from .visualize import visualize as visualize

__all__ = ["Drawing", "visualize"]
