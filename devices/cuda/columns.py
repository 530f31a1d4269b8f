"""Sums over the rows of a matrix on a GPU, with a block of threads for some of its columns."""

from __future__ import annotations

__all__ = ["COLUMNS_SOURCE", "columns_and_threads"]

#: The columns of a block, and how many there are where so many would give too few blocks for the multiprocessors of a
#: large GPU. Eight numbers of float32 are what its memory reads at once.
_COLUMNS, _FEW_COLUMNS, _BLOCKS = 32, 8, 132
#: The threads of a block, and those for this many rows or more.
_THREADS, _MANY_THREADS, _MANY_ROWS = 256, 1024, 256

COLUMNS_SOURCE = """
// Calls finish(column, total) with the sum of term(row, column) over all rows. A block has 8, 16 or 32 columns: its
// threads add up a part of a column each, its warps what their threads have, and the first of them what the warps have.
template <typename T, typename Term, typename Finish> __device__ void sum_columns(
    long long rows, long long width, int columns, Term term, Finish finish) {
    __shared__ T partial[32][33];
    int place = threadIdx.x % columns, first = threadIdx.x / columns, at_once = blockDim.x / columns;
    long long column = blockIdx.x * (long long)columns + place;
    T total = 0;
    // With the number of turns known before, the compiler has several reads under way at a time.
    long long turns = column < width ? (rows - first + at_once - 1) / at_once : 0;
    #pragma unroll 4
    for (long long turn = 0; turn < turns; turn++) total += term(first + turn * at_once, column);
    for (int step = 16; step >= columns; step >>= 1) total += __shfl_down_sync(0xffffffffu, total, step);
    partial[threadIdx.x / 32][threadIdx.x % 32] = total;
    __syncthreads();
    if (first == 0 && column < width) {
        for (int warp = 1; warp < blockDim.x / 32; warp++) total += partial[warp][place];
        finish(column, total);
    }
}
"""


def columns_and_threads(rows: int, width: int, matrices: int = 1) -> tuple[int, int]:
    """Return how many columns and threads a block has for some matrices of one shape."""
    columns = _COLUMNS if width * matrices >= _COLUMNS * _BLOCKS else _FEW_COLUMNS
    # With few blocks, what counts is how many reads each has under way.
    return columns, _MANY_THREADS if rows >= _MANY_ROWS else _THREADS
