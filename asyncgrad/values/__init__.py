"""Ready types of values that are no arrays: texts with feedback, trees, and tables whose gradients are sparse rows.

`ag.leaf(value, type=values.Text())` makes a value of one. A type of your own derives from `ag.extend.ValueType`.
"""

from typing import TYPE_CHECKING

from ..core.settings.lazy import attach

if TYPE_CHECKING:
    from .sparse_rows import SparseRows as SparseRows
    from .text import Feedback as Feedback
    from .text import Text as Text
    from .trees import Tree as Tree

__all__ = ["Feedback", "SparseRows", "Text", "Tree"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__, {".sparse_rows": ["SparseRows"], ".text": ["Feedback", "Text"], ".trees": ["Tree"]}
    )
