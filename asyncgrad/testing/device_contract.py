"""The rules that every device must follow, as checks for its tests; each check is named after its rule."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from itertools import pairwise
from typing import Any, final

import numpy as np

from ..core.backward import backward, grad
from ..core.engine.device import Device, default_device, device
from ..core.engine.loops import run
from ..core.function.function import Function
from ..core.settings.context import enable_grad, no_grad
from ..core.tensor import Tensor, tensor
from ..errors import DeviceError
from ..observing.profile import profile

__all__ = ["DEVICE_CHECKS", "check_device"]

#: By how much numbers in double precision may differ that two libraries have computed, relative to their size.
ROUNDING = 1e-12

#: The seconds that `check_device` gives each check.
PATIENCE = 30.0

#: Set by a check, and read where the device runs its work.
_CALLER: ContextVar[str] = ContextVar("asyncgrad_device_contract", default="nobody")


def _require(holds: Any, what: str) -> None:
    if not holds:
        raise AssertionError(what)


def _same_bits(first: Any, second: Any) -> bool:
    one, other = (np.asarray(value.device.to_host(value._data)) for value in (first, second))
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def _are_near(first: Any, second: Any) -> bool:
    one, other = (np.asarray(value.device.to_host(value._data)) for value in (first, second))
    return one.dtype == other.dtype and one.shape == other.shape and np.allclose(one, other, rtol=ROUNDING, atol=0)


@final
class WatchedCopy(Function):
    """A copy of x whose backward calls `watch()` first."""

    @staticmethod
    def forward(ctx: Any, x: Any, watch: Any) -> Any:
        """Return x times one."""
        ctx.watch = watch
        return x * 1

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """Call the function, and pass on the gradient."""
        ctx.watch()
        return grad, None


@final
class AwaitingCopy(Function):
    """A copy of x whose backward awaits `watch()` first."""

    @staticmethod
    def forward(ctx: Any, x: Any, watch: Any) -> Any:
        """Return x times one."""
        ctx.watch = watch
        return x * 1

    @staticmethod
    async def backward(ctx: Any, grad: Any) -> Any:
        """Await the function's result, and pass on the gradient."""
        await ctx.watch()
        return grad, None


def _leaf(target: Device, *numbers: float) -> Tensor:
    return tensor(np.array(numbers or (1.0, 2.0, -3.0)), device=target, requires_grad=True)


async def a_move_there_and_back_keeps_every_bit(target: Device) -> None:
    """For arrays of every dtype, shape and layout."""
    arrays: list[Any] = [np.arange(6).reshape(2, 3), np.arange(6.0).reshape(2, 3).T, np.array(2.5), np.zeros((0, 3))]
    arrays += [np.arange(4).astype(kind) for kind in ("?", "i1", "u8", "f2", "f4", "f8", "c8", "c16")]
    arrays += [np.array([np.nan, -0.0, np.inf, 5e-324])]
    for array in arrays:
        here = tensor(array)
        there = here.to(target)
        _require(there.device is target, f"t.to({target.name!r}) must be on it")
        _require(_same_bits(there.to("cpu"), here), f"{array.dtype} of shape {array.shape} changed on the way")
        _require(there.to(target) is there, "moving a tensor to its own device must return the tensor itself")


async def a_move_that_is_not_waited_for_has_ended_when_the_device_is_synchronized(target: Device) -> None:
    """There and back, with every bit and in the same order in memory."""
    for array in (np.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(2, 3).T, np.array([np.nan, -0.0])):
        here = tensor(array)
        back = here.to(target, non_blocking=True).to("cpu", non_blocking=True)
        await target.synchronize()
        what = f"{array.dtype} of shape {array.shape}"
        _require(_same_bits(back, here), f"{what} changed on the way with non_blocking=True")
        _require(back.strides == here.strides, f"{what} lost its order in memory with non_blocking=True")


async def a_move_shares_no_memory(target: Device) -> None:
    """A later write into the source does not change the copy."""
    here = tensor([1.0, 2.0])
    there = here.to(target)
    if there is not here:
        here[0] = 5.0
        _require(there.to("cpu").tolist() == [1.0, 2.0], "a copy on a device must not share memory with its source")


