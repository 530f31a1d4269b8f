"""What a program must compute, with NumPy alone: its values, what shares memory, and its derivative in one direction.

Each step is run on arrays. Its derivative is a central difference of the step in the direction that its arguments move
in when the leaves do, so that a whole program costs a few runs of each step, and no error of one difference meets
another. What is not recorded (under `no_grad`, by `detach`) does not move: the oracle knows which arrays are of one
history, apart from which share memory.

A step is refused where NumPy cannot do it, and where differences say nothing: at kinks, or far from smooth.
"""

from __future__ import annotations

import types
from typing import Any, NamedTuple, final

import numpy as np

from tests.support.programs.worlds import names_of_numpy

__all__ = ["Oracle", "Step", "Variable"]

#: How far the leaves are moved, over the largest element of the direction.
MOVE = 1e-5
#: By how much two differences of one step may differ, over the larger of 1 and the slopes.
SMOOTH = 1e-6
#: No element of a variable is larger, and no variable has more elements.
LARGEST, LONGEST = 60.0, 24

#: What these give hangs on the order in which NumPy goes about it, where they read from what they write into; and
#: they write nothing where there is nothing to repeat.
UNORDERED = ("np.place(", "np.put(", "np.putmask(")
NAMES = names_of_numpy()

#: What NumPy raises where a step makes no sense on the arrays that it is tried on.
NO_STEP = (ValueError, IndexError, TypeError, ArithmeticError, AttributeError, Warning)


class Step(NamedTuple):
    """One line of a program.

    Args:
        line: a statement that makes a variable or writes into one; the same text in NumPy and in asyncgrad.
        reads: the variables that it names, but for the one that it makes.
        makes: the variable that it makes; None where it writes.
        writes: the variable that it writes into.
        mode: "" is recorded, "no_grad" is not, "enable_grad" is recorded, within no_grad.
        way: how asyncgrad is to run it: "" plainly, "checkpoint" or "reentrant", "packed" with hooks for what is saved,
            "observed" with a hook on the result, "refused" where it must raise and change nothing.
        kind: what the result is: "" whatever NumPy says, "detached", or a view that no write may be recorded into.
        smooth: False for what has no derivative: its result has no history.
    """

    line: str
    reads: tuple[str, ...] = ()
    makes: str | None = None
    writes: str | None = None
    mode: str = ""
    way: str = ""
    kind: str = ""
    smooth: bool = True

    @property
    def recorded(self) -> bool:
        return self.mode != "no_grad"


@final
class History:
    """Shared by a variable and its views: whether it requires grad, and whether it is a leaf that does."""

    __slots__ = ("is_leaf", "requires_grad")

    def __init__(self, requires_grad: bool, is_leaf: bool = False) -> None:
        self.requires_grad = requires_grad
        self.is_leaf = is_leaf


class Variable(NamedTuple):
    """An array of a program.

    Args:
        value: the array.
        slope: how it moves when the leaves do: an array like it, which shares memory with those of its history.
        history: that of the variable that it is a view of, or its own.
        kind: not "" for a view that no write may be recorded into.
    """

    value: np.ndarray
    slope: np.ndarray
    history: History
    kind: str = ""


