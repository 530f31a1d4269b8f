"""A loop for `where=`, in the language of LLVM: it calls a loop of NumPy's for each run of elements that are wanted.

Its operands are a mask, those of the other loop, and the result. What it is told besides is in memory that is given as
`data`: the address of the other loop, and what that is given as its last argument. It writes into nothing else, and an
element that is not wanted is not read, so that it raises no flag.
"""

from __future__ import annotations

from typing import Any

from .own_loops import constant, write_loop

__all__ = ["write_masked_loop"]

#: How many bytes of a mask are looked at together, as long as there are so many.
_AT_ONCE = (64, 32, 8)


def write_masked_loop(module: Any, loop: Any, operands: int) -> None:
    """Write the loop `masked` into a module.

    Args:
        module: the module.
        loop: the type of a loop.
        operands: how many operands a loop has at most, the mask among them.
    """
    from llvmlite import ir  # optional

    function = ir.Function(module, loop, "masked")
    addresses, counts, steps, data = function.args
    number, pointer = ir.IntType(64), ir.IntType(64).as_pointer()
    build = ir.IRBuilder(function.append_basic_block("entry"))
    mask, count, step = (build.load(one) for one in (addresses, counts, steps))
    given = build.inttoptr(data, pointer)
    other = build.inttoptr(build.load(given), loop.as_pointer())
    told = build.load(build.gep(given, [constant(1)]))
    begins, length = build.alloca(number, operands - 1), build.alloca(number)
    behind = build.gep(steps, [constant(1)])
    head, call, end = (function.append_basic_block(name) for name in ("head", "call", "end"))
    before = build.block
    build.branch(head)
    build.position_at_end(head)
    done = build.phi(number)
    done.add_incoming(constant(0), before)
    begin = _end_of_run(build, mask, step, count, done, False)
    build.cbranch(build.icmp_signed("<", begin, count), call, end)
    build.position_at_end(call)
    until = _end_of_run(build, mask, step, count, begin, True)

    def move(place: Any) -> None:
        first = build.load(build.gep(addresses, [build.add(place, constant(1))]))
        own = build.load(build.gep(behind, [place]))
        build.store(build.add(first, build.mul(begin, own)), build.gep(begins, [place]))

    write_loop(build, constant(0), constant(operands - 1), move)
    build.store(build.sub(until, begin), length)
    build.call(other, [begins, length, behind, told])
    done.add_incoming(until, build.block)
    build.branch(head)
    build.position_at_end(end)
    build.ret_void()


def _end_of_run(build: Any, mask: Any, step: Any, count: Any, begin: Any, is_true: bool) -> Any:
    """Write a search from a place on; return the first place at which a mask is not as it is told to be, or the end."""
    from llvmlite import ir  # optional

    number, byte = ir.IntType(64), ir.IntType(8)
    searches = [build.function.append_basic_block("search") for _ in range(len(_AT_ONCE) + 1)]
    compare, found = (build.function.append_basic_block(name) for name in ("compare", "found"))
    before = build.block
    build.branch(searches[0])
    build.position_at_end(searches[0])
    place = build.phi(number)
    place.add_incoming(begin, before)
    at = build.add(mask, build.mul(place, step))
    is_packed = build.icmp_signed("==", step, constant(1))
    for size, search, smaller in zip(_AT_ONCE, searches, searches[1:], strict=False):
        # So many bytes at a time, as long as there are so many, and all are the same.
        build.position_at_end(search)
        block = ir.IntType(8 * size)
        usual = ir.Constant(block, int.from_bytes(bytes([is_true] * size), "little"))
        following = build.add(place, constant(size))
        several = build.function.append_basic_block("several")
        has_several = build.icmp_signed("<=", following, count)
        build.cbranch(build.and_(is_packed, has_several), several, smaller)
        build.position_at_end(several)
        bytes_ = build.load(build.inttoptr(at, block.as_pointer()), align=1)
        place.add_incoming(following, build.block)
        build.cbranch(build.icmp_unsigned("==", bytes_, usual), searches[0], smaller)
    build.position_at_end(searches[-1])
    build.cbranch(build.icmp_signed("<", place, count), compare, found)
    build.position_at_end(compare)
    is_wanted = build.icmp_unsigned("!=", build.load(build.inttoptr(at, byte.as_pointer())), ir.Constant(byte, 0))
    goes_on = build.icmp_unsigned("==", is_wanted, ir.Constant(ir.IntType(1), int(is_true)))
    # In the mask of a single number, all are as the first one.
    is_same = build.icmp_signed("==", step, constant(0))
    onto = build.select(is_same, count, build.add(place, constant(1)))
    place.add_incoming(onto, build.block)
    build.cbranch(goes_on, searches[0], found)
    build.position_at_end(found)
    return place
