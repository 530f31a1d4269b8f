"""The default device: NumPy arrays in the memory of this process, nodes run on the caller's event loop."""

from __future__ import annotations

from typing import final

from asyncgrad.engine.device import Device
from asyncgrad.errors import DeviceError

__all__ = ["Cpu", "open_device"]


@final
class Cpu(Device):
    """NumPy on this machine's processor."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """Always `cpu`."""
        return "cpu"


def open_device(index: int | None) -> Cpu:
    """Return the one cpu device.

    Raises:
        DeviceError: an index was given; there is only one.
    """
    if index is not None:
        raise DeviceError(f"there is one 'cpu' device, so 'cpu:{index}' means nothing: write 'cpu'")
    return Cpu()
