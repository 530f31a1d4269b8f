"""Picture: what is shown of a graph, whatever the format: boxes, frames around parts that repeat, arrows between boxes.

A box stands for one node or leaf, or for all that are at the same place of a part that repeats. What is too much is
left out, and the picture says how much that is.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol, final, runtime_checkable

from ...core.graph.facts import (
    awaits_of,
    byte_text,
    hooks_of,
    leaf_of,
    number_text,
    saved_arrays,
    shape_text,
    time_text,
)
from ...core.graph.naming import number_of
from ...core.settings.arguments import must_be
from ...errors import ArgumentTypeError
from .fold import Group, fold

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...core.graph.node import Node

__all__ = [
    "Arrow",
    "Box",
    "Frame",
    "HasPicture",
    "Picture",
    "TimedEvent",
    "common_frame",
    "draw",
    "leads_to_next",
    "merged_name",
]


class TimedEvent(Protocol):
    """One event of a profile: a forward call, or one run of a node in a backward."""

    @property
    def kind(self) -> str:
        """What it is: "forward" or "backward"."""

    @property
    def sequence_nr(self) -> int | None:
        """The sequence number of the node; None for a leaf."""

    @property
    def began(self) -> int | None:
        """When it began, in nanoseconds; None where that is not known."""

    @property
    def ended(self) -> int | None:
        """When it had ended; None where it had not."""

    @property
    def line(self) -> str | None:
        """The file and line of the forward call, as in `model.py:12`."""


@final
class Box:
    """One box of a picture.

    Attributes:
        key: the box's own name, as `n3` or `leaf2`.
        kind: "node", "leaf", or "rest" for what was left out.
        title: the name of the node or leaf.
        count: how many nodes it stands for.
        lines: what is written below the title.
        details: more about it, as pairs of text.
        marks: what is special: "async", "hook", "released"; "opaque" for a step that Python calls.
        saved: the bytes that these nodes save.
        nanoseconds: how long they ran in a profile; None where it has none of them.
        frame: the innermost frame that it is in; None for the whole picture.
    """

    __slots__ = ("count", "details", "frame", "key", "kind", "lines", "marks", "nanoseconds", "saved", "title")

    def __init__(self, key: str, kind: str, title: str, frame: Frame | None) -> None:
        self.key: str = key
        self.kind: str = kind
        self.title: str = title
        self.count: int = 0
        self.lines: list[str] = []
        self.details: list[tuple[str, str]] = []
        self.marks: list[str] = []
        self.saved: int = 0
        self.nanoseconds: int | None = None
        self.frame: Frame | None = frame


@final
class Frame:
    """A part that repeats: a frame around the boxes of one repeat.

    Attributes:
        key: its own name.
        group: what it shows.
        outer: the frame that it is in; None for the whole picture.
        title: what it says: how many repeats there are.
    """

    __slots__ = ("group", "key", "outer", "title")

    def __init__(self, key: str, group: Group, outer: Frame | None) -> None:
        self.key: str = key
        self.group: Group = group
        self.outer: Frame | None = outer
        self.title: str = f"× {group.repeats:,}"

    def around(self) -> list[Frame]:
        """Return the frames that this one is in, the outermost first, and itself."""
        frame, found = self, [self]
        while frame.outer is not None:
            frame = frame.outer
            found.append(frame)
        return found[::-1]


@final
class Arrow:
    """An edge of the picture: from a box to the box of what the gradient flows to.

    Attributes:
        source: the key of the box that it leaves.
        target: the key of the box that it enters.
        is_next: whether it leads to the next repeat of the part that both are in.
    """

    __slots__ = ("is_next", "source", "target")

    def __init__(self, source: str, target: str, is_next: bool) -> None:
        self.source: str = source
        self.target: str = target
        self.is_next: bool = is_next


@final
class Picture:
    """What is shown of a graph.

    Attributes:
        title: what the graph is of.
        caption: how much there is, and how much of it was left out.
        boxes: the boxes, in the order of a backward.
        frames: the frames, outer ones first.
        arrows: the edges between boxes.
        is_timed: whether a profile gave the nodes times.
        is_program: whether it is that of a program, whose boxes are steps and arguments.
    """

    __slots__ = ("arrows", "boxes", "caption", "frames", "is_program", "is_timed", "title")

    def __init__(self, title: str, is_timed: bool, *, is_program: bool = False) -> None:
        self.title: str = title
        self.caption: str = ""
        self.boxes: list[Box] = []
        self.frames: list[Frame] = []
        self.arrows: list[Arrow] = []
        self.is_timed: bool = is_timed
        self.is_program: bool = is_program


@runtime_checkable
class HasPicture(Protocol):
    """What has a picture of its own, which is of no graph: a compiled function, and what `ag.jit.explain` returns."""

    def _picture(self, *, folded: bool, most: int) -> Picture:
        """Return the picture: see `draw`."""


def draw(
    nodes: Sequence[Node],
    title: str,
    names: Mapping[int, str],
    profile: Any = None,
    *,
    folded: bool = True,
    most: int = 500,
) -> Picture:
    """Return the picture of a graph.

    Args:
        nodes: the nodes, each before those that it leads to, and leaves last.
        title: what the graph is of.
        names: the names of leaves, by the id of each.
        profile: what `ag.profile` gave; None for no times.
        folded: whether parts that repeat are shown once.
        most: how many boxes there may be for nodes, and how many for leaves.
    """
    inner = [node for node in nodes if leaf_of(node) is None]
    drawing = _Drawing(inner, nodes[len(inner) :], Picture(title, profile is not None), *_read(profile))
    drawing.place(folded, most)
    drawing.fill(names)
    return drawing.picture


def _read(profile: Any) -> tuple[dict[int, int], dict[int, str]]:
    """Return how long each node ran in a profile, and the line of its forward call, by its sequence number."""
    times: Counter[int] = Counter()
    lines: dict[int, str] = {}
    if profile is None:
        return times, lines
    events: Iterable[TimedEvent] | None = getattr(profile, "events", None)
    if events is None:
        raise ArgumentTypeError(
            must_be("profile", "what `with ag.profile() as prof:` gives", profile, "write profile=prof")
        )
    for event in events:
        number = event.sequence_nr
        if number is None:
            continue
        if event.line is not None:
            lines[number] = event.line
        if event.kind == "backward" and event.began is not None and event.ended is not None:
            times[number] += event.ended - event.began
    return times, lines


@final
class _Drawing:
    """The making of one picture."""

    def __init__(
        self,
        inner: Sequence[Node],
        leaves: Sequence[Node],
        picture: Picture,
        times: dict[int, int],
        calls: dict[int, str],
    ) -> None:
        self.inner = inner
        self.leaves: Sequence[Any] = leaves
        self.picture = picture
        self.times = times
        #: The lines of forward calls.
        self.calls = calls
        self.index = {node: index for index, node in enumerate(inner)}
        #: For each node, the node in the first repeat that it is shown as.
        self.shown_as = list(range(len(inner)))
        #: The frame of each node of first repeats.
        self.frame_of: dict[int, Frame | None] = {}
        #: The boxes by what they stand for: a node's index, or what tells leaves that are shown as one.
        self.box_of: dict[Any, Box] = {}
        #: For each box of leaves, the leaves.
        self.leaves_of: dict[str, list[Any]] = {}

    # Where everything is.

    def place(self, folded: bool, most: int) -> None:
        """Make the frames, the boxes and the arrows, without what boxes say."""
        self._place_items(self._folded() if folded else list(range(len(self.inner))), None)
        places = list(self.frame_of)
        for place in places[:most]:
            box = self.box_of[place] = Box(f"n{place}", "node", self.inner[place].name, self.frame_of[place])
            self.picture.boxes.append(box)
        self._place_leaves(most)
        kept = {box.frame for box in self.picture.boxes}
        around = {outer for frame in kept if frame is not None for outer in frame.around()}
        self.picture.frames = [frame for frame in self.picture.frames if frame in around]
        self._place_rest(len(places), most)
        self._place_arrows()

    def _folded(self) -> list[int | Group]:
        numbers: dict[Any, int] = {}
        kinds, targets = [], []
        for node in self.inner:
            kind = (node.name, *awaits_of(node), node.device, node.input_nrs, tuple(hooks_of(node).items()))
            look = (*kind, _shape_key(node), self._edge_kinds(node))
            kinds.append(numbers.setdefault(look, len(numbers)))
            targets.append([self.index[target] for target in node.next_nodes if target in self.index])
        return fold(kinds, targets)

    def _edge_kinds(self, node: Node) -> tuple[Any, ...]:
        return tuple(
            None if target is None else True if target in self.index else (target.shape, target.dtype)
            for target in node.next_nodes
        )

    def _place_items(self, items: Iterable[int | Group], outer: Frame | None) -> None:
        for item in items:
            if isinstance(item, int):
                self.frame_of[item] = outer
                continue
            frame = Frame(f"g{len(self.picture.frames)}", item, outer)
            self.picture.frames.append(frame)
            self._place_items(item.items, frame)
            first, period = item.first, item.period
            for index in range(first + period, first + period * item.repeats):
                self.shown_as[index] = self.shown_as[index - period]

    def _place_leaves(self, most: int) -> None:
        """Make a box for each leaf; leaves that the repeats of one place use are one box."""
        users: dict[Node, dict[tuple[int, int], None]] = {leaf: {} for leaf in self.leaves}
        for index, node in enumerate(self.inner):
            for edge, target in enumerate(node.next_nodes):
                if target in users:
                    users[target][self.shown_as[index], edge] = None
        shown: dict[Any, Box] = {}
        for number, leaf in enumerate(self.leaves):
            # A leaf that nothing leads to is a root.
            place = frozenset(users[leaf]) or number
            box = shown.get(place)
            if box is None:
                drawn = [self.box_of[user] for user, _ in users[leaf] if user in self.box_of]
                if len(shown) >= most or (users[leaf] and not drawn):
                    continue
                box = shown[place] = Box(f"leaf{number}", "leaf", "leaf", common_frame([each.frame for each in drawn]))
                self.picture.boxes.append(box)
                self.leaves_of[box.key] = []
            self.leaves_of[box.key].append(leaf.variable)
            self.box_of[leaf] = box

    def _place_rest(self, places: int, most: int) -> None:
        """Make the box of what is left out, and the caption."""
        nodes, leaves = len(self.inner), len(self.leaves)
        drawn = sum(self.shown_as[index] in self.box_of for index in range(nodes)) if places > most else nodes
        drawn_leaves = sum(leaf in self.box_of for leaf in self.leaves)
        boxes = len(self.picture.boxes)
        # Of what is left out, the numbers come first: nobody is to take the picture for the whole graph.
        caption = f"{_of(drawn, nodes, 'node')} and {_of(drawn_leaves, leaves, 'leaf', 'leaves')}"
        if boxes < nodes + leaves:
            caption += f", shown as {number_text(boxes, 'box', 'boxes')}"
        left = [number_text(nodes - drawn, "node")] if nodes > drawn else []
        left += [_leaves_text(leaves - drawn_leaves)] if leaves > drawn_leaves else []
        if left:
            rest = Box("rest", "rest", f"{' and '.join(left)} left out", None)
            rest.count = nodes - drawn + leaves - drawn_leaves
            rest.lines = [f"a picture shows {most:,} nodes at most"]
            rest.details = [("left out", " and ".join(left)), ("to see more", "pass a larger limit=")]
            self.picture.boxes.append(rest)
            caption += f"; {' and '.join(left)} left out"
        self.picture.caption = caption

    def _place_arrows(self) -> None:
        found: dict[tuple[str, str, bool], None] = {}
        for index, node in enumerate(self.inner):
            source = self.box_of.get(self.shown_as[index])
            if source is None:
                continue
            for target in node.next_nodes:
                if target is None:
                    continue
                place = self.index.get(target)
                box = self.box_of.get(target if place is None else self.shown_as[place])
                is_next = place is not None and box is not None and self._is_next(index, place)
                found[source.key, "rest" if box is None else box.key, is_next] = None
        self.picture.arrows = [Arrow(*each) for each in found]

    def _is_next(self, source: int, target: int) -> bool:
        """Tell whether an edge leads from one repeat of a part to another."""
        frames = self.frame_of[self.shown_as[source]], self.frame_of[self.shown_as[target]]
        return leads_to_next(*frames, source, target)

    # What the boxes say.

    def fill(self, names: Mapping[int, str]) -> None:
        """Write what the boxes say."""
        facts: dict[str, _Facts] = {}
        modules = _module_paths(self.inner, names)
        for index, node in enumerate(self.inner):
            box = self.box_of.get(self.shown_as[index])
            if box is None:
                continue
            known = facts.get(box.key)
            if known is None:
                known = facts[box.key] = _Facts(node, self.calls)
            known.add(node, self.times, modules[index])
        devices = {node.device for node in (*self.inner, *self.leaves)} - {None}
        for box in self.picture.boxes:
            if box.kind == "node":
                facts[box.key].write(box, len(devices) > 1)
            elif box.kind == "leaf":
                _write_leaf(box, self.leaves_of[box.key], names, len(devices) > 1)


def leads_to_next(one: Frame | None, other: Frame | None, source: int, target: int) -> bool:
    """Tell whether an edge leads from one repeat of a part to another.

    Args:
        one: the innermost frame of what it leaves.
        other: that of what it enters.
        source: the index of what it leaves.
        target: that of what it enters.
    """
    if one is None or other is None:
        return False
    for frame, its in zip(one.around(), other.around(), strict=False):
        if frame is not its:
            return False
        group = frame.group
        if group.repeat_of(source) != group.repeat_of(target):
            return True
        shift = group.repeat_of(source) * group.period
        source, target = source - shift, target - shift
    return False


def _shape_key(node: Node) -> Any:
    """Return what tells nodes of other shapes or dtypes apart."""
    return (node.shape, node.dtype) if node.shape is not None else node.input_metadata


@final
class _Facts:
    """What is known of the nodes that one box stands for."""

    def __init__(self, node: Node, calls: Mapping[int, str]) -> None:
        self.node = node
        self.last = node
        self.line = calls.get(node.sequence_nr)
        self.count = self.saved = self.released = self.runs = self.nanoseconds = 0
        #: What the runs may wait for.
        self.awaits: dict[str, None] = {}
        #: The modules that they are of, as far as that is known.
        self.modules: dict[str, None] = {}
        self.same_saved = True
        self.arrays: Counter[str] = Counter()
        self.hooks: Counter[str] = Counter()

    def add(self, node: Node, times: Mapping[int, int], module: str) -> None:
        """Take one more node into account."""
        self.count += 1
        self.last = node
        saved = saved_arrays(node)
        if saved is None:
            self.released += 1
        nbytes = sum(array.nbytes for array in saved or ())
        self.same_saved = self.same_saved and nbytes * (self.count - 1) == self.saved
        self.saved += nbytes
        for array in saved or ():
            if self.count == 1:
                what = f"{array.origin} {array.shape} {array.dtype}, {byte_text(array.nbytes)}"
                self.arrays[what] += 1
        if node.meta is not None:
            self.hooks.update(hooks_of(node))
        self.awaits.update(dict.fromkeys(awaits_of(node)))
        if module:
            self.modules[module] = None
        taken = times.get(node.sequence_nr)
        if taken is not None:
            self.runs += 1
            self.nanoseconds += taken

    def write(self, box: Box, has_devices: bool) -> None:
        """Write what the box says of these nodes."""
        node = self.node
        box.count, box.saved = self.count, self.saved
        box.nanoseconds = self.nanoseconds if self.runs else None
        box.lines.append(shape_text(node))
        if self.modules:
            box.lines.append(f"in {merged_name(list(self.modules))}")
        notes = []
        if self.saved:
            each = "" if self.count == 1 else " each" if self.same_saved else " on average"
            notes.append(f"saves {byte_text(self.saved / self.count)}{each}")
        if self.hooks:
            notes.append(", ".join(number_text(count, kind) for kind, count in self.hooks.items()))
        if self.released:
            notes.append("released")
        if has_devices and node.device is not None:
            notes.append(f"on {node.device}")
        if self.runs:
            notes.append(time_text(self.nanoseconds) + (" together" if self.count > 1 else ""))
        if notes:
            box.lines.append(" · ".join(notes))
        marks = (("async", bool(self.awaits)), ("hook", bool(self.hooks)), ("released", self.released > 0))
        box.marks = [mark for mark, is_so in marks if is_so]
        box.details = self._details()

    def _details(self) -> list[tuple[str, str]]:
        node = self.node
        number = number_of(node)
        if self.count > 1:
            number = f"{self.count:,} nodes, from {number} to {number_of(self.last)}"
        found = [("number", number), ("gradients taken", shape_text(node)), ("device", str(node.device))]
        if self.line is not None:
            found.append(("called at", self.line))
        if self.released:
            found.append(("saved", "released by a backward" + (f" in {self.released:,}" if self.count > 1 else "")))
        elif self.arrays:
            each = " in each" if self.count > 1 else ""
            for what, times in self.arrays.items():
                found.append((f"saved{each}", what + (f" × {times}" if times > 1 else "")))
            if self.count > 1:
                found.append(("saved together", byte_text(self.saved)))
        else:
            found.append(("saved", "nothing"))
        found += [("hooks", number_text(count, kind)) for kind, count in self.hooks.items()]
        found += [("awaits", what) for what in self.awaits]
        if self.modules:
            found.append(("module", merged_name(list(self.modules))))
        if self.runs:
            found.append(("time", time_text(self.nanoseconds)))
            if self.runs > 1:
                found.append(("time of each", f"{time_text(self.nanoseconds / self.runs)} on average"))
        return found


def _write_leaf(box: Box, leaves: Sequence[Any], names: Mapping[int, str], has_devices: bool) -> None:
    leaf = leaves[0]
    known = [names[id(each)] for each in leaves if id(each) in names]
    box.count = len(leaves)
    box.title = merged_name(known) if known else "leaf" if len(leaves) == 1 else "leaves"
    kind = leaf._value_metadata
    if kind is not None:
        nbytes = sum(kind.type.nbytes(each.value) for each in leaves)
        box.lines = [kind.type.name]
        box.details = [("type", kind.type.name), ("device", str(leaf._device))]
    else:
        nbytes = sum(getattr(each._data, "nbytes", 0) for each in leaves)
        box.lines = [f"{leaf._data.shape} {leaf._data.dtype}" + (f" on {leaf._device}" if has_devices else "")]
        box.details = [
            ("shape", str(leaf._data.shape)),
            ("dtype", str(leaf._data.dtype)),
            ("device", str(leaf._device)),
        ]
    box.details.append(("bytes", byte_text(nbytes) + (f" in {len(leaves):,} leaves" if len(leaves) > 1 else "")))
    box.details += [("name", name) for name in known[:12]]
    if len(known) > 12:
        box.details.append(("name", f"… {len(known) - 12:,} more"))
    if leaf.grad is not None:
        box.details.append(("grad", "accumulated"))
    hooks: Counter[str] = Counter()
    for each in leaves:
        meta = each._meta
        for kind, listed in (("tensor hook", meta.hooks), ("post-accumulate hook", meta.post_accumulate_hooks)):
            if listed is not None and len(listed):
                hooks[kind] += len(listed)
    awaits = {what: None for each in leaves if each._meta.accumulator is not None for what in _awaits_of_leaf(each)}
    if hooks:
        texts = [number_text(count, kind) for kind, count in hooks.items()]
        box.lines.append(", ".join(texts))
        box.details += [("hooks", text) for text in texts]
        box.marks = ["async", "hook"] if awaits else ["hook"]
        box.details += [("awaits", what) for what in awaits]


def _awaits_of_leaf(leaf: Any) -> list[str]:
    node = leaf._meta.accumulator()
    return [] if node is None else awaits_of(node)


def _module_paths(nodes: Sequence[Node], names: Mapping[int, str]) -> list[str]:
    """Return for each node the path of the module that it is of, as in `layers.0.attention`; "" where none is known.

    A node that takes a parameter is of the module that has it. One between others is of the module that is around the
    nearest of them on both sides: an activation between two layers of a block is of the block.

    Args:
        nodes: the nodes, each before those that it leads to, without leaves.
        names: the names of leaves, by the id of each.
    """
    index = {node: place for place, node in enumerate(nodes)}
    own: list[tuple[str, ...] | None] = []
    for node in nodes:
        paths = [
            tuple(names[id(leaf)].split(".")[:-1])
            for target in node.next_nodes
            if target is not None and (leaf := leaf_of(target)) is not None and id(leaf) in names
        ]
        own.append(_around(paths))
    below, above = list(own), list(own)
    for place in reversed(range(len(nodes))):
        if own[place] is None:
            targets = [index[target] for target in nodes[place].next_nodes if target in index]
            below[place] = _around([below[target] for target in targets])
    users: list[list[int]] = [[] for _ in nodes]
    for place, node in enumerate(nodes):
        if own[place] is None:
            above[place] = _around([above[user] for user in users[place]])
        for target in node.next_nodes:
            if target in index:
                users[index[target]].append(place)
    found = []
    for place, path in enumerate(own):
        both = (below[place], above[place])
        found.append(".".join(path if path is not None else _around(both) or () if None not in both else ()))
    return found


def _around(paths: Iterable[tuple[str, ...] | None]) -> tuple[str, ...] | None:
    """Return the path of the innermost module around those of which one is known; None where there is none."""
    common: tuple[str, ...] | None = None
    for path in paths:
        if common is None or path is None:
            common = common if path is None else path
            continue
        same = 0
        for one, other in zip(common, path, strict=False):
            if one != other:
                break
            same += 1
        common = common[:same]
    return common


def merged_name(names: Sequence[str]) -> str:
    """Return one name for several: `layers.0–11.weight` for those that differ in one number."""
    if len(names) == 1:
        return names[0]
    parts = [re.split(r"(\d+)", name) for name in names]
    if len({len(each) for each in parts}) == 1:
        places = [place for place, texts in enumerate(zip(*parts, strict=True)) if len(set(texts)) > 1]
        if len(places) == 1 and places[0] % 2:
            numbers = [int(each[places[0]]) for each in parts]
            merged = list(parts[0])
            merged[places[0]] = f"{min(numbers)}–{max(numbers)}"
            return "".join(merged)
    return f"{names[0]}, … {len(names) - 1:,} more"


def _of(drawn: int, count: int, what: str, many: str = "") -> str:
    """Return `12 nodes`, or `5 of 12 nodes` if that many are drawn."""
    return f"{'' if drawn == count else f'{drawn:,} of '}{number_text(count, what, many)}"


def _leaves_text(count: int) -> str:
    return number_text(count, "leaf", "leaves")


def common_frame(frames: Sequence[Frame | None]) -> Frame | None:
    """Return the innermost frame that is around all of these."""
    common: list[Frame] | None = None
    for frame in frames:
        around = [] if frame is None else frame.around()
        if common is None:
            common = around
        else:
            common = [one for one, other in zip(common, around, strict=False) if one is other]
    return common[-1] if common else None
