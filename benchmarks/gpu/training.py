"""Trainings with one interface: by asyncgrad, by PyTorch, and by handwritten gradients in CuPy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self, final

import numpy as np

import asyncgrad as ag
from asyncgrad import optim
from asyncgrad.core.engine.compiled.api import COMPILED_AFTER

from ..peers import Array, Problem, torch
from .cases import Case

__all__ = ["LIBRARIES", "Training", "start_torch", "takes_part"]

#: The options of Adam, the same for all libraries.
RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-8


def start_torch(device: str) -> None:
    """Prepare PyTorch to compute on a device, in float32 without TF32, as CuPy does."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    if device == "cpu":
        torch.set_num_threads(1)
    else:
        torch.cuda.set_device(device)


class PeakMemory(ABC):
    """Abstract: a context manager that measures the peak of the GPU's memory that a library uses in its block."""

    def __init__(self) -> None:
        self.peak = 0

    @abstractmethod
    def __enter__(self) -> Self:
        """Start to measure."""

    @abstractmethod
    def __exit__(self, *_: object) -> None:
        """Set `peak` to the peak in bytes."""


@final
class CupyPeakMemory(PeakMemory):
    """The peak of CuPy's pool, read after each allocation of this thread, since the pool does not record it."""

    def __enter__(self) -> Self:
        import cupy

        watch, pool = self, cupy.get_default_memory_pool()
        # A step that allocates nothing calls no hook.
        self.peak = pool.used_bytes()

        @final
        class Hook(cupy.cuda.MemoryHook):  # type: ignore[misc]  # CuPy is untyped
            """The pool calls its methods."""

            name = "peak"

            def malloc_postprocess(self, **_: object) -> None:
                """Update the peak by the bytes in use."""
                watch.peak = max(watch.peak, pool.used_bytes())

        self.hook = Hook()
        self.hook.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.hook.__exit__(*_)


@final
class TorchPeakMemory(PeakMemory):
    """The peak that PyTorch's allocator records."""

    def __enter__(self) -> Self:
        torch.cuda.reset_peak_memory_stats()
        return self

    def __exit__(self, *_: object) -> None:
        self.peak = int(torch.cuda.max_memory_allocated())


class Training(ABC):
    """Abstract: trains the model of a case on a device with Adam, by one library.

    Args:
        case: the model.
        problem: its arrays.
        device: the name of the device.
    """

    def __init__(self, case: Case, problem: Problem, device: str) -> None:
        self.case = case
        self.device = device

    @abstractmethod
    async def differentiate(self) -> None:
        """Run forward and backward: compute the gradients of all variables."""

    @abstractmethod
    async def update(self) -> None:
        """Run a step of Adam with the current gradients."""

    @abstractmethod
    async def synchronize(self) -> None:
        """Wait until the device has finished its work."""

    @abstractmethod
    def gradients(self) -> list[Array]:
        """Return the gradients of the last backward."""

    @staticmethod
    def allocated_bytes() -> int:
        """Return the bytes of the GPU that the arrays of this library occupy."""
        import cupy

        return int(cupy.get_default_memory_pool().used_bytes())

    @staticmethod
    def peak_memory() -> PeakMemory:
        """Return a context manager that measures the peak of the GPU's memory that this library uses in its block."""
        return CupyPeakMemory()

    async def step(self) -> None:
        """Run one training step of the case."""
        if not self.case.updates_only:
            await self.differentiate()
        await self.update()


class AsyncgradTraining(Training):
    """Abstract base of asyncgrad with and without compiled autograd."""

    def __init__(self, case: Case, problem: Problem, device: str) -> None:
        super().__init__(case, problem, device)
        self.ag_device: Any = ag.device(device)
        self.model = case.models["asyncgrad"]
        self.constants = [ag.tensor(array, device=self.ag_device) for array in problem.constants]
        self.leaves: list[Any] = [
            ag.tensor(array, device=self.ag_device, requires_grad=True) for array in problem.variables
        ]
        start = problem.start
        self.start = None if start is None else ag.tensor(start, device=self.ag_device)
        self.optimizer = optim.Adam(self.leaves, RATE, (BETA1, BETA2), EPSILON)

    async def differentiate(self) -> None:
        """Run the forward, and await the backward."""
        self.optimizer.zero_grad()
        await self.model(*self.constants, *self.leaves).backward(self.start)

    async def update(self) -> None:
        """Run the optimizer."""
        self.optimizer.step()

    async def synchronize(self) -> None:
        """Await the device."""
        await self.ag_device.synchronize()

    def gradients(self) -> list[Array]:
        """Return the gradients of the leaves."""
        return [leaf.grad.to("cpu").numpy() for leaf in self.leaves]


@final
class EagerTraining(AsyncgradTraining):
    """asyncgrad, with an engine that runs each node."""


@final
class CompiledTraining(AsyncgradTraining):
    """asyncgrad, with a backward that runs as one compiled function."""

    async def differentiate(self) -> None:
        """Run forward and backward as in `ag.compiled_autograd`; a program enters one block for all steps."""
        token = COMPILED_AFTER.set(1)
        await super().differentiate()
        COMPILED_AFTER.reset(token)


