"""Systems of sparse matrices: their solutions have the derivatives that the equations imply."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from ....core.arrays.values import raw
from ....core.engine.completion import warn
from ....core.recording.primitive import derivative, primitive
from ....core.tensor import Tensor, asarray
from ....errors import ArgumentTypeError
from ...arguments import floating
from ..arrays import SparseArray, csr_array
from ..pattern import Pattern, sample_product
from .operators import solve_operator

if TYPE_CHECKING:
    from ....core.arrays.array import Array
    from ....core.arrays.array_like import TensorLike


__all__ = ["Factors", "bicgstab", "cg", "factorized", "gmres", "minres", "splu", "spsolve", "with_all_elements"]


@final
class Solver:
    """How the systems of one matrix, and of its transpose, are solved: by factors, which are kept, or iterations."""

    __slots__ = ("_factors", "_iterate", "_order", "_pattern")

    def __init__(self, pattern: Pattern, iterate: Callable[..., Any] | None, order: str | None = None) -> None:
        self._pattern, self._iterate, self._order = pattern, iterate, order
        self._factors: Any = None

    def factor(self, data: Array) -> None:
        """Find the factors of the matrix of the elements `data`; raise RuntimeError if it is exactly singular."""
        self._factors = linalg.splu(self._pattern.matrix(data).tocsc(), self._order)

    def solve(self, data: Array, b: Array, transposed: bool) -> Any:
        """Return the solution of the system of the elements `data`, which are the same in each call."""
        if self._iterate is not None:
            matrix = (self._pattern.transpose() if transposed else self._pattern).matrix(data)
            iterate = self._iterate
            if b.ndim == 1:
                return iterate(matrix, b, transposed).astype(np.result_type(data, b), copy=False)
            return np.stack([iterate(matrix, column, transposed) for column in b.T], -1)
        kind = np.result_type(data, b)
        if self._factors is None:
            try:
                self.factor(data)
            except RuntimeError:
                warn("scipy.sparse.linalg.spsolve: the matrix is exactly singular", linalg.MatrixRankWarning)
                return np.full(b.shape, np.nan, kind)
        if kind.kind == "c" and data.dtype.kind != "c":
            parts = [self.solve(data, np.ascontiguousarray(part), transposed) for part in (b.real, b.imag)]
            return parts[0] + 1j * parts[1]
        return self._factors.solve(np.ascontiguousarray(b, kind), "T" if transposed else "N")


@primitive(superlinear=True)
def sparse_solution(data: Any, b: Any, pattern: Any, solver: Any, transposed: bool) -> Any:
    """Return x with `A @ x == b`, for the sparse matrix A of the pattern; of the transpose if `transposed`."""
    return solver.solve(data, b, transposed)


@derivative(sparse_solution, "data")
def _(g: Array, data: Array, out: Array, pattern: Any, solver: Any, transposed: bool) -> Array:
    adjoint = _solution(data, g, pattern, solver, not transposed)
    return -(sample_product.call(out, adjoint, pattern) if transposed else sample_product.call(adjoint, out, pattern))


@derivative(sparse_solution, "b")
def _(g: Array, data: Any, pattern: Any, solver: Any, transposed: bool) -> Array:
    return _solution(data, g, pattern, solver, not transposed)


_solution = sparse_solution.call


def with_all_elements(matrix: Any) -> SparseArray:
    """Return a dense matrix as a sparse array whose pattern has all places: each element has a gradient, zeros too."""
    height, width = matrix.shape
    pattern = Pattern(np.tile(np.arange(width), height), np.arange(height + 1) * width, (height, width))
    return SparseArray(np.reshape(matrix, -1), pattern)


def _system(name: str, a: Any, b: Any) -> tuple[SparseArray, Any]:
    if not isinstance(a, SparseArray) and sparse.issparse(a):
        a = csr_array(a)
    elif not isinstance(a, SparseArray):
        dense = floating(a)
        if dense.ndim != 2:
            raise ValueError(f"scipy.sparse.linalg.{name} takes a square matrix, not shape {dense.shape}")
        a = with_all_elements(dense)
    b = floating(b)
    if a.is_vector or a.shape[0] != a.shape[1] or b.ndim not in (1, 2) or b.shape[0] != a.shape[0]:
        raise ValueError(
            f"scipy.sparse.linalg.{name} takes a square matrix and a vector or matrix with as many rows, not shapes "
            f"{a.shape} and {b.shape}"
        )
    # SuperLU solves in the precision of the factors.
    precision = np.finfo(np.result_type(a.dtype, b.dtype)).dtype
    data = _with_precision(a.data, precision)
    return SparseArray(data, a.pattern), _with_precision(b, precision)


def _with_precision(value: Array, precision: Any) -> Any:
    kind = np.result_type(precision, np.complex64) if value.dtype.kind == "c" else precision
    return value if value.dtype == kind else value.astype(kind)


def spsolve(A: Any, b: Any, permc_spec: str | None = None, use_umfpack: bool = True) -> Any:
    """Return x with `A @ x == b`; the matrix is factored once, for the gradients, too.

    Args:
        A: a sparse array of asyncgrad.scipy.sparse, or SciPy's; or a dense matrix.
        b: a vector or matrix; as for SciPy, one column is a vector, and the solution of a sparse matrix is sparse.
        permc_spec: as SciPy's, the order of columns by which SuperLU factors.
        use_umfpack: has no effect: SuperLU factors.

    Raises:
        ValueError: the shapes do not fit.
        RuntimeError: the matrix is singular, and `b` is a sparse matrix.

    Warns:
        MatrixRankWarning: the matrix is singular, and `b` is dense or one column; the solution is NaN, as SciPy's.

    Example:
        >>> from asyncgrad.scipy import sparse
        >>> spsolve(sparse.diags_array([2.0, 4.0]), [2.0, 2.0]).tolist()
        [1.0, 0.5]
    """
    is_sparse = isinstance(b, SparseArray) or sparse.issparse(b)
    a, b = _system("spsolve", A, b.toarray() if is_sparse else b)
    if b.ndim == 2 and b.shape[1] == 1:
        b = b[:, 0]
    solver = Solver(a.pattern, None, permc_spec)
    if is_sparse and b.ndim == 2:
        # As for SciPy a singular matrix is an error here, and no warning.
        solver.factor(raw(a.data))
    result: Tensor = _solution(a.data, b, a.pattern, solver, False)
    # An element of the solution that happens to be 0 has a gradient.
    return with_all_elements(result) if is_sparse and result.ndim == 2 else result


@final
class Factors:
    """A matrix that has been factored, for systems of several right-hand sides, as SciPy's SuperLU.

    Attributes:
        shape: that of the matrix.
    """

    __slots__ = ("_matrix", "_solver", "shape")

    def __init__(self, matrix: SparseArray, solver: Solver) -> None:
        self._matrix: SparseArray = matrix
        self._solver: Solver = solver
        self.shape: tuple[int, ...] = matrix.shape

    def solve(self, rhs: TensorLike, trans: str = "N") -> Tensor:
        """Return x with `A @ x == rhs`; with the transpose of A for `trans` "T", the conjugate transpose for "H".

        Args:
            rhs: a vector or a matrix.
            trans: "N", "T" or "H".

        Raises:
            ValueError: `trans` is something else, or the shapes do not fit.
        """
        if trans not in ("N", "T", "H"):
            raise ValueError(f"scipy.sparse.linalg.splu().solve takes trans 'N', 'T' or 'H', not {trans!r}")
        matrix, right = _system("splu().solve", self._matrix, rhs)
        right = np.conjugate(right) if trans == "H" else right
        # The factors are those of the elements in the precision of the matrix.
        found = _solution(self._matrix.data, right, matrix.pattern, self._solver, trans != "N")
        return asarray(np.conjugate(found) if trans == "H" else found)


def splu(
    A: Any,
    permc_spec: str | None = None,
    diag_pivot_thresh: float | None = None,
    relax: int | None = None,
    panel_size: int | None = None,
    options: object = None,
) -> Factors:
    """Return the factored matrix, whose `solve` is differentiable by the elements and the right-hand side.

    Args:
        A: a square matrix: a sparse array of asyncgrad.scipy.sparse, SciPy's, or a dense one.
        permc_spec: as SciPy's, the order of columns by which SuperLU factors.
        diag_pivot_thresh: has no effect, and neither have the others.
        relax: has no effect.
        panel_size: has no effect.
        options: has no effect.

    Raises:
        ValueError: the matrix is not square.
        RuntimeError: it is exactly singular.

    Source: scipy.sparse.linalg.splu.

    Example:
        >>> from asyncgrad.scipy import sparse
        >>> factors = splu(sparse.diags_array([2.0, 4.0]))
        >>> factors.solve([2.0, 2.0]).tolist(), factors.solve([4.0, 4.0]).tolist()
        ([1.0, 0.5], [2.0, 1.0])
    """
    shape = np.shape(raw(A)) if not isinstance(A, SparseArray) else A.shape
    matrix, _ = _system("splu", A, np.zeros(shape[:1], "f"))
    solver = Solver(matrix.pattern, None, permc_spec)
    solver.factor(raw(matrix.data))
    return Factors(matrix, solver)


def factorized(A: Any) -> Callable[[TensorLike], Tensor]:
    """Return the function that solves the systems of a matrix, which is factored once; see `splu`.

    Source: scipy.sparse.linalg.factorized.

    Example:
        >>> from asyncgrad.scipy import sparse
        >>> factorized(sparse.diags_array([2.0, 4.0]))([2.0, 2.0]).tolist()
        [1.0, 0.5]
    """
    return splu(A).solve


def _iterative(name: str, A: Any, b: Any, x0: Any, M: Any, args: Any, options: dict[str, Any]) -> Any:
    callback = {"callback": options.pop("callback"), **({} if name != "gmres" else _callback_type(options))}

    known = M.toscipy() if isinstance(M, SparseArray) else raw(M)

    def iterate(matrix: Any, column: Any, turned: str, is_first: bool) -> tuple[Any, int]:
        conditioner = getattr(linalg.aslinearoperator(known), turned) if known is not None and turned else known
        # Of the systems of gradients no guess is known, and the callback is not told of them.
        guess, told = (x0, callback) if is_first else (None, {})
        found, code = getattr(linalg, name)(matrix, column, x0=_values(guess), M=conditioner, **options, **told)
        if code and not is_first:
            raise RuntimeError(
                f"scipy.sparse.linalg.{name} has not converged for the gradient after {code} iterations: raise "
                "maxiter or rtol, or pass a preconditioner M"
            )
        return found, code

    if isinstance(A, linalg.LinearOperator) or (callable(A) and not sparse.issparse(A)):
        return solve_operator(A, b, args, name, iterate)
    if args != ():
        raise ArgumentTypeError(f"scipy.sparse.linalg.{name} takes args where A is a function of a vector and of args")
    a, b = _system(name, A, b)
    if b.ndim != 1:
        raise ValueError(f"scipy.sparse.linalg.{name} takes a vector b, not shape {b.shape}: write spsolve")
    codes: list[int] = []

    def solve(matrix: Any, column: Any, transposed: bool) -> Any:
        found, code = iterate(matrix, column, "T" if transposed else "", not codes)
        codes.append(code)
        return found

    result: Tensor = _solution(a.data, b, a.pattern, Solver(a.pattern, solve), False)
    return result, codes[0]


def _callback_type(options: dict[str, Any]) -> dict[str, Any]:
    kind = options.pop("callback_type")
    return {} if kind is None else {"callback_type": kind}


def _values(guess: Any) -> Any:
    return None if guess is None else np.asarray(raw(guess))


def cg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[..., Any] | None = None,
    args: Any = (),
) -> Any:
    """Return x with `A @ x == b`, found by conjugate gradients, and SciPy's code; the matrix is positive definite.

    The gradients are those of the exact solution, and are found by the same method, with the same tolerances.

    Args:
        A: a sparse array of asyncgrad.scipy.sparse, or SciPy's; a dense matrix; SciPy's LinearOperator; or a function
            of a vector and `args` that returns the product. If it is an `async def`, the result is to be awaited.
        b: a vector.
        x0: where to start, a constant.
        rtol: the norm of the residual relative to that of `b`.
        atol: the norm of the residual.
        maxiter: the limit of iterations.
        M: a preconditioner, a constant.
        callback: as SciPy's; it is not told of the iterations for gradients.
        args: trees of anything, for a function. The tensors that gradients are to flow to are leaves of it.

    Example:
        >>> import asyncgrad as ag
        >>> scale = ag.tensor([2.0, 4.0], requires_grad=True)
        >>> x, code = cg(lambda x, scale: scale * x, [2.0, 2.0], args=(scale,))
        >>> ag.sync.backward(x.sum())
        >>> x.detach().numpy().round(6).tolist(), scale.grad.numpy().round(6).tolist()
        ([1.0, 0.5], [-0.5, -0.125])
    """
    options = {"rtol": raw(rtol), "atol": raw(atol), "maxiter": maxiter, "callback": callback}
    return _iterative("cg", A, b, x0, M, args, options)


def bicgstab(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[..., Any] | None = None,
    args: Any = (),
) -> Any:
    """Return x with `A @ x == b`, found by the stabilised biconjugate gradient method, and SciPy's code: see `cg`."""
    options = {"rtol": raw(rtol), "atol": raw(atol), "maxiter": maxiter, "callback": callback}
    return _iterative("bicgstab", A, b, x0, M, args, options)


def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    restart: int | None = None,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[..., Any] | None = None,
    callback_type: str | None = None,
    args: Any = (),
) -> Any:
    """Return x with `A @ x == b`, found by the generalised minimal residual method, and SciPy's code: see `cg`."""
    options = {"rtol": raw(rtol), "atol": raw(atol), "restart": restart, "maxiter": maxiter, "callback": callback}
    return _iterative("gmres", A, b, x0, M, args, {**options, "callback_type": callback_type})


def minres(
    A: Any,
    b: TensorLike,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    shift: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[..., Any] | None = None,
    show: bool = False,
    check: bool = False,
    args: Any = (),
) -> Any:
    """Return x with `(A - shift I) @ x == b`, found by the minimal residual method, and SciPy's code: see `cg`.

    The matrix is symmetric, and may be indefinite; the derivative by its elements is that of any matrix.
    """
    options = {
        "rtol": raw(rtol),
        "shift": shift,
        "maxiter": maxiter,
        "callback": callback,
        "show": show,
        "check": check,
    }
    return _iterative("minres", A, b, x0, M, args, options)
