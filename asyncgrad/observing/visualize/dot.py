"""DOT, the language of Graphviz: text that needs no package to write, and `graphviz` to become a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .colours import heat, ink_on

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .picture import Arrow, Box, Frame, Picture

__all__ = ["dot_text", "layout_cost"]

#: Fill and line of each kind of box: dark text has a contrast of at least 7 on each of these.
_COLOURS = {"node": ("#eef2fb", "#5b6f9b"), "leaf": ("#e2f3e6", "#3f7a52"), "rest": ("#f3f3f3", "#777777")}
_NEXT = ' [style=dashed, constraint=false, color="#8a5cc2", tooltip="to the next repeat"]'
_FRAME = 'style=rounded; color="#8a5cc2"; fontcolor="#5d3a8e";'
#: How many arrows to what was left out are drawn: one from each box would cross the whole picture.
_MOST_TO_REST = 12
_ASYNC = ("#fdecd8", "#b0661a")


def dot_text(picture: Picture) -> str:
    """Return a picture as DOT."""
    hottest = max((box.nanoseconds or 0 for box in picture.boxes), default=0)
    boxes: dict[Frame | None, list[Box]] = {None: []}
    inside: dict[Frame | None, list[Frame]] = {None: []}
    for frame in picture.frames:
        boxes[frame] = []
        inside[frame] = []
    for frame in picture.frames:
        inside[frame.outer].append(frame)
    for box in picture.boxes:
        boxes[box.frame].append(box)
    label = f"{picture.title}: {picture.caption}" + _legend(picture, hottest)
    lines = [
        "digraph graph_of_tensor {",
        f"  label={_quoted(label)}; labelloc=t; fontname=Helvetica; fontsize=13;",
        "  rankdir=TB; nodesep=0.3; ranksep=0.35; compound=true;",
        '  node [shape=box, style="rounded,filled", fontname=Helvetica, fontsize=11, fontcolor="#16202e"];',
        '  node [margin="0.14,0.07"];',
        '  edge [color="#6b7280", arrowsize=0.6];',
        *_within(None, boxes, inside, hottest, "  "),
    ]
    lines += [f"  {arrow.source} -> {arrow.target}{_NEXT if arrow.is_next else ''};" for arrow in _arrows(picture)]
    return "\n".join([*lines, "}", ""])


def layout_cost(picture: Picture) -> int:
    """Return how many places there are for Graphviz to order: one for each arrow and each rank that it goes down."""
    ranks = {box.key: 0 for box in picture.boxes}
    arrows: dict[str, list[str]] = {}
    for arrow in _arrows(picture):
        if not arrow.is_next and arrow.source in ranks and arrow.target in ranks:
            arrows.setdefault(arrow.source, []).append(arrow.target)
    # Boxes are in the order of a backward, but for repeats, which may lead back.
    for box in picture.boxes:
        for target in arrows.get(box.key, ()):
            ranks[target] = max(ranks[target], ranks[box.key] + 1)
    return sum(abs(ranks[target] - ranks[source]) for source, targets in arrows.items() for target in targets)


def _arrows(picture: Picture) -> list[Arrow]:
    """Return the arrows that are drawn: of those to what was left out only the last."""
    to_rest = [arrow for arrow in picture.arrows if arrow.target == "rest"]
    dropped = set(to_rest[:-_MOST_TO_REST])
    return [arrow for arrow in picture.arrows if arrow not in dropped]


def _legend(picture: Picture, hottest: int) -> str:
    if not picture.is_timed:
        return ""
    return "\ncolour: time, the darkest the longest" if hottest else "\nno node of this graph ran in the profile"


def _within(
    frame: Frame | None,
    boxes: Mapping[Frame | None, list[Box]],
    inside: Mapping[Frame | None, list[Frame]],
    hottest: int,
    indent: str,
) -> Iterator[str]:
    for box in boxes[frame]:
        yield f"{indent}{box.key} [{_attributes(box, hottest)}];"
    for inner in inside[frame]:
        yield f"{indent}subgraph cluster_{inner.key} {{"
        yield f"{indent}  label={_quoted(inner.title)}; labeljust=l; {_FRAME}"
        yield from _within(inner, boxes, inside, hottest, f"{indent}  ")
        yield f"{indent}}}"


def _attributes(box: Box, hottest: int) -> str:
    title = box.title + (f" × {box.count:,}" if box.count > 1 and box.kind != "rest" else "")
    fill, line = _ASYNC if {"async", "opaque"} & {*box.marks} else _COLOURS[box.kind]
    found = {"label": _quoted("\n".join([title, *box.lines])), "fillcolor": f'"{fill}"', "color": f'"{line}"'}
    if box.nanoseconds is not None and hottest:
        fill = heat(box.nanoseconds / hottest)
        found["fillcolor"], found["fontcolor"] = f'"{fill}"', f'"{ink_on(fill)}"'
    if "async" in box.marks:
        found["peripheries"] = "2"
    if "hook" in box.marks:
        found["penwidth"] = "2.2"
    if box.kind == "rest":
        found["style"] = '"rounded,filled,dashed"'
    found["tooltip"] = _quoted("\n".join(f"{name}: {text}" for name, text in box.details))
    return ", ".join(f"{name}={value}" for name, value in found.items())


def _quoted(text: str) -> str:
    """Return text as a string of DOT; a backslash in a name is that, and no escape."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
