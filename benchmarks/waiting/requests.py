"""Two hundred rules that ask for an answer of 20 ms each by one batched function, at depth 1 and at depth 4."""

from __future__ import annotations

import asyncio
from typing import Any, final

import numpy as np

import asyncgrad as ag

from ..peers import Array
from .loops import LOOPS, OnEachLoop

__all__ = ["Requests"]

RULES, SECONDS = 200, 0.020
#: The length of each vector that is asked for.
SIZE = 3


@final
class Asking(ag.Function):
    """Half of its input; `halve` is asked for the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any, halve: Any) -> Any:
        ctx.halve = halve
        return x.numpy() / 2.0

    @staticmethod
    async def backward(ctx: Any, grad: Any) -> Any:
        return await ctx.halve(grad.numpy()), None


@final
class ByHand:
    """The same by hand: a task for each chain of rules; what is asked for in one turn of the loop is one request."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._asked: list[tuple[Array, asyncio.Future[Array]]] = []

    async def run(self) -> Array:
        """Return the gradient of the leaf."""
        self._loop = asyncio.get_running_loop()
        found = await asyncio.gather(*(self._run_chain() for _ in range(RULES // self._depth)))
        total: Array = sum(found[1:], start=found[0])
        return total

    async def _run_chain(self) -> Array:
        grad = np.ones(SIZE)
        for _ in range(self._depth):
            answer: asyncio.Future[Array] = self._loop.create_future()
            self._asked.append((grad, answer))
            if len(self._asked) == 1:
                self._loop.call_soon(self._send)
            grad = await answer
        return grad

    def _send(self) -> None:
        asked, self._asked = self._asked, []
        # asyncio itself holds tasks weakly.
        self._request = self._loop.create_task(self._answer(asked))

    async def _answer(self, asked: list[tuple[Array, asyncio.Future[Array]]]) -> None:
        await asyncio.sleep(SECONDS)
        for grad, answer in asked:
            answer.set_result(grad / 2.0)


@final
class Requests(OnEachLoop):
    """The backward; the waits of as many requests as rules lie one beneath another; the same by hand (the floor)."""

    title = f"{RULES} rules of {1000 * SECONDS:.0f} ms at depth {{}} by @ag.batched, on {{}}"
    params = (("asyncgrad", "requests", "floor"), (1, 4), LOOPS)

    def setup(self, peer: str, depth: int, loop: str) -> None:
        """Make the batched function, and the leaf."""
        self.peer, self.depth = peer, depth
        self.x = ag.tensor(np.ones(SIZE), requires_grad=True)
        self.backward_passes = self.requests = 0
        self.found: Array = np.zeros(SIZE)

        @ag.batched
        async def halve(grads: list[Any]) -> list[Any]:
            self.requests += 1
            await asyncio.sleep(SECONDS)
            return [grad / 2.0 for grad in grads]

        self.halve = halve

    def gradients(self) -> list[Array]:
        """Return the gradient of the leaf.

        Raises:
            AssertionError: there were more requests than rules lie one beneath another.
        """
        if self.peer == "floor":
            return [self.found]
        if self.peer != "asyncgrad":
            return [np.full(SIZE, RULES // self.depth * 0.5**self.depth)]
        fewest = self.backward_passes * self.depth
        if self.requests != fewest:
            raise AssertionError(
                f"{self.backward_passes} backward passes of depth {self.depth} made {self.requests} requests, not "
                f"{fewest}"
            )
        assert self.x.grad is not None
        return [self.x.grad.numpy()]

    def prepare_backward(self) -> None:
        """Run the forward."""
        self.x.grad = None
        self.ends = []
        for _ in range(RULES // self.depth if self.peer == "asyncgrad" else 0):
            y = self.x
            for _ in range(self.depth):
                y = Asking.apply(y, self.halve)
            self.ends.append(y)

    async def time_backward(self) -> float | None:
        """Time the backward; the time of the requests is known without a measurement."""
        if self.peer == "requests":
            return self.depth * SECONDS
        if self.peer == "floor":
            self.found = await ByHand(self.depth).run()
        else:
            self.backward_passes += 1
            await ag.backward(self.ends, [np.ones(SIZE)] * len(self.ends))
        return None
