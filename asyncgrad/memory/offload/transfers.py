"""The copies of a device's array that offloading makes: one in the host's memory, and one on the device again.

Both go on while the caller does: a device that copies by itself says when it has, by an Event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from ...core.engine.device import Device
    from ...core.engine.streams import Stream

__all__ = ["HostCopy", "Upload"]


@final
class HostCopy:
    """A copy of a device's array in the host's memory, which begins once the work on the current stream has ended.

    Args:
        array: nobody writes into it until the copy is filled.
        device: where it lives.
    """

    __slots__ = ("_filled", "array")

    def __init__(self, array: Any, device: Device) -> None:
        #: To be read after `filled()`.
        self.array, self._filled = device.to_host_async(array)

    async def filled(self) -> Any:
        """Wait until the device has filled the copy; return it."""
        if self._filled is not None:
            await self._filled.synchronize()
        return self.array


@final
class Upload:
    """An array of the host that is put on a device ahead of need: beside all work, or on the stream current here.

    Args:
        array: nobody writes into it any more.
        device: where it goes.
    """

    __slots__ = ("_array", "_device", "_put", "_stream")

    def __init__(self, array: Any, device: Device) -> None:
        self._device = device
        #: The stream on which the array has been made; None for one that any stream may use after `_put`.
        self._stream: Stream | None = None
        ahead = device.from_host_ahead(array)
        if ahead is not None:
            self._array, self._put = ahead
            return
        self._stream = device.current_stream()
        self._array = device.from_host_async(array)
        self._put = self._stream.record_event()

    def take(self) -> Any:
        """Return the array for work on the current stream."""
        stream = self._device.current_stream()
        if stream is self._stream:
            return self._array
        stream.wait_event(self._put)
        if self._stream is None:
            return self._array
        # A device may reuse memory in the order of the stream that it was made on. The work that is to come would be
        # on another one, so it gets an array of that.
        copy = self._array.copy(order="K")
        stream.record_use(self._array)
        return copy
