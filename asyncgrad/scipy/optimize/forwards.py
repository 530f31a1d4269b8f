"""A function of the user at the points that a solver asks about: one call gives its value and its derivatives there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from ...core.graph.leaf import Leaf, gradient_edge
from ...core.graph.walk import nodes_below
from ...core.tensor import Tensor
from ...transforms.arguments import gradients, new_input, transform_scope, zeros_like_tensor
from ...transforms.captured import CapturedTensors
from ..solutions import array_of, call_solver
from .implicit import gradient_at, jacobian_at

__all__ = ["Forwards", "Remembered"]


@final
class Remembered:
    """What a coroutine function has returned for the points of its last calls.

    Args:
        most: for how many points. A solver that comes back after it has tried other points needs more than one.
    """

    __slots__ = ("_kept", "_most")

    def __init__(self, most: int = 1) -> None:
        self._most = most
        self._kept: dict[tuple[Any, bytes], Any] = {}

    def forget(self) -> None:
        """Keep nothing of the calls before."""
        self._kept.clear()

    async def at(self, x: Tensor, function: Callable[[Tensor], Any]) -> Any:
        """Return what the function, always the same, returns for a point; call it if that is not known."""
        key = x.dtype, x.numpy().tobytes()
        if key in self._kept:
            found = self._kept.pop(key)
        else:
            # Before the call, which may take as much memory as what is kept.
            while len(self._kept) >= self._most:
                del self._kept[next(iter(self._kept))]
            found = await function(x)
        # The last: a solver that tries several points, and returns to one between them, loses the others first.
        self._kept[key] = found
        return found


@final
class Forwards:
    """A function, called once for all that a solver asks about it at a point.

    Solvers ask for the value at a point, and then for derivatives at the same one. So the call for the value is
    recorded, unless the solver asks for values alone, and its graph is kept until the function is called elsewhere.

    Args:
        function: a coroutine function of a vector and tensors, which returns a tensor; or a pair of one and
            something else.
        constants: the tensors, none of which requires grad.
        name: the function of SciPy, for errors.
        most: for how many points graphs are kept, as for Remembered.
        concurrency: how many rows of a Jacobian run at once.
        is_recorded: whether the solver asks for derivatives at the points at which it asks for values.
        is_curved: whether it asks for second derivatives; then gradients are recorded too.
    """

    __slots__ = ("_concurrency", "_constants", "_function", "_is_curved", "_is_recorded", "_kept", "_name", "_watcher")

    def __init__(
        self,
        function: Callable[..., Any],
        constants: Sequence[Tensor],
        name: str,
        *,
        most: int = 1,
        concurrency: int | None = None,
        is_recorded: bool = True,
        is_curved: bool = False,
    ) -> None:
        self._function, self._constants, self._name = function, constants, name
        self._concurrency, self._is_recorded, self._is_curved = concurrency, is_recorded, is_curved
        self._kept = Remembered(most)
        self._watcher = CapturedTensors(name, "the function", "args")

    async def call_solver(self, solver: Callable[..., Any], evaluate: Callable[..., Any], is_async: bool) -> Any:
        """Return what a solver does, as `solutions.call_solver`; let go of all graphs at its end."""
        try:
            return await call_solver(solver, evaluate, is_async, self._name)
        finally:
            self.forget()

    def forget(self) -> None:
        """Let go of all graphs. SciPy may leave cycles of references to the functions that it has been passed."""
        self._kept.forget()

    async def value(self, x: Tensor) -> Any:
        """Return the value at a point, as an array of the caller's own."""
        return (await self.value_and_rest(x))[0]

    async def value_and_rest(self, x: Tensor) -> tuple[Any, Any]:
        """Return the value at a point, as an array of the caller's own, and what the function returns besides."""
        if self._is_recorded:
            found = await self._kept.at(x, self._record)
            value, rest = found.value, found.rest
        else:
            value, rest = _split(await self._function(x, *self._constants))
        # A copy: SciPy writes into residuals, and the graph may have saved them.
        return np.array(array_of(value)), rest

    async def gradient(self, x: Tensor) -> Any:
        """Return the gradient of the function at a point; if it returns several numbers, that of their sum."""
        return np.array(array_of(await self._slope(await self._kept.at(x, self._record))))

    async def jacobian(self, x: Tensor) -> Any:
        """Return the Jacobian of the function at a point."""
        found = await self._kept.at(x, self._record)
        return array_of(await jacobian_at(found.value, found.point, False, self._concurrency))

    async def hessian(self, x: Tensor) -> Any:
        """Return the Hessian of the function at a point."""
        found = await self._kept.at(x, self._record)
        return array_of(await jacobian_at(await self._slope(found), found.point, False, self._concurrency))

    async def product(self, x: Tensor, vector: Tensor) -> Any:
        """Return the product of the Hessian at a point and a vector."""
        found = await self._kept.at(x, self._record)
        slope = await self._slope(found)
        with transform_scope(False):
            (row,) = await gradients((slope,), (found.point,), (vector,), create_graph=False, retain_graph=True)
        return array_of(zeros_like_tensor(x) if row is None else row)

    async def _record(self, x: Tensor) -> _Forward:
        with transform_scope(False):
            point = new_input(x, False, "x")
            found = await self._function(point, *self._constants)
        value, rest = _split(found)
        self._check_captured(value, point)
        return _Forward(point, value, rest)

    async def _slope(self, found: _Forward) -> Tensor:
        """Return the gradient of a call, with a history if second derivatives are asked for."""
        if found.slope is None:
            found.slope = await gradient_at(found.value, found.point, self._is_curved, retain_graph=True)
        return found.slope

    def _check_captured(self, value: Tensor, point: Tensor) -> None:
        """Raise if the value depends on a tensor that requires grad and is not in args; see CapturedTensors."""
        edge = gradient_edge(value)
        if edge is None or edge.node is None:
            return
        for node in nodes_below([edge.node]):
            if isinstance(node, Leaf) and node.variable is not point:
                self._watcher.used(node.variable)


@final
class _Forward:
    """A call of the function: the point, the value with a history, and the gradient once it has been computed."""

    __slots__ = ("point", "rest", "slope", "value")

    def __init__(self, point: Tensor, value: Tensor, rest: Any) -> None:
        self.point, self.value, self.rest = point, value, rest
        self.slope: Tensor | None = None


def _split(found: Any) -> tuple[Tensor, Any]:
    return found if isinstance(found, tuple) else (found, None)
