"""A trace: the calls of NumPy that a function makes while it runs over arrays that record them.

A TracedArray has real numbers, and does to them at once what is asked of it: a function branches on values, shapes and
layouts as it does without a trace. Each call is noted, with what it reads, writes and returns.
"""

from __future__ import annotations

import operator
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ..core.arrays.tensor_base import TensorBase
from ..core.settings.callers import is_own_file
from ..core.settings.process import set_trace_function
from .error_ways import told_before
from .numpy_calls import (
    COMPARING,
    MAKING,
    QUIET,
    VIEWING,
    WRITING,
    matrix_transposed,
    part,
    transposed,
    writes_as_told,
)

__all__ = [
    "Call",
    "Check",
    "Refusal",
    "Trace",
    "TracedArray",
    "Untraceable",
    "Value",
    "copied",
    "map_values",
    "name_of",
    "values_in",
]


@final
class Refusal(Exception):
    """A mistake in a function, with which its program would be wrong without a sign of it."""


@final
class Untraceable(Exception):
    """What a function does cannot be recorded: it stays eager."""


@final
class Value:
    """An array of the trace.

    Args:
        number: how many there were before.
        array: the array that it was in the traced run: its numbers, and how it lies in memory.
        kind: "argument", "constant", "result", or "grad", the `.grad` of an argument, which nobody may read.
        source: the value whose memory it shares; None where it has its own.
    """

    __slots__ = (
        "array",
        "call",
        "is_scalar",
        "kind",
        "line",
        "name",
        "number",
        "source",
        "traced",
    )

    def __init__(self, number: int, array: np.ndarray, kind: str, source: Value | None = None, name: str = "") -> None:
        self.number = number
        self.array = array
        self.kind = kind
        self.source = source
        self.name = name
        #: The one array that stands for it while the function runs, so that it can be told by its identity.
        self.traced: TracedArray | None = None
        #: Of a constant: the line of the user's code that used it first.
        self.line: str = ""
        #: The call that has made it; None where none has.
        self.call: Call | None = None
        #: Whether it was one of NumPy's numbers, whose operators have other bits than those of arrays.
        self.is_scalar: bool = False

    @property
    def root(self) -> Value:
        """The value that owns the memory."""
        value = self
        while value.source is not None:
            value = value.source
        return value

    def __repr__(self) -> str:
        return f"%{self.number}:{self.array.dtype}{list(self.array.shape)}"


@final
class Call:
    """A call of the trace, `results = function(*args, **kwargs)`, with Values in the place of traced arrays."""

    __slots__ = ("args", "errstate", "function", "is_view", "kwargs", "line", "results", "returned", "writes")

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        returned: Any,
        results: list[Value],
        writes: list[Value],
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        #: What it returned, with Values in it.
        self.returned = returned
        #: The Values in what it returned.
        self.results = results
        #: The Values into whose memory it wrote.
        self.writes = writes
        #: Of one that writes: the line of the user's code that made it.
        self.line: str = ""
        #: How it treats floating-point errors otherwise than the caller of the function.
        self.errstate: dict[str, Any] = {}
        #: Whether it only looks at memory in another way.
        self.is_view: bool = bool(results) and not writes and all(one.source is not None for one in results)

    def reads(self) -> Iterator[Value]:
        """Yield the Values among the arguments."""
        yield from values_in(self.args)
        yield from values_in(self.kwargs)

    def __repr__(self) -> str:
        return f"{self.results} = {name_of(self.function)}({self.args}, {self.kwargs})"


