"""Libraries with several devices, one of which is current in each thread, follow the arrays of the operations.

CUDA has a current GPU in each thread, on which CuPy computes wherever its arrays are. In asyncgrad, an operation runs
on the device of its tensors. On a machine with one GPU the two cannot differ, and nothing is done. With several, the
first device that is opened calls `start_switching`, and from then on:

- each operation, and each entry point that computes with bare arrays, makes the device of its first array the current
  one, and the former one again at its end: see `interception.py`;
- a backward does so for the devices of its nodes, and for each step of an async one; an optimizer for its parameters.

Nothing but these is changed by it: a block `with cupy.cuda.Device(1):` around other code holds as without asyncgrad.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable
from typing import Any, Protocol, final

from ..settings.process import hold_in_forks
from .interception import DEVICES, intercept, stop_intercepting
from .tensor_base import TensorBase

__all__ = [
    "DeviceSwitch",
    "coroutine_on_device",
    "keep_device",
    "runner_on_device",
    "several_devices",
    "start_switching",
    "steps_on_device",
    "stop_switching",
    "use_device",
]


class DeviceSwitch(Protocol):
    """The current device of a library in each thread."""

    #: The type of the library's arrays.
    array_type: type

    def current(self) -> int:
        """Return the number of the device that is current in this thread."""

    def use(self, number: int) -> None:
        """Make the device of a number the current one of this thread."""

    def number_of(self, array: Any) -> int:
        """Return the number of the device of an array."""


#: The switch of a library with several devices, by the type of its arrays.
_switches: dict[type, DeviceSwitch] = {}
#: Whether any library has several devices, which may each be current.
several_devices: list[bool] = [False]
_mutex = hold_in_forks(threading.Lock())


def start_switching(switch: DeviceSwitch) -> None:
    """Make each later operation run on the device of its arrays, of a library with several devices."""
    with _mutex:
        _switches[switch.array_type] = switch
        several_devices[0] = True
        intercept(DEVICES, _switch_around)


def stop_switching(array_type: type) -> None:
    """End what `start_switching` began for a type of arrays, whose library is no longer used."""
    with _mutex:
        _switches.pop(array_type, None)
        if not _switches:
            several_devices[0] = False
            stop_intercepting(DEVICES)


def _switch_around(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a function that calls `function` on the device of the first array among the arguments."""

    def switching(*args: Any, **kwargs: Any) -> Any:
        found = _device_in(args) or _device_in(kwargs.values())
        if found is None:
            return function(*args, **kwargs)
        switch, number = found
        before = switch.current()
        if before == number:
            return function(*args, **kwargs)
        switch.use(number)
        try:
            return function(*args, **kwargs)
        finally:
            switch.use(before)

    return switching


def _device_in(values: Iterable[Any]) -> tuple[DeviceSwitch, int] | None:
    """Return the switch and the number of the device of the first array among values, which may be nested."""
    for value in values:
        array = value._data if isinstance(value, TensorBase) else value
        switch = _switches.get(type(array))
        if switch is not None:
            return switch, switch.number_of(array)
        if isinstance(value, (tuple, list)) and (found := _device_in(value)) is not None:
            return found
    return None


@final
class keep_device:
    """A context manager at whose end the devices are current again that were so at its beginning."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = [(switch, switch.current()) for switch in _switches.values()]

    def __exit__(self, *exception: object) -> None:
        for switch, number in self._before:
            if switch.current() != number:
                switch.use(number)


def use_device(device: Any) -> None:
    """Make a device the current one of its library in this thread; do nothing if it has no such library."""
    switch: DeviceSwitch | None = None if device is None else device.switch
    if switch is not None and switch.current() != device.index:
        switch.use(device.index)


def runner_on_device(run: Callable[..., Any], device: Any) -> Callable[..., Any]:
    """Return a function that calls functions by `run`, on a device."""

    def run_there(function: Callable[..., Any], *args: Any) -> Any:
        with keep_device():
            use_device(device)
            return run(function, *args)

    return run_there


def steps_on_device(steps: Any, device: Any) -> Generator[Any, Any, Any]:
    """Return a generator that does what `steps` does, a generator or a coroutine, each step on a device."""
    step: Callable[[], Any] = functools.partial(steps.send, None)
    try:
        while True:
            try:
                with keep_device():
                    use_device(device)
                    given = step()
            except StopIteration as end:
                return end.value
            try:
                step = functools.partial(steps.send, (yield given))
            except GeneratorExit:
                raise
            except BaseException as error:
                step = functools.partial(steps.throw, error)
    finally:
        with keep_device():
            use_device(device)
            steps.close()
        # The traceback of an error refers to this frame: leave no cycle.
        del steps, step


@final
class _Steps:
    """An awaitable that awaits a coroutine, each step on a device."""

    __slots__ = ("_coroutine", "_device")

    def __init__(self, coroutine: Coroutine[object, None, Any], device: Any) -> None:
        self._coroutine = coroutine
        self._device = device

    def __await__(self) -> Generator[Any, Any, Any]:
        return steps_on_device(self._coroutine, self._device)


async def coroutine_on_device(coroutine: Coroutine[object, None, Any], device: Any) -> Any:
    """Await a coroutine, each of whose steps runs on a device, and return its result."""
    return await _Steps(coroutine, device)
