"""How late a timer of 1 ms fires beside a backward, a training step, a loop of small ones: the 99th percentile."""

from __future__ import annotations

import asyncio
import itertools
from time import perf_counter
from typing import Any, final

import numpy as np

import asyncgrad as ag
from asyncgrad import nn, optim

from .peers import Array, torch
from .runner import Benchmark

__all__ = ["BENCHMARKS", "Lateness"]

NODES, PRODUCTS, SIDE = 80_000, 30, 512
LAYERS, WIDTH, BATCH = 8, 1000, 256
PASSES, TASKS = 10_000, 100
#: Of steps that take some 15 ms each: how many, of how many layers of which width, with how many rows.
STEPS, STEP_LAYERS, STEP_WIDTH, STEP_ROWS = 20, 6, 384, 192
INTERVAL = 0.001
#: The smallest lateness in seconds that is reported, so that ratios are finite.
ON_TIME = 1e-6
#: The seconds for which the idle loop is measured.
IDLE_SECONDS = 0.3


async def lateness_during(work: Any) -> float:
    """Return the 99th percentile of the lateness of a timer, in seconds, while `work` runs."""
    loop = asyncio.get_running_loop()
    late = []

    async def tick() -> None:
        while True:
            due = perf_counter() + INTERVAL
            await asyncio.sleep(INTERVAL)
            late.append(perf_counter() - due)

    ticker = loop.create_task(tick())
    await asyncio.sleep(2 * INTERVAL)
    late.clear()
    await work
    # A timer that is due fires now.
    await asyncio.sleep(INTERVAL)
    while not late:  # noqa: ASYNC110  # the work was shorter than an interval
        await asyncio.sleep(INTERVAL)
    ticker.cancel()
    # uvloop's timers have a resolution of one millisecond, and may fire early.
    return max(float(np.percentile(late, 99)), ON_TIME)


@final
class Lateness(Benchmark):
    """asyncgrad, awaited; PyTorch, with its backward in a thread (`asyncio.to_thread`); and an idle loop."""

    title = "lateness of a 1 ms timer, {}"
    section = (
        "How late a timer of one millisecond fires while a backward, or a training step, runs on its loop, the 99th "
        "percentile; beside PyTorch's in a thread of its own, and beside a loop on which nothing else runs."
    )
    params = (
        ("asyncgrad", *(() if torch is None else ("torch",)), "idle"),
        ("80,000 small nodes", "30 products of 512 × 512"),
    )
    calls = 1
    y: Any

    def setup(self, peer: str, what: str) -> None:
        """Create the leaf."""
        self.peer = peer
        self.is_small = what.endswith("nodes")
        shape = (16,) if self.is_small else (SIDE, SIDE)
        self.data = np.full(shape, 0.5, np.float64 if self.is_small else np.float32)
        if peer == "torch":
            self.x: Any = torch.from_numpy(self.data.copy()).requires_grad_()
        else:
            self.x = ag.tensor(self.data, requires_grad=True)

    def gradients(self) -> list[Array] | None:
        """Return the gradient of the leaf, or None for the idle loop."""
        return None if self.x.grad is None else [self.x.grad.numpy()]

    def prepare_backward(self) -> None:
        """Run the forward."""
        if self.peer == "idle":
            return
        y = self.x
        y.grad = None
        if self.is_small:
            for _ in range(NODES // 2):
                y = y * self.x + self.x
        else:
            for _ in range(PRODUCTS):
                y = y @ self.x / SIDE
        self.y = y.sum()

    async def time_backward(self) -> float:
        """Return the lateness while the backward runs."""
        if self.peer == "idle":
            return await lateness_during(asyncio.sleep(IDLE_SECONDS))
        work = asyncio.to_thread(self.y.backward) if self.peer == "torch" else self.y.backward()
        late = await lateness_during(work)
        self.y = None
        return late


@final
class StepLateness(Benchmark):
    """The same during a training step: forward, backward and update; asyncgrad awaits each, PyTorch has a thread."""

    title = "lateness of a 1 ms timer, {}"
    section = Lateness.section
    params = (("asyncgrad", *(() if torch is None else ("torch",)), "idle"), ("8 layers of 1,000",))
    calls = 1

    def setup(self, peer: str, _: str) -> None:
        """Create the model, the data and the optimizer."""
        self.peer = peer
        rng = np.random.default_rng(0)
        weights = [(rng.standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH)).astype(np.float32) for _ in range(LAYERS)]
        x = rng.standard_normal((BATCH, WIDTH)).astype(np.float32)
        # Without a change of the weights, every peer has the same gradients however often it is measured.
        if peer == "torch":
            self.x: Any = torch.from_numpy(x)
            linear = [torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in weights]
            self.model: Any = torch.nn.Sequential(*itertools.chain(*((each, torch.nn.Tanh()) for each in linear)))
            self.optimizer: Any = torch.optim.SGD(self.model.parameters(), lr=0.0, momentum=0.9)
            for each, weight in zip(linear, weights, strict=True):
                each.weight.data = torch.from_numpy(weight)
        else:
            self.x = x
            layers = [nn.Linear(WIDTH, WIDTH, bias=False, dtype=np.float32) for _ in weights]
            self.model = nn.Sequential(*itertools.chain(*((each, nn.Tanh()) for each in layers)))
            self.optimizer = optim.SGD(self.model.parameters(), lr=0.0, momentum=0.9)
            for layer, weight in zip(layers, weights, strict=True):
                layer.update({"weight": weight})

    def gradients(self) -> list[Array] | None:
        """Return the gradients of the weights, or None for the idle loop."""
        grads = [param.grad for param in self.model.parameters()]
        return None if grads[0] is None else [grad.numpy() for grad in grads]

    async def time_step(self) -> float:
        """Return the lateness during a step."""
        if self.peer == "idle":
            return await lateness_during(asyncio.sleep(IDLE_SECONDS))
        return await lateness_during(asyncio.to_thread(self._blocking_step) if self.peer == "torch" else self._step())

    def _blocking_step(self) -> None:
        self.optimizer.zero_grad()
        (self.model(self.x) ** 2).mean().backward()
        self.optimizer.step()

    async def _step(self) -> None:
        self.optimizer.zero_grad()
        loss = ((await ag.forward(self.model, self.x)) ** 2).mean()
        await loss.backward()
        await self.optimizer.step_async()


