"""The kernel of each operation has the bits and the flags of NumPy's function, in each layout, for special numbers."""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from asyncgrad.tracing import exponential
from asyncgrad.tracing import kernels as kernels_module
from asyncgrad.tracing.fusion import Instruction, Kernel, Operand, chooses_as_here, kind_of
from asyncgrad.tracing.inner_loops import InnerLoop, address_of, inner_loop
from asyncgrad.tracing.kernel_trials import exponential_agrees, exponentials_by_kernel, ordinary_numbers
from asyncgrad.tracing.kernels import compiled_kernel, has_quiet_comparisons, source_of
from asyncgrad.tracing.loop_trials import call_loop
from asyncgrad.tracing.runner import ERRORS, LINE
from tests.support.sampling import SHARE, cases, some

pytest.importorskip("llvmlite")

FLOATS = [0.0, -0.0, 1.0, -1.0, 3.3, -0.1, 1e-310, -5e-324, 1e-40, 1e300, -1e38, 3e38, np.inf, -np.inf, np.nan, -np.nan]
INTEGERS = [0, 1, -1, 7, -13, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63), 2**53 + 1]
ARITHMETIC = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "square": np.square,
    "negative": np.negative,
    "absolute": np.absolute,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "equal": np.equal,
    "not_equal": np.not_equal,
}
OF_FLOATS = {
    **ARITHMETIC,
    "divide": np.divide,
    "reciprocal": np.reciprocal,
    "sqrt": np.sqrt,
    "isnan": np.isnan,
}
BITS = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert}
OPERATIONS: list[tuple[str, str, Any]] = [
    *[(name, kind, ufunc) for kind in "fd" for name, ufunc in OF_FLOATS.items()],
    ("exp", "f", np.exp),
    *[(name, "l", ufunc) for name, ufunc in {**ARITHMETIC, **BITS}.items()],
    *[(name, "?", ufunc) for name, ufunc in {**BITS, "same": np.equal}.items()],
]


def numbers(kind: str) -> np.ndarray:
    if kind in "fd":
        with np.errstate(all="ignore"):
            return np.array(FLOATS).astype(kind)
    if kind == "?":
        # Any byte but 0 is True.
        return np.array([0, 1, 2, 255], np.uint8).view(bool)
    return np.array([one for one in INTEGERS if kind == "l" or abs(one) < 2**31], kind)


def pairs(kind: str, count: int) -> list[np.ndarray]:
    """Return all pairs of special numbers, or each number; in lengths that leave something to each kind of loop."""
    special = numbers(kind)
    given = [special] if count == 1 else [np.repeat(special, len(special)), np.tile(special, len(special))]
    return [np.resize(one, 263) for one in given]


def run(kernel: Kernel, arrays: Sequence[np.ndarray]) -> int:
    """Run a kernel on arrays, the last of which it writes; return what it tells of NaN."""
    nan = np.zeros(1, np.int64)
    bases = np.zeros(1, np.int64)
    data = np.array([address_of(nan), *map(address_of, arrays)], np.int64)
    function = InnerLoop(compiled_kernel(kernel).address, address_of(data))
    call_loop(function, [address_of(bases)], [], [])
    return int(nan[0])


def kernel_of(code: Sequence[Instruction], arrays: Sequence[np.ndarray], reports_nan: bool = False) -> Kernel:
    shape = arrays[-1].shape
    operands = [Operand(kind_of(one.dtype), tuple(np.broadcast_to(one, shape).strides), False) for one in arrays]
    return Kernel(shape, tuple(operands), tuple(code), reports_nan)


def code_of(name: str, kind: str, made: str, count: int) -> list[Instruction]:
    loads = [Instruction("load", kind, kind, (index,)) for index in range(count)]
    return [
        *loads,
        Instruction(name, kind, made, tuple(range(count))),
        Instruction("store", made, made, (count, count)),
    ]


