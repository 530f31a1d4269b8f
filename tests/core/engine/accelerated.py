"""A simulated accelerator on which each operation takes one second, and tensors on it."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

import asyncgrad as ag
from asyncgrad.testing import SimulatedAccelerator


def slow_accelerator(**options: Any) -> SimulatedAccelerator:
    """Return an accelerator on which every operation takes one second of virtual time, however large it is."""
    return SimulatedAccelerator(latency=1.0, bandwidth=inf, flops=inf, host_bandwidth=inf, **options)


def tensor_on(device: SimulatedAccelerator, data: Any, requires_grad: bool = False) -> ag.Tensor:
    """Return a leaf on the accelerator, put there by the current stream."""
    return ag.tensor(data, device=device, requires_grad=requires_grad)


def host(tensor: Any) -> np.ndarray:
    """Return the elements of a tensor, wherever it lives; the current stream fetches them."""
    array: np.ndarray = tensor.device.to_host(tensor._data)
    return array
