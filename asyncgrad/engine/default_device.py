"""The device that new tensors live on, where nothing says another."""

from __future__ import annotations

from typing import Any, final

from ..context import DEFAULT_DEVICE, Mode
from .device import Device, device

__all__ = ["default_device", "device_of_new"]


@final
class default_device(Mode):
    """Inside, `ag.tensor` and `ag.asarray` make tensors on this device, unless they are told another.

    A context manager, and a decorator of functions, generators and their async kinds. It holds for the current context
    only: other asyncio tasks are not touched. Inside of `device.call` the default is that device.

    Args:
        target: a device or the name of one.

    Raises:
        DeviceError: there is no such device.

    Source: torch.device as a context manager.

    Example:
        >>> import asyncgrad as ag
        >>> with ag.default_device("thread:0"):
        ...     x = ag.tensor([1.0, 2.0])
        >>> x.device.name
        'thread:0'
    """

    __slots__ = ("_device",)

    def __init__(self, target: str | Device) -> None:
        self._device = device(target)

    @staticmethod
    def _get() -> Any:
        return DEFAULT_DEVICE.get()

    @staticmethod
    def _set(value: Any, /) -> None:
        DEFAULT_DEVICE.set(value)

    def _value(self) -> Device:
        return self._device

    def _clone(self) -> Mode:
        return default_device(self._device)


_CPU = device("cpu")


def device_of_new(target: str | Device | None) -> Device:
    """Return the device that a new tensor is to live on, given what its maker was told."""
    if target is not None:
        return device(target)
    default: Device | None = DEFAULT_DEVICE.get()
    return _CPU if default is None else default
