"""Systems whose matrix is a function: its products with vectors are all that is known of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy.sparse import linalg

from ....core.graph.saved import ConstantVersions
from ....core.recording.primitive import derivative, primitive
from ....core.settings.context import is_grad_enabled
from ....core.tensor import Tensor, asarray
from ....errors import ArgumentTypeError
from ....transforms.arguments import gradients, new_input, transform_scope, zeros_like_tensor
from ....transforms.parameters import Parameters
from ...arguments import floating
from ...solutions import (
    Problem,
    Tensors,
    array_of,
    call_solver,
    call_user,
    check_user_function,
    drive,
    record,
)

if TYPE_CHECKING:
    from ....core.arrays.array import Array


__all__ = ["operator_product", "solve_operator"]

#: A coroutine function of a vector and of tensors, linear in the vector.
Product = Callable[..., Any]


@primitive(superlinear=True)
def operator_product(x: Any, operator: Any) -> Any:
    """Return the product of SciPy's LinearOperator with a vector."""
    return operator.matvec(x)


@derivative(operator_product, "x")
def _(g: Array, operator: Any) -> Array:
    return operator_product.call(g, operator.T)


@final
class OperatorSystem(Problem):
    """The solution of the system of an operator, by the right-hand side and by the operator's tensors."""

    __slots__ = ("is_adjoint", "is_async", "name", "product", "solve")

    def __init__(
        self, product: Product, solve: Callable[..., Any], is_adjoint: bool, is_async: bool, name: str
    ) -> None:
        self.product: Product = product
        self.solve: Callable[..., Any] = solve
        self.is_adjoint: bool = is_adjoint
        self.is_async: bool = is_async
        self.name: str = name

    async def find(self, b: Tensor, params: Tensors, constants: ConstantVersions | None = None) -> Tensor:
        """Return the solution, with a history that leads to the right-hand side and the tensors.

        Args:
            b: the right-hand side.
            params: the tensors.
            constants: other tensors that the product reads.
        """
        detached = [tensor.detach() for tensor in params]

        async def evaluate(x: Any) -> Any:
            return array_of(await self.product(asarray(np.array(x)), *detached))

        def run(ask: Any) -> Any:
            right = array_of(b)
            kind = np.result_type(np.asarray(ask(np.zeros(right.shape, right.dtype))).dtype, right.dtype)
            operator = linalg.LinearOperator((right.size, right.size), ask, dtype=kind)
            return np.asarray(self.solve(operator, right, self.is_adjoint), kind)

        found = await call_solver(run, evaluate, self.is_async, self.name)
        (solution,) = record(self, (b, *params), (found,), constants)
        return solution

    async def gradients(self, params: Tensors, solution: Tensors, grads: Tensors) -> Sequence[Tensor | None]:
        """Solve with the adjoint operator, and multiply by the derivative of the product by the tensors."""
        create_graph = is_grad_enabled()
        adjoint = OperatorSystem(self._adjoint_product, self.solve, not self.is_adjoint, self.is_async, self.name)
        b, *others = params
        weights = await adjoint.find(grads[0], tuple(others))
        if not others:
            return [_like(weights, b)]
        with transform_scope(create_graph):
            points = tuple([new_input(one, create_graph, self.name) for one in others])
            value = await self.product(solution[0], *points)
            found = await gradients((value,), points, (_like(-weights, value),), create_graph=create_graph)
        return [_like(weights, b), *found]

    async def _adjoint_product(self, x: Tensor, *params: Tensor) -> Tensor:
        """Return the product of the conjugate transpose: the gradient of the product by its vector."""
        create_graph = is_grad_enabled()
        with transform_scope(True):
            point = zeros_like_tensor(x).requires_grad_()
            value = await self.product(point, *params)
            (found,) = await gradients((value,), (point,), (_like(x, value),), create_graph=create_graph)
        return zeros_like_tensor(x) if found is None else found


def _like(gradient: Tensor, tensor: Tensor) -> Tensor:
    """Return a gradient in the dtype of a tensor, which may be real where the solution is complex."""
    part = np.real(gradient) if gradient.dtype.kind == "c" and tensor.dtype.kind != "c" else gradient
    result: Tensor = part.astype(tensor.dtype, copy=False)
    return result


def solve_operator(A: Any, b: Any, args: Any, name: str, iterate: Callable[..., tuple[Any, int]]) -> Any:
    """Return the solution of the system of a function, or of SciPy's LinearOperator, and the solver's code.

    Args:
        A: the function, of a vector and of `args`.
        b: the right-hand side.
        args: trees of anything.
        name: of the solver.
        iterate: takes the operator, the right-hand side, "H" if it is the adjoint one and "" otherwise, and whether it
            is the first; returns the solution and the code.

    Returns:
        The pair, to be awaited where the function is an `async def`.
    """
    called = f"scipy.sparse.linalg.{name}"
    right = floating(b)
    if right.ndim != 1:
        raise ValueError(f"{called} takes a vector b, not shape {right.shape}")
    is_operator = isinstance(A, linalg.LinearOperator)
    if is_operator and A.shape != (right.size, right.size):
        raise ValueError(f"{called} takes a square operator of as many rows as b, not shapes {A.shape}, {right.shape}")
    if is_operator and args:
        raise ArgumentTypeError(f"{called} takes args with a function, not with a LinearOperator: pass its function")
    is_async = False if is_operator else check_user_function(A, called, "A")
    params = Parameters(args if isinstance(args, tuple) else (args,), A)

    async def product(x: Any, *tensors: Tensor) -> Tensor:
        if is_operator:
            return asarray(operator_product.call(x, A))
        return floating(await call_user(A, x, *params.fill(tensors)))

    codes: list[int] = []

    def solve(operator: Any, vector: Any, is_adjoint: bool) -> Any:
        found, code = iterate(operator, vector, "H" if is_adjoint else "", not codes)
        codes.append(code)
        return found

    async def run() -> tuple[Tensor, int]:
        system = OperatorSystem(product, solve, False, is_async, called)
        solution = await system.find(right, params.tensors, params.constants)
        return solution, codes[0]

    return drive(run(), is_async, called)
