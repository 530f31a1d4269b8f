"""Cross entropy, its gradient, and softmax of masked scores on a GPU, with a block of threads for each row.

As in `rows`, a function returns None for arrays that it has no kernel for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from .arrays import pointer
from .modules import TYPES
from .rows import RowFunctions

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["loss_functions"]

_SOURCE = """
#define NOT_A_NUMBER T(__longlong_as_double(0x7ff8000000000000LL))

// The loss of each row, its largest score, and the sum of the exponentials of its scores less the largest.
template <typename T> __device__ void cross_entropy(
    const T* x, const long long* labels, T* losses, T* maxima, T* sums, long long length, long long ignored) {
    long long row = blockIdx.x;
    x += row * length;
    T largest = T(LOWEST), total = 0;
    EACH(k) largest = larger(x[k], largest);
    largest = over_block<T, false>(largest);
    EACH(k) total += exp(x[k] - largest);
    total = SUM(total);
    if (threadIdx.x == 0) {
        long long label = labels[row];
        bool is_class = 0 <= label && label < length;
        maxima[row] = largest;
        sums[row] = total;
        losses[row] = label == ignored ? T(0) : is_class ? log(total) - (x[label] - largest) : NOT_A_NUMBER;
    }
}

// One block sums all losses, and for a mean divides them by how many are not ignored; `factor` is one by that.
template <typename T, bool is_mean> __device__ void total_loss(
    const T* losses, const long long* labels, T* out, T* factor, long long length, long long ignored) {
    T total = 0;
    double count = 0;
    EACH(k) { total += losses[k]; if (is_mean) count += labels[k] != ignored; }
    total = SUM(total);
    if (is_mean) count = over_block<double, true>(count);
    if (threadIdx.x == 0) {
        *out = is_mean ? T(total / count) : total;
        if (is_mean) *factor = T(1 / count);
    }
}

// `g` has a number for each row, `step` numbers apart; or one for all, where `step` is 0. A null `factor` is 1.
template <typename T> __device__ void cross_entropy_grad(
    const T* g, long long step, const T* x, const long long* labels, const T* maxima, const T* sums, const T* factor,
    T* out, long long length, long long ignored) {
    long long row = blockIdx.x, label = labels[row];
    x += row * length; out += row * length;
    T scale = 0 <= label && label < length ? g[row * step] : NOT_A_NUMBER;
    if (factor) scale *= *factor;
    T largest = maxima[row], ratio = scale / sums[row];
    EACH(k) out[k] = label == ignored ? T(0) : exp(x[k] - largest) * ratio - (k == label ? scale : T(0));
}

// Softmax of each row with a mask, whose axes have lengths and steps; zeros where all of a row is masked.
enum { NUMBERS, TRUTHS, CAUSAL };

template <typename T, int kind> __device__ T masked(const T* x, const void* mask, long long k, long long last) {
    if (kind == NUMBERS) return x[k] + ((const T*)mask)[k * last];
    return x[k] + ((kind == TRUTHS ? ((const bool*)mask)[k * last] : k <= last) ? T(0) : T(LOWEST));
}

template <typename T, int kind> __device__ void masked_softmax(
    const T* x, const void* mask, T* out, long long length, long long first, long long second, long long targets,
    long long first_step, long long second_step, long long target_step, long long last) {
    long long row = blockIdx.x, target = row % targets;
    long long offset = row / targets / second % first * first_step + row / targets % second * second_step
        + target * target_step;
    x += row * length; out += row * length;
    if (kind == NUMBERS) mask = (const T*)mask + offset;
    if (kind == TRUTHS) mask = (const bool*)mask + offset;
    if (kind == CAUSAL) last = target;
    T largest = T(LOWEST), total = 0;
    EACH(k) largest = larger(masked<T, kind>(x, mask, k, last), largest);
    largest = over_block<T, false>(largest);
    if (largest == T(LOWEST)) largest = 0;
    EACH(k) { T value = exp(masked<T, kind>(x, mask, k, last) - largest); total += value; out[k] = value; }
    total = SUM(total);
    if (total == 0) total = 1;
    EACH(k) out[k] /= total;
}

#define MASKED(name, kind, T) \\
    KERNEL name##_##T(const T* x, const void* mask, T* out, long long n, long long a, long long b, long long c, \\
                      long long i, long long j, long long k, long long last) \\
        { masked_softmax<T, kind>(x, mask, out, n, a, b, c, i, j, k, last); }
#define TOTAL(name, is_mean, T) \\
    KERNEL name##_##T(const T* losses, const long long* labels, T* out, T* factor, long long n, long long ignored) \\
        { total_loss<T, is_mean>(losses, labels, out, factor, n, ignored); }
