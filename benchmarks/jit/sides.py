"""Who takes a step: asyncgrad in its ways, and the compilers and libraries beside it, each if it is installed.

A step is a forward and a backward to all variables, or, in `trainers`, a step of Adam too.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from time import perf_counter
from typing import Any, ClassVar, final

import numpy as np

import asyncgrad as ag
from asyncgrad.tracing.compiling import COMPILER
from asyncgrad.tracing.inner_loops import address_of, inner_loop
from asyncgrad.tracing.runner import missing_extra, runner

from ..peers import Array, torch
from .workloads import Workload

__all__ = ["SIDES", "Asyncgrad", "Compiling", "Side", "array_of", "jax_models", "make_steady", "seconds_of_compiling"]

#: The dtypes of products.
_PRODUCTS = ("ff->f", "dd->d")
#: How many calls are timed to find what compiling takes.
CALLS = 12
#: After how many calls in a row by its program a compiled function is there, and how many are made until it must be.
STEADY, MOST_CALLS = 3, 60
#: One thread for XLA, which reads this when it starts.
_ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


class Side(ABC):
    """Abstract: a way to take steps of a workload."""

    #: The seconds that its first calls take more than later ones; None for what compiles nothing.
    compiling: float | None = None

    @abstractmethod
    def step(self) -> Awaitable[Any] | None:
        """Take a step, whose results are there when it returns; if an awaitable is returned, when that has run."""

    @abstractmethod
    def results(self) -> list[Array]:
        """Return what all sides must agree on: the output and the gradients of the last step."""

    def clear(self) -> None:
        """Drop the gradients, as an optimizer does before a step."""

    async def compile(self) -> None:
        """Take the steps in which a side compiles, and note the seconds."""

    async def timed(self) -> float:
        """Return the seconds of a step."""
        self.clear()
        began = perf_counter()
        awaited = self.step()
        if awaited is not None:
            await awaited
        return perf_counter() - began


class Compiling(Side):
    """Abstract: a side that compiles in its first call."""

    async def compile(self) -> None:
        first, *later = [await self.timed() for _ in range(CALLS)]
        self.compiling = first - min(later)


def array_of(value: Any) -> Array:
    """Return an array of NumPy that equals one of any side."""
    return np.asarray(value.detach().numpy() if hasattr(value, "detach") else value)


class Asyncgrad(Side):
    """Abstract: asyncgrad, its backward awaited."""

    def __init__(self, workload: Workload) -> None:
        self.constants, variables, self.start = workload.problem()
        self.leaves = [ag.tensor(array, requires_grad=True) for array in variables]
        self.model = workload.model
        self.function: Callable[..., Any] = self.made()
        self.output: Any = None

    @abstractmethod
    def made(self) -> Callable[..., Any]:
        """Return the function that is called in a step."""

    def step(self) -> Awaitable[None]:
        self.output = self.function(*self.constants, *self.leaves)
        return self.output.backward(self.start)  # type: ignore[no-any-return]

    def results(self) -> list[Array]:
        return [array_of(self.output), *(array_of(leaf.grad) for leaf in self.leaves)]

    def clear(self) -> None:
        self.output = None
        for leaf in self.leaves:
            leaf.grad = None


@final
class Eager(Asyncgrad):
    """Without a compiler."""

    def made(self) -> Callable[..., Any]:
        return self.model


class Jitted(Asyncgrad):
    """Compiled by ag.jit, by the backend that it chooses."""

    backend: ClassVar[str] = "auto"

    def made(self) -> Callable[..., Any]:
        return ag.jit(self.model, backend=self.backend)

    async def compile(self) -> None:
        times = [await self.timed() for _ in range(CALLS)]
        function = self.function
        await make_steady(self, lambda: function.counts, times)  # type: ignore[attr-defined]
        self.function = self.model
        usual = min([await self.timed() for _ in range(2)])
        self.function = function
        self.compiling = seconds_of_compiling(times, function.counts["replayed"], usual)  # type: ignore[attr-defined]


async def make_steady(side: Side, counts: Callable[[], Mapping[str, int]], times: list[float]) -> None:
    """Take steps until the last ones were by a program, and note their seconds; raise where none is used.

    Machine code that is ready is compared with eager calls before it is used: when that is, no number of calls tells.
    So it is waited for, where some is being made.
    """
    COMPILER.join()
    in_a_row, before = 0, counts().get("replayed", 0)
    while in_a_row < STEADY:
        if len(times) == MOST_CALLS:
            raise RuntimeError(f"the calls of a workload are not replayed: {dict(counts())}")
        times.append(await side.timed())
        after = counts().get("replayed", 0)
        in_a_row, before = (in_a_row + 1 if after > before else 0), after


def seconds_of_compiling(times: list[float], replayed: int, usual: float) -> float:
    """Return what calls took beyond replays and eager ones, from their seconds and those of a usual eager call."""
    return sum(times) - replayed * min(times) - (len(times) - replayed) * usual


@final
class Table(Jitted):
    """Compiled by ag.jit, without machine code."""

    backend = "table"


@final
class Loops(Jitted):
    """Of a compiled step nothing but the loops that its bits fix: products, `exp`, `tanh` and `log`.

    What a kernel does is left out, `exp` too.
    """

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self.run: Callable[[], None] | None = None
        self.found: list[Array] = []

    async def compile(self) -> None:
        await super().compile()
        # They are made by the compiler that is measured as the first side.
        self.compiling = None
        await self.timed()
        self.found = super().results()
        self.clear()
        self.run = self.loops_alone()

    def loops_alone(self) -> Callable[[], None]:
        """Return what runs these loops over the numbers of a step."""
        function: Any = self.function
        args = (*self.constants, *self.leaves)
        function(*args)
        last, own = function._last_call, runner()
        call, table = function.call_like(last, args, {}), last.variant.take_table()
        assert own is not None
        outputs = table.run_forward(call.known_arrays)
        start = [np.ones(one.shape, one.dtype) for one in outputs] if self.start is None else [self.start]
        # The records write into these.
        kept = table, outputs, table.run_backward(start), start
        records = table._records
        products = {own.tiles.function, *(inner_loop(np.matmul, one).function for one in _PRODUCTS)}  # type: ignore[union-attr]
        others = {inner_loop(ufunc, one) for ufunc in (np.exp, np.tanh, np.log) for one in ("f->f", "d->d")}
        chosen = [one["loop"] in products or (one["loop"], one["data"]) in others for one in records._table]
        alone, bases = records._table[chosen], records._bases

        def run() -> None:
            assert kept
            own.run(address_of(bases), address_of(alone), 0, len(alone), 0, 0)

        return run

    def step(self) -> Any:
        return super().step() if self.run is None else self.run()

    def results(self) -> list[Array]:
        return self.found

    def clear(self) -> None:
        if self.run is None:
            super().clear()


class Torch(Side):
    """PyTorch, eager."""

    def __init__(self, workload: Workload) -> None:
        problem = workload.problem()
        torch.set_num_threads(1)
        self.constants = [torch.from_numpy(array.copy()) for array in problem.constants]
        self.leaves = [torch.from_numpy(array.copy()).requires_grad_() for array in problem.variables]
        self.start = None if problem.start is None else torch.from_numpy(problem.start.copy())
        self.model: Callable[..., Any] = workload.torch
        self.output: Any = None

    def step(self) -> None:
        self.output = self.model(*self.constants, *self.leaves)
        self.output.backward(self.start)

    def results(self) -> list[Array]:
        return [array_of(self.output), *(array_of(leaf.grad) for leaf in self.leaves)]

    def clear(self) -> None:
        self.output = None
        for leaf in self.leaves:
            leaf.grad = None


@final
class TorchCompile(Torch, Compiling):
    """PyTorch's compiler, which makes C++; it keeps nothing between processes here."""

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        config: Any = import_module("torch._inductor.config")
        config.force_disable_caches = True
        torch._dynamo.reset()
        self.model = torch.compile(self.model, fullgraph=True)


