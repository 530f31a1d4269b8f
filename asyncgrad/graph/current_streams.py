"""The current streams of a context, followed by libraries that have a current stream of their own in each thread.

CuPy puts work on the current stream of the thread. Here the current stream belongs to the context, so that tasks of one
thread do not share it. While a process has default streams alone, the two cannot differ and nothing is done. From the
first other stream of such a device on, each operation on tensors makes the library's current stream that of the context
first: a task may have resumed since.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from ..context import CURRENT_STREAMS

__all__ = ["FollowingDevice", "add_wrapper", "follow_streams", "start_following", "stop_following"]


class FollowingDevice(Protocol):
    """A device whose library has a current stream of its own in each thread."""

    def use_stream(self, stream: Any) -> None:
        """Make a stream of this device, or its default stream for None, the library's current one in this thread."""


#: The names that the source of each wrapper of a primitive sees; `_function` is what it calls.
_wrappers: list[dict[str, Any]] = []
#: The devices that have been given to `start_following`.
_devices: list[FollowingDevice] = []
_mutex = threading.Lock()
_thread = threading.local()


def add_wrapper(namespace: dict[str, Any]) -> None:
    """Let operations by a wrapper of a primitive follow the current streams, now or later."""
    with _mutex:
        _wrappers.append(namespace)
        if _devices:
            namespace["_function"] = _following(namespace["_function"])


def start_following(device: FollowingDevice) -> None:
    """Let every later operation on tensors follow the current stream of `device`."""
    with _mutex:
        if device in _devices:
            return
        _devices.append(device)
        if len(_devices) == 1:
            for namespace in _wrappers:
                namespace["_function"] = _following(namespace["_function"])


def stop_following(device: FollowingDevice) -> None:
    """Let operations no longer follow the current stream of `device`, whose library is not used any more."""
    with _mutex:
        _devices.remove(device)
        for namespace in _wrappers if not _devices else ():
            function = namespace["_function"]
            namespace["_function"] = getattr(function, "followed", function)


def follow_streams() -> None:
    """Make the current streams of this context the libraries' current ones in this thread."""
    if not _devices:
        return
    # A mapping of streams is never changed, only replaced.
    streams, count = CURRENT_STREAMS.get(), len(_devices)
    if streams is getattr(_thread, "streams", None) and count == _thread.count:
        return
    for device in _devices[:count]:
        device.use_stream(streams.get(device))
    _thread.streams, _thread.count = streams, count


def _following(function: Callable[..., Any]) -> Callable[..., Any]:
    def following(*args: Any, **kwargs: Any) -> Any:
        follow_streams()
        return function(*args, **kwargs)

    following.followed = function  # type: ignore[attr-defined]
    return following