async def a_move_is_recorded(target: Device) -> None:
    """As CopyBackwards, which moves the gradient back; not under no_grad, and not for integers."""
    x = _leaf(device("cpu"))
    y = x.to(target)
    if y is x:
        return
    _require(y.grad_fn is not None and y.grad_fn.name == "CopyBackwards", "a move is recorded as CopyBackwards")
    _require(not y.is_leaf, "a moved tensor is not a leaf")
    with no_grad():
        _require(not x.to(target).requires_grad, "under no_grad a move is not recorded")
    _require(not tensor([1, 2]).to(target).requires_grad, "an integer tensor requires no grad, moved or not")
    await backward(y, np.ones(3))
    _require(x.grad is not None and x.grad.device is x.device, "the gradient is where its tensor is")


async def gradients_are_those_of_the_cpu(target: Device) -> None:
    """First and second derivatives, for leaves on the cpu and on the device; bit for bit if the arrays are NumPy's.

    Another library may round its functions otherwise.
    """
    found = []
    for where in (device("cpu"), target):
        x, w = _leaf(device("cpu"), 0.1, 0.7, -1.3), _leaf(where, 1.1, -0.3, 0.9)
        moved = x.to(where)
        y = np.tanh(moved * w) * moved + np.exp(w)
        (first,) = await grad(y.sum(), [x], create_graph=True)
        total: Any = y.sum()
        await backward((first * first).sum() + total.to("cpu"))
        found.append((first, x.grad, w.grad))
        _require(w.grad.device is where, "the gradient is where its leaf is")  # type: ignore[union-attr]
    for one, other in zip(*found, strict=True):
        if target.has_host_arrays:
            _require(_same_bits(one, other), "gradients must have the same bits on every device with NumPy's arrays")
        else:
            _require(_are_near(one, other), "gradients must be those of the cpu up to rounding")


async def bodies_run_where_the_device_runs_its_work(target: Device) -> None:
    """Bodies and hooks run on the device in the caller's context, whether they are functions or coroutines."""
    seen: list[tuple[bool, str]] = []

    def watch(*_: Any) -> None:
        seen.append((target.is_here(), _CALLER.get()))

    async def watch_later() -> None:
        await asyncio.sleep(0)
        watch()

    token = _CALLER.set("me")
    x = _leaf(device("cpu")).to(target)
    x.register_hook(watch)
    await backward(AwaitingCopy.apply(WatchedCopy.apply(x, watch), watch_later).sum())
    _CALLER.reset(token)
    _require(seen == [(True, "me")] * 3, f"bodies and hooks run on the device, in the caller's context, not {seen}")


async def an_error_of_a_body_ends_the_backward_and_nothing_is_written(target: Device) -> None:
    """The caller gets the same exception object, with a note that names the node."""
    problem = ValueError("as it should be")

    def fail() -> None:
        raise problem

    x = _leaf(target)
    try:
        await backward((x * 2).sum() + WatchedCopy.apply(x, fail).sum())
    except Exception as error:
        _require(error is problem, f"the backward must raise the body's own error, not {error!r}")
        _require(any("WatchedCopyBackward" in note for note in problem.__notes__), "a note names the node")
    else:
        _require(False, "the error of a body must end its backward")
    _require(x.grad is None, "a backward that fails writes no gradient")
    await backward((x * 2).sum())
    _require(x.grad is not None, "after an error the device works as before")


async def a_cancelled_backward_ends_once_its_bodies_have(target: Device) -> None:
    """A waiting body is cancelled, and the backward waits for its clean-up."""
    loop, told = asyncio.get_running_loop(), []
    begun = asyncio.Event()

    async def wait() -> None:
        loop.call_soon_threadsafe(begun.set)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(0)
            told.append("cleaned up")

    x = _leaf(target)
    task = asyncio.ensure_future(backward(AwaitingCopy.apply(x, wait).sum() + (x * 2).sum()))
    await begun.wait()
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        told.append("cancelled")
    _require(told == ["cleaned up", "cancelled"], f"a cancelled backward waits for its bodies to end: {told}")
    _require(x.grad is None, "a cancelled backward writes no gradient")