@final
class Check:
    """A point of the trace at which the run went on with a number: it must be the same number the next time."""

    __slots__ = ("expected", "position", "read", "value")

    def __init__(self, position: int, value: Value, read: Callable[[np.ndarray], Any], expected: Any) -> None:
        self.position = position
        self.value = value
        self.read = read
        self.expected = expected


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function as people know it: add, or add.reduce."""
    owner = getattr(function, "__self__", None)
    name = getattr(function, "__name__", str(function))
    return f"{owner.__name__}.{name}" if isinstance(owner, np.ufunc) else name


def values_in(tree: object) -> Iterator[Value]:
    """Yield the Values in nested arguments."""
    if type(tree) is Value:
        yield tree
    elif isinstance(tree, (tuple, list)):
        for part in tree:
            yield from values_in(part)
    elif type(tree) is dict:
        yield from values_in(tuple(tree.values()))
    elif type(tree) is slice:
        yield from values_in((tree.start, tree.stop, tree.step))


def map_values(tree: Any, change: Callable[[Any], Any]) -> Any:
    """Return nested arguments with every part that is no container changed."""
    kind = type(tree)
    if kind is tuple or kind is list:
        return kind([map_values(part, change) for part in tree])
    if isinstance(tree, tuple):
        return kind(*[map_values(part, change) for part in tree])
    if kind is dict:
        return {key: map_values(part, change) for key, part in tree.items()}
    if kind is slice:
        return slice(*[map_values(part, change) for part in (tree.start, tree.stop, tree.step)])
    return change(tree)


_READS_GRAD = "it reads the .grad of an argument"


@final
class Trace:
    """What one run of a function has recorded."""

    def __init__(self) -> None:
        self._thread: int = threading.get_ident()
        self.values: list[Value] = []
        self.arguments: list[Value] = []
        self.calls: list[Call] = []
        self.checks: list[Check] = []
        #: By the id of a bare array, the constant that it is.
        self._known: dict[int, Value] = {}
        #: How NumPy treats floating-point errors around the function.
        self.errstate: dict[str, Any] = {**np.geterr()}
        #: What NumPy calls there for an error, if it is to call something.
        self._errcall: Any = np.geterrcall()
        #: Why there is no program, found where a function may go on.
        self.broken: str | None = None

    def argument(self, array: np.ndarray, name: str) -> TracedArray:
        """Return a traced array in the place of an argument: a copy, into which the traced run may write."""
        value = self._new(_twin(array), "argument", name=name)
        self.arguments.append(value)
        return self.traced(value)

    def traced(self, value: Value) -> TracedArray:
        """Return the array that stands for a Value in the traced run."""
        if value.traced is None:
            value.traced = TracedArray(self, value)
        return value.traced

    def replace_written_arguments(self) -> list[tuple[int, Value]]:
        """Have the program write into copies of the arguments that it writes into; return those by their numbers."""
        roots = {value.root for call in self.calls for value in call.writes}
        found = [(index, value) for index, value in enumerate(self.arguments) if value in roots]
        for index, value in found:
            value.kind = "result"
            self.arguments[index] = self._new(value.array, "argument", name=value.name)
        return found

    def end(self) -> None:
        """Let go of what only the traced run needs."""
        for value in self.values:
            value.traced = None

    def grad(self, array: np.ndarray) -> TracedArray:
        """Return a traced array in the place of the `.grad` of an argument."""
        return self.traced(self._new(array, "grad"))

    def cotangent(self, array: np.ndarray) -> Value:
        """Return the Value of a gradient with which a backward begins."""
        return self._new(array, "argument")

    def _new(self, array: np.ndarray, kind: str, source: Value | None = None, name: str = "") -> Value:
        value = Value(len(self.values), array, kind, source, name)
        self.values.append(value)
        return value

    def value_of(self, array: Any) -> Value:
        """Return the Value of an array, traced or bare."""
        if type(array) is TracedArray:
            if array._trace is not self:
                raise self.refused("it uses an array of another trace")
            return array._value
        found = self._known.get(id(array))
        if found is None:
            # The Value keeps the array, and so its id.
            found = self._known[id(array)] = self._new(array, "constant")
            found.line = _line_of_the_user(sys._getframe(1))
        return found

    def _with_values(self, part: object) -> Any:
        return self.value_of(part) if isinstance(part, np.ndarray) else part

    def call(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        writes: tuple[Any, ...] = (),
        operand: Callable[[Any], Any] | None = None,
    ) -> Any:
        """Call a function, note the call, and return its result with traced arrays in it."""
        if threading.get_ident() != self._thread:
            raise self.refused("it computes in another thread, of whose functions nothing is known")
        # No function of a user runs in here, and there are many of ours.
        observer = sys.gettrace()
        if observer is None:
            return self._call(function, args, kwargs, writes, operand)
        set_trace_function(None)
        try:
            return self._call(function, args, kwargs, writes, operand)
        finally:
            set_trace_function(observer)

    def _call(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        writes: tuple[Any, ...],
        operand: Callable[[Any], Any] | None,
    ) -> Any:
        args, kwargs = map_values(args, self._with_values), map_values(kwargs, self._with_values)
        operands = [*values_in(args), *values_in(kwargs)]
        written = self._written(writes, kwargs, operands)
        locked = [] if writes_as_told(function) else _locked(operands, written)
        operand = operand or _array_of
        try:
            with told_before(np.geterr()):
                # Who is told of errors is told by the call, which is eager.
                result = function(*map_values(args, operand), **map_values(kwargs, operand))
        except Exception as error:
            # Somebody may catch it, and the program would go on as if it were raised each time.
            self.broken = f"{name_of(function)} raises {type(error).__name__} in it"
            raise
        finally:
            for array in locked:
                array.flags.writeable = True
        results: list[Value] = []
        returned = map_values(result, lambda part: self._noted(part, function, operands, results))
        shares = any(one.source is not None or one in operands for one in results)
        if shares and function not in VIEWING and not all(one in written for one in results):
            # By numbers, as trim_zeros: which part it is the next time is not known.
            raise self.refused(f"{name_of(function)} returns a part of an array in it")
        fixed = self._fixed_operands(function, args, operands, results)
        if fixed:
            args = map_values(args, lambda part: fixed.get(part, part) if type(part) is Value else part)
            kwargs = map_values(kwargs, lambda part: fixed.get(part, part) if type(part) is Value else part)
        call = Call(function, args, kwargs, returned, results, written)
        if written:
            call.line = _line_of_the_user(sys._getframe(1))
        if np.geterrcall() is not self._errcall:
            raise self.refused("it is told of floating-point errors itself, by errstate(call=...)")
        call.errstate = {kind: way for kind, way in np.geterr().items() if way != self.errstate[kind]}
        for value in results:
            if value.call is None and value not in operands:
                value.call = call
        self.calls.append(call)
        return map_values(returned, lambda part: self.traced(part) if type(part) is Value else part)

    def _written(self, writes: tuple[Any, ...], kwargs: dict[str, Any], operands: list[Value]) -> list[Value]:
        """Return the Values that a call writes into.

        Raises:
            Untraceable: it uses the `.grad` of an argument, or writes into an array that is not recorded.
        """
        if any(one.kind == "grad" for one in operands):
            raise self.refused(_READS_GRAD)
        written = [self.value_of(one) for one in writes]
        if kwargs.get("out") is not None:
            written += values_in(kwargs["out"])
        for value in written:
            if value.kind == "constant":
                # What is then computed with that array alone would not be seen.
                raise self.refused(
                    f"it writes into an array of shape {value.array.shape} that is not made like its arguments"
                )
        return written

    def _noted(self, part: Any, function: Callable[..., Any], operands: list[Value], results: list[Value]) -> Any:
        """Return the Value of an array or a number that a call has returned, and add it to the results."""
        if isinstance(part, np.ndarray):
            value = next((one for one in operands if one.array is part), None)
            if value is None:
                source = next((one for one in operands if _shares_memory(part, one.array)), None)
                value = self._new(np.asarray(part), "result", source)
            results.append(value)
            return value
        if isinstance(part, np.generic) and part.dtype.kind in "biufc":
            value = self._new(np.asarray(part), "result")
            value.is_scalar = True
            results.append(value)
            return value
        if part is not None:
            self.broken = f"{name_of(function)} returns something other than an array in it"
        return part

    def _fixed_operands(
        self, function: Callable[..., Any], args: tuple[Any, ...], operands: list[Value], results: list[Value]
    ) -> dict[Value, Any]:
        """Return the operands by whose numbers it is decided before the program runs where a result lies, and those."""
        if function in MAKING:
            like = set(values_in(args[:1]))
            found = {one for one in operands if one not in like}
        elif any(one.source is not None and one.call is None for one in results):
            viewed = {one.source for one in results}
            found = {one for one in operands if one not in viewed}
        else:
            return {}
        for one in found:
            self.check(one, _number if one.is_scalar else operator.methodcaller("tolist"))
        return {one: _fixed(one) for one in found}

    def refused(self, reason: str) -> Untraceable:
        """Return the error that ends the trace; the function may catch it, and there is no program nevertheless."""
        self.broken = reason
        return Untraceable(reason)

    def check(self, value: Value, read: Callable[[np.ndarray], Any]) -> Any:
        """Return what is read from an array, which decides how the run goes on."""
        if value.kind == "grad":
            raise self.refused(_READS_GRAD)
        try:
            found = read(value.array)
        except Exception as error:
            self.broken = f"it reads a number in a way that raises {type(error).__name__}"
            raise
        self.checks.append(Check(len(self.calls), value, read, found))
        return found


def _locked(operands: list[Value], written: list[Value]) -> list[np.ndarray]:
    """Have operands of a function raise where it writes into them, and return the arrays of those that did not."""
    arrays = {id(one.array): one.array for one in operands if one not in written and one.array.flags.writeable}
    for array in arrays.values():
        array.flags.writeable = False
    return list(arrays.values())


def _twin(array: np.ndarray) -> np.ndarray:
    """Return an array with the same numbers that lies in memory as the array does, and is a view where that is one."""
    twin = copied(array)
    if array.base is not None and twin.base is None:
        twin = twin[...]
    twin.flags.writeable = array.flags.writeable
    return twin


def copied(array: np.ndarray) -> np.ndarray:
    """Return a copy that lies in memory as the array does."""
    if array.flags.aligned and (array.flags.c_contiguous or array.flags.f_contiguous):
        twin = array.copy("K")
        if twin.strides == array.strides:
            return twin
    low, high = np.lib.array_utils.byte_bounds(array)
    start: int = array.__array_interface__["data"][0] - low
    # Aligned or not as the array is.
    memory = np.zeros(high - low + 64, np.uint8)
    offset = (low - memory.__array_interface__["data"][0]) % 64
    twin = np.ndarray(array.shape, array.dtype, memory[offset:], start, array.strides)
    twin[...] = array
    return twin


def _line_of_the_user(frame: FrameType | None) -> str:
    """Return the line that called asyncgrad or NumPy, as "file:line"."""
    while frame is not None and (
        is_own_file(frame.f_code.co_filename) or frame.f_globals.get("__name__", "").startswith("numpy.")
    ):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _is_users(frame: FrameType) -> bool:
    return not is_own_file(frame.f_code.co_filename) and not frame.f_globals.get("__name__", "").startswith("numpy.")


def _number(array: np.ndarray) -> Any:
    return array[()]


def _fixed(value: Value) -> Any:
    return value.array[()] if value.is_scalar else value.array.copy("K")


def _array_of(part: Any) -> Any:
    return part.array if type(part) is Value else part


def _number_or_array_of(part: Any) -> Any:
    return part.array[()] if type(part) is Value and part.is_scalar else _array_of(part)


def _shares_memory(array: np.ndarray, other: np.ndarray) -> bool:
    if array.base is None:
        return False
    if array.size and other.size:
        return np.may_share_memory(array, other)
    # What is empty shares no element, and yet it is a view.
    return array.base is other or (other.base is not None and array.base is other.base)


@final
class TracedArray:
    """An array that records what is done to it.

    It says that it is an `ndarray`, so that whoever asks takes the path of NumPy's own arrays; but it is none, so that
    nothing reads its memory unnoticed.
    """

    __slots__ = ("__weakref__", "_trace", "_value")

    __array_priority__ = 1000

    if not TYPE_CHECKING:
        # Type checkers know of no object with two classes. Rules take the path of NumPy's arrays, which have no hash.
        __hash__ = None

        @property
        def __class__(self):
            if self._value.is_scalar and not is_own_file(sys._getframe(1).f_code.co_filename):
                # One of NumPy's numbers, which is none of its arrays; asyncgrad makes an array of each.
                return type(self._value.array[()])
            return np.ndarray

    def __init__(self, trace: Trace, value: Value) -> None:
        self._trace = trace
        self._value = value

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in TracedArray.__slots__:
            raise self._trace.refused(f"it sets the {name} of an array")
        object.__setattr__(self, name, value)

    @property
    def __cuda_array_interface__(self) -> Any:
        # NumPy reads no memory by it, and whoever asks where an array lies finds out.
        return self._value.array.__array_interface__

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise self._trace.refused("a traced array was made a bare one")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise self._trace.refused("a traced array was pickled")

    def __copy__(self) -> Any:
        return self._trace.call(np.ndarray.copy, (self,), {"order": "K"})

    def __deepcopy__(self, memo: object) -> Any:
        return self._trace.call(np.ndarray.copy, (self,), {"order": "K"})

    def __divmod__(self, other: Any) -> Any:
        return np.divmod(self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return np.divmod(other, self)

    def dot(self, b: Any, out: Any = None) -> Any:
        """Return the product with an array, in `out` where that is given."""
        return self._trace.call(np.ndarray.dot, (self, b), {} if out is None else {"out": out})

    def as_array(self) -> TracedArray:
        """Return an array of no axes for a number; an array itself."""
        found: TracedArray = self._trace.call(operator.getitem, (self, Ellipsis), {}) if self._value.is_scalar else self
        return found

    def part(self, shape: tuple[int, ...], dtype: np.dtype[Any], offset: int, strides: tuple[int, ...]) -> Any:
        """Return a view of the memory of this array, which is C-contiguous."""
        return self._trace.call(part, (self, shape, dtype, offset, strides), {})

    def call_whole(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return what a function of arrays returns, which is called with arrays that do not record."""
        return self._trace.call(function, args, {})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            # NumPy and others ask any object for some of these.
            raise AttributeError(name)
        raise self._trace.refused(f"a traced array was asked for its {name}")

    shape = property(lambda self: self._value.array.shape)
    dtype = property(lambda self: self._value.array.dtype)
    ndim = property(lambda self: self._value.array.ndim)
    size = property(lambda self: self._value.array.size)
    itemsize = property(lambda self: self._value.array.itemsize)
    nbytes = property(lambda self: self._value.array.nbytes)
    strides = property(lambda self: self._value.array.strides)
    flags = property(lambda self: self._value.array.flags)

    @property
    def flat(self) -> Any:
        """The elements in C order."""
        if not self._value.array.flags.c_contiguous:
            # What is written into them would be written into a copy.
            raise self._trace.refused("a traced array that is not C-contiguous was asked for its flat")
        return self._trace.call(np.ravel, (self,), {})

    def __len__(self) -> int:
        return len(self._value.array)

    def __repr__(self) -> str:
        raise self._trace.refused("it shows an array as text")

    def __format__(self, spec: str) -> str:
        raise self._trace.refused("it shows an array as text")

    @property
    def base(self) -> TracedArray | None:
        """The array that owns the memory; None where this one does."""
        if self._value.kind == "argument" and self._value.array.base is not None and _is_users(sys._getframe(1)):
            raise self._trace.refused("it looks at what an argument is a view of")
        return None if self._value.source is None else self._trace.traced(self._value.root)

    T = property(lambda self: self._trace.call(transposed, (self,), {}))
    mT = property(lambda self: self._trace.call(matrix_transposed, (self,), {}))
    real = property(lambda self: self._trace.call(np.real, (self,), {}))
    imag = property(lambda self: self._trace.call(np.imag, (self,), {}))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(isinstance(one, TensorBase) for one in inputs):
            # A tensor beside it records the call by its rule.
            return NotImplemented
        name = _OPERATORS.get(ufunc)
        if method == "__call__" and name and all(map(_is_number, inputs)) and not _rounds(name, inputs):
            # It may be an operator of a number of NumPy's.
            raise self._trace.refused(f"it computes {name} of single numbers")
        function = ufunc if method == "__call__" else getattr(ufunc, method)
        return self._trace.call(function, inputs, kwargs, inputs[:1] if method == "at" else ())

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        trace = self._trace
        if any(issubclass(kind, TensorBase) for kind in types):
            return NotImplemented
        if function in COMPARING:
            return bool(COMPARING[function](*args, **kwargs))
        if function is np.may_share_memory and _is_users(sys._getframe(1)):
            raise trace.refused("it asks whether arrays share memory")
        if function in QUIET:
            return function(*map_values(args, _bare), **map_values(kwargs, _bare))
        if function not in WRITING:
            return trace.call(function, args, kwargs)
        return trace.call(function, args, kwargs, args[:1] or (kwargs[WRITING[function]],))

    def __getitem__(self, index: Any) -> Any:
        return self._trace.call(operator.getitem, (self, index), {})

    def __setitem__(self, index: Any, value: Any) -> None:
        self._trace.call(operator.setitem, (self, index, value), {}, (self,))

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __contains__(self, item: Any) -> bool:
        return bool((self == item).any())

    def __bool__(self) -> bool:
        return bool(self._trace.check(self._value, bool))

    def __index__(self) -> int:
        return int(self._trace.check(self._value, operator.index))

    def __int__(self) -> int:
        return int(self._trace.check(self._value, int))

    def __float__(self) -> float:
        return float(self._trace.check(self._value, float))

    def __complex__(self) -> complex:
        return complex(self._trace.check(self._value, complex))

    def item(self, *args: Any) -> Any:
        """Return an element as a number, which must be the same the next time."""
        return self._trace.check(self._value, operator.methodcaller("item", *args))

    def tolist(self) -> Any:
        """Return the elements as numbers, which must be the same the next time."""
        return self._trace.check(self._value, operator.methodcaller("tolist"))