class TorchTraining(Training):
    """Abstract base of PyTorch with either kind of its Adam."""

    is_fused: bool

    def __init__(self, case: Case, problem: Problem, device: str) -> None:
        super().__init__(case, problem, device)
        self.model = case.models["torch"]
        self.constants = [torch.tensor(array, device=device) for array in problem.constants]
        self.leaves = [torch.tensor(array, device=device, requires_grad=True) for array in problem.variables]
        start = problem.start
        self.start = None if start is None else torch.tensor(start, device=device)
        fused = {"fused": True} if self.is_fused else {}
        self.optimizer = torch.optim.Adam(self.leaves, RATE, (BETA1, BETA2), EPSILON, **fused)

    async def differentiate(self) -> None:
        """Run forward and backward."""
        self.optimizer.zero_grad()
        self.model(*self.constants, *self.leaves).backward(self.start)

    async def update(self) -> None:
        """Run the optimizer."""
        self.optimizer.step()

    async def synchronize(self) -> None:
        """Wait for the GPU, blocking."""
        if self.device != "cpu":
            torch.cuda.synchronize(self.device)

    def gradients(self) -> list[Array]:
        """Return the gradients of the leaves."""
        return [leaf.grad.cpu().numpy() for leaf in self.leaves]

    @staticmethod
    def allocated_bytes() -> int:
        """Return the bytes of the arrays of PyTorch's allocator."""
        return int(torch.cuda.memory_allocated())

    @staticmethod
    def peak_memory() -> PeakMemory:
        """Return a context manager that reads the peak from PyTorch's allocator."""
        return TorchPeakMemory()


@final
class DefaultTorchTraining(TorchTraining):
    """PyTorch with its default Adam, which updates all parameters by a few kernels (foreach)."""

    is_fused = False


@final
class FusedTorchTraining(TorchTraining):
    """PyTorch with `Adam(fused=True)`."""

    is_fused = True


@final
class HandwrittenTraining(Training):
    """Handwritten gradients, and Adam with one kernel for each parameter: in CuPy, or in NumPy on the cpu."""

    def __init__(self, case: Case, problem: Problem, device: str) -> None:
        super().__init__(case, problem, device)
        self.model = case.models["by hand"]
        self.cupy: Any = None
        if device != "cpu":
            import cupy

            self.cupy = cupy
            self.adam = cupy.ElementwiseKernel(
                "T g, T rate, T correction, T beta1, T beta2, T epsilon",
                "T p, T m, T v",
                "m += (g - m) * (1 - beta1); v += (g * g - v) * (1 - beta2); "
                "p -= rate * m / (sqrt(v) * correction + epsilon)",
                "adam_by_hand",
            )
        put: Any = np.array if self.cupy is None else self.cupy.asarray
        self.constants = [put(array) for array in problem.constants]
        self.variables = [put(array) for array in problem.variables]
        self.means = [array * 0 for array in self.variables]
        self.squares = [array * 0 for array in self.variables]
        self.grads: list[Any] = []
        self.steps = 0

    async def differentiate(self) -> None:
        """Run forward and backward."""
        _, pullback = self.model(*self.constants, *self.variables)
        self.grads = pullback(1.0)

    async def update(self) -> None:
        """Run Adam."""
        self.steps += 1
        rate, correction = RATE / (1 - BETA1**self.steps), (1 - BETA2**self.steps) ** -0.5
        for p, g, m, v in zip(self.variables, self.grads, self.means, self.squares, strict=True):
            if self.cupy is not None:
                self.adam(g, rate, correction, BETA1, BETA2, EPSILON, p, m, v)
                continue
            np.add(m, (g - m) * (1 - BETA1), out=m)
            np.add(v, (g * g - v) * (1 - BETA2), out=v)
            np.subtract(p, rate * m / (np.sqrt(v) * correction + EPSILON), out=p)

    async def synchronize(self) -> None:
        """Wait for the GPU, blocking."""
        if self.cupy is not None:
            self.cupy.cuda.get_current_stream().synchronize()

    def gradients(self) -> list[Array]:
        """Return the gradients of the last pullback."""
        return [np.asarray(array if self.cupy is None else self.cupy.asnumpy(array)) for array in self.grads]


#: The libraries, by the names under which their times are recorded. The gradients of all are compared with the first.
LIBRARIES: dict[str, type[Training]] = {
    "asyncgrad": EagerTraining,
    "asyncgrad, compiled": CompiledTraining,
    "torch": DefaultTorchTraining,
    "torch, fused Adam": FusedTorchTraining,
    "by hand": HandwrittenTraining,
}


def takes_part(library: type[Training], case: Case, *, alone: bool, quick: bool) -> bool:
    """Tell whether a library is measured on a case.

    Args:
        library: the library.
        case: the case.
        alone: leave PyTorch out.
        quick: leave compiled autograd out.
    """
    if issubclass(library, TorchTraining):
        return not alone
    if library is HandwrittenTraining:
        return "by hand" in case.models
    return library is not CompiledTraining or not (quick or case.updates_only)
