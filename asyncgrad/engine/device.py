"""Device: where arrays live and bodies run; and the registry that finds devices by name."""

from __future__ import annotations

import re
import threading
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, final
from weakref import WeakValueDictionary

from ..context import CURRENT_STREAMS, DEFAULT_DEVICE, Mode
from ..errors import DeviceError
from ..graph.one_device import several_met
from .call_streams import CallStream
from .loops import loop_thread
from .remote import Job, call_on, worker_died
from .streams import DeviceStreams, Event, Stream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .body import Body

__all__ = [
    "CallStream",
    "Device",
    "Event",
    "Job",
    "Stream",
    "default_device",
    "device",
    "device_here",
    "device_of_new",
    "has_own_way",
    "has_limit",
    "is_elsewhere",
    "loop_thread",
    "needs_care",
    "register_device",
    "worker_died",
]

#: The group of entry points by which installed packages offer kinds of devices.
ENTRY_POINTS = "asyncgrad.devices"

#: What may stand behind the colon of a name.
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)

_known: dict[str, Device] = {}
#: Those that were made directly.
_made: WeakValueDictionary[str, Device] = WeakValueDictionary()
_OPENING = threading.RLock()


class Device:
    """Abstract: a place where arrays live and bodies run, named `kind` or `kind:index`.

    A package offers a kind of its own by an entry point in the group `asyncgrad.devices`, named like the kind, that
    leads to a function `open_device(index)`; `index` is None where the name has none. A subclass must give `name`.
    All else has a default: arrays that live here are NumPy's, and bodies run in the thread that drives the backward.

    Example:
        >>> import asyncgrad as ag
        >>> ag.device("cpu").name
        'cpu'
    """

    __slots__ = ("__weakref__", "_streams")

    #: Made for the first who asks for a stream: see DeviceStreams.
    _streams: Any

    #: Whether arrays here can be viewed by strides. Where they cannot, the part of a gradient that belongs to a view is
    #: reached by calling the view's functions again.
    has_strides = True
    #: Whether arrays here are NumPy's, in the memory of this process.
    has_host_arrays = True
    #: Whether what is called here puts work on the current stream and returns before that is done. Then gradients that
    #: go from a stream to another are waited for by events, and not by the order of calls.
    is_asynchronous = False
    #: Whether this device has a thread of its own, to which NodeTasks are sent as Jobs by `submit`.
    has_worker = False
    #: How many bodies may be under way here at a time; None for as many as there are. One that awaits a backward is
    #: not, until it goes on. A device with a worker sees to that by itself.
    max_in_flight: int | None = None
    #: Whether `run_body` is to run every body, in a NodeTask of its own; where not, it is asked for those alone that
    #: may be heavy. True for whoever implements it and does not say otherwise.
    sees_all_bodies = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        says = next(known for known in cls.__mro__ if "sees_all_bodies" in vars(known))
        if says is Device and cls.run_body is not Device.run_body:
            cls.sees_all_bodies = True

    @property
    def name(self) -> str:
        """The name that `ag.device` finds this device by."""
        raise NotImplementedError(f"{type(self).__name__} must have a name")

    @property
    def kind(self) -> str:
        """The name without the index."""
        return self.name.partition(":")[0]

    @property
    def index(self) -> int | None:
        """The number behind the colon of the name; None where there is none."""
        index = self.name.partition(":")[2]
        return int(index) if index else None

    # How bodies run.

    def is_here(self) -> bool:
        """Tell whether the thread that asks is one in which this device runs its NodeTasks."""
        return not self.has_worker

    def submit(self, job: Job) -> None:
        """Have `job.run()` called once in a thread of this device, the most urgent job first. Never blocks.

        Only called where `has_worker`. A device that cannot, calls `job.refuse(error)`.
        """
        raise NotImplementedError(f"{self.name} has_worker, so {type(self).__name__} must implement submit(job)")

    def prefers_worker(self, body: Body) -> bool:
        """Tell whether a body that may be heavy is to leave the thread that drives the backward."""
        return False

    def run_body(self, body: Body) -> Any:
        """Return what `body()` does, the gradients of one node, or an awaitable of that.

        Called in the context of the node's run, which `body()` needs: `asyncio.to_thread(body)` takes it along. The
        body of a node that awaits is a coroutine function; what it returns may be returned, or awaited, as well.
        """
        return body()

    async def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function, plain or async, where this device runs its work; return what it returns.

        It runs in a copy of the caller's context, in which this is the default device, so what it computes is recorded
        as it would be here. Suspends until it has ended. Cancelled, it cancels an async function, and in any case goes
        on only once that has ended.

        Raises:
            DeviceError: the device is closed, or its worker has died.

        Example:
            >>> import asyncgrad as ag
            >>> async def main():
            ...     return await ag.device("cpu").call(max, 1, 2)
            >>> ag.run(main())
            2
        """
        async with self.current_stream().turn():
            return await call_on(self, function, args, kwargs)

    # Streams.

    def make_stream(self, index: int) -> Stream:
        """Return a new stream, to be asked for by `stream()`; that of index 0 is the default one.

        For a device that gives work away by itself; calls of functions are put on a stream otherwise.
        """
        return CallStream(self, index)

    def default_stream(self) -> Stream:
        """Return the stream that is the current one where no other is."""
        return DeviceStreams.of(self).default

    def current_stream(self) -> Stream:
        """Return the stream that work of this context is put on."""
        stream: Stream | None = CURRENT_STREAMS.get().get(self)
        return self.default_stream() if stream is None else stream

    def stream(self, stream: Stream | None = None) -> Stream:
        """Return a new stream of this device, or the one given: `with device.stream(s):` makes it the current one.

        Raises:
            DeviceError: it is a stream of another device, or none.

        Example:
            >>> import asyncgrad as ag
            >>> with ag.device("cpu").stream() as stream:
            ...     ag.device("cpu").current_stream() is stream
            True
        """
        streams = DeviceStreams.of(self)
        return streams.make() if stream is None else streams.checked(stream)

    def synchronize(self) -> Awaitable[None]:
        """Wait until all has ended that is on any stream of this device by now.

        In a thread with a running event loop it has to be awaited, `await device.synchronize()`, and suspends. In any
        other thread it has waited when it returns.

        Source: torch.cuda.synchronize.

        Example:
            >>> import asyncgrad as ag
            >>> async def main():
            ...     await ag.device("cpu").synchronize()
            >>> ag.run(main())
        """
        return DeviceStreams.of(self).synchronize()

    def stand_in(self) -> AbstractContextManager[None]:
        """Return a block in which the worker, which asks, waits for other threads.

        What is submitted meanwhile is to run all the same, in another thread, since it may be what is waited for.

        Source: PyTorch has the thread that waits take further work of its own queue.
        """
        return nullcontext()

    # How arrays move.

    def from_host(self, array: Any) -> Any:
        """Return a copy of a NumPy array that lives on this device."""
        return array.copy(order="K")

    def to_host(self, array: Any) -> Any:
        """Return an array of this device as a NumPy array, which the caller only reads; it may be the very same."""
        return array

    # The end.

    def close(self) -> None:
        """Refuse what waits and what comes, and give threads and memory back; what runs ends first.

        It remains the device of the tensors that live here.
        """

    def reopen(self) -> None:
        """Take work again after `close()`. `ag.device(name)` calls it each time."""

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"device({self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (self.name,)


def device(name: str | Device) -> Device:
    """Return the device of that name, the same object each time; one that was closed is opened again.

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
    if not isinstance(name, str):
        raise DeviceError(f"{name!r} is no device: give a Device, or the name of one, such as 'cpu' or 'thread:0'")
    found = _known.get(name)
    if found is None:
        found = _made.get(name)
    if found is None:
        with _OPENING:
            found = _known.get(name)
            if found is None:
                found = _open(str(name))
                several_met[0] = bool(_known)
                _known[name] = found
    found.reopen()
    return found