def _bare(part: Any) -> Any:
    return part._value.array if type(part) is TracedArray else part


#: The methods of ndarray that read, and those that write.
_READ = """
    all any argmax argmin argpartition argsort astype byteswap choose clip compress conj conjugate copy cumprod
    cumsum diagonal flatten max mean min nonzero prod ravel repeat reshape round searchsorted squeeze std
    sum swapaxes take trace transpose var view
"""
_WRITE = ["fill", "sort", "partition", "put"]


def _method(name: str, writes: bool) -> Callable[..., Any]:
    function = getattr(np.ndarray, name)

    def method(self: TracedArray, *args: Any, **kwargs: Any) -> Any:
        return self._trace.call(function, (self, *args), kwargs, (self,) if writes else ())

    return method


#: Operators that round correctly where numbers are real, and so have the same bits of numbers as of arrays.
_ROUNDED = {"add", "sub", "mul", "truediv", "lt", "le", "eq", "ne", "gt", "ge"}
_ROUNDED |= {"and_", "or_", "xor", "iadd", "isub", "imul", "itruediv", "iand", "ior", "ixor"}


_OPERATORS = {
    np.power: "pow",
    np.floor_divide: "floordiv",
    np.remainder: "mod",
    np.multiply: "mul",
    np.divide: "truediv",
}


