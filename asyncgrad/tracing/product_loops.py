"""Loops for products of small matrices, in the language of LLVM: BLAS's own sums, without what it does around them.

BLAS computes an element of a product by fused multiplications and additions along the inner axis: in one sum, or in
two that it adds at the end, of which one takes every other factor. Which of them depends on where in the result the
element is. So a product is done by tiles, each of which has one way. A tile has up to six rows and one or two panels,
which are as many columns as a vector has numbers: the sums of a tile stay in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from .own_loops import write_loop

__all__ = ["LANES", "MOST_ROWS", "TileKind", "write_product_loops"]

#: How many numbers a vector has, by the character of their dtype, and how many bytes.
LANES = {"f": 8, "d": 4}
_VECTOR_BYTES = 32
#: How many rows a tile has at most: with two vectors in each, as many sums as registers hold besides what they take.
MOST_ROWS = 6
#: What a loop is told of each tile: the address of its function, and the numbers of its first row and panel.
_TILE_FIELDS = 3
#: Two sums are over so many factors at a time; those that are left go to the first one.
_FACTORS_AT_ONCE = 8


@final
class TileKind(tuple[str, int, int, int]):
    """Which function does a tile: the character of its dtype, and how many rows, panels, and sums by element it has."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name of the function."""
        kind, rows, panels, sums = self
        return f"tile_{kind}_{rows}_{panels}_{sums}"

    @staticmethod
    def every() -> list[TileKind]:
        """Return all there are."""
        forms = (2, 1), (1, 1), (1, 2)
        return [TileKind((kind, rows + 1, *form)) for kind in LANES for form in forms for rows in range(MOST_ROWS)]


def write_product_loops(module: Any, loop: Any) -> None:
    """Write the functions of all tiles, and `tiles`, the loop that calls them.

    Args:
        module: the module.
        loop: the type of a loop.
    """
    from llvmlite import ir  # optional

    tile = ir.FunctionType(ir.VoidType(), [ir.IntType(64)] * 11)
    for one in TileKind.every():
        _write_tile(ir.Function(module, tile, one.name), *one)
    _write_tiles(ir.Function(module, loop, "tiles"), tile)


def _write_tiles(tiles: Any, tile: Any) -> None:
    """Write the loop: as matmul's, but that the step of the second matrix along its columns is one from panel to panel.

    A fourth operand, if its address is not 0, is added to what is found; its step from row to row is the last of all.
    As its data the loop takes the address of 64-bit integers: how many tiles there are, and _TILE_FIELDS of each.
    """
    from llvmlite import ir  # optional

    number, pointer = ir.IntType(64), ir.IntType(64).as_pointer()
    addresses, counts, steps, data = tiles.args
    build = ir.IRBuilder(tiles.append_basic_block("entry"))

    def read(places: Any, index: int) -> Any:
        return build.load(build.gep(places, [number(index)]))

    matrices, stacks = [read(addresses, one) for one in range(3)], [read(steps, one) for one in range(3)]
    row, factor, of_factor, panel, into, _, of_addend = (read(steps, one) for one in range(3, 10))
    addend = read(addresses, 3)
    is_adding = build.icmp_signed("!=", addend, number(0))
    told = build.inttoptr(data, pointer)
    count, first = build.load(told), build.gep(told, [number(1)])
    inner = read(counts, 2)

    def of_stack(index: Any) -> None:
        a, b, c = (build.add(one, build.mul(index, step)) for one, step in zip(matrices, stacks, strict=True))

        def of_tile(index: Any) -> None:
            here = build.gep(first, [build.mul(index, number(_TILE_FIELDS))])
            function, begin, column = (read(here, one) for one in range(_TILE_FIELDS))

            def element(matrix: Any, step: Any) -> Any:
                return build.add(build.add(matrix, build.mul(begin, step)), build.mul(column, number(_VECTOR_BYTES)))

            more = build.select(is_adding, element(addend, of_addend), addend)
            places = [build.add(a, build.mul(begin, row)), build.add(b, build.mul(column, panel)), element(c, into)]
            given = [*places, more, inner, row, factor, of_factor, panel, into, of_addend]
            build.call(build.inttoptr(function, tile.as_pointer()), given)

        write_loop(build, number(0), count, of_tile)

    write_loop(build, number(0), read(counts, 0), of_stack)
    build.ret_void()


