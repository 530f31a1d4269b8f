"""`ag.visualize`: the graph of a tensor as SVG, DOT, or a page for a browser."""

from __future__ import annotations

import errno
import functools
import os
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from ...core.graph.naming import close_names
from ...core.graph.walk import names_of_leaves, nodes_below, roots_of
from ...core.settings.arguments import must_be, takes, truth, whole_number
from ...core.settings.extras import missing_extra
from ...errors import ArgumentError, ArgumentTypeError
from .dot import dot_text, layout_cost
from .drawing import Drawing
from .page import page_text
from .picture import HasPicture, draw

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...core.graph.node import Node
    from .picture import Picture

__all__ = ["visualize"]

#: The formats by the suffix of a path; any other of Graphviz goes by its own name.
_OF_SUFFIX = {"gv": "dot", "htm": "html", "jpeg": "jpg"}
#: The formats of Graphviz that are text, so that they can be returned.
_TEXTS = ("svg", "json", "plain")
#: The other formats of Graphviz that are known here: they are written to a path.
_BINARIES = ("png", "pdf", "jpg", "webp", "eps", "ps", "gif")
#: A layout of this cost takes Graphviz seconds; of one five times as much, minutes.
_MOST_COST = 2_500
#: So many boxes are drawn whatever it costs.
_FEW = 40


@overload
def visualize(
    t: Any,
    path: None = None,
    format: str | None = None,
    *,
    params: Any = None,
    profile: Any = None,
    fold: bool = True,
    limit: int = 500,
) -> Drawing: ...


@overload
def visualize(
    t: Any,
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    params: Any = None,
    profile: Any = None,
    fold: bool = True,
    limit: int = 500,
) -> Path: ...


def visualize(
    t: Any,
    path: str | os.PathLike[str] | None = None,
    format: str | None = None,  # noqa: A002
    *,
    params: Any = None,
    profile: Any = None,
    fold: bool = True,
    limit: int = 500,
) -> Drawing | Path:
    """Draw the graph of `t`: nodes, leaves, shapes, dtypes, saved bytes, hooks and devices, from the roots down.

    Parts that repeat, such as the layers of a model or the steps of a loop, are drawn once, in a frame that says how
    often they are there; a dashed arrow leads from one repeat to the next. Nodes beyond `limit` are left out, and the
    picture says how many, so that a graph of a million nodes can be drawn too. A graph that a backward has released is
    drawn as released.

    Args:
        t: a tensor, a Node, a GradientEdge, or a tree of them. Or a compiled function, a training step, or what
            `ag.jit.explain` returns: then the program is drawn, with its kernels, and what Python calls between them.
        path: the file to write. None returns the text, a `str` that a notebook shows as the picture.
        format: "svg"; "dot", which needs no package; "html", a page to zoom, fold and search in a browser, which needs
            none either and fetches nothing; or "png", "pdf" and other formats of Graphviz, which need a path. None is
            the format of the path's suffix, and without a path "svg", or "dot" if Graphviz is missing. All but "dot"
            and "html" need the extra `asyncgrad[visualize]` and Graphviz itself.
        params: a Module or a tree of tensors, such as `{"w": w}`, which names the leaves.
        profile: what `with ag.profile() as prof:` gave. Nodes are coloured by the time that they took in it.
        fold: False draws every repeat of a part.
        limit: how many nodes are drawn at most, those nearest to `t` first; and how many leaves. Fewer where so many
            arrows cross that Graphviz would take minutes.

    Raises:
        RequiresGradError: a tensor has no graph.
        ArgumentTypeError: `t`, `params` or another argument is something else.
        ArgumentError: there is no such format, or the suffix of the path is that of another one; or a compiled function
            has no program yet.
        ModuleNotFoundError: the format needs the package graphviz.
        FileNotFoundError: the format needs Graphviz's program `dot`; or there is no such folder.
        OSError: the file cannot be written.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> w = ag.tensor(np.ones((3, 2)), requires_grad=True)
        >>> loss = np.tanh(np.ones((4, 3)) @ w).sum()
        >>> text = ag.visualize(loss, format="dot", params={"w": w})
        >>> [name in text for name in ("SumBackward", "TanhBackward", "(3, 2) float64")]
        [True, True, True]
    """
    file = None if path is None else _file(path)
    chosen = _format(format, file)
    limit = whole_number(limit, "limit", 1)
    if isinstance(t, HasPicture):
        _refuse_options(params, profile)
        draws = functools.partial(t._picture, folded=truth(fold, "fold"))
        return _made(draws, file, chosen, limit, format is not None)
    roots = _roots_of(t)
    title = ", ".join(root.name for root in roots[:3]) + (f", … {len(roots) - 3} more" if len(roots) > 3 else "")
    names = names_of_leaves(params)
    draws = functools.partial(draw, nodes_below(roots), title, names, profile, folded=truth(fold, "fold"))
    return _made(draws, file, chosen, limit, format is not None)