def _is_number(operand: object) -> bool:
    return operand._value.is_scalar if type(operand) is TracedArray else not isinstance(operand, np.ndarray)


def _rounds(name: str, operands: tuple[Any, ...]) -> bool:
    has_complex = any(np.result_type(_bare(one)).kind == "c" for one in operands)
    return name in _ROUNDED and (not has_complex or name in ("add", "sub", "eq", "ne", "iadd", "isub"))


def _operator(name: str, is_swapped: bool, is_in_place: bool) -> Callable[..., Any]:
    # NumPy's own operators: they choose among ufuncs, as a power of 2 is a square.
    function = getattr(operator, name)
    plain = function
    if is_in_place:
        plain = getattr(operator, name[1:]) if hasattr(operator, name[1:]) else getattr(operator, f"{name[1:]}_")

    def method(self: TracedArray, other: Any) -> Any:
        if isinstance(other, TensorBase):
            return NotImplemented
        if not isinstance(other, (np.ndarray, np.generic, int, float, complex, list, tuple)):
            raise self._trace.refused(f"it computes {name} of an array and an object of class {type(other).__name__}")
        operands = (other, self) if is_swapped else (self, other)
        if all(map(_is_number, operands)) and not _rounds(name, operands):
            # NumPy's numbers have other bits than arrays of no axes, and which of both it is cannot be seen here.
            raise self._trace.refused(f"it computes {name} of single numbers")
        if not is_in_place:
            return self._trace.call(function, operands, {}, (), _number_or_array_of)
        if self._value.is_scalar:
            # NumPy's numbers cannot be written into: the name stands for another number then.
            return self._trace.call(plain, operands, {}, (), _number_or_array_of)
        found = self._trace.call(function, operands, {}, (self,), _number_or_array_of)
        return self if found._value is self._value else found

    return method