def _write_tile(tile: Any, kind: str, rows: int, panels: int, sums: int) -> None:
    """Write `tile(a, b, c, d, inner, a_row, a_factor, b_factor, b_panel, c_row, d_row)`: addresses, a length, steps.

    The tile of c is the product of a and b, and that of d added to it if d is not 0.
    """
    from llvmlite import ir  # optional

    number, real = ir.IntType(64), ir.FloatType() if kind == "f" else ir.DoubleType()
    vector, size = ir.VectorType(real, LANES[kind]), _VECTOR_BYTES // LANES[kind]
    a, b, c, d, inner, a_row, a_factor, b_factor, b_panel, c_row, d_row = tile.args
    build = ir.IRBuilder(tile.append_basic_block("entry"))
    fused = _fused(tile.module, kind, vector)
    in_rows = [build.mul(number(row), a_row) for row in range(rows)]
    in_panels = [build.mul(number(panel), b_panel) for panel in range(panels)]

    def add(a: Any, b: Any, found: Sequence[Any]) -> list[Any]:
        """Add a factor's products to a sum of each element of the tile."""
        lines = [_read(build, build.add(b, panel), vector, size) for panel in in_panels]
        spread = [_spread(build, _read(build, build.add(a, row), real, size), vector) for row in in_rows]
        pairs = [(one, line) for one in spread for line in lines]
        return [build.call(fused, [*pair, one]) for pair, one in zip(pairs, found, strict=True)]

    def add_next(state: Sequence[Any]) -> list[Any]:
        a, b, *found = state
        count = rows * panels
        for begin in range(0, len(found), count):
            found[begin : begin + count] = add(a, b, found[begin : begin + count])
            a, b = build.add(a, a_factor), build.add(b, b_factor)
        return [a, b, *found]

    zeros = [ir.Constant(vector, None)] * (rows * panels)
    if sums == 1:
        found = _carried(build, inner, [a, b, *zeros], add_next)
    else:
        together = build.and_(inner, number(-_FACTORS_AT_ONCE))
        found = _carried(build, build.sdiv(together, number(sums)), [a, b, *zeros * sums], add_next)
        others = found[2 + len(zeros) :]
        found = _carried(build, build.sub(inner, together), found[: 2 + len(zeros)], add_next)
        found[2:] = [build.fadd(one, other) for one, other in zip(found[2:], others, strict=True)]
    # BLAS adds to zero what it has found, so that there is no zero with a sign.
    elements = [build.fadd(one, zeros[0]) for one in found[2:]]

    def places(begin: Any, step: Any) -> list[Any]:
        in_rows = [build.add(begin, build.mul(number(row), step)) for row in range(rows)]
        return [build.add(row, number(panel * _VECTOR_BYTES)) for row in in_rows for panel in range(panels)]

    with build.if_else(build.icmp_signed("!=", d, number(0))) as (adds, alone):
        with adds:
            others = [_read(build, place, vector, size) for place in places(d, d_row)]
            sums_of_both = [build.fadd(one, other) for one, other in zip(elements, others, strict=True)]
            _store(build, sums_of_both, places(c, c_row), size)
        with alone:
            _store(build, elements, places(c, c_row), size)
    build.ret_void()


def _store(build: Any, vectors: Sequence[Any], places: Sequence[Any], size: int) -> None:
    for one, place in zip(vectors, places, strict=True):
        build.store(one, build.inttoptr(place, one.type.as_pointer()), align=size)


def _fused(module: Any, kind: str, vector: Any) -> Any:
    from llvmlite import ir  # optional

    name = f"llvm.fma.v{LANES[kind]}{'f32' if kind == 'f' else 'f64'}"
    return module.globals.get(name) or ir.Function(module, ir.FunctionType(vector, [vector] * 3), name)


def _read(build: Any, place: Any, type_: Any, size: int) -> Any:
    return build.load(build.inttoptr(place, type_.as_pointer()), align=size)


def _spread(build: Any, element: Any, vector: Any) -> Any:
    """Return a vector of one number."""
    from llvmlite import ir  # optional

    lane = ir.IntType(32)
    nothing = ir.Constant(vector, ir.Undefined)
    mask = ir.Constant(ir.VectorType(lane, vector.count), None)
    return build.shuffle_vector(build.insert_element(nothing, element, lane(0)), nothing, mask)


def _carried(build: Any, times: Any, state: Sequence[Any], body: Callable[[Sequence[Any]], Sequence[Any]]) -> list[Any]:
    """Write `for _ in range(times): state = body(state)`; return the state after it."""
    head, block, after = (build.function.append_basic_block() for _ in range(3))
    before = build.block
    build.branch(head)
    build.position_at_end(head)
    index = build.phi(times.type)
    index.add_incoming(times.type(0), before)
    carried = [build.phi(one.type) for one in state]
    for one, first in zip(carried, state, strict=True):
        one.add_incoming(first, before)
    build.cbranch(build.icmp_signed("<", index, times), block, after)
    build.position_at_end(block)
    made = body(carried)
    index.add_incoming(build.add(index, times.type(1)), build.block)
    for one, following in zip(carried, made, strict=True):
        one.add_incoming(following, build.block)
    build.branch(head)
    build.position_at_end(after)
    return carried
