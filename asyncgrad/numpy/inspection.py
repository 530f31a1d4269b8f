"""What the array API standard lets a library ask about a namespace: its dtypes, its devices and what it can do."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from ..core.engine.device import Device, device, device_of_new

__all__ = ["ArrayNamespaceInfo"]


def _of_numpy() -> Any:
    """Return NumPy's own answers, which it has from 2.1 on."""
    answers: Any = np.__array_namespace_info__()
    return answers


@final
class ArrayNamespaceInfo:
    """The answers of `__array_namespace_info__()`, as the array API standard has them.

    Example:
        >>> import asyncgrad.numpy as np
        >>> np.__array_namespace_info__().default_dtypes()["real floating"]
        dtype('float64')
    """

    __slots__ = ()

    def capabilities(self) -> dict[str, Any]:
        """Return whether boolean indices and shapes that depend on data work, and the greatest number of axes."""
        return dict(_of_numpy().capabilities())

    def default_device(self) -> Device:
        """Return the device that new Tensors live on."""
        return device_of_new(None)

    def default_dtypes(self, *, device: str | Device | None = None) -> dict[str, Any]:
        """Return the dtypes that creation functions use, by kind."""
        _check(device)
        return dict(_of_numpy().default_dtypes())

    def dtypes(
        self, *, device: str | Device | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, Any]:
        """Return the dtypes of a kind, by name; with None all."""
        _check(device)
        return dict(_of_numpy().dtypes(kind=kind))

    def devices(self) -> list[Device]:
        """Return the devices that are there: the host's processor, and the default device."""
        cpu, default = device("cpu"), device_of_new(None)
        return [cpu] if default is cpu else [cpu, default]


def _check(place: str | Device | None) -> None:
    """Raise if there is no such device; all devices have the same dtypes."""
    if place is not None:
        device(place)
