"""The runner: a function in machine code that runs a table of calls of NumPy's inner loops, without the interpreter.

It is written in the language of LLVM and compiled once in a process, by llvmlite; nothing is compiled for a program. A
record of the table says which loop is called, with which arrays, how often and with which steps. Arrays are given by
numbers of bases: base 0 is address 0, so that an offset is an address, and the others are what a call has brought.

A record says whether the flags of floating-point errors are collected after its loop, and which of them nobody is to be
told of. Where one is set, the caller makes the calls by NumPy's functions, which then warn or raise as they do.
A record may have the address of a byte, where 0 says that it is passed over.
"""

from __future__ import annotations

import ctypes
import functools
import platform
from typing import Any, final

import numpy as np

from ..core.settings.extras import why_missing
from .index_loops import index_loop_names, write_index_loops
from .inner_loops import InnerLoop, are_loops_found, data_offset
from .machine_code import compiled_functions, features_of_processor
from .masked_loops import write_masked_loop
from .own_loops import CASTS, COPIES, constant, name_of_cast, write_loop, write_own_loops
from .product_loops import TileKind, write_product_loops

__all__ = [
    "ERRORS",
    "FIELDS",
    "HAS_FAILED",
    "HAS_NAN",
    "IS_OTHER",
    "IS_OUT_OF_BOUNDS",
    "LINE",
    "MOST_AXES",
    "MOST_OPERANDS",
    "RECORD",
    "Runner",
    "missing_extra",
    "runner",
]

#: How many operands a loop may have, and how many axes there may be around it and in it.
MOST_OPERANDS, MOST_AXES = 4, 8
#: The bytes of a line of a processor's cache; arrays of a table begin at one.
LINE = 64
#: A record of the table; each field is a 64-bit integer, and the last four have several.
FIELDS = {
    "loop": 1,
    "data": 1,
    "outer": 1,
    "collects": 1,
    "ignored": 1,
    "flag": 1,
    "base": MOST_OPERANDS,
    "offset": MOST_OPERANDS,
    "counts": MOST_AXES + 4,
    "steps": (MOST_AXES + 4) * MOST_OPERANDS,
}
_AT = {name: sum(list(FIELDS.values())[:index]) for index, name in enumerate(FIELDS)}
RECORD = np.dtype([(name, np.int64, (size,) if size > 1 else ()) for name, size in FIELDS.items()])
#: What a loop of the runner's says where a number is another one than in the traced run, and where an index is out of
#: bounds, so that NumPy's functions raise an error.
IS_OTHER, IS_OUT_OF_BOUNDS = 1, 2
#: By which bits `start` tells that a number is not 0: above those of floating-point errors.
HAS_FAILED, HAS_NAN = 32, 33
#: By machine, the bits of floating-point errors in <fenv.h>, by the names of np.errstate.
_ERRORS = {
    "x86_64": {"invalid": 1, "divide": 4, "over": 8, "under": 16},
    "amd64": {"invalid": 1, "divide": 4, "over": 8, "under": 16},
    "aarch64": {"invalid": 1, "divide": 2, "over": 4, "under": 8},
    "arm64": {"invalid": 1, "divide": 2, "over": 4, "under": 8},
}
ERRORS: dict[str, int] = _ERRORS.get(platform.machine().lower(), {})


