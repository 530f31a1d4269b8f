"""A stand-in for CuPy that compiles kernels with the host's compiler of C, and runs them on NumPy's memory."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import tempfile
from abc import ABC, abstractmethod
from functools import cache, cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, final

import numpy as np
import pytest

from asyncgrad.devices.cuda.rows import BLOCK_SOURCE

COMPILER = shutil.which("cc")
CPLUSPLUS_COMPILER = shutil.which("c++")
#: For tests that run kernels on the host.
needs_compilers = pytest.mark.skipif(
    COMPILER is None or CPLUSPLUS_COMPILER is None,
    reason="the source of kernels is checked by the host's compilers: no cc or no c++",
)

#: What the host's C writes otherwise than CUDA.
HOST_MACROS = """\
#include <math.h>
#include <stdbool.h>
#define KERNEL
#define DEVICE static
#define BY_VALUE const
#define ALIGNED(bytes) __attribute__((aligned(bytes)))
static long long THREAD;
#define INFINITE ((double)INFINITY)
#define NOT_A_NUMBER ((double)NAN)
#define HALF _Float16
#define ROUND_HALF(number) ((float)(_Float16)(number))
"""
#: The same for kernels in C++, whose blocks and threads are set before each call.
GRID_MACROS = """\
#define __global__
#define __device__
#define INFINITE __builtin_inf()
struct Index { int x; };
static Index gridDim, blockDim, blockIdx, threadIdx;
extern "C" void set_thread(int blocks, int threads, int block, int thread) {
    gridDim.x = blocks; blockDim.x = threads; blockIdx.x = block; threadIdx.x = thread;
}
"""
#: The same for kernels in C++ whose warps vote: the threads of a block take turns, and each waits in a vote for the
#: others of its warp. All arguments are pointers and 64-bit integers.
WARP_MACROS = """\
#include <cmath>
#include <ucontext.h>
#define __global__
#define __device__
struct Index { int x; };
static Index gridDim, blockDim, blockIdx, threadIdx;

enum { MOST = 256 };
static ucontext_t threads[MOST], scheduler;
static char stacks[MOST][1 << 15];
static bool done[MOST], votes[2][MOST], has_failed;
static int turns[MOST];
static long long given[16];
static void (*kernel)(
    long long, long long, long long, long long, long long, long long, long long, long long,
    long long, long long, long long, long long, long long, long long, long long, long long);

static unsigned __ballot_sync(unsigned, bool vote) {
    int self = threadIdx.x, turn = turns[self]++ % 2, first = self / 32 * 32;
    votes[turn][self] = vote;
    swapcontext(&threads[self], &scheduler);
    unsigned result = 0;
    for (int lane = 0; lane < 32; lane++) {
        has_failed |= turns[first + lane] < turns[self];
        if (votes[turn][first + lane]) result |= 1u << lane;
    }
    return result;
}
static int __any_sync(unsigned lanes, bool vote) { return __ballot_sync(lanes, vote) != 0; }
static int __popc(unsigned bits) { return __builtin_popcount(bits); }
static int __ffs(unsigned bits) { return __builtin_ffs(bits); }

static void run_thread() {
    const long long* a = given;
    kernel(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15]);
    done[threadIdx.x] = true;
}
extern "C" bool run_block(decltype(kernel) function, const long long* arguments, int blocks, int block, int count) {
    kernel = function;
    for (int k = 0; k < 16; k++) given[k] = arguments[k];
    gridDim.x = blocks; blockDim.x = count; blockIdx.x = block;
    has_failed = false;
    for (int k = 0; k < count; k++) {
        done[k] = false;
        turns[k] = 0;
        getcontext(&threads[k]);
        threads[k].uc_stack.ss_sp = stacks[k];
        threads[k].uc_stack.ss_size = sizeof stacks[k];
        threads[k].uc_link = &scheduler;
        makecontext(&threads[k], run_thread, 0);
    }
    for (bool is_over = false; !is_over;) {
        is_over = true;
        for (int k = 0; k < count; k++) {
            if (done[k]) continue;
            is_over = false;
            threadIdx.x = k;
            swapcontext(&scheduler, &threads[k]);
        }
    }
    return !has_failed;
}

