"""Small random graphs of which every step can be made the last: each body, hook, suspension and final callback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

import asyncgrad as ag
from asyncgrad import sync
from tests.core.engine.watched import Watched
from tests.support import oracle
from tests.support.functions import awaiting, calling, split

__all__ = ["StepGraph", "Steps", "doubled"]


class Steps:
    """Counts what happens, and does something at one of the steps.

    Args:
        stop_at: at which; None lets all pass.
        stop: what to do there, given the name of the step.
    """

    def __init__(self, stop_at: int | None = None, stop: Callable[[str], Any] = lambda name: None) -> None:
        self.names: list[str] = []
        self._stop_at = stop_at
        self._stop = stop

    def __call__(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) - 1 == self._stop_at:
            self._stop_at = None
            self._stop(name)

    def arm(self, stop_at: int | None, stop: Callable[[str], Any]) -> None:
        """Begin to count anew."""
        self.names.clear()
        self._stop_at, self._stop = stop_at, stop

    @property
    def has_stopped(self) -> bool:
        return self._stop_at is None

    async def wait(self, name: str) -> None:
        """Take three steps, with a suspension after each of the first two."""
        self(f"{name} begins")
        await asyncio.sleep(0)
        self(f"{name} goes on")
        await asyncio.sleep(0)
        self(f"{name} ends")


def doubled(grads: Any) -> Any:
    """Return twice the gradient, or each of them, as a hook does."""
    if isinstance(grads, tuple):
        return tuple(doubled(grad) for grad in grads)
    return None if grads is None else np.multiply(grads, 2.0)


def _copies(x: oracle.Var) -> list[oracle.Var]:
    def rule(grads: list[Any]) -> list[Any]:
        first, second = grads
        return [oracle.add(first, second) if first and second else first or second]

    return oracle.apply([x], rule, x.value, x.value)


def _copy(x: oracle.Var) -> list[oracle.Var]:
    return oracle.apply([x], lambda g: g, x.value, zeros_for_none=True)


RULES: dict[str, Any] = {
    "add": lambda x, y: [oracle.add(x, y)],
    "multiply": lambda x, y: [oracle.multiply(x, y)],
    "body": _copy,
    "async body": _copy,
    "nested": _copy,
    "split": _copies,
}


class StepGraph:
    """A random graph over three leaves, the same for the same seed.

    Args:
        seed: what is random is drawn from this.
        steps: what every body and hook reports to.
        suspends: whether there may be an `async def` among them.
        size: how many operations there are.
    """

    def __init__(self, seed: int, steps: Steps, *, suspends: bool, size: int = 5) -> None:
        self._random = Random(seed)
        self._steps = steps
        self._suspends = suspends
        self.watched = Watched(RULES)
        #: What bodies accumulate by a backward of their own: a leaf and its gradient.
        self.nested: list[tuple[int, np.ndarray]] = []
        self._add_leaves()
        for _ in range(size):
            self._add_operation()
        used = {operand for operation in self.watched.operations for operand in operation.operands}
        count = len(self.watched.tensors)
        self.roots = [index for index in range(count) if index not in used and index not in self.watched.data]
        self.root_grads = [np.array([1.0, float(number)]) for number in range(1, len(self.roots) + 1)]

    @property
    def root_tensors(self) -> list[ag.Tensor]:
        return [self.watched.tensors[root] for root in self.roots]

    def expect_backward(self) -> None:
        self.watched.expect_backward(self.roots, self.root_grads)
        for leaf, grad in self.nested:
            self.watched.accumulate(leaf, grad)

    def _add_leaves(self) -> None:
        for number in range(3):
            leaf = ag.tensor([number + 1.0, -2.0], requires_grad=True)
            if number == 1:
                # Its gradient has been written into.
                for _ in range(2):
                    sync.backward(np.multiply(leaf, 3.0), np.ones(2))
            elif number == 2:
                leaf.grad = ag.tensor([-0.0, 5.0])
            index = self.watched.add_leaf(leaf)
            self._hook_tensor(index)
            if self._chance(0.3):
                hook = self._hook(f"post-accumulate hook of leaf {index}", None)
                leaf.register_post_accumulate_grad_hook(hook, overlap=self._chance(0.5))

    def _add_operation(self) -> None:
        watched, random = self.watched, self._random
        name = random.choice(["add", "multiply", "body", "async body", "async body", "split", "nested"])
        if name == "async body" and not self._suspends:
            name = "body"
        # Recent values first, so that there is some depth.
        operands = [max(random.randrange(len(watched.tensors)) for _ in range(2)) for _ in RULES_ARITY[name]]
        tensors = [watched.tensors[operand] for operand in operands]
        where = f"{name} {len(watched.operations)}"
        if name in ("add", "multiply"):
            first, second = tensors
            results = [np.add(first, second) if name == "add" else np.multiply(first, second)]
        elif name == "body":
            results = [calling(tensors[0], self._body(where))]
        elif name == "async body":
            results = [awaiting(tensors[0], lambda grad: self._steps.wait(where))]
        elif name == "split":
            results = list(split(tensors[0], self._sum(where)))
        else:
            results = [self._nested(tensors[0], where)]
        outputs = watched.add(name, operands, results)
        self._hook_node(len(watched.operations) - 1, results[0].grad_fn)
        for output in outputs:
            self._hook_tensor(output)
            if self._chance(0.3):
                watched.tensors[output].retain_grad()
                watched.retained.add(output)

    def _body(self, where: str) -> Callable[[Any], None]:
        queues = self._chance(0.4)

        def body(grad: Any) -> None:
            self._steps(where)
            if queues:
                ag.engine.queue_callback(callback)

        callback = self._hook(f"final callback of {where}", None)
        return body

    def _sum(self, where: str) -> Callable[[Any, Any], Any]:
        def body(first: Any, second: Any) -> Any:
            self._steps(where)
            return second if first is None else first if second is None else np.add(first, second)

        return body

    def _nested(self, x: ag.Tensor, where: str) -> Any:
        """Return a copy of x whose backward runs another one over a leaf of the graph."""
        leaf = self.watched.tensors[(index := self._random.randrange(3))]
        factors = self.watched.tensor_hooks.get(index, [])
        self.nested.append((index, np.array([3.0, 3.0]) * float(np.prod(factors))))

        def inner() -> Any:
            with ag.enable_grad():
                tripled = np.multiply(leaf, 3.0)
                if self._suspends:
                    return awaiting(tripled, lambda grad: self._steps.wait(f"inside of {where}"))
                return calling(tripled, lambda grad: self._steps(f"inside of {where}"))

        def body(grad: Any) -> None:
            self._steps(f"{where} begins")
            sync.backward(inner(), np.ones(2))
            self._steps(f"{where} ends")

        async def async_body(grad: Any) -> None:
            self._steps(f"{where} begins")
            await ag.backward(inner(), np.ones(2))
            await self._steps.wait(where)

        return awaiting(x, async_body) if self._suspends else calling(x, body)

    def _hook_tensor(self, index: int) -> None:
        for factor in (1.0, 2.0):
            if self._chance(0.15):
                hook = self._hook(f"tensor hook of {index}", doubled if factor == 2.0 else None)
                self.watched.tensors[index].register_hook(hook)
                self.watched.tensor_hooks.setdefault(index, []).append(factor)

    def _hook_node(self, nr: int, node: Any) -> None:
        for factor in (1.0, 2.0):
            change = doubled if factor == 2.0 else None
            if self._chance(0.1):
                node.register_prehook(self._hook(f"pre-hook of {nr}", change))
                self.watched.pre_hooks.setdefault(nr, []).append(factor)
            if self._chance(0.1):
                node.register_hook(self._hook(f"post-hook of {nr}", change))
                self.watched.post_hooks.setdefault(nr, []).append(factor)

    def _hook(self, where: str, change: Callable[[Any], Any] | None) -> Callable[..., Any]:
        """Return a hook of any kind, or a callback, sync or async; `change` makes what it returns."""

        def hook(*arguments: Any) -> Any:
            self._steps(where)
            return None if change is None else change(arguments[0])

        async def async_hook(*arguments: Any) -> Any:
            await self._steps.wait(where)
            return None if change is None else change(arguments[0])

        return async_hook if self._suspends and self._chance(0.5) else hook

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability


#: One letter for each operand.
RULES_ARITY = {"add": "xy", "multiply": "xy", "body": "x", "async body": "x", "nested": "x", "split": "x"}