def register_device(made: Device) -> Device:
    """Let `ag.device(name)` find a device that has been made directly, for as long as somebody refers to it; return it.

    Raises:
        DeviceError: another device has that name.

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad.testing import SimulatedAccelerator
        >>> made = SimulatedAccelerator()
        >>> ag.device(made.name) is made
        True
    """
    with _OPENING:
        if (_known.get(made.name) or _made.get(made.name)) not in (None, made):
            raise DeviceError(f"there is another device named {made.name!r}: give this one another index")
        _made[made.name] = made
        several_met[0] = True
    return made


def is_elsewhere(device: Any) -> bool:
    """Tell whether a node whose gradients live on `device`, which may be None, is to be sent to that one's worker."""
    return isinstance(device, Device) and device.has_worker and not device.is_here()


def has_own_way(device: Any) -> bool:
    """Tell whether `device`, which may be None, runs every body in its own way, or a limited number at a time."""
    return isinstance(device, Device) and (device.sees_all_bodies or has_limit(device))


def has_limit(device: Device) -> bool:
    """Tell whether a body needs a place on `device`: a device with a worker sees to its limit by itself."""
    return device.max_in_flight is not None and not device.has_worker


def needs_care(device: Any) -> bool:
    """Tell whether each node whose gradients live on `device`, which may be None, is to run as a NodeTask."""
    # `is_elsewhere(device) or has_own_way(device)`, with the least ado for what is neither: each backward asks.
    return isinstance(device, Device) and (
        device.sees_all_bodies or (not device.is_here() if device.has_worker else device.max_in_flight is not None)
    )


