"""What every device must do, as checks that its own tests can run; each is named for the law that it holds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, final

import numpy as np

from ..backward import backward, grad
from ..context import enable_grad, no_grad
from ..engine.device import Device, default_device, device
from ..engine.loops import run
from ..errors import DeviceError
from ..function import Function
from ..tensor import Tensor, tensor

__all__ = ["DEVICE_CHECKS", "check_device"]

#: Seconds that `check_device` gives each law.
PATIENCE = 30.0

#: Set by a check, and looked for where the device runs its work.
_CALLER: ContextVar[str] = ContextVar("asyncgrad_device_contract", default="nobody")


def _law(holds: Any, what: str) -> None:
    if not holds:
        raise AssertionError(what)


def _same_bits(first: Any, second: Any) -> bool:
    one, other = (np.asarray(value.device.to_host(value._data)) for value in (first, second))
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


@final
class Watched(Function):
    """A copy of x whose backward calls `watch()` first."""

    @staticmethod
    def forward(ctx: Any, x: Any, watch: Any) -> Any:
        """Return x times one."""
        ctx.watch = watch
        return x * 1

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """Call the function, and hand on the gradient."""
        ctx.watch()
        return grad, None


@final
class Awaiting(Function):
    """A copy of x whose backward awaits `watch()` first."""

    @staticmethod
    def forward(ctx: Any, x: Any, watch: Any) -> Any:
        """Return x times one."""
        ctx.watch = watch
        return x * 1

    @staticmethod
    async def backward(ctx: Any, grad: Any) -> Any:
        """Await what the function returns, and hand on the gradient."""
        await ctx.watch()
        return grad, None


def _leaf(place: Device, *numbers: float) -> Tensor:
    return tensor(np.array(numbers or (1.0, 2.0, -3.0)), device=place, requires_grad=True)


async def a_move_there_and_back_keeps_every_bit(place: Device) -> None:
    """Of every dtype, shape and layout."""
    arrays: list[Any] = [np.arange(6).reshape(2, 3), np.arange(6.0).reshape(2, 3).T, np.array(2.5), np.zeros((0, 3))]
    arrays += [np.arange(4).astype(kind) for kind in ("?", "i1", "u8", "f2", "f4", "f8", "c8", "c16")]
    arrays += [np.array([np.nan, -0.0, np.inf, 5e-324])]
    for array in arrays:
        here = tensor(array)
        there = here.to(place)
        _law(there.device is place, f"t.to({place.name!r}) must be on it")
        _law(_same_bits(there.to("cpu"), here), f"{array.dtype} of shape {array.shape} changed on the way")
        _law(there.to(place) is there, "a tensor that is there already is the tensor itself")


async def a_move_shares_no_memory(place: Device) -> None:
    """What is written into the source later does not reach the copy."""
    here = tensor([1.0, 2.0])
    there = here.to(place)
    if there is not here:
        here[0] = 5.0
        _law(there.to("cpu").tolist() == [1.0, 2.0], "a copy on a device must not share memory with its source")


async def a_move_is_recorded(place: Device) -> None:
    """As CopyBackwards, which brings the gradient back; not under no_grad, and not of integers."""
    x = _leaf(device("cpu"))
    y = x.to(place)
    if y is x:
        return
    _law(y.grad_fn is not None and y.grad_fn.name == "CopyBackwards", "a move is recorded as CopyBackwards")
    _law(not y.is_leaf, "what was moved is no leaf")
    with no_grad():
        _law(not x.to(place).requires_grad, "under no_grad a move is not recorded")
    _law(not tensor([1, 2]).to(place).requires_grad, "an integer tensor requires no grad, moved or not")
    await backward(y, np.ones(3))
    _law(x.grad is not None and x.grad.device is x.device, "the gradient is where its tensor is")


async def gradients_have_the_bits_that_they_have_on_the_cpu(place: Device) -> None:
    """First and second derivatives, of leaves here and there."""
    found = []
    for where in (device("cpu"), place):
        x, w = _leaf(device("cpu"), 0.1, 0.7, -1.3), _leaf(where, 1.1, -0.3, 0.9)
        moved = x.to(where)
        y = np.tanh(moved * w) * moved + np.exp(w)
        (first,) = await grad(y.sum(), [x], create_graph=True)
        total: Any = y.sum()
        await backward((first * first).sum() + total.to("cpu"))
        found.append((first, x.grad, w.grad))
        _law(w.grad.device is where, "the gradient is where its leaf is")  # type: ignore[union-attr]
    for one, other in zip(*found, strict=True):
        _law(_same_bits(one, other), "gradients must have the same bits on every device")


async def bodies_run_where_the_device_runs_its_work(place: Device) -> None:
    """With the context of the caller, whether they are functions or coroutines; so do hooks."""
    seen: list[tuple[bool, str]] = []

    def watch(*_: Any) -> None:
        seen.append((place.is_here(), _CALLER.get()))

    async def watch_later() -> None:
        await asyncio.sleep(0)
        watch()

    token = _CALLER.set("me")
    x = _leaf(device("cpu")).to(place)
    x.register_hook(watch)
    await backward(Awaiting.apply(Watched.apply(x, watch), watch_later).sum())
    _CALLER.reset(token)
    _law(seen == [(True, "me")] * 3, f"bodies and hooks run on the device, in the caller's context, not {seen}")


async def an_error_of_a_body_ends_the_backward_and_nothing_is_written(place: Device) -> None:
    """It is the very error, with a note that names the node."""
    problem = ValueError("as it should be")

    def fail() -> None:
        raise problem

    x = _leaf(place)
    try:
        await backward((x * 2).sum() + Watched.apply(x, fail).sum())
    except Exception as error:
        _law(error is problem, f"the error is the body's own, and not {error!r}")
        _law(any("WatchedBackward" in note for note in problem.__notes__), "a note names the node")
    else:
        _law(False, "the error of a body must end its backward")
    _law(x.grad is None, "a backward that fails writes no gradient")
    await backward((x * 2).sum())
    _law(x.grad is not None, "after an error the device works as before")


async def a_cancelled_backward_ends_once_its_bodies_have(place: Device) -> None:
    """A body that waits is cancelled, and its clean-up waited for."""
    loop, told = asyncio.get_running_loop(), []
    begun = asyncio.Event()

    async def wait() -> None:
        loop.call_soon_threadsafe(begun.set)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(0)
            told.append("cleaned up")

    x = _leaf(place)
    task = asyncio.ensure_future(backward(Awaiting.apply(x, wait).sum() + (x * 2).sum()))
    await begun.wait()
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        told.append("cancelled")
    _law(told == ["cleaned up", "cancelled"], f"a cancelled backward waits for its bodies to end: {told}")
    _law(x.grad is None, "a cancelled backward writes no gradient")


async def a_function_is_called_there(place: Device) -> None:
    """Plain or async, with a copy of the caller's context, in which the device is the default one."""

    def plain(number: int, *, more: int) -> tuple[Any, ...]:
        _CALLER.set("the function")
        return number + more, place.is_here(), tensor(0.0).device

    async def later(number: int) -> tuple[Any, ...]:
        await asyncio.sleep(0)
        return number, place.is_here(), tensor(0.0).device

    _law(await place.call(plain, 1, more=2) == (3, True, place), "call runs a function on the device")
    _law(await place.call(later, 4) == (4, True, place), "call awaits what an async function returns")
    _law(_CALLER.get() == "nobody", "a function that is called on a device runs in a copy of the context")
    with no_grad():
        made = await place.call(lambda: (_leaf(place) * 2).requires_grad)
    _law(made is False, "what is called on a device records as its caller would")
    problem = KeyError("as it should be")

    def fail() -> None:
        raise problem

    try:
        await place.call(fail)
    except KeyError as error:
        _law(error is problem, "the error of a function is the caller's")
    else:
        _law(False, "the error of a function must reach the caller")