async def a_function_is_called_there(target: Device) -> None:
    """`call` runs plain and async functions in a copy of the caller's context, with the device as the default one."""

    def plain(number: int, *, more: int) -> tuple[Any, ...]:
        _CALLER.set("the function")
        return number + more, target.is_here(), tensor(0.0).device

    async def later(number: int) -> tuple[Any, ...]:
        await asyncio.sleep(0)
        return number, target.is_here(), tensor(0.0).device

    _require(await target.call(plain, 1, more=2) == (3, True, target), "call runs a function on the device")
    _require(await target.call(later, 4) == (4, True, target), "call awaits what an async function returns")
    _require(_CALLER.get() == "nobody", "a function that is called on a device runs in a copy of the context")
    with no_grad():
        made = await target.call(lambda: (_leaf(target) * 2).requires_grad)
    _require(made is False, "a function that is called on a device runs in the caller's grad mode")
    problem = KeyError("as it should be")

    def fail() -> None:
        raise problem

    try:
        await target.call(fail)
    except KeyError as error:
        _require(error is problem, "call must raise the function's own error")
    else:
        _require(False, "the error of a function must reach the caller")


async def tensors_are_made_there_by_default(target: Device) -> None:
    """Inside `default_device`, unless another device is given."""
    with default_device(target):
        _require(tensor([1.0]).device is target, "the default device is where tensors are made")
        _require(tensor([1.0], device="cpu").device is device("cpu"), "a device that is named comes before the default")
    _require(tensor([1.0]).device is device("cpu"), "a default device holds for its block only")


async def tensors_of_two_devices_do_not_mix(target: Device) -> None:
    """The operation raises, and the error says how to move one of them."""
    if target is device("cpu"):
        return
    try:
        _ = tensor([1.0]) + tensor([1.0]).to(target)
    except DeviceError as error:
        _require(".to(" in str(error), "the error says how to move a tensor")
    else:
        _require(False, "an operation on tensors of two devices must raise")


async def timed_events_tell_how_long_the_work_between_them_took(target: Device) -> None:
    """In milliseconds, once both have completed; an event without a time is refused."""
    if not target.has_timing:
        return
    stream = target.current_stream()
    plain, begin = stream.record_event(), stream.record_event(enable_timing=True)
    x = _leaf(target)
    _ = x * 2
    end = stream.record_event(enable_timing=True)
    await end.synchronize()
    _require(begin.elapsed_time(end) >= 0, "the work between two events of one stream takes no less than no time")
    _require(begin.elapsed_time(begin) == 0, "no time passes between an event and itself")
    _require(target.holds(x._data), "a device that has_timing holds the arrays of its tensors")
    _require(not target.holds(np.ones(2)), "a device with arrays of its own does not hold those of NumPy")
    try:
        plain.elapsed_time(end)
    except DeviceError:
        return
    _require(False, "an event that was recorded without enable_timing has no time")


async def a_profile_shows_when_a_device_works(target: Device) -> None:
    """Each function and each node on the stream that it is put on, no sooner than the host launches it."""
    if not target.has_timing:
        return
    async with profile() as recorded:
        await backward(np.tanh(_leaf(target) * 2).sum())
    spans = recorded.device_spans
    names = {span.name for span in spans}
    expected = {"multiply", "tanh", "sum", "SumBackward", "TanhBackward", "MultiplyBackward", "AccumulateGrad"}
    _require(expected <= names, f"a profile shows all functions and nodes, and these are missing: {expected - names}")
    _require(all(span.launched <= span.began <= span.ended for span in spans), "work begins after its launch, and ends")
    apart = all(one.ended <= other.began for one, other in pairwise(spans))
    _require(apart, "the work of one stream does not overlap")


async def at_most_max_in_flight_bodies_run_at_a_time(target: Device) -> None:
    """A suspended body counts, except on a device with a worker, which takes the next body meanwhile."""
    running, peak = 0, 0

    async def watch() -> None:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(0)
        running -= 1

    x = _leaf(target)
    await backward([AwaitingCopy.apply(x, watch) for _ in range(5)], [np.ones(3)] * 5)
    if target.max_in_flight is not None and not target.has_worker:
        _require(
            peak <= target.max_in_flight, f"{peak} bodies ran at a time, but max_in_flight is {target.max_in_flight}"
        )
    _require(_same_bits(x.grad, tensor(np.full(3, 5.0))), "every body must be run, whatever their number")


