"""A program: the calls of a trace that matter, in NumPy's own functions, with memory that is known beforehand."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

import numpy as np

from .numpy_calls import EMPTY, FILLED
from .trace import Call, Check, Trace, Value

__all__ = ["UFUNCS", "CheckFailed", "Comparison", "OfNumbers", "Program", "Step", "lower"]


class CheckFailed(Exception):
    """A number on which the traced run depended is another one now."""


@final
class Comparison:
    """The function of a step that compares a number with that of the traced run."""

    __slots__ = ("check",)

    __name__ = "compare"

    def __init__(self, check: Check) -> None:
        self.check = check

    def __call__(self, array: np.ndarray) -> None:
        """Compare.

        Raises:
            CheckFailed: it is another one.
        """
        check = self.check
        found = check.read(array)
        # By what is shown of it: 0.0 is not -0.0, 1 is not True, and NaN is NaN.
        if found is not check.expected and repr(found) != repr(check.expected):
            raise CheckFailed(f"{check.expected!r} in the traced run, {found!r} now")

    def expected_bytes(self) -> np.ndarray | None:
        """Return an array whose bytes are those that are expected; None where others may do as well."""
        expected, array = self.check.expected, self.check.value.array
        numbers = expected if isinstance(expected, list) else [expected]
        kinds = {bool: "b", int: "iu", float: "f"}
        if any(array.dtype.kind not in kinds.get(type(one), "") or one != one for one in numbers):
            return None
        made = np.array(expected, array.dtype)
        return made if made.shape == array.shape and made.tolist() == expected else None


@final
class OfNumbers:
    """An operator of which some operands are NumPy's numbers, which lie in arrays of no axes.

    Args:
        function: the operator.
        numbers: which operands are.
    """

    __slots__ = ("__name__", "function", "numbers")

    def __init__(self, function: Callable[..., Any], numbers: Sequence[bool]) -> None:
        self.function = function
        self.numbers = numbers
        self.__name__ = function.__name__

    def __call__(self, *operands: Any) -> Any:
        """Return the result."""
        pairs = zip(operands, self.numbers, strict=True)
        return self.function(*[one[()] if is_number else one for one, is_number in pairs])


@final
class Step:
    """A call of a program, `function(*args, **kwargs)`, whose result is in one of its arguments, or is put there.

    Args:
        function: what is called.
        args: its arguments, with Values in the place of arrays.
        kwargs: its keyword arguments, likewise.
        reads: the Values that it reads.
        writes: the Values that it writes.
        results: for each array that it returns, the Value that it is copied into, or None; empty where it writes by
            itself.
    """

    __slots__ = ("args", "errstate", "function", "kwargs", "reads", "results", "writes")

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any] | None = None,
        *,
        reads: Iterable[Value] = (),
        writes: Iterable[Value] = (),
        results: Sequence[Value | None] = (),
    ) -> None:
        self.function = function
        self.args = tuple(args)
        self.kwargs = kwargs or {}
        self.reads = list(reads)
        self.writes = list(writes)
        self.results = list(results)
        #: How it treats floating-point errors otherwise than the caller.
        self.errstate: dict[str, Any] = {}


@final
class Program:
    """Steps, and the Values that go in and come out.

    Args:
        arguments: the Values that a caller gives, in order.
        outputs: the Values of the forward's results.
        cotangents: the Values of the gradients that a backward begins with.
        gradients: the Values of what a backward returns; None where a gradient does not depend on anything.
        forward: the steps of the forward.
        backward: the steps of the backward.
        views: by view, the call that makes it of its source.
        commits: the arguments that the forward changes, by their numbers, and the Values of what is in them then.
        errstate: how NumPy treats floating-point errors around it.
    """

    __slots__ = (
        "arguments",
        "backward",
        "commits",
        "cotangents",
        "errstate",
        "forward",
        "gradient_targets",
        "gradients",
        "is_random",
        "kept",
        "outputs",
        "repeats",
        "same",
        "spread",
        "targets",
        "views",
        "work",
    )

    def __init__(
        self,
        arguments: list[Value],
        outputs: list[Value],
        cotangents: list[Value],
        gradients: list[Value | None],
        forward: list[Step],
        backward: list[Step],
        views: dict[Value, Call],
        commits: list[tuple[int, Value]],
        errstate: dict[str, Any],
    ) -> None:
        self.errstate = errstate
        self.commits = commits
        self.arguments = arguments
        self.outputs = outputs
        self.cotangents = cotangents
        self.gradients = gradients
        self.forward = forward
        self.backward = backward
        self.views = views
        read = {value.root for step in backward for value in step.reads} | _roots(one for one in gradients if one)
        #: For each argument, whether the backward reads it.
        self.kept: list[bool] = [argument in read for argument in arguments]
        #: How many elements the backward reads and writes.
        self.work: int = sum(value.array.size for step in backward for value in (*step.reads, *step.writes))
        #: Whether it draws random numbers.
        self.is_random: bool = any(getattr(step.function, "is_random", False) for step in (*forward, *backward))
        #: The gradients that are one with an earlier one, and which that is.
        self.same: list[tuple[int, int]] = [
            (index, gradients.index(one)) for index, one in enumerate(gradients) if one and one in gradients[:index]
        ]
        #: The gradients that do not lie in memory as a new array does: reversed, or a part of another one.
        self.spread: list[int] = [index for index, one in enumerate(gradients) if one and _is_spread(one.array)]
        computed = {value.root for step in forward for value in step.writes}
        #: The outputs that a caller gives memory for: where no backward follows, which would read them.
        self.targets: list[Value] = [] if cotangents else self._own_outputs(computed)
        #: Whether the backward can run again: it writes into nothing that the forward has computed.
        self.repeats: bool = not any(value.root in computed for step in backward for value in step.writes)
        #: By their numbers: the gradients that the runner writes into memory of the caller's.
        self.gradient_targets: dict[int, Value] = self._own_gradients() if self.repeats else {}

    def passing(self) -> frozenset[Value]:
        """Return the arrays that own memory, that one step makes, and that one other step reads, and nobody else."""
        written: Counter[Value] = Counter()
        read: Counter[Value] = Counter()
        for step in (*self.forward, *self.backward):
            written.update(_roots(step.writes))
            read.update(_roots(step.reads))
        others = [*self.outputs, *[one for one in self.gradients if one], *[value for _, value in self.commits]]
        return frozenset([one for one in written if written[one] == read[one] == 1]) - _roots(others)

    def _own_outputs(self, computed: set[Value]) -> list[Value]:
        """Return the outputs that are computed, each in memory of its own."""
        others = {*self.arguments, *[value for _, value in self.commits]}
        roots = [value.root for value in self.outputs]
        return [one for one in self.outputs if one in computed and one not in others and roots.count(one) == 1]

    def _own_gradients(self) -> dict[int, Value]:
        """Return the gradients that are each the whole of an array which the backward computes, by their numbers."""
        computed = {value.root for step in self.backward for value in step.writes}
        roots = [None if one is None else one.root for one in self.gradients]
        return {
            index: one
            for index, one in enumerate(self.gradients)
            if one is not None and one in computed and roots.count(one) == 1 and index not in self.spread
        }


#: NumPy's ufunc of each operator; a power chooses among several by its exponent, and stays as it is.
UFUNCS: dict[Any, np.ufunc] = {
    operator.add: np.add,
    operator.sub: np.subtract,
    operator.mul: np.multiply,
    operator.truediv: np.divide,
    operator.floordiv: np.floor_divide,
    operator.mod: np.remainder,
    operator.matmul: np.matmul,
    operator.and_: np.bitwise_and,
    operator.or_: np.bitwise_or,
    operator.xor: np.bitwise_xor,
    operator.lshift: np.left_shift,
    operator.rshift: np.right_shift,
    operator.lt: np.less,
    operator.le: np.less_equal,
    operator.eq: np.equal,
    operator.ne: np.not_equal,
    operator.gt: np.greater,
    operator.ge: np.greater_equal,
    operator.neg: np.negative,
    operator.pos: np.positive,
    operator.abs: np.absolute,
    operator.invert: np.invert,
}
#: What has an argument `out`, and the same bits with it.
_TAKE_OUT: set[Any] = {
    np.concatenate,
    np.stack,
    np.dot,
    np.ndarray.dot,
    np.clip,
    np.ndarray.clip,
    np.cumsum,
    np.cumprod,
}
_TAKE_OUT |= {np.ndarray.cumsum, np.ndarray.cumprod, np.ndarray.sum, np.ndarray.max, np.ndarray.min, np.ndarray.prod}
_TAKE_OUT |= {np.sum, np.max, np.min, np.prod, np.all, np.any, np.ndarray.all, np.ndarray.any}


def lower(
    trace: Trace,
    cut: int,
    outputs: list[Value],
    cotangents: list[Value],
    gradients: list[Value | None],
) -> Program:
    """Return the program of a trace; `cut` is the number of the calls of its forward."""
    views: dict[Value, Call] = {}
    checks: dict[int, list[Check]] = {}
    for check in trace.checks:
        checks.setdefault(check.position, []).append(check)
    written = {value.root for call in trace.calls for value in call.writes}
    commits = trace.replace_written_arguments()
    varying = {*trace.arguments, *cotangents}
    varying |= {value for _, value in commits}
    steps: list[Step | None] = []
    for index, value in commits:
        steps.append(Step(np.copyto, (value, trace.arguments[index]), reads=[trace.arguments[index]], writes=[value]))
    for position, call in enumerate((*trace.calls, None)):
        steps += [_check_step(check) for check in checks.get(position, ()) if check.value.root in varying]
        if position == cut:
            # What is decided by the last result of the forward is decided before the backward.
            steps.append(None)
        if call is None:
            break
        views.update((value, call) for value in call.results if value.call is call and value.source is not None)
        if call.is_view:
            continue
        fills = call.function in FILLED
        if not call.writes and all(value.call is not call for value in call.results):
            # It returned what it was given.
            continue
        is_constant = fills or (not call.writes and not any(value.root in varying for value in call.reads()))
        if is_constant and not getattr(call.function, "is_random", False) and not _roots(call.results) & written:
            # The same each time, and nobody writes into it: what the traced run made.
            continue
        varying |= _roots(call.results) | _roots(call.writes)
        if fills:
            filled = call.results[0]
            steps.append(Step(np.copyto, (filled, FILLED[call.function]), writes=(filled,)))
        elif call.function not in EMPTY:
            step = _lowered(call)
            step.errstate = call.errstate
            steps.append(step)
    at = steps.index(None)
    forward, backward = [step for step in steps[:at] if step], [step for step in steps[at:] if step]
    gradients = _without_copies(gradients, backward)
    outputs = _computed(outputs, forward)
    wanted = _roots(outputs) | {value for _, value in commits}
    live = wanted | _roots(value for value in gradients if value is not None)
    backward = _needed(backward, live)
    forward = _needed(forward, live)
    return Program(trace.arguments, outputs, cotangents, gradients, forward, backward, views, commits, trace.errstate)


def _is_spread(array: np.ndarray) -> bool:
    axes = zip(array.shape, array.strides, np.empty_like(array).strides, strict=True)
    return array.size > 0 and any(length > 1 and stride != usual for length, stride, usual in axes)


def _roots(values: Iterable[Value]) -> set[Value]:
    return {value.root for value in values}


def _without_copies(gradients: list[Value | None], steps: list[Step]) -> list[Value | None]:
    """Return in the place of a gradient what it is a copy of, where the engine makes none: the table copies it anyway.

    The engine hands over what nobody else has as it lies in memory. Of parts of one array, that is the last.
    """
    last = {value.root: index for index, step in enumerate(steps) for value in step.writes}
    sources: dict[Value, Value] = {}
    for index, step in enumerate(steps):
        source = _copied_by(step)
        # Neither is written into once it is copied.
        if source is not None and last.get(source.root, index) < last[step.args[0].root] == index:
            sources[step.args[0]] = source
    found: list[Value | None] = []
    taken: dict[Value, Value] = {}
    for gradient in reversed(gradients):
        source = None if gradient is None else sources.get(gradient)
        if gradient is None or source is None:
            found.append(gradient)
            continue
        is_sole = taken.setdefault(source.root, source) is source and source.array.flags.writeable
        found.append(source if is_sole or source.array.strides == gradient.array.strides else gradient)
    return found[::-1]


def _copied_by(step: Step) -> Value | None:
    """Return what a step copies, whole and without a conversion; None where it does something else."""
    if step.function is not np.copyto or len(step.args) != 2 or step.kwargs:
        return None
    target, source = step.args
    return source if type(source) is Value and source.array.dtype == target.array.dtype else None


def _computed(outputs: list[Value], steps: list[Step]) -> list[Value]:
    """Return what outputs are copies of in their place, if neither is written into otherwise: the table copies it."""
    computed = {value for step in steps for value in step.writes}
    places: dict[Value, list[int]] = {}
    for at, step in enumerate(steps):
        for root in _roots(step.writes):
            places.setdefault(root, []).append(at)

    def source_of(output: Value) -> Value:
        root, written = output.root, places.get(output.root, [])
        step = steps[written[0]] if len(written) == 1 else None
        source = None if step is None or step.args[0] is not root else _copied_by(step)
        if source is None or source not in computed or places[source.root][-1] > written[0]:
            return output
        layout = source.array.shape, source.array.strides
        lie_alike = all((one.array.shape, one.array.strides) == layout for one in (root, output))
        return source if lie_alike else output

    return list(map(source_of, outputs))


def _needed(steps: list[Step], live: set[Value]) -> list[Step]:
    """Return the steps but for copies that nobody reads, and add to what is live what they read.

    Any other call may raise, warn, draw a number, or have a result of another shape.
    """
    kept: list[Step] = []
    for step in reversed(steps):
        if step.function is not np.copyto or _roots(step.writes) & live:
            live |= _roots(step.reads)
            kept.append(step)
    return kept[::-1]


def _check_step(check: Check) -> Step:
    return Step(Comparison(check), (check.value,), reads=(check.value,))


def _lowered(call: Call) -> Step:
    """Return a step that does what a call does, and writes its result into memory that is there."""
    function, args = call.function, call.args
    kwargs = {name: value for name, value in call.kwargs.items() if value is not None or name not in ("out", "dtype")}
    reads = [*call.reads()]
    made = [value for value in call.results if value.call is call]
    if call.writes and not made:
        in_place = (
            UFUNCS.get(getattr(operator, function.__name__.removeprefix("i"), None)) if _is_in_place(function) else None
        )
        if in_place is not None:
            return Step(in_place, (*args, args[0]), reads=reads, writes=call.writes)
        out = kwargs.get("out")
        out = out[0] if isinstance(out, tuple) and len(out) == 1 else out
        if isinstance(function, np.ufunc) and len(kwargs) == 1 and type(out) is Value and len(args) == function.nin:
            return Step(function, (*args, out), reads=reads, writes=call.writes)
        return Step(function, args, kwargs, reads=reads, writes=call.writes)
    writes = [*call.writes, *made]
    if len(made) == 1 and type(call.returned) is Value and not call.writes:
        out = made[0]
        if out.is_scalar and function in UFUNCS and out.array.dtype.kind != "b":
            # An operator of NumPy's numbers, which has warnings of its own.
            numbers = [type(one) is Value and one.is_scalar for one in args]
            return Step(OfNumbers(function, numbers), args, kwargs, reads=reads, writes=writes, results=[out])
        ufunc = UFUNCS.get(function, function)
        if function is operator.pow and type(args[1]) in (int, float) and args[1] == 2 and out.array.dtype.kind == "f":
            # What NumPy chooses for that exponent.
            ufunc = np.square
        if isinstance(ufunc, np.ufunc) and "subok" not in kwargs:
            return Step(ufunc, (*args[: ufunc.nin], out), kwargs, reads=reads, writes=writes)
        if _is_reduction(function) and len(args) <= 3:
            return Step(function, args, {**kwargs, "out": out}, reads=reads, writes=writes)
        if function in _TAKE_OUT and len(args) <= 2 and "dtype" not in kwargs:
            return Step(function, args, {**kwargs, "out": out}, reads=reads, writes=writes)
        if function is np.ndarray.copy or function is np.copy:
            return Step(np.copyto, (out, args[0]), reads=reads, writes=writes)
        if function is np.ndarray.astype:
            return Step(np.copyto, (out, args[0]), {"casting": "unsafe"}, reads=reads, writes=writes)
    places = [value if value.call is call and value.source is None else None for value in call.results]
    return Step(function, args, kwargs, reads=reads, writes=writes, results=places)


def _is_in_place(function: Callable[..., Any]) -> bool:
    return getattr(operator, getattr(function, "__name__", ""), None) is function and function.__name__.startswith("i")


def _is_reduction(function: Callable[..., Any]) -> bool:
    return isinstance(getattr(function, "__self__", None), np.ufunc) and function.__name__ in ("reduce", "accumulate")
