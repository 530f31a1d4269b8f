"""Kernels in machine code: the loop of a Kernel in the language of LLVM, and what has been compiled in this process.

Arithmetic is written by LLVM's constrained functions, which it neither contracts, nor leaves out, nor does before it is
asked for: an operation raises the flags of floating-point errors that NumPy's raises. The loop is written with vectors,
so that no optimizer is needed to find them; what remains of an axis is done by shorter ones.
"""

from __future__ import annotations

import functools
import platform
import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from ..core.settings.process import hold_in_forks
from .exponential import Exponential
from .fusion import Instruction, Kernel, Operand
from .inner_loops import inner_loop
from .machine_code import compiled_functions, features_of_processor
from .runner import LINE

__all__ = ["Compiled", "compiled_kernel", "has_quiet_comparisons", "source_of"]

#: How many kernels are kept for other programs.
_MOST_KEPT = 512
#: How many bytes the numbers of a vector have: several registers, so that operations need not wait for one another.
_VECTOR_BYTES = 128
_TYPES = {"f": "float", "d": "double", "l": "i64", "i": "i32", "?": "i1"}
_SIZES = {"f": 4, "d": 8, "l": 8, "i": 4, "?": 1}
_SUFFIXES = {"f": "f32", "d": "f64", "l": "i64", "i": "i32", "?": "i1"}
_ARITHMETIC = {"add": "add", "subtract": "sub", "multiply": "mul", "divide": "div"}
_CONDITIONS = {
    "less": ("olt", "slt"),
    "less_equal": ("ole", "sle"),
    "greater": ("ogt", "sgt"),
    "greater_equal": ("oge", "sge"),
    "equal": ("oeq", "eq"),
    "not_equal": ("une", "ne"),
}
_ROUNDED, _STRICT = 'metadata !"round.tonearest"', 'metadata !"fpexcept.strict"'


@final
class Compiled:
    """A kernel in machine code; who calls it keeps this.

    Attributes:
        address: of a function as NumPy's inner loops are. It is given the bases of the runner as the first array, and
            as its data 64-bit integers: the address of what is set to 1 for a NaN, and for each operand its address, or
            where its base is among the bases, in bytes, and its offset.
    """

    __slots__ = ("_engine", "address")

    def __init__(self, engine: Any, address: int) -> None:
        self._engine = engine
        self.address = address


_kept: OrderedDict[Kernel, Compiled] = OrderedDict()
_lock = hold_in_forks(threading.Lock())


def compiled_kernel(kernel: Kernel) -> Compiled:
    """Return a kernel in machine code; kernels that are equal are compiled once."""
    with _lock:
        found = _kept.get(kernel)
        if found is not None:
            _kept.move_to_end(kernel)
            return found
    # Not under the lock: others may be had meanwhile. Two threads that compile the same do no harm.
    made = _compile(source_of(kernel, has_quiet_comparisons()))
    with _lock:
        _kept[kernel] = made
        while len(_kept) > _MOST_KEPT:
            _kept.popitem(last=False)
    return made


def _compile(source: str) -> Compiled:
    engine = compiled_functions(source)
    return Compiled(engine, engine.get_function_address("kernel"))


@functools.cache
def has_quiet_comparisons() -> bool:
    """Tell whether this machine compares vectors without a flag for NaN.

    Where it does not, LLVM cannot compile the constrained comparisons, and aborts the process. By others a NaN has the
    flag of an invalid operation, so that NumPy's functions run again.
    """
    return platform.machine().lower() in ("x86_64", "amd64") and bool(features_of_processor().get("avx"))


def source_of(kernel: Kernel, is_quiet: bool) -> str:
    """Return the loop of a kernel in LLVM's language; `is_quiet` is whether comparisons are to raise no flags."""
    return _Writer(kernel, is_quiet).write()