def layouts(given: Sequence[np.ndarray], made: str) -> list[list[np.ndarray]]:
    """Return the operands and the result in several layouts."""
    size = given[0].size

    def empty(shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros(shape, made)

    unaligned = []
    for one in (*given, empty((size,))):
        memory = np.zeros(one.nbytes + 1, np.uint8)
        unaligned.append(memory[1:].view(one.dtype))
        unaligned[-1][:] = one.view(np.uint8).view(one.dtype)
    wide = 7
    rows = [np.resize(one, (size // wide, wide)) for one in given]
    found = [
        [*given, empty((size,))],
        [*[np.repeat(one, 2)[::2] for one in given], empty((size,))],
        [*[one[::-1] for one in given], empty((size,))],
        [*given[:-1], given[-1][3:4], empty((size,))],
        [*[one[:, :1] for one in rows[:-1]], rows[-1], empty((size // wide, wide))],
        [*[one.T for one in rows], empty((size // wide, wide)).T],
        [*rows, empty((size // wide, 2 * wide))[:, ::2]],
        unaligned,
    ]
    found += [[*[one[:length] for one in given], empty((length,))] for length in (1, 2, 3, 4, 5, 15, 16, 17, 31, 33)]
    return found


@pytest.mark.parametrize(("name", "kind", "ufunc"), OPERATIONS, ids=[f"{name}-{kind}" for name, kind, _ in OPERATIONS])
def test_an_operation_has_the_bits_of_its_ufunc(name, kind, ufunc):
    if kind in "fd" and name in ("maximum", "minimum") and not chooses_as_here(ufunc, kind):
        pytest.skip("this NumPy chooses otherwise, so a kernel has none of it")
    if name == "exp" and not exponential_agrees():
        pytest.skip("this NumPy computes it otherwise, so a kernel has none of it")
    given = pairs(kind, ufunc.nin)
    if name in ("add", "multiply") and kind in "fd":
        # Which of two NaN is the result depends, in NumPy, on how many elements there are.
        both = np.isnan(given[0]) & np.isnan(given[1])
        given[1][both] = 1
    if name in ("xor", "same"):
        # Whether 2 is True for these depends on the same.
        given = [one & True for one in given]
    made = "?" if f"{kind * ufunc.nin}->?" in ufunc.types else kind
    for arrays in some(layouts(given, made), of=f"{name} {kind}"):
        with np.errstate(all="ignore"):
            expected = ufunc(*arrays[:-1])
        run(kernel_of(code_of(name, kind, made, ufunc.nin), arrays), arrays)
        assert arrays[-1].tobytes() == np.broadcast_to(expected, arrays[-1].shape).tobytes(), arrays[0].strides


@pytest.mark.parametrize("pair", ["?f", "?d", "?l", "fd", "id", "il", "ld", "df", "f?", "d?", "l?"])
def test_a_conversion_has_the_bits_of_numpys(pair):
    kind, made = pair
    for arrays in some(layouts(pairs(kind, 1), made), of=pair):
        expected = np.empty(arrays[-1].shape, made)
        with np.errstate(all="ignore"):
            np.copyto(expected, arrays[0], casting="unsafe")
        run(kernel_of(code_of("convert", kind, made, 1), arrays), arrays)
        assert arrays[-1].tobytes() == expected.tobytes(), arrays[0].strides


@pytest.mark.parametrize("kind", "fdl?")
def test_a_choice_has_the_bits_of_where(kind):
    condition = np.resize(np.array([0, 1, 2], np.uint8), 263).view(bool)
    code = [
        Instruction("load", "?", "?", (0,)),
        Instruction("load", kind, kind, (1,)),
        Instruction("load", kind, kind, (2,)),
        Instruction("where", kind, kind, (0, 1, 2)),
        Instruction("store", kind, kind, (3, 3)),
    ]
    a, b = pairs(kind, 2)
    if kind == "?":
        a, b = a & True, b & True
    arrays = [condition, a, b, np.zeros(263, kind)]

    run(kernel_of(code, arrays), arrays)

    assert arrays[-1].tobytes() == np.where(condition, a, b).tobytes()


def flags_of(run_it: Any) -> int:
    """Return the flags of floating-point errors that something raises, as the machine has them."""
    libm = ctypes.CDLL("libm.so.6")
    every = sum(ERRORS.values())
    libm.feclearexcept(every)
    run_it()
    return int(libm.fetestexcept(every))


@pytest.mark.parametrize("kind", "fd")
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("add", (np.inf, -np.inf)),
        ("add", "largest"),
        ("subtract", (np.inf, np.inf)),
        ("multiply", (0.0, np.inf)),
        ("multiply", "largest"),
        ("multiply", "smallest"),
        ("divide", (1.0, 0.0)),
        ("divide", (0.0, 0.0)),
        ("reciprocal", (0.0,)),
        ("sqrt", (-1.0,)),
        ("square", "largest one"),
        ("add", (1.0, 2.0)),
        ("divide", (1.0, np.inf)),
        ("less", (np.nan, 1.0)),
        ("isnan", (np.nan,)),
        ("maximum", (np.nan, 1.0)),
        ("negative", (np.nan,)),
    ],
    ids=str,
)
def test_an_operation_raises_the_flags_of_the_machine_and_no_others(kind, name, values):
    limits = np.finfo(kind)
    values = {
        "largest": (limits.max, limits.max),
        "largest one": (limits.max,),
        "smallest": (limits.smallest_normal, 0.3),
    }.get(values, values)
    made = "?" if name in ("less", "isnan") else kind
    told: list[str] = []
    with np.errstate(all="call"), np.errstate(call=lambda what, _: told.append(what)):
        OF_FLOATS[name](*[np.full(1, one, kind) for one in values])
    names = {"invalid": "invalid value", "divide": "divide by zero", "over": "overflow", "under": "underflow"}
    for length in (1, 5, 16, 37):
        arrays = [*[np.full(length, one, kind) for one in values], np.zeros(length, made)]
        kernel = kernel_of(code_of(name, kind, made, len(values)), arrays)
        compiled_kernel(kernel)

        found = flags_of(partial(run, kernel, arrays))

        raised = {names[one] for one, bit in ERRORS.items() if found & bit}
        if not has_quiet_comparisons() and name in ("less", "maximum"):
            raised.discard("invalid value")
        assert (raised, length) == (set(told), length)


def test_what_nobody_needs_is_computed_for_its_flags():
    code = [
        Instruction("load", "d", "d", (0,)),
        Instruction("reciprocal", "d", "d", (0,)),
        Instruction("negative", "d", "d", (0,)),
        Instruction("store", "d", "d", (1, 2)),
    ]
    for length in (3, 16):
        arrays = [np.zeros(length), np.zeros(length)]
        kernel = kernel_of(code, arrays)
        compiled_kernel(kernel)

        assert flags_of(lambda arrays=arrays, kernel=kernel: run(kernel, arrays)) & ERRORS["divide"]


def test_a_nan_is_told_of_wherever_it_is():
    for length in (1, 4, 21, 40):
        for place in range(length):
            a, b = np.ones(length), np.ones(length)
            arrays = [a, b, np.zeros(length)]
            kernel = kernel_of(code_of("add", "d", "d", 2), arrays, True)
            assert not run(kernel, arrays)
            b[place] = np.nan
            assert run(kernel, arrays)
    number = [np.ones(5), np.array(np.nan), np.zeros(5)]
    assert run(kernel_of(code_of("add", "d", "d", 2), number, True), number)


def test_kernels_that_are_equal_are_compiled_once_and_few_are_kept(monkeypatch):
    made = []
    compile_ = kernels_module._compile
    monkeypatch.setattr(kernels_module, "_kept", type(kernels_module._kept)())
    monkeypatch.setattr(kernels_module, "_MOST_KEPT", 3)
    monkeypatch.setattr(kernels_module, "_compile", lambda source: made.append(source) or compile_(source))
    for length in (3, 3, 4, 5, 6, 6, 3):
        arrays = [np.arange(float(length)), np.ones(length), np.zeros(length)]
        run(kernel_of(code_of("add", "d", "d", 2), arrays), arrays)
        assert arrays[-1].tolist() == (arrays[0] + 1).tolist()

    assert len(made) == 5
    assert len(kernels_module._kept) == 3


@pytest.mark.parametrize("kind", "fd")
@pytest.mark.parametrize("name", ["less", "greater_equal", "equal", "not_equal", "isnan", "maximum", "minimum"])
def test_comparisons_of_machines_that_have_no_quiet_ones_have_the_same_bits(monkeypatch, name, kind):
    monkeypatch.setattr(kernels_module, "_kept", type(kernels_module._kept)())
    monkeypatch.setattr(kernels_module, "has_quiet_comparisons", lambda: False)

    test_an_operation_has_the_bits_of_its_ufunc(name, kind, OF_FLOATS[name])


@pytest.mark.parametrize("kind", ["f", "d", "l", "?"])
def test_whole_lines_are_written_past_the_caches(kind):
    for shape, row, is_whole in (((263,), 263, True), ((5, 64), 64, True), ((5, 40), 128, True), ((5, 40), 41, False)):
        memory = np.zeros(8192, np.uint8)
        begin = -address_of(memory) % LINE
        into = memory[begin:].view(kind)[: shape[0] if len(shape) == 1 else shape[0] * row]
        into = into if len(shape) == 1 else into.reshape(shape[0], row)[:, : shape[1]]
        given = np.resize(numbers(kind), shape)
        code = [Instruction("load", kind, kind, (0,)), Instruction("store", kind, kind, (1, 0))]
        kernel = kernel_of(code, [given, into])
        given_operand, target = kernel.operands
        kernel = kernel._replace(operands=(given_operand, target._replace(is_past=True)))
        run(kernel, [given, into])
        assert into.tobytes() == (given != 0 if kind == "?" else given).tobytes()
        written_past = "!nontemporal" in source_of(kernel, has_quiet_comparisons())
        assert written_past == (is_whole and shape[-1] * into.itemsize >= LINE)


needs_exponential = pytest.mark.skipif(
    not exponential_agrees(), reason="NumPy computes this exponential otherwise, so a kernel has none of it"
)


@needs_exponential
def test_the_exponential_of_a_kernel_has_the_bits_of_numpys():
    # Bits of odd numbers that are so far apart.
    numbers = ordinary_numbers(round((1 << 10) / SHARE) | 1, cases(1 << 22))
    assert exponentials_by_kernel(numbers).tobytes() == np.exp(numbers).tobytes()


@needs_exponential
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 31, 32, 33, 71])
def test_the_exponential_of_a_number_that_is_not_ordinary_is_numpys_with_its_flags(length):
    loop = inner_loop(np.exp, "f->f")
    odd = [86.1, 88.7, 88.8, 1e30, np.inf, -86.1, -87.4, -90.0, -103.9, -104.0, -1e30, np.nan, -np.nan]
    exponentials_by_kernel(np.zeros(length, np.float32))
    for number in [*odd, 0.0, -0.0, 1e-40, -1e-45, -np.inf]:
        for place in {0, length // 2, length - 1}:
            numbers, expected = np.linspace(-3, 3, length, dtype=np.float32), np.empty(length, np.float32)
            numbers[place] = number
            places = [address_of(numbers), address_of(expected)]
            found: list[np.ndarray] = []

            def by_loop(places=places):
                call_loop(loop, places, [length], [4, 4])

            def by_kernel(found=found, numbers=numbers):
                found.append(exponentials_by_kernel(numbers))

            assert flags_of(by_loop) == flags_of(by_kernel), number
            assert found[0].tobytes() == expected.tobytes(), number


@needs_exponential
def test_an_exponential_with_other_bits_is_found_out(monkeypatch):
    monkeypatch.setattr(kernels_module, "_kept", OrderedDict())
    monkeypatch.setattr(exponential, "_LOW", exponential._LOW * (1 + 1e-3))

    assert not exponential_agrees.__wrapped__()