def _roots_of(t: Any) -> list[Node]:
    """Return the nodes to draw below; raise for a function, of which there is a picture where it is compiled."""
    if isinstance(t, (types.FunctionType, types.MethodType)):
        expected = "a compiled function, or a tensor, a Node, a GradientEdge or a tree of them"
        raise ArgumentTypeError(takes("ag.visualize", expected, t, "draw ag.jit.explain(fn, *args)"))
    return roots_of(t, "ag.visualize")


def _refuse_options(params: Any, profile: Any) -> None:
    """Raise if there are options that are of graphs."""
    if params is not None or profile is not None:
        raise ArgumentError(
            "a compiled function has no leaves to be named by params=, and no nodes to be coloured by profile=: "
            "leave them out; prof.export_chrome_trace(path) shows its programs in a lane of their own"
        )


def _made(draws: Callable[..., Picture], file: Path | None, chosen: str, limit: int, is_asked: bool) -> Drawing | Path:
    """Return the drawing, or the file to which it is written, of a picture of at most so many boxes."""
    picture = draws(most=limit) if chosen in ("dot", "html") else _simple(draws, limit)
    if file is not None:
        content = _content(picture, chosen)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file
    return _drawing(picture, chosen, is_asked)


def _drawing(picture: Picture, chosen: str, is_asked: bool) -> Drawing:
    """Return a picture as text; as DOT where Graphviz is missing and nobody has asked for a format."""
    try:
        return Drawing(str(_content(picture, chosen)), chosen)
    except (ModuleNotFoundError, FileNotFoundError):
        if is_asked:
            raise
        return Drawing(dot_text(picture), "dot")


def _simple(draws: Callable[..., Picture], most: int) -> Picture:
    """Return a picture that Graphviz lays out within seconds."""
    picture = draws(most=most)
    while most > _FEW and (cost := layout_cost(picture)) > _MOST_COST:
        most = max(_FEW, int(min(most, len(picture.boxes)) * min(0.8, (_MOST_COST / cost) ** 0.5)))
        picture = draws(most=most)
    return picture


def _file(path: Any) -> Path:
    """Return the path of the file; raise before any work is done if it cannot be written there."""
    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentTypeError(must_be("path", "a str or a Path of the file to write", path))
    file = Path(path)
    if file.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a drawing is written to a file, and this is a folder", str(file))
    if not file.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder to write a drawing to", str(file.parent))
    return file


def _format(given: Any, file: Path | None) -> str:
    suffix = "" if file is None else file.suffix.removeprefix(".").lower()
    meant = _OF_SUFFIX.get(suffix, suffix)
    known = ("svg", "dot", "html", *_TEXTS[1:], *_BINARIES)
    if given is None:
        if not meant or meant in known:
            return meant or "svg"
        raise ArgumentError(
            f"the suffix of {str(file)!r} is that of no format: write format=, one of {', '.join(known)}"
        )
    if not isinstance(given, str):
        raise ArgumentTypeError(must_be("format", "a str such as 'svg', 'dot' or 'html'", given))
    if given not in known:
        near = "".join(f", did you mean {one!r}?" for one in close_names(given.lower(), known)[:1])
        raise ArgumentError(
            f"there is no format {given!r}{near or ':'} {'T' if near else 't'}here are {', '.join(known)}"
        )
    if meant in known and meant != given:
        raise ArgumentError(
            f"{str(file)!r} has the suffix of {meant}, and format={given!r}: write format={meant!r}, or a path that "
            f"ends in .{given}"
        )
    if file is None and given in _BINARIES:
        raise ArgumentError(f"a {given} is no text, and is written to a file: pass a path that ends in .{given}")
    return given


def _content(picture: Picture, chosen: str) -> str | bytes:
    if chosen == "html":
        return page_text(picture)
    text = dot_text(picture)
    return text if chosen == "dot" else _rendered(text, chosen)


def _rendered(text: str, chosen: str) -> str | bytes:
    """Return what Graphviz makes of DOT text."""
    instead = "Or draw with format='html', a page for a browser, or format='dot', which need neither"
    try:
        import graphviz
    except ImportError as error:
        raise missing_extra(
            f"a drawing as {chosen} needs the package graphviz",
            "visualize",
            error=error,
            instead=f"; and Graphviz itself: apt install graphviz, brew install graphviz. {instead}",
        ) from error
    source = graphviz.Source(text)
    try:
        made: str | bytes = source.pipe(format=chosen, encoding="utf-8" if chosen in _TEXTS else None)
    except graphviz.ExecutableNotFound as error:
        raise FileNotFoundError(
            errno.ENOENT,
            f"a drawing as {chosen} needs Graphviz's program dot, which is not on the PATH: apt install graphviz "
            f"(Debian, Ubuntu), brew install graphviz (macOS), or see https://graphviz.org/download. {instead}",
            "dot",
        ) from error
    return made
