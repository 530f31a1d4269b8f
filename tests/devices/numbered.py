"""Devices that a test makes for itself."""

from __future__ import annotations

import itertools

from asyncgrad.core.engine.device import register_device
from asyncgrad.devices import Device

__all__ = ["Numbered"]

_next_index = itertools.count().__next__


class Numbered(Device):
    """Abstract base of devices of a test's own: registered, each under a name that no other has."""

    def __init__(self) -> None:
        self._index = _next_index()
        register_device(self)

    @property
    def name(self) -> str:
        return f"{type(self).__name__.lower()}:{self._index}"
