"""Least squares of large matrices, by iterations: solutions have the derivatives of the pseudoinverse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from ....core.arrays.values import raw
from ....core.tensor import Tensor, asarray
from ....errors import ArgumentTypeError
from ...arguments import floating
from ...solutions import Problem, Tensors, array_of, fit_dtype, record
from ..arrays import SparseArray, csr_array
from ..pattern import Pattern, multiply, sample
from .operators import operator_product
from .systems import with_all_elements

__all__ = ["lsmr", "lsqr"]

#: Takes an operator and a right-hand side, and returns the solution of their least squares.
Solve = Callable[[Any, Any], Any]


@final
class Stack:
    """A matrix of a pattern, or an operator, upon a diagonal matrix of no rows or as many as it has columns."""

    __slots__ = ("_matrix", "shape")

    def __init__(self, matrix: Pattern | linalg.LinearOperator) -> None:
        self._matrix: Pattern | linalg.LinearOperator = matrix
        self.shape: tuple[int, int] = matrix.shape

    def operator(self, data: Any, diagonal: Any) -> Any:
        """Return the operator of arrays of elements, for SciPy."""
        matrix = self._matrix
        above = linalg.aslinearoperator(matrix.matrix(data) if isinstance(matrix, Pattern) else matrix)
        if not diagonal.size:
            return above
        height, width = self.shape
        return linalg.LinearOperator(
            (height + width, width),
            matvec=lambda x: np.concatenate([above.matvec(x), diagonal * x]),
            rmatvec=lambda u: above.rmatvec(u[:height]) + diagonal * u[height:],
            dtype=np.result_type(above.dtype, diagonal),
        )

    def multiply(self, data: Any, diagonal: Any, x: Any) -> Any:
        """Return the product with a vector."""
        matrix = self._matrix
        above = multiply(data, x, matrix) if isinstance(matrix, Pattern) else operator_product.call(x, matrix)
        return np.concatenate([above, diagonal * x]) if diagonal.size else above

    def multiply_adjoint(self, data: Any, diagonal: Any, u: Any) -> Any:
        """Return the product of the conjugate transpose with a vector."""
        matrix, height = self._matrix, self.shape[0]
        if isinstance(matrix, Pattern):
            above = multiply(np.conjugate(data), u[:height], matrix.transpose())
        else:
            above = operator_product.call(u[:height], matrix.H)
        return above + diagonal * u[height:] if diagonal.size else above

    def sample(self, u: Any, x: Any, diagonal: Any) -> tuple[Any, Any]:
        """Return the elements of the outer product of `u` and the conjugate of `x`, of the matrix and the diagonal."""
        height = self.shape[0]
        matrix, other = self._matrix, np.conjugate(x)
        return (
            sample(u[:height], other, matrix) if isinstance(matrix, Pattern) else None,
            u[height:] * other if diagonal.size else None,
        )


@final
class ShortestSolution(Problem):
    """The shortest of the vectors whose product with a matrix, or with its adjoint, is nearest to a right-hand side.

    Source: Golub and Pereyra, The differentiation of pseudo-inverses and nonlinear least squares problems (1973).
    """

    __slots__ = ("is_adjoint", "is_async", "name", "solve", "stack")

    def __init__(self, stack: Stack, solve: Solve, is_adjoint: bool, name: str) -> None:
        self.stack: Stack = stack
        self.solve: Solve = solve
        self.is_adjoint: bool = is_adjoint
        self.is_async: bool = False
        self.name: str = name

    def find(self, data: Tensor, diagonal: Tensor, b: Tensor) -> Tensor:
        """Return the solution, with a history that leads to the elements and the right-hand side."""
        operator = self.stack.operator(array_of(data), array_of(diagonal))
        right = array_of(b).astype(np.result_type(operator.dtype, b.dtype, float))
        found = self.solve(operator.H if self.is_adjoint else operator, right)
        (solution,) = record(self, (data, diagonal, b), (found,))
        return solution

    async def gradients(self, params: Tensors, solution: Tensors, grads: Tensors) -> Sequence[Tensor | None]:
        """Solve with the adjoint; by the elements, again for the solution and for what it leaves of the gradient."""
        (data, diagonal, b), (x,), (grad,) = params, solution, grads
        stack, elements = self.stack, (data, diagonal)
        adjoint = ShortestSolution(stack, self.solve, not self.is_adjoint, self.name)
        weights = adjoint.find(*elements, grad)
        if not (data.requires_grad or diagonal.requires_grad):
            return [None, None, fit_dtype(weights, b)]
        products = (stack.multiply, stack.multiply_adjoint)
        forth, back = products[:: -1 if self.is_adjoint else 1]
        # Pairs whose outer products are the gradient by the matrix, of which the solution is one of least squares.
        pairs = [(-weights, x), (b - forth(*elements, x), self.find(*elements, weights))]
        if self.is_adjoint or not (diagonal.size and np.all(array_of(diagonal))):
            # With a diagonal that is not 0 the columns are independent, and nothing of a gradient is beyond them.
            pairs.append((adjoint.find(*elements, x), grad - back(*elements, weights)))
        ordered = [(right, left) if self.is_adjoint else (left, right) for left, right in pairs]
        parts = [stack.sample(u, other, diagonal) for u, other in ordered]
        by_data, by_diagonal = (None if one[0] is None else sum(one[1:], one[0]) for one in zip(*parts, strict=True))
        return [
            None if by_data is None else fit_dtype(by_data, data),
            None if by_diagonal is None else fit_dtype(by_diagonal, diagonal),
            fit_dtype(weights, b),
        ]


def _stack_of(name: str, A: Any) -> tuple[Stack, Tensor]:
    """Return a matrix or an operator, and the elements of the matrix."""
    if isinstance(A, linalg.LinearOperator):
        return Stack(A), asarray(np.zeros(0))
    if callable(A) and not isinstance(A, (SparseArray, Tensor)):
        raise ArgumentTypeError(
            f"scipy.sparse.linalg.{name} takes a matrix or a LinearOperator, not {type(A).__name__}: write "
            "LinearOperator(shape, matvec=..., rmatvec=...), for the adjoint is needed, too"
        )
    if isinstance(A, SparseArray) or sparse.issparse(A):
        matrix = A if isinstance(A, SparseArray) else csr_array(A)
    else:
        dense = floating(A)
        if dense.ndim > 2:
            raise ValueError(f"scipy.sparse.linalg.{name} takes a matrix of two axes, not of shape {dense.shape}")
        matrix = with_all_elements(np.atleast_2d(dense))
    # SciPy has no sparse matrices of half precision.
    data = floating(matrix.data)
    return Stack(matrix.pattern), data.astype(np.result_type(data.dtype, np.float32), copy=False)


def _shortest(
    name: str, A: Any, b: Any, damp: Any, x0: Any, most: int | None, run: Callable[..., Any]
) -> tuple[Any, ...]:
    """Return what SciPy's function does, with a history of its solution.

    Args:
        name: of the function.
        A: the matrix or operator.
        b: the right-hand side.
        damp: the weight of the solution's length.
        x0: where to start, or None.
        most: the limit of iterations, or None.
        run: calls SciPy with an operator, a right-hand side, a damping, a start, a limit of iterations, and whether it
            is for the result rather than for a gradient.
    """
    called = f"scipy.sparse.linalg.{name}"
    stack, data = _stack_of(name, A)
    height, width = stack.shape
    right, weight = floating(b), floating(damp)
    right = np.squeeze(right) if right.ndim > 1 else right
    right = np.atleast_1d(right)
    if right.shape != (height,) or weight.ndim:
        raise ValueError(
            f"{called} takes a vector b with as many numbers as A has rows and a number damp, not shapes "
            f"{stack.shape}, {right.shape} and {weight.shape}: call it for each column of a matrix"
        )
    start = None if x0 is None else floating(x0)
    if start is not None and start.shape != (width,):
        raise ValueError(f"{called} takes an x0 of shape {(width,)}, not {start.shape}")
    is_damped = weight.requires_grad or raw(weight) != 0
    diagonal = weight * np.ones(width) if is_damped else asarray(np.zeros(0))
    plain = stack.operator(array_of(data), np.zeros(0))
    begin = None if start is None else array_of(start).copy()
    found = run(plain, array_of(right), float(array_of(weight)), begin, most, True)

    def solve(operator: Any, vector: Any) -> Any:
        # Of a gradient's system SciPy's limit may be too few.
        answer = run(operator, vector, 0.0, None, 4 * sum(operator.shape) if most is None else most, False)
        if answer[1] == 7:
            raise RuntimeError(
                f"{called} has not converged for the gradient after {answer[2]} iterations: pass a greater limit of "
                "them, greater tolerances, or damp"
            )
        return answer[0]

    rest = right if start is None else right - stack.multiply(data, asarray(np.zeros(0)), start)
    rest = asarray(np.concatenate([rest, np.zeros(width)]) if is_damped else rest)
    difference = found[0] if start is None else found[0] - array_of(start)
    (solution,) = record(ShortestSolution(stack, solve, False, called), (data, diagonal, rest), (difference,))
    return solution if start is None else start + solution, *found[1:]


def lsqr(
    A: Any,
    b: Any,
    damp: Any = 0.0,
    atol: float = 1e-6,
    btol: float = 1e-6,
    conlim: float = 1e8,
    iter_lim: int | None = None,
    show: bool = False,
    calc_var: bool = False,
    x0: Any = None,
) -> tuple[Any, ...]:
    """Return SciPy's tuple, whose x minimizes `norm(A @ x - b)**2 + damp**2 * norm(x - x0)**2`.

    Of several such x it is the one nearest to `x0`. Its gradients, by the elements of `A`, `b`, `damp` and `x0`, are
    those of the exact solution, and are found by the same method, with the same tolerances. The other results are
    numbers without derivatives.

    Args:
        A: a matrix of shape (m, n): a sparse array of asyncgrad.scipy.sparse, or SciPy's; a dense one; or SciPy's
            LinearOperator, which is a constant.
        b: a vector, shape (m,).
        damp: a number; as in SciPy, one below 0 is as 0. At 0 it has a second derivative only where the columns of `A`
            are independent.
        atol: as SciPy's.
        btol: as SciPy's.
        conlim: as SciPy's.
        iter_lim: the limit of iterations; None for 2 n, and for a gradient 4 times the rows and columns of its system.
        show: whether SciPy prints what it does.
        calc_var: whether the last result is found, as SciPy's.
        x0: a vector, shape (n,), or None for zeros.

    Returns:
        x, istop, itn, r1norm, r2norm, anorm, acond, arnorm, xnorm, var.

    Raises:
        ValueError: the shapes do not fit.
        RuntimeError: in a backward, there were too many iterations.

    Source: scipy.sparse.linalg.lsqr.

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad.scipy import sparse
        >>> data = ag.tensor([1.0, 1.0, 1.0], requires_grad=True)
        >>> x = lsqr(sparse.coo_array((data, ([0, 1, 2], [0, 0, 1]))), [1.0, 3.0, 5.0])[0]
        >>> ag.sync.backward(x.sum())
        >>> x.detach().numpy().round(6).tolist(), data.grad.numpy().round(6).tolist()
        ([2.0, 5.0], [-1.5, -0.5, -5.0])
    """
    weight = floating(damp)

    def run(operator: Any, vector: Any, number: float, start: Any, most: int | None, is_result: bool) -> Any:
        options = (show, calc_var) if is_result else (False, False)
        return linalg.lsqr(operator, vector, number, atol, btol, conlim, most, *options, start)

    return _shortest("lsqr", A, b, np.where(raw(weight) > 0, weight, 0.0), x0, iter_lim, run)


def lsmr(
    A: Any,
    b: Any,
    damp: Any = 0.0,
    atol: float = 1e-6,
    btol: float = 1e-6,
    conlim: float = 1e8,
    maxiter: int | None = None,
    show: bool = False,
    x0: Any = None,
) -> tuple[Any, ...]:
    """Return SciPy's tuple, whose x minimizes `norm(A @ x - b)**2 + damp**2 * norm(x - x0)**2`: see `lsqr`.

    Returns:
        x, istop, itn, normr, normar, norma, conda, normx.

    Source: scipy.sparse.linalg.lsmr.
    """

    def run(operator: Any, vector: Any, number: float, start: Any, most: int | None, is_result: bool) -> Any:
        return linalg.lsmr(operator, vector, number, atol, btol, conlim, most, show and is_result, start)

    return _shortest("lsmr", A, b, damp, x0, maxiter, run)