@final
class Runner:
    """The compiled function; what it belongs to must live as long as it is called.

    Attributes:
        run: takes the addresses of the bases and of the table, the numbers of the first record and of the one after
            the last, and those of the bases, from one up to another, that are arrays of Python, in whose place it puts
            the addresses of their numbers; returns the flags of floating-point errors.
        start: takes the address of a call of `run`: its arguments, and the addresses of two numbers. Returns the flags,
            and besides them 1 << HAS_FAILED and 1 << HAS_NAN where the first and the second number are not 0.
        run_rows: takes the addresses of the bases and of the table, the numbers of the first record and of the one
            after the last, the address of what is added to each base after each run, how many bases there are, how
            many runs there are at most, and the address of a number; returns how many runs there were before the first
            one that set a flag or that number.
        check: a loop that compares bytes of two operands, and says in the third where they differ.
        casts: by the characters of two dtypes, a loop that converts numbers of the first into the second, exactly;
            where both are the same, it copies.
        row_copies: by the character of a dtype, a loop that copies along two axes.
        products: by the character of a dtype, loops that multiply a column and a row, and add zero; the second one
            writes past the caches.
        scales: by the character of a dtype, loops that multiply numbers by one number as BLAS does, which adds the
            product to zero, in one rounding or in two, and leaves zero where that number is zero.
        indexing: loops for indices by arrays, by what they do and the character of a dtype.
        masked: a loop that calls another one where a mask is true, whose address and last argument it is given.
        tiles: a loop that does a product by tiles, whose functions it is told of.
        tile_functions: their addresses; none where the processor does not multiply and add in one rounding.
    """

    __slots__ = (
        "_engine",
        "casts",
        "check",
        "indexing",
        "masked",
        "products",
        "row_copies",
        "run",
        "run_rows",
        "scales",
        "start",
        "tile_functions",
        "tiles",
    )

    def __init__(
        self,
        engine: Any,
        address: int,
        start: int,
        rows: int,
        check: int,
        casts: dict[str, int],
        row_copies: dict[str, int],
        scales: dict[str, list[int]],
        products: dict[str, list[int]],
        indexing: dict[str, int],
        masked: int,
        tiles: int,
        tile_functions: dict[TileKind, int],
    ) -> None:
        self._engine = engine
        self.check = InnerLoop(check, 0)
        self.masked = InnerLoop(masked, 0)
        self.tiles = InnerLoop(tiles, 0)
        self.tile_functions = tile_functions
        self.casts: dict[str, InnerLoop] = {pair: InnerLoop(place, 0) for pair, place in casts.items()}
        self.row_copies: dict[str, InnerLoop] = {kind: InnerLoop(place, 0) for kind, place in row_copies.items()}
        self.products: dict[str, list[InnerLoop]] = {
            kind: [InnerLoop(place, 0) for place in places] for kind, places in products.items()
        }
        self.scales: dict[str, list[InnerLoop]] = {
            kind: [InnerLoop(place, 0) for place in places] for kind, places in scales.items()
        }
        self.indexing: dict[str, InnerLoop] = {name: InnerLoop(place, 0) for name, place in indexing.items()}
        number = ctypes.c_int64
        # By ctypes the call lets other threads run Python meanwhile.
        self.run = ctypes.CFUNCTYPE(*[number] * 7)(address)
        # A call of one number takes a third of the time of one of six.
        self.start = ctypes.CFUNCTYPE(number, number)(start)
        self.run_rows = ctypes.CFUNCTYPE(*[number] * 9)(rows)


def missing_extra() -> str | None:
    """Return why there is no runner; None where there is one."""
    try:
        import llvmlite  # noqa: F401  # optional, and slow to load
    except ImportError as error:
        return f"llvmlite {why_missing(error, 'jit')}"
    if not are_loops_found():
        return "the inner loops of this NumPy are not found in memory"
    return None if ERRORS else f"the floating-point errors of {platform.machine()} are not known"


@functools.cache
def runner() -> Runner | None:
    """Return the runner of this process; None where it cannot be had."""
    if missing_extra() is not None:
        return None
    engine = compiled_functions(_source())
    address = engine.get_function_address
    casts = {pair: address(name_of_cast(pair)) for pair in CASTS}
    casts |= {kind * 2: address(f"copy_{size}") for size, kinds in COPIES.items() for kind in kinds}
    row_copies = {kind: address(f"copy_rows_{size}") for size, kinds in COPIES.items() for kind in kinds}
    scales = {kind: [address(f"scale_{kind}_{fused}") for fused in range(2)] for kind in "fd"}
    products = {kind: [address(f"product_{kind}_{past}") for past in range(2)] for kind in "fd"}
    indexing = {key: address(name) for key, name in index_loop_names().items()}
    names = "run", "start", "run_rows", "check", "masked", "tiles"
    run, start, rows, check, masked, tiles = (address(name) for name in names)
    functions = {one: address(one.name) for one in TileKind.every()} if _is_fusing() else {}
    return Runner(
        engine, run, start, rows, check, casts, row_copies, scales, products, indexing, masked, tiles, functions
    )


def _is_fusing() -> bool:
    """Tell whether the processor multiplies and adds in one rounding."""
    return platform.machine().lower() in ("aarch64", "arm64") or "+fma" in features_of_processor().flatten().split(",")


