"""A device that is not the cpu."""

from __future__ import annotations

from asyncgrad.core.engine.device import Device

__all__ = ["ELSEWHERE", "Elsewhere"]


class Elsewhere(Device):
    """A device that is not the cpu."""

    @property
    def name(self) -> str:
        return "elsewhere"


ELSEWHERE = Elsewhere()