@final
class Jax(Compiling):
    """JAX: one compiled function for the output and the gradients."""

    def __init__(self, workload: Workload) -> None:
        jax, numpy = jax_models().jax, jax_models().jnp
        problem, model = workload.problem(), getattr(jax_models(), workload.name)
        self.constants = [numpy.asarray(array) for array in problem.constants]
        self.variables = [numpy.asarray(array) for array in problem.variables]
        self.start = None if problem.start is None else numpy.asarray(problem.start)
        self.wait = jax.block_until_ready
        self.found: Any = None

        def both(constants: Any, variables: Any, start: Any) -> Any:
            output, pullback = jax.vjp(lambda *variables: model(*constants, *variables), *variables)
            return output, pullback(numpy.ones_like(output) if start is None else start)

        self.both = jax.jit(both)

    def step(self) -> None:
        self.found = self.wait(self.both(self.constants, self.variables, self.start))

    def results(self) -> list[Array]:
        return [array_of(self.found[0]), *map(array_of, self.found[1])]

    def clear(self) -> None:
        self.found = None


def jax_models() -> Any:
    """Return the module of JAX's models; the first call starts JAX on one thread, with float64."""
    if _ONE_THREAD not in os.environ.get("XLA_FLAGS", ""):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_ONE_THREAD}".strip()
    models = import_module("benchmarks.jit.jax_models")
    models.jax.config.update("jax_enable_x64", True)
    return models


@final
class PyTensor(Compiling):
    """PyTensor, whose functions numba compiles; it keeps nothing between processes here."""

    def __init__(self, workload: Workload) -> None:
        models = import_module("benchmarks.jit.pytensor_models")
        problem = workload.problem()
        self.arrays = [*problem.constants, *problem.variables, *([] if problem.start is None else [problem.start])]
        self.make: Callable[[], Any] = lambda: models.compiled(getattr(models, workload.name), problem)
        self.function: Any = None
        self.found: Any = None

    def step(self) -> None:
        if self.function is None:
            self.function = self.make()
        self.found = self.function(*self.arrays)

    def results(self) -> list[Array]:
        return list(map(array_of, self.found))

    def clear(self) -> None:
        self.found = None


@final
class Floor(Side):
    """NumPy by hand."""

    def __init__(self, workload: Workload) -> None:
        problem = workload.problem()
        self.arrays = [*problem.constants, *problem.variables]
        self.start = np.float32(1.0) if problem.start is None else problem.start
        self.model = workload.floor
        self.output: Any = None
        self.found: Any = None

    def step(self) -> None:
        self.output, pullback = self.model(*self.arrays)
        self.found = pullback(self.start)

    def results(self) -> list[Array]:
        return [array_of(self.output), *self.found]

    def clear(self) -> None:
        self.output = self.found = None


def _installed() -> dict[str, type[Side]]:
    found: dict[str, type[Side]] = {"asyncgrad": Jitted, "table": Table, "eager": Eager}
    if torch is not None:
        found |= {"torch": Torch, "torch.compile": TorchCompile}
    if find_spec("jax") is not None:
        found["JAX"] = Jax
    if find_spec("pytensor") is not None:
        found["PyTensor"] = PyTensor
    if missing_extra() is None:
        found["loops"] = Loops
    return found | {"floor": Floor}


#: Those that are installed, by their names in tables. The first is what the others are compared with.
SIDES = _installed()
