"""`null`, `null:0`, `null:1`, …: devices with the default behaviour, for tests of what all devices have in common."""

from __future__ import annotations

from typing import final

from asyncgrad.core.engine.device import Device

__all__ = ["Null", "open_device"]


@final
class Null(Device):
    """A Device with the default behaviour: NumPy arrays, and bodies that run in the thread that drives the backward.

    Args:
        index: the number after the colon, or None.
    """

    __slots__ = ("_index",)

    def __init__(self, index: int | None) -> None:
        self._index = index

    @property
    def name(self) -> str:
        """`null`, or a name such as `null:0`."""
        return "null" if self._index is None else f"null:{self._index}"


def open_device(index: int | None) -> Null:
    """Return a device with the default behaviour."""
    return Null(index)
