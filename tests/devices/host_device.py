"""A device whose arrays are HostArrays, on which the C of kernels runs as the host's compiler compiles it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, final

from asyncgrad.core.arrays.device_functions import register_functions, unregister_functions
from asyncgrad.core.engine.device import Device, register_device
from asyncgrad.devices.cuda.kernels import CudaKernels
from tests.devices.host_kernels import HOST_MACROS, HostArray, HostCupy, on_host

#: For the names of devices.
_numbers = itertools.count()


@final
class HostDevice(Device):
    """A device whose arrays are HostArrays."""

    has_host_arrays = False

    def __init__(self) -> None:
        self._name = f"host-kernels:{next(_numbers)}"

    @property
    def name(self) -> str:
        return self._name

    def from_host(self, array: Any) -> Any:
        return on_host(array)

    def to_host(self, array: Any) -> Any:
        return array.host


@contextmanager
def host_device(
    kernels: CudaKernels | None = None, functions: dict[Any, Callable[..., Any]] | None = None
) -> Iterator[Device]:
    """Open a device on whose arrays formulas are fused.

    Args:
        kernels: what compiles them; None for a new one.
        functions: of its arrays; None for none.
    """
    made = CudaKernels(HostCupy, HOST_MACROS) if kernels is None else kernels
    register_functions(HostArray, functions or {}, made)
    try:
        yield register_device(HostDevice())
    finally:
        unregister_functions(HostArray)
