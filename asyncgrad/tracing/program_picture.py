"""The picture of a program: a box for each of its steps and kernels, arrows for what flows between them.

Forward and backward are frames. Parts that repeat, such as the steps of a loop, are drawn once, as in the picture of a
graph. A step that Python calls between those of the runner is marked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, final

from ..core.graph.facts import number_text
from ..observing.visualize.fold import Group, fold
from ..observing.visualize.picture import Arrow, Box, Frame, Picture, common_frame, leads_to_next, merged_name
from .fusion import Fusion, fuse
from .fusion import Group as Fused
from .kernel_trials import exponential_agrees
from .program import Program, Step
from .runner import runner
from .step_text import line_of
from .table import Table
from .trace import Value, name_of
from .variant import Variant

__all__ = ["Shown", "picture_of", "shown_as_it_would_be", "shown_of"]

#: How many names of steps are written in the box of a kernel.
_NAMES = 6


@final
class Shown(NamedTuple):
    """A program that is shown.

    Attributes:
        label: what its frames are called besides forward and backward; "" for nothing.
        program: the program.
        wanted: which of its arguments have a gradient.
        fusion: which of its steps are kernels; None for none.
        opaque: the steps that are called by Python while the rest is machine code.
    """

    label: str
    program: Program
    wanted: Sequence[int]
    fusion: Fusion | None
    opaque: set[Step]


def shown_of(variant: Variant, label: str = "") -> Shown:
    """Return a program as it runs now."""
    table = variant.take_table()
    try:
        fusion = None if table.fused is None else table.fused.fusion
        return Shown(label, variant.program, variant.wanted, fusion, table.opaque())
    finally:
        variant.give_back(table)


def shown_as_it_would_be(variant: Variant) -> Shown:
    """Return a program that does not run, with the kernels that it would have."""
    own = runner()
    table = Table(variant.program, own)
    fusion = None if own is None else fuse(variant.program, table.array, exponential_agrees)
    return Shown("", variant.program, variant.wanted, fusion, table.opaque())


def picture_of(shown: Sequence[Shown], title: str, folded: bool, most: int) -> Picture:
    """Return the picture of programs.

    Args:
        shown: the programs.
        title: what they are of.
        folded: whether parts that repeat are shown once.
        most: how many boxes there may be for steps, and how many for arguments.
    """
    drawing = _Drawing(Picture(title, False, is_program=True), most)
    for one in shown:
        drawing.add(one, folded)
    return drawing.finished()


@final
class _Unit:
    """What one box stands for: a step, or those of a kernel.

    Args:
        steps: the steps.
        is_kernel: whether they are one.
        is_opaque: whether Python calls the step.
    """

    __slots__ = ("details", "is_opaque", "lines", "steps", "title")

    def __init__(self, steps: Sequence[Step], is_kernel: bool, is_opaque: bool) -> None:
        names = [name_of(step.function) for step in steps]
        self.steps = steps
        self.is_opaque = is_opaque
        self.title: str = f"kernel of {number_text(len(steps), 'step')}" if is_kernel else names[0]
        last = next((one for one in (*steps[-1].results, *steps[-1].writes) if one is not None), None)
        self.lines: list[str] = [] if last is None else [f"{last.array.shape} {last.array.dtype}"]
        if is_kernel:
            more = f", … {len(names) - _NAMES:,} more" if len(names) > _NAMES else ""
            self.lines.append(", ".join(names[:_NAMES]) + more)
        self.lines += ["called by Python"] if is_opaque else []
        self.details: list[tuple[str, str]] = [("step", line_of(step)) for step in steps]

    def look(self) -> tuple[Any, ...]:
        """Return what is equal for units that look the same."""
        return self.title, tuple(self.lines)

    def touched(self) -> Iterable[Value]:
        """Yield the roots of what it reads or writes into, each once."""
        values = [value.root for step in self.steps for value in (*step.reads, *step.writes)]
        return dict.fromkeys(values)

    def written(self) -> Iterable[Value]:
        """Yield the roots of what it writes into."""
        return dict.fromkeys([value.root for step in self.steps for value in step.writes])


@final
class _Drawing:
    """The making of one picture.

    Args:
        picture: what is filled.
        most: how many boxes there may be for steps, and how many for arguments.
    """

    __slots__ = (
        "_boxes",
        "_calls",
        "_frames",
        "_leaves",
        "_local",
        "_made",
        "_most",
        "_picture",
        "_shown_as",
        "_sources",
        "_units",
        "_users",
    )

    def __init__(self, picture: Picture, most: int) -> None:
        self._picture = picture
        self._most = most
        self._units: list[_Unit] = []
        #: For each unit, the units that it takes something from.
        self._sources: list[list[int]] = []
        #: For each unit, the unit in the first repeat that it is shown as, its place in its frame, and that frame.
        self._shown_as: list[int] = []
        self._local: list[int] = []
        self._frames: dict[int, Frame] = {}
        #: By the unit that is shown.
        self._boxes: dict[int, Box] = {}
        #: By root, the unit that has written it last.
        self._made: dict[Value, int] = {}
        #: The names of what calls bring, and which units take it, each with how many others it took before.
        self._leaves: dict[Value, str] = {}
        self._users: dict[Value, dict[tuple[int, int], None]] = {}
        self._calls: Counter[str] = Counter()

    def add(self, shown: Shown, folded: bool) -> None:
        """Add a program."""
        program = shown.program
        for value in program.arguments:
            self._leaves[value] = f"argument {value.name}"
        for value in program.cotangents:
            self._leaves[value] = "incoming gradient"
        fusion = shown.fusion or Fusion([], [])
        first = len(self._units)
        self._add_units(program.forward, fusion.forward, shown.opaque)
        middle = len(self._units)
        self._add_units(program.backward, fusion.backward, shown.opaque)
        self._calls["forward"] += len(program.forward)
        self._calls["backward"] += len(program.backward)
        self._connect(first)
        for root, notes in _notes(shown).items():
            if root in self._made:
                # Of several that write there, the last one.
                self._units[self._made[root]].lines += notes
        for phase, begin, end in (("forward", first, middle), ("backward", middle, len(self._units))):
            if begin < end:
                self._place(begin, end, f"{shown.label}: {phase}" if shown.label else phase, folded)

    def _add_units(self, steps: Sequence[Step], kernels: Sequence[Fused], opaque: set[Step]) -> None:
        ends = {group.begin: group.end for group in kernels}
        index = 0
        while index < len(steps):
            end = ends.get(index, index + 1)
            is_opaque = index not in ends and steps[index] in opaque
            self._units.append(_Unit(steps[index:end], index in ends, is_opaque))
            self._calls["kernel"] += index in ends
            self._calls["opaque"] += is_opaque
            index = end

    def _connect(self, begin: int) -> None:
        """Find what flows into each unit from one on."""
        for index in range(begin, len(self._units)):
            unit, sources = self._units[index], dict[int, None]()
            taken = 0
            for root in unit.touched():
                if root in self._made:
                    sources[self._made[root]] = None
                elif root in self._leaves:
                    self._users.setdefault(root, {})[index, taken] = None
                    taken += 1
            self._sources.append(list(sources))
            self._made.update(dict.fromkeys(unit.written(), index))

    def _place(self, begin: int, end: int, title: str, folded: bool) -> None:
        """Make the frame of a phase, and those of what repeats in it."""
        count = end - begin
        outer = Frame(f"g{len(self._picture.frames)}", Group(0, count, 1, []), None)
        outer.title = title
        self._picture.frames.append(outer)
        self._shown_as += range(begin, begin + count)
        self._local += range(count)
        self._place_items(self._folded(begin, end) if folded else list(range(count)), begin, outer)

    def _folded(self, begin: int, end: int) -> list[int | Group]:
        numbers: dict[Any, int] = {}
        looks, targets = [], [list[int]() for _ in self._units[begin:end]]
        taken: Counter[int] = Counter(user for users in self._users.values() for user, _ in users)
        for place, unit in enumerate(self._units[begin:end]):
            look = unit.look(), taken[begin + place], len(self._sources[begin + place])
            looks.append(numbers.setdefault(look, len(numbers)))
            for source in self._sources[begin + place]:
                if source >= begin:
                    targets[source - begin].append(place)
        return fold(looks, targets)

    def _place_items(self, items: Iterable[int | Group], begin: int, outer: Frame) -> None:
        for item in items:
            if isinstance(item, int):
                self._frames[begin + item] = outer
                continue
            frame = Frame(f"g{len(self._picture.frames)}", item, outer)
            self._picture.frames.append(frame)
            self._place_items(item.items, begin, frame)
            first = begin + item.first + item.period
            for index in range(first, first + item.period * (item.repeats - 1)):
                self._shown_as[index] = self._shown_as[index - item.period]

    def finished(self) -> Picture:
        """Return the picture, with its boxes and arrows."""
        places = sorted(self._frames)
        for place in places[: self._most]:
            unit = self._units[place]
            box = self._boxes[place] = Box(f"n{place}", "node", unit.title, self._frames[place])
            box.lines, box.details = unit.lines, unit.details
            box.marks = ["opaque"] if unit.is_opaque else []
            self._picture.boxes.append(box)
        for one in self._shown_as:
            if one in self._boxes:
                self._boxes[one].count += 1
        arrows = self._place_leaves()
        self._place_rest(len(places))
        self._place_arrows(arrows)
        kept = {frame for box in self._picture.boxes if box.frame is not None for frame in box.frame.around()}
        self._picture.frames = [frame for frame in self._picture.frames if frame in kept]
        return self._picture

    def _place_leaves(self) -> dict[tuple[str, str, bool], None]:
        """Make a box for what calls bring; what repeats of one place take is one box. Return the arrows out of them."""
        together: dict[Any, list[Value]] = {}
        for value, users in self._users.items():
            place = frozenset([(self._shown_as[user], number) for user, number in users])
            together.setdefault(place, []).append(value)
        arrows: dict[tuple[str, str, bool], None] = {}
        for place, values in list(together.items())[: self._most]:
            drawn = sorted({user for user, _ in place if user in self._boxes})
            if not drawn:
                continue
            names, array = [self._leaves[value] for value in values], values[0].array
            box = Box(f"leaf{values[0].number}n{drawn[0]}", "leaf", merged_name(list(dict.fromkeys(names))), None)
            box.frame = common_frame([self._frames[user] for user in drawn])
            box.count, box.lines = len(values), [f"{array.shape} {array.dtype}"]
            box.details = [("argument", name) for name in names[:12]]
            self._picture.boxes.append(box)
            arrows.update(dict.fromkeys([(box.key, self._boxes[user].key, False) for user in drawn]))
        return arrows

    def _place_rest(self, places: int) -> None:
        """Make the box of what is left out, and the caption."""
        counts = self._calls
        caption = f"{number_text(counts['forward'], 'call')} forward and {counts['backward']:,} backward"
        caption += f", {number_text(counts['kernel'], 'kernel')}" if counts["kernel"] else ""
        caption += f", {counts['opaque']:,} called by Python" if counts["opaque"] else ""
        if len(self._picture.boxes) < len(self._units):
            caption += f", shown as {number_text(len(self._picture.boxes), 'box', 'boxes')}"
        left = places - self._most
        if left > 0:
            rest = Box("rest", "rest", f"{number_text(left, 'box', 'boxes')} left out", None)
            rest.count = left
            rest.lines = [f"a picture shows {self._most:,} steps at most"]
            rest.details = [("to see more", "pass a larger limit=")]
            self._picture.boxes.append(rest)
            caption += f"; {left:,} left out"
        self._picture.caption = caption

    def _place_arrows(self, found: dict[tuple[str, str, bool], None]) -> None:
        for index, sources in enumerate(self._sources):
            target = self._shown_as[index]
            for source in sources:
                place = self._shown_as[source]
                if place not in self._boxes:
                    continue
                box = self._boxes.get(target)
                frames = self._frames[place], self._frames[target]
                is_next = leads_to_next(*frames, self._local[source], self._local[index])
                found[self._boxes[place].key, "rest" if box is None else box.key, is_next] = None
        self._picture.arrows = [Arrow(*each) for each in found]


def _notes(shown: Shown) -> dict[Value, list[str]]:
    """Return what becomes of results, by their roots."""
    program, found = shown.program, dict[Value, list[str]]()
    for value in program.outputs:
        found.setdefault(value.root, []).append("returned")
    for index, value in program.commits:
        found.setdefault(value.root, []).append(f"new value of argument {program.arguments[index].name}")
    for index, gradient in zip(shown.wanted, program.gradients, strict=False):
        if gradient is not None:
            found.setdefault(gradient.root, []).append(f"gradient of argument {program.arguments[index].name}")
    return found
