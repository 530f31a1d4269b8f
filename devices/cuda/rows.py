"""Softmax, layer normalization, their gradients and embeddings on a GPU, with a block of threads for each row.

Each function returns None for arrays that it has no kernel for: of other dtypes than float32 and float64, or not in C
order. The caller computes by the functions of CuPy then.
"""

from __future__ import annotations

from abc import ABC
from typing import TYPE_CHECKING, Any, final

from .arrays import array_checker, array_maker, pointer
from .columns import COLUMNS_SOURCE, columns_and_threads
from .modules import TYPES, KernelModule

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["BLOCK_SOURCE", "RowFunctions", "row_functions"]

#: What a block of threads does together: the sum and the maximum over its threads, and loops over a row.
BLOCK_SOURCE = (
    COLUMNS_SOURCE
    + """
#define LOWEST (-__longlong_as_double(0x7ff0000000000000LL))

template <typename T> __device__ T larger(T a, T b) { return a > b || isnan(a) ? a : b; }

// Every thread of the block gets the sum, or the maximum, of the values of all.
template <typename T, bool is_sum> __device__ T over_block(T value) {
    __shared__ T partial[32];
    T empty = is_sum ? T(0) : T(LOWEST);
    for (int step = 16; step; step >>= 1) {
        T other = __shfl_xor_sync(0xffffffffu, value, step);
        value = is_sum ? value + other : larger(value, other);
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = threadIdx.x % 32 < blockDim.x / 32 ? partial[threadIdx.x % 32] : empty;
    for (int step = 16; step; step >>= 1) {
        T other = __shfl_xor_sync(0xffffffffu, value, step);
        value = is_sum ? value + other : larger(value, other);
    }
    return value;
}
#define EACH(k) for (long long k = threadIdx.x; k < length; k += blockDim.x)
#define SUM(value) over_block<T, true>(value)
#define KERNEL extern "C" __global__ void
"""
)

