"""Standardization of NumPy arrays block by block: values and gradients. `functional/normalization.py` derives them.

Arrays are contiguous, of shape (outer, rows, inner), and all of one floating dtype. Statistics have the shape
(1, rows, 1); scales and shifts have one number for each row. Where outer is 1, a row lies together in memory, and all
passes over it are done at once; it may have a scale and a shift for each of several equal parts then. Otherwise rows
are apart, and each pass goes through all blocks; these are centered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import row_blocks
from .row_blocks import blocks, in_memory, scratch, unbuffered_rows
from .rows import sum_rows

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["centered_dots", "grad_of_block", "input_grad", "scale_rows", "standardize"]


#: Rows of so few inner elements, and several outer ones, are computed side by side.
_FEW = 128


def standardize(value: Any, x: Array, eps: float, centered: bool, scale: Any, shift: Any) -> tuple[Any, Any, Any]:
    """Write the standardized x times a scale plus a shift; return the means, variances and inverse deviations.

    Args:
        value: the array to write into.
        x: the array.
        eps: added to the variance.
        centered: subtract the mean; otherwise None stands for the means.
        scale: of each row, or of each part of one, or None.
        shift: likewise.
    """
    if len(x) > 1:
        return _standardize_apart(value, x, eps, scale, shift)
    _, rows, length = x.shape
    mean, variance, inverse = np.empty((3, rows, 1), x.dtype)
    by, plus = (None if one is None else one.reshape(rows, -1) for one in (scale, shift))
    with unbuffered_rows(_part_length(length, rows, scale, shift)):
        for at in blocks(rows, length * x.itemsize):
            some, out = x[0, at], value[0, at]
            if centered:
                mean[at, 0] = sum_rows(some)
                mean[at] /= length
                some = np.subtract(some, mean[at], out=out)
            variance[at, 0] = np.vecdot(some, some)
            variance[at] /= length
            inverse[at] = np.reciprocal(np.sqrt(variance[at] + eps))
            if by is None:
                np.multiply(some, inverse[at], out=out)
            else:
                _by_parts(np.multiply, some, inverse[at] * by[at], out)
            if plus is not None:
                _by_parts(np.add, out, plus[at], out)
    return _as_statistics(mean if centered else None, variance, inverse)


def input_grad(result: Any, x: Array, g: Any, scale: Any, mean: Any, inverse: Any) -> None:
    """Write scale * inverse * (g - mean(g) - y mean(g y)), where y is the standardized x, into `result`.

    It is computed as g * factor - x * slope - offset, without y. With a scale for each part of a row, it is that of
    scale * g without a scale.
    """
    inverse, center = inverse.reshape(-1), None if mean is None else mean.reshape(-1)
    if scale is not None and scale.size > inverse.size:
        _input_grad_of_parts(result[0], x[0], g[0], scale.reshape(inverse.size, -1), center, inverse)
        return
    factor = inverse if scale is None else inverse * scale
    if len(x) > 1:
        _input_grad_apart(result, x, g, factor, center, inverse)
        return
    _, rows, length = x.shape
    with unbuffered_rows(length):
        for at in blocks(rows, length * x.itemsize):
            middle = None if center is None else center[at]
            out = result[0, at]
            grad_of_block(out, x[0, at], in_memory(g[0, at], out), middle, inverse[at], factor[at])


def grad_of_block(out: Any, x: Any, g: Any, center: Any, inverse: Any, factor: Any) -> None:
    """Write g * factor - x * slope - offset for a block of rows that lie together, shape (rows, length), into `out`.

    Args:
        out: the array to write into; it may be `g`.
        x: the rows.
        g: the gradient of their results.
        center: the means; None where rows are not centered.
        inverse: the inverse deviations.
        factor: these times the scales.
    """
    total = None if center is None else sum_rows(g)
    slope, offset = _coefficients(np.vecdot(g, x), total, center, inverse, factor, x.shape[1])
    np.multiply(g, factor[:, None], out=out)
    out -= np.multiply(x, slope[:, None], out=scratch(x.shape, x.dtype))
    if offset is not None:
        out -= offset[:, None]


def _input_grad_of_parts(result: Any, x: Any, g: Any, scale: Any, center: Any, inverse: Any) -> None:
    """Write what `input_grad` does for a scale of each part of a row, shape (rows, parts), into `result`."""
    rows, length = x.shape
    with unbuffered_rows(length // scale.shape[1]):
        for at in blocks(rows, length * x.itemsize):
            some, by, out = x[at], scale[at], result[at]
            grads = in_memory(g[at], out)
            parts = (by.size, length // by.shape[1])
            pieces = grads.reshape(parts)
            dots = np.vecdot(np.vecdot(pieces, some.reshape(parts)).reshape(by.shape), by)
            totals = np.vecdot(sum_rows(pieces).reshape(by.shape), by)
            slope, offset = _coefficients(dots, totals, center[at], inverse[at], inverse[at], length)
            _by_parts(np.multiply, grads, by * inverse[at, None], out)
            out -= np.multiply(some, slope[:, None], out=scratch(some.shape, some.dtype))
            out -= offset[:, None]


def centered_dots(x: Any, g: Any, mean: Any, inverse: Any) -> Any:
    """Return the sum over each row of g times the standardized x, shape (rows,); rows are centered."""
    layout = _Layout.of(x)
    return (layout.dots(x, g) - layout.sums(g) * mean.reshape(-1)) * inverse.reshape(-1)


def scale_rows(result: Any, x: Array, scale: Any, shift: Any) -> None:
    """Write x times a scale of each row plus a shift, which may be None, into `result`."""
    layout = _Layout.of(x)
    by, plus = layout.spread(scale), None if shift is None else layout.spread(shift)
    source, results = layout.shaped(x), layout.shaped(result)
    for at in layout.blocks(x.itemsize):
        out = np.multiply(source[at], by[at[1]], out=results[at])
        if plus is not None:
            out += plus[at[1]]


def _as_statistics(mean: Any, variance: Array, inverse: Array) -> tuple[Any, Any, Any]:
    column = (1, -1, 1)
    return None if mean is None else mean.reshape(column), variance.reshape(column), inverse.reshape(column)


def _coefficients(dots: Any, total: Any, center: Any, inverse: Any, factor: Any, count: int) -> tuple[Any, Any]:
    """Return the slope and the offset of the gradient of each row; the offset is None where rows are not centered.

    Args:
        dots: the products of the rows of g and x.
        total: the sums of those of g; None where rows are not centered, as `center`.
        center: the means.
        inverse: the inverse deviations.
        factor: these times the scales.
        count: the elements of a row.
    """
    slope = dots if center is None else dots - total * center
    slope = slope * inverse * inverse * factor / count
    return slope, None if center is None else total * factor / count - slope * center


def _part_length(length: int, rows: int, *values: Any) -> int:
    """Return the length of the parts of a row that scales or shifts are for."""
    return min([length, *(length * rows // int(one.size) for one in values if one is not None)])


def _by_parts(function: Any, rows: Any, values: Any, out: Any) -> None:
    """Write a function of the parts of rows, and of a value for each, shape (rows, parts), into `out`."""
    parts = (values.size, rows.shape[1] // values.shape[1])
    function(rows.reshape(parts), values.reshape(-1, 1), out=out.reshape(parts))


class _Layout(NamedTuple):
    """How rows are gone through, short ones side by side: each inner place is a row of its own then."""

    outer: int
    rows: int
    inner: int
    is_wide: bool

    @classmethod
    def of(cls, x: Array) -> _Layout:
        """Return the layout for an array."""
        outer, rows, inner = x.shape
        return cls(outer, rows, inner, outer > 1 and inner <= _FEW)

    def shaped(self, x: Array) -> Any:
        """Return an array in this layout."""
        return x.reshape(self.outer, self.rows * self.inner, 1) if self.is_wide else x

    def spread(self, values: Array) -> Any:
        """Return a value of each row as a column."""
        return np.repeat(values, self.inner).reshape(-1, 1) if self.is_wide else values.reshape(-1, 1)

    def blocks(self, itemsize: int) -> Iterator[tuple[slice, slice]]:
        """Yield some outer places, or one, and all rows, or some."""
        rows, length = (self.rows * self.inner, 1) if self.is_wide else (self.rows, self.inner)
        size = rows * length * itemsize
        with unbuffered_rows(length):
            for outer in blocks(self.outer, size):
                for some in blocks(rows, length * itemsize) if size > row_blocks.BLOCK else (slice(0, rows),):
                    yield outer, some

    def sums(self, x: Array) -> Any:
        """Return the sum of each row."""
        if self.is_wide:
            return self._over_inner(np.ones(self.outer, x.dtype).dot(x.reshape(self.outer, -1)))
        return np.add.reduce(sum_rows(x.reshape(-1, self.inner)).reshape(self.outer, self.rows), axis=0)

    def dots(self, x: Any, g: Any) -> Any:
        """Return the sum of each row of g times x."""
        if not self.is_wide:
            return np.add.reduce(np.vecdot(g, x), axis=0)
        x, g = self.shaped(x), self.shaped(g)
        totals = np.zeros(x.shape[1], x.dtype)
        for at in self.blocks(x.itemsize):
            totals[at[1]] += _column_dots(x[at], g[at])
        return self._over_inner(totals)

    def center(self, x: Array, center: Any, centered: Any) -> Any:
        """Write x without the center of each row into `centered`, and return the sums of its squares."""
        source, results, column = self.shaped(x), self.shaped(centered), self.spread(center)
        totals = np.zeros(source.shape[1], x.dtype)
        for at in self.blocks(x.itemsize):
            out = np.subtract(source[at], column[at[1]], out=results[at])
            totals[at[1]] += _column_dots(out, out) if self.is_wide else np.add.reduce(np.vecdot(out, out), axis=0)
        return self._over_inner(totals) if self.is_wide else totals

    def _over_inner(self, totals: Array) -> Any:
        if self.inner == 1:
            return totals
        return np.add.reduce(totals.reshape(self.rows, self.inner), axis=1)


def _column_dots(x: Any, y: Any) -> Any:
    """Return the sums over outer places of the products of rows of one inner place."""
    products = np.multiply(x, y, out=scratch(x.shape, x.dtype))
    return np.ones(len(x), x.dtype).dot(products.reshape(x.shape[:2]))


def _standardize_apart(value: Any, x: Array, eps: float, scale: Any, shift: Any) -> tuple[Any, Any, Any]:
    """Return what `standardize` does where rows are apart."""
    layout, count = _Layout.of(x), len(x) * x.shape[2]
    mean = layout.sums(x)
    mean /= count
    variance = layout.center(x, mean, value)
    variance /= count
    inverse = np.reciprocal(np.sqrt(variance + eps)).astype(x.dtype, copy=False)
    factor = layout.spread(inverse if scale is None else inverse * scale)
    plus = None if shift is None else layout.spread(shift)
    results = layout.shaped(value)
    for at in layout.blocks(x.itemsize):
        out = results[at]
        out *= factor[at[1]]
        if plus is not None:
            out += plus[at[1]]
    return _as_statistics(mean, variance, inverse)


def _input_grad_apart(result: Any, x: Array, g: Any, factor: Any, center: Any, inverse: Any) -> None:
    """Write what `input_grad` does where rows are apart."""
    layout, count = _Layout.of(x), len(x) * x.shape[2]
    coefficients = _coefficients(layout.dots(x, g), layout.sums(g), center, inverse, factor, count)
    factor, slope, offset = map(layout.spread, (factor, *coefficients))
    source, grads, results = layout.shaped(x), layout.shaped(g), layout.shaped(result)
    for at in layout.blocks(x.itemsize):
        rows, some = source[at], at[1]
        out = np.multiply(grads[at], factor[some], out=results[at])
        out -= np.multiply(rows, slope[some], out=scratch(rows.shape, rows.dtype))
        out -= offset[some]
