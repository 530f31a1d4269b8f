"""The text of kernels in C: of elementwise formulas, of arrays side by side, and of updates of many arrays at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ._kernel_source import STORED_AS, Kind, Value, computed_as

__all__ = [
    "BLOCK",
    "CHUNK",
    "COPIED_AS",
    "CUDA_MACROS",
    "Operand",
    "body_function",
    "concatenate_text",
    "elementwise_text",
    "preamble",
    "table_dtype",
    "update_text",
]

#: The threads of a block, and how many elements each handles at a time.
BLOCK, WIDTH = 128, 4
#: How many elements of an array one block of an update handles.
CHUNK = 4 * WIDTH * BLOCK
#: The bytes of the table of an update. CUDA passes 4,096 by value to a kernel on every device.
_LARGEST_TABLE = 4000

#: What CUDA writes otherwise than the host's compiler of C.
CUDA_MACROS = """\
#define KERNEL extern "C" __global__
#define DEVICE __device__ __forceinline__
#define ALIGNED(bytes) __align__(bytes)
#define THREAD ((long long)blockIdx.x * blockDim.x + threadIdx.x)
// Without it, reading an element by a number that is not known would copy the whole argument for each thread.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
#define BY_VALUE const __grid_constant__
#else
#define BY_VALUE const
#endif
#define INFINITE __longlong_as_double(0x7ff0000000000000LL)
#define NOT_A_NUMBER __longlong_as_double(0x7ff8000000000000LL)
"""
_CUDA_HALF = """\
#include <cupy/float16.cuh>
#define HALF float16
#define ROUND_HALF(number) ((float)float16((float)(number)))
"""

#: NumPy's definitions of functions that C does not have.
_FUNCTIONS = """\
#define DEFINE_FUNCTIONS(T, f) \\
DEVICE T logaddexp##f(T x, T y) { \\
    const T d = x - y; \\
    if (x == y) return x + (T)0.6931471805599453; \\
    return d > 0 ? x + log1p##f(exp##f(-d)) : d <= 0 ? y + log1p##f(exp##f(d)) : d; \\
} \\
DEVICE T logaddexp2##f(T x, T y) { \\
    const T d = x - y, scale = (T)1.4426950408889634; \\
    if (x == y) return x + 1; \\
    return d > 0 ? x + scale * log1p##f(exp2##f(-d)) : d <= 0 ? y + scale * log1p##f(exp2##f(d)) : d; \\
} \\
DEVICE T remainder_of##f(T x, T y) { \\
    const T rest = fmod##f(x, y); \\
    if (y == 0) return rest; \\
    if (rest == 0) return copysign##f((T)0, y); \\
    return (y < 0) != (rest < 0) ? rest + y : rest; \\
} \\
DEVICE T floor_divide##f(T x, T y) { \\
    const T rest = fmod##f(x, y); \\
    T quotient = (x - rest) / y, whole; \\
    if (y == 0) return x / y; \\
    if (rest != 0 && (y < 0) != (rest < 0)) quotient -= 1; \\
    if (quotient == 0) return copysign##f((T)0, x / y); \\
    whole = floor##f(quotient); \\
    return quotient - whole > (T)0.5 ? whole + 1 : whole; \\
}
DEFINE_FUNCTIONS(float, f)
DEFINE_FUNCTIONS(double, )
"""
_DEFINED = ("logaddexp", "remainder_of", "floor_divide")


class Operand(NamedTuple):
    """An argument of an elementwise kernel.

    Its mode says how it is broadcast: "full" has the shape of the result, "row" that of its last axes, "column" that of
    its first axes with axes of length 1 behind, "channel" that of axes in the midst with axes of length 1 behind,
    "single" holds one element; "pitched" has the shape of the result, and lies in rows with gaps between them; "number"
    is passed by value, and "fixed" is part of the source.
    """

    kind: Kind
    mode: str


def _needs_half(kinds: Sequence[Kind]) -> bool:
    """Tell whether one of the dtypes is half precision."""
    return any(isinstance(kind, np.dtype) and kind.char == "e" for kind in kinds)


def _stored(kind: Kind) -> str:
    """Return the C type of an element, or of a Python number."""
    return STORED_AS[kind.char] if isinstance(kind, np.dtype) else "double" if kind is float else "long long"


def _computed(kind: Kind) -> str:
    return computed_as(kind) if isinstance(kind, np.dtype) else _stored(kind)


def preamble(macros: str, kinds: Sequence[Kind], lines: Sequence[str]) -> list[str]:
    """Return the lines that come before a kernel."""
    written = "\n".join(lines)
    return [
        # CUDA's own header comes before the macros, whose names it may use.
        *([_CUDA_HALF] if macros is CUDA_MACROS and (_needs_half(kinds) or "ROUND_HALF" in written) else []),
        macros,
        *([_FUNCTIONS] if any(name in written for name in _DEFINED) else []),
    ]


def _four(name: str, kind: np.dtype) -> str:
    """Return the definition of a type of four elements, which are read and written at once."""
    return f"typedef struct ALIGNED({min(16, 4 * kind.itemsize)}) {name}_ {{ {_stored(kind)} v[4]; }} {name};"


def body_function(operands: Sequence[Operand], lines: Sequence[str], results: Sequence[Value]) -> list[str]:
    """Return the function that computes one element; it writes the results by pointers where there are several."""
    parameters = [f"const {_computed(one.kind)} p{nr}" for nr, one in enumerate(operands) if one.mode != "fixed"]
    if len(results) == 1:
        returned, last = _computed(results[0].kind), [f"return {results[0].text};"]
    else:
        returned = "void"
        parameters += [f"{_computed(result.kind)} *r{nr}" for nr, result in enumerate(results)]
        last = [f"*r{nr} = {result.text};" for nr, result in enumerate(results)]
    return [
        f"DEVICE {returned} body({', '.join(parameters)}) {{",
        *(f"    {line}" for line in [*lines, *last]),
        "}",
    ]


def elementwise_text(
    name: str, operands: Sequence[Operand], lines: Sequence[str], results: Sequence[Value], macros: str = CUDA_MACROS
) -> str:
    """Return the source of a kernel that computes arrays of one shape, four elements of each in each thread.

    Its arguments are the results and the operands, and then for each that is "pitched" the length of its rows and how
    many elements apart they begin, and for each "channel" how many elements of the result in a row it is repeated for.
    CuPy passes an array as a structure whose first two fields are the pointer and the number of elements, so no
    argument says how many there are.
    """
    arrays = [nr for nr, one in enumerate(operands) if one.mode not in ("number", "fixed")]
    full = [nr for nr in arrays if operands[nr].mode == "full"]
    outs = range(len(results))
    kinds = [*(operands[nr].kind for nr in arrays), *(result.kind for result in results)]
    parameters = [f"const View r{nr}" for nr in outs]
    for nr, one in enumerate(operands):
        if one.mode == "number":
            parameters.append(f"const {_stored(one.kind)} a{nr}")
        elif one.mode != "fixed":
            parameters.append(f"const View a{nr}")
    for nr in arrays:
        if operands[nr].mode == "pitched":
            parameters += [f"const long long w{nr}", f"const long long s{nr}"]
        elif operands[nr].mode == "channel":
            parameters.append(f"const long long w{nr}")
    aligned = " | ".join(
        f"(unsigned long long){name}.data" for name in [*(f"r{nr}" for nr in outs), *(f"a{nr}" for nr in full)]
    )
    text = [
        *preamble(macros, kinds, lines),
        "typedef struct { char *data; long long size; } View;",
        *(_four(f"Four{nr}", operands[nr].kind) for nr in full),
        *(_four(f"FourR{nr}", result.kind) for nr, result in enumerate(results)),
        *body_function(operands, lines, results),
        f"KERNEL void {name}({', '.join(parameters)}) {{",
        f"    const long long n = r0.size, begin = {WIDTH} * THREAD;",
        f"    const int count = n - begin < {WIDTH} ? (int)(n - begin) : {WIDTH};",
        f"    const bool is_whole = count == {WIDTH} && (({aligned}) & 15) == 0;",
        *(f"    FourR{nr} y{nr};" for nr in outs),
        *(f"    Four{nr} x{nr};" for nr in full),
        "    if (begin >= n) return;",
    ]
    for nr, one in enumerate(operands):
        text += _loads(nr, one)
    text += [
        f"    for (int k = 0; k < {WIDTH}; k++) if (k < count) {{",
        *(f"        {line}" for line in _body_call(operands, results)),
        *(f"        {step}" for nr, one in enumerate(operands) for step in _steps(nr, one)),
        "    }",
    ]
    for nr, result in enumerate(results):
        stored = _stored(result.kind)
        text += [
            f"    if (is_whole) ((FourR{nr}*)r{nr}.data)[begin / {WIDTH}] = y{nr};",
            f"    else for (int k = 0; k < count; k++) (({stored}*)r{nr}.data)[begin + k] = y{nr}.v[k];",
        ]
    return "\n".join([*text, "}"]) + "\n"


def _body_call(operands: Sequence[Operand], results: Sequence[Value]) -> list[str]:
    """Return what computes element k of each result."""
    given = [_element(nr, one) for nr, one in enumerate(operands) if one.mode != "fixed"]
    if len(results) == 1:
        return [f"y0.v[k] = ({_stored(results[0].kind)})body({', '.join(given)});"]
    declared = [f"{_computed(result.kind)} z{nr};" for nr, result in enumerate(results)]
    given += [f"&z{nr}" for nr in range(len(results))]
    stores = [f"y{nr}.v[k] = ({_stored(result.kind)})z{nr};" for nr, result in enumerate(results)]
    return [*declared, f"body({', '.join(given)});", *stores]


def _loads(nr: int, one: Operand) -> list[str]:
    """Return what fetches four elements of an operand that is as large as the result, or finds its first index."""
    small = "n <= 0x7fffffff ? (long long)((unsigned)begin {0} (unsigned)({1})) : begin {0} ({1})"
    if one.mode == "full":
        stored = _stored(one.kind)
        return [
            f"    if (is_whole) x{nr} = ((const Four{nr}*)a{nr}.data)[begin / {WIDTH}];",
            f"    else for (int k = 0; k < count; k++) x{nr}.v[k] = ((const {stored}*)a{nr}.data)[begin + k];",
        ]
    if one.mode == "row":
        return [f"    long long j{nr} = {small.format('%', f'a{nr}.size')};"]
    if one.mode == "column":
        return [
            f"    const long long w{nr} = n / a{nr}.size;",
            f"    long long j{nr} = {small.format('/', f'w{nr}')}, k{nr} = begin - j{nr} * w{nr};",
        ]
    if one.mode == "channel":
        row = small.format("/", f"w{nr}")
        return [
            f"    long long j{nr} = {row}, k{nr} = begin - j{nr} * w{nr};",
            f"    j{nr} %= a{nr}.size;",
        ]
    if one.mode == "pitched":
        return [f"    long long j{nr} = {small.format('/', f'w{nr}')}, k{nr} = begin - j{nr} * w{nr};"]
    return []


def _element(nr: int, one: Operand) -> str:
    """Return the source of an element of an operand."""
    if one.mode == "number":
        return f"({_computed(one.kind)})a{nr}"
    if one.mode == "full":
        return f"({_computed(one.kind)})x{nr}.v[k]"
    index = {"single": "0", "pitched": f"j{nr} * s{nr} + k{nr}"}.get(one.mode, f"j{nr}")
    return f"({_computed(one.kind)})((const {_stored(one.kind)}*)a{nr}.data)[{index}]"


def _steps(nr: int, one: Operand) -> list[str]:
    """Return what goes on to the next element of an operand that is broadcast."""
    if one.mode == "row":
        return [f"if (++j{nr} == a{nr}.size) j{nr} = 0;"]
    if one.mode == "channel":
        return [f"if (++k{nr} == w{nr}) {{ k{nr} = 0; if (++j{nr} == a{nr}.size) j{nr} = 0; }}"]
    is_in_rows = one.mode in ("column", "pitched")
    return [f"if (++k{nr} == w{nr}) {{ k{nr} = 0; ++j{nr}; }}"] if is_in_rows else []


#: By itemsize, a type of C to copy elements by.
COPIED_AS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}


def concatenate_text(name: str, itemsize: int, count: int, macros: str = CUDA_MACROS) -> str:
    """Return the source of a kernel that lays arrays side by side, one element in each thread.

    Its arguments are the result, the arrays, and how many elements of each array lie side by side in a row of it.
    """
    stored = COPIED_AS[itemsize]
    widths = " + ".join(f"w{nr}" for nr in range(count))
    views = ", ".join(f"const View a{nr}" for nr in range(count))
    numbers = ", ".join(f"const long long w{nr}" for nr in range(count))
    text = [
        macros,
        "typedef struct { char *data; long long size; } View;",
        f"KERNEL void {name}(const View r, {views}, {numbers}) {{",
        f"    const long long i = THREAD, width = {widths};",
        # A division of long long takes a hundred instructions.
        "    const long long row = r.size <= 0x7fffffff ? (unsigned)i / (unsigned)width : i / width;",
        "    long long place = i - row * width;",
        "    if (i >= r.size) return;",
    ]
    for nr in range(count):
        text += [
            f"    if (place < w{nr}) {{",
            f"        (({stored}*)r.data)[i] = ((const {stored}*)a{nr}.data)[row * w{nr} + place];",
            "        return;",
            "    }",
            f"    place -= w{nr};",
        ]
    return "\n".join([*text, "}"]) + "\n"


def table_dtype(arrays: int, numbers: int) -> np.dtype:
    """Return the dtype of the table that an update is given: numbers, and of each row its pointers and size.

    `first` says with which block each row begins; it has one entry more than there are rows.
    """
    rows = (_LARGEST_TABLE - 8 * numbers - 16) // (8 * arrays + 8 + 4)
    return np.dtype(
        [
            ("numbers", np.float64, (max(numbers, 1),)),
            ("size", np.int64, (rows,)),
            ("pointer", np.uint64, (arrays, rows)),
            ("count", np.int32),
            ("first", np.int32, (rows + 1,)),
        ],
        align=True,
    )


def _update_of_four(arrays: int, written: int, stored: str, given: Sequence[str]) -> list[str]:
    """Return what reads four elements of each array of a row, and writes those of the first arrays."""
    pointers = [f"{stored} *q{nr} = t.pointer[{nr}][row] + i;" for nr in range(arrays)]
    aligned = " | ".join(f"(unsigned long long)q{nr}" for nr in range(arrays))
    return [
        *pointers,
        f"const bool is_whole = count == {WIDTH} && (({aligned}) & 15) == 0;",
        f"Four {', '.join(f'x{nr}' for nr in range(arrays))};",
        "if (is_whole) {",
        *(f"    x{nr} = *(const Four*)q{nr};" for nr in range(arrays)),
        "} else for (int k = 0; k < count; k++) {",
        *(f"    x{nr}.v[k] = q{nr}[k];" for nr in range(arrays)),
        "}",
        f"for (int k = 0; k < {WIDTH}; k++) if (k < count) body({', '.join(given)});",
        "if (is_whole) {",
        *(f"    *(Four*)q{nr} = x{nr};" for nr in range(written)),
        "} else for (int k = 0; k < count; k++) {",
        *(f"    q{nr}[k] = x{nr}.v[k];" for nr in range(written)),
        "}",
    ]


def update_text(
    name: str,
    kind: np.dtype,
    table: np.dtype,
    lines: Sequence[str],
    results: Sequence[Value],
    numbers: int,
    macros: str = CUDA_MACROS,
) -> str:
    """Return the source of a kernel that applies a formula to all rows of a table.

    A row is arrays of one dtype and size, dense and laid out alike. The first of them get the results.
    """
    (arrays, rows), stored, computed = table["pointer"].shape, STORED_AS[kind.char], computed_as(kind)
    own = [f"const {computed} p{nr}" for nr in range(arrays)]
    given = [f"({computed})x{nr}.v[k]" for nr in range(arrays)]
    own += [f"const double p{arrays + nr}" for nr in range(numbers)]
    given += [f"t.numbers[{nr}]" for nr in range(numbers)]
    own += [f"{stored} *r{nr}" for nr in range(len(results))]
    given += [f"&x{nr}.v[k]" for nr in range(len(results))]
    text = [
        *preamble(macros, [kind], lines),
        "typedef struct {",
        f"    double numbers[{max(numbers, 1)}];",
        f"    long long size[{rows}];",
        f"    {stored} *pointer[{arrays}][{rows}];",
        f"    int count, first[{rows + 1}];",
        "} Table;",
        _four("Four", kind),
        f"DEVICE void body({', '.join(own)}) {{",
        *(f"    {line}" for line in lines),
        *(f"    *r{nr} = ({stored}){result.text};" for nr, result in enumerate(results)),
        "}",
        f"KERNEL void {name}(BY_VALUE Table t) {{",
        f"    const int block = (int)(THREAD / {BLOCK}), thread = (int)(THREAD % {BLOCK});",
        "    int row = 0, end = t.count;",
        "    while (end - row > 1) {",
        "        const int middle = (row + end) / 2;",
        "        if (t.first[middle] <= block) row = middle;",
        "        else end = middle;",
        "    }",
        f"    const long long start = (long long)(block - t.first[row]) * {CHUNK};",
        f"    const long long stop = start + {CHUNK} < t.size[row] ? start + {CHUNK} : t.size[row];",
        f"    for (long long i = start + {WIDTH} * thread; i < stop; i += {WIDTH * BLOCK}) {{",
        f"        const int count = stop - i < {WIDTH} ? (int)(stop - i) : {WIDTH};",
    ]
    inner = _update_of_four(arrays, len(results), stored, given)
    return "\n".join([*text, *(f"        {line}" for line in inner), "    }", "}"]) + "\n"