@final
class Oracle:
    """The variables of a program after the steps that it was given.

    Args:
        leaves: by name.
        directions: by name, in which the leaves move.
    """

    def __init__(self, leaves: dict[str, np.ndarray], directions: dict[str, np.ndarray]) -> None:
        self.variables = {
            name: Variable(leaf.copy(), directions[name].copy(), History(leaf.dtype.kind in "fc", True))
            for name, leaf in leaves.items()
        }
        self.leaves = leaves
        self.directions = directions
        #: Arrays that a recorded step has read or made: what a node may have saved.
        self.used: list[np.ndarray] = []
        #: Whether a write came after that, so that a backward may have to refuse.
        self.may_refuse = False
        #: Whether the memory of a leaf has been written into: its history does not know, or the write is refused.
        self.writes_leaf = False
        #: Whether some values have been cut from their history.
        self.is_cut = False
        self.why = ""

    def apply(self, step: Step) -> bool:
        """Run a step, if NumPy can do it and it is smooth there; tell whether it was run, or leave all as it was."""
        names = (*step.reads, *((step.writes,) if step.writes else ()))
        if any(name not in self.variables for name in names):
            return False
        code = _compiled(step.line)
        try:
            with np.errstate(all="ignore"):
                base = self._moved(step, code, names, 0.0)
                if not _fits(base):
                    return False
                slope = self._slope(step, code, names, base)
                if slope is None:
                    return False
                return self._write(step, code, names, slope) if step.writes else self._make(step, code, names, slope)
        except NO_STEP as error:
            self.why = repr(error)
            return False

    def _moved(self, step: Step, code: types.CodeType, names: tuple[str, ...], scale: float) -> np.ndarray:
        """Return what the step gives on copies of its arguments, moved along their slopes."""
        scope = dict(NAMES)
        for name in names:
            variable = self.variables[name]
            scope[name] = variable.value.copy(order="K")
            if scale:
                scope[name] += (scale * variable.slope).astype(variable.value.dtype)
        _execute(code, scope)
        result = scope[step.makes or step.writes]  # type: ignore[index]
        if not isinstance(result, (np.ndarray, np.generic)):
            raise TypeError("not one array")
        return np.array(result)

    def _slope(self, step: Step, code: types.CodeType, names: tuple[str, ...], base: np.ndarray) -> np.ndarray | None:
        """Return how the result moves, None where the step is not smooth."""
        moves = any(self.variables[name].history.requires_grad for name in names)
        if not (step.recorded and step.smooth and moves) or step.kind == "detached" or base.dtype.kind not in "fc":
            return np.zeros_like(base)
        size = max([1.0, *(float(np.max(np.abs(self.variables[name].slope), initial=0.0)) for name in names)])
        move = MOVE / size
        up, down = self._moved(step, code, names, move), self._moved(step, code, names, -move)
        if up.shape != base.shape or base.dtype.itemsize < (16 if base.dtype.kind == "c" else 8):
            return None if up.shape != base.shape else np.zeros_like(base)
        far_up, far_down = self._moved(step, code, names, 4 * move), self._moved(step, code, names, -4 * move)
        slope = (up - down) / (2 * move)
        scale, steepest = np.max(np.abs(slope), initial=1.0), np.max(np.abs(slope), initial=1e-3)
        is_smooth = (
            np.max(np.abs((far_up - far_down) / (8 * move) - slope), initial=0.0) < SMOOTH * scale
            and np.max(np.abs((up - base) / move - slope), initial=0.0) < 1e-2 * steepest
            and scale < 1e4
        )
        return slope if is_smooth else None

    def _run(self, step: Step, code: types.CodeType, names: tuple[str, ...]) -> np.ndarray:
        """Run the step on the variables themselves."""
        scope = {**NAMES, **{name: self.variables[name].value for name in names}}
        _execute(code, scope)
        return np.asarray(scope[step.makes or step.writes])  # type: ignore[index]

    def _make(self, step: Step, code: types.CodeType, names: tuple[str, ...], slope: np.ndarray) -> bool:
        assert step.makes is not None
        if step.way == "reentrant" and not any(self.variables[name].history.requires_grad for name in step.reads):
            return False
        value = self._run(step, code, names)
        owner = next((name for name in step.reads if _is_part(value, self.variables[name].value)), None)
        requires_grad = (
            step.recorded
            and step.smooth
            and step.kind != "detached"
            and value.dtype.kind in "fc"
            and any(self.variables[name].history.requires_grad for name in step.reads)
        )
        if owner is None:
            if step.recorded and requires_grad:
                self.used.extend([value, *(self.variables[name].value for name in step.reads)])
            self.is_cut |= not requires_grad and any(self.variables[name].history.requires_grad for name in step.reads)
            # Either may be a view of something that is gone: a reentrant checkpoint is a Function.
            is_bare = _root(value) is value and not any(name in step.line for name in ("of_case", "linalg"))
            made = "" if step.recorded or is_bare else "no_grad"
            kind = "function" if step.way == "reentrant" else made
            self.variables[step.makes] = Variable(value, _like(value, slope), History(requires_grad), kind)
            return True
        if step.way in ("checkpoint", "reentrant") or (value is self.variables[owner].value and not step.recorded):
            return False
        source = self.variables[owner]
        if step.recorded and step.kind != "detached":
            scope = {**NAMES, **{name: self.variables[name].value for name in names}, owner: source.slope}
            _execute(code, scope)
            view = np.asarray(scope[step.makes])
            self.variables[step.makes] = Variable(value, view, source.history, step.kind or source.kind)
        else:
            self.is_cut |= source.history.requires_grad
            kind = "" if step.kind == "detached" else "no_grad"
            self.variables[step.makes] = Variable(value, _mirror(value), History(False), kind)
        return True

    def _write(self, step: Step, code: types.CodeType, names: tuple[str, ...], slope: np.ndarray) -> bool:
        assert step.writes is not None
        target = self.variables[step.writes]
        sources = [self.variables[name] for name in step.reads]
        records = step.recorded and any(one.history.requires_grad for one in (target, *sources))
        must_refuse = records and target.history.is_leaf
        is_closed = target.kind and (step.recorded or target.kind != "no_grad")
        if step.line.startswith(UNORDERED) and (
            step.way == "refused"
            or step.line.count(step.writes) > 1 + step.line.count(f"{step.writes}.shape")
            or any(np.shares_memory(target.value, one.value) or not one.value.size for one in sources)
        ):
            return False
        if must_refuse != (step.way == "refused") or is_closed or not target.value.flags.writeable:
            return False
        writes_nothing = not target.value.size or "[]" in step.line or "array([]" in step.line
        if must_refuse:
            return not writes_nothing
        if (target.kind and step.way == "observed") or (writes_nothing and records):
            return False
        self._run(step, code, names)
        self.may_refuse |= any(_is_part(target.value, one) for one in self.used)
        if records:
            target.slope[...] = slope
            target.history.requires_grad = True
            self.used.append(target.value)
        writes_leaf = any(_is_part(target.value, self.variables[name].value) for name in self.leaves)
        self.writes_leaf |= writes_leaf
        self.is_cut |= writes_leaf or not records
        for name, other in list(self.variables.items()):
            # A view that no write may be recorded into cannot be used after a write into its memory, recorded or not.
            if other.kind and _is_part(other.value, target.value):
                del self.variables[name]
        return True


