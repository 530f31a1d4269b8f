"""The devices of tests that hold for each type of array with a GPU's functions and refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from asyncgrad.testing import SimulatedAccelerator
from tests.support.fake_cupy import open_gpus

__all__ = ["DEVICES"]


@contextmanager
def _simulated() -> Iterator[SimulatedAccelerator]:
    yield SimulatedAccelerator()


@contextmanager
def _cuda() -> Iterator[Any]:
    with open_gpus(1) as (gpu,):
        yield gpu


@contextmanager
def _second_gpu() -> Iterator[Any]:
    with open_gpus(2) as (_, gpu):
        yield gpu


#: By name, what opens a device: a simulated one, `cuda:0` on the stand-in for CuPy, and `cuda:1`, which is never CUDA's
#: current GPU unless asyncgrad makes it so.
DEVICES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "simulated": _simulated,
    "cuda": _cuda,
    "cuda:1": _second_gpu,
}
