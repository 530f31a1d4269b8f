"""Batch, group, instance and root mean square normalization and their gradients on a GPU, with a block for each row.

A row is one of the middle axis of an array of shape (outer, rows, inner): its elements are those of all outer and inner
places. As in `rows`, a function returns None for arrays that it has no kernel for.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, final

from .arrays import contiguous, pointer
from .rows import RowFunctions

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["norm_functions"]

#: Places are 32-bit numbers, by which a GPU divides faster.
_LARGEST = 1 << 31

_SOURCE = """
// Element k of a row.
#define AT(k) (((long long)((unsigned)(k) / width) * rows + row) * inner + (unsigned)(k) % width)
#define ROW \\
    const long long row = blockIdx.x; \\
    const unsigned width = (unsigned)inner;

// Null pointers say that there is no scale, no shift, and that rows are not centered.
template <typename T> __device__ void normalize(
    const T* x, const T* scale, const T* shift, T* out, T* means, T* variances, T* inverses, long long rows,
    long long inner, long long length, T eps) {
    ROW
    T mean = 0, total = 0;
    if (means) {
        EACH(k) total += x[AT(k)];
        mean = SUM(total) / length;
        total = 0;
    }
    EACH(k) { T value = x[AT(k)] - mean; total += value * value; }
    T variance = SUM(total) / length;
    T inverse = T(1) / sqrt(variance + eps);
    T factor = scale ? inverse * scale[row] : inverse;
    EACH(k) {
        T value = (x[AT(k)] - mean) * factor;
        out[AT(k)] = shift ? value + shift[row] : value;
    }
    if (threadIdx.x == 0) {
        if (means) means[row] = mean;
        variances[row] = variance;
        inverses[row] = inverse;
    }
}

template <typename T> __device__ void normalize_grad(
    const T* g, const T* x, const T* scale, const T* means, const T* inverses, T* out, long long rows, long long inner,
    long long length) {
    ROW
    T mean = means ? means[row] : T(0), inverse = inverses[row], total = 0, product = 0;
    EACH(k) { T value = g[AT(k)]; total += value; product += value * (x[AT(k)] - mean); }
    product = SUM(product) * (inverse * inverse) / length;
    total = means ? SUM(total) / length : T(0);
    T factor = scale ? inverse * scale[row] : inverse;
    EACH(k) out[AT(k)] = (g[AT(k)] - (x[AT(k)] - mean) * product - total) * factor;
}

// The sum of each row of g; or of g times y, which is standardized where there are inverse deviations.
template <typename T> __device__ void row_dots(
    const T* g, const T* y, const T* means, const T* inverses, T* out, long long rows, long long inner,
    long long length) {
    ROW
    T mean = means ? means[row] : T(0), inverse = inverses ? inverses[row] : T(1), total = 0;
    EACH(k) total += y ? g[AT(k)] * ((y[AT(k)] - mean) * inverse) : g[AT(k)];
    total = SUM(total);
    if (threadIdx.x == 0) out[row] = total;
}

// Rows in C order, each element of which has a weight, which is none where the pointer is null.
template <typename T> __device__ void rms_norm(
    const T* x, const T* weight, T* out, T* inverses, long long length, T eps) {
    x += blockIdx.x * length; out += blockIdx.x * length;
    T total = 0;
    EACH(k) total += x[k] * x[k];
    T inverse = T(1) / sqrt(SUM(total) / length + eps);
    EACH(k) out[k] = weight ? x[k] * inverse * weight[k] : x[k] * inverse;
    if (threadIdx.x == 0) inverses[blockIdx.x] = inverse;
}

template <typename T> __device__ void rms_norm_grad(
    const T* g, const T* x, const T* weight, const T* inverses, T* out, long long length) {
    g += blockIdx.x * length; x += blockIdx.x * length; out += blockIdx.x * length;
    T inverse = inverses[blockIdx.x], product = 0;
    EACH(k) product += (weight ? g[k] * weight[k] : g[k]) * x[k];
    product = SUM(product) * (inverse * inverse) / length;
    EACH(k) out[k] = ((weight ? g[k] * weight[k] : g[k]) - x[k] * product) * inverse;
}

// The sum over rows of g times the standardized x.
template <typename T> __device__ void rms_weight_grad(
    const T* g, const T* x, const T* inverses, T* out, long long rows, long long length, int columns) {
    auto term = [=](long long row, long long column) {
        long long k = row * length + column;
        return g[k] * (x[k] * inverses[row]);
    };
    sum_columns<T>(rows, length, columns, term, [=](long long column, T total) { out[column] = total; });
}

#define KERNELS(T) \\
    KERNEL normalize_##T(const T* x, const T* w, const T* b, T* out, T* m, T* v, T* s, long long rows, \\
                         long long inner, long long n, T eps) \\
        { normalize<T>(x, w, b, out, m, v, s, rows, inner, n, eps); } \\
    KERNEL normalize_grad_##T(const T* g, const T* x, const T* w, const T* m, const T* s, T* out, long long rows, \\
                              long long inner, long long n) \\
        { normalize_grad<T>(g, x, w, m, s, out, rows, inner, n); } \\
    KERNEL row_dots_##T(const T* g, const T* y, const T* m, const T* s, T* out, long long rows, long long inner, \\
                        long long n) \\
        { row_dots<T>(g, y, m, s, out, rows, inner, n); } \\
    KERNEL rms_norm_##T(const T* x, const T* w, T* out, T* s, long long n, T eps) \\
        { rms_norm<T>(x, w, out, s, n, eps); } \\
    KERNEL rms_norm_grad_##T(const T* g, const T* x, const T* w, const T* s, T* out, long long n) \\
        { rms_norm_grad<T>(g, x, w, s, out, n); } \\
    KERNEL rms_weight_grad_##T( \\
        const T* g, const T* x, const T* s, T* out, long long rows, long long n, long long columns) \\
        { rms_weight_grad<T>(g, x, s, out, rows, n, columns); }
