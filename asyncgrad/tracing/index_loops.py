"""Loops for indices by arrays, in the language of LLVM: they read, write or add at the places that an index names.

Their operands are an array, what is read from it or goes into it, and two index arrays or a mask. They take two counts:
of the places, and of the elements in a row at each. What they are told besides is in memory that is given as `data`.
A place that is out of bounds is not touched: the loop ends, and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .own_loops import COPIES, constant, write_loop

__all__ = ["index_loop_names", "write_index_loops"]

#: LLVM's types that `add.at` is for, by the characters of dtypes.
_ADDS = {"f": "float", "d": "double", "l": "i64", "q": "i64"}
_KINDS = ("gather", "scatter", "mask_gather", "mask_scatter", "mask_fill")
#: How many places `add_flat` looks at together.
_AT_ONCE = 8


def index_loop_names() -> dict[str, str]:
    """Return the names of the loops, by what they do and the character of a dtype."""
    names = {f"{kind} {char}": f"{kind}_{size}" for kind in _KINDS for size, chars in COPIES.items() for char in chars}
    adding = "add", "add_flat"
    return names | {f"{kind} {char}": f"{kind}_{element}" for kind in adding for char, element in _ADDS.items()}


def write_index_loops(module: Any, loop: Any) -> None:
    """Write the loops into a module that has the runner's copies.

    Args:
        module: the module.
        loop: the type of a loop.
    """
    from llvmlite import ir  # optional

    for size in COPIES:
        copy, element = module.globals[f"copy_{size}"], ir.IntType(size)
        for kind in ("gather", "scatter"):
            _write_indexed(ir.Function(module, loop, f"{kind}_{size}"), _row_copy(copy, element, kind == "gather"))
            of_mask = ir.Function(module, loop, f"mask_{kind}_{size}")
            _write_masked(of_mask, _row_copy(copy, element, kind == "gather"))
        _write_mask_fill(ir.Function(module, loop, f"mask_fill_{size}"), element)
    for name, element in (("float", ir.FloatType()), ("double", ir.DoubleType()), ("i64", ir.IntType(64))):
        _write_indexed(ir.Function(module, loop, f"add_{name}"), _row_sum(element))
        _write_flat_sum(ir.Function(module, loop, f"add_flat_{name}"), element)


#: Writes what is done with a row: takes the builder, the addresses of a row of the array and of the other operand, the
#: counts and the steps.
_Row = Callable[[Any, Any, Any, Any, Any], None]


def _row_copy(copy: Any, element: Any, reads: bool) -> _Row:
    """Return what copies a row from the array, or into it; the steps along it are of the source and of the target."""

    def write(build: Any, array: Any, other: Any, counts: Any, steps: Any) -> None:
        from llvmlite import ir  # optional

        source, target = (array, other) if reads else (other, array)
        count = _load(build, counts, 1)
        with build.if_else(build.icmp_signed("==", count, constant(1))) as (single, several):
            with single:
                places = [build.inttoptr(one, element.as_pointer()) for one in (source, target)]
                build.store(build.load(places[0]), places[1])
            with several:
                with build.goto_entry_block():
                    addresses = build.alloca(ir.IntType(64), 2)
                for place, one in enumerate((source, target)):
                    build.store(one, build.gep(addresses, [constant(place)]))
                behind = build.gep(counts, [constant(1)]), build.gep(steps, [constant(4)])
                build.call(copy, [addresses, *behind, constant(0)])

    return write


def _row_sum(element: Any) -> _Row:
    """Return what adds a row to one of the array."""

    def write(build: Any, array: Any, other: Any, counts: Any, steps: Any) -> None:

        of_array, of_other = _load(build, steps, 4), _load(build, steps, 5)

        def add(index: Any) -> None:
            into = build.inttoptr(build.add(array, build.mul(index, of_array)), element.as_pointer())
            value = build.load(build.inttoptr(build.add(other, build.mul(index, of_other)), element.as_pointer()))
            build.store(_sum(build, element, build.load(into), value), into)

        write_loop(build, constant(0), _load(build, counts, 1), add)

    return write


def _sum(build: Any, element: Any, known: Any, value: Any) -> Any:
    from llvmlite import ir  # optional

    return build.add(known, value) if isinstance(element, ir.IntType) else build.fadd(known, value)


def _write_flat_sum(function: Any, element: Any) -> None:
    """Write a loop that adds numbers to an array at an index, all three of one axis and packed.

    Places that follow one another, as those of a row, get their numbers at once: each is there once, so that the order
    does not matter. `data` has the address of what tells that a place is out of bounds, what is set there, and the
    length of the array.
    """
    from llvmlite import ir  # optional

    number, several = ir.IntType(64), ir.VectorType(element, _AT_ONCE)
    addresses, counts, _, data = function.args
    build = ir.IRBuilder(function.append_basic_block("entry"))
    array, other, index = [
        build.inttoptr(_load(build, addresses, place), kind.as_pointer())
        for place, kind in enumerate((element, element, number))
    ]
    told = build.inttoptr(data, number.as_pointer())
    length, size = _load(build, told, 2), 4 if isinstance(element, ir.FloatType) else 8
    failing = function.append_basic_block("failing")

    def at_one(place: Any) -> None:
        found = build.load(build.gep(index, [place]))
        found = build.select(build.icmp_signed("<", found, constant(0)), build.add(found, length), found)
        on = function.append_basic_block()
        # Without a sign a negative number is larger than each length.
        build.cbranch(build.icmp_unsigned("<", found, length), on, failing)
        build.position_at_end(on)
        into = build.gep(array, [found])
        build.store(_sum(build, element, build.load(into), build.load(build.gep(other, [place]))), into)

    def at_several(block: Any) -> None:
        first = build.mul(block, constant(_AT_ONCE))
        places = ir.VectorType(number, _AT_ONCE)
        found = build.load(build.bitcast(build.gep(index, [first]), places.as_pointer()), align=8)
        lead, row = build.extract_element(found, ir.Constant(ir.IntType(32), 0)), ir.Constant(places, ir.Undefined)
        for lane in range(_AT_ONCE):
            row = build.insert_element(row, build.add(lead, constant(lane)), ir.Constant(ir.IntType(32), lane))
        are_row = build.bitcast(build.icmp_signed("==", found, row), ir.IntType(_AT_ONCE))
        fits = build.and_(
            build.icmp_signed(">=", lead, constant(0)),
            build.icmp_signed("<=", lead, build.sub(length, constant(_AT_ONCE))),
        )
        with build.if_else(build.and_(fits, build.icmp_signed("==", are_row, are_row.type(-1)))) as (one, each):
            with one:
                into = build.bitcast(build.gep(array, [lead]), several.as_pointer())
                value = build.load(build.bitcast(build.gep(other, [first]), several.as_pointer()), align=size)
                build.store(_sum(build, element, build.load(into, align=size), value), into, align=size)
            with each:
                write_loop(build, first, build.add(first, constant(_AT_ONCE)), at_one)

    count = _load(build, counts, 0)
    blocks = build.sdiv(count, constant(_AT_ONCE))
    write_loop(build, constant(0), blocks, at_several)
    write_loop(build, build.mul(blocks, constant(_AT_ONCE)), count, at_one)
    build.ret_void()
    _write_failing(build, failing, told)


def _write_indexed(function: Any, row: _Row) -> None:
    """Write a loop over an array, another operand and two index arrays.

    `data` has the address of what tells that a place is out of bounds, what is set there, and for each index the
    length and the stride of the axis.
    """
    from llvmlite import ir  # optional

    addresses, counts, steps, data = function.args
    build = ir.IRBuilder(function.append_basic_block("entry"))
    array, other, *indices = [_load(build, addresses, place) for place in range(4)]
    array_step, other_step, *index_steps = [_load(build, steps, place) for place in range(4)]
    told = build.inttoptr(data, ir.IntType(64).as_pointer())
    axes = [(_load(build, told, place), _load(build, told, place + 1)) for place in (2, 4)]
    failing = function.append_basic_block("failing")

    def at(place: Any) -> None:
        found = build.add(array, build.mul(place, array_step))
        for index, step, (length, stride) in zip(indices, index_steps, axes, strict=True):
            number = _load(build, build.inttoptr(build.add(index, build.mul(place, step)), told.type), 0)
            is_negative = build.icmp_signed("<", number, constant(0))
            number = build.select(is_negative, build.add(number, length), number)
            on = function.append_basic_block()
            # Without a sign a negative number is larger than each length.
            build.cbranch(build.icmp_unsigned("<", number, length), on, failing)
            build.position_at_end(on)
            found = build.add(found, build.mul(number, stride))
        row(build, found, build.add(other, build.mul(place, other_step)), counts, steps)

    write_loop(build, constant(0), _load(build, counts, 0), at)
    build.ret_void()
    _write_failing(build, failing, told)


def _write_masked(function: Any, row: _Row) -> None:
    """Write a loop over an array, another operand and a mask: rows of the other are those where the mask is true.

    `data` has the address of what tells that these are more or fewer, what is set there, and how many there are.
    """
    from llvmlite import ir  # optional

    addresses, counts, steps, data = function.args
    build = ir.IRBuilder(function.append_basic_block("entry"))
    array, other, mask = [_load(build, addresses, place) for place in range(3)]
    array_step, other_step, mask_step = [_load(build, steps, place) for place in range(3)]
    told = build.inttoptr(data, ir.IntType(64).as_pointer())
    limit, done = _load(build, told, 2), build.alloca(ir.IntType(64))
    build.store(constant(0), done)
    failing = function.append_basic_block("failing")

    def at(place: Any) -> None:
        with build.if_then(_is_true(build, mask, place, mask_step)):
            number = build.load(done)
            on = function.append_basic_block()
            build.cbranch(build.icmp_signed("<", number, limit), on, failing)
            build.position_at_end(on)
            given = build.add(array, build.mul(place, array_step)), build.add(other, build.mul(number, other_step))
            row(build, *given, counts, steps)
            build.store(build.add(number, constant(1)), done)

    write_loop(build, constant(0), _load(build, counts, 0), at)
    end = function.append_basic_block("end")
    build.cbranch(build.icmp_signed("==", build.load(done), limit), end, failing)
    build.position_at_end(end)
    build.ret_void()
    _write_failing(build, failing, told)


def _write_mask_fill(function: Any, element: Any) -> None:
    """Write a loop over an array, a number and a mask: the number is written where the mask is true."""
    from llvmlite import ir  # optional

    addresses, counts, steps, _ = function.args
    build = ir.IRBuilder(function.append_basic_block("entry"))
    array, other, mask = [_load(build, addresses, place) for place in range(3)]
    array_step, _, mask_step = [_load(build, steps, place) for place in range(3)]
    value = build.load(build.inttoptr(other, element.as_pointer()))

    def fill(place: Any) -> None:
        build.store(value, build.inttoptr(build.add(array, build.mul(place, array_step)), element.as_pointer()))

    def at(place: Any) -> None:
        with build.if_then(_is_true(build, mask, place, mask_step)):
            fill(place)

    with build.if_else(build.icmp_signed("==", mask_step, constant(0))) as (row, each):
        with row, build.if_then(_is_true(build, mask, constant(0), mask_step)):
            # One number of the mask is for a whole row.
            write_loop(build, constant(0), _load(build, counts, 0), fill)
        with each:
            write_loop(build, constant(0), _load(build, counts, 0), at)
    build.ret_void()


def _is_true(build: Any, mask: Any, place: Any, step: Any) -> Any:
    from llvmlite import ir  # optional

    byte = ir.IntType(8)
    at = build.inttoptr(build.add(mask, build.mul(place, step)), byte.as_pointer())
    return build.icmp_unsigned("!=", build.load(at), ir.Constant(byte, 0))


def _write_failing(build: Any, failing: Any, told: Any) -> None:
    build.position_at_end(failing)
    place = build.inttoptr(_load(build, told, 0), told.type)
    build.store(build.or_(build.load(place), _load(build, told, 1)), place)
    build.ret_void()


def _load(build: Any, pointer: Any, place: int) -> Any:
    return build.load(build.gep(pointer, [constant(place)]))
