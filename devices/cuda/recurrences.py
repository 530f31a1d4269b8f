"""Recurrent networks over whole sequences on a GPU: each step is one product by cuBLAS, and one kernel for the rest.

The product of the hidden state with its weights is added to that of the input where that lies, and the kernel does all
elementwise work of the step. So does the backward: the kernel computes the gradients of the sums, and the product of
these with the weights is added to the gradient of the hidden state before, where the gradient of the result lies.

The arrays of all steps are of shape (length, n, ...). Arrays of states have one entry more, the initial state first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from .arrays import array_checker, array_maker, contiguous, number_maker
from .library import Routines
from .modules import TYPES, KernelModule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["recurrence_functions"]

_THREADS = 256
#: Kernels count the elements of one step in int.
_MOST_ELEMENTS = 1 << 30
#: By the name of a cell, how many gates it has.
_GATES = {"tanh": 1, "relu": 1, "gru": 3, "lstm": 4}

_SOURCE = """
template <typename T> __device__ T sigmoid(T x) { return T(1) / (T(1) + exp(-x)); }

// Each element of the hidden state of one step, and where its first gate is.
#define EACH(gates) \\
    for (int k = blockIdx.x * blockDim.x + threadIdx.x, at; \\
         k < (int)count && (at = k + k / (int)features * (gates - 1) * (int)features, true); \\
         k += gridDim.x * blockDim.x)

template <typename T> __device__ void tanh_(const T* sums, T* out, long long count, long long features) {
    EACH(1) out[k] = tanh(sums[at]);
}

template <typename T> __device__ void relu_(const T* sums, T* out, long long count, long long features) {
    EACH(1) out[k] = sums[at] > 0 || sums[at] != sums[at] ? sums[at] : T(0);
}

template <typename T> __device__ void tanh_grad(
    const T* out, const T* grad, T* to_sums, long long count, long long features) {
    EACH(1) to_sums[at] = grad[k] * (1 - out[k] * out[k]);
}

template <typename T> __device__ void relu_grad(
    const T* out, const T* grad, T* to_sums, long long count, long long features) {
    EACH(1) to_sums[at] = out[k] > 0 ? grad[k] : T(0);
}

// The gates replace their sums; `fresh` keeps the hidden part of the sum of the candidate.
template <typename T> __device__ void gru(
    T* sums, const T* products, const T* bias, const T* h, T* fresh, T* out, long long count, long long features) {
    EACH(3) {
        T* gates = sums + at;
        const T* parts = products + at;
        int place = k % (int)features, width = (int)features;
        T to_r = parts[0], to_z = parts[width], to_n = parts[2 * width];
        if (bias) { to_r += bias[place]; to_z += bias[place + width]; to_n += bias[place + 2 * width]; }
        T r = sigmoid(gates[0] + to_r), z = sigmoid(gates[width] + to_z), n = tanh(gates[2 * width] + r * to_n);
        gates[0] = r; gates[width] = z; gates[2 * width] = n;
        fresh[k] = to_n;
        out[k] = n + z * (h[k] - n);
    }
}

template <typename T> __device__ void gru_grad(
    const T* acts, const T* fresh, const T* h, const T* grad, T* to_h, T* to_sums, T* to_products, long long count,
    long long features) {
    EACH(3) {
        int width = (int)features;
        T r = acts[at], z = acts[at + width], n = acts[at + 2 * width];
        T to_n = grad[k] * (1 - z) * (1 - n * n), to_r = to_n * fresh[k] * r * (1 - r);
        T to_z = grad[k] * (h[k] - n) * z * (1 - z);
        to_sums[at] = to_r; to_sums[at + width] = to_z; to_sums[at + 2 * width] = to_n;
        to_products[at] = to_r; to_products[at + width] = to_z; to_products[at + 2 * width] = to_n * r;
        to_h[k] += grad[k] * z;
    }
}

// The gates replace their sums.
template <typename T> __device__ void lstm(
    T* sums, const T* before, T* cells, T* out, long long count, long long features) {
    EACH(4) {
        T* gates = sums + at;
        int width = (int)features;
        T i = sigmoid(gates[0]), f = sigmoid(gates[width]), g = tanh(gates[2 * width]), o = sigmoid(gates[3 * width]);
        T cell = f * before[k] + i * g;
        gates[0] = i; gates[width] = f; gates[2 * width] = g; gates[3 * width] = o;
        cells[k] = cell;
        out[k] = o * tanh(cell);
    }
}

