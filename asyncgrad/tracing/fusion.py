"""Which steps of a program become one loop: neighbours that compute each element of one shape from the same elements.

Only what rounds correctly, or does not round, is here, so that its bits do not depend on how it is called; and NumPy's
exponential of float32, where a kernel computes it as NumPy does. What is found is a Kernel, which has no address and no
number in it: programs that compute the same share one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple, final

import numpy as np

from .distances import Distances
from .inner_loops import address_of
from .loop_call import number_of, steps_along
from .loop_calls import loop_of
from .masked_calls import masked_parts
from .program import Comparison, Program, Step
from .runner import ERRORS, LINE
from .trace import Value

__all__ = ["Fusion", "Group", "Instruction", "Kernel", "Operand", "fuse"]

#: How many steps a kernel has at most, and with how many arrays: what bounds the time of its compilation.
_MOST_STEPS, _MOST_OPERANDS = 128, 160
#: Errors that hardly a call has: where some steps of a kernel are to tell of one and others are not, all do, and
#: NumPy's functions, which know which, run again.
_RARE = ("over", "under")
#: How many calls of a loop are many, and how many elements are few for one.
_MANY_CALLS, _FEW_ELEMENTS = 8, 64
_COMPARISONS = {
    np.less: "less",
    np.less_equal: "less_equal",
    np.greater: "greater",
    np.greater_equal: "greater_equal",
    np.equal: "equal",
    np.not_equal: "not_equal",
}
_LOGIC = {np.logical_and: "and", np.logical_or: "or", np.logical_xor: "xor", np.logical_not: "not"}
_BITS = {np.bitwise_and: "and", np.bitwise_or: "or", np.bitwise_xor: "xor", np.invert: "not"}
_ARITHMETIC = {
    np.add: "add",
    np.subtract: "subtract",
    np.multiply: "multiply",
    np.square: "square",
    np.negative: "negative",
    np.positive: "copy",
    np.absolute: "absolute",
}
_CHOICES = {np.maximum: "maximum", np.minimum: "minimum"}
_OF_FLOATS: dict[Any, str] = {
    **_ARITHMETIC,
    **_COMPARISONS,
    **_CHOICES,
    np.divide: "divide",
    np.reciprocal: "reciprocal",
    np.sqrt: "sqrt",
    np.isnan: "isnan",
}
#: What is done by the dtype of the operands, by its character; what is logic makes booleans of other operands first.
_BY_KIND: dict[str, dict[Any, str]] = {
    "f": {**_OF_FLOATS, np.exp: "exp"},
    "d": _OF_FLOATS,
    "l": {**_ARITHMETIC, **_BITS, **_COMPARISONS, **_CHOICES},
    "?": {**_BITS, np.add: "or", np.multiply: "and", np.equal: "same", np.not_equal: "xor"},
}
#: Conversions with the bits of NumPy's, of operands, and of what `copyto` is told to convert.
_CONVERSIONS = {"?f", "?d", "?l", "fd", "id", "il", "ld"}
_COPIES = {*_CONVERSIONS, "df", "f?", "d?", "l?"}
#: Sums and products of two NaN are one of them: which, depends in NumPy on how many elements there are.
_COMMUTATIVE = {"add", "multiply"}


@final
class Instruction(NamedTuple):
    """A step of a kernel for one element; its result is known by its number.

    Attributes:
        name: "load", "store", "convert", or what it computes.
        kind: the character of the dtype of its operands.
        made: that of its result.
        inputs: the numbers of instructions; of a load that of an operand, of a store that of an operand first.
    """

    name: str
    kind: str
    made: str
    inputs: tuple[int, ...]


@final
class Operand(NamedTuple):
    """An array of a kernel.

    Attributes:
        kind: the character of its dtype.
        steps: its steps in bytes along each axis.
        is_given: whether each call brings it.
        is_past: whether it is written past the caches; it begins at a line of these.
    """

    kind: str
    steps: tuple[int, ...]
    is_given: bool
    is_past: bool = False


@final
class Kernel(NamedTuple):
    """A loop over all elements of some axes.

    Attributes:
        counts: the lengths of the axes; the last is the innermost.
        operands: its arrays.
        code: what it does for one element.
        reports_nan: whether it is to tell of a NaN among what it loads.
    """

    counts: tuple[int, ...]
    operands: tuple[Operand, ...]
    code: tuple[Instruction, ...]
    reports_nan: bool


@final
class Group(NamedTuple):
    """Steps that are one kernel.

    Attributes:
        begin: the number of the first step.
        end: the number after the last one.
        kernel: what does the same.
        parts: the Value of each operand, or an array of its number.
        ignored: the bits of the floating-point errors that nobody is to be told of.
    """

    begin: int
    end: int
    kernel: Kernel
    parts: tuple[Any, ...]
    ignored: int


@final
class Fusion(NamedTuple):
    """The groups of a forward and of a backward, in order."""

    forward: list[Group]
    backward: list[Group]


@final
class _Elementwise(NamedTuple):
    """What a step does: `name` for operands of dtype `kind`, which are Values or arrays of one number.

    Where there is a mask, it does so for elements for which that is true, and leaves the others.
    """

    name: str
    kind: str
    inputs: tuple[Any, ...]
    target: Value
    has_loop: bool = True
    mask: Value | None = None

    def operands(self) -> list[Any]:
        """Return all that it reads."""
        return [*self.inputs, *([] if self.mask is None else [self.mask, self.target])]


@final
class _Place(NamedTuple):
    """Where a Value lies in the memory of its root, and its steps along the axes of a group."""

    offset: int
    kind: str
    steps: tuple[int, ...]


def fuse(program: Program, array: Callable[[Value], np.ndarray], has_exponential: Callable[[], bool]) -> Fusion:
    """Return which steps of a program are done together.

    Args:
        program: the program.
        array: returns an array that lies in memory as that of a Value in each table; not asked of what a call gives.
        has_exponential: tells whether kernels have NumPy's exponential of float32; asked only where there is one.
    """
    uses: dict[Value, list[int]] = {}
    steps = [*program.forward, *program.backward]
    for position, step in enumerate(steps):
        for value in (*step.reads, *step.writes):
            uses.setdefault(value.root, []).append(position)
    for value in (*program.outputs, *[one for _, one in program.commits], *[one for one in program.gradients if one]):
        uses.setdefault(value.root, []).append(len(steps))
    targets = {*program.targets, *program.gradient_targets.values()}
    given = {*program.arguments, *targets, *program.cotangents}
    found = _Finder(uses, given, targets, array, program.errstate, Distances(steps, uses), has_exponential)
    # A backward that cannot be run again is called by Python.
    return Fusion(
        found.groups(program.forward, 0),
        found.groups(program.backward, len(program.forward)) if program.repeats else [],
    )


@final
class _Finder:
    """Finds the groups of a program.

    Args:
        uses: by root, the numbers of the steps that read or write it.
        given: what each call gives.
        targets: that of it which is new memory for results.
        array: returns an array that lies as that of a Value.
        errstate: how NumPy treats floating-point errors around the program.
        distances: its distances.
        has_exponential: tells whether kernels have NumPy's exponential of float32; asked only where there is one.
    """

    __slots__ = ("array", "distances", "errstate", "given", "has_exponential", "targets", "uses")

    def __init__(
        self,
        uses: dict[Value, list[int]],
        given: set[Value],
        targets: set[Value],
        array: Callable[[Value], np.ndarray],
        errstate: dict[str, Any],
        distances: Distances,
        has_exponential: Callable[[], bool],
    ) -> None:
        self.has_exponential = has_exponential
        self.distances = distances
        self.uses = uses
        self.given = given
        self.targets = targets
        self.array = array
        self.errstate = errstate

    def groups(self, steps: Sequence[Step], first: int) -> list[Group]:
        """Return the groups of some steps, the first of which has a number in the program."""
        found: list[Group] = []
        building: _Building | None = None
        for index, step in enumerate(steps):
            what = elementwise(step)
            if what is not None and (self._is_odd(what) or (what.name == "exp" and not self.has_exponential())):
                what = None
            ignored = self.ignored(step)
            if building is not None and (what is None or not building.takes(what, ignored)):
                found += building.group(first)
                building = None
            if what is not None and building is None:
                building = _Building(self, index, what.target, ignored)
                if not building.takes(what, ignored):
                    # It reads and writes the same memory in different ways.
                    what = building = None
            if what is not None and building is not None:
                building.add(what, ignored)
        return found if building is None else found + building.group(first)

    def ignored(self, step: Step) -> int:
        """Return the bits of the floating-point errors of a step that nobody is to be told of."""
        ways = {**self.errstate, **step.errstate}
        return sum(bit for name, bit in ERRORS.items() if ways[name] == "ignore")

    def lies(self, value: Value) -> tuple[np.ndarray, int]:
        """Return an array that lies as that of a Value, and where it begins in that of its root."""
        if value.root in self.given:
            return value.array, address_of(value.array) - address_of(value.root.array)
        found = self.array(value)
        return found, address_of(found) - address_of(self.array(value.root))

    def is_past(self, value: Value, end: int) -> bool:
        """Tell whether what is stored in an array is written past the caches, by steps of which `end` is the next."""
        if value.root is not value or value in self.given or not self.distances.is_far(value, end):
            return False
        return address_of(self.array(value)) % LINE == 0

    def _is_odd(self, what: _Elementwise) -> bool:
        """Tell whether the result is nothing, or several elements of it may lie in one place, or a caller has it."""
        if what.target.root in self.given and what.target.root not in self.targets:
            return True
        target = self.lies(what.target)[0]
        if not target.size:
            return True
        extent = target.itemsize
        for step, length in sorted(
            (abs(step), length) for step, length in zip(target.strides, target.shape, strict=True)
        ):
            if length > 1 and step < extent:
                return True
            extent += step * (length - 1)
        return False


@final
class _Building:
    """A group to which steps are added.

    Args:
        finder: what it is built for.
        begin: the number of its first step.
        target: the result of that.
        ignored: as of a group.
    """

    __slots__ = (
        "_begin",
        "_code",
        "_finder",
        "_has_others",
        "_ignored",
        "_known",
        "_length",
        "_operands",
        "_parts",
        "_places",
        "_reports_nan",
        "_shape",
        "_stored",
        "_targets",
    )

    def __init__(self, finder: _Finder, begin: int, target: Value, ignored: int) -> None:
        self._finder = finder
        self._begin = begin
        self._ignored = ignored
        self._shape = target.array.shape
        self._length = 0
        self._code: list[Instruction] = []
        self._operands: list[Operand] = []
        self._parts: list[Any] = []
        #: By root and place, or by the bytes of a number: the instruction whose result is there.
        self._known: dict[Any, int] = {}
        #: By root: which of its places are read or written.
        self._places: dict[Value, set[_Place]] = {}
        #: The roots that are written.
        self._targets: set[Value] = set()
        #: For each step: the instruction that stores its result, and where. Which of them remain is known at the end.
        self._stored: list[tuple[int, Value, _Place, Value]] = []
        self._reports_nan = False
        #: Whether no loop of NumPy does one of its steps.
        self._has_others = False

    def takes(self, what: _Elementwise, ignored: int) -> bool:
        """Tell whether a step can be added."""
        shape = what.target.array.shape
        # Of others than rare ones the exponential has none.
        apart = 0 if what.name == "exp" else (ignored ^ self._ignored) & ~sum(ERRORS[name] for name in _RARE)
        if apart or self._length >= _MOST_STEPS or _plain(shape) != _plain(self._shape):
            return False
        operands = what.operands()
        if len(self._operands) + len(self._stored) + len(operands) + 1 > _MOST_OPERANDS:
            return False
        values = [one for one in operands if type(one) is Value]
        mine = [(one.root, self._place(one, shape)) for one in (*values, what.target)]
        written = {*self._targets, what.target.root}
        for root, place in mine:
            others = [*self._places.get(root, ()), *[one for other, one in mine if other is root]]
            if root in written and any(other != place and self._overlaps(place, other) for other in others):
                return False
        return True

    def _overlaps(self, mine: _Place, theirs: _Place) -> bool:
        """Tell whether two places may have a byte in common."""
        (low, high), (bottom, top) = self._extent(mine), self._extent(theirs)
        return low < top and bottom < high

    def _extent(self, place: _Place) -> tuple[int, int]:
        spans = [(count - 1) * step for count, step in zip(_plain(self._shape), place.steps, strict=True)]
        low = place.offset + sum(one for one in spans if one < 0)
        return low, place.offset + sum(one for one in spans if one > 0) + np.dtype(place.kind).itemsize

    def _place(self, value: Value, shape: tuple[int, ...]) -> _Place:
        array, offset = self._finder.lies(value)
        steps = steps_along(array.shape, array.strides, shape)
        return _Place(offset, kind_of(array.dtype), tuple([s for s, n in zip(steps, shape, strict=True) if n != 1]))

    def add(self, what: _Elementwise, ignored: int) -> None:
        """Add a step, some of whose floating-point errors nobody is to be told of."""
        shape = what.target.array.shape
        self._length += 1
        self._ignored &= ignored
        self._has_others = self._has_others or not what.has_loop
        kinds = ["?", what.kind, what.kind] if what.name == "where" else [what.kind] * len(what.inputs)
        inputs = [self._input(one, kind, shape) for one, kind in zip(what.inputs, kinds, strict=True)]
        if what.name in _COMMUTATIVE and what.kind in "fd":
            self._reports_nan = self._reports_nan or all(type(one) is Value or one != one for one in what.inputs)
        place = self._place(what.target, shape)
        is_wanted = None if what.mask is None else self._input(what.mask, "?", shape)
        if is_wanted is not None:
            # Others are as if they were 1, which raises no flag in whatever is computed of it.
            one = self._input(np.array(1, what.kind), what.kind, shape)
            inputs = [self._emit("where", what.kind, what.kind, is_wanted, each, one) for each in inputs]
        result = inputs[0]
        if what.name != "copy":
            made = "?" if what.name in _MAKES_BOOL else what.kind
            result = self._emit(what.name, what.kind, made, *inputs)
        if self._code[result].made != place.kind:
            result = self._emit("convert", self._code[result].made, place.kind, result)
        if is_wanted is not None:
            before = self._input(what.target, place.kind, shape)
            result = self._emit("where", place.kind, place.kind, is_wanted, result, before)
        root = what.target.root
        self._targets.add(root)
        self._places.setdefault(root, set()).add(place)
        self._known[root, place] = result
        self._stored.append((len(self._code), root, place, what.target))
        self._emit("store", place.kind, place.kind, -1, result)

    def _emit(self, name: str, kind: str, made: str, *inputs: int) -> int:
        self._code.append(Instruction(name, kind, made, inputs))
        return len(self._code) - 1

    def _input(self, part: Any, kind: str, shape: tuple[int, ...]) -> int:
        """Return the instruction by which an operand is found, as one of a dtype."""
        key: Any
        if type(part) is Value:
            place = self._place(part, shape)
            key, steps, own = (part.root, place), place.steps, place.kind
            self._places.setdefault(part.root, set()).add(place)
        else:
            own = kind_of(part.dtype)
            key, steps = (own, part.tobytes()), (0,) * len(_plain(shape))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._emit("load", own, own, self._operand(part, own, steps))
        return found if own == kind else self._converted(found, kind)

    def _converted(self, number: int, kind: str) -> int:
        key = number, kind
        if key not in self._known:
            self._known[key] = self._emit("convert", self._code[number].made, kind, number)
        return self._known[key]

    def _operand(self, part: Any, kind: str, steps: tuple[int, ...], is_past: bool = False) -> int:
        is_given = type(part) is Value and part.root in self._finder.given
        self._operands.append(Operand(kind, steps, is_given, is_past))
        self._parts.append(part)
        return len(self._operands) - 1

    def group(self, first: int) -> list[Group]:
        """Return the group, if it is worth a kernel; the first step of all has a number in the program."""
        begin, end = self._begin, self._begin + self._length
        last = {(root, place): index for index, root, place, _ in self._stored}
        used = {one for code in self._code if code.name not in ("load", "store") for one in code.inputs}
        for index, root, place, target in self._stored:
            _, kind, _, (_, result) = self._code[index]
            uses = self._finder.uses[root]
            # What nobody reads is stored all the same: what computes it may raise a flag.
            is_kept = uses[0] < first + begin or uses[-1] >= first + end or result not in used
            is_kept = is_kept and (last[root, place] == index or result not in used)
            is_past = is_kept and self._finder.is_past(target, first + end)
            number = self._operand(target, kind, place.steps, is_past) if is_kept else -1
            self._code[index] = Instruction("store", kind, kind, (number, result))
        code = _without_gaps(self._code)
        kernel = _ordered(_plain(self._shape), self._operands, code, self._reports_nan, self._stored[0][2].steps)
        has_others = self._has_others or any(one.name == "exp" for one in code)
        if self._length < 2 and not has_others and not _is_called_often(kernel):
            return []
        return [Group(begin, end, kernel, tuple(self._parts), self._ignored)]


def _is_called_often(kernel: Kernel) -> bool:
    """Tell whether NumPy's loop would be called for a few elements at a time, so that the calls take the time."""
    *around, innermost = kernel.counts
    return prod(around) >= _MANY_CALLS and innermost <= _FEW_ELEMENTS


