"""The loops that the runner adds to NumPy's: they compare, convert, copy and multiply, in the language of LLVM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["CASTS", "COPIES", "constant", "name_of_cast", "write_loop", "write_own_loops"]

#: Conversions by loops of the runner: the characters of both dtypes.
CASTS = ("?f", "?d", "?B", "fd", "id")
#: Copies by loops of the runner: the characters of dtypes by the bits of an element.
COPIES = {8: "?bB", 16: "hHe", 32: "iIf", 64: "lLqQd"}
#: How many elements a loop of the runner takes at a time.
_AT_ONCE = 8
#: How many rows and columns a loop that turns them copies at a time, so that their lines stay in the cache.
_TILE = 8
#: Of how many bits elements are that are turned in squares of vectors, and how many a vector has.
_TURNED, _SQUARE = (32, 64), 4
#: The bytes of LLVM's types.
_BYTES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "float": 4, "double": 8}
#: Of how many bytes the address of what is written past the caches is a multiple.
_EDGE = 16


def write_own_loops(module: Any, loop: Any, most_operands: int) -> None:
    """Write the loops into a module.

    Args:
        module: the module.
        loop: the type of a loop.
        most_operands: for how many operands there are steps along each axis.
    """
    from llvmlite import ir  # optional

    _write_check(ir.Function(module, loop, "check"))
    for pair in CASTS:
        _write_cast(ir.Function(module, loop, name_of_cast(pair)), pair)
    for size in COPIES:
        _write_copy(ir.Function(module, loop, f"copy_{size}"), size)
        _write_copy_of_rows(ir.Function(module, loop, f"copy_rows_{size}"), size, most_operands)
    for kind in "fd":
        for fused in range(2):
            _write_scale(ir.Function(module, loop, f"scale_{kind}_{fused}"), kind, bool(fused))
        for past in range(2):
            _write_product(ir.Function(module, loop, f"product_{kind}_{past}"), kind, bool(past))


def name_of_cast(pair: str) -> str:
    """Return the name of a loop that converts, by the characters of both dtypes."""
    return f"cast_{pair.replace('?', 'bool_')}"


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
    failed = build.inttoptr(failed, number.as_pointer())
    build.store(build.or_(build.load(failed), ir.Constant(number, 1)), failed)
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


def _write_copy_of_rows(copy: Any, bits: int, most_operands: int) -> None:
    """Write a loop that copies elements of so many bits along two axes: whole rows, turned squares, or tiles."""
    from llvmlite import ir  # optional

    number, kind = ir.IntType(64), ir.IntType(bits)
    several, size = ir.VectorType(kind, _AT_ONCE), bits // 8
    zero, width, at_once = (ir.Constant(number, one) for one in (0, size, _AT_ONCE))
    addresses, counts, steps, _ = copy.args
    build = ir.IRBuilder(copy.append_basic_block("entry"))

    def read(places: Any, index: int) -> Any:
        return build.load(build.gep(places, [ir.Constant(number, index)]))

    given, made, rows, columns = read(addresses, 0), read(addresses, 1), read(counts, 0), read(counts, 1)
    row_steps = read(steps, 0), read(steps, 1)
    column_steps = read(steps, most_operands), read(steps, most_operands + 1)

    def move(places: Sequence[Any], type_: Any) -> None:
        source, target = (build.inttoptr(one, type_.as_pointer()) for one in places)
        build.store(build.load(source, align=size), target, align=size)

    def moved(places: Sequence[Any], index: Any, by: Sequence[Any]) -> list[Any]:
        return [build.add(place, build.mul(index, step)) for place, step in zip(places, by, strict=True)]

    def copy_row(row: Any) -> None:
        begins = moved((given, made), row, row_steps)
        blocks = build.sdiv(columns, at_once)
        strides = [ir.Constant(number, size * _AT_ONCE)] * 2
        write_loop(build, zero, blocks, lambda block: move(moved(begins, block, strides), several))
        done = build.mul(blocks, at_once)
        write_loop(build, done, columns, lambda column: move(moved(begins, column, [width] * 2), kind))

    def copy_part(row: Any, first: Any, last: Any) -> None:
        begins = moved((given, made), row, row_steps)
        write_loop(build, first, last, lambda column: move(moved(begins, column, column_steps), kind))

    def copy_rest() -> None:
        _write_tiles(build, rows, columns, copy_part)

    def turn_or_copy() -> None:
        # The axis along which what is read is packed is the other one of what is written.
        packed = [[build.icmp_signed("==", one, width) for one in steps] for steps in (row_steps, column_steps)]
        by_rows, by_columns = (build.and_(packed[one][0], packed[1 - one][1]) for one in range(2))
        ways = (rows, columns), (columns, rows), (row_steps[1], column_steps[1]), (column_steps[0], row_steps[0])
        counts_and_steps = [build.select(by_rows, *way) for way in ways]
        with build.if_else(build.or_(by_rows, by_columns)) as (turned, others):
            with turned:
                _write_turned(build, kind, given, made, *counts_and_steps)
            with others:
                copy_rest()

    is_packed = [build.icmp_signed("==", one, width) for one in column_steps]
    with build.if_else(build.and_(*is_packed)) as (packed, spread):
        with packed:
            write_loop(build, zero, rows, copy_row)
        with spread:
            (turn_or_copy if bits in _TURNED else copy_rest)()
    build.ret_void()


def _write_tiles(
    build: Any, rows: Any, columns: Any, copy_part: Callable[[Any, Any, Any], None], size: int = _TILE
) -> None:
    """Write loops over tiles: `copy_part(row, first_column, last_column)` for each row of each."""

    def of_tiles(count: Any, body: Callable[[Any, Any], None]) -> None:
        tile = count.type(size)

        def begin(index: Any) -> None:
            first = build.mul(index, tile)
            last = build.add(first, tile)
            body(first, build.select(build.icmp_signed("<", last, count), last, count))

        write_loop(build, count.type(0), build.sdiv(build.add(count, count.type(size - 1)), tile), begin)

    def of_rows(first_row: Any, last_row: Any) -> None:
        of_tiles(
            columns, lambda first, last: write_loop(build, first_row, last_row, lambda row: copy_part(row, first, last))
        )

    of_tiles(rows, of_rows)


def _write_turned(
    build: Any, kind: Any, given: Any, made: Any, count: Any, others: Any, write_step: Any, read_step: Any
) -> None:
    """Write loops that copy elements along two axes, of which one is packed where they are read, one where written.

    Args:
        build: what writes.
        kind: the type of an element.
        given: where they are read.
        made: where they are written.
        count: how many there are along the axis that is packed where they are read.
        others: how many there are along the other one.
        write_step: the bytes from one to the next along the first axis where they are written.
        read_step: those along the other one where they are read.
    """
    from llvmlite import ir  # optional

    number, size = given.type, _BYTES[str(kind)]
    zero, at_once = number(0), number(_SQUARE)

    def place(begin: Any, index: Any, step: Any, packed: Any, type_: Any) -> Any:
        at = build.add(build.mul(index, step), build.mul(packed, number(size)))
        return build.inttoptr(build.add(begin, at), type_.as_pointer())

    def copy_one(index: Any, other: Any) -> None:
        element = build.load(place(given, other, read_step, index, kind), align=size)
        build.store(element, place(made, index, write_step, other, kind), align=size)

    def turn(index: Any, other: Any) -> None:
        several = ir.VectorType(kind, _SQUARE)
        first, other_first = build.mul(index, at_once), build.mul(other, at_once)
        lines = [
            build.load(place(given, build.add(other_first, number(line)), read_step, first, several), align=size)
            for line in range(_SQUARE)
        ]
        for line, column in enumerate(_turned(build, lines)):
            into = place(made, build.add(first, number(line)), write_step, other_first, several)
            build.store(column, into, align=size)

    blocks, other_blocks = build.sdiv(count, at_once), build.sdiv(others, at_once)
    # So many squares along both axes fill lines of the cache.
    _write_tiles(
        build,
        other_blocks,
        blocks,
        lambda other, first, last: write_loop(build, first, last, lambda index: turn(index, other)),
        _TILE // 2,
    )
    done, others_done = build.mul(blocks, at_once), build.mul(other_blocks, at_once)
    write_loop(
        build, zero, others_done, lambda other: write_loop(build, done, count, lambda index: copy_one(index, other))
    )
    write_loop(
        build, others_done, others, lambda other: write_loop(build, zero, count, lambda index: copy_one(index, other))
    )


def _turned(build: Any, lines: list[Any]) -> list[Any]:
    """Return the columns of the vectors of a square; each round moves a bit of the number of a line to the end."""
    from llvmlite import ir  # optional

    half = _SQUARE // 2
    for _ in range(_SQUARE.bit_length() - 1):
        found = []
        for line in range(half):
            for begin in (0, half):
                places = [place for index in range(begin, begin + half) for place in (index, index + _SQUARE)]
                mask = ir.Constant(ir.VectorType(ir.IntType(32), _SQUARE), places)
                found.append(build.shuffle_vector(lines[line], lines[line + half], mask))
        lines = found
    return lines


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
        write_loop(build, zero, blocks, several)
        build.store(build.mul(blocks, at_once), done)
    with build.if_then(build.and_(is_packed, build.icmp_signed("==", step, zero))):
        _write_fill(build, convert(build, build.load(place(given, zero, size, source))), made, count, done)
    write_loop(build, build.load(done), count, one)
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
    write_loop(build, ir.Constant(number, 0), blocks, several)
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

    write_loop(build, ir.Constant(number, 0), build.load(counts), multiply)
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
            write_loop(build, zero, blocks, lambda block: multiply(block, alphas, into, _AT_ONCE, goes_past))

        if is_past:
            is_at_edge = build.icmp_signed("==", build.and_(into, ir.Constant(number, _EDGE - 1)), zero)
            with build.if_else(is_at_edge) as (edge, within):
                with edge:
                    write_blocks(True)
                with within:
                    write_blocks(False)
        else:
            write_blocks(False)
        write_loop(build, build.mul(blocks, at_once), columns, lambda one: multiply(one, alpha, into, 1))

    write_loop(build, zero, rows, multiply_row)
    build.ret_void()


def constant(number: int) -> Any:
    """Return a whole number of 64 bits."""
    from llvmlite import ir  # optional

    return ir.Constant(ir.IntType(64), number)


def write_loop(build: Any, begin: Any, end: Any, body: Callable[[Any], None]) -> None:
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