@final
class _Writer:
    """Writes the function of a kernel."""

    __slots__ = (
        "_block",
        "_declared",
        "_is_quiet",
        "_kernel",
        "_lines",
        "_memory",
        "_names",
        "_nans",
        "_pointers",
        "_splats",
        "_widths",
    )

    def __init__(self, kernel: Kernel, is_quiet: bool) -> None:
        self._kernel = kernel
        self._is_quiet = is_quiet
        self._lines: list[str] = []
        #: By the width of a vector, what sets memory aside for NumPy's loop, once for all elements.
        self._memory: dict[int, list[str]] = {}
        self._names = 0
        self._declared: set[str] = set()
        self._block = "entry"
        #: Of each operand, the name of where it begins.
        self._pointers: list[str] = []
        #: By operand and width: the names of what is the same for all elements.
        self._splats: dict[tuple[int, int], str] = {}
        #: By how many elements are compared at once: which of those that have been loaded are NaN.
        self._nans: dict[int, str] = {}
        self._widths = _widths(kernel)

    def write(self) -> str:
        """Return the text."""
        self._add("%bases = load ptr, ptr %addresses")
        self._add("%met = load ptr, ptr %data")
        slot = 1
        for operand in self._kernel.operands:
            self._pointers.append(self._pointer(operand, slot))
            slot += 1 + operand.is_given
        self._load_numbers()
        self._nest(0, list(self._pointers))
        if any(_fills_lines(one, width) for one in self._kernel.operands for width, _ in self._widths):
            # What is written past the caches is there for other threads too.
            self._add("fence seq_cst")
        self._add("ret void")
        body = "\n".join(self._lines)
        head = "define void @kernel(ptr %addresses, ptr %counts, ptr %steps, ptr %data) strictfp {\nentry:"
        memory = [line for lines in self._memory.values() for line in lines]
        return "\n".join([head, *memory, body, "}", *sorted(self._declared), "!0 = !{i32 1}"])

    def _add(self, line: str) -> None:
        self._lines.append("  " + line)

    def _new(self, expression: str) -> str:
        self._names += 1
        self._add(f"%v{self._names} = {expression}")
        return f"%v{self._names}"

    def _begin_block(self, name: str) -> None:
        self._lines.append(f"{name}:")
        self._block = name

    def _slot(self, index: int) -> str:
        return self._new(f"getelementptr i64, ptr %data, i64 {index}")

    def _pointer(self, operand: Operand, slot: int) -> str:
        if not operand.is_given:
            return self._new(f"load ptr, ptr {self._slot(slot)}")
        place = self._new(f"load i64, ptr {self._slot(slot)}")
        base = self._new(f"load ptr, ptr {self._new(f'getelementptr i8, ptr %bases, i64 {place}')}")
        offset = self._new(f"load i64, ptr {self._slot(slot + 1)}")
        return self._new(f"getelementptr i8, ptr {base}, i64 {offset}")

    def _load_numbers(self) -> None:
        """Load what is the same for all elements before the loop: nothing in it writes there."""
        for code in self._kernel.code:
            if code.name == "load" and not any(self._kernel.operands[code.inputs[0]].steps):
                (operand,) = code.inputs
                number = self._loaded(code.kind, self._pointers[operand], 1)
                for width, _ in self._widths:
                    self._splats[operand, width] = self._splat(code.kind, number, width)
                if self._kernel.reports_nan and code.kind in "fd":
                    self._report_nan(self._compared("uno", code.kind, number, number, 1), 1)

    def _nest(self, axis: int, pointers: list[str]) -> None:
        """Write the loops from an axis on; operands begin at these pointers."""
        kernel = self._kernel
        if axis == len(kernel.counts) - 1:
            begin = 0
            for width, times in self._widths:
                self._loop(times, self._body_of(width, begin, pointers))
                begin += width * times
            return

        def inner(index: str) -> None:
            moved = []
            for operand, pointer in zip(kernel.operands, pointers, strict=True):
                step = operand.steps[axis]
                moved.append(self._moved(pointer, index, step) if step else pointer)
            self._nest(axis + 1, moved)

        self._loop(kernel.counts[axis], inner)

    def _moved(self, pointer: str, index: str, step: int) -> str:
        return self._new(f"getelementptr i8, ptr {pointer}, i64 {self._new(f'mul i64 {index}, {step}')}")

    def _loop(self, times: int, body: Callable[[str], None]) -> None:
        if times == 1:
            body("0")
            return
        self._names += 1
        name, before = f"b{self._names}", self._block
        self._add(f"br label %{name}")
        self._begin_block(name)
        place = len(self._lines)
        body(f"%i{name}")
        following = self._new(f"add i64 %i{name}, 1")
        self._lines.insert(place, f"  %i{name} = phi i64 [ 0, %{before} ], [ {following}, %{self._block} ]")
        again = self._new(f"icmp ult i64 {following}, {times}")
        self._add(f"br i1 {again}, label %{name}, label %{name}e")
        self._begin_block(f"{name}e")

    def _body_of(self, width: int, begin: int, pointers: Sequence[str]) -> Callable[[str], None]:
        """Return what writes the code for as many elements at once as the width, beginning at one of the axis."""

        def body(index: str) -> None:
            element = self._new(f"add i64 {self._new(f'mul i64 {index}, {width}')}, {begin}")
            offsets: dict[int, str] = {}
            results: list[str] = []
            self._nans.clear()
            for code in self._kernel.code:
                if code.name in ("load", "store"):
                    operand = self._kernel.operands[code.inputs[0]]
                    step = operand.steps[-1]
                    if step not in offsets:
                        offsets[step] = self._new(f"mul i64 {element}, {step}")
                    pointer = pointers[code.inputs[0]]
                    at = self._new(f"getelementptr i8, ptr {pointer}, i64 {offsets[step]}") if step else pointer
                if code.name == "load":
                    results.append(self._load(code, operand, at, width))
                elif code.name == "store":
                    self._store(operand, results[code.inputs[1]], at, width)
                    results.append("")
                else:
                    results.append(self._computed(code, [results[one] for one in code.inputs], width))
            for lanes, found in self._nans.items():
                self._report_nan(found, lanes)

        return body

    def _load(self, code: Instruction, operand: Operand, at: str, width: int) -> str:
        same = self._splats.get((code.inputs[0], width))
        if same is not None:
            return same
        wide = width if operand.steps[-1] else 1
        found = self._loaded(code.kind, at, wide)
        self._note_nan(code.kind, found, wide)
        return found if wide == width else self._splat(code.kind, found, width)

    def _loaded(self, kind: str, at: str, width: int) -> str:
        if kind != "?":
            return self._new(f"load {_typed(kind, width)}, ptr {at}, align 1")
        byte = _wide("i8", width)
        return self._new(f"icmp ne {byte} {self._new(f'load {byte}, ptr {at}, align 1')}, zeroinitializer")

    def _splat(self, kind: str, number: str, width: int) -> str:
        if width == 1:
            return number
        vector = _typed(kind, width)
        first = self._new(f"insertelement {vector} poison, {_TYPES[kind]} {number}, i64 0")
        return self._new(f"shufflevector {vector} {first}, {vector} poison, <{width} x i32> zeroinitializer")

    def _store(self, operand: Operand, value: str, at: str, width: int) -> None:
        kind = operand.kind
        if kind == "?":
            value = self._new(f"zext {_typed(kind, width)} {value} to {_wide('i8', width)}")
        type_ = _wide("i8", width) if kind == "?" else _typed(kind, width)
        is_past = _fills_lines(operand, width)
        self._add(f"store {type_} {value}, ptr {at}, align {f'{LINE}, !nontemporal !0' if is_past else 1}")

    def _note_nan(self, kind: str, value: str, width: int) -> None:
        """Note whether there is a NaN among what is loaded: the code for some elements tells of all at its end."""
        if not self._kernel.reports_nan or kind not in "fd":
            return
        low, high, lanes = value, value, width
        if width > 2:
            # A comparison of two numbers tells of a NaN in both of them.
            lanes = width // 2
            low, high = (self._part(kind, value, width, begin, lanes) for begin in (0, lanes))
        found = self._compared("uno", kind, low, high, lanes)
        before = self._nans.get(lanes)
        self._nans[lanes] = found if before is None else self._new(f"or {_typed('?', lanes)} {before}, {found}")

    def _part(self, kind: str, value: str, width: int, begin: int, lanes: int) -> str:
        """Return so many elements of a vector from one on."""
        vector = _typed(kind, width)
        picked = ", ".join(f"i32 {lane}" for lane in range(begin, begin + lanes))
        return self._new(f"shufflevector {vector} {value}, {vector} poison, <{lanes} x i32> <{picked}>")

    def _report_nan(self, found: str, lanes: int) -> None:
        """Tell the caller of a NaN, if one was found."""
        if lanes > 1:
            found = self._plain(f"llvm.vector.reduce.or.v{lanes}i1", "i1", "?", [found], lanes)
        self._names += 1
        name = f"n{self._names}"
        self._add(f"br i1 {found}, label %{name}, label %{name}e")
        self._begin_block(name)
        self._add("store i64 1, ptr %met")
        self._add(f"br label %{name}e")
        self._begin_block(f"{name}e")

    def _plain(self, function: str, made: str, kind: str, values: Sequence[str], width: int) -> str:
        """Call a function of LLVM's that raises no flag."""
        type_ = _typed(kind, width)
        self._declared.add(f"declare {made} @{function}({', '.join([type_] * len(values))})")
        return self._new(f"call {made} @{function}({', '.join(f'{type_} {one}' for one in values)})")

    def _strict(
        self, name: str, made: str, kind: str, values: Sequence[str], width: int, options: Sequence[str]
    ) -> str:
        """Call a constrained function."""
        type_, result = _typed(kind, width), _typed(made, width)
        suffixes = [_suffix(made, width), _suffix(kind, width)] if made != kind else [_suffix(kind, width)]
        if name.startswith("fcmp"):
            suffixes = suffixes[1:]
        function = ".".join([f"@llvm.experimental.constrained.{name}", *suffixes])
        given = [*[f"{type_} {one}" for one in values], *options]
        taken = ", ".join([*[type_] * len(values), *["metadata"] * len(options)])
        self._declared.add(f"declare {result} {function}({taken})")
        return self._new(f"call {result} {function}({', '.join(given)}) strictfp")

    def _compared(self, condition: str, kind: str, a: str, b: str, width: int) -> str:
        if not self._is_quiet:
            return self._new(f"fcmp {condition} {_typed(kind, width)} {a}, {b}")
        return self._strict("fcmp", "?", kind, [a, b], width, [f'metadata !"{condition}"', _STRICT])

    def _computed(self, code: Instruction, values: list[str], width: int) -> str:
        name, kind = code.name, code.kind
        type_ = _typed(kind, width)
        if name == "convert":
            return self._converted(kind, code.made, values[0], width)
        if name == "where":
            condition, a, b = values
            return self._new(f"select {_typed('?', width)} {condition}, {type_} {a}, {type_} {b}")
        if kind == "?" or name in ("and", "or", "xor", "not"):
            return self._of_bits(name, type_, values)
        if name == "square":
            name, values = "multiply", values * 2
        if kind in "fd":
            return self._of_floats(name, kind, values, width)
        if name in _ARITHMETIC:
            return self._new(f"{_ARITHMETIC[name]} {type_} {values[0]}, {values[1]}")
        if name in _CONDITIONS:
            return self._new(f"icmp {_CONDITIONS[name][1]} {type_} {values[0]}, {values[1]}")
        if name in ("maximum", "minimum"):
            order = "sgt" if name == "maximum" else "slt"
            chosen = self._new(f"icmp {order} {type_} {values[0]}, {values[1]}")
            return self._new(f"select {_typed('?', width)} {chosen}, {type_} {values[0]}, {type_} {values[1]}")
        negated = self._new(f"sub {type_} zeroinitializer, {values[0]}")
        if name == "negative":
            return negated
        assert name == "absolute", name
        below = self._new(f"icmp slt {type_} {values[0]}, zeroinitializer")
        return self._new(f"select {_typed('?', width)} {below}, {type_} {negated}, {type_} {values[0]}")

    def _of_bits(self, name: str, type_: str, values: list[str]) -> str:
        a = values[0]
        if name == "not":
            return self._new(f"xor {type_} {a}, {_all_ones(type_)}")
        if name == "same":
            return self._new(f"icmp eq {type_} {a}, {values[1]}")
        return self._new(f"{name} {type_} {a}, {values[1]}")

    def _of_floats(self, name: str, kind: str, values: list[str], width: int) -> str:
        type_ = _typed(kind, width)
        if name == "reciprocal":
            name, values = "divide", [self._splat(kind, _one(kind), width), *values]
        if name in _ARITHMETIC:
            return self._strict(f"f{_ARITHMETIC[name]}", kind, kind, values, width, [_ROUNDED, _STRICT])
        if name == "sqrt":
            return self._strict("sqrt", kind, kind, values, width, [_ROUNDED, _STRICT])
        if name in _CONDITIONS:
            return self._compared(_CONDITIONS[name][0], kind, values[0], values[1], width)
        if name == "isnan":
            return self._compared("uno", kind, values[0], values[0], width)
        if name == "negative":
            return self._new(f"fneg {type_} {values[0]}")
        if name == "exp":
            return self._exponential(values[0], width)
        if name == "absolute":
            return self._plain(f"llvm.fabs.{_suffix(kind, width)}", type_, kind, values, width)
        assert name in ("maximum", "minimum"), name
        a, b = values
        beyond = self._compared("ogt" if name == "maximum" else "olt", kind, a, b, width)
        is_nan = self._compared("uno", kind, a, a, width)
        chosen = self._new(f"or {_typed('?', width)} {beyond}, {is_nan}")
        return self._new(f"select {_typed('?', width)} {chosen}, {type_} {a}, {type_} {b}")

    def _exponential(self, numbers: str, width: int) -> str:
        """Return exponentials: those of ordinary numbers are computed here, all others by NumPy's loop."""
        lanes = max(width, 2)
        given = numbers if width > 1 else self._splat("f", numbers, lanes)

        def operation(name: str, values: Sequence[str]) -> str:
            return self._strict(name, "f", "f", values, lanes, [_ROUNDED, _STRICT])

        writer = Exponential(lanes, self._new, operation)
        is_odd, is_nothing = writer.is_odd(given)
        any_odd = self._plain(f"llvm.vector.reduce.or.v{lanes}i1", "i1", "?", [is_odd], lanes)
        self._names += 1
        name, type_ = f"x{self._names}", _typed("f", lanes)
        self._add(f"br i1 {any_odd}, label %{name}odd, label %{name}")
        self._begin_block(f"{name}odd")
        theirs, after = self._by_loop(given, lanes), self._block
        self._add(f"br label %{name}end")
        self._begin_block(name)
        mine, before = writer.of(given, is_nothing), self._block
        self._add(f"br label %{name}end")
        self._begin_block(f"{name}end")
        found = self._new(f"phi {type_} [ {theirs}, %{after} ], [ {mine}, %{before} ]")
        return found if width > 1 else self._new(f"extractelement {type_} {found}, i64 0")

    def _by_loop(self, numbers: str, width: int) -> str:
        """Return the exponentials of a vector by NumPy's loop, which is called for it."""
        loop = inner_loop(np.exp, "f->f")
        assert loop is not None
        type_ = _typed("f", width)
        memory = f"%m{width}"
        if width not in self._memory:
            # The vector, the addresses of operand and result, how many numbers there are, and their steps.
            lines = self._memory[width] = [f"  {memory} = alloca {type_}", f"  {memory}c = alloca [5 x i64]"]
            for place, value in enumerate([None, None, width, _SIZES["f"], _SIZES["f"]]):
                at = f"{memory}p{place}"
                lines.append(f"  {at} = getelementptr i64, ptr {memory}c, i64 {place}")
                lines.append(f"  store {'i64' if value else 'ptr'} {value or memory}, ptr {at}")
        self._add(f"store {type_} {numbers}, ptr {memory}")
        places = ", ".join(f"ptr {memory}p{place}" for place in (0, 2, 3))
        function = f"inttoptr (i64 {loop.function} to ptr)"
        self._add(f"call void {function}({places}, ptr inttoptr (i64 {loop.data} to ptr)) strictfp")
        return self._new(f"load {type_}, ptr {memory}")

    def _converted(self, kind: str, made: str, value: str, width: int) -> str:
        type_, result = _typed(kind, width), _typed(made, width)
        if kind == "?":
            if made == "l":
                return self._new(f"zext {type_} {value} to {result}")
            one = self._splat(made, _one(made), width)
            return self._new(f"select {type_} {value}, {result} {one}, {result} zeroinitializer")
        if made == "?":
            if kind in "fd":
                return self._compared("une", kind, value, "zeroinitializer" if width > 1 else "0.0", width)
            return self._new(f"icmp ne {type_} {value}, {'zeroinitializer' if width > 1 else 0}")
        if kind == "i" and made == "l":
            return self._new(f"sext {type_} {value} to {result}")
        if kind in "il":
            return self._strict("sitofp", made, kind, [value], width, [_ROUNDED, _STRICT])
        if kind == "f":
            return self._strict("fpext", made, kind, [value], width, [_STRICT])
        return self._strict("fptrunc", made, kind, [value], width, [_ROUNDED, _STRICT])


