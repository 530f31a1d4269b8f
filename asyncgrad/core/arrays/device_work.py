"""Observers of the work on asynchronous devices: a profile records when the device does each piece of it.

A function of such a device returns before its work is done, so the time that a call takes does not tell. A recorder
puts an event with the time on the stream before the work and one after it. While something records, and there is a
device whose events tell the time, each operation is intercepted (`interception.py`); at all other times nothing here is
called. Recorders are put among DEVICE_WORK (`core/settings/observers.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from ..settings.observers import DEVICE_WORK
from ..settings.process import hold_in_forks
from .interception import RECORDERS, intercept, stop_intercepting

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "note_timed_device",
    "record_step",
    "record_work",
    "recorders_in_use",
]


#: Whether something records, and there is a device that can be recorded.
recorders_in_use: list[bool] = [False]
#: The devices whose streams record events with the time; and the same, as a tuple, while something records.
_devices: WeakSet[Any] = WeakSet()
_watched: list[tuple[Any, ...]] = [()]
_mutex = hold_in_forks(threading.RLock())
_NOTHING: AbstractContextManager[None] = nullcontext()


def note_timed_device(device: Any) -> None:
    """Note a device whose streams record events with the time; as long as there is none, nothing can be recorded."""
    with _mutex:
        _devices.add(device)
        _update()


def _update(whole_process: bool = False) -> None:
    with _mutex:
        is_on = DEVICE_WORK.are_put() and len(_devices) > 0
        _watched[0] = tuple(_devices) if is_on else ()
        if is_on == recorders_in_use[0]:
            return
        recorders_in_use[0] = is_on
        if is_on:
            intercept(RECORDERS, _recorded)
        else:
            stop_intercepting(RECORDERS)


DEVICE_WORK.when_changed(_update)


def _recorded(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def recorded(*args: Any, **kwargs: Any) -> Any:
        return _call(name, function, args, kwargs)

    return recorded


def _call(name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    recorders = DEVICE_WORK.found()
    device = _device_of(args) if recorders else None
    if device is None:
        return function(*args, **kwargs)
    stream = device.current_stream()
    if len(recorders) == 1:
        # What follows, in less time.
        (recorder,) = recorders
        work = recorder.begins(name, "forward", stream)
        result = function(*args, **kwargs)
        recorder.ends(work)
        return result
    works = [recorder.begins(name, "forward", stream) for recorder in recorders]
    result = function(*args, **kwargs)
    for recorder, work in zip(recorders, works, strict=True):
        recorder.ends(work)
    return result


def _device_of(arrays: Iterable[Any]) -> Any:
    for device in _watched[0]:
        for array in arrays:
            # What joins arrays gets a list of them.
            if device.holds(array[0] if type(array) is list and array else array):
                return device
    return None


@contextmanager
def _record(stream: Any, name: str, kind: str, size: int | None) -> Iterator[None]:
    works = [(recorder, recorder.begins(name, kind, stream, size)) for recorder in DEVICE_WORK.found()]
    yield
    for recorder, work in works:
        recorder.ends(work)


def record_work(stream: Any, name: str, kind: str, size: int | None = None) -> AbstractContextManager[None]:
    """Return a context manager for work that is put on a stream inside; its arguments are those of `begins`."""
    return _record(stream, name, kind, size) if recorders_in_use[0] else _NOTHING


def record_step(name: str, devices: Iterable[Any]) -> AbstractContextManager[Any]:
    """Return a context manager for a step of an optimizer, whose parameters are on these devices."""
    if not recorders_in_use[0]:
        return _NOTHING
    stack = ExitStack()
    for device in dict.fromkeys(devices):
        if device in _watched[0]:
            stack.enter_context(_record(device.current_stream(), name, "optimizer", None))
    return stack
