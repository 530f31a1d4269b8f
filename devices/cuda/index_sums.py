"""Sums of rows at indices on a GPU, each in an order that the indices alone decide: each run gives the same bits.

CuPy's own function adds by atomic operations, in the order in which CUDA's threads arrive. Here one thread adds all
that goes to an element, in the order of the indices. Many indices are sorted first, and a long run of equal ones is cut
at fixed places; the sums of its parts are added in their order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np

from .arrays import array_maker, contiguous
from .modules import KernelModule

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FEW", "index_sum_functions", "piece_for"]

#: Up to so many indices are not sorted: each is compared with all others. PyTorch has the same bound for embeddings.
FEW = 3072
#: Each warp compares anew, for its columns: up to so many comparisons take less time than sorting may.
_MOST_COMPARED = 1 << 26
#: The threads of a block that computes keys.
_THREADS = 256
_INT64 = np.dtype(np.int64)

#: What CUDA's C++ needs before the source.
_MACROS = """
#include <cupy/float16.cuh>
#define HALF float16
"""

_SOURCE = """
// How many elements a thread reads before it adds them. What lies beyond the end is read as the last one, and not
// added: a condition would have each read wait for the one before.
#define BATCH 8
#define FOR_BATCH _Pragma("unroll") for (int k = 0; k < BATCH; k++)
// The same for the indices that a warp compares, 32 at a time.
#define ROUNDS 4
#define FOR_ROUNDS _Pragma("unroll") for (int round = 0; round < ROUNDS; round++)
#define ALL_LANES 0xffffffffu

__device__ long long smaller(long long a, long long b) { return a < b ? a : b; }

// An index beyond an axis begins again at 0.
__device__ long long wrapped(long long index, long long rows) {
    if (0 <= index && index < rows) return index;
    index %= rows;
    return index < 0 ? index + rows : index;
}

// What is added where: `values` is (outer, count, length), `total` is (outer, rows, length), and a column is a pair of
// places on the first and on the last axis. A is what T is summed in.
template <typename T, typename A> struct Sums {
    const T* values;
    const long long* indices;
    T* total;
    long long count, rows, length, columns;

    long long block, column;
    bool has_column;

    // Choose the column of this thread; blocks that do the same for other columns are neighbours. A thread without a
    // column reads what the last one reads.
    __device__ void choose_column() {
        long long blocks = (columns + blockDim.x - 1) / blockDim.x;
        block = blockIdx.x / blocks;
        column = blockIdx.x % blocks * blockDim.x + threadIdx.x;
        has_column = column < columns;
        column = smaller(column, columns - 1);
        values += column / length * count * length + column % length;
        total += column / length * rows * length + column % length;
    }
    __device__ long long key(long long place) { return wrapped(indices[place], rows); }
    __device__ A value(long long place) { return A(values[place * length]); }
    __device__ A old(long long key) { return A(total[key * length]); }
    // The sum is rounded before `old` is added, as if it were an array of its own that is added later.
    __device__ void write(long long key, A old, A sum) { if (has_column) total[key * length] = T(old + A(T(sum))); }
};

// Without sorting: the block of an index that no earlier one is equal to adds all that are.
template <typename T, typename A> __device__ void add_few(Sums<T, A> sums, bool adds) {
    sums.choose_column();
    long long first = sums.block, key = sums.key(first);
    int lane = threadIdx.x % 32;
    bool is_repeated = false;
    for (long long start = lane; start < first; start += 32 * ROUNDS) {
        long long near[ROUNDS];
        FOR_ROUNDS near[round] = sums.indices[smaller(start + 32 * round, first - 1)];
        FOR_ROUNDS is_repeated |= wrapped(near[round], sums.rows) == key;
    }
    if (__any_sync(ALL_LANES, is_repeated)) return;
    A old = adds ? sums.old(key) : A(0), sum = 0;
    for (long long start = first; start < sums.count; start += 32 * ROUNDS) {
        long long near[ROUNDS];
        FOR_ROUNDS near[round] = sums.indices[smaller(start + 32 * round + lane, sums.count - 1)];
        FOR_ROUNDS {
            long long base = start + 32 * round;
            bool is_equal = base + lane < sums.count && wrapped(near[round], sums.rows) == key;
            unsigned found = __ballot_sync(ALL_LANES, is_equal);
            while (found) {
                int size = __popc(found), lane_of = 0;
                A some[BATCH];
                FOR_BATCH {
                    if (found) lane_of = __ffs(found) - 1;
                    found &= found - 1;
                    some[k] = sums.value(base + lane_of);
                }
                FOR_BATCH if (k < size) sum += some[k];
            }
        }
    }
    sums.write(key, old, sum);
}