// The gradient of the cells before replaces that of the cells after.
template <typename T> __device__ void lstm_grad(
    const T* acts, const T* before, const T* cells, const T* grad, T* to_cells, T* to_sums, long long count,
    long long features) {
    EACH(4) {
        int width = (int)features;
        T i = acts[at], f = acts[at + width], g = acts[at + 2 * width], o = acts[at + 3 * width];
        T flat = tanh(cells[k]), to_cell = to_cells[k] + grad[k] * o * (1 - flat * flat);
        to_sums[at] = to_cell * g * i * (1 - i);
        to_sums[at + width] = to_cell * before[k] * f * (1 - f);
        to_sums[at + 2 * width] = to_cell * i * (1 - g * g);
        to_sums[at + 3 * width] = grad[k] * flat * o * (1 - o);
        to_cells[k] = to_cell * f;
    }
}

#define KERNELS(T) \\
    extern "C" __global__ void tanh_##T(const T* s, T* o, long long n, long long f) { tanh_<T>(s, o, n, f); } \\
    extern "C" __global__ void relu_##T(const T* s, T* o, long long n, long long f) { relu_<T>(s, o, n, f); } \\
    extern "C" __global__ void tanh_grad_##T(const T* o, const T* g, T* s, long long n, long long f) \\
        { tanh_grad<T>(o, g, s, n, f); } \\
    extern "C" __global__ void relu_grad_##T(const T* o, const T* g, T* s, long long n, long long f) \\
        { relu_grad<T>(o, g, s, n, f); } \\
    extern "C" __global__ void gru_##T( \\
        T* s, const T* p, const T* b, const T* h, T* k, T* o, long long n, long long f) \\
        { gru<T>(s, p, b, h, k, o, n, f); } \\
    extern "C" __global__ void gru_grad_##T( \\
        const T* a, const T* k, const T* h, const T* g, T* t, T* s, T* p, long long n, long long f) \\
        { gru_grad<T>(a, k, h, g, t, s, p, n, f); } \\
    extern "C" __global__ void lstm_##T(T* s, const T* b, T* c, T* o, long long n, long long f) \\
        { lstm<T>(s, b, c, o, n, f); } \\
    extern "C" __global__ void lstm_grad_##T( \\
        const T* a, const T* b, const T* c, const T* g, T* t, T* s, long long n, long long f) \\
        { lstm_grad<T>(a, b, c, g, t, s, n, f); }
