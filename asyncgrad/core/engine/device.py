"""Device: where arrays live and bodies run; and the registry of devices by name."""

from __future__ import annotations

import re
import threading
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, final, overload
from weakref import WeakValueDictionary

from ...errors import ArgumentTypeError, DeviceError
from ..arrays.device_work import note_timed_device
from ..arrays.one_device import several_met
from ..arrays.values import is_device_array, moved_array, on_device
from ..settings.arguments import describe
from ..settings.context import CURRENT_STREAMS, DEFAULT_DEVICE, Mode
from ..settings.process import hold_in_forks
from .call_streams import CallStream
from .loops import loop_thread
from .remote import Job, call_on, worker_died_error
from .streams import DONE, DeviceStreams, Event, Stream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import ParamSpec, TypeVar

    from ..arrays.array import BareArray
    from .body import Body

    P = ParamSpec("P")
    T = TypeVar("T")

__all__ = [
    "CallStream",
    "Device",
    "Event",
    "Job",
    "Stream",
    "default_device",
    "device",
    "device_here",
    "device_of_array",
    "device_of_new",
    "has_custom_run",
    "has_limit",
    "home_of",
    "is_elsewhere",
    "loop_thread",
    "moved_to",
    "needs_engine",
    "needs_node_task",
    "open_devices",
    "register_device",
    "worker_died_error",
]

#: The entry point group by which installed packages offer kinds of devices.
ENTRY_POINTS = "asyncgrad.devices"

#: The index in the name of a device.
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)

#: The kinds of device by their numbers in DLPack: memory of a GPU of NVIDIA, and memory that it shares with the host.
_DLPACK_KINDS = {2: "cuda", 13: "cuda"}

#: Devices that `device(name)` has opened.
_opened: dict[str, Device] = {}
#: Devices that were made directly, and given to `register_device`.
_registered: WeakValueDictionary[str, Device] = WeakValueDictionary()
_MUTEX = hold_in_forks(threading.RLock())


