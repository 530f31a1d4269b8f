"""Fused kernels on CuPy's arrays: formulas compiled for the dtypes at hand, and launched with little work of the host.

A launch by CuPy's own functions takes the host about ten microseconds, most of them spent on what is the same in each
call. Here all that is looked up by the dtypes of the arguments, and by their shapes where these differ. The kernels are
CUDA C (`_kernel_source.py`). Where a formula or a layout has no kernel, the formula itself is called, which is right
for all arrays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import accumulate
from math import prod
from operator import attrgetter
from typing import Any, NamedTuple, final

import numpy as np

from asyncgrad.core.arrays.device_functions import KernelCompiler, TableUpdate, compiler_of
from asyncgrad.core.recording.kernels import arity
from asyncgrad.core.settings.source import make_function
from asyncgrad.errors import DeviceError

from .._call_caches import remember
from .._kernel_source import Kind, NotCompilable, NotElementwise, write_body
from .._kernel_text import (
    BLOCK,
    CHUNK,
    COPIED_AS,
    CUDA_MACROS,
    Operand,
    body_function,
    concatenate_text,
    elementwise_text,
    preamble,
    table_dtype,
    update_text,
)
from .arrays import array_maker, array_parts, number_maker

__all__ = ["CudaKernels", "kernels_for", "mixed_error"]

#: Without it, a product and a sum may be rounded once, and a kernel gives other bits than its operations one by one.
_OPTIONS = ("--fmad=false",)
#: The most kernels of one formula that hold numbers in their source.
_MOST_FIXED = 16
#: Stands for a kernel where there can be none.
_NO_KERNEL: Any = object()
#: More arrays than this are laid side by side by CuPy.
_MOST_CONCATENATED = 8
#: Up to this size an int is the same number as a float.
_LARGEST_INT = 1 << 53


def kernels_for(cupy: Any) -> CudaKernels:
    """Return what compiles formulas for CuPy's arrays, and counts the launches: what is registered, or a new one.

    Args:
        cupy: the module.
    """
    found = compiler_of(cupy.ndarray)
    return found if isinstance(found, CudaKernels) else CudaKernels(cupy)


@final
class CudaKernels(KernelCompiler):
    """Compiles formulas for CuPy's arrays.

    Args:
        cupy: the module, or what stands in for it in a test.
        macros: what C does not write as CUDA does.
    """

    def __init__(self, cupy: Any, macros: str = CUDA_MACROS) -> None:
        self.cupy = cupy
        self.macros = macros
        #: Makes the array of a result.
        self.make = array_maker(cupy)
        #: Makes what a launch takes for a number.
        self.number = number_maker(cupy)
        #: How many kernels have been launched, in a list since all launching functions count there, those of other
        #: kernels, too.
        self.launched = [0]
        #: The kernels that lay arrays side by side, by itemsize, number of arrays, and GPU.
        self._concatenations: dict[tuple[int, int, int], Callable[..., Any]] = {}
        #: By axis, and by dtype and layout of each array, a launch of these, or _NO_KERNEL.
        self._concatenating: dict[Any, Any] = {}
        #: Kernels belong to one GPU.
        self.has_several = cupy.cuda.runtime.getDeviceCount() > 1
        #: CuPy's quick name for `flags.c_contiguous`, if it has that.
        self.contiguous = "_c_contiguous" if hasattr(cupy.ndarray, "_c_contiguous") else "flags.c_contiguous"
        self._is_contiguous = attrgetter(self.contiguous)
        self._layout = attrgetter("dtype", "shape", self.contiguous)

    @property
    def launches(self) -> int:
        """How many kernels have been launched so far."""
        return self.launched[0]

    def launcher(self, formula: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does what the formula does, in one launch where it can be compiled."""
        return _ElementwiseLauncher(self, formula).generate()

    def update(self, formula: Callable[..., Any], written: int) -> TableUpdate:
        """Return a function that applies a formula to many rows of arrays in as few launches as possible."""
        return _MultiTensorUpdate(self, formula, written)

    def adder(self) -> Callable[[Any, Any], None]:
        """Return a function that adds an array into another one."""
        return _ElementwiseLauncher(self, np.add).add_into

    def concatenate(self, arrays: Sequence[Any], axis: int) -> Any:
        """Return a few arrays side by side along an axis: those in C order and of one dtype by one kernel."""
        try:
            key: Any = axis, *map(self._layout, arrays)
        except AttributeError:
            # An array of NumPy's is among them.
            return np.concatenate(arrays, axis)
        if self.has_several:
            key = *key, arrays[0].data.device_id
        launch = self._concatenating.get(key)
        if launch is None:
            launch = remember(self._concatenating, key, self._find_concatenation(arrays, axis))
        if launch is _NO_KERNEL:
            return np.concatenate(arrays, axis)
        return launch.result(self, arrays)

    def _find_concatenation(self, arrays: Sequence[Any], axis: int) -> Any:
        """Return the launch that lays arrays side by side, or _NO_KERNEL."""
        first, count = arrays[0], len(arrays)
        if any(type(one) is not self.cupy.ndarray for one in arrays):
            return _NO_KERNEL
        dtype, shape = first.dtype, first.shape
        if not 2 <= count <= _MOST_CONCATENATED or not 0 <= axis < len(shape) or dtype.itemsize not in COPIED_AS:
            return _NO_KERNEL
        before, after = shape[:axis], shape[axis + 1 :]
        for one in arrays:
            if (
                one.dtype != dtype
                or not self._is_contiguous(one)
                or not one.size
                or one.shape[:axis] != before
                or one.shape[axis + 1 :] != after
            ):
                return _NO_KERNEL
        widths = [one.shape[axis] for one in arrays]
        made = dtype.itemsize, count, first.data.device_id if self.has_several else 0
        if made not in self._concatenations:
            name = f"asyncgrad_concatenate_{count}_{dtype.itemsize}"
            text = concatenate_text(name, dtype.itemsize, count, self.macros)
            self._concatenations[made] = self.compile(name, text)
        result, rest = (*before, sum(widths), *after), prod(after)
        steps = tuple([self.number(width * rest) for width in widths])
        return _Launch(self._concatenations[made], prod(result), result, dtype.char, steps)

    def compile(self, name: str, text: str) -> Callable[..., Any]:
        """Return what launches the kernel of a source: it takes the number of threads and the arguments."""
        module = self.cupy.RawModule(code=text, options=_OPTIONS)
        launch: Callable[..., Any] = module.get_function(name).kernel.linear_launch
        return launch