#define KERNELS(T) \\
    KERNEL cross_entropy_##T(const T* x, const long long* labels, T* losses, T* maxima, T* sums, long long n, \\
                             long long ignored) \\
        { cross_entropy<T>(x, labels, losses, maxima, sums, n, ignored); } \\
    KERNEL cross_entropy_grad_##T(const T* g, long long step, const T* x, const long long* labels, const T* maxima, \\
                                  const T* sums, const T* factor, T* out, long long n, long long ignored) \\
        { cross_entropy_grad<T>(g, step, x, labels, maxima, sums, factor, out, n, ignored); } \\
    TOTAL(mean_loss, true, T) \\
    TOTAL(sum_loss, false, T) \\
    MASKED(softmax_plus, NUMBERS, T) \\
    MASKED(softmax_where, TRUTHS, T) \\
    MASKED(softmax_causal, CAUSAL, T)
KERNELS(float)
KERNELS(double)
"""


def loss_functions(cupy: Any, launched: list[int] | None = None) -> dict[Any, Callable[..., Any]]:
    """Return the functions by the names that asyncgrad's neural network functions look them up by.

    Args:
        cupy: the module.
        launched: where launches are counted.
    """
    losses = _Losses(cupy, launched)
    return {
        "cross_entropy": losses.cross_entropy,
        "cross_entropy_grad": losses.cross_entropy_grad,
        "masked_softmax": losses.masked_softmax,
    }


@final
class _Losses(RowFunctions):
    """Functions of the rows of scores."""

    source = _SOURCE

    def _fits_labels(self, labels: Any, rows: int) -> bool:
        is_plain = type(labels) is self._ndarray and labels.dtype.char in "lq" and labels._c_contiguous
        return is_plain and labels.shape == (rows,)

    def cross_entropy(self, x: Any, labels: Any, ignore_index: int, reduction: str) -> Any:
        """Return the cross entropy of the rows of a matrix of scores and integer labels.

        Args:
            x: the scores.
            labels: int64 numbers in C order; the loss of one that is not a class is NaN.
            ignore_index: the label of which the loss is 0.
            reduction: "mean", "sum" or "none".

        Returns:
            The loss; the maxima of the rows and the sums of their exponentials as columns; and the factor of each loss
            in the result, None for 1.
        """
        if not self.fit(x) or not self._fits_labels(labels, len(x)):
            return None
        rows, length = x.shape
        dtype = x.dtype
        new = self._new
        losses, maxima, sums = new((rows,), dtype), new((rows, 1), dtype), new((rows, 1), dtype)
        self.launch("cross_entropy", dtype, rows, length, (x, labels, losses, maxima, sums), length, ignore_index)
        if reduction == "none":
            return losses, maxima, sums, None
        value, factor = new((), dtype), new((), dtype) if reduction == "mean" else None
        pointers = (losses, labels, value, pointer(factor))
        block = 1024 if rows > 256 else 256 if rows > 32 else 32
        self.module.launch((f"{reduction}_loss", TYPES[dtype.char]), block, block, pointers, (rows, ignore_index))
        return value, maxima, sums, factor

    def cross_entropy_grad(
        self, g: Any, x: Any, labels: Any, ignore_index: int, maxima: Any, sums: Any, factor: Any
    ) -> Any:
        """Return the gradient for the scores; `g` is that of the loss, and the rest as `cross_entropy` gives it."""
        if type(g) is not self._ndarray or g.dtype != x.dtype or not self.fit(x, maxima, sums):
            return None
        if not self._fits_labels(labels, len(x)):
            return None
        rows, length = x.shape
        step = g.strides[0] // g.itemsize if g.ndim else 0
        out = self._new(x.shape, x.dtype)
        pointers = (g, self.module.number(step), x, labels, maxima, sums, pointer(factor), out)
        self.launch("cross_entropy_grad", x.dtype, rows, length, pointers, length, ignore_index)
        return out

    def masked_softmax(self, x: Any, mask: Any) -> Any:
        """Return the softmax of scores along the last axis, and zeros where all of a row is masked.

        Args:
            x: the scores.
            mask: numbers of their dtype to add to them, or truth values, true where a score counts, of their shape,
                with strides of 0 where they are repeated; or "causal", where row i of each matrix counts up to i.
        """
        shape, dtype = x.shape, x.dtype
        ndim = len(shape)
        if not 2 <= ndim <= 4 or not self.fit(x):
            return None
        lengths, steps = (1,) * (4 - ndim) + shape[:-1], (0,) * 4
        if isinstance(mask, str):
            name, mask = "softmax_causal", 0
        elif type(mask) is not self._ndarray or mask.shape != shape or (mask.dtype != dtype and mask.dtype.char != "?"):
            return None
        else:
            name = "softmax_where" if mask.dtype.char == "?" else "softmax_plus"
            steps = (0,) * (4 - ndim) + tuple(stride // mask.itemsize for stride in mask.strides)
        out = self._new(shape, dtype)
        length = shape[-1]
        self.launch(name, dtype, out.size // length, length, (x, mask, out), length, *lengths, *steps)
        return out