_SOURCE = """
template <typename T, bool is_log> __device__ void softmax(const T* x, T* out, long long length) {
    x += blockIdx.x * length; out += blockIdx.x * length;
    T largest = T(LOWEST), total = 0;
    EACH(k) largest = larger(x[k], largest);
    largest = over_block<T, false>(largest);
    EACH(k) { T value = exp(x[k] - largest); total += value; if (!is_log) out[k] = value; }
    total = SUM(total);
    T scale = is_log ? log(total) : total;
    EACH(k) out[k] = is_log ? x[k] - largest - scale : out[k] / scale;
}

template <typename T, bool is_log> __device__ void softmax_grad(const T* g, const T* y, T* out, long long length) {
    g += blockIdx.x * length; y += blockIdx.x * length; out += blockIdx.x * length;
    T total = 0;
    EACH(k) total += is_log ? g[k] : g[k] * y[k];
    total = SUM(total);
    EACH(k) out[k] = is_log ? g[k] - exp(y[k]) * total : y[k] * (g[k] - total);
}

template <typename T> __device__ void layer_norm(
    const T* x, const T* weight, const T* bias, T* out, T* means, T* inverses, long long length, T eps) {
    x += blockIdx.x * length; out += blockIdx.x * length;
    T total = 0;
    EACH(k) total += x[k];
    T mean = SUM(total) / length;
    total = 0;
    EACH(k) { T value = x[k] - mean; total += value * value; }
    T inverse = T(1) / sqrt(SUM(total) / length + eps);
    EACH(k) {
        T value = (x[k] - mean) * inverse;
        if (weight) value *= weight[k];
        out[k] = bias ? value + bias[k] : value;
    }
    if (threadIdx.x == 0) { means[blockIdx.x] = mean; inverses[blockIdx.x] = inverse; }
}

// The gradient is g, times a weight where there is one.
template <typename T> __device__ void standardize_grad(
    const T* g, const T* x, const T* weight, const T* means, const T* inverses, T* out, long long length) {
    g += blockIdx.x * length; x += blockIdx.x * length; out += blockIdx.x * length;
    T mean = means[blockIdx.x], inverse = inverses[blockIdx.x], total = 0, product = 0;
    EACH(k) {
        T value = weight ? g[k] * weight[k] : g[k];
        total += value;
        product += value * ((x[k] - mean) * inverse);
    }
    total = SUM(total) / length;
    product = SUM(product) / length;
    EACH(k) {
        T value = weight ? g[k] * weight[k] : g[k];
        out[k] = (value - (x[k] - mean) * inverse * product - total) * inverse;
    }
}

// The sum over rows of g times the standardized x.
template <typename T> __device__ void weight_grad(
    const T* g, const T* x, const T* means, const T* inverses, T* out, long long rows, long long length, int columns) {
    auto term = [=](long long row, long long column) {
        long long k = row * length + column;
        return g[k] * ((x[k] - means[row]) * inverses[row]);
    };
    sum_columns<T>(rows, length, columns, term, [=](long long column, T total) { out[column] = total; });
}

// Rows of a table; NaNs where there is no row of that index, which becomes 0 in `kept`.
template <typename T> __device__ void rows_at(
    const T* table, const long long* indices, T* out, long long* kept, long long rows, long long length) {
    long long index = indices[blockIdx.x];
    bool is_row = 0 <= index && index < rows;
    table += is_row ? index * length : 0;
    out += blockIdx.x * length;
    EACH(k) out[k] = is_row ? table[k] : T(__longlong_as_double(0x7ff8000000000000LL));
    if (threadIdx.x == 0) kept[blockIdx.x] = is_row ? index : 0;
}

#define KERNELS(T) \\
    KERNEL rows_at_##T(const T* table, const long long* i, T* out, long long* kept, long long rows, long long n) \\
        { rows_at<T>(table, i, out, kept, rows, n); } \\
    KERNEL softmax_##T(const T* x, T* out, long long n) { softmax<T, false>(x, out, n); } \\
    KERNEL log_softmax_##T(const T* x, T* out, long long n) { softmax<T, true>(x, out, n); } \\
    KERNEL softmax_grad_##T(const T* g, const T* y, T* out, long long n) { softmax_grad<T, false>(g, y, out, n); } \\
    KERNEL log_softmax_grad_##T(const T* g, const T* y, T* out, long long n) { softmax_grad<T, true>(g, y, out, n); } \\
    KERNEL layer_norm_##T(const T* x, const T* w, const T* b, T* out, T* m, T* s, long long n, T eps) \\
        { layer_norm<T>(x, w, b, out, m, s, n, eps); } \\
    KERNEL standardize_grad_##T(const T* g, const T* x, const T* w, const T* m, const T* s, T* out, long long n) \\
        { standardize_grad<T>(g, x, w, m, s, out, n); } \\
    KERNEL weight_grad_##T( \\
        const T* g, const T* x, const T* m, const T* s, T* out, long long rows, long long n, long long columns) \\
        { weight_grad<T>(g, x, m, s, out, rows, n, columns); }
KERNELS(float)
KERNELS(double)
"""


def row_functions(cupy: Any, launched: list[int] | None = None) -> dict[Any, Callable[..., Any]]:
    """Return the functions by the names that asyncgrad's neural network functions look them up by.

    Args:
        cupy: the module.
        launched: where launches are counted.
    """
    rows = _Rows(cupy, launched)
    return {
        "softmax": lambda x, axis: rows.map("softmax", axis, x),
        "log_softmax": lambda x, axis: rows.map("log_softmax", axis, x),
        "softmax_grad": lambda g, y, axis: rows.map("softmax_grad", axis, g, y),
        "log_softmax_grad": lambda g, y, axis: rows.map("log_softmax_grad", axis, g, y),
        "layer_norm": rows.layer_norm,
        "standardize_grad": rows.standardize_grad,
        "layer_norm_weight_grad": rows.weight_grad,
        "rows_at": rows.rows_at,
    }


def _threads_for(length: int) -> int:
    """Return how many threads a block has for rows of that length."""
    return 32 if length <= 64 else 64 if length <= 256 else 128 if length <= 1024 else 512


