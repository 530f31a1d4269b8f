"""Device: where arrays live and bodies run; and the registry that finds devices by name."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ..errors import DeviceError

__all__ = ["Device", "device"]

_known: dict[str, Device] = {}


class Device:
    """Abstract: a place where arrays live, named `kind` or `kind:index`.

    A module of `asyncgrad.devices` named like its kind implements it, and offers `open_device(index)`.

    Example:
        >>> import asyncgrad as ag
        >>> ag.device("cpu").name
        'cpu'
    """

    __slots__ = ()

    #: Whether arrays here can be viewed by strides. Where they cannot, the part of a gradient that belongs to a view is
    #: reached by calling the view's functions again.
    has_strides = True

    @property
    def name(self) -> str:
        """The name that `ag.device` finds this device by."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"device({self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (self.name,)


def device(name: str | Device) -> Device:
    """Return the device of that name, the same object each time.

    Args:
        name: for example `"cpu"`; a Device is returned as it is.

    Raises:
        DeviceError: there is no such device; the message says which there are.

    Example:
        >>> import asyncgrad as ag
        >>> ag.device("cpu") is ag.device("cpu")
        True
    """
    if isinstance(name, Device):
        return name
    found = _known.get(name)
    if found is None:
        kind, _, index = str(name).partition(":")
        module = f"asyncgrad.devices.{kind}"
        named = kind.isidentifier() and not kind.startswith("_") and (index.isdigit() or not index)
        if not named or find_spec(module) is None:
            raise DeviceError(f"there is no device {name!r}; there is 'cpu'")
        found = _known[name] = import_module(module).open_device(int(index) if index else None)
    return found