_MAKES_BOOL = {*_COMPARISONS.values(), "isnan"}


def _plain(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([length for length in shape if length != 1])


def _without_gaps(code: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """Return code without stores that have no operand."""
    numbers: dict[int, int] = {}
    kept: list[Instruction] = []
    for index, one in enumerate(code):
        if one.name == "store":
            if one.inputs[0] >= 0:
                kept.append(one._replace(inputs=(one.inputs[0], numbers[one.inputs[1]])))
            continue
        numbers[index] = len(kept)
        kept.append(one if one.name == "load" else one._replace(inputs=tuple([numbers[i] for i in one.inputs])))
    return tuple(kept)


def _ordered(
    counts: tuple[int, ...],
    operands: Sequence[Operand],
    code: tuple[Instruction, ...],
    reports_nan: bool,
    steps_of_result: Sequence[int],
) -> Kernel:
    """Return a kernel with as few axes as there can be, the innermost of which has the shortest steps."""
    order = sorted(range(len(counts)), key=lambda axis: -abs(steps_of_result[axis]))
    axes: list[tuple[int, list[int]]] = []
    for axis in order:
        count, steps = counts[axis], [one.steps[axis] for one in operands]
        if axes and all(outer == count * inner for outer, inner in zip(axes[-1][1], steps, strict=True)):
            axes[-1] = axes[-1][0] * count, steps
        else:
            axes.append((count, steps))
    axes = axes or [(1, [0] * len(operands))]
    laid = [one._replace(steps=tuple([steps[k] for _, steps in axes])) for k, one in enumerate(operands)]
    return Kernel(tuple([count for count, _ in axes]), tuple(laid), code, reports_nan)


def elementwise(step: Step) -> _Elementwise | None:
    """Return what a step does for each element; None for one that is not fused."""
    if isinstance(step.function, Comparison) or len(step.writes) != 1:
        return None
    target = step.writes[0]
    kind = kind_of(target.array.dtype)
    if kind not in _KINDS:
        return None
    if step.function is np.where:
        return _where(step, target, kind)
    if step.results:
        return None
    if step.function is np.copyto:
        is_plain = len(step.args) == 2 and (not step.kwargs or step.kwargs == {"casting": "unsafe"})
        return _copy(target, kind, step.args[1]) if is_plain and step.args[0] is target else None
    return _ufunc(step, target) if isinstance(step.function, np.ufunc) else None


def _where(step: Step, target: Value, kind: str) -> _Elementwise | None:
    if step.kwargs or len(step.args) != 3 or step.results != [target] or target.is_scalar:
        return None
    condition, *choices = step.args
    if type(condition) is not Value or kind_of(condition.array.dtype) != "?":
        return None
    inputs = [_given(one, kind, _CONVERSIONS) for one in choices]
    if any(one is None for one in inputs):
        return None
    return _Elementwise("where", kind, (condition, *inputs), target, False)


def _copy(target: Value, kind: str, source: Any) -> _Elementwise | None:
    if type(source) is not Value:
        number = number_of(source, target.array.dtype) if isinstance(source, _NUMBERS) else None
        return None if number is None else _Elementwise("copy", kind, (number,), target)
    own = kind_of(source.array.dtype)
    if (own != kind and own + kind not in _COPIES) or len(source.array.shape) > len(target.array.shape):
        return None
    return _Elementwise("copy", own, (source,), target, own == kind)


def _ufunc(step: Step, target: Value) -> _Elementwise | None:
    ufunc, parts, mask = step.function, list(step.args), None
    assert isinstance(ufunc, np.ufunc)
    if step.kwargs:
        masked = masked_parts(step)
        if masked is None or masked[0].array.size == 1 or len(masked[0].array.shape) > len(target.array.shape):
            # By a mask of one element, the runner does all or nothing.
            return None
        mask, parts = masked
    if ufunc.nout != 1 or len(parts) != ufunc.nargs or parts[-1] is not target:
        return None
    chosen = loop_of(ufunc, parts)
    if chosen is None or chosen[1][-1] != target.array.dtype:
        return None
    kinds = {kind_of(one) for one in chosen[1][:-1]}
    kind = kinds.pop()
    name = _LOGIC.get(ufunc) or _BY_KIND.get(kind, {}).get(ufunc)
    if kinds or name is None or kind not in _KINDS:
        return None
    if ufunc in _CHOICES and kind in "fd" and not chooses_as_here(ufunc, kind):
        return None
    inputs = [_given(one, kind, _CONVERSIONS) for one in parts[:-1]]
    if any(one is None for one in inputs):
        return None
    return _Elementwise(name, "?" if ufunc in _LOGIC else kind, tuple(inputs), target, mask=mask)


_KINDS = frozenset("fdl?")
_NUMBERS = (bool, int, float, np.generic)


def _given(part: Any, kind: str, conversions: set[str]) -> Any:
    """Return an operand as it is loaded; None where it cannot be converted as NumPy does."""
    if type(part) is Value:
        own = kind_of(part.array.dtype)
        return part if own == kind or own + kind in conversions else None
    return number_of(part, np.dtype(kind)) if isinstance(part, _NUMBERS) else None


def kind_of(dtype: np.dtype[Any]) -> str:
    """Return the character by which kernels know a dtype; an empty one for others."""
    names = {("b", 1): "?", ("f", 4): "f", ("f", 8): "d", ("i", 8): "l", ("i", 4): "i"}
    return names.get((dtype.kind, dtype.itemsize), "") if dtype.isnative else ""


@functools.cache
def chooses_as_here(ufunc: np.ufunc, kind: str) -> bool:
    """Tell whether NumPy's maximum or minimum chooses as a kernel does: the second of two equal ones, the first NaN."""
    compare = np.greater if ufunc is np.maximum else np.less
    some = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, -np.nan], kind)
    pairs = np.array([(a, b) for a in some for b in some], kind)
    for size in (1, 2, 3, 5, 7, 9, 16, 31, 33, 64):
        for begin in range(0, 64, 5):
            numbers = np.roll(pairs, begin, axis=0)[:size]
            given = [
                (numbers[:, 0].copy(), numbers[:, 1].copy()),
                (numbers[:, 0], numbers[:, 1]),
                (numbers[:, 0].copy(), numbers[0, 1]),
                (numbers[0, 0], numbers[:, 1].copy()),
            ]
            for a, b in given:
                with np.errstate(all="ignore"):
                    expected = np.where(compare(a, b) | np.isnan(a), a, b)
                    if ufunc(a, b).tobytes() != expected.tobytes():
                        return False
    return True
