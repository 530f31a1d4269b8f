"""Libraries with a current stream of their own in each thread follow the current streams of the context.

CuPy queues work on the current stream of the thread. In asyncgrad, the current stream belongs to the context, so that
the tasks of one thread do not share it. In a process with default streams only, the two cannot differ, and nothing is
done. Once such a device has made another stream, each operation on tensors first makes the context's stream the current
stream of the library, since another task may have run before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from ..settings.context import CURRENT_STREAMS
from ..settings.process import hold_in_forks
from .interception import STREAMS, intercept, stop_intercepting

__all__ = ["FollowingDevice", "follow_streams", "start_following", "stop_following"]


class FollowingDevice(Protocol):
    """A device whose library has a current stream of its own in each thread."""

    def use_stream(self, stream: Any) -> None:
        """Make a stream of this device, or its default stream for None, the library's current stream in this thread."""


#: The devices whose libraries follow the context.
_devices: list[FollowingDevice] = []
_mutex = hold_in_forks(threading.Lock())
_thread = threading.local()


def start_following(device: FollowingDevice) -> None:
    """Make each later operation on tensors follow the current stream of `device`."""
    with _mutex:
        if device in _devices:
            return
        _devices.append(device)
        if len(_devices) == 1:
            intercept(STREAMS, _follow_before)


def stop_following(device: FollowingDevice) -> None:
    """End following the current stream of `device`, whose library is no longer used."""
    with _mutex:
        _devices.remove(device)
        if not _devices:
            stop_intercepting(STREAMS)


def follow_streams() -> None:
    """Make the current streams of this context the current streams of the libraries in this thread."""
    if not _devices:
        return
    # The mapping of streams is replaced, never written into, so its identity tells whether a stream has changed.
    streams, count = CURRENT_STREAMS.get(), len(_devices)
    if streams is getattr(_thread, "streams", None) and count == _thread.count:
        return
    for device in _devices[:count]:
        device.use_stream(streams.get(device))
    _thread.streams, _thread.count = streams, count


def _follow_before(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a function that follows the current streams before it calls `function`."""

    def following(*args: Any, **kwargs: Any) -> Any:
        follow_streams()
        return function(*args, **kwargs)

    return following
