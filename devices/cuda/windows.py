"""Convolution and pooling on a GPU: the windows over images are copied, summed or searched by one kernel each.

A convolution is one product of matrices, of the filters and of the windows over many images as columns. Each element of
a result is computed by one thread, in the order in which NumPy's formulas add, so the same call gives the same bits.

Each function returns None for arrays that it has no kernel for: of other dtypes than float32 and float64, of two
dtypes, or without elements. The caller computes by the functions of CuPy then.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, final

import numpy as np

from asyncgrad.core.arrays.device_functions import own_function

from .arrays import array_checker, array_maker, contiguous, pointer
from .modules import KernelModule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["window_functions"]

#: The bytes of windows to copy at a time, unless those over one image are more.
_CHUNK = 1 << 26
#: Kernels count in int below this number of elements, whose divisions take a fraction of the time, else in long long.
_SMALL = 1 << 30
_THREADS = 256
#: The largest number of an element of a window that has room in the choice of a maximum.
_LARGEST_CHOICE = 255

_SOURCE = """
#define EACH(k, size) \\
    for (I k = (I)blockIdx.x * blockDim.x + threadIdx.x; k < size; k += (I)gridDim.x * blockDim.x)

// See the class `Window`; `rows` and `columns` are those of the window, of which there are `down` by `across`.
template <typename I> struct Window {
    I height, width, rows, columns, stride_y, stride_x, top, left, step_y, step_x, down, across;

    // Where an element of the window at a position lies in the image; -1 outside.
    __device__ I inside(I y, I x, I row, I column) const {
        y = y * stride_y + row * step_y - top;
        x = x * stride_x + column * step_x - left;
        return y < 0 || y >= height || x < 0 || x >= width ? -1 : y * width + x;
    }
    // The position at which that element of the window lies on (y, x) in the image; -1 if there is none.
    __device__ I position(I y, I x, I row, I column) const {
        y += top - row * step_y;
        x += left - column * step_x;
        if (y < 0 || x < 0 || y % stride_y || x % stride_x) return -1;
        y /= stride_y;
        x /= stride_x;
        return y >= down || x >= across ? -1 : y * across + x;
    }
};

// images (n, channels, height, width) -> columns (channels, rows, columns, n, down, across)
template <typename T, typename I> __device__ void copy_windows(
    const T* images, T* out, I n, I channels, I size, Window<I> window) {
    EACH(k, size) {
        I x = k % window.across, rest = k / window.across;
        I y = rest % window.down; rest /= window.down;
        I image = rest % n; rest /= n;
        I column = rest % window.columns; rest /= window.columns;
        I row = rest % window.rows, channel = rest / window.rows;
        I place = window.inside(y, x, row, column);
        out[k] = place < 0 ? T(0) : images[(image * channels + channel) * window.height * window.width + place];
    }
}

// columns (channels, rows, columns, n, down, across) -> images (n, channels, height, width)
template <typename T, typename I> __device__ void add_windows(
    const T* columns, T* out, I n, I channels, I size, Window<I> window) {
    I positions = window.down * window.across;
    EACH(k, size) {
        I x = k % window.width, rest = k / window.width;
        I y = rest % window.height; rest /= window.height;
        I channel = rest % channels, image = rest / channels;
        T total = 0;
        for (I row = 0; row < window.rows; row++)
            for (I column = 0; column < window.columns; column++) {
                I place = window.position(y, x, row, column);
                if (place < 0) continue;
                I element = (channel * window.rows + row) * window.columns + column;
                total += columns[(element * n + image) * positions + place];
            }
        out[k] = total;
    }
}

// (first, second, length) -> (second, first, length), with a number added for each index of the first axis
template <typename T, typename I> __device__ void swap_axes(
    const T* in, const T* bias, T* out, I first, I second, I length, I size) {
    EACH(k, size) {
        I place = k % length, rest = k / length;
        I a = rest % first, b = rest / first;
        T value = in[(a * second + b) * length + place];
        out[k] = bias ? value + bias[a] : value;
    }
}