class RowFunctions(ABC):
    """Abstract: functions of rows by the kernels of a source, which is compiled when the first of them is needed.

    Args:
        cupy: the module.
        launched: where launches are counted.
    """

    #: The source of the kernels, which follows BLOCK_SOURCE.
    source: str

    def __init__(self, cupy: Any, launched: list[int] | None) -> None:
        self._ndarray = cupy.ndarray
        self.fit = array_checker(cupy, in_order=True)
        self._new = array_maker(cupy)
        self.module = KernelModule(cupy, BLOCK_SOURCE + self.source, launched)

    def launch(self, name: str, dtype: Any, rows: int, length: int, arrays: tuple[Any, ...], *numbers: Any) -> None:
        """Run the kernel of a name for a dtype, with a block of threads for each of some rows of a length.

        It takes the arrays and then the numbers.
        """
        threads = _threads_for(length)
        self.module.launch((name, TYPES[dtype.char]), rows * threads, threads, arrays, numbers)

    def launch_columns(self, name: str, dtype: Any, rows: int, length: int, arrays: tuple[Any, ...]) -> None:
        """Run the kernel of a name that sums over rows; it takes their number, their length and a block's columns."""
        columns, threads = columns_and_threads(rows, length)
        blocks = (length + columns - 1) // columns
        self.module.launch((name, TYPES[dtype.char]), blocks * threads, threads, arrays, (rows, length, columns))


@final
class _Rows(RowFunctions):
    """Functions of the rows of arrays."""

    source = _SOURCE

    def map(self, name: str, axis: int, *arrays: Any) -> Any:
        """Return what a kernel makes of the rows of arrays of one shape, which lie along their last axis."""
        shape, dtype = arrays[0].shape, arrays[0].dtype
        if axis not in (-1, len(shape) - 1) or not self.fit(*arrays) or arrays[-1].shape != shape:
            return None
        length = shape[-1]
        out = self._new(shape, dtype)
        self.launch(name, dtype, out.size // length, length, (*arrays, out), length)
        return out

    def layer_norm(self, x: Any, weight: Any, bias: Any, eps: float) -> Any:
        """Return the layer norm of the rows of a matrix, and their means and inverse deviations as columns."""
        if not self.fit(x, weight, bias):
            return None
        (rows, length), dtype, new = x.shape, x.dtype, self._new
        out, mean, inverse = new(x.shape, dtype), new((rows, 1), dtype), new((rows, 1), dtype)
        pointers = (x, pointer(weight), pointer(bias), out, mean, inverse)
        self.launch("layer_norm", dtype, rows, length, pointers, length, dtype.type(eps))
        return out, mean, inverse

    def standardize_grad(self, g: Any, x: Any, weight: Any, mean: Any, inverse: Any) -> Any:
        """Return the gradient of the standardized rows for x, in the shape of x; that of the rows is g times a weight.

        Args:
            g: of the size of x.
            x: the rows.
            weight: a number for each place in a row; None for ones.
            mean: of each row.
            inverse: the inverse deviation of each row.
        """
        if g.size != x.size or not self.fit(g, x, weight, mean, inverse):
            return None
        rows = mean.shape[0]
        out = self._new(x.shape, x.dtype)
        length = x.size // rows
        self.launch("standardize_grad", x.dtype, rows, length, (g, x, pointer(weight), mean, inverse, out), length)
        return out

    def weight_grad(self, g: Any, x: Any, shape: tuple[int, ...], mean: Any, inverse: Any) -> Any:
        """Return the sum over rows of g times the standardized x."""
        if g.size != x.size or not self.fit(g, x, mean, inverse):
            return None
        rows = mean.shape[0]
        length = x.size // rows
        out = self._new(shape, x.dtype)
        self.launch_columns("weight_grad", x.dtype, rows, length, (g, x, mean, inverse, out))
        return out

    def rows_at(self, table: Any, indices: Any) -> Any:
        """Return the rows of a table at indices, and the indices; for one of no row, NaNs and 0."""
        # No int64 holds all numbers of uint64.
        if type(indices) is not self._ndarray or indices.dtype.char in "LQ":
            return None
        if not self.fit(table) or not indices.size or not indices._c_contiguous:
            return None
        indices = indices.astype("q", copy=False)
        rows, length = table.shape
        out, kept = self._new((*indices.shape, length), table.dtype), self._new(indices.shape, indices.dtype)
        self.launch("rows_at", table.dtype, indices.size, length, (table, indices, out, kept), rows, length)
        return out, kept
