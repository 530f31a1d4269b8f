"""A Jacobian of a hundred rows through three rules that wait, beside one row of it.

Rows that wait run together, so that all should take as long as one.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar, final

import numpy as np

import asyncgrad as ag

from ..peers import Array
from .loops import LOOPS, OnEachLoop

__all__ = ["Rows"]

ROWS, RULES, SECONDS = 100, 3, 0.050


@final
class Concurrent(ag.Function):
    """Half of its square. Its backward waits; it runs for several rows at the same time."""

    concurrent = True

    @staticmethod
    def forward(ctx: Any, x: Any, calls: list[int]) -> Any:
        ctx.save_for_backward(x)
        ctx.calls = calls
        return x.numpy() * x.numpy() / 2.0

    @staticmethod
    async def backward(ctx: Any, grad: Any) -> Any:
        await asyncio.sleep(SECONDS)
        (x,) = ctx.saved_tensors
        return grad.numpy() * x.numpy(), None


@final
class Together(ag.Function):
    """The same; one call answers for all rows that are ready."""

    forward = Concurrent.forward
    backward = Concurrent.backward

    @staticmethod
    async def backward_batch(ctx: Any, grads: Any) -> Any:
        ctx.calls.append(len(grads.numpy()))
        await asyncio.sleep(SECONDS)
        (x,) = ctx.saved_tensors
        return grads.numpy() * x.numpy(), None


@final
class Rows(OnEachLoop):
    """All rows, one row, and as many tasks as there are rows that wait as often (the floor)."""

    title = f"Jacobian of {ROWS} rows through {RULES} rules of {1000 * SECONDS:.0f} ms, {{}}, on {{}}"
    params = (("asyncgrad", "one row", "floor"), ("concurrent", "backward_batch"), LOOPS)
    kinds: ClassVar[dict[str, type[ag.Function]]] = {"concurrent": Concurrent, "backward_batch": Together}

    def setup(self, peer: str, kind: str, loop: str) -> None:
        """Choose the rule, and where the Jacobian is taken."""
        self.peer, self.rule = peer, self.kinds[kind]
        self.x = np.linspace(0.5, 1.5, ROWS)
        self.found: Any = None
        #: For each call of `backward_batch`, how many rows it had.
        self.batches: list[int] = []

    def gradients(self) -> list[Array]:
        """Return the Jacobian: rows that have been computed, and else those of the derivative by hand.

        Raises:
            AssertionError: a call of `backward_batch` had not all rows.
        """
        if self.peer == "asyncgrad" and any(rows != ROWS for rows in self.batches):
            raise AssertionError(f"calls of backward_batch for {ROWS} rows had {self.batches}")
        value, slope = self.x, np.ones(ROWS)
        for _ in range(RULES):
            slope = slope * value
            value = value * value / 2.0
        expected = np.diag(slope)
        if self.found is not None:
            expected[: len(self.found)] = self.found.numpy()
        return [expected]

    async def time_jacobian(self) -> None:
        """Time the Jacobian, or what it is compared with."""
        if self.peer == "floor":
            await asyncio.gather(*(_wait() for _ in range(ROWS)))
        else:
            self.found = await ag.jacobian(self._rows, self.x)

    def _rows(self, x: Any) -> Any:
        for _ in range(RULES):
            x = self.rule.apply(x, self.batches)
        return x[:1] if self.peer == "one row" else x


async def _wait() -> None:
    for _ in range(RULES):
        await asyncio.sleep(SECONDS)
