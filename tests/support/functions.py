"""Functions whose forward and backward the test writes, and a few whose derivative is known."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

import asyncgrad as ag

__all__ = ["Calling", "Cubed", "Doubled", "Split", "awaiting", "calling", "function", "split"]


def function(forward: Any, backward: Any = lambda ctx, grad: grad, name: str = "Made") -> type[ag.Function]:
    """The Function of a forward that takes a ctx, and of a backward."""
    return type(name, (ag.Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})


class Doubled(ag.Function):
    """x * 2."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class Cubed(ag.Function):
    """x ** 3."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return np.power(x, 3.0)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3.0 * x * x


class Calling(ag.Function):
    """A copy of x whose backward calls `callback(grad)`; what that returns, if anything, is the gradient."""

    @staticmethod
    def forward(ctx, x, callback):
        ctx.callback = callback
        return x.numpy().copy()

    @staticmethod
    def backward(ctx, grad):
        result = ctx.callback(grad)
        return (grad if result is None else result), None


class Awaiting(ag.Function):
    """A copy of x whose backward awaits `callback(grad)`; what that returns, if anything, is the gradient."""

    @staticmethod
    def forward(ctx, x, callback):
        ctx.callback = callback
        return x.numpy().copy()

    @staticmethod
    async def backward(ctx, grad):
        result = await ctx.callback(grad)
        return (grad if result is None else result), None


class Split(ag.Function):
    """Two copies of x; the backward gets what arrived at each, None where nothing did."""

    @staticmethod
    def forward(ctx, x, callback):
        ctx.callback = callback
        ctx.set_materialize_grads(False)
        return x.numpy().copy(), x.numpy().copy()

    @staticmethod
    def backward(ctx, first, second):
        return ctx.callback(first, second), None


def calling(x: ag.Tensor, callback: Callable[[Any], Any]) -> Any:
    return Calling.apply(x, callback)


def awaiting(x: ag.Tensor, callback: Callable[[Any], Awaitable[Any]]) -> Any:
    return Awaiting.apply(x, callback)


def split(x: ag.Tensor, callback: Callable[[Any, Any], Any]) -> Any:
    return Split.apply(x, callback)