// Pieces of `piece` places in the order of the sorted indices. A run of equal ones that lies in one piece is added
// there. Of one that is cut, the parts are kept: `heads` has what ends or goes on in a piece after it began before,
// `tails` what begins in the piece and goes on.
template <typename T, typename A> __device__ void add_pieces(
    Sums<T, A> sums, const long long* order, A* heads, A* tails, long long piece, bool adds) {
    sums.choose_column();
    long long first = sums.block * piece, last = smaller(first + piece, sums.count);
    long long key = sums.key(order[first]);
    bool is_head = first > 0 && sums.key(order[first - 1]) == key;
    A old = adds && !is_head ? sums.old(key) : A(0), sum = 0;
    heads += sums.block * sums.columns + sums.column;
    tails += sums.block * sums.columns + sums.column;
    for (long long start = first; start < last; start += BATCH) {
        long long places[BATCH], keys[BATCH];
        A some[BATCH], olds[BATCH];
        FOR_BATCH places[k] = order[smaller(start + k, last - 1)];
        FOR_BATCH keys[k] = sums.indices[places[k]];
        FOR_BATCH some[k] = sums.value(places[k]);
        FOR_BATCH keys[k] = wrapped(keys[k], sums.rows);
        FOR_BATCH olds[k] = adds && keys[k] != (k ? keys[k ? k - 1 : 0] : key) ? sums.old(keys[k]) : A(0);
        FOR_BATCH
            if (start + k < last) {
                if (keys[k] != key) {
                    if (!is_head) sums.write(key, old, sum);
                    else if (sums.has_column) *heads = sum;
                    is_head = false;
                    key = keys[k];
                    old = olds[k];
                    sum = 0;
                }
                sum += some[k];
            }
    }
    if (!is_head && (last == sums.count || sums.key(order[last]) != key)) sums.write(key, old, sum);
    else if (sums.has_column) *(is_head ? heads : tails) = sum;
}

// The block of the piece in which a run that is cut begins adds its parts.
template <typename T, typename A> __device__ void join_pieces(
    Sums<T, A> sums, const long long* order, const A* heads, const A* tails, long long piece, bool adds) {
    sums.choose_column();
    long long number = sums.block, first = number * piece, next = first + piece, last = (sums.count - 1) / piece;
    long long key = sums.key(order[next - 1]);
    if (sums.key(order[next]) != key || (first > 0 && sums.key(order[first - 1]) == key)) return;
    heads += sums.column;
    A old = adds ? sums.old(key) : A(0), sum = tails[number * sums.columns + sums.column];
    for (bool goes_on = true; goes_on; ) {
        long long places[BATCH], keys[BATCH];
        A some[BATCH];
        FOR_BATCH places[k] = order[smaller(number + 1 + k, last) * piece];
        FOR_BATCH keys[k] = sums.indices[places[k]];
        FOR_BATCH some[k] = heads[smaller(number + 1 + k, last) * sums.columns];
        FOR_BATCH {
            goes_on = goes_on && ++number <= last && wrapped(keys[k], sums.rows) == key;
            if (goes_on) sum += some[k];
        }
    }
    sums.write(key, old, sum);
}

// The indices as numbers of rows, in a type that is sorted sooner.
template <typename K> __device__ void index_keys(const long long* indices, K* keys, long long count, long long rows) {
    long long place = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (place < count) keys[place] = K(wrapped(indices[place], rows));
}

#define KERNEL extern "C" __global__ void
#define L long long
#define ARRAYS(T) const T* values, const L* indices, T* total
#define SIZES L count, L rows, L length, L columns
#define SUMS(T, A) Sums<T, A>{values, indices, total, count, rows, length, columns}
#define KERNELS(T, A, NAME) \\
    KERNEL add_few_##NAME(ARRAYS(T), SIZES, L adds) { add_few<T, A>(SUMS(T, A), adds); } \\
    KERNEL add_pieces_##NAME(ARRAYS(T), const L* order, A* heads, A* tails, SIZES, L piece, L adds) \\
        { add_pieces<T, A>(SUMS(T, A), order, heads, tails, piece, adds); } \\
    KERNEL join_pieces_##NAME(ARRAYS(T), const L* order, const A* heads, const A* tails, SIZES, L piece, L adds) \\
        { join_pieces<T, A>(SUMS(T, A), order, heads, tails, piece, adds); }
KERNELS(HALF, float, half)
KERNELS(float, float, float)
KERNELS(double, double, double)
KERNELS(unsigned int, unsigned int, int)
KERNELS(unsigned long long, unsigned long long, long)
#define KEYS(K, NAME) \\
    KERNEL index_keys_##NAME(const L* indices, K* keys, L count, L rows) { index_keys<K>(indices, keys, count, rows); }