KERNELS(float)
KERNELS(double)
"""


def recurrence_functions(
    cupy: Any, macros: str = "", launched: list[int] | None = None
) -> dict[Any, Callable[..., Any]]:
    """Return the function that finds a recurrence, by its name.

    Args:
        cupy: the module.
        macros: what the compiler needs before the source.
        launched: where launches are counted, and calls of cuBLAS.
    """
    return {"recurrence": _Kernels(cupy, macros, [0] if launched is None else launched).find}


@final
class _Kernels:
    """The kernels of all cells.

    Args:
        cupy: the module.
        macros: what the compiler needs before the source.
        launched: where launches are counted, and calls of cuBLAS.
    """

    def __init__(self, cupy: Any, macros: str, launched: list[int]) -> None:
        self.launched = launched
        self._fit = array_checker(cupy, in_order=False)
        self.make, self.number = array_maker(cupy), number_maker(cupy)
        self.routines = Routines(cupy, launched)
        self._module = KernelModule(cupy, macros + _SOURCE)

    def find(self, x: Any, cell: str, weights: Any, state: Sequence[Any]) -> _Recurrence | None:
        """Return what runs a cell over an input; None for what is left to the functions of CuPy.

        Args:
            x: shape (length, n, inputs).
            cell: "tanh", "relu", "gru" or "lstm".
            weights: of the hidden state, its bias and the projection, the last two of which may be None.
            state: the initial one.
        """
        if not self._fit(x, *weights, *state):
            return None
        rows, n, dtype = weights[0].shape[0], x.shape[1], x.dtype
        if n * rows > _MOST_ELEMENTS:
            return None
        return _Recurrence(self, cell, n, rows // _GATES[cell], state[0].shape[1], dtype)

    def launcher(self, name: str, array: Any) -> Callable[..., Any]:
        """Return what launches a kernel for the dtype of an array on the current GPU."""
        return self._module.launcher(name, TYPES[array.dtype.char])


@final
class _Recurrence:
    """One recurrence: steps of one cell for n sequences.

    Args:
        kernels: the kernels.
        cell: the name of the cell.
        n: the number of sequences.
        features: the size of each gate.
        size: the size of the hidden state, which is that of a gate unless it is projected.
        dtype: of all arrays.
    """

    def __init__(self, kernels: _Kernels, cell: str, n: int, features: int, size: int, dtype: Any) -> None:
        self._kernels = kernels
        self._cell = cell
        self._n, self._features, self._size, self._dtype = n, features, size, dtype
        self._gates = _GATES[cell]

    # How far apart the steps are in the arrays, in bytes.

    @property
    def _strides(self) -> tuple[int, int, int]:
        """Of hidden states, of the elements of one gate, and of those of all gates."""
        one = self._n * self._dtype.itemsize
        return one * self._size, one * self._features, one * self._features * self._gates

    def _products(self) -> tuple[Callable[..., None], Callable[..., None]]:
        """Return functions that multiply n rows by a matrix: by its transpose, and as it is.

        They take the addresses of the rows and the result, the matrix, and whether the product is added to what is
        there.
        """
        kernels, n = self._kernels, self._n
        gemm, one, zero = kernels.routines.gemm[self._dtype.char]
        handle, launched = kernels.routines.handle(), kernels.launched

        def product(is_transposed: bool) -> Callable[[int, Any, int, bool], None]:
            def multiply(rows: int, matrix: Any, out: int, adds: bool) -> None:
                height, width = matrix.shape
                length, columns = (width, height) if is_transposed else (height, width)
                launched[0] += 1
                # A matrix in C order is to cuBLAS, which counts columns first, its transpose.
                gemm(
                    handle, is_transposed, False, columns, n, length,
                    one, matrix.data.ptr, width, rows, length, one if adds else zero, out, columns,
                )  # fmt: skip

            return multiply

        return product(True), product(False)

    def _launcher(self, name: str, array: Any) -> Callable[..., Any]:
        """Return a function that launches a kernel for one step; it takes the addresses of arrays."""
        launch, launched = self._kernels.launcher(name, array), self._kernels.launched
        count = self._n * self._features
        numbers = self._kernels.number(count), self._kernels.number(self._features)

        def step(*arrays: int) -> None:
            launched[0] += 1
            launch(count, (*arrays, *numbers), 0, _THREADS)

        return step

    def _empty(self, length: int, width: int) -> Any:
        return self._kernels.make((length, self._n, width), self._dtype)

    def _begun(self, length: int, first: Any) -> Any:
        """Return an array for the states of all steps, with the initial one."""
        states = self._empty(length + 1, first.shape[1])
        states[0] = first
        return states

    # Forward.

    def run(self, sums: Any, weights: Sequence[Any], state: Sequence[Any]) -> tuple[Any, Any, tuple[Any, ...]]:
        """Run all steps.

        Args:
            sums: the products of the inputs with their weights, plus a bias, of all steps; it is written into.
            weights: of the hidden state, its bias and the projection, as in `find`; only a GRU has the bias.
            state: the initial one.

        Returns:
            The hidden states, the initial one first; the rest of the last state, a tuple; and what `run_back` needs.
        """
        weight, bias, projection = map(contiguous, weights)
        states = self._begun(len(sums), state[0])
        if self._cell == "lstm":
            return self._run_lstm(sums, weight, projection, states, state[1])
        if self._cell == "gru":
            return self._run_gru(sums, weight, bias, states)
        onto, _ = self._products()
        step, (to_state, _, to_sums) = self._launcher(self._cell, sums), self._strides
        at, h = sums.data.ptr, states.data.ptr
        for _ in range(len(sums)):
            onto(h, weight, at, True)
            h += to_state
            step(at, h)
            at += to_sums
        return states, (), ()

    def _run_gru(self, sums: Any, weight: Any, bias: Any, states: Any) -> tuple[Any, Any, tuple[Any, ...]]:
        onto, _ = self._products()
        step, (to_state, to_gate, to_sums) = self._launcher("gru", sums), self._strides
        fresh, product = self._empty(len(sums), self._features), self._empty(1, 3 * self._features)
        at, h, kept, parts = sums.data.ptr, states.data.ptr, fresh.data.ptr, product.data.ptr
        added = 0 if bias is None else bias.data.ptr
        for _ in range(len(sums)):
            onto(h, weight, parts, False)
            step(at, parts, added, h, kept, h + to_state)
            at, h, kept = at + to_sums, h + to_state, kept + to_gate
        return states, (), (sums, fresh)

    def _run_lstm(
        self, sums: Any, weight: Any, projection: Any, states: Any, first: Any
    ) -> tuple[Any, Any, tuple[Any, ...]]:
        onto, _ = self._products()
        step, (to_state, to_gate, to_sums) = self._launcher("lstm", sums), self._strides
        cells = self._begun(len(sums), first)
        raws = None if projection is None else self._empty(len(sums), self._features)
        at, h, c = sums.data.ptr, states.data.ptr, cells.data.ptr
        raw = 0 if raws is None else raws.data.ptr
        for _ in range(len(sums)):
            onto(h, weight, at, True)
            h += to_state
            step(at, c, c + to_gate, raw or h)
            if raw:
                onto(raw, projection, h, False)
                raw += to_gate
            at, c = at + to_sums, c + to_gate
        return states, (cells[-1].copy(),), (sums, cells) if raws is None else (sums, cells, raws)

    # Backward.

    def run_back(
        self, states: Any, kept: Sequence[Any], weights: Sequence[Any], given: Any, to_rest: Sequence[Any]
    ) -> tuple[Any, Any, Any, tuple[Any, ...]]:
        """Go back through all steps.

        Args:
            states: the hidden states, the initial one first.
            kept: what `run` returned.
            weights: as in `run`.
            given: the gradient of the hidden states but the initial one; None for zeros.
            to_rest: that of the rest of the last state; None for zeros.

        Returns:
            The gradients of the sums, of the hidden products, of the hidden states after their projection, the initial
            one first, and of the rest of the initial state.
        """
        weight, _, projection = map(contiguous, weights)
        length = len(states) - 1
        to_states = self._empty(length + 1, self._size)
        if given is None:
            to_states.fill(0)
        else:
            to_states[0] = 0
            to_states[1:] = given
        every = self._empty(length, self._gates * self._features)
        if self._cell == "lstm":
            to_cells = self._back_lstm(kept, weight, projection, to_states, every, to_rest[0])
            return every, every, to_states, (to_cells,)
        if self._cell == "gru":
            return self._back_gru(states, kept, weight, to_states, every), every, to_states, ()
        _, back = self._products()
        step, (to_state, _, to_sums) = self._launcher(f"{self._cell}_grad", states), self._strides
        h, grad, at = (one.data.ptr for one in (states, to_states, every))
        for t in reversed(range(length)):
            step(h + (t + 1) * to_state, grad + (t + 1) * to_state, at + t * to_sums)
            back(at + t * to_sums, weight, grad + t * to_state, True)
        return every, every, to_states, ()

    def _back_gru(self, states: Any, kept: Sequence[Any], weight: Any, to_states: Any, every: Any) -> Any:
        """Go back, fill `to_states` and `every`, and return the gradients of the sums."""
        acts, fresh = kept
        entered = self._empty(len(fresh), 3 * self._features)
        _, back = self._products()
        step, (to_state, to_gate, to_sums) = self._launcher("gru_grad", acts), self._strides
        gates, part, h, grad, at, sums = (one.data.ptr for one in (acts, fresh, states, to_states, every, entered))
        for t in reversed(range(len(fresh))):
            before = t * to_state
            step(
                gates + t * to_sums, part + t * to_gate, h + before, grad + before + to_state, grad + before,
                sums + t * to_sums, at + t * to_sums,
            )  # fmt: skip
            back(at + t * to_sums, weight, grad + before, True)
        return entered

    def _back_lstm(
        self, kept: Sequence[Any], weight: Any, projection: Any, to_states: Any, every: Any, to_last: Any
    ) -> Any:
        """Go back, fill `to_states` and `every`, and return the gradient of the first cells."""
        acts, cells = kept[:2]
        _, back = self._products()
        step, (to_state, to_gate, to_sums) = self._launcher("lstm_grad", acts), self._strides
        to_cells = self._kernels.make((self._n, self._features), self._dtype)
        if to_last is None:
            to_cells.fill(0)
        else:
            to_cells[...] = to_last
        raws = None if projection is None else self._empty(1, self._features)
        raw = 0 if raws is None else raws.data.ptr
        gates, c, grad, to_cell, at = (one.data.ptr for one in (acts, cells, to_states, to_cells, every))
        for t in reversed(range(len(acts))):
            before, here = c + t * to_gate, grad + (t + 1) * to_state
            if raw:
                back(here, projection, raw, False)
            step(gates + t * to_sums, before, before + to_gate, raw or here, to_cell, at + t * to_sums)
            back(at + t * to_sums, weight, grad + t * to_state, True)
        return to_cells
