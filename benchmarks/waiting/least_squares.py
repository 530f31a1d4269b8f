"""Least squares of 252 residuals of a solver behind HTTP, beside one step as often as steps follow one another.

Each evaluation is a request. The rows of a Jacobian at the same point are asked for after it: in a request for each
row, or in one for all.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Coroutine
from time import perf_counter
from typing import Any, ClassVar, final

import httpx
import numpy as np
from scipy import optimize as scipys

import asyncgrad as ag
from asyncgrad.scipy import optimize

from ..peers import Array
from .loops import LOOPS, OnEachLoop
from .server import PARAMETERS, RESIDUALS, solved

__all__ = ["SECONDS", "LeastSquares", "least_squares_at"]

#: How many clients there are; for each request, httpx looks at all connections of the client.
CLIENTS = 16
#: How long the solver takes for an answer.
SECONDS = 0.25

#: After how many evaluations the search ends; each is followed by a Jacobian.
EVALUATIONS = 2
#: Where the search begins, and what it looks for.
BEGIN, END = np.zeros(PARAMETERS), np.linspace(-0.5, 0.5, PARAMETERS)


@final
class Solver:
    """The solver, as a client sees it."""

    def __init__(self, address: str) -> None:
        # As many connections as there are requests at a time: the default would have others wait.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        # Without certificates, which take 50 ms to read, and there is no TLS.
        options: dict[str, Any] = {"base_url": address, "timeout": None, "trust_env": False, "verify": False}
        self.clients = [httpx.AsyncClient(limits=limits, **options) for _ in range(CLIENTS)]
        self.requests = 0
        self.pull_back_batched = ag.batched(self._pull_back_all)

    async def close(self) -> None:
        """Close the connections."""
        for client in self.clients:
            await client.aclose()

    async def solve(self, x: Array) -> Array:
        """Return the values at x."""
        return await self._ask("/solve", x)

    async def pull_back(self, x: Array, cotangents: Array) -> Array:
        """Return the products of rows of cotangents with the Jacobian at x."""
        found = await self._ask("/pullback", np.concatenate([x, cotangents.ravel()]))
        return found.reshape(-1, PARAMETERS)

    async def _pull_back_all(self, items: list[tuple[Array, Array]]) -> list[Array]:
        """Return the product of each cotangent; all are of one Jacobian."""
        return list(await self.pull_back(items[0][0], np.stack([cotangent for _, cotangent in items])))

    async def _ask(self, path: str, numbers: Array) -> Array:
        self.requests += 1
        client = self.clients[self.requests % CLIENTS]
        reply = await client.post(path, content=numbers.tobytes())
        reply.raise_for_status()
        return np.frombuffer(reply.content)


@final
class Concurrent(ag.Function):
    """The solver's values; a request for each row of a Jacobian."""

    concurrent = True

    @staticmethod
    async def forward(ctx: Any, solver: Solver, x: Any) -> Any:
        ctx.solver, ctx.x = solver, x.numpy()
        return await solver.solve(ctx.x)

    @staticmethod
    async def backward(ctx: Any, grad: Any) -> Any:
        (row,) = await ctx.solver.pull_back(ctx.x, grad.numpy())
        return None, row


@final
class Batched(ag.Function):
    """The same; the requests for rows become one."""

    concurrent = True
    forward = Concurrent.forward

    @staticmethod
    async def backward(ctx: Any, grad: Any) -> Any:
        return None, await ctx.solver.pull_back_batched((ctx.x, grad.numpy()))


@final
class Together(ag.Function):
    """The same; a request for all rows that are ready."""

    forward = Concurrent.forward
    backward = Concurrent.backward

    @staticmethod
    async def backward_batch(ctx: Any, grads: Any) -> Any:
        return None, await ctx.solver.pull_back(ctx.x, grads.numpy())


class LeastSquares(OnEachLoop):
    """Abstract: the solution; its steps one after another; the same requests by SciPy and httpx by hand (the floor).

    A subclass says where the solver is.
    """

    title = (
        f"least squares of {RESIDUALS} residuals, a step a request of {1000 * SECONDS:.0f} ms over HTTP, {{}}, on {{}}"
    )
    params = (("asyncgrad", "steps", "floor"), ("concurrent", "backward_batch", "@ag.batched"), LOOPS)
    #: A solve takes seconds, and is repeated in each round.
    calls: ClassVar[int | None] = 1
    kinds: ClassVar[dict[str, type[ag.Function]]] = {
        "concurrent": Concurrent,
        "backward_batch": Together,
        "@ag.batched": Batched,
    }
    address: ClassVar[str]

    async def setup(self, peer: str, kind: str, loop: str) -> None:
        """Connect to the solver, and count the steps."""
        self.peer, self.rule, self.is_one_request = peer, self.kinds[kind], kind != "concurrent"
        self.solver, self.target = Solver(self.address), solved(END)
        self.found: Any = await self._by_hand() if peer == "steps" else None
        self.solves = 0

    async def close(self) -> None:
        """Close the connections."""
        await self.solver.close()

    def gradients(self) -> list[Array]:
        """Return the solution, and the Jacobian there.

        Raises:
            AssertionError: there were other requests than those that the solution takes.
        """
        if self.peer == "asyncgrad":
            each = self.found.nfev + self.found.njev * (1 if self.is_one_request else RESIDUALS)
            if self.solver.requests != self.solves * each:
                raise AssertionError(f"{self.solves} solutions made {self.solver.requests} requests, not {each} each")
        return [np.asarray(self.found.x), np.asarray(self.found.jac)]

    async def time_solution(self) -> float | None:
        """Time the solution; or a request, as often as requests have to follow one another."""
        self.solves += 1
        if self.peer == "steps":
            begin = perf_counter()
            await self.solver.solve(BEGIN)
            return (perf_counter() - begin) * float(self.found.nfev + self.found.njev)
        if self.peer == "floor":
            self.found = await self._by_hand()
        else:
            self.found = await optimize.least_squares(self._residuals, BEGIN, max_nfev=EVALUATIONS)
        return None

    async def _residuals(self, x: Any) -> Any:
        return await self.rule.apply(self.solver, x) - self.target

    async def _by_hand(self) -> Any:
        """Return SciPy's result, run in a thread, whose requests this loop makes."""
        loop = asyncio.get_running_loop()

        def wait_for(coroutine: Coroutine[Any, Any, Array]) -> Array:
            return asyncio.run_coroutine_threadsafe(coroutine, loop).result()

        return await asyncio.to_thread(
            scipys.least_squares,
            lambda x: wait_for(self.solver.solve(x)) - self.target,
            BEGIN,
            lambda x: wait_for(self._jacobian_by_hand(x)),
            max_nfev=EVALUATIONS,
        )

    async def _jacobian_by_hand(self, x: Array) -> Array:
        """Return the Jacobian."""
        rows = np.eye(RESIDUALS)
        if self.is_one_request:
            return await self.solver.pull_back(x, rows)
        return np.concatenate(await asyncio.gather(*map(functools.partial(self.solver.pull_back, x), rows)))


def least_squares_at(where: str) -> type[LeastSquares]:
    """Return the benchmark with a solver at that address."""

    @final
    class LeastSquaresThere(LeastSquares):
        """The benchmark, with a solver at one address."""

        address = where

    return LeastSquaresThere
