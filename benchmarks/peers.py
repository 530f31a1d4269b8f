"""The peers: asyncgrad and the libraries it is compared with, each with the same interface of forward and backward.

A topic writes its model once for each peer, as a function of constants and variables that returns one array. PyTorch,
HIPS autograd and MyGrad take part if they are installed; the floor, gradients written by hand in NumPy, always does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, final

import numpy as np

import asyncgrad as ag
from asyncgrad.core.engine.compiled.api import COMPILED_AFTER

try:
    import torch
except ImportError:
    torch = None
try:
    import autograd as hips
    import autograd.numpy as hips_numpy
except ImportError:
    hips = hips_numpy = None
try:
    import mygrad
except ImportError:
    mygrad = None

__all__ = ["PEERS", "Array", "Models", "Peer", "Problem", "hips_numpy", "mygrad", "torch"]

Array = np.ndarray[Any, Any]

#: The model of each peer, by the name of the peer.
Models = dict[str, Callable[..., Any]]


class Problem(NamedTuple):
    """The arrays of a model: peers differentiate `model(*constants, *variables)`."""

    constants: Sequence[Array]
    #: Gradients are taken with respect to these.
    variables: Sequence[Array]
    #: The gradient to start from; None if the result of the model is a scalar.
    start: Array | None = None


class Peer(ABC):
    """Abstract: a library that differentiates a model.

    Args:
        model: takes constants and variables as arrays of this library.
        problem: the arrays to run it on.
    """

    def __init__(self, model: Callable[..., Any], problem: Problem) -> None:
        self.model = model
        self.problem = problem

    @abstractmethod
    def forward(self) -> None:
        """Run the model, for one backward; drop the previous graph."""

    @abstractmethod
    def backward(self) -> Awaitable[None] | None:
        """Compute the gradients of all variables; if an awaitable is returned, it must be awaited."""

    def compiled_backward(self) -> Awaitable[None] | None:
        """Compute the gradients in the fastest way that needs no change of the model."""
        return self.backward()

    @abstractmethod
    def gradients(self) -> list[Array]:
        """Return the gradient of each variable from the last backward."""

    def clear(self) -> None:
        """Drop the gradients and the graph of the last step."""


@final
class Asyncgrad(Peer):
    """asyncgrad, its backward awaited."""

    def __init__(self, model: Callable[..., Any], problem: Problem) -> None:
        super().__init__(model, problem)
        self.leaves: list[Any] = [ag.tensor(array, requires_grad=True) for array in problem.variables]
        self.output: Any = None

    def forward(self) -> None:
        self.output = self.model(*self.problem.constants, *self.leaves)

    def backward(self) -> Awaitable[None]:
        return self.output.backward(self.problem.start)  # type: ignore[no-any-return]

    async def compiled_backward(self) -> None:
        # The same as ag.compiled_autograd, which a program enters once rather than for each backward.
        token = COMPILED_AFTER.set(1)
        await self.output.backward(self.problem.start)
        COMPILED_AFTER.reset(token)

    def gradients(self) -> list[Array]:
        return [leaf.grad.numpy() for leaf in self.leaves]

    def clear(self) -> None:
        self.output = None
        for leaf in self.leaves:
            leaf.grad = None


@final
class Torch(Peer):
    """PyTorch, eager."""

    def __init__(self, model: Callable[..., Any], problem: Problem) -> None:
        super().__init__(model, problem)
        self.constants = [torch.from_numpy(array.copy()) for array in problem.constants]
        self.leaves = [torch.from_numpy(array.copy()).requires_grad_() for array in problem.variables]
        self.start = None if problem.start is None else torch.from_numpy(problem.start.copy())
        self.output: Any = None

    def forward(self) -> None:
        self.output = self.model(*self.constants, *self.leaves)

    def backward(self) -> None:
        self.output.backward(self.start)

    def gradients(self) -> list[Array]:
        return [leaf.grad.numpy() for leaf in self.leaves]

    def clear(self) -> None:
        self.output = None
        for leaf in self.leaves:
            leaf.grad = None


@final
class Hips(Peer):
    """HIPS autograd, whose forward is a trace."""

    def __init__(self, model: Callable[..., Any], problem: Problem) -> None:
        super().__init__(model, problem)
        self.trace = hips.make_vjp(lambda variables: model(*problem.constants, *variables))
        self.variables = tuple(problem.variables)
        self.vjp: Any = None
        self.found: Any = None

    def forward(self) -> None:
        self.vjp, self.output = self.trace(self.variables)

    def backward(self) -> None:
        start = self.problem.start
        self.found = self.vjp(np.ones_like(self.output) if start is None else start)

    def gradients(self) -> list[Array]:
        return list(self.found)

    def clear(self) -> None:
        self.vjp = self.output = self.found = None


@final
class MyGrad(Peer):
    """MyGrad with memory guarding off, as its documentation advises for speed."""

    def __init__(self, model: Callable[..., Any], problem: Problem) -> None:
        super().__init__(model, problem)
        mygrad.turn_memory_guarding_off()
        self.leaves = [mygrad.tensor(array) for array in problem.variables]
        self.output: Any = None

    def forward(self) -> None:
        self.output = self.model(*self.problem.constants, *self.leaves)

    def backward(self) -> None:
        self.output.backward(self.problem.start)

    def gradients(self) -> list[Array]:
        return [leaf.grad for leaf in self.leaves]

    def clear(self) -> None:
        self.output = None
        for leaf in self.leaves:
            leaf.null_grad()


@final
class Floor(Peer):
    """NumPy by hand: the model returns its result, and a function from its gradient to those of the variables."""

    def __init__(self, model: Callable[..., Any], problem: Problem) -> None:
        super().__init__(model, problem)
        self.pullback: Any = None
        self.found: Any = None

    def forward(self) -> None:
        _, self.pullback = self.model(*self.problem.constants, *self.problem.variables)

    def backward(self) -> None:
        start = self.problem.start
        self.found = self.pullback(1.0 if start is None else start)

    def gradients(self) -> list[Array]:
        return list(self.found)

    def clear(self) -> None:
        self.pullback = self.found = None


#: The installed peers, by their names in tables. asyncgrad is the first; the others are compared with it.
PEERS: dict[str, type[Peer]] = {"asyncgrad": Asyncgrad}
if torch is not None:
    PEERS["torch"] = Torch
if hips is not None:
    PEERS["HIPS"] = Hips
if mygrad is not None:
    PEERS["MyGrad"] = MyGrad
PEERS["floor"] = Floor