def device_here() -> Device | None:
    """Return the device whose worker asks; None where it is no device's."""
    return next((known for known in list(_known.values()) if known.has_worker and known.is_here()), None)


def _open(name: str) -> Device:
    kind, colon, index = name.partition(":")
    if not kind or (colon and not _INDEX.fullmatch(index)):
        raise _unknown(name)
    number = int(index) if colon else None
    is_module = kind.isidentifier() and not kind.startswith("_")
    if is_module and find_spec(f"asyncgrad.devices.{kind}") is not None:
        opener = import_module(f"asyncgrad.devices.{kind}").open_device
    else:
        opener = _offered(kind, name)
    try:
        opened = opener(number)
        found = opened.name if isinstance(opened, Device) else None
    except DeviceError:
        raise
    except Exception as error:
        raise DeviceError(f"the device {name!r} cannot be opened: open_device({number}) raised {error!r}") from error
    if found != name:
        what = f"a {type(opened).__name__}" + (f" named {found!r}" if isinstance(opened, Device) else "")
        raise DeviceError(f"the device {name!r} was to be opened, and its open_device({number}) returned {what}")
    return opened  # type: ignore[no-any-return]


def _entry_points() -> Any:
    """Return the kinds of devices that installed packages offer."""
    # Imported here: it takes a sixth of what all of asyncgrad takes, and few programs have such a device.
    return import_module("importlib.metadata").entry_points(group=ENTRY_POINTS)


def _offered(kind: str, name: str) -> Any:
    """Return the function by which an installed package opens devices of a kind."""
    offers = {offered.value: offered for offered in _entry_points() if offered.name == kind}
    if not offers:
        raise _unknown(name)
    if len(offers) > 1:
        raise DeviceError(f"the device {name!r} is offered by {' and by '.join(sorted(offers))}: uninstall all but one")
    ((value, offered),) = offers.items()
    try:
        opener = offered.load()
    except Exception as error:
        raise DeviceError(f"the device {name!r} is offered by {value!r}, which cannot be loaded: {error!r}") from error
    if not callable(opener):
        raise DeviceError(f"the device {name!r} is offered by {value!r}, which is no function of an index: {opener!r}")
    return opener


def _unknown(name: str) -> DeviceError:
    kinds = {"cpu", "thread", *(offered.name for offered in _entry_points())}
    examples = ", ".join(repr(kind if kind == "cpu" else f"{kind}:0") for kind in sorted(kinds))
    return DeviceError(f"there is no device {name!r}; there are {examples}")


@final
class default_device(Mode):
    """Inside, `ag.tensor` and `ag.asarray` make tensors on this device, unless they are told another.

    A context manager, and a decorator of functions, generators and their async kinds. It holds for the current context
    only: other asyncio tasks are not touched. Inside of `device.call` the default is that device.

    Args:
        target: a device or the name of one.

    Raises:
        DeviceError: there is no such device.

    Source: torch.device as a context manager.

    Example:
        >>> import asyncgrad as ag
        >>> with ag.default_device("thread:0"):
        ...     x = ag.tensor([1.0, 2.0])
        >>> x.device.name
        'thread:0'
    """

    __slots__ = ("_device",)

    def __init__(self, target: str | Device) -> None:
        self._device = device(target)

    @staticmethod
    def _get() -> Any:
        return DEFAULT_DEVICE.get()

    @staticmethod
    def _set(value: Any, /) -> None:
        DEFAULT_DEVICE.set(value)

    def _value(self) -> Device:
        return self._device

    def _clone(self) -> Mode:
        return default_device(self._device)


_CPU = device("cpu")


def device_of_new(target: str | Device | None) -> Device:
    """Return the device that a new tensor is to live on, given what its maker was told."""
    if target is not None:
        return device(target)
    default: Device | None = DEFAULT_DEVICE.get()
    return _CPU if default is None else default