def mixed_error(name: str, array: Any, other: np.ndarray) -> DeviceError:
    """Return the error for an array of a GPU and one of NumPy in one operation."""
    return DeviceError(
        f"{name} got an array on 'cuda:{array.device.id}' and a NumPy array of shape {other.shape}: move that first, "
        f"by ag.tensor(array, device='cuda:{array.device.id}')"
    )


def _name_of(formula: Callable[..., Any], kinds: Sequence[Kind]) -> str:
    """Return a name for a kernel, which profilers show."""
    written = "".join(kind.char if isinstance(kind, np.dtype) else kind.__name__[0] for kind in kinds)
    qualified = getattr(formula, "__qualname__", formula.__name__).replace("<lambda>", "formula")
    return re.sub(r"\W+", "_", f"asyncgrad_{qualified}_{written}")


@final
class _Launch(NamedTuple):
    """The launch of a kernel for arguments of certain dtypes and layouts."""

    kernel: Callable[..., Any]
    threads: int
    #: Of the result, or of each result.
    shape: tuple[int, ...]
    #: The character of that of the result, which CuPy finds sooner than the dtype; a tuple where there are several.
    dtype: Any
    #: The arguments of the kernel that follow those of the formula: numbers, as launches take them.
    steps: tuple[Any, ...]

    def result(self, kernels: CudaKernels, arguments: Sequence[Any]) -> Any:
        """Launch the kernel and return its result, or a tuple of its results."""
        make, shape, is_one = kernels.make, self.shape, self.dtype.__class__ is not tuple
        outs = (make(shape, self.dtype),) if is_one else tuple([make(shape, dtype) for dtype in self.dtype])
        self.kernel(self.threads, (*outs, *arguments, *self.steps), 0, BLOCK)
        kernels.launched[0] += 1
        return outs[0] if is_one else outs