// The host's C++ may have no float16.
struct HALF {
    unsigned short bits;
    HALF() = default;
    explicit HALF(float number) {
        double size = std::fabs(number);
        int exponent, sign = std::signbit(number) << 15;
        if (size != size) bits = sign | 0x7e00;
        else if (size >= 65520) bits = sign | 0x7c00;
        else if (size < 0x1p-14) bits = sign | (int)std::nearbyint(size * 0x1p24);
        else {
            double part = std::frexp(size, &exponent);
            bits = sign | (((exponent + 13) << 10) + (int)std::nearbyint(part * 2048));
        }
    }
    operator float() const {
        int exponent = bits >> 10 & 31, digits = bits & 1023;
        float size = exponent == 31 ? digits ? NAN : INFINITY
            : exponent ? std::ldexp((float)(1024 + digits), exponent - 25) : std::ldexp((float)digits, -24);
        return bits >> 15 ? -size : size;
    }
};
"""
#: Each operation is rounded, and integers overflow as NumPy's do.
_FLAGS = ["-O1", "-shared", "-fPIC", "-ffp-contract=off", "-fwrapv", "-w"]

_C_TYPES = {"float": ctypes.c_float, "double": ctypes.c_double, "long long": ctypes.c_longlong}


class _View(ctypes.Structure):
    _fields_: ClassVar = [("data", ctypes.c_void_p), ("size", ctypes.c_longlong)]


@final
class HostArray(np.lib.mixins.NDArrayOperatorsMixin):
    """An array of another library as far as NumPy knows, in memory of the host.

    Args:
        shape: its shape.
        dtype: its dtype.
        memptr: the `data` of an array without gaps whose memory it takes; None for memory of its own.
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any, memptr: Any = None) -> None:
        self.host = np.empty(shape, dtype) if memptr is None else np.ndarray(shape, dtype, memptr.array)

    @property
    def data(self) -> Any:
        """The pointer, and the GPU that it belongs to."""
        return SimpleNamespace(ptr=self.host.ctypes.data, device_id=0, array=self.host)

    @property
    def base(self) -> Any:
        """The array that it is a view of."""
        return _wrapped(self.host.base)

    @property
    def _c_contiguous(self) -> bool:
        return self.host.flags.c_contiguous

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Return what NumPy returns, as arrays of this type."""
        return _wrapped(getattr(ufunc, method)(*_bare(inputs), **_bare(kwargs)))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Return what NumPy returns, as arrays of this type."""
        given = _bare(kwargs)
        return _wrapped(function(*_bare(args), **{name: value for name, value in given.items() if name != "like"}))

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.host, name)
        if callable(found):
            return lambda *args, **kwargs: _wrapped(found(*_bare(args), **_bare(kwargs)))
        return _wrapped(found)

    def __getitem__(self, index: Any) -> Any:
        return _wrapped(self.host[_bare(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        self.host[_bare(index)] = _bare(value)

    def __len__(self) -> int:
        return len(self.host)


def on_host(array: Any) -> HostArray:
    """Return a copy of a NumPy array as a HostArray, laid out alike."""
    return _wrapped(np.array(array, order="K"))  # type: ignore[no-any-return]


def _wrapped(value: Any) -> Any:
    """Return NumPy's arrays as HostArrays; a result without axes is one, too."""
    if isinstance(value, (tuple, list)) and any(isinstance(one, np.ndarray) for one in value):
        return type(value)(map(_wrapped, value))
    if not isinstance(value, (np.ndarray, np.generic)):
        return value
    made = object.__new__(HostArray)
    made.host = np.asarray(value)
    return made


def _bare(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)(map(_bare, value))
    if isinstance(value, dict):
        return {name: _bare(one) for name, one in value.items()}
    return value.host if isinstance(value, HostArray) else value


@cache
def built(source: str, language: str = "c") -> ctypes.CDLL:
    """Return a library of a source in C, or in C++. Many tests have the same kernels."""
    compiler = COMPILER if language == "c" else CPLUSPLUS_COMPILER
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "kernel.so")
        command = [str(compiler), *_FLAGS, "-o", str(library), "-x", language, "-", "-lm"]
        subprocess.run(command, input=source, text=True, check=True)
        return ctypes.CDLL(str(library))


@final
class RawModule:
    """The kernels of a source.

    Args:
        code: the source.
        options: for CUDA's compiler.
    """

    def __init__(self, code: str, options: tuple[str, ...]) -> None:
        self.code = code
        assert options == ("--fmad=false",)

    def get_function(self, name: str) -> Any:
        """Return what launches one kernel: all threads run one after the other."""
        found = re.search(rf"KERNEL void {name}\((.*)\) \{{", self.code)
        assert found is not None
        parameters = found[1].split(", ")
        given = ", ".join(parameter.rpartition(" ")[2] for parameter in parameters)
        driver = (
            f"void launch(long long threads, {found[1]}) {{ "
            f"for (THREAD = 0; THREAD < threads; THREAD++) {name}({given}); }}\n"
        )
        library = built(self.code + driver)

        def linear_launch(threads: int, arguments: tuple[Any, ...], _shared: int, block: int) -> None:
            assert threads
            assert len(arguments) == len(parameters)
            values = [_value(one, parameter) for one, parameter in zip(arguments, parameters, strict=True)]
            library.launch(ctypes.c_longlong(-(-threads // block) * block), *values)

        return SimpleNamespace(kernel=SimpleNamespace(linear_launch=linear_launch))


class _CppModule(ABC):
    """Abstract: the kernels of a source in C++.

    Args:
        code: the source, after macros for the host's compiler.
        options: for CUDA's compiler.
    """

    #: The names of the kernels that have run.
    launched: ClassVar[list[str]]

    def __init__(self, code: str, options: tuple[str, ...]) -> None:
        self.code = code
        assert options == ("-std=c++17",)

    @cached_property
    def _library(self) -> ctypes.CDLL:
        return built(self.code, "c++")

    @abstractmethod
    def get_function(self, name: str) -> Any:
        """Return what launches one kernel."""


@final
class GridModule(_CppModule):
    """The kernels of a source in C++, each of whose threads begins at its own index and goes on by the grid's size.

    Args:
        code: the source, after GRID_MACROS.
        options: for CUDA's compiler.
    """

    launched: ClassVar[list[str]] = []

    def get_function(self, name: str) -> Any:
        """Return what launches one kernel, with two blocks of three threads that run one after the other."""
        function = getattr(self._library, name)

        def linear_launch(threads: int, arguments: tuple[Any, ...], _shared: int, block: int) -> None:
            assert threads > 0
            assert block == 256
            self.launched.append(name)
            given = [
                ctypes.c_void_p(one.data.ptr) if isinstance(one, HostArray) else ctypes.c_longlong(one)
                for one in arguments
            ]
            for number in range(6):
                self._library.set_thread(2, 3, number // 3, number % 3)
                function(*given)

        return SimpleNamespace(kernel=SimpleNamespace(linear_launch=linear_launch))


@final
class WarpModule(_CppModule):
    """The kernels of a source in C++ whose warps vote.

    Args:
        code: the source, after WARP_MACROS.
        options: for CUDA's compiler.
    """

    launched: ClassVar[list[str]] = []

    def get_function(self, name: str) -> Any:
        """Return what launches one kernel: its blocks run one after the other, and their order tells nothing."""
        function = getattr(self._library, name)

        def linear_launch(threads: int, arguments: tuple[Any, ...], _shared: int, block: int) -> None:
            assert block % 32 == 0 == threads % block
            assert threads
            self.launched.append(name)
            given = [one.data.ptr if isinstance(one, HostArray) else one for one in arguments]
            memory = (ctypes.c_longlong * 16)(*given)
            count = threads // block
            # Any order must do: odd blocks first.
            for number in (*range(1, count, 2), *range(0, count, 2)):
                assert self._library.run_block(function, memory, count, number, block), "a warp that votes is not whole"

        return SimpleNamespace(kernel=SimpleNamespace(linear_launch=linear_launch))


def _value(argument: Any, parameter: str) -> Any:
    """Return an argument as the kernel takes it."""
    kind = " ".join(parameter.split()[1:-1])
    if kind == "View":
        return _View(argument.data.ptr, argument.size)
    if kind == "Table":

        class Table(ctypes.Structure):
            _fields_: ClassVar = [("bytes", ctypes.c_ulonglong * (argument.nbytes // 8))]

        return Table.from_buffer_copy(argument.tobytes())
    return _C_TYPES[kind](argument)


@final
class ElementwiseKernel:
    """A kernel of arrays of any shape and layout.

    Args:
        in_params: the types and names of its arguments.
        out_params: that of its result.
        operation: what computes an element.
        name: the name of the kernel.
        preamble: the source before the kernel.
        options: for CUDA's compiler.
    """

    def __init__(
        self, in_params: str, out_params: str, operation: str, name: str, *, preamble: str, options: tuple[str, ...]
    ) -> None:
        assert options == ("--fmad=false",)
        self._dtypes = [np.dtype(one.split()[0]) for one in f"{in_params}, {out_params}".split(", ")]
        names = [one.split()[1] for one in f"{in_params}, {out_params}".split(", ")]
        stored = {"float16": "HALF", "float32": "float", "float64": "double", "int64": "long long", "bool": "bool"}
        pairs = list(zip(self._dtypes, names, strict=True))
        arrays = ", ".join(f"{stored[dtype.name]} *{one}_" for dtype, one in pairs)
        loads = " ".join(f"{stored[dtype.name]} {one} = {one}_[i];" for dtype, one in pairs)
        self._library = built(
            f"{preamble}\nvoid {name}(long long n, {arrays}) {{ for (long long i = 0; i < n; i++) "
            f"{{ {loads} {operation}; {names[-1]}_[i] = {names[-1]}; }} }}\n"
        )
        self._name = name

    def __call__(self, *arguments: Any) -> Any:
        """Return the result for all elements."""
        given = np.broadcast_arrays(*_bare(arguments))
        arrays = [np.ascontiguousarray(one, dtype) for one, dtype in zip(given, self._dtypes, strict=False)]
        out = np.empty(given[0].shape, self._dtypes[-1])
        pointers = [ctypes.c_void_p(one.ctypes.data) for one in (*arrays, out)]
        getattr(self._library, self._name)(ctypes.c_longlong(out.size), *pointers)
        return _wrapped(out)


@final
class HostCupy:
    """What `CudaKernels` asks of the module, in the memory of the host."""

    ndarray = HostArray
    RawModule = RawModule
    ElementwiseKernel = ElementwiseKernel
    cuda = SimpleNamespace(
        runtime=SimpleNamespace(getDeviceCount=lambda: 1), get_current_stream=lambda: SimpleNamespace(ptr=0)
    )


#: In the place of BLOCK_SOURCE: a block has one thread, which has the sum and the maximum of all at once.
_ONE_THREAD = """\
#include <cmath>
using std::exp; using std::log; using std::sqrt; using std::isnan;
#define __device__
#define __shared__ static
#define __syncthreads()
#define __longlong_as_double(bits) __builtin_bit_cast(double, bits)
#define KERNEL extern "C" void
static struct { unsigned x; } blockIdx, threadIdx, blockDim = {1};
extern "C" void use_block(unsigned block) { blockIdx.x = block; }
#define LOWEST ((double)-INFINITY)
template <typename T> T larger(T a, T b) { return a > b || isnan(a) ? a : b; }
template <typename T, bool is_sum> T over_block(T value) { return value; }
#define EACH(k) for (long long k = 0; k < length; k++)
#define SUM(value) over_block<T, true>(value)
template <typename T, typename Term, typename Finish>
void sum_columns(long long rows, long long width, int columns, Term term, Finish finish) {
    for (long long column = blockIdx.x * columns; column < width && column < (blockIdx.x + 1LL) * columns; column++) {
        T total = 0;
        for (long long row = 0; row < rows; row++) total += term(row, column);
        finish(column, total);
    }
}
"""


@final
class BlockModule:
    """Kernels in which a block of threads computes a row; here it is one thread, and blocks run one after the other.

    Args:
        code: the source.
        options: for CUDA's compiler.
    """

    def __init__(self, code: str, options: tuple[str, ...]) -> None:
        assert options == ("-std=c++17",)
        assert code.startswith(BLOCK_SOURCE)
        self._code = code.removeprefix(BLOCK_SOURCE)
        self._library: Any = None
        #: The names of the kernels that have been launched.
        self.launched: list[str] = []

    def get_function(self, name: str) -> Any:
        """Return what launches one kernel."""
        if self._library is None:
            with tempfile.TemporaryDirectory() as folder:
                path = str(Path(folder, "kernels.so"))
                flags = ["-std=c++17", "-O1", "-shared", "-fPIC", "-ffp-contract=off", "-w", "-x", "c++", "-", "-o"]
                source = _ONE_THREAD + self._code
                subprocess.run([str(CPLUSPLUS_COMPILER), *flags, path], input=source, text=True, check=True)
                self._library = ctypes.CDLL(path)

        def linear_launch(threads: int, arguments: tuple[Any, ...], _shared: int, block: int) -> None:
            assert block % 32 == 0 == threads % block
            self.launched.append(name)
            for one in range(threads // block):
                self._library.use_block(one)
                getattr(self._library, name)(*map(_block_value, arguments))

        return SimpleNamespace(kernel=SimpleNamespace(linear_launch=linear_launch))


def _block_value(argument: Any) -> Any:
    if isinstance(argument, HostArray):
        return ctypes.c_void_p(argument.data.ptr)
    if isinstance(argument, (np.float32, np.float64)):
        return (ctypes.c_float if argument.dtype == np.float32 else ctypes.c_double)(argument)
    return ctypes.c_longlong(argument)


@final
class BlockCupy:
    """What `RowFunctions` asks of the module, in the memory of the host."""

    ndarray = HostArray
    cuda = HostCupy.cuda

    def __init__(self) -> None:
        self.modules: list[BlockModule] = []

    def RawModule(self, code: str, options: tuple[str, ...]) -> BlockModule:  # noqa: N802
        """Return the kernels of a source."""
        self.modules.append(BlockModule(code, options))
        return self.modules[-1]

    @property
    def launched(self) -> list[str]:
        """The names of the kernels that have been launched."""
        return [name for module in self.modules for name in module.launched]