// The maximum of each window, and its number in the window: the first of equal ones, and the last one after a NaN.
template <typename T, typename I> __device__ void find_maxima(
    const T* images, T* maxima, unsigned char* choice, I size, Window<I> window) {
    EACH(k, size) {
        I x = k % window.across, rest = k / window.across;
        I y = rest % window.down;
        const T* image = images + rest / window.down * window.height * window.width;
        T largest = 0;
        int chosen = 0, number = 0;
        for (I row = 0; row < window.rows; row++)
            for (I column = 0; column < window.columns; column++, number++) {
                I place = window.inside(y, x, row, column);
                T seen = place < 0 ? T(-INFINITE) : image[place];
                if (number && seen <= largest) continue;
                chosen = number;
                // A NaN stays.
                if (!number || largest == largest) largest = seen;
            }
        maxima[k] = largest;
        choice[k] = chosen;
    }
}

// The sum of each window over the elements that it chose, or over all.
template <typename T, typename I> __device__ void gather(
    const T* images, const unsigned char* choice, T* out, I size, Window<I> window) {
    EACH(k, size) {
        I x = k % window.across, rest = k / window.across;
        I y = rest % window.down;
        const T* image = images + rest / window.down * window.height * window.width;
        T total = 0;
        int number = 0;
        for (I row = 0; row < window.rows; row++)
            for (I column = 0; column < window.columns; column++, number++) {
                I place = window.inside(y, x, row, column);
                if (place >= 0 && (!choice || choice[k] == number)) total += image[place];
            }
        out[k] = total;
    }
}

// For each element of an image, the sum of g over the windows that chose it, or over all that it lies in.
template <typename T, typename I> __device__ void scatter(
    const T* g, const unsigned char* choice, T* out, I size, Window<I> window) {
    EACH(k, size) {
        I x = k % window.width, rest = k / window.width;
        I y = rest % window.height;
        I first = rest / window.height * window.down * window.across;
        T total = 0;
        int number = 0;
        for (I row = 0; row < window.rows; row++)
            for (I column = 0; column < window.columns; column++, number++) {
                I place = window.position(y, x, row, column);
                if (place >= 0 && (!choice || choice[first + place] == number)) total += g[first + place];
            }
        out[k] = total;
    }
}

#define KERNEL extern "C" __global__ void
#define L long long
#define GIVEN L height, L width, L rows, L columns, L stride_y, L stride_x, L top, L left, L step_y, L step_x, \\
    L down, L across
#define WINDOW(I) Window<I>{(I)height, (I)width, (I)rows, (I)columns, (I)stride_y, (I)stride_x, (I)top, (I)left, \\
    (I)step_y, (I)step_x, (I)down, (I)across}
#define KERNELS(T, I, NAME) \\
    KERNEL copy_windows_##NAME(const T* in, T* out, L n, L channels, L size, GIVEN) \\
        { copy_windows<T, I>(in, out, n, channels, size, WINDOW(I)); } \\
    KERNEL add_windows_##NAME(const T* in, T* out, L n, L channels, L size, GIVEN) \\
        { add_windows<T, I>(in, out, n, channels, size, WINDOW(I)); } \\
    KERNEL swap_axes_##NAME(const T* in, const T* bias, T* out, L first, L second, L length, L size) \\
        { swap_axes<T, I>(in, bias, out, first, second, length, size); } \\
    KERNEL find_maxima_##NAME(const T* in, T* maxima, unsigned char* choice, L size, GIVEN) \\
        { find_maxima<T, I>(in, maxima, choice, size, WINDOW(I)); } \\
    KERNEL gather_##NAME(const T* in, const unsigned char* choice, T* out, L size, GIVEN) \\
        { gather<T, I>(in, choice, out, size, WINDOW(I)); } \\
    KERNEL scatter_##NAME(const T* in, const unsigned char* choice, T* out, L size, GIVEN) \\
        { scatter<T, I>(in, choice, out, size, WINDOW(I)); }
