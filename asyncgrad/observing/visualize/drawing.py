"""Drawing: the text of a picture, which shows itself in a notebook."""

from __future__ import annotations

from typing import final

from ...core.graph.html import escape

__all__ = ["Drawing"]


@final
class Drawing(str):
    """The text of a picture of a graph: SVG, HTML or DOT. It is a `str`, and a notebook shows the picture.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
        >>> ag.visualize(x * x, format="dot").startswith("digraph")
        True
    """

    __slots__ = ("_format",)

    _format: str

    def __new__(cls, text: str, format: str) -> Drawing:  # noqa: A002
        """Return a drawing in `format`."""
        drawing = super().__new__(cls, text)
        drawing._format = format
        return drawing

    @property
    def format(self) -> str:  # type: ignore[override]
        """The language of the text: svg, html, dot, or another text format of Graphviz."""
        return self._format

    def __reduce__(self) -> tuple[type[Drawing], tuple[str, str]]:
        return Drawing, (str(self), self._format)

    def _repr_svg_(self) -> str | None:
        return self[self.find("<svg") :] if self._format == "svg" else None

    def _repr_html_(self) -> str | None:
        if self._format != "html":
            return None
        # A frame of its own: the page's style and scripts are not the notebook's.
        return (
            f'<iframe srcdoc="{escape(self)}" sandbox="allow-scripts" title="graph" '
            'style="width:100%;height:640px;border:0"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<Drawing of a graph: {self._format}, {len(self):,} characters>"
