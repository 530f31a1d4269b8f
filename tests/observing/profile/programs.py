"""Small programs to profile."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncgrad as ag

__all__ = ["Failing", "Nested", "Sleeping", "Waiting"]


class Sleeping(ag.Function):
    """The sum of tensors, whose backward sleeps for so many seconds."""

    @staticmethod
    def forward(ctx: Any, seconds: float, *tensors: ag.Tensor) -> Any:
        ctx.seconds, ctx.count = seconds, len(tensors)
        return sum(tensor.numpy() for tensor in tensors)

    @staticmethod
    async def backward(ctx: Any, grad: ag.Tensor) -> Any:
        await asyncio.sleep(ctx.seconds)
        return None, *[grad] * ctx.count


class Waiting(ag.Function):
    """x, whose backward waits for an event."""

    @staticmethod
    def forward(ctx: Any, x: ag.Tensor, event: asyncio.Event) -> Any:
        ctx.event = event
        return x.numpy() * 1.0

    @staticmethod
    async def backward(ctx: Any, grad: ag.Tensor) -> Any:
        await ctx.event.wait()
        return grad, None


class Failing(ag.Function):
    """x, whose backward raises."""

    @staticmethod
    def forward(ctx: Any, x: ag.Tensor) -> Any:
        return x.numpy() * 1.0

    @staticmethod
    def backward(ctx: Any, grad: ag.Tensor) -> Any:
        raise ZeroDivisionError("as asked")


class Nested(ag.Function):
    """x, whose backward runs another backward."""

    @staticmethod
    def forward(ctx: Any, x: ag.Tensor) -> Any:
        return x.numpy() * 1.0

    @staticmethod
    async def backward(ctx: Any, grad: ag.Tensor) -> Any:
        inner = ag.tensor([2.0], requires_grad=True)
        with ag.enable_grad():
            await ag.backward((inner * inner).sum())
        return grad
