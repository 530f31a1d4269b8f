"""The check that all tensors of one operation are on one device, where their arrays do not tell the device."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...errors import DeviceError
from .tensor_base import TensorBase

__all__ = ["check_one_device", "check_operands_share_device", "mixed_devices", "several_met"]

#: Whether this process has asked for a second device. If not, there is nothing to check.
several_met: list[bool] = [False]


def mixed_devices(name: str, first: TensorBase, second: TensorBase) -> DeviceError:
    """Return the error for operands on two devices."""
    return DeviceError(
        f"{name} got tensors on '{first._device}' and on '{second._device}': "
        f"move one of them first, for example other.to('{first._device}')"
    )


def check_one_device(name: str, *values: Any) -> None:
    """Raise if the tensors among the values, also in nested lists, tuples and dicts, are on several devices.

    Raises:
        DeviceError: two tensors are on different devices; the message says how to move one.
    """
    if several_met[0]:
        _check(name, values, None)


def check_operands_share_device(name: str, *operands: Any, constants: Any = None) -> None:
    """Raise if tensors are on several devices, or a NumPy array is beside a tensor whose device has others.

    Args:
        name: of the function that the user has called.
        operands: its arguments.
        constants: one more, or a tuple of them, which may be NumPy arrays beside the others.

    Raises:
        DeviceError: the operands cannot be computed with together; the message says how to move one.
    """
    if not several_met[0]:
        return
    first = _check(name, (*operands, constants), None)
    if first is None or first._device.has_host_arrays:
        return
    for operand in operands:
        if isinstance(operand, np.ndarray):
            raise DeviceError(
                f"{name} got a tensor on '{first._device}' and a NumPy array of shape {operand.shape}: "
                f"write ag.tensor(array, device='{first._device}') first"
            )


def _check(name: str, values: Iterable[Any], first: TensorBase | None) -> TensorBase | None:
    for value in values:
        if isinstance(value, TensorBase):
            if first is None:
                first = value
            elif value._device is not first._device:
                raise mixed_devices(name, first, value)
        elif isinstance(value, (tuple, list)):
            first = _check(name, value, first)
        elif isinstance(value, dict):
            first = _check(name, value.values(), first)
    return first
