"""Trials of inner loops: whether a loop, called in some way, has the bits of NumPy's product or reduction.

How NumPy calls BLAS, and in which order it reduces, depends on shapes and strides, and on how it was built. So each
layout is tried once in a process, on numbers that tell orders of additions apart, on zeros of both signs and on NaN.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

from .inner_loops import InnerLoop, address_of
from .iterations import Axes, Layout, memory_like, reduction_places
from .runner import MOST_OPERANDS

__all__ = [
    "MOST_ELEMENTS",
    "Groups",
    "Strided",
    "call_loop",
    "extent_of",
    "nest_agrees",
    "outer_agrees",
    "product_agrees",
    "reduction_agrees",
    "reduction_axes",
    "scale_agrees",
    "special_numbers",
]

#: Shape and strides.
Strided = tuple[tuple[int, ...], tuple[int, ...]]
_LOOP = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)
#: How many products are compared, and how many sums at least: sums in different orders may be equal by chance, those of
#: a dozen float32 numbers half of the time.
_TRIALS, _SUMS = 4, 64
#: Larger arrays are tried by as many elements.
MOST_ELEMENTS = 1 << 22


def call_loop(loop: InnerLoop, addresses: list[int], counts: list[int], steps: list[int]) -> None:
    """Call a loop once; who calls keeps the arrays, and what a floating-point error does is not NumPy's to say."""
    given = [(ctypes.c_int64 * len(one))(*one) for one in (addresses, counts, steps)]
    _LOOP(loop.function)(*[ctypes.cast(one, ctypes.c_void_p) for one in given], loop.data or None)