class Device:
    """Abstract: a place where arrays live and bodies run, named `kind` or `kind:index`.

    A package offers its own kind by an entry point in the group `asyncgrad.devices`, named like the kind, that refers
    to a function `open_device(index)`; `index` is None where the name has none. A subclass must define `name`. All else
    has a default: arrays that live here are NumPy's, and bodies run in the thread that drives the backward.

    Example:
        >>> import asyncgrad as ag
        >>> ag.device("cpu").name
        'cpu'
    """

    __slots__ = ("__weakref__", "_streams")

    #: Set by DeviceStreams when the first stream is asked for.
    _streams: Any

    #: Whether arrays here can be viewed by strides. If not, the part of a gradient that belongs to a view is found by
    #: calling the view's functions again.
    has_strides = True
    #: Whether arrays here are NumPy's, in the memory of this process.
    has_host_arrays = True
    #: Whether functions put work on the current stream and return before it is done. If so, a gradient that goes from
    #: one stream to another is waited for by an event, not by the order of calls.
    is_asynchronous = False
    #: Whether its streams record events that tell the time, by `record_event(enable_timing=True)`. A profile shows when
    #: such a device does its work.
    has_timing = False
    #: The streams on which it makes copies by itself, beside those that users make.
    copy_streams: Sequence[Stream] = ()
    #: Whether this device has a thread of its own, to which NodeTasks are sent as Jobs by `submit`.
    has_worker = False
    #: How many bodies may run here at a time; None for any number. A body does not count while it awaits a backward. A
    #: device with a worker enforces its limit itself.
    max_in_flight: int | None = None
    #: Whether `run_body` runs every body, each in a NodeTask; if not, it runs only bodies that may be heavy. True for a
    #: subclass that implements `run_body` and does not set this.
    sees_all_bodies: bool = False

    #: How to make this device the current one of its library in a thread: see `core/arrays/current_devices.py`. None
    #: where the library has one device, or none that is current.
    switch: Any = None

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        definer = next(base for base in cls.__mro__ if "sees_all_bodies" in vars(base))
        if definer is Device and cls.run_body is not Device.run_body:
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
        """The number after the colon of the name; None where there is none."""
        index = self.name.partition(":")[2]
        return int(index) if index else None

    # How bodies run.

    def is_here(self) -> bool:
        """Tell whether the calling thread is one in which this device runs its NodeTasks."""
        return not self.has_worker

    def submit(self, job: Job) -> None:
        """Have `job.run()` called once in a thread of this device, the most urgent job first. Never blocks.

        Called only where `has_worker`. A device that cannot run the job calls `job.refuse(error)`.
        """
        raise NotImplementedError(f"{self.name} has_worker, so {type(self).__name__} must implement submit(job)")

    def waiting_jobs(self) -> Sequence[Job]:
        """Return the Jobs that wait for a thread of this device, the next one first, for `describe_running`.

        It may be called from any thread and from a signal handler, so it must not wait for a lock.
        """
        return ()

    def prefers_worker(self, body: Body) -> bool:
        """Tell whether a body that may be heavy should run on a worker, not in the thread that drives the backward."""
        return False

    def run_body(self, body: Body) -> Any:
        """Return the result of `body()`, the gradients of one node, or an awaitable of that.

        Called in the context of the node's run, which `body()` needs: `asyncio.to_thread(body)` copies it. The `body()`
        of an async node returns a coroutine, which may be returned as it is, or awaited.
        """
        return body()

    @overload
    async def call(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T: ...

    @overload
    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T: ...

    async def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function, plain or async, where this device runs its work; return what it returns.

        The function runs in a copy of the caller's context, in which this is the default device, so operations are
        recorded as they would be in the caller. Suspends until the function has ended. A cancellation cancels an async
        function, and takes effect once the function has ended.

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
        """Return a new stream, for `stream()`; the one of index 0 is the default stream.

        A device whose functions return before their work is done overrides this; by default calls are put on a stream.
        """
        return CallStream(self, index)

    def default_stream(self) -> Stream:
        """Return the stream that is current where no other is."""
        return DeviceStreams.of(self).default

    def current_stream(self) -> Stream:
        """Return the stream on which work of this context is put."""
        stream: Stream | None = CURRENT_STREAMS.get().get(self)
        return self.default_stream() if stream is None else stream

    def stream(self, stream: Stream | None = None) -> Stream:
        """Return a new stream of this device, or the given one: `with device.stream(s):` makes it the current one.

        Raises:
            DeviceError: it is a stream of another device, or not a Stream.

        Example:
            >>> import asyncgrad as ag
            >>> with ag.device("cpu").stream() as stream:
            ...     ag.device("cpu").current_stream() is stream
            True
        """
        streams = DeviceStreams.of(self)
        return streams.make() if stream is None else streams.check(stream)

    def synchronize(self) -> Awaitable[None]:
        """Wait until all work that is on any stream of this device now has ended.

        In a thread with a running event loop it must be awaited, `await device.synchronize()`, and suspends. In any
        other thread it blocks, and needs no await.

        Source: torch.cuda.synchronize.

        Example:
            >>> import asyncgrad as ag
            >>> async def main():
            ...     await ag.device("cpu").synchronize()
            >>> ag.run(main())
        """
        return DeviceStreams.of(self).synchronize()

    def backpressure(self) -> Awaitable[None]:
        """Wait while too much work is queued; called where `is_asynchronous` at the end of each awaited backward.

        A queue that is full blocks the thread that puts work there, and so its event loop. Nothing is waited for by
        default.
        """
        return DONE

    def stand_in(self) -> AbstractContextManager[None]:
        """Return a context manager in which the calling worker thread blocks for other threads.

        Another thread runs the jobs that are submitted meanwhile, since the worker may be waiting for one of them.

        Source: in PyTorch the thread that waits runs further work of its own queue.
        """
        return nullcontext()

    def holds(self, array: object) -> bool:
        """Tell whether this is an array in the memory of this device; implemented where the device `has_timing`."""
        return False

    def kernels_launched(self) -> int | None:
        """Return how many kernels have been launched on this device so far; None where nobody counts."""
        return None

    # How arrays move.

    def from_host(self, array: BareArray) -> Any:
        """Return a copy of a NumPy array that lives on this device."""
        return array.copy(order="K")

    def to_host(self, array: Any) -> Any:
        """Return an array of this device as a NumPy array.

        Where this device has NumPy's arrays it may share their memory, and the caller only reads it. Elsewhere it is a
        new array, and the thread waits until the work that is on the current stream has ended.
        """
        return array

    def from_host_async(self, array: BareArray) -> Any:
        """Return what `from_host` returns, for a caller that leaves `array` unchanged until the copy is made.

        It is made when the work that is on the current stream now has ended. A device that reads the host's memory by
        itself need not copy it first.

        Source: cudaMemcpyAsync; `non_blocking` of torch.Tensor.to.
        """
        return self.from_host(array)

    def from_host_ahead(self, array: BareArray) -> tuple[Any, Event] | None:
        """Return a copy of a NumPy array that is made beside all work, and the Event after which it may be used.

        Offloading reads arrays back by it, ahead of need: no stream waits for the copy before work on it uses the
        array, and waits for the Event. That stream may be any one, at any time until the array is dropped. None, as by
        default, says that there are no such copies: `from_host_async` is called then.
        """
        return None

    def to_host_async(self, array: Any) -> tuple[Any, Event | None]:
        """Return a NumPy array and the Event after which it holds the elements of an array of this device.

        The Event is None where it holds them already, as it does by default. A device that can write into the host's
        memory by itself begins to once the work that is on the current stream has ended, and returns at once. Nobody
        writes into `array` before the Event; the device keeps its memory until then.

        Source: cudaMemcpyAsync; `non_blocking` of torch.Tensor.to.
        """
        return self.to_host(array), None

    def from_device(self, array: Any, source: Device, non_blocking: bool = False) -> Any:
        """Return a copy of an array of another device that lives on this one; None to go by way of the host.

        The copy is work of both devices: it begins when the work that is on the current stream of `source` has ended,
        and the later work on the current streams of both waits for it. Called only where neither has NumPy's arrays.

        Args:
            array: the array.
            source: its device.
            non_blocking: whether nobody writes into `array` before the copy is made, so that `source` need not wait.

        Source: cudaMemcpyPeerAsync.
        """
        return None

    # Closing.

    def close(self) -> None:
        """Refuse waiting and later jobs, and free threads and memory once running jobs have ended.

        It remains the device of its tensors.
        """

    def reopen(self) -> None:
        """Accept work again after `close()`. `ag.device(name)` calls it each time."""

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"device({self.name!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return device, (self.name,)


def device(name: str | Device) -> Device:
    """Return the device of that name, the same object each time; a closed one is reopened.

    Args:
        name: for example `"cpu"`; a Device is returned as it is.

    Raises:
        DeviceError: there is no such device; the message lists those that exist.

    Example:
        >>> import asyncgrad as ag
        >>> ag.device("cpu") is ag.device("cpu")
        True
    """
    if isinstance(name, Device):
        return name
    if not isinstance(name, str):
        raise DeviceError(f"a device must be a Device or the name of one, such as 'cpu' or 'thread:0', not {name!r}")
    found = _opened.get(name)
    if found is None:
        found = _registered.get(name)
    if found is None:
        with _MUTEX:
            found = _opened.get(name)
            if found is None:
                found = _open(str(name))
                several_met[0] = bool(_opened)
                _opened[name] = found
                if found.has_timing:
                    note_timed_device(found)
    found.reopen()
    return found


# Pickles of tensors and devices name it.
device.__module__ = "asyncgrad"


def register_device(made: Device) -> Device:
    """Let `ag.device(name)` find a device that was made directly, while there are references to it; return it.

    Raises:
        DeviceError: another device has that name.

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad.testing import SimulatedAccelerator
        >>> made = SimulatedAccelerator()
        >>> ag.device(made.name) is made
        True
    """
    with _MUTEX:
        if (_opened.get(made.name) or _registered.get(made.name)) not in (None, made):
            raise DeviceError(f"there is another device named {made.name!r}: give this one another index")
        _registered[made.name] = made
        several_met[0] = True
        if made.has_timing:
            note_timed_device(made)
    return made


def is_elsewhere(device: Any) -> bool:
    """Tell whether a node with gradients on `device`, which may be None, has to run on the worker of that device."""
    return isinstance(device, Device) and device.has_worker and not device.is_here()


def has_custom_run(device: Any) -> bool:
    """Tell whether `device`, which may be None, runs every body by `run_body`, or has a limit of bodies."""
    # With `has_limit` inlined, since each NodeTask asks.
    return isinstance(device, Device) and (
        device.sees_all_bodies or (device.max_in_flight is not None and not device.has_worker)
    )


def has_limit(device: Device) -> bool:
    """Tell whether a body needs a permit on `device`; a device with a worker enforces its limit itself."""
    return device.max_in_flight is not None and not device.has_worker


def needs_node_task(device: Any) -> bool:
    """Tell whether each node with gradients on `device`, which may be None, has to run as a NodeTask."""
    # `is_elsewhere(device) or has_custom_run(device)`, inlined since each backward calls it.
    return isinstance(device, Device) and (
        device.sees_all_bodies or (not device.is_here() if device.has_worker else device.max_in_flight is not None)
    )


def needs_engine(device: Any) -> bool:
    """Tell whether a compiled function cannot run a node with gradients on `device`, to which an earlier one moved."""
    if needs_node_task(device):
        return True
    # One of several devices of a library, of which another one is current.
    return isinstance(device, Device) and device.switch is not None and device.switch.current() != device.index


def home_of(root: Any) -> Any:
    """Return the device on which a backward from the node `root` begins; None if it is not known."""
    if root.device is not None or not root.next_nodes or root.next_nodes[0] is None:
        return root.device
    # A GraphRoot has none.
    return root.next_nodes[0].device


def open_devices() -> list[Device]:
    """Return the devices that there are in this process; takes no lock."""
    registered = [reference() for reference in _registered.valuerefs()]
    return [*_opened.copy().values(), *(device for device in registered if device is not None)]


def device_here() -> Device | None:
    """Return the device whose worker is the calling thread; None where there is none."""
    return next((each for each in list(_opened.values()) if each.has_worker and each.is_here()), None)


def _open(name: str) -> Device:
    kind, colon, index = name.partition(":")
    if not kind or (colon and not _INDEX.fullmatch(index)):
        raise _unknown_device(name)
    number = int(index) if colon else None
    is_module = kind.isidentifier() and not kind.startswith("_")
    if is_module and find_spec(f"asyncgrad.devices.{kind}") is not None:
        opener = import_module(f"asyncgrad.devices.{kind}").open_device
    else:
        opener = _find_opener(kind, name)
    try:
        opened = opener(number)
        found = opened.name if isinstance(opened, Device) else None
    except DeviceError:
        raise
    except Exception as error:
        raise DeviceError(f"the device {name!r} cannot be opened: open_device({number}) raised {error!r}") from error
    if found != name and not (number is None and found == f"{kind}:0"):
        what = f"a {type(opened).__name__}" + (f" named {found!r}" if isinstance(opened, Device) else "")
        raise DeviceError(f"open_device({number}) must return the device named {name!r}, not {what}")
    device_of_name: Device = opened
    return device_of_name


def _entry_points() -> Any:
    """Return the kinds of devices that installed packages offer."""
    # Imported here: it takes a sixth of the time of importing asyncgrad, and few programs use such a device.
    return import_module("importlib.metadata").entry_points(group=ENTRY_POINTS)


def _find_opener(kind: str, name: str) -> Any:
    """Return the function with which an installed package opens devices of a kind."""
    offers = {offered.value: offered for offered in _entry_points() if offered.name == kind}
    if not offers:
        raise _unknown_device(name)
    if len(offers) > 1:
        raise DeviceError(f"the device {name!r} is offered by {' and by '.join(sorted(offers))}: uninstall all but one")
    ((value, offered),) = offers.items()
    try:
        opener = offered.load()
    except Exception as error:
        raise DeviceError(f"the device {name!r} is offered by {value!r}, which cannot be loaded: {error!r}") from error
    if not callable(opener):
        raise DeviceError(
            f"the device {name!r} is offered by {value!r}, which must be a function of an index, not {opener!r}"
        )
    return opener


def _unknown_device(name: str) -> DeviceError:
    kinds = {"cpu", "thread", *(offered.name for offered in _entry_points())}
    examples = ", ".join(repr(kind if kind == "cpu" else f"{kind}:0") for kind in sorted(kinds))
    return DeviceError(f"there is no device {name!r}; there are {examples}, and with an NVIDIA GPU 'cuda:0'")


@final
class default_device(Mode):
    """Inside, `ag.tensor` and `ag.asarray` make tensors on this device unless they are given another one.

    A context manager, and a decorator of functions, generators and their async kinds. It applies to the current context
    only, not to other asyncio tasks. Inside of `device.call` the default is that device.

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


def device_of_array(array: Any) -> Device | None:
    """Return the device on which an array of another library than NumPy lives; None if it is not known.

    Such an array says so by `__dlpack_device__`, or by an attribute `device` that is a Device.
    """
    found = getattr(array, "device", None)
    if isinstance(found, Device):
        return found
    if not hasattr(array, "__dlpack_device__"):
        return None
    number, index = array.__dlpack_device__()
    kind = _DLPACK_KINDS.get(int(number))
    return None if kind is None else device(f"{kind}:{index}")


def moved_to(array: Any, target: Device, home: Device | None = None) -> Any:
    """Return an array that the caller owns as an array of a device; a new one only where it has to move.

    Args:
        array: NumPy's, or that of another library.
        target: the device.
        home: where an array of another library lives; None finds out.

    Raises:
        ArgumentTypeError: an array of another library does not say where it lives, and not on this device, which has
            NumPy's.
    """
    if not is_device_array(array):
        return on_device(array, target)
    home = home or device_of_array(array)
    if home is None:
        if target.has_host_arrays:
            raise ArgumentTypeError(
                f"{describe(array)} does not say by __dlpack_device__ which device it is on, and '{target}' has arrays "
                "of NumPy's alone: name its device, for example by ag.tensor(array, device='cuda:0')"
            )
        return array
    return array if home is target else moved_array(array, home, target)


def device_of_new(target: str | Device | None) -> Device:
    """Return the device of a new tensor: `target`, or the default device where that is None."""
    if target is not None:
        return device(target)
    default: Device | None = DEFAULT_DEVICE.get()
    return _CPU if default is None else default
