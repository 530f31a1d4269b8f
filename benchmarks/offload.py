"""A training step whose activations are written to disk and read back, compared with a step that keeps them in memory.

The floor is the step with all activations in memory. "what the disk allows" is the longer of that step and of writing
and reading the same number of files of the same size, in the same round, with as many threads as the store has. A step
without checksums shows what they cost.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any, final
from unittest import mock

import numpy as np

import asyncgrad as ag
from asyncgrad.memory.offload import checksum
from asyncgrad.memory.offload.disk import THREADS

from .peers import Array
from .runner import Benchmark

__all__ = ["BENCHMARKS", "Offload"]

LAYERS, ROWS = 12, 2048

#: The widths of a layer of matrix products and of one of elementwise functions.
WIDTHS = {"matrix products": 1024, "elementwise functions": 512}


@final
class Offload(Benchmark):
    """Layers that each save one activation for the two nodes that need it."""

    title = "step of {} with activations on disk"
    section = (
        "A step whose activations go to disk and come back, against the same step with all of them in memory (the "
        "floor), and against the longer of that step and of writing and reading as many bytes."
    )
    params = (("asyncgrad", "without checksums", "floor", "what the disk allows"), tuple(WIDTHS))

    def setup(self, peer: str, kind: str) -> None:
        """Create the weights, and a directory for the files."""
        random = np.random.default_rng(0)
        width = WIDTHS[kind]
        self.peer, self.is_product = peer, kind == "matrix products"
        shape = (width, width) if self.is_product else (width,)
        scale = 0.5 / width**0.5 if self.is_product else 1.0
        self.weights = [
            ag.tensor((scale * random.standard_normal(shape)).astype(np.float32), requires_grad=True)
            for _ in range(LAYERS)
        ]
        self.x = ag.tensor(random.standard_normal((ROWS, width)).astype(np.float32))
        self.directory = Path(tempfile.mkdtemp(prefix="asyncgrad-benchmark-"))
        weakref.finalize(self, shutil.rmtree, self.directory)
        # The limit is so low that nearly all activations are written and read.
        self.offload = ag.graph.save_to_disk(self.directory, min_bytes=1, max_pending_bytes=4 * self.x.numpy().nbytes)

    def gradients(self) -> list[Array]:
        """Return the gradients of the weights."""
        return [weight.grad.numpy() for weight in self.weights if weight.grad is not None]

    def prepare_backward(self) -> None:
        """Clear the gradients."""
        for weight in self.weights:
            weight.grad = None

    async def time_backward(self) -> float:
        """Time forward and backward; for what the disk allows, the longer of the step in memory and of the disk."""
        if self.peer != "without checksums":
            return await self._step()
        with mock.patch.object(checksum, "crc32", len):
            return await self._step()

    async def _step(self) -> float:
        began = perf_counter()
        with self.offload if self.peer in ("asyncgrad", "without checksums") else contextlib.nullcontext():
            y: Any = self.x
            for weight in self.weights:
                y = np.tanh(y @ weight if self.is_product else y * weight)
            loss = (y * y).mean()
        await loss.backward()
        taken = perf_counter() - began
        return max(taken, self._disk()) if self.peer == "what the disk allows" else taken

    def _disk(self) -> float:
        """Return the seconds that it takes to write, read and remove a file for each activation."""
        data = self.x.numpy()
        paths = [self.directory / f"{number}" for number in range(LAYERS + 1)]

        def read(path: Path) -> None:
            with path.open("rb", buffering=0) as file:
                file.readinto(np.empty_like(data).data.cast("B"))
            path.unlink()

        def write(path: Path) -> None:
            with path.open("wb", buffering=0) as file:
                file.write(data.data)

        with ThreadPoolExecutor(THREADS) as pool:
            began = perf_counter()
            list(pool.map(write, paths))
            list(pool.map(read, reversed(paths)))
            return perf_counter() - began


BENCHMARKS = [Offload]