async def tensors_are_made_there_by_default(place: Device) -> None:
    """Inside of `default_device`, unless they are told another device."""
    with default_device(place):
        _law(tensor([1.0]).device is place, "the default device is where tensors are made")
        _law(tensor([1.0], device="cpu").device is device("cpu"), "a device that is named comes before the default")
    _law(tensor([1.0]).device is device("cpu"), "a default device holds for its block only")


async def tensors_of_two_devices_do_not_mix(place: Device) -> None:
    """One has to be moved, and the error says how."""
    if place is device("cpu"):
        return
    try:
        _ = tensor([1.0]) + tensor([1.0]).to(place)
    except DeviceError as error:
        _law(".to(" in str(error), "the error says how to move a tensor")
    else:
        _law(False, "an operation on tensors of two devices must raise")


async def no_more_bodies_are_under_way_than_it_takes(place: Device) -> None:
    """A body that is suspended is under way, unless the device has a worker, which takes the next one then."""
    under_way, peak = 0, 0

    async def watch() -> None:
        nonlocal under_way, peak
        under_way += 1
        peak = max(peak, under_way)
        await asyncio.sleep(0)
        under_way -= 1

    x = _leaf(place)
    await backward([Awaiting.apply(x, watch) for _ in range(5)], [np.ones(3)] * 5)
    if place.max_in_flight is not None and not place.has_worker:
        _law(peak <= place.max_in_flight, f"{peak} bodies were under way, and max_in_flight is {place.max_in_flight}")
    _law(_same_bits(x.grad, tensor(np.full(3, 5.0))), "every body is run, whatever their number")