def _unary(name: str) -> Callable[..., Any]:
    function = getattr(operator, name)

    def method(self: TracedArray) -> Any:
        if name == "abs" and self._value.is_scalar and self.dtype.kind == "c":
            raise self._trace.refused("it computes abs of a single number")
        return self._trace.call(function, (self,), {}, (), _number_or_array_of)

    return method


_ARITHMETIC = "add sub mul truediv floordiv mod matmul and or xor lshift rshift pow"


def _add_methods() -> None:
    for name in _READ.split():
        setattr(TracedArray, name, _method(name, False))
    for name in _WRITE:
        setattr(TracedArray, name, _method(name, True))
    for name in _ARITHMETIC.split():
        plain = f"{name}_" if name in ("and", "or") else name
        setattr(TracedArray, f"__{name}__", _operator(plain, False, False))
        setattr(TracedArray, f"__r{name}__", _operator(plain, True, False))
        setattr(TracedArray, f"__i{name}__", _operator(f"i{name}", False, True))
    for name in ["lt", "le", "eq", "ne", "gt", "ge"]:
        setattr(TracedArray, f"__{name}__", _operator(name, False, False))
    for name in ["neg", "pos", "abs", "invert"]:
        setattr(TracedArray, f"__{name}__", _unary(name))


_add_methods()