KERNELS(float, int, f_small)
KERNELS(float, long long, f_large)
KERNELS(double, int, d_small)
KERNELS(double, long long, d_large)
"""
#: What CUDA's C++ writes for infinity.
_INFINITE = "#define INFINITE __longlong_as_double(0x7ff0000000000000LL)\n"


def window_functions(
    cupy: Any, macros: str = _INFINITE, launched: list[int] | None = None
) -> dict[Any, Callable[..., Any]]:
    """Return the functions by the names that asyncgrad's neural network functions look them up by.

    Args:
        cupy: the module.
        macros: what the compiler needs before the source.
        launched: where launches are counted.
    """
    windows = _Windows(cupy, macros, launched)
    return {
        "conv2d": windows.convolve,
        "conv2d_input_grad": windows.input_grad,
        "conv2d_weight_grad": windows.weight_grad,
        "find_maxima": windows.find_maxima,
        "gather_windows": windows.gather,
        "scatter_windows": windows.scatter,
    }


def _geometry(window: Any, image: tuple[int, ...]) -> tuple[int, ...]:
    """Return a window over images as kernels take it; `image` ends with their height and width."""
    (top, _), (left, _) = window.padding
    return (*image[-2:], *window.kernel, *window.stride, top, left, *window.dilation, *window.size)


def _chunks(count: int, elements: int, itemsize: int) -> Iterator[slice]:
    """Yield slices of `count` images, each of as many as have room with `elements` elements of windows each."""
    step = max(1, min(count, _CHUNK // (elements * itemsize)))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def _part(array: Any, chunk: slice) -> Any:
    # All of them need no view.
    return array if chunk.stop - chunk.start == array.shape[0] else array[chunk]


@final
class _Windows:
    """The kernels, which are compiled when the first of them is needed.

    Args:
        cupy: the module.
        macros: what the compiler needs before the source.
        launched: where launches are counted.
    """

    def __init__(self, cupy: Any, macros: str, launched: list[int] | None) -> None:
        self._ndarray = cupy.ndarray
        self._new, self._fit = array_maker(cupy), array_checker(cupy, in_order=False)
        self._module = KernelModule(cupy, macros + _SOURCE, launched)

    def _launch(self, name: str, size: int, elements: int, like: Any, arrays: tuple[Any, ...], *numbers: int) -> None:
        """Run a kernel with a thread for each of `size` elements, where no array has more than `elements`.

        It takes the arrays and then the numbers.
        """
        parts = name, like.dtype.char, "small" if elements < _SMALL else "large"
        self._module.launch(parts, size, _THREADS, arrays, numbers)

    # Convolution. Between these steps, what belongs to a filter or a channel is in one row, for all images.

    def _columns(self, x: Any, window: Any) -> Any:
        """Return the windows over images as the columns of a matrix, with a row for each weight of each channel."""
        n, channels = x.shape[:2]
        weights, positions = channels * prod(window.kernel), n * prod(window.size)
        out = self._new((weights, positions), x.dtype)
        size = out.size
        geometry = _geometry(window, x.shape)
        self._launch("copy_windows", size, max(size, x.size), x, (x, out), n, channels, size, *geometry)
        return out

    def _add_columns(self, columns: Any, window: Any, out: Any) -> None:
        """Write the images whose elements are the sums of what the columns have for them."""
        n, channels = out.shape[:2]
        size = out.size
        geometry = _geometry(window, out.shape)
        self._launch("add_windows", size, max(size, columns.size), out, (columns, out), n, channels, size, *geometry)

    def _swap(self, x: Any, shape: tuple[int, int, int], out: Any, bias: Any = None) -> None:
        """Write an array of that shape with its first two axes swapped, plus a number for each place on the first."""
        self._launch("swap_axes", x.size, x.size, x, (x, pointer(bias), out), *shape, x.size)

    def _rows(self, g: Any) -> Any:
        """Return the gradient of a convolution as a matrix with a row for each filter."""
        n, filters, down, across = g.shape
        if n == 1:
            return g.reshape(filters, down * across)
        out = self._new((filters, n * down * across), g.dtype)
        self._swap(g, (n, filters, down * across), out)
        return out

    def convolve(self, x: Any, weight: Any, bias: Any, window: Any, groups: int) -> Any:
        """Return the filters' products with the windows over x, plus the bias of each filter."""
        if not self._fit(x, weight, bias):
            return None
        x, weight, bias = contiguous(x), contiguous(weight), contiguous(bias)
        n, filters, positions = x.shape[0], weight.shape[0], prod(window.size)
        out = self._new((n, filters, *window.size), x.dtype)
        for chunk in _chunks(n, x.shape[1] * prod(window.kernel) * positions, x.itemsize):
            part = _part(x, chunk)
            products = _product(weight.reshape(filters, -1), self._columns(part, window), groups)
            if n == 1 and bias is None:
                return products.reshape(out.shape)
            self._swap(products, (filters, part.shape[0], positions), _part(out, chunk), bias)
        return out

    def input_grad(self, g: Any, weight: Any, shape: tuple[int, ...], window: Any, groups: int) -> Any:
        """Return the gradient of a convolution for its images."""
        if not self._fit(g, weight) or not prod(shape):
            return None
        g, weight = contiguous(g), contiguous(weight)
        filters, n = weight.shape[0], shape[0]
        out = self._new(shape, g.dtype)
        for chunk in _chunks(n, shape[1] * prod(window.kernel) * prod(window.size), g.itemsize):
            columns = _transposed_product(weight.reshape(filters, -1), self._rows(_part(g, chunk)), groups)
            self._add_columns(columns, window, _part(out, chunk))
        return out

    def weight_grad(self, g: Any, x: Any, shape: tuple[int, ...], window: Any, groups: int) -> Any:
        """Return the gradient of a convolution for its filters."""
        if not self._fit(g, x) or not prod(shape):
            return None
        g, x = contiguous(g), contiguous(x)
        total: Any = None
        for chunk in _chunks(x.shape[0], x.shape[1] * prod(window.kernel) * prod(window.size), x.itemsize):
            product = _product_with_transposed(
                self._rows(_part(g, chunk)), self._columns(_part(x, chunk), window), groups
            )
            if total is None:
                total = product
            else:
                total += product
        # No view, which a leaf would copy.
        return self._ndarray(shape, total.dtype, total.data)

    # Pooling.

    def find_maxima(self, x: Any, window: Any) -> Any:
        """Return the maximum of each window, and its number among the elements of the window."""
        if not self._fit(x) or prod(window.kernel) > _LARGEST_CHOICE:
            return None
        x = contiguous(x)
        shape = (*x.shape[:-2], *window.size)
        maxima, choice = self._new(shape, x.dtype), self._new(shape, np.dtype(np.uint8))
        size = maxima.size
        geometry = _geometry(window, x.shape)
        self._launch("find_maxima", size, max(size, x.size), x, (x, maxima, choice), size, *geometry)
        return maxima, choice

    def gather(self, x: Any, choice: Any, window: Any) -> Any:
        """Return the element of x that each window chose; the sum of its elements where `choice` is None."""
        shape = (*x.shape[:-2], *window.size)
        if not self._fit(x) or not _is_choice(choice, shape):
            return None
        x = contiguous(x)
        out = self._new(shape, x.dtype)
        chosen = pointer(contiguous(choice))
        size = out.size
        self._launch("gather", size, max(size, x.size), x, (x, chosen, out), size, *_geometry(window, x.shape))
        return out

    def scatter(self, g: Any, choice: Any, shape: tuple[int, ...], window: Any) -> Any:
        """Return images of zeros with each element of g added to what its window chose; to all where that is None."""
        if not self._fit(g) or not _is_choice(choice, g.shape) or not prod(shape):
            return None
        g = contiguous(g)
        out = self._new(shape, g.dtype)
        chosen = pointer(contiguous(choice))
        size = out.size
        self._launch("scatter", size, max(size, g.size), g, (g, chosen, out), size, *_geometry(window, shape))
        return out