async def one_at_a_time_and_the_deepest_first(place: Device) -> None:
    """Where the device runs one NodeTask at a time: of what waits, what lies deepest runs first."""
    if not place.has_worker or place.max_in_flight != 1:
        return
    loop, order = asyncio.get_running_loop(), []
    held, begun, queued = threading.Event(), asyncio.Event(), asyncio.Event()

    def hold() -> None:
        loop.call_soon_threadsafe(begun.set)
        held.wait()

    def say(name: str) -> Coroutine[Any, Any, None]:
        # The root is the node itself: it is queued at once.
        with enable_grad():
            return backward(Watched.apply(_leaf(place), lambda: order.append(name)), np.ones(3))

    async def inner() -> None:
        # A body on the cpu, so that its backward is driven from here, one level deeper.
        nested = asyncio.ensure_future(say("deep"))
        for _ in range(10):
            await asyncio.sleep(0)
        queued.set()
        await nested

    blocked = asyncio.ensure_future(place.call(hold))
    await begun.wait()
    flat = asyncio.ensure_future(say("flat"))
    for _ in range(10):
        await asyncio.sleep(0)
    deep = asyncio.ensure_future(backward(Awaiting.apply(_leaf(device("cpu")), inner).sum()))
    await queued.wait()
    held.set()
    await asyncio.gather(blocked, flat, deep)
    _law(order == ["deep", "flat"], f"what lies deeper runs first: {order}")


async def a_closed_device_refuses_what_waits_and_what_comes(place: Device) -> None:
    """What runs ends; `ag.device` opens it again."""
    if not place.has_worker:
        return
    loop, held, begun = asyncio.get_running_loop(), threading.Event(), asyncio.Event()

    def hold() -> str:
        loop.call_soon_threadsafe(begun.set)
        held.wait()
        return "ended"

    x = _leaf(place)
    running = asyncio.ensure_future(place.call(hold))
    await begun.wait()
    waiting = asyncio.ensure_future(backward((x * 2).sum()))
    for _ in range(10):
        await asyncio.sleep(0)
    place.close()
    try:
        for work in (lambda: waiting, lambda: place.call(hold)):
            try:
                await work()
            except DeviceError as error:
                _law(place.name in str(error), "the error names the device")
            else:
                _law(False, "a closed device refuses work")
    finally:
        held.set()
    _law(await running == "ended", "what runs when a device is closed ends")
    _law(x.grad is None, "what was refused wrote nothing")
    _law(device(place.name) is place, "a device that is opened again is the same object")
    try:
        await backward((x * 2).sum())
    except DeviceError as error:
        raise AssertionError("a device that is opened again works") from error
    _law(x.grad is not None, "a device that is opened again works")


#: The laws that every device holds, each a coroutine function of a device.
DEVICE_CHECKS: tuple[Callable[[Device], Coroutine[Any, Any, None]], ...] = (
    a_move_there_and_back_keeps_every_bit,
    a_move_shares_no_memory,
    a_move_is_recorded,
    gradients_have_the_bits_that_they_have_on_the_cpu,
    bodies_run_where_the_device_runs_its_work,
    an_error_of_a_body_ends_the_backward_and_nothing_is_written,
    a_cancelled_backward_ends_once_its_bodies_have,
    a_function_is_called_there,
    tensors_are_made_there_by_default,
    tensors_of_two_devices_do_not_mix,
    no_more_bodies_are_under_way_than_it_takes,
    one_at_a_time_and_the_deepest_first,
    a_closed_device_refuses_what_waits_and_what_comes,
)


def check_device(target: str | Device) -> None:
    """Hold a device to all that every device must do; for the tests of whoever writes one.

    Each law is a function of `asyncgrad.testing.DEVICE_CHECKS`, for tests that want them one by one.

    Args:
        target: a device or the name of one.

    Raises:
        AssertionError: it breaks a law; the message says which.

    Example:
        >>> import asyncgrad as ag
        >>> ag.testing.check_device("null:0")
    """
    place = device(target)
    for check in DEVICE_CHECKS:
        run(_held_to(check, place))


async def _held_to(check: Callable[[Device], Coroutine[Any, Any, None]], place: Device) -> None:
    try:
        async with asyncio.timeout(PATIENCE):
            await check(place)
    except TimeoutError:
        name = check.__name__.replace("_", " ")
        _law(False, f"{name}: that has not ended after {PATIENCE:g} s, so some work or its end has got lost")