KERNELS(float)
KERNELS(double)
"""


def norm_functions(cupy: Any, launched: list[int] | None = None) -> dict[Any, Callable[..., Any]]:
    """Return the functions by the names that asyncgrad's neural network functions look them up by.

    Args:
        cupy: the module.
        launched: where launches are counted.
    """
    norms = _Norms(cupy, launched)
    return {
        "normalize": norms.normalize,
        "normalize_grad": norms.normalize_grad,
        "row_dots": norms.row_dots,
        "rms_norm": norms.rms_norm,
        "rms_norm_grad": norms.rms_norm_grad,
        "rms_weight_grad": norms.rms_weight_grad,
    }


@final
class _Norms(RowFunctions):
    """Functions of arrays of shape (outer, rows, inner), and of those of shape (rows, length)."""

    source = _SOURCE

    def _fits(self, x: Any, *others: Any) -> bool:
        """Tell whether there are kernels for an array and others, which may be None."""
        return x.size < _LARGEST and self.fit(x, *others)

    def normalize(self, x: Any, scale: Any, shift: Any, eps: float, centered: bool) -> Any:
        """Return the standardized rows times their scale plus their shift, their means, variances and inverses.

        Args:
            x: shape (outer, rows, inner).
            scale: of each row, or None.
            shift: of each row, or None.
            eps: added to the variance.
            centered: whether the mean is subtracted; otherwise None stands for the means.
        """
        if not self._fits(x, scale, shift):
            return None
        (outer, rows, inner), dtype, new = x.shape, x.dtype, self._new
        column = (1, rows, 1)
        mean = new(column, dtype) if centered else None
        out, variance, inverse = new(x.shape, dtype), new(column, dtype), new(column, dtype)
        arrays = (x, pointer(scale), pointer(shift), out, pointer(mean), variance, inverse)
        length = outer * inner
        self.launch("normalize", dtype, rows, length, arrays, rows, inner, length, dtype.type(eps))
        return out, mean, variance, inverse

    def normalize_grad(self, g: Any, x: Any, scale: Any, mean: Any, inverse: Any) -> Any:
        """Return the gradient of the rows, whose own is g."""
        g = contiguous(g)
        if g.shape != x.shape or not self._fits(g, x, scale, mean, inverse):
            return None
        outer, rows, inner = x.shape
        out = self._new(x.shape, x.dtype)
        arrays = (g, x, pointer(scale), pointer(mean), inverse, out)
        length = outer * inner
        self.launch("normalize_grad", x.dtype, rows, length, arrays, rows, inner, length)
        return out

    def row_dots(self, g: Any, y: Any, mean: Any, inverse: Any, shape: tuple[int, ...]) -> Any:
        """Return the sum of each row of g times y, in a shape.

        Args:
            g: shape (outer, rows, inner).
            y: the same shape; None for ones.
            mean: of each row of y, which is standardized; or None.
            inverse: the inverse deviations of its rows; None where it is not standardized.
            shape: that of the result.
        """
        g, y = contiguous(g), contiguous(y)
        if (y is not None and y.shape != g.shape) or not self._fits(g, y, mean, inverse):
            return None
        outer, rows, inner = g.shape
        out = self._new(shape, g.dtype)
        arrays = (g, pointer(y), pointer(mean), pointer(inverse), out)
        length = outer * inner
        self.launch("row_dots", g.dtype, rows, length, arrays, rows, inner, length)
        return out

    def rms_norm(self, x: Any, weight: Any, eps: float) -> Any:
        """Return the rows of a matrix by the root of the mean of their squares, and one by that root as a column."""
        if not self._fits(x, weight):
            return None
        (rows, length), dtype = x.shape, x.dtype
        out, inverse = self._new(x.shape, dtype), self._new((rows, 1), dtype)
        self.launch("rms_norm", dtype, rows, length, (x, pointer(weight), out, inverse), length, dtype.type(eps))
        return out, inverse

    def rms_norm_grad(self, g: Any, x: Any, weight: Any, inverse: Any) -> Any:
        """Return the gradient of the rows, in the shape of x."""
        g = contiguous(g)
        if g.size != x.size or not self._fits(g, x, weight, inverse):
            return None
        rows, out = inverse.size, self._new(x.shape, x.dtype)
        length = x.size // rows
        self.launch("rms_norm_grad", x.dtype, rows, length, (g, x, pointer(weight), inverse, out), length)
        return out

    def rms_weight_grad(self, g: Any, x: Any, inverse: Any, shape: tuple[int, ...]) -> Any:
        """Return the sum over rows of g times the standardized x, in a shape."""
        g = contiguous(g)
        if g.size != x.size or not self._fits(g, x, inverse) or x.size != inverse.size * prod(shape):
            return None
        rows, length = inverse.size, prod(shape)
        out = self._new(shape, x.dtype)
        self.launch_columns("rms_weight_grad", x.dtype, rows, length, (g, x, inverse, out))
        return out