@functools.lru_cache(maxsize=4096)
def product_agrees(product: Callable[..., Any], loop: InnerLoop, kind: np.dtype[Any], a: Strided, b: Strided) -> bool:
    """Tell whether matmul's loop has the bits of a product of vectors or matrices that lie in memory as these."""
    with np.errstate(all="ignore"):
        sums = max(1, prod(a[0][:-1]) * prod(b[0][1:]))
        return all(_product_agrees(product, loop, kind, a, b, seed) for seed in range(max(_TRIALS, _SUMS // sums)))


def _product_agrees(
    product: Callable[..., Any], loop: InnerLoop, kind: np.dtype[Any], a: Strided, b: Strided, seed: int
) -> bool:
    rng = np.random.Generator(np.random.PCG64(seed))
    # With an axis of length 1, BLAS may have a function that does not multiply by zero.
    has_one = 1 in (*a[0], *b[0])
    left, right = (_laid(rng, kind, one, has_one and seed % 2 == 1) for one in (a, b))
    if left is None or right is None:
        return False
    expected = product(left, right)
    found = np.empty_like(expected)
    m = left.shape[0] if left.ndim == 2 else 1
    n = right.shape[1] if right.ndim == 2 else 1
    item = kind.itemsize
    steps = [
        *((left.strides[0] if left.ndim == 2 else left.shape[0] * left.strides[0]), left.strides[-1]),
        *(right.strides[0], (right.strides[1] if right.ndim == 2 else item)),
        *((n * item if left.ndim == 2 else expected.size * item), item),
    ]
    call_loop(loop, [address_of(one) for one in (left, right, found)], [1, m, left.shape[-1], n], [0, 0, 0, *steps])
    return bool(found.tobytes() == expected.tobytes())


@functools.lru_cache(maxsize=4096)
def outer_agrees(kind: np.dtype[Any], rows: int, columns: int) -> bool:
    """Tell whether `numpy.dot` of a column and a row has the bits of products to which zero is added."""
    if rows == 1 or columns == 1 or rows * columns > MOST_ELEMENTS:
        return False
    for seed in range(2 * _TRIALS):
        rng = np.random.Generator(np.random.PCG64(seed))
        shapes = ((rows, 1), (1, columns))
        left, right = (_laid(rng, kind, (one, (one[1] * kind.itemsize, kind.itemsize)), seed % 2 > 0) for one in shapes)
        assert left is not None
        assert right is not None
        with np.errstate(all="ignore"):
            expected, found = np.dot(left, right), left * right + np.zeros((), kind)
        if found.tobytes() != expected.tobytes():
            return False
    return True


@functools.lru_cache(maxsize=4096)
def scale_agrees(loop: InnerLoop, kind: np.dtype[Any], a: Strided, b: Strided) -> bool:
    """Tell whether a loop of the runner's has the bits of `numpy.dot` for arrays of which one has one element."""
    with np.errstate(all="ignore"):
        return all(_scale_agrees(loop, kind, a, b, seed) for seed in range(3 * _TRIALS))


def _scale_agrees(loop: InnerLoop, kind: np.dtype[Any], a: Strided, b: Strided, seed: int) -> bool:
    rng = np.random.Generator(np.random.PCG64(seed))
    left, right = (_laid(rng, kind, one, seed % 3 > 0) for one in (a, b))
    if left is None or right is None:
        return False
    expected = np.dot(left, right)
    found = np.empty_like(expected)
    factor, vector = (left, right) if left.size == 1 else (right, left)
    steps = [
        0,
        max(step for step, length in zip(vector.strides, vector.shape, strict=True) if length > 1),
        kind.itemsize,
    ]
    call_loop(loop, [address_of(one) for one in (factor, vector, found)], [vector.size], steps)
    return bool(found.tobytes() == expected.tobytes())


def _laid(
    rng: np.random.Generator, kind: np.dtype[Any], layout: Strided, is_special: bool = False
) -> np.ndarray | None:
    shape, strides = layout
    item = kind.itemsize
    if strides not in ((item,), (shape[-1] * item, item), (item, shape[0] * item)):
        # NumPy copies what BLAS does not take.
        return None
    extent = extent_of(layout, item)
    if extent > MOST_ELEMENTS:
        return None
    memory = rng.standard_normal(extent).astype(kind)
    if is_special:
        memory = rng.choice(special_numbers(kind), extent, p=[0.2, 0.2, 0.2, 0.15, 0.1, 0.1, 0.025, 0.025]).astype(kind)
    return np.lib.stride_tricks.as_strided(memory, shape, strides)


def extent_of(layout: Strided, item: int) -> int:
    """Return over how many elements of memory an array extends, each of so many bytes."""
    return 1 + sum((length - 1) * stride // item for length, stride in zip(*layout, strict=True))


def special_numbers(kind: np.dtype[Any]) -> np.ndarray:
    """Return zeros of both signs, usual numbers, some whose products are too small for a number, infinity and NaN."""
    tiny = float(np.sqrt(np.finfo(kind).tiny)) * 1e-10
    return np.array([0.0, -0.0, 1.5, -2.0, tiny, -tiny, np.inf, np.nan], kind)


#: Of a reduction: how many results there are, of how many elements each, and whether those lie one after the other.
Groups = tuple[int, int, bool]


def reduction_axes(groups: Groups, item: int, skips: bool) -> tuple[list[int], list[int], int]:
    """Return the counts and the steps of a loop and of the axis around it, by which it reduces, and where it begins.

    Args:
        groups: what is reduced.
        item: the size of an element in bytes.
        skips: whether the first elements are in the result before.
    """
    kept, length, is_last = groups
    unused = [0] * (MOST_OPERANDS - 3)
    count = length - skips
    if is_last:
        steps = [item, item * length, item, *unused, 0, item, 0, *unused]
        return [kept, count], steps, item * skips
    steps = [0, item * kept, 0, *unused, item, item, item, *unused]
    return [count, kept], steps, item * kept * skips


@functools.lru_cache(maxsize=4096)
def reduction_agrees(
    ufunc: np.ufunc, loop: InnerLoop, kind: np.dtype[Any], groups: Groups, beginning: Any, is_masked: bool = False
) -> bool:
    """Tell whether a loop has the bits of a reduction of an array in C order.

    Args:
        ufunc: what reduces.
        loop: its loop.
        kind: the dtype.
        groups: what is reduced.
        beginning: what the results begin with; None for the first elements.
        is_masked: whether it is one with `where=`, which NumPy may do in other parts.
    """
    kept, length, is_last = groups
    if kept * length > MOST_ELEMENTS:
        return False
    counts, steps, offset = reduction_axes(groups, kind.itemsize, beginning is None)
    options = {} if beginning is None else {"initial": beginning}
    forms = [((kept, length), 1)] if is_last else [((length, kept), 0)]
    if kept == 1:
        # Elements that lie one after the other may be a column, too.
        forms = [((1, length), 1), ((length, 1), 0)]
    if is_masked:
        options["where"] = np.array(True)
    # Each of the calls below takes about as long as 256 elements.
    draws = _draws(kept, kept * length if is_last else max(kept, 256) * length)
    for numbers in _numbers(kind, kept * length, draws):
        for shape, axis in forms:
            array = numbers.reshape(shape)
            with np.errstate(all="ignore"):
                expected = ufunc.reduce(array, axis=axis, **options)
            found = np.full(kept, beginning, kind) if beginning is not None else array.take(0, axis=axis)
            if expected.dtype != kind:
                return False
            places = [address_of(found), address_of(array) + offset, address_of(found)]
            for _ in range(counts[0]):
                call_loop(loop, places, counts[1:], steps[MOST_OPERANDS:])
                places = [place + step for place, step in zip(places, steps, strict=False)]
            if found.tobytes() != expected.tobytes():
                return False
    return True


@functools.lru_cache(maxsize=4096)
def nest_agrees(
    ufunc: np.ufunc,
    loop: InnerLoop,
    source: Layout,
    onto: tuple[int, ...],
    axes: Axes,
    beginning: Any,
    buffer_size: int,
) -> bool:
    """Tell whether a loop along the last of some axes, for each element of those around it, has a reduction's bits.

    Args:
        ufunc: what reduces.
        loop: its loop.
        source: what is reduced.
        onto: for each axis of it that of the result, which lies in C order, or -1.
        axes: the lengths, and the steps of the result and of the source along them.
        beginning: what the results begin with.
        buffer_size: that of NumPy.
    """
    places = reduction_places(source, onto, axes, buffer_size)
    array = memory_like(source)
    if places is None:
        return False
    length, (into, along) = axes[-1]
    kept = [array.shape[axis] for axis, place in enumerate(onto) if place >= 0]
    reduced = tuple([axis for axis, place in enumerate(onto) if place < 0])
    # The order is known to be NumPy's: two kinds of numbers tell whether it begins as NumPy does.
    for numbers in itertools.islice(_numbers(array.dtype, array.size, 1), 2):
        array[...] = numbers.reshape(array.shape)
        with np.errstate(all="ignore"):
            expected = ufunc.reduce(array, axis=reduced, initial=beginning)
        found = np.full(kept, beginning, array.dtype)
        if expected.dtype != array.dtype:
            return False
        for of_result, of_source in np.add(places, [address_of(found), address_of(array)]).tolist():
            call_loop(loop, [of_result, of_source, of_result], [length], [into, along, into])
        if found.tobytes() != expected.tobytes():
            return False
    return True


def _draws(sums: int, work: int) -> int:
    """Return how often numbers are drawn of which so many sums are made.

    Args:
        sums: how many.
        work: how many elements take about as long.
    """
    # Long sums are seldom equal by chance.
    return max(1, min(_SUMS // sums, max(2, (1 << 20) // work)))


def _numbers(kind: np.dtype[Any], size: int, draws: int) -> Iterator[np.ndarray]:
    rng = np.random.Generator(np.random.PCG64(0))
    if kind.kind == "b":
        yield rng.random(size) < 0.5
        yield np.zeros(size, bool)
        yield np.ones(size, bool)
        return
    if kind.kind in "iu":
        yield rng.integers(0, 100, size).astype(kind)
        return
    yield np.full(size, -0.0, kind)
    some = ([0.0, -0.0], [1.0, -1.0, 0.0, -0.0, np.inf], [1.0, -2.0, np.nan, -0.0, 1e30])
    drawn = rng.standard_normal(size)
    rolled = (np.roll(drawn, 7 * number) for number in range(draws))
    for wide in itertools.chain(rolled, (rng.choice(one, size) for one in some)):
        with np.errstate(all="ignore"):
            narrow = wide.astype(kind)
        yield narrow
