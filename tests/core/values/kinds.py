"""Kinds of values that the laws of a backward are held to: arrays, texts, trees; each with a step and gradients."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, final

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.values import Feedback, Text, Tree

__all__ = ["KINDS", "Kind", "each_kind"]


class Kind(ABC):
    """Abstract: what the laws need of a kind."""

    @abstractmethod
    def leaf(self) -> Any:
        """Return a new leaf that requires grad."""

    @abstractmethod
    def made(self, name: str, device: Any = None) -> Any:
        """Return what a forward returns."""

    @abstractmethod
    def gradient(self, number: int) -> Any:
        """Return a gradient, as the caller of a backward gives it."""

    @abstractmethod
    def mapped(self, name: str, gradient: Any) -> Any:
        """Return what the rule of a step returns for one argument."""

    @abstractmethod
    def shown(self, gradient: Any) -> Any:
        """Return what two gradients are compared by."""

    def total(self, gradients: Sequence[Any]) -> Any:
        """Return the sum of gradients, as shown."""
        first, *others = gradients
        for one in others:
            first = self.add(first, one)
        return self.shown(first)

    def add(self, first: Any, second: Any) -> Any:
        return first + second

    def join(self, name: str, *values: Any) -> Any:
        """Return a value that depends on others, by a rule that awaits, and gives each its own gradient."""
        return Join.apply(self, name, *values)


@final
class Arrays(Kind):
    def leaf(self):
        return ag.tensor([1.0, 2.0], requires_grad=True)

    def made(self, name, device=None):
        return np.ones(2)

    def gradient(self, number):
        return np.array([number, 2.0 * number])

    def mapped(self, name, gradient):
        return gradient * (2.0 + len(name))

    def shown(self, gradient):
        return None if gradient is None else np.asarray(ag.asarray(gradient).detach().numpy()).tolist()


@final
class Texts(Kind):
    type = Text()

    def leaf(self):
        return ag.leaf("a prompt", type=self.type)

    def made(self, name, device=None):
        return ag.Value(f"made by {name}", self.type)

    def gradient(self, number):
        return (Feedback(f"no. {number}"),)

    def mapped(self, name, gradient):
        return tuple(Feedback(f"{name}: {one.text}", name) for one in gradient)

    def shown(self, gradient):
        return gradient


@final
class Trees(Kind):
    type = Tree()

    def leaf(self):
        return ag.leaf({"a": 1.0, "b": np.ones(2)}, type=self.type)

    def made(self, name, device=None):
        return ag.Value({"a": 3.0, "b": np.zeros(2)}, self.type)

    def gradient(self, number):
        return {"a": float(number), "b": np.array([number, 2.0 * number])}

    def mapped(self, name, gradient):
        return {key: part * (2.0 + len(name)) for key, part in gradient.items()}

    def shown(self, gradient):
        return None if gradient is None else {key: np.asarray(part).tolist() for key, part in gradient.items()}

    def add(self, first, second):
        return self.type.add(first, second)


@final
class Join(ag.Function):
    """A step of any kind."""

    @staticmethod
    def forward(ctx, kind, name, *values):
        ctx.kind, ctx.name, ctx.count = kind, name, len(values)
        return kind.made(name)

    @staticmethod
    async def backward(ctx, gradient):
        await asyncio.sleep(0)
        # Each argument is told apart: the first is `name`, the second `name'`.
        return None, None, *(ctx.kind.mapped(ctx.name + "'" * index, gradient) for index in range(ctx.count))


KINDS = {"array": Arrays(), "text": Texts(), "tree": Trees()}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
