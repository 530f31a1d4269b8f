"""What the tests of saved-tensor hooks pack and unpack with."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np

import asyncgrad as ag

__all__ = ["Gate", "Store", "as_is", "saving_chain"]


def as_is(value: Any) -> Any:
    return value


def saving_chain(x: Any) -> Any:
    """A few operations that save inputs, outputs and a leaf, some of them twice."""
    y = np.exp(x) * x
    return (np.tanh(y) * y * y).sum()


class Store:
    """Hooks that keep copies in a list, and write down each call."""

    def __init__(self) -> None:
        self.arrays: list[Any] = []
        self.shown: list[Any] = []
        self.unpacked: list[int] = []

    def pack(self, tensor: Any) -> int:
        self.shown.append(tensor)
        self.arrays.append(tensor.numpy().copy())
        return len(self.arrays) - 1

    def unpack(self, number: int) -> Any:
        self.unpacked.append(number)
        return self.arrays[number]

    async def pack_later(self, tensor: Any) -> int:
        await asyncio.sleep(0)
        return self.pack(tensor)

    async def unpack_later(self, number: int) -> Any:
        await asyncio.sleep(0)
        return self.unpack(number)

    def hooks(self, kind: str = "plain") -> Any:
        """The hooks for a block: both plain, or one of them async, or both."""
        pack = self.pack_later if kind in ("pack", "both") else self.pack
        unpack = self.unpack_later if kind in ("unpack", "both") else self.unpack
        return ag.graph.saved_tensors_hooks(pack, unpack)


class Gate:
    """Async hooks that wait until a test lets them go on, and say that they have come to that."""

    def __init__(self) -> None:
        self.arrived = 0
        self.came = asyncio.Event()
        self.two_came = asyncio.Event()
        self.open = asyncio.Event()

    async def __call__(self, value: Any) -> Any:
        self.arrived += 1
        self.came.set()
        if self.arrived == 2:
            self.two_came.set()
        await self.open.wait()
        return value.numpy().copy() if isinstance(value, ag.Tensor) else value