async def the_deepest_backward_runs_first(target: Device) -> None:
    """A device that runs one NodeTask at a time takes the waiting one of the deepest backward first."""
    if not target.has_worker or target.max_in_flight != 1:
        return
    loop, order = asyncio.get_running_loop(), []
    held, begun, queued = threading.Event(), asyncio.Event(), asyncio.Event()

    def hold() -> None:
        loop.call_soon_threadsafe(begun.set)
        held.wait()

    def say(name: str) -> Coroutine[object, None, None]:
        # The root is the node itself, so it is queued at once.
        with enable_grad():
            return backward(WatchedCopy.apply(_leaf(target), lambda: order.append(name)), np.ones(3))

    async def inner() -> None:
        # This body is on the cpu, so that its backward is driven from here, one level deeper.
        nested = asyncio.ensure_future(say("deep"))
        for _ in range(10):
            await asyncio.sleep(0)
        queued.set()
        await nested

    blocked = asyncio.ensure_future(target.call(hold))
    await begun.wait()
    flat = asyncio.ensure_future(say("flat"))
    for _ in range(10):
        await asyncio.sleep(0)
    deep = asyncio.ensure_future(backward(AwaitingCopy.apply(_leaf(device("cpu")), inner).sum()))
    await queued.wait()
    held.set()
    await asyncio.gather(blocked, flat, deep)
    _require(order == ["deep", "flat"], f"the deeper backward must run first, but the order was {order}")


async def a_closed_device_refuses_waiting_and_new_work(target: Device) -> None:
    """Running work ends normally, and `ag.device` opens the device again."""
    if not target.has_worker:
        return
    loop, held, begun = asyncio.get_running_loop(), threading.Event(), asyncio.Event()

    def hold() -> str:
        loop.call_soon_threadsafe(begun.set)
        held.wait()
        return "ended"

    x = _leaf(target)
    running = asyncio.ensure_future(target.call(hold))
    await begun.wait()
    waiting = asyncio.ensure_future(backward((x * 2).sum()))
    for _ in range(10):
        await asyncio.sleep(0)
    target.close()
    try:
        for work in (lambda: waiting, lambda: target.call(hold)):
            try:
                await work()
            except DeviceError as error:
                _require(target.name in str(error), "the error names the device")
            else:
                _require(False, "a closed device refuses work")
    finally:
        held.set()
    _require(await running == "ended", "work that runs when a device is closed must end normally")
    _require(x.grad is None, "refused work must write nothing")
    _require(device(target.name) is target, "a device that is opened again must be the same object")
    try:
        await backward((x * 2).sum())
    except DeviceError as error:
        raise AssertionError("a device that is opened again must work") from error
    _require(x.grad is not None, "a device that is opened again must work")


#: The checks of every device; each is a coroutine function that takes a device.
DEVICE_CHECKS: tuple[Callable[[Device], Coroutine[object, None, None]], ...] = (
    a_move_there_and_back_keeps_every_bit,
    a_move_that_is_not_waited_for_has_ended_when_the_device_is_synchronized,
    a_move_shares_no_memory,
    a_move_is_recorded,
    gradients_are_those_of_the_cpu,
    bodies_run_where_the_device_runs_its_work,
    an_error_of_a_body_ends_the_backward_and_nothing_is_written,
    a_cancelled_backward_ends_once_its_bodies_have,
    a_function_is_called_there,
    tensors_are_made_there_by_default,
    tensors_of_two_devices_do_not_mix,
    timed_events_tell_how_long_the_work_between_them_took,
    a_profile_shows_when_a_device_works,
    at_most_max_in_flight_bodies_run_at_a_time,
    the_deepest_backward_runs_first,
    a_closed_device_refuses_waiting_and_new_work,
)


def check_device(target: str | Device) -> None:
    """Raise if a device breaks a rule that every device must follow; for the tests of a new device.

    `asyncgrad.testing.DEVICE_CHECKS` holds the checks one by one.

    Args:
        target: a device or the name of one.

    Raises:
        AssertionError: it breaks a rule; the message says which.

    Example:
        >>> import asyncgrad as ag
        >>> ag.testing.check_device("null:0")
    """
    checked = device(target)
    for check in DEVICE_CHECKS:
        run(_run_check(check, checked))


async def _run_check(check: Callable[[Device], Coroutine[object, None, None]], target: Device) -> None:
    try:
        async with asyncio.timeout(PATIENCE):
            await check(target)
    except TimeoutError:
        name = check.__name__.replace("_", " ")
        _require(False, f"{name}: the check has not ended after {PATIENCE:g} s, so some work or its end was lost")
