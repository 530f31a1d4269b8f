"""`null`, `null:0`, `null:1`, …: devices that do nothing of their own, for tests of what devices have in common."""

from __future__ import annotations

from typing import final

from asyncgrad.engine.device import Device

__all__ = ["Null", "open_device"]


@final
class Null(Device):
    """All that a Device is by default: NumPy's arrays, bodies run by who drives the backward, a name of its own.

    Args:
        index: the number behind the colon, if there is one.
    """

    __slots__ = ("_index",)

    def __init__(self, index: int | None) -> None:
        self._index = index

    @property
    def name(self) -> str:
        """`null`, or such as `null:0`."""
        return "null" if self._index is None else f"null:{self._index}"


def open_device(index: int | None) -> Null:
    """Return a device that does nothing of its own."""
    return Null(index)
