"""Copies that a program would make twice: they are made once, and kept, as from the forward for the backward.

A convolution copies the windows over its images for its product, and then again for the gradient of its filters. A copy
raises no flag of floating-point errors, so that nobody is told less where one is left out.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import final

import numpy as np

from .inner_loops import address_of
from .loop_call import number_of
from .numpy_calls import EMPTY
from .program import Program, Step
from .trace import Call, Value

__all__ = ["share_copies"]

#: How many bytes are kept at most that would be made anew: more would leave the caches.
_MOST_KEPT = 1 << 22


@final
class _History:
    """What the steps do with an array that owns memory.

    Args:
        root: the array.
    """

    __slots__ = ("is_copied", "reads", "version", "writes")

    def __init__(self, root: Value) -> None:
        #: The numbers of the steps that read it, and of those that write into it.
        self.reads: list[int] = []
        self.writes: list[int] = []
        #: Whether nothing but copies writes into it.
        self.is_copied: bool = True
        #: Equal for arrays with equal numbers. In memory that is new these are of no account.
        self.version: Hashable = None if root.call is not None and root.call.function in EMPTY else root


def share_copies(program: Program) -> None:
    """Have arrays of a program that are copied from the same as others before be these, without the copies."""
    steps, cut = [*program.forward, *program.backward], len(program.forward)
    fixed = {*program.arguments, *program.cotangents, *[value for _, value in program.commits]}
    fixed |= {one.root for one in (*program.outputs, *program.gradients) if one is not None}
    histories = _histories(steps)
    found: dict[Hashable, Value] = {}
    dropped: set[int] = set()
    #: What is kept longer than it would be.
    kept: set[Value] = set()
    for root, history in histories.items():
        reads, writes = history.reads, history.writes
        if root in fixed or not (history.is_copied and reads and writes) or reads[0] < writes[-1]:
            continue
        other = found.setdefault(history.version, root)
        earlier = histories[other]
        if other is root or earlier.writes[-1] > reads[0]:
            continue
        if sum(one.array.nbytes for one in {*kept, other}) > _MOST_KEPT:
            continue
        kept.add(other)
        root.source = other
        program.views[root] = Call(_same, (other,), {}, root, [root], [])
        dropped.update(writes)
    program.forward = [step for index, step in enumerate(program.forward) if index not in dropped]
    program.backward = [step for index, step in enumerate(program.backward, cut) if index not in dropped]


def _histories(steps: Sequence[Step]) -> dict[Value, _History]:
    """Return what steps do with each array that owns memory, in the order of their first use."""
    histories: dict[Value, _History] = {}

    def of(value: Value) -> _History:
        root = value.root
        return histories.setdefault(root, _History(root))

    versions: defaultdict[Hashable, int] = defaultdict(lambda: len(versions))
    for position, step in enumerate(steps):
        copy = _copy(step)
        key: Hashable = None
        if copy is not None:
            target, place, source = copy
            own = of(target)
            before = None if target is target.root and place == "..." else own.version
            given = (of(source).version, _lies(source)) if type(source) is Value else (type(source), repr(source))
            key = _lies(target.root), _lies(target), place, given, before
        for value in step.reads:
            if copy is None or value.root is not copy[0].root:
                of(value).reads.append(position)
        for number, value in enumerate(step.writes):
            history = of(value)
            history.writes.append(position)
            history.is_copied = history.is_copied and key is not None
            # The results of one step differ.
            history.version = versions[(position, number) if key is None else key]
    return histories


def _copy(step: Step) -> tuple[Value, str, object] | None:
    """Return what a step copies into, where in that, and what, an array of that dtype or a number; None for others."""
    if step.kwargs or step.results or len(step.writes) != 1:
        return None
    if step.function is np.copyto and len(step.args) == 2:
        (target, source), place = step.args, "..."
    elif step.function in (operator.setitem, np.ndarray.__setitem__) and _is_plain(step.args[1]):
        target, index, source = step.args
        place = "..." if index is ... else repr(index)
    else:
        return None
    if type(target) is not Value or target.is_scalar or step.writes[0].root is not target.root:
        return None
    if type(source) is not Value:
        is_number = type(source) in (int, float, bool)
        # None where NumPy warns of it.
        return (target, place, source) if is_number and number_of(source, target.array.dtype) is not None else None
    is_alike = source.array.dtype == target.array.dtype and source.root is not target.root
    return (target, place, source) if is_alike else None


def _is_plain(index: object) -> bool:
    """Tell whether an index consists of numbers and slices, so that it makes a view."""
    parts = index if type(index) is tuple else (index,)
    bounds = [bound for one in parts if type(one) is slice for bound in (one.start, one.stop, one.step)]
    others = [one for one in parts if type(one) is not slice and one is not ...]
    return all(one is None or type(one) is int for one in (*bounds, *others))


def _lies(value: Value) -> Hashable:
    """Return how an array lies in the memory of its root."""
    array = value.array
    return address_of(array) - address_of(value.root.array), array.shape, array.strides, array.dtype.str


def _same(array: np.ndarray) -> np.ndarray:
    return array