def _fills_lines(operand: Operand, width: int) -> bool:
    """Tell whether so many elements at once are written past the caches: they are whole lines, wherever they are."""
    size = _SIZES[operand.kind]
    is_packed = operand.steps[-1] == size and width * size % LINE == 0
    return operand.is_past and is_packed and all(step % LINE == 0 for step in operand.steps[:-1])


def _widths(kernel: Kernel) -> list[tuple[int, int]]:
    """Return by how many elements at once the innermost axis is done, and how many times."""
    count = kernel.counts[-1]
    if any(one.steps[-1] not in (0, _SIZES[one.kind]) for one in kernel.operands):
        return [(1, count)]
    widest = _VECTOR_BYTES // max(_SIZES[one.kind] for one in kernel.operands)
    while widest > count:
        widest //= 2
    found = []
    for width in dict.fromkeys((widest, min(widest, 4), 1)):
        times, count = divmod(count, width)
        if times:
            found.append((width, times))
    return found


def _wide(type_: str, width: int) -> str:
    return type_ if width == 1 else f"<{width} x {type_}>"


def _typed(kind: str, width: int) -> str:
    return _wide(_TYPES[kind], width)


def _suffix(kind: str, width: int) -> str:
    return _SUFFIXES[kind] if width == 1 else f"v{width}{_SUFFIXES[kind]}"


def _one(kind: str) -> str:
    return "0x" + struct.pack(">d", 1.0).hex() if kind in "fd" else "1"


def _all_ones(type_: str) -> str:
    return f"splat ({type_.split(' x ')[1][:-1]} -1)" if type_.startswith("<") else "-1"
