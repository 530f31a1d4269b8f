"""OnStream: which stream a node runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .special import Special

__all__ = ["OnStream"]


class OnStream:
    """Abstract base of Node: what it runs on. A node that knows no stream of its own costs nothing for that."""

    __slots__ = ()

    special: Special | None
    device: Any

    @property
    def stream(self) -> Any:
        """The stream that the body runs on: the current one of the node's device when the node was made.

        None where that was the default stream and the device's work has been done when a call returns, or where the
        node has no device. A leaf's is that of the operation that used it first.

        Source: the stream in the first InputMetadata of a node in PyTorch.
        """
        special, device = self.special, self.device
        if special is not None and special.stream is not None:
            return special.stream
        return device.default_stream() if device is not None and device.is_asynchronous else None