@final
class _ElementwiseLauncher:
    """Finds the kernel for each call of one formula, and compiles those that are missing."""

    def __init__(self, kernels: CudaKernels, formula: Callable[..., Any]) -> None:
        self._kernels = kernels
        self._formula = formula
        #: By dtypes and modes, and by numbers in the source, what has been compiled.
        self._compiled: dict[Any, tuple[Any, Any]] = {}
        #: By all that decides on a call, the launch of a kernel.
        self._launches: dict[Any, _Launch] = {}
        #: By the same, what makes the call, where that is no launch alone.
        self._calls: dict[Any, Callable[..., Any]] = {}
        self._fixed = 0
        #: The number of results; they are returned as a tuple where there are several.
        self._results = 1
        self._is_contiguous = attrgetter(kernels.contiguous)
        #: By dtypes and layouts, the kernel that adds in place, or _NO_KERNEL, and its threads.
        self._added: dict[Any, tuple[Any, int]] = {}

    def generate(self) -> Callable[..., Any]:
        """Return the function that is called in place of the formula.

        It is generated for the number of arguments, since a loop over these would take as long as the launch itself.
        """
        try:
            self._results = len(write_body(self._formula, [np.dtype(np.float32)] * arity(self._formula), {})[1])
        except NotElementwise:
            return self._formula
        except NotCompilable:
            # It may be supported for other dtypes, or for some numbers.
            pass
        names = [f"p{nr}" for nr in range(arity(self._formula))]
        given = ", ".join(names)
        contiguous = self._kernels.contiguous
        # The strides of an array in C order need not be fetched.
        layouts = [f"{name}.dtype, {name}.shape, {name}.{contiguous} or {name}.strides" for name in names]
        kinds = [
            f"({layout}) if type({name}) is ndarray else type({name})"
            for name, layout in zip(names, layouts, strict=True)
        ]
        if self._kernels.has_several:
            layouts.append("p0.data.device_id")
            kinds += [f"{name}.data.device_id if type({name}) is ndarray else None" for name in names]
        outs = [f"out{nr}" for nr in range(self._results)]
        dtypes = ["dtype"] if self._results == 1 else [f"dtype{nr}" for nr in range(self._results)]
        unpacked = "dtype" if self._results == 1 else f"({', '.join(dtypes)})"
        body = [
            f"if {' is '.join(f'type({name})' for name in names)} is ndarray: key = {', '.join(layouts)}",
            f"else: key = ({', '.join(kinds)},)",
            "found = launches.get(key)",
            f"if found is None: return otherwise(key, {given})",
            f"kernel, threads, shape, {unpacked}, steps = found",
            *(line for out, dtype in zip(outs, dtypes, strict=True) for line in self._made(out, dtype)),
            f"kernel(threads, ({', '.join(outs)}, {given}) + steps, 0, {BLOCK})",
            "launched[0] += 1",
            f"return {', '.join(outs)}",
        ]
        namespace = {
            "launched": self._kernels.launched,
            "launches": self._launches,
            "ndarray": self._kernels.cupy.ndarray,
            "make": self._kernels.make,
            "otherwise": self._otherwise,
        }
        if (parts := array_parts(self._kernels.cupy)) is not None:
            namespace["new"], namespace["initialize"] = parts
        return make_function(f"launch({given})", body, f"launch of {self._formula.__name__}", namespace)

    def _made(self, out: str, dtype: str) -> list[str]:
        """Return the lines that make the array of a result: those of `make`, without the time of its call."""
        if array_parts(self._kernels.cupy) is None:
            return [f"{out} = make(shape, {dtype})"]
        return [f"{out} = new(ndarray)", f"initialize({out}, shape, {dtype}, None, None, None)"]

    def _kernel(self, operands: list[Operand], fixed: dict[int, Any], arrays: Sequence[Any]) -> tuple[Any, Any]:
        """Return a kernel and the dtype of its result as in _Launch; both None where the formula has none."""
        device = arrays[0].data.device_id if self._kernels.has_several else 0
        key = (device, *operands, *((nr, type(value), repr(value)) for nr, value in fixed.items()))
        if key not in self._compiled:
            if fixed:
                if self._fixed == _MOST_FIXED:
                    return None, None
                self._fixed += 1
            self._compiled[key] = self._compile(operands, fixed)
        return self._compiled[key]

    def _compile(self, operands: list[Operand], fixed: dict[int, Any]) -> tuple[Any, Any]:
        kinds = [operand.kind for operand in operands]
        try:
            lines, results = write_body(self._formula, kinds, fixed)
        except NotCompilable:
            return None, None
        if len(results) != self._results or not lines:
            return None, None
        name = _name_of(self._formula, [kind for nr, kind in enumerate(kinds) if nr not in fixed])
        text = elementwise_text(name, operands, lines, results, self._kernels.macros)
        dtypes = tuple([result.kind.char for result in results])
        return self._kernels.compile(name, text), dtypes[0] if len(dtypes) == 1 else dtypes

    # In place.

    def add_into(self, total: Any, value: Any) -> None:
        """Add `value` into `total`: the formula is np.add. The kernel reads its elements before it writes them."""
        contiguous = self._is_contiguous
        key: Any
        try:
            key = total.dtype, total.shape, contiguous(total), type(value), value.dtype, value.shape, contiguous(value)
        except AttributeError:
            # A number.
            total += value
            return
        if self._kernels.has_several:
            key = *key, total.data.device_id
        found = self._added.get(key)
        if found is None:
            found = remember(self._added, key, self._find_addition(total, value))
        kernel, threads = found
        if kernel is _NO_KERNEL:
            total += value
            return
        kernel(threads, (total, total, value), 0, BLOCK)
        self._kernels.launched[0] += 1

    def _find_addition(self, total: Any, value: Any) -> tuple[Any, int]:
        """Return the kernel that adds arrays like `value` into such like `total`, or _NO_KERNEL; and its threads."""
        shape, given, dtype, contiguous = total.shape, value.shape, total.dtype, self._is_contiguous
        is_row = bool(given) and given == shape[-len(given) :]
        if (
            type(value) is not type(total)
            or value.dtype != dtype
            or not contiguous(total)
            or not contiguous(value)
            or not total.size
            or not (given == shape or is_row)
        ):
            return _NO_KERNEL, 0
        operands = [Operand(dtype, "full"), Operand(dtype, "full" if given == shape else "row")]
        return self._kernel(operands, {}, (total, value))[0] or _NO_KERNEL, (total.size + 3) >> 2

    # All other calls.

    def _otherwise(self, key: Any, *arguments: Any) -> Any:
        """Return the result of a call on numbers, on arrays of several shapes, or on such that are not contiguous."""
        call = self._calls.get(key)
        if call is None:
            found = self._call(arguments)
            if isinstance(found, _Launch):
                return remember(self._launches, key, found).result(self._kernels, arguments)
            call = remember(self._calls, key, found)
        return call(*arguments)

    def _call(self, arguments: Sequence[Any]) -> _Launch | Callable[..., Any]:
        """Return what makes calls like this one."""
        arrays = [one for one in arguments if type(one) is self._kernels.cupy.ndarray]
        for one in arguments if isinstance(self._formula, np.ufunc) else ():
            if isinstance(one, np.ndarray) and arrays:
                raise mixed_error(self._formula.__name__, arrays[0], one)
        kinds = [self._kind(one) for one in arguments]
        if not arrays or any(kind is None for kind in kinds):
            return self._call_fixed(arguments, kinds) if arrays else self._formula
        if self._results > 1 and any(one.shape != arrays[0].shape for one in arrays):
            # The results may differ in shape.
            return self._formula
        try:
            shape = np.broadcast_shapes(*(one.shape for one in arrays))
        except ValueError:
            # The formula says what is wrong, or can make sense of it.
            return self._formula
        operands = []
        for one, kind in zip(arguments, kinds, strict=True):
            mode = _mode(one, shape) if type(one) is self._kernels.cupy.ndarray else "number"
            operands.append(Operand(kind, mode))
        if 0 in shape:
            return self._formula
        has_int = any(kind is int for kind in kinds)
        if any(operand.mode == "strided" for operand in operands):
            return self._formula if has_int else self._call_strided(operands)
        if has_int and any(one.dtype.kind != "f" for one in arrays):
            # An int that the dtype of integers cannot hold is refused, which depends on the int.
            return self._formula
        kernel, dtype = self._kernel(operands, {}, arrays)
        if kernel is None:
            return self._call_fixed(arguments, kinds)
        steps = [
            self._kernels.number(number)
            for one, operand in zip(arguments, operands, strict=True)
            if operand.mode in ("pitched", "channel")
            for number in ((_pitch(one) or ()) if operand.mode == "pitched" else (_width_behind(one.shape, shape),))
        ]
        launch = _Launch(kernel, (prod(shape) + 3) >> 2, shape, dtype, tuple(steps))
        if not has_int:
            return launch
        kernels, formula = self._kernels, self._formula

        def call(*arguments: Any) -> Any:
            if any(type(one) is int and abs(one) > _LARGEST_INT for one in arguments):
                return formula(*arguments)
            return launch.result(kernels, arguments)

        return call

    def _call_fixed(self, arguments: Sequence[Any], kinds: Sequence[Kind]) -> Callable[..., Any]:
        """Return what makes calls of a formula that decides by the values of its numbers: a kernel for each of them."""
        kernels, formula = self._kernels, self._formula
        ndarray = kernels.cupy.ndarray
        numbers = [nr for nr, one in enumerate(arguments) if type(one) is not ndarray]
        arrays = [one for one in arguments if type(one) is ndarray]
        if isinstance(formula, np.ufunc) or not numbers or self._results > 1:
            return formula
        if any(type(arguments[nr]) not in (int, float, bool, type(None)) for nr in numbers):
            return formula
        try:
            shape = np.broadcast_shapes(*(one.shape for one in arrays))
        except ValueError:
            return formula
        modes = [_mode(one, shape) if type(one) is ndarray else "fixed" for one in arguments]
        if not {"strided", "pitched", "channel"}.isdisjoint(modes) or 0 in shape:
            return formula
        operands = [Operand(kind, mode) for kind, mode in zip(kinds, modes, strict=True)]
        #: By the numbers, the launch, or _NO_KERNEL.
        known: dict[Any, Any] = {}

        def call(*arguments: Any) -> Any:
            values = tuple([arguments[nr] for nr in numbers])
            # 0.0 and -0.0 are equal.
            key = values if all(values) else (*values, repr(values))
            given = [one for one in arguments if type(one) is ndarray]
            launch = known.get(key)
            if launch is None:
                kernel, dtype = self._kernel(operands, dict(zip(numbers, values, strict=True)), given)
                launch = _NO_KERNEL if kernel is None else _Launch(kernel, (prod(shape) + 3) >> 2, shape, dtype, ())
                remember(known, key, launch)
            return formula(*arguments) if launch is _NO_KERNEL else launch.result(kernels, given)

        return call

    def _call_strided(self, operands: list[Operand]) -> Callable[..., Any]:
        """Return what makes calls on arrays that CuPy has to find the elements of: an ElementwiseKernel."""
        # A ufunc is one kernel of CuPy's, which also lays the result out as NumPy does.
        if isinstance(self._formula, np.ufunc) or self._results > 1:
            return self._formula
        try:
            lines, results = write_body(self._formula, [operand.kind for operand in operands], {})
        except NotCompilable:
            return self._formula
        if len(results) != 1 or not lines:
            return self._formula
        kinds = [operand.kind for operand in operands]
        name = _name_of(self._formula, kinds)
        names = [kind.name if isinstance(kind, np.dtype) else "float64" if kind is float else "int64" for kind in kinds]
        head = preamble(self._kernels.macros, [*kinds, results[0].kind], lines)
        kernel = self._kernels.cupy.ElementwiseKernel(
            ", ".join(f"{name} p{nr}" for nr, name in enumerate(names)),
            f"{results[0].kind.name} r",
            f"r = body({', '.join(f'p{nr}' for nr in range(len(kinds)))})",
            name,
            preamble="\n".join([*head, *body_function(operands, lines, results)]),
            options=_OPTIONS,
        )
        launched = self._kernels.launched

        def call(*arguments: Any) -> Any:
            launched[0] += 1
            return kernel(*arguments)

        return call

    def _kind(self, argument: Any) -> Kind:
        """Return the kind of an argument; None where it can be no argument of a kernel."""
        if type(argument) is self._kernels.cupy.ndarray:
            return argument.dtype
        if isinstance(argument, np.generic):
            return argument.dtype if argument.dtype.kind in "iuf" else None
        return type(argument) if type(argument) in (int, float) else None


