"""The script whose instructions `benchmarks.count` counts: `counted.py WORKLOAD PHASE LENGTH`.

It imports nothing from benchmarks/, so that it runs with the asyncgrad of any commit. It records LENGTH operations, or
LENGTH models, differentiates them in the phase `backward`, and exits at once, so that two runs with different lengths
differ only by the cost of the operations.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import mmap
import os
import platform
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import asyncgrad as ag

__all__ = ["CODE", "WORKLOADS", "Workload"]


class Workload(NamedTuple):
    """A program to count."""

    #: Records a graph of a given length; returns its roots, each with the gradient to start from.
    record: Callable[[int], list[tuple[Any, Any]]]
    #: The name of one unit of length.
    unit: str
    #: The shorter of the two lengths; the longer is twice that.
    length: int


def chain(length: int) -> list[tuple[Any, Any]]:
    """Return the end of a chain `y = y*x + x` of `length` nodes, size 16."""
    x = ag.tensor(np.linspace(0.1, 0.9, 16), requires_grad=True)
    y: Any = x
    for _ in range(length // 2):
        y = y * x + x
    return [(y, np.ones(16))]


def models(length: int) -> list[tuple[Any, Any]]:
    """Return the losses of `length` perceptrons of two layers, with 8 nodes and 4 leaves each."""
    x = np.linspace(-1.0, 1.0, 32).reshape(4, 8)
    arrays = [
        np.linspace(-0.5, 0.5, 64).reshape(8, 8),
        np.zeros(8),
        np.linspace(-0.5, 0.5, 8).reshape(8, 1),
        np.zeros(1),
    ]
    roots: list[tuple[Any, Any]] = []
    for _ in range(length):
        first, bias, second, end = (ag.tensor(array, requires_grad=True) for array in arrays)
        hidden = np.tanh(x @ first + bias)
        out = hidden @ second + end
        roots.append(((out * out).sum() * 0.5, None))
    return roots


class Waiting(ag.Function):
    """Its input; its backward waits for a turn of the event loop."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        """Return a copy of the input."""
        return x.numpy().copy()

    @staticmethod
    async def backward(ctx: Any, grad: Any) -> Any:
        """Return the gradient after a turn of the event loop."""
        await asyncio.sleep(0)
        return grad


def waiting_chain(length: int) -> list[tuple[Any, Any]]:
    """Return the end of a chain of `length` nodes that wait, size 16."""
    y: Any = ag.tensor(np.linspace(0.1, 0.9, 16), requires_grad=True)
    for _ in range(length):
        y = Waiting.apply(y)
    return [(y, np.ones(16))]


WORKLOADS = {
    "chain of size 16": Workload(chain, "node", 2_000),
    "chain of nodes that wait": Workload(waiting_chain, "node", 500),
    "whole model of 8 nodes": Workload(models, "model", 100),
}

#: By processor, the machine code of a function that makes a client request to valgrind (valgrind.h, "Client Request
#: Mechanism"). Valgrind recognizes its rotations; they add up to a full turn, so elsewhere it does nothing.
CODE = {
    # mov rax, rdi; xor edx, edx; rol rdi, 3; rol rdi, 13; rol rdi, 61; rol rdi, 51; xchg rbx, rbx; ret
    "x86_64": "4889f8 31d2 48c1c703 48c1c70d 48c1c73d 48c1c733 4887db c3",
}
#: CALLGRIND_START_INSTRUMENTATION.
START = (ord("C") << 24 | ord("T") << 16) + 4


def start_counting() -> None:
    """Tell callgrind to start counting; without callgrind this does nothing."""
    code = CODE.get(platform.machine())
    if code is None:
        return
    memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(bytes.fromhex(code))
    request = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
    arguments = (ctypes.c_uint64 * 6)(START)
    request(ctypes.addressof(arguments))


async def differentiate(roots: list[tuple[Any, Any]]) -> None:
    """Run one backward after another."""
    for root, gradient in roots:
        await root.backward(gradient)


def main() -> None:
    """Run the workload of the command line, after two short runs that are not counted."""
    workload, phase, length = WORKLOADS[sys.argv[1]], sys.argv[2], int(sys.argv[3])
    for _ in range(2):
        asyncio.run(differentiate(workload.record(64)))
    gc.collect()
    gc.freeze()
    gc.disable()
    start_counting()
    roots = workload.record(length)
    if phase == "backward":
        asyncio.run(differentiate(roots))
    # Exit at once: the deallocations of an ordinary exit belong to neither phase.
    os._exit(0)


if __name__ == "__main__":
    main()