def _source() -> str:
    """Return the runner in LLVM's language."""
    from llvmlite import ir  # optional

    module = ir.Module("asyncgrad_runner")
    number, pointer = ir.IntType(64), ir.IntType(64).as_pointer()
    nest = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer, pointer, number]), "nest")
    nest.linkage = "internal"
    _write_nest(nest)
    run = ir.Function(module, ir.FunctionType(number, [number] * 6), "run")
    _write_run(run, nest)
    _write_start(ir.Function(module, ir.FunctionType(number, [number]), "start"), run)
    _write_run_rows(ir.Function(module, ir.FunctionType(number, [number] * 8), "run_rows"), run)
    loop = ir.FunctionType(ir.VoidType(), [pointer, pointer, pointer, number])
    write_own_loops(module, loop, MOST_OPERANDS)
    write_index_loops(module, loop)
    write_masked_loop(module, loop, MOST_OPERANDS)
    write_product_loops(module, loop)
    return str(module)


def _write_nest(nest: Any) -> None:
    """Write `nest(record, addresses, axis)`: call the loop for each element of the axes from `axis` to `outer`."""
    from llvmlite import ir  # optional

    number = ir.IntType(64)
    record, addresses, axis = nest.args
    build = ir.IRBuilder(nest.append_basic_block("entry"))
    innermost, around = nest.append_basic_block("innermost"), nest.append_basic_block("around")
    own = build.alloca(number, MOST_OPERANDS)
    for operand in range(MOST_OPERANDS):
        at = [ir.Constant(number, operand)]
        build.store(build.load(build.gep(addresses, at)), build.gep(own, at))
    outer = _field(build, record, "outer")
    build.cbranch(build.icmp_signed("==", axis, outer), innermost, around)

    build.position_at_end(innermost)
    _call_loop(build, record, own, axis)
    build.ret_void()

    build.position_at_end(around)
    count = build.load(_place(build, record, "counts", axis))
    done, again = nest.append_basic_block("done"), nest.append_basic_block("again")
    build.cbranch(build.icmp_signed(">", count, ir.Constant(number, 0)), again, done)
    start = build.block
    build.position_at_end(again)
    index = build.phi(number)
    index.add_incoming(ir.Constant(number, 0), start)
    build.call(nest, [record, own, build.add(axis, ir.Constant(number, 1))])
    first = build.mul(axis, ir.Constant(number, MOST_OPERANDS))
    for operand in range(MOST_OPERANDS):
        at = build.gep(own, [ir.Constant(number, operand)])
        step = build.load(_place(build, record, "steps", build.add(first, ir.Constant(number, operand))))
        build.store(build.add(build.load(at), step), at)
    following = build.add(index, ir.Constant(number, 1))
    index.add_incoming(following, build.block)
    build.cbranch(build.icmp_signed("<", following, count), again, done)
    build.position_at_end(done)
    build.ret_void()


def _call_loop(build: Any, record: Any, addresses: Any, axis: Any) -> None:
    from llvmlite import ir  # optional

    number, pointer = ir.IntType(64), ir.IntType(64).as_pointer()
    loop = ir.FunctionType(ir.VoidType(), [pointer, pointer, pointer, number]).as_pointer()
    counts = _place(build, record, "counts", axis)
    steps = _place(build, record, "steps", build.mul(axis, ir.Constant(number, MOST_OPERANDS)))
    function = build.inttoptr(_field(build, record, "loop"), loop)
    build.call(function, [addresses, counts, steps, _field(build, record, "data")])