def _mode(array: Any, shape: tuple[int, ...]) -> str:
    """Return how an array is broadcast to a shape: see Operand; "strided" where that is none of these."""
    # A number that has been expanded, as by the gradient of a sum, is still one element in memory.
    if all(size == 1 or not stride for size, stride in zip(array.shape, array.strides, strict=True)):
        return "single"
    if not array.flags.c_contiguous:
        return "pitched" if array.shape == shape and _pitch(array) is not None else "strided"
    if array.shape == shape:
        return "full"
    own = array.shape
    first = next(axis for axis, size in enumerate(own) if size != 1)
    if own[first:] == shape[len(shape) - len(own) + first :]:
        return "row"
    padded = (1,) * (len(shape) - len(own)) + own
    begin, last = first + len(padded) - len(own), _last_axis(padded)
    if padded[: last + 1] == shape[: last + 1]:
        return "column"
    return "channel" if padded[begin : last + 1] == shape[begin : last + 1] else "strided"


def _last_axis(shape: tuple[int, ...]) -> int:
    """Return the last axis whose length is not 1."""
    return next(axis for axis in reversed(range(len(shape))) if shape[axis] != 1)


def _width_behind(own: tuple[int, ...], shape: tuple[int, ...]) -> int:
    """Return how many elements of a shape in C order one of an array is repeated for, whose last axes have length 1."""
    return prod(shape[_last_axis(own) + len(shape) - len(own) + 1 :])