@final
class LoopLateness(Benchmark):
    """The same during a loop of small steps, none of which takes as long as the budget; PyTorch loops in a thread."""

    title = "lateness of a 1 ms timer, {}"
    section = (
        "How late a timer of one millisecond fires beside a program of many small steps, the 99th percentile: a loop "
        "of small backward passes, the same from a hundred tasks, a training of a small model, and a loop of a "
        "transform; beside PyTorch's loop in a thread of its own, and beside a loop on which nothing else runs."
    )
    params = (
        ("asyncgrad", *(() if torch is None else ("torch",)), "idle"),
        (
            "10,000 backward passes",
            "100 tasks of 100 backward passes",
            "2,000 training steps",
            "5,000 calls of a transform",
        ),
    )
    calls = 1

    def setup(self, peer: str, what: str) -> None:
        """Create the leaf and the model."""
        self.peer, self.what = peer, what
        data = np.linspace(0.0, 1.0, 16)
        if peer == "torch":
            self.x: Any = torch.from_numpy(data).requires_grad_()
            self.model: Any = torch.nn.Linear(16, 1, dtype=torch.float64)
            self.optimizer: Any = torch.optim.SGD(self.model.parameters(), lr=0.0)
        else:
            self.x = ag.tensor(data, requires_grad=True)
            self.model = nn.Linear(16, 1, dtype=np.float64)
            self.optimizer = optim.SGD(self.model.parameters(), lr=0.0)

    def gradients(self) -> None:
        """Return None: the passes of the peers add up in another order."""

    async def time_loop(self) -> float:
        """Return the lateness during the loop."""
        if self.peer == "idle":
            return await lateness_during(asyncio.sleep(IDLE_SECONDS))
        return await lateness_during(asyncio.to_thread(self._block) if self.peer == "torch" else self._run())

    async def _run(self) -> None:
        if "tasks" in self.what:
            async with asyncio.TaskGroup() as group:
                for _ in range(TASKS):
                    group.create_task(self._backward_passes(PASSES // TASKS))
        elif "training" in self.what:
            for _ in range(PASSES // 5):
                self.optimizer.zero_grad()
                await (self.model(self.x.detach()) ** 2).sum().backward()
                await self.optimizer.step_async()
        elif "transform" in self.what:
            gradient = ag.func.grad(lambda x: (x * x).sum())
            for _ in range(PASSES // 2):
                await gradient(self.x)
        else:
            await self._backward_passes(PASSES)

    async def _backward_passes(self, count: int) -> None:
        for _ in range(count):
            await (self.x * self.x).sum().backward()

    def _block(self) -> None:
        if "training" in self.what:
            for _ in range(PASSES // 5):
                self.optimizer.zero_grad()
                (self.model(self.x.detach()) ** 2).sum().backward()
                self.optimizer.step()
        else:
            for _ in range(PASSES // 2 if "transform" in self.what else PASSES):
                (self.x * self.x).sum().backward()


@final
class CompiledLateness(Benchmark):
    """The same during compiled steps, awaited one after the other; beside the same steps without a compiler."""

    title = "lateness of a 1 ms timer, {}"
    section = (
        f"How late a timer of one millisecond fires beside {STEPS} compiled steps of some 15 ms each, one after the "
        "other, the 99th percentile: `ag.jit.train_step`, and a compiled forward by `ag.forward` with its backward; "
        "beside the same steps without a compiler, and beside a loop on which nothing else runs."
    )
    params = (
        ("asyncgrad", "eager", "idle"),
        (f"{STEPS} compiled training steps", f"{STEPS} compiled forwards and backwards"),
    )
    calls = 1
    loss: Any

    async def setup(self, peer: str, what: str) -> None:
        """Create the model and the data, and have the steps compiled."""
        self.peer = peer
        self.trains = what.endswith("training steps")
        rng = np.random.default_rng(0)
        self.x = rng.standard_normal((STEP_ROWS, STEP_WIDTH)).astype(np.float32)
        layers = [nn.Linear(STEP_WIDTH, STEP_WIDTH, dtype=np.float32) for _ in range(STEP_LAYERS)]
        for layer in layers:
            weight = rng.standard_normal((STEP_WIDTH, STEP_WIDTH)) / np.sqrt(STEP_WIDTH)
            layer.update({"weight": weight.astype(np.float32), "bias": np.zeros(STEP_WIDTH, np.float32)})
        self.model = nn.Sequential(*itertools.chain(*((each, nn.Tanh()) for each in layers)))
        # Without a change of the weights, every step has the same loss.
        self.optimizer = optim.SGD(self.model, lr=0.0, momentum=0.9)
        model = self.model

        def loss_fn(x: Array) -> Any:
            return (model(x) ** 2).mean()

        is_compiled = peer == "asyncgrad"
        self.loss_fn = ag.jit(loss_fn) if is_compiled else loss_fn
        self.step: Any = ag.jit.train_step(loss_fn, self.optimizer) if is_compiled else self._eager_step
        if peer != "idle":
            await self._steps()

    def gradients(self) -> list[Array] | None:
        """Return the loss, which all steps have in common, or None for the idle loop."""
        return None if self.peer == "idle" else [self.loss.detach().numpy()]

    async def time_steps(self) -> float:
        """Return the lateness during the steps."""
        return await lateness_during(asyncio.sleep(IDLE_SECONDS) if self.peer == "idle" else self._steps())

    async def _steps(self) -> None:
        for _ in range(STEPS):
            self.loss = await (self.step(self.x) if self.trains else self._forward_and_backward(self.x))

    async def _forward_and_backward(self, x: Array) -> Any:
        self.optimizer.zero_grad()
        loss = await ag.forward(self.loss_fn, x)
        await loss.backward()
        return loss

    async def _eager_step(self, x: Array) -> Any:
        loss = await self._forward_and_backward(x)
        await self.optimizer.step_async()
        return loss


BENCHMARKS = [Lateness, StepLateness, LoopLateness, CompiledLateness]