KEYS(unsigned short, short)
KEYS(unsigned int, int)
KEYS(long long, long)
"""

#: By the character of a dtype: the name of its kernels, the dtype that it is summed in, and the numbers of an element.
_KINDS = {
    "e": ("half", "f", 1),
    "f": ("float", "f", 1),
    "d": ("double", "d", 1),
    "F": ("float", "f", 2),
    "D": ("double", "d", 2),
    **{char: ("int" if np.dtype(char).itemsize == 4 else "long", char, 1) for char in "iIlLqQ"},
}


def index_sum_functions(
    cupy: Any, macros: str = _MACROS, launched: list[int] | None = None
) -> dict[Any, Callable[..., Any]]:
    """Return the function by the name that asyncgrad's sums at indices look it up by.

    Args:
        cupy: the module.
        macros: what the compiler needs before the source.
        launched: where launches are counted.
    """
    return {"add_rows_at": _IndexSums(cupy, macros, launched).add}


def piece_for(count: int) -> int:
    """Return how many of so many sorted indices are added by one thread: about half of the square root."""
    return 1 << max(5, (count.bit_length() + 1) // 2 - 1)


def _threads_for(columns: int) -> int:
    """Return how many threads a block has, each with a column."""
    return 32 if columns <= 32 else 64 if columns <= 64 else 128 if columns <= 512 else 256


def _key_of(rows: int) -> tuple[str, str]:
    """Return the name of the kernel of keys of so many rows, and the character of their dtype."""
    return ("short", "H") if rows <= 1 << 16 else ("int", "I") if rows <= 1 << 32 else ("long", "q")


@final
class _IndexSums:
    """The kernels, which are compiled when the first of them is needed.

    Args:
        cupy: the module.
        macros: what the compiler needs before the source.
        launched: where launches are counted.
    """

    def __init__(self, cupy: Any, macros: str, launched: list[int] | None) -> None:
        self._ndarray = cupy.ndarray
        self._make = array_maker(cupy)
        self._launch = KernelModule(cupy, macros + _SOURCE, launched).launch

    def add(self, total: Any, indices: Any, values: Any, outer: int, rows: int, is_zero: bool) -> Any:
        """Add rows at indices to an array, and return this; None for other arrays.

        Args:
            total: shape (outer, rows, ...), its axes possibly divided or merged; in C order.
            indices: integers; one beyond the rows begins again at 0.
            values: shape (outer, *indices.shape, ...), of the dtype of `total`.
            outer: the number of blocks, in each of which the same rows are added to.
            rows: the number of rows.
            is_zero: whether `total` has only zeros yet.
        """
        kind = _KINDS.get(total.dtype.char)
        count = indices.size
        if (
            kind is None
            or type(total) is not self._ndarray
            or type(values) is not self._ndarray
            or type(indices) is not self._ndarray
            or values.dtype != total.dtype
            or not total._c_contiguous
            or not count * total.size
        ):
            return None
        if indices.dtype != _INT64:
            indices = indices.astype("q")
        indices, values = contiguous(indices), contiguous(values)
        name, partial, numbers = kind
        length = total.size // (outer * rows) * numbers
        columns = outer * length
        threads = _threads_for(columns)
        blocks = (columns + threads - 1) // threads
        arrays, sizes = (values, indices, total), (count, rows, length, columns)
        if count <= FEW and count * count * ((columns + 31) // 32) <= _MOST_COMPARED:
            self._launch(("add_few", name), count * blocks * threads, threads, arrays, (*sizes, int(not is_zero)))
        else:
            self._add_many(name, blocks, threads, arrays, sizes, partial, is_zero)
        return total

    def _add_many(
        self, name: str, blocks: int, threads: int, arrays: tuple[Any, ...], sizes: Any, partial: str, is_zero: bool
    ) -> None:
        """Add rows at indices of which there are so many that they are sorted first."""
        _, indices, _ = arrays
        count, rows, _, columns = sizes
        key_name, char = _key_of(rows)
        keys = self._make((count,), char)
        threads_of_keys = (count + _THREADS - 1) // _THREADS * _THREADS
        self._launch(("index_keys", key_name), threads_of_keys, _THREADS, (indices, keys), (count, rows))
        # CuPy sorts on the current stream, and the host does not wait.
        order = keys.argsort(-1, "stable")
        piece = piece_for(count)
        pieces = (count + piece - 1) // piece
        heads, tails = self._make((pieces, columns), partial), self._make((pieces, columns), partial)
        arrays, numbers = (*arrays, order, heads, tails), (*sizes, piece, int(not is_zero))
        self._launch(("add_pieces", name), pieces * blocks * threads, threads, arrays, numbers)
        if pieces > 1:
            self._launch(("join_pieces", name), (pieces - 1) * blocks * threads, threads, arrays, numbers)