def _write_run(run: Any, nest: Any) -> None:
    """Write `run(bases, table, first, last, first_array, last_array)`."""
    from llvmlite import ir  # optional

    number, pointer, short = ir.IntType(64), ir.IntType(64).as_pointer(), ir.IntType(32)
    bases, table, first, last, first_array, last_array = run.args
    zero = ir.Constant(number, 0)
    build = ir.IRBuilder(run.append_basic_block("entry"))
    flags, addresses = build.alloca(number), build.alloca(number, MOST_OPERANDS)
    build.store(zero, flags)
    known = build.inttoptr(bases, pointer)
    of_flags = ir.FunctionType(short, [short]).as_pointer()
    test = build.inttoptr(ir.Constant(number, _address_of("fetestexcept")), of_flags)
    clear = build.inttoptr(ir.Constant(number, _address_of("feclearexcept")), of_flags)
    every = ir.Constant(short, sum(ERRORS.values()))
    wanted = ir.GlobalVariable(run.module, ir.IntType(8), "wanted")
    wanted.initializer, wanted.global_constant = ir.Constant(ir.IntType(8), 1), True

    def find(index: Any) -> None:
        # A base that is an array of Python is replaced by where its numbers are.
        at = build.gep(known, [index])
        place = build.add(build.load(at), ir.Constant(number, data_offset() or 0))
        build.store(build.load(build.inttoptr(place, pointer)), at)

    def step(index: Any) -> None:
        place = build.mul(index, ir.Constant(number, sum(FIELDS.values())))
        record = build.gep(build.inttoptr(table, pointer), [place])
        for operand in range(MOST_OPERANDS):
            at = ir.Constant(number, operand)
            base = build.load(build.gep(known, [build.load(_place(build, record, "base", at))]))
            offset = build.load(_place(build, record, "offset", at))
            build.store(build.add(base, offset), build.gep(addresses, [at]))
        flag = _field(build, record, "flag")
        flag = build.select(build.icmp_signed("==", flag, zero), wanted, build.inttoptr(flag, wanted.type))
        with build.if_then(build.icmp_unsigned("!=", build.load(flag), ir.Constant(ir.IntType(8), 0))):
            is_flat = build.icmp_signed("==", _field(build, record, "outer"), zero)
            with build.if_else(is_flat) as (flat, nested):
                with flat:
                    _call_loop(build, record, addresses, zero)
                with nested:
                    build.call(nest, [record, addresses, zero])
        with build.if_then(build.icmp_signed("!=", _field(build, record, "collects"), zero)):
            found = build.call(test, [every])
            with build.if_then(build.icmp_signed("!=", found, ir.Constant(short, 0))):
                kept = build.and_(build.zext(found, number), build.not_(_field(build, record, "ignored")))
                build.store(build.or_(build.load(flags), kept), flags)
                build.call(clear, [every])

    write_loop(build, first_array, last_array, find)
    build.call(clear, [every])
    write_loop(build, first, last, step)
    build.ret(build.load(flags))


def _write_start(start: Any, run: Any) -> None:
    """Write `start(call)`: `run` with the arguments that lie there, and whether two numbers are not 0 then."""
    from llvmlite import ir  # optional

    number, pointer = ir.IntType(64), ir.IntType(64).as_pointer()
    build = ir.IRBuilder(start.append_basic_block("entry"))
    call = build.inttoptr(start.args[0], pointer)
    given = [build.load(build.gep(call, [ir.Constant(number, index)])) for index in range(8)]
    found = build.call(run, given[:6])
    for place, bit in zip(given[6:], (HAS_FAILED, HAS_NAN), strict=True):
        is_set = build.icmp_signed("!=", build.load(build.inttoptr(place, pointer)), ir.Constant(number, 0))
        found = build.or_(found, build.shl(build.zext(is_set, number), ir.Constant(number, bit)))
    build.ret(found)


def _write_run_rows(run_rows: Any, run: Any) -> None:
    """Write `run_rows(bases, table, first, last, steps, bases_count, rows, failed)`."""
    from llvmlite import ir  # optional

    number, pointer = ir.IntType(64), ir.IntType(64).as_pointer()
    bases, table, first, last, steps, size, rows, failed = run_rows.args
    zero = ir.Constant(number, 0)
    build = ir.IRBuilder(run_rows.append_basic_block("entry"))
    known, added = build.inttoptr(bases, pointer), build.inttoptr(steps, pointer)
    stop = run_rows.append_basic_block("stop")

    def shift(index: Any) -> None:
        at = build.gep(known, [index])
        build.store(build.add(build.load(at), build.load(build.gep(added, [index]))), at)

    def row(index: Any) -> None:
        flags = build.call(run, [bases, table, first, last, zero, zero])
        found = build.or_(flags, build.load(build.inttoptr(failed, pointer)))
        on = run_rows.append_basic_block()
        build.cbranch(build.icmp_signed("!=", found, zero), stop, on)
        stopped.add_incoming(index, build.block)
        build.position_at_end(on)
        write_loop(build, zero, size, shift)

    before = build.block
    build.position_at_end(stop)
    stopped = build.phi(number)
    build.fence("seq_cst")
    build.ret(stopped)
    build.position_at_end(before)
    write_loop(build, zero, rows, row)
    # What was written past the caches is there for other threads.
    build.fence("seq_cst")
    build.ret(rows)


def _place(build: Any, record: Any, name: str, index: Any) -> Any:
    return build.gep(record, [build.add(constant(_AT[name]), index)])


def _field(build: Any, record: Any, name: str) -> Any:
    return build.load(build.gep(record, [constant(_AT[name])]))


def _address_of(name: str) -> int:
    function = getattr(ctypes.CDLL(None), name, None) or getattr(ctypes.CDLL("libm.so.6"), name)
    return ctypes.cast(function, ctypes.c_void_p).value or 0
