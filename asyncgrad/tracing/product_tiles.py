"""Which tiles have the bits of BLAS's product: found by trial, once for each layout in a process.

A tile that sums in another order differs from BLAS's in nearly every number, so that a few trials tell which is which.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from .inner_loops import address_of
from .loop_trials import MOST_ELEMENTS, Strided, call_loop, extent_of, special_numbers
from .product_loops import LANES, MOST_ROWS, TileKind
from .runner import Runner

__all__ = ["in_panels", "tiles_of"]

#: A product of NumPy's.
Product = Callable[[np.ndarray, np.ndarray], np.ndarray]
#: The sums that a tile may have for an element.
_SUMS = (1, 2)
#: How many products are compared, the last of which are of zeros, infinities, NaN and tiny numbers.
_TRIALS, _SPECIAL = 9, 1
#: A larger product is BLAS's: what is done around it takes no time beside it. Where one is thin, and
#: nothing is copied for tiles, that takes longer.
_MOST_WORK, _MOST_OF_THIN, _THIN = 1 << 18, 1 << 20, 16


@functools.lru_cache(maxsize=4096)
def tiles_of(product: Product, own: Runner, kind: np.dtype[np.floating], a: Strided, b: Strided) -> np.ndarray | None:
    """Return what the runner's loop of tiles is to be told, so that it has the bits of a product; None if it cannot.

    Args:
        product: the product of NumPy's.
        own: the runner.
        kind: the dtype.
        a: how the first matrix lies.
        b: how the second one lies.
    """
    (rows, inner), (_, columns) = a[0], b[0]
    lanes = LANES.get(kind.char, 0)
    is_thin = min(rows, inner) <= _THIN and b[1][1] == kind.itemsize
    most = _MOST_OF_THIN if is_thin else _MOST_WORK
    is_small = lanes and rows > 1 and inner > 1 and columns % lanes == 0 and rows * inner * columns <= most
    if not is_small or not own.tile_functions or any(step <= 0 or step % kind.itemsize for step in (*a[1], *b[1])):
        return None
    if max(extent_of(one, kind.itemsize) for one in (a, b)) > MOST_ELEMENTS:
        return None
    panels = columns // lanes
    every = [_told(own, kind.char, _tiles(np.full((rows, panels), one))) for one in _SUMS]
    agree = np.ones((len(_SUMS), rows, panels), bool)
    for left, right in _matrices(kind, a, b):
        with np.errstate(all="ignore"):
            expected = _comparable(product(left, right))
        packed = np.ascontiguousarray(in_panels(right, lanes))
        for place, told in enumerate(every):
            found = np.empty((rows, columns), kind)
            steps = [0, 0, 0, *left.strides, *packed.strides[1::-1], *found.strides, 0]
            places = [*[address_of(matrix) for matrix in (left, packed, found)], 0]
            call_loop(own.tiles._replace(data=address_of(told)), places, [1, rows, inner, columns], steps)
            agree[place] &= (_comparable(found) == expected).reshape(rows, panels, -1).all(axis=-1)
    if not agree.any(axis=0).all():
        return None
    return _told(own, kind.char, _tiles(np.where(agree[0], *_SUMS)))


def in_panels(matrix: np.ndarray, lanes: int) -> np.ndarray:
    """Return a view of a matrix as panels of so many columns."""
    rows, columns = matrix.shape
    step, along = matrix.strides
    shape, strides = (columns // lanes, rows, lanes), (lanes * along, step, along)
    return np.lib.stride_tricks.as_strided(matrix, shape, strides)


def _matrices(kind: np.dtype[np.floating], a: Strided, b: Strided) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield matrices that lie as these, at different places in a line of the cache."""
    rng = np.random.Generator(np.random.PCG64(0))
    extents, special = [extent_of(one, kind.itemsize) for one in (a, b)], special_numbers(kind)
    for trial in range(_TRIALS):
        found = []
        for extent, (shape, strides) in zip(extents, (a, b), strict=True):
            if trial < _TRIALS - _SPECIAL:
                numbers = rng.standard_normal(extent + trial).astype(kind)[trial:]
            else:
                numbers = rng.choice(special, extent, p=[0.2, 0.2, 0.2, 0.15, 0.12, 0.12, 0.005, 0.005])
            found.append(np.lib.stride_tricks.as_strided(numbers, shape, strides))
        yield found[0], found[1]


def _comparable(numbers: np.ndarray) -> np.ndarray:
    """Return the bits of numbers; the sign of a NaN is of no account."""
    bits: np.ndarray = np.where(np.isnan(numbers), np.full((), np.nan, numbers.dtype), numbers)
    return bits.view(f"u{numbers.itemsize}")


#: How many rows, panels and sums a tile has, and where it begins: the numbers of a panel and of a row.
_Tile = tuple[int, int, int, int, int]


def _tiles(sums: np.ndarray) -> list[_Tile]:
    """Return tiles with these numbers of sums, by row and panel; those of the same panels one after the other."""
    found: list[_Tile] = []
    begin, rows = 0, len(sums)
    while begin < rows:
        end = begin + 1
        while end < rows and (sums[end] == sums[begin]).all():
            end += 1
        forms = _forms(sums[begin].tolist())
        for first, count in _in_parts(begin, end):
            found += [(count, panels, number, panel, first) for panel, panels, number in forms]
        begin = end
    return sorted(found, key=lambda tile: tile[3:])


def _forms(sums: list[int]) -> list[tuple[int, int, int]]:
    """Return the first panels of the tiles in a row, how many panels each has, and how many sums."""
    found: list[tuple[int, int, int]] = []
    panel = 0
    while panel < len(sums):
        panels = 2 if sums[panel : panel + 2] == [1, 1] else 1
        found.append((panel, panels, sums[panel]))
        panel += panels
    return found


def _in_parts(begin: int, end: int) -> list[tuple[int, int]]:
    """Return parts of a range with as many rows as a tile may have, all of about the same length."""
    parts = -(-(end - begin) // MOST_ROWS)
    edges = [begin + (end - begin) * part // parts for part in range(parts + 1)]
    return [(first, last - first) for first, last in pairwise(edges)]


def _told(own: Runner, kind: str, tiles: list[_Tile]) -> np.ndarray:
    told = [len(tiles)]
    for rows, panels, sums, panel, row in tiles:
        told += [own.tile_functions[TileKind((kind, rows, panels, sums))], row, panel]
    return np.array(told, np.int64)
