"""Who trains: a step is a forward, a backward and the update of Adam.

A model whose result is no loss is trained to give certain arrays. These can be reached, as a training of thousands of
steps may end with numbers so small that a processor takes far longer for them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib.util import find_spec
from typing import Any, final

import numpy as np

import asyncgrad as ag
from asyncgrad import optim

from ..peers import Array, Problem, torch
from .sides import CALLS, Side, array_of, jax_models, make_steady, seconds_of_compiling
from .workloads import Workload

__all__ = ["TRAINERS"]


def _target(problem: Problem) -> Array | None:
    """Return what the model is trained to give; None if it gives a loss."""
    return None if problem.start is None else problem.start / 4


class Trainer(Side):
    """Abstract: a way to train. All of them must agree on the losses of the first steps."""

    def __init__(self) -> None:
        self.losses: list[Array] = []
        self.loss: Any = None

    async def compile(self) -> None:
        times = []
        for _ in range(CALLS):
            times.append(await self.timed())
            self.losses.append(array_of(self.loss))
        await self.note(times)

    async def note(self, times: list[float]) -> None:
        """Note from the seconds of the first steps what compiling took."""

    def results(self) -> list[Array]:
        return [np.array(self.losses)]


class AsyncgradTrainer(Trainer):
    """Abstract: asyncgrad with its Adam."""

    def __init__(self, workload: Workload) -> None:
        super().__init__()
        problem = workload.problem()
        self.constants, target = problem.constants, _target(problem)
        self.leaves = [ag.tensor(array, requires_grad=True) for array in problem.variables]
        self.optimizer = optim.Adam(self.leaves)
        self.workload = workload
        model, leaves = workload.model, self.leaves

        def loss(*constants: Any) -> Any:
            output = model(*constants, *leaves)
            return output if target is None else ((output - target) ** 2).mean()

        # By its name, ag.jit.stats tells what became of its steps.
        loss.__qualname__ = workload.title
        self.of_batch: Callable[..., Any] = loss


@final
class EagerTrainer(AsyncgradTrainer):
    """Without a compiler."""

    def step(self) -> Awaitable[None]:
        return self.awaited_step()

    async def awaited_step(self) -> None:
        self.optimizer.zero_grad()
        loss = self.of_batch(*self.constants)
        await loss.backward()
        await self.optimizer.step_async()
        self.loss = loss.detach()


@final
class JittedTrainer(AsyncgradTrainer):
    """By ag.jit.train_step."""

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self.whole: Any = ag.jit.train_step(self.of_batch, self.optimizer)

    def step(self) -> Awaitable[None]:
        return self.awaited_step()

    async def awaited_step(self) -> None:
        self.loss = await self.whole(*self.constants)

    async def note(self, times: list[float]) -> None:
        await make_steady(self, self.counts, times)
        eager = EagerTrainer(self.workload)
        usual = min([await eager.timed() for _ in range(3)])
        self.compiling = seconds_of_compiling(times, self.counts()["replayed"], usual)

    def counts(self) -> Mapping[str, int]:
        """Return what became of the steps."""
        return next(counts for name, counts in ag.jit.stats().items() if self.workload.title in name)


class CompilingTrainer(Trainer):
    """Abstract: a trainer that compiles in its first step."""

    async def note(self, times: list[float]) -> None:
        self.compiling = times[0] - min(times[1:])


@final
class TorchTrainer(Trainer):
    """PyTorch, eager, with the form of its Adam that updates all tensors at a time."""

    def __init__(self, workload: Workload) -> None:
        super().__init__()
        torch.set_num_threads(1)
        problem = workload.problem()
        self.constants = [torch.from_numpy(array.copy()) for array in problem.constants]
        self.leaves = [torch.from_numpy(array.copy()).requires_grad_() for array in problem.variables]
        target = _target(problem)
        self.target = None if target is None else torch.from_numpy(target)
        self.optimizer = torch.optim.Adam(self.leaves, foreach=True)
        self.model = workload.torch

    def step(self) -> None:
        self.optimizer.zero_grad()
        output = self.model(*self.constants, *self.leaves)
        loss = output if self.target is None else ((output - self.target) ** 2).mean()
        loss.backward()
        self.optimizer.step()
        self.loss = loss


@final
class JaxTrainer(CompilingTrainer):
    """JAX: the whole step is one compiled function, which may write into the memory of the old parameters."""

    def __init__(self, workload: Workload) -> None:
        super().__init__()
        models = jax_models()
        problem, model, adam = workload.problem(), getattr(models, workload.name), models.adam
        self.constants = [models.jnp.asarray(array) for array in problem.constants]
        target = _target(problem)
        target = None if target is None else models.jnp.asarray(target)
        parameters = [models.jnp.array(array) for array in problem.variables]
        zeros = [[models.jnp.zeros_like(one) for one in parameters] for _ in range(2)]
        self.state: Any = (parameters, *zeros, models.jnp.zeros((), np.float32))
        self.wait = models.jax.block_until_ready

        def loss(parameters: Any, constants: Any) -> Any:
            output = model(*constants, *parameters)
            return output if target is None else ((output - target) ** 2).mean()

        def whole(state: Any, constants: Any) -> Any:
            parameters, means, squares, count = state
            value, gradients = models.jax.value_and_grad(loss)(parameters, constants)
            return value, adam(parameters, gradients, means, squares, count)

        self.whole = models.jax.jit(whole, donate_argnums=0)

    def step(self) -> None:
        self.loss, self.state = self.wait(self.whole(self.state, self.constants))


@final
class FloorTrainer(Trainer):
    """NumPy by hand, Adam included."""

    def __init__(self, workload: Workload) -> None:
        super().__init__()
        problem = workload.problem()
        self.constants, variables, self.target = problem.constants, problem.variables, _target(problem)
        self.parameters = [array.copy() for array in variables]
        self.means = [np.zeros_like(array) for array in variables]
        self.squares = [np.zeros_like(array) for array in variables]
        self.count = 0
        self.model = workload.floor

    def step(self) -> None:
        output, pullback = self.model(*self.constants, *self.parameters)
        if self.target is None:
            self.loss = output
            self.update(pullback(np.float32(1.0)))
        else:
            difference = output - self.target
            self.loss = (difference * difference).mean()
            difference *= np.float32(2 / difference.size)
            self.update(pullback(difference))

    def update(self, gradients: list[Array]) -> None:
        self.count += 1
        for arrays in zip(self.parameters, gradients, self.means, self.squares, strict=True):
            self.update_one(*arrays)

    def update_one(self, one: Array, g: Array, mean: Array, square: Array) -> None:
        rate, root = 1e-3 / (1 - 0.9**self.count), (1 - 0.999**self.count) ** 0.5
        mean *= 0.9
        mean += 0.1 * g
        square *= 0.999
        square += 0.001 * (g * g)
        below = np.sqrt(square)
        below /= root
        below += 1e-8
        np.divide(mean, below, out=below)
        below *= rate
        one -= below


def _installed() -> dict[str, type[Side]]:
    found: dict[str, type[Side]] = {"asyncgrad": JittedTrainer}
    found["eager"] = EagerTrainer
    if torch is not None:
        found["torch"] = TorchTrainer
    if find_spec("jax") is not None:
        found["JAX"] = JaxTrainer
    return found | {"floor": FloorTrainer}


#: Those that are installed, by their names in tables. The first is what the others are compared with.
TRAINERS = _installed()
