"""The runner: a function in machine code that runs a table of calls of NumPy's inner loops, without the interpreter.

It is written in the language of LLVM and compiled once in a process, by llvmlite; nothing is compiled for a program. A
record of the table says which loop is called, with which arrays, how often and with which steps. Arrays are given by
numbers of bases: base 0 is address 0, so that an offset is an address, and the others are what a call has brought.

A record says whether the flags of floating-point errors are collected after its loop, and which of them nobody is to be
told of. Where one is set, the caller makes the calls by NumPy's functions, which then warn or raise as they do.
"""

from __future__ import annotations

import ctypes
import functools
import platform
from collections.abc import Callable
from typing import Any, final

import numpy as np

from .inner_loops import InnerLoop, are_loops_found, data_offset

__all__ = ["ERRORS", "FIELDS", "MOST_AXES", "MOST_OPERANDS", "RECORD", "Runner", "missing_extra", "runner"]

#: How many operands a loop may have, and how many axes there may be around it and in it.
MOST_OPERANDS, MOST_AXES = 4, 8
#: A record of the table; each field is a 64-bit integer, and the last four have several.
FIELDS = {
    "loop": 1,
    "data": 1,
    "outer": 1,
    "collects": 1,
    "ignored": 1,
    "base": MOST_OPERANDS,
    "offset": MOST_OPERANDS,
    "counts": MOST_AXES + 4,
    "steps": (MOST_AXES + 4) * MOST_OPERANDS,
}
_AT = {name: sum(list(FIELDS.values())[:index]) for index, name in enumerate(FIELDS)}
RECORD = np.dtype([(name, np.int64, (size,) if size > 1 else ()) for name, size in FIELDS.items()])
#: Conversions by loops of the runner: the characters of both dtypes.
_CASTS = ("?f", "?d", "?B", "fd", "id")
#: Copies by loops of the runner: the characters of dtypes by the bits of an element.
_COPIES = {8: "?bB", 16: "hHe", 32: "iIf", 64: "lLqQd"}
#: How many elements a loop of the runner takes at a time.
_AT_ONCE = 8
#: The bytes of LLVM's types.
_BYTES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "float": 4, "double": 8}
#: Of how many bytes the address of what is written past the caches is a multiple.
_EDGE = 16
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
        run_rows: takes the addresses of the bases and of the table, the numbers of the first record and of the one
            after the last, the address of what is added to each base after each run, how many bases there are, how
            many runs there are at most, and the address of a number; returns how many runs there were before the first
            one that set a flag or that number.
        check: a loop that compares bytes of two operands, and writes 1 into the third where they differ.
        casts: by the characters of two dtypes, a loop that converts numbers of the first into the second, exactly;
            where both are the same, it copies.
        products: by the character of a dtype, loops that multiply a column and a row, and add zero; the second one
            writes past the caches.
        scales: by the character of a dtype, loops that multiply numbers by one number as BLAS does, which adds the
            product to zero, in one rounding or in two, and leaves zero where that number is zero.
    """

    __slots__ = ("_engine", "casts", "check", "products", "run", "run_rows", "scales")

    def __init__(
        self,
        engine: Any,
        address: int,
        rows: int,
        check: int,
        casts: dict[str, int],
        scales: dict[str, list[int]],
        products: dict[str, list[int]],
    ) -> None:
        self._engine = engine
        self.check = InnerLoop(check, 0)
        self.casts: dict[str, InnerLoop] = {pair: InnerLoop(place, 0) for pair, place in casts.items()}
        self.products: dict[str, list[InnerLoop]] = {
            kind: [InnerLoop(place, 0) for place in places] for kind, places in products.items()
        }
        self.scales: dict[str, list[InnerLoop]] = {
            kind: [InnerLoop(place, 0) for place in places] for kind, places in scales.items()
        }
        number = ctypes.c_int64
        # By ctypes the call lets other threads run Python meanwhile.
        self.run = ctypes.CFUNCTYPE(*[number] * 7)(address)
        self.run_rows = ctypes.CFUNCTYPE(*[number] * 9)(rows)


def missing_extra() -> str | None:
    """Return why there is no runner; None where there is one."""
    try:
        import llvmlite  # noqa: F401  # optional, and slow to load
    except ImportError:
        return "llvmlite is not installed: pip install asyncgrad[jit]"
    if not are_loops_found():
        return "the inner loops of this NumPy are not found in memory"
    return None if ERRORS else f"the floating-point errors of {platform.machine()} are not known"


@functools.cache
def runner() -> Runner | None:
    """Return the runner of this process; None where it cannot be had."""
    if missing_extra() is not None:
        return None
    from llvmlite import binding  # optional

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    module = binding.parse_assembly(_source())
    module.verify()
    machine = binding.Target.from_default_triple().create_target_machine(opt=2)
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    address = engine.get_function_address
    casts = {pair: address(_name_of(pair)) for pair in _CASTS}
    casts |= {kind * 2: address(f"copy_{size}") for size, kinds in _COPIES.items() for kind in kinds}
    scales = {kind: [address(f"scale_{kind}_{fused}") for fused in range(2)] for kind in "fd"}
    products = {kind: [address(f"product_{kind}_{past}") for past in range(2)] for kind in "fd"}
    return Runner(engine, address("run"), address("run_rows"), address("check"), casts, scales, products)


def _name_of(pair: str) -> str:
    return f"cast_{pair.replace('?', 'bool_')}"


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
    _write_run_rows(ir.Function(module, ir.FunctionType(number, [number] * 8), "run_rows"), run)
    _write_check(ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer, pointer, pointer, number]), "check"))
    loop = ir.FunctionType(ir.VoidType(), [pointer, pointer, pointer, number])
    for pair in _CASTS:
        _write_cast(ir.Function(module, loop, _name_of(pair)), pair)
    for size in _COPIES:
        _write_copy(ir.Function(module, loop, f"copy_{size}"), size)
    for kind in "fd":
        for fused in range(2):
            _write_scale(ir.Function(module, loop, f"scale_{kind}_{fused}"), kind, bool(fused))
        for past in range(2):
            _write_product(ir.Function(module, loop, f"product_{kind}_{past}"), kind, bool(past))
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


def _write_check(check: Any) -> None:
    """Write the loop that compares bytes."""
    from llvmlite import ir  # optional

    number, byte = ir.IntType(64), ir.IntType(8).as_pointer()
    addresses, counts, _, _ = check.args
    build = ir.IRBuilder(check.append_basic_block("entry"))
    head, body, differs, end = (check.append_basic_block(name) for name in ("head", "body", "differs", "end"))
    mine, theirs, failed = (build.load(build.gep(addresses, [ir.Constant(number, one)])) for one in range(3))
    mine, theirs = build.inttoptr(mine, byte), build.inttoptr(theirs, byte)
    count, start = build.load(counts), build.block
    build.branch(head)
    build.position_at_end(head)
    index = build.phi(number)
    index.add_incoming(ir.Constant(number, 0), start)
    build.cbranch(build.icmp_signed("<", index, count), body, end)
    build.position_at_end(body)
    same = build.icmp_signed("==", build.load(build.gep(mine, [index])), build.load(build.gep(theirs, [index])))
    index.add_incoming(build.add(index, ir.Constant(number, 1)), body)
    build.cbranch(same, head, differs)
    build.position_at_end(differs)
    build.store(ir.Constant(number, 1), build.inttoptr(failed, number.as_pointer()))
    build.branch(end)
    build.position_at_end(end)
    build.ret_void()


def _write_cast(cast: Any, pair: str) -> None:
    """Write a loop that converts numbers; of bool, any byte but 0 is True."""
    from llvmlite import ir  # optional

    types = {"?": ir.IntType(8), "B": ir.IntType(8), "i": ir.IntType(32), "f": ir.FloatType(), "d": ir.DoubleType()}
    source, target = types[pair[0]], types[pair[1]]

    def convert(build: Any, value: Any) -> Any:
        into = target if value.type == source else ir.VectorType(target, _AT_ONCE)
        if pair[0] == "f":
            return build.fpext(value, into)
        if pair[0] == "i":
            return build.sitofp(value, into)
        is_true = build.icmp_unsigned("!=", value, ir.Constant(value.type, None))
        return build.zext(is_true, into) if pair[1] == "B" else build.uitofp(is_true, into)

    _write_each(cast, source, target, convert)


def _write_copy(copy: Any, size: int) -> None:
    """Write a loop that copies elements of so many bits."""
    from llvmlite import ir  # optional

    _write_each(copy, ir.IntType(size), ir.IntType(size), lambda build, value: value)


def _write_each(loop: Any, source: Any, target: Any, convert: Callable[[Any, Any], Any]) -> None:
    """Write a loop that reads elements of a type, and writes what becomes of each.

    Where they lie one after the other, several are taken at a time; so are they where one element is written again and
    again.
    """
    from llvmlite import ir  # optional

    number, byte = ir.IntType(64), ir.IntType(8).as_pointer()
    zero, at_once = ir.Constant(number, 0), ir.Constant(number, _AT_ONCE)
    size, next_size = (ir.Constant(number, _BYTES[str(one)]) for one in (source, target))
    addresses, counts, steps, _ = loop.args
    build = ir.IRBuilder(loop.append_basic_block("entry"))
    given, made = (
        build.inttoptr(build.load(build.gep(addresses, [ir.Constant(number, one)])), byte) for one in range(2)
    )
    step, next_step = (build.load(build.gep(steps, [ir.Constant(number, one)])) for one in range(2))
    count, done = build.load(counts), build.alloca(number)
    build.store(zero, done)

    def place(begin: Any, index: Any, own: Any, kind: Any) -> Any:
        return build.bitcast(build.gep(begin, [build.mul(index, own)]), kind.as_pointer())

    def several(index: Any) -> None:
        first = build.mul(index, at_once)
        block = build.load(place(given, first, size, ir.VectorType(source, _AT_ONCE)), align=_BYTES[str(source)])
        into = place(made, first, next_size, ir.VectorType(target, _AT_ONCE))
        build.store(convert(build, block), into, align=_BYTES[str(target)])

    def one(index: Any) -> None:
        build.store(
            convert(build, build.load(place(given, index, step, source))), place(made, index, next_step, target)
        )

    is_packed = build.icmp_signed("==", next_step, next_size)
    with build.if_then(build.and_(is_packed, build.icmp_signed("==", step, size))):
        blocks = build.sdiv(count, at_once)
        _write_loop(build, zero, blocks, several)
        build.store(build.mul(blocks, at_once), done)
    with build.if_then(build.and_(is_packed, build.icmp_signed("==", step, zero))):
        _write_fill(build, convert(build, build.load(place(given, zero, size, source))), made, count, done)
    _write_loop(build, build.load(done), count, one)
    build.ret_void()


def _write_fill(build: Any, element: Any, made: Any, count: Any, done: Any) -> None:
    """Write an element again and again, several times at once, and store how often; the last times are left."""
    from llvmlite import ir  # optional

    number, kind = ir.IntType(64), ir.VectorType(element.type, _AT_ONCE)
    block = ir.Constant(kind, ir.Undefined)
    for index in range(_AT_ONCE):
        block = build.insert_element(block, element, ir.Constant(ir.IntType(32), index))
    size = _BYTES[str(element.type)]

    def several(index: Any) -> None:
        offset = build.mul(index, ir.Constant(number, _AT_ONCE * size))
        build.store(block, build.bitcast(build.gep(made, [offset]), kind.as_pointer()), align=size)

    blocks = build.sdiv(count, ir.Constant(number, _AT_ONCE))
    _write_loop(build, ir.Constant(number, 0), blocks, several)
    build.store(build.mul(blocks, ir.Constant(number, _AT_ONCE)), done)


def _write_scale(scale: Any, kind: str, is_fused: bool) -> None:
    """Write a loop over a number, an operand and the result: the product added to zero, in one rounding or in two."""
    from llvmlite import ir  # optional

    number, real = ir.IntType(64), ir.FloatType() if kind == "f" else ir.DoubleType()
    zero = ir.Constant(real, 0.0)
    addresses, counts, steps, _ = scale.args
    build = ir.IRBuilder(scale.append_basic_block("entry"))
    factor, given, made = (build.load(build.gep(addresses, [ir.Constant(number, one)])) for one in range(3))
    step, next_step = (build.load(build.gep(steps, [ir.Constant(number, one)])) for one in (1, 2))
    alpha = build.load(build.inttoptr(factor, real.as_pointer()))
    is_zero = build.fcmp_ordered("==", alpha, zero)

    def multiply(index: Any) -> None:
        value = build.load(build.inttoptr(build.add(given, build.mul(index, step)), real.as_pointer()))
        found = build.fma(alpha, value, zero) if is_fused else build.fadd(build.fmul(alpha, value), zero)
        place = build.inttoptr(build.add(made, build.mul(index, next_step)), real.as_pointer())
        build.store(build.select(is_zero, zero, found), place)

    _write_loop(build, ir.Constant(number, 0), build.load(counts), multiply)
    build.ret_void()


def _write_product(product: Any, kind: str, is_past: bool) -> None:
    """Write a loop over a column, a row in C order and the result: the products, to each of which zero is added.

    It takes the numbers of rows and columns, and the steps of the column and of the result from row to row. Where
    `is_past` says so, the result is written past the caches, as far as the processor can do that at its place.
    """
    from llvmlite import ir  # optional

    number, real = ir.IntType(64), ir.FloatType() if kind == "f" else ir.DoubleType()
    several, size = ir.VectorType(real, _AT_ONCE), 4 if kind == "f" else 8
    zero, at_once = ir.Constant(number, 0), ir.Constant(number, _AT_ONCE)
    addresses, counts, steps, _ = product.args
    build = ir.IRBuilder(product.append_basic_block("entry"))
    column, given, made = (build.load(build.gep(addresses, [ir.Constant(number, one)])) for one in range(3))
    rows, columns = (build.load(build.gep(counts, [ir.Constant(number, one)])) for one in range(2))
    column_step, row_step = (build.load(build.gep(steps, [ir.Constant(number, one)])) for one in range(2))
    blocks = build.sdiv(columns, at_once)
    past = product.module.add_metadata([ir.Constant(ir.IntType(32), 1)])

    def multiply(index: Any, left: Any, into: Any, step: int, goes_past: bool = False) -> None:
        offset = build.mul(index, ir.Constant(number, step * size))
        places = [build.inttoptr(build.add(begin, offset), left.type.as_pointer()) for begin in (given, into)]
        found = build.fadd(build.fmul(left, build.load(places[0], align=size)), ir.Constant(left.type, None))
        stored = build.store(found, places[1], align=_EDGE if goes_past else size)
        if goes_past:
            stored.set_metadata("nontemporal", past)

    def multiply_row(index: Any) -> None:
        alpha = build.load(build.inttoptr(build.add(column, build.mul(index, column_step)), real.as_pointer()))
        into = build.add(made, build.mul(index, row_step))
        alphas = ir.Constant(several, ir.Undefined)
        for place in range(_AT_ONCE):
            alphas = build.insert_element(alphas, alpha, ir.Constant(ir.IntType(32), place))

        def write_blocks(goes_past: bool) -> None:
            _write_loop(build, zero, blocks, lambda block: multiply(block, alphas, into, _AT_ONCE, goes_past))

        if is_past:
            is_at_edge = build.icmp_signed("==", build.and_(into, ir.Constant(number, _EDGE - 1)), zero)
            with build.if_else(is_at_edge) as (edge, within):
                with edge:
                    write_blocks(True)
                with within:
                    write_blocks(False)
        else:
            write_blocks(False)
        _write_loop(build, build.mul(blocks, at_once), columns, lambda one: multiply(one, alpha, into, 1))

    _write_loop(build, zero, rows, multiply_row)
    build.ret_void()


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
        with build.if_else(build.icmp_signed("==", _field(build, record, "outer"), zero)) as (flat, nested):
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

    _write_loop(build, first_array, last_array, find)
    build.call(clear, [every])
    _write_loop(build, first, last, step)
    build.ret(build.load(flags))


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
        _write_loop(build, zero, size, shift)

    before = build.block
    build.position_at_end(stop)
    stopped = build.phi(number)
    build.fence("seq_cst")
    build.ret(stopped)
    build.position_at_end(before)
    _write_loop(build, zero, rows, row)
    # What was written past the caches is there for other threads.
    build.fence("seq_cst")
    build.ret(rows)


def _write_loop(build: Any, begin: Any, end: Any, body: Callable[[Any], None]) -> None:
    """Write `for index in range(begin, end): body(index)`."""
    from llvmlite import ir  # optional

    head, block, after = (build.function.append_basic_block() for _ in range(3))
    before = build.block
    build.branch(head)
    build.position_at_end(head)
    index = build.phi(begin.type)
    index.add_incoming(begin, before)
    build.cbranch(build.icmp_signed("<", index, end), block, after)
    build.position_at_end(block)
    body(index)
    index.add_incoming(build.add(index, ir.Constant(begin.type, 1)), build.block)
    build.branch(head)
    build.position_at_end(after)


def _place(build: Any, record: Any, name: str, index: Any) -> Any:
    from llvmlite import ir  # optional

    return build.gep(record, [build.add(ir.Constant(ir.IntType(64), _AT[name]), index)])


def _field(build: Any, record: Any, name: str) -> Any:
    from llvmlite import ir  # optional

    return build.load(build.gep(record, [ir.Constant(ir.IntType(64), _AT[name])]))


def _address_of(name: str) -> int:
    function = getattr(ctypes.CDLL(None), name, None) or getattr(ctypes.CDLL("libm.so.6"), name)
    return ctypes.cast(function, ctypes.c_void_p).value or 0