_CODE: dict[str, types.CodeType] = {}


def _compiled(line: str) -> types.CodeType:
    code = _CODE.get(line)
    if code is None:
        code = _CODE[line] = compile(line, "<step>", "exec")
    return code


def _execute(code: types.CodeType, scope: dict[str, Any]) -> None:
    exec(code, scope)  # noqa: S102  # a program is its source, which is what a failing test shows


def _fits(value: np.ndarray) -> bool:
    return bool(
        value.dtype.char in "fdD"
        and value.size <= LONGEST
        and value.ndim <= 4
        and np.all(np.isfinite(value))
        and np.max(np.abs(value), initial=0.0) < LARGEST
    )


def _like(value: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Return the slope laid out in memory as the value is, so that the same calls give views of it."""
    result = _mirror(value)
    result[...] = slope
    return result


def _is_part(value: np.ndarray, of: np.ndarray) -> bool:
    """Tell whether an array is a view of another; of those without elements, whether they come from one array."""
    return bool(np.shares_memory(value, of)) if value.size else _root(value) is _root(of)


def _root(value: np.ndarray) -> np.ndarray:
    """Return the array whose memory a view lies in."""
    while isinstance(value.base, np.ndarray):
        value = value.base
    return value


def _mirror(value: np.ndarray) -> np.ndarray:
    """Return zeros with the strides of `value`, on memory of their own."""
    low, high = np.lib.array_utils.byte_bounds(_root(value))
    memory = np.zeros(high - low, np.uint8)
    offset = value.__array_interface__["data"][0] - low
    if value.size == 0:
        return np.zeros_like(value)
    return np.ndarray(value.shape, value.dtype, memory, offset, value.strides)