def _is_choice(choice: Any, shape: tuple[int, ...]) -> bool:
    """Tell whether a choice is one that kernels take: none at all, or one for each element of that shape."""
    return choice is None or (choice.dtype.char == "B" and choice.shape == shape)


# Products of matrices whose rows are divided into groups; those of several groups are one call of CuPy's.


def _grouped(matrix: Any, groups: int) -> Any:
    return matrix.reshape(groups, matrix.shape[0] // groups, matrix.shape[1])


def _product(filters: Any, columns: Any, groups: int) -> Any:
    """Return a matrix with a row for each filter."""
    if groups == 1:
        return own_function(np.matmul, filters)(filters, columns)
    return contiguous(_grouped(filters, groups) @ _grouped(columns, groups))


def _transposed_product(filters: Any, rows: Any, groups: int) -> Any:
    """Return a matrix with a row for each weight of each channel."""
    if groups > 1:
        return contiguous(_grouped(filters, groups).swapaxes(1, 2) @ _grouped(rows, groups))
    result = own_function("linear_weight_grad", filters)(filters, rows)
    return own_function(np.matmul, filters)(filters.T, rows) if result is None else result


def _product_with_transposed(rows: Any, columns: Any, groups: int) -> Any:
    """Return a matrix with a row for each filter and a column for each of its weights."""
    if groups > 1:
        return _grouped(rows, groups) @ _grouped(columns, groups).swapaxes(1, 2)
    result = own_function("linear", rows)(rows, columns)
    return own_function(np.matmul, rows)(rows, columns.T) if result is None else result