def _pitch(array: Any) -> tuple[int, int] | None:
    """Return the length of the rows that an array's elements form in memory, and how many elements apart these begin.

    Such are the parts that an array in C order is split into. Return None where the array has no such rows.
    """
    axes = [(size, stride) for size, stride in zip(array.shape, array.strides, strict=True) if size != 1]
    width, item = 1, array.itemsize
    while axes and axes[-1][1] == width * item:
        width *= axes.pop()[0]
    if not axes:
        return None
    count, step = axes.pop()
    pitch, rest = divmod(step, item)
    for size, stride in reversed(axes):
        if stride != count * step:
            return None
        count *= size
    return (width, pitch) if pitch >= width and not rest else None


@final
class _MultiTensorUpdate:
    """Applies a formula to rows of arrays: as many rows in one launch as a table of pointers holds."""

    def __init__(self, kernels: CudaKernels, formula: Callable[..., Any], written: int) -> None:
        self._kernels = kernels
        self._formula = formula
        self._written = written
        #: By dtype, number of arrays and of numbers, and GPU.
        self._compiled: dict[Any, tuple[Any, np.dtype]] = {}

    def __call__(self, rows: Sequence[Sequence[Any]], numbers: Sequence[float]) -> None:
        """Update all rows.

        Args:
            rows: of each the arrays, of one dtype for all, and within a row of one size, dense and laid out alike.
            numbers: what the formula takes after the arrays.
        """
        rows = [row for row in rows if row[0].size]
        if not rows:
            return
        kernel, dtype = self._kernel(rows[0], len(numbers))
        most = dtype["size"].shape[0]
        # The elements of complex numbers are updated one by one.
        parts = 2 if rows[0][0].dtype.kind == "c" else 1
        for start in range(0, len(rows), most):
            some = rows[start : start + most]
            table = np.zeros((), dtype)
            sizes = [row[0].size * parts for row in some]
            first = [0, *accumulate(-(-size // CHUNK) for size in sizes)]
            table["numbers"][: len(numbers)] = numbers
            table["size"][: len(some)] = sizes
            table["pointer"][:, : len(some)] = np.array([[one.data.ptr for one in row] for row in some], np.uint64).T
            table["count"] = len(some)
            table["first"][: len(first)] = first
            kernel(first[-1] * BLOCK, (table[()],), 0, BLOCK)
            self._kernels.launched[0] += 1

    def _kernel(self, row: Sequence[Any], numbers: int) -> tuple[Any, np.dtype]:
        kind = row[0].real.dtype if row[0].dtype.kind == "c" else row[0].dtype
        device = row[0].data.device_id if self._kernels.has_several else 0
        key = (kind, len(row), numbers, device)
        if key not in self._compiled:
            lines, results = write_body(self._formula, [*[kind] * len(row), *[float] * numbers], {})
            assert all(result.kind == kind for result in results), f"{self._formula.__name__} changes the dtype"
            table = table_dtype(len(row), numbers)
            name = _name_of(self._formula, [kind])
            text = update_text(name, kind, table, lines, results[: self._written], numbers, self._kernels.macros)
            self._compiled[key] = self._kernels.compile(name, text), table
        return self._compiled[key]
