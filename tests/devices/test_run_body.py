"""A device may have a way of its own to run bodies: it sees every one, may await it, and may take a limited number."""

from __future__ import annotations

import asyncio
import gc
import threading

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.errors import BlockingError, DeviceError, GradientTypeError
from asyncgrad.testing.device_contract import AwaitingCopy, WatchedCopy
from tests.devices.numbered import Numbered
from tests.support.functions import Doubled
from tests.support.loops import on_each_loop
from tests.support.turns import one_turn


class RunsBodies(Numbered):
    """Runs bodies in its own way, and notes which, and how many at a time."""

    def __init__(self, most=None, waits=True):
        super().__init__()
        self._waits = waits
        self.max_in_flight = most
        self.names = []
        self.under_way = self.peak = 0

    def run_body(self, body):
        self.names.append(body.node.name)
        return self._run(body) if self._waits else body()

    async def _run(self, body):
        self.under_way += 1
        self.peak = max(self.peak, self.under_way)
        try:
            for _ in range(3):
                await asyncio.sleep(0)
            return body()
        finally:
            self.under_way -= 1


class Limited(Numbered):
    """Runs bodies as any device does, and so many at a time."""

    def __init__(self, most=1):
        super().__init__()
        self.max_in_flight = most


def branches_on(place):
    x = ag.tensor([0.3, -1.7], device=place, requires_grad=True)
    y = AwaitingCopy.apply(x, one_turn)
    for number in range(5):
        y = y + np.sin(Doubled.apply(x * (number + 1.5)))
    return x, y.sum()


#: Of `branches_on`: a sum, an async body, and five branches of four nodes.
NODES = 22

WAYS = ["awaited", "blocking", "create_graph", "inputs", "compiled"]


def grad_of(place, run, way):
    if way == "blocking":
        x, y = branches_on(place)
        ag.sync.backward(y)
        return x.grad

    async def main():
        if way == "compiled":
            with ag.compiled_autograd(after=1):
                for _ in range(3):
                    x, y = branches_on(place)
                    getattr(place, "names", []).clear()
                    await y.backward()
            return x.grad
        x, y = branches_on(place)
        if way == "awaited":
            await y.backward()
            return x.grad
        (grad,) = await ag.grad(y, [x], create_graph=way == "create_graph")
        return grad

    return run(main())


@pytest.mark.slow
@on_each_loop
@pytest.mark.parametrize("most", [None, 1, 2])
@pytest.mark.parametrize("waits", [False, True], ids=["calls", "awaits"])
@pytest.mark.parametrize("way", WAYS)
def test_a_device_runs_every_body_that_belongs_to_it_and_the_bits_are_the_same(run, way, waits, most):
    place = RunsBodies(most, waits)

    grad = grad_of(place, run, way)

    assert grad.device is place
    assert grad.detach().numpy().tobytes() == grad_of(ag.device("cpu"), run, way).detach().numpy().tobytes()
    assert len(place.names) == NODES
    assert place.under_way == 0


@on_each_loop
@pytest.mark.parametrize(("most", "peak"), [(1, 1), (2, 2), (3, 3)])
@pytest.mark.parametrize("way", ["awaited", "blocking", "inputs", "compiled"])
def test_no_more_bodies_are_under_way_than_a_device_takes(run, way, most, peak):
    place = RunsBodies(most)

    # On a busy machine a driver may have run for its time before it comes to the third.
    with ag.loop_budget(60.0):
        grad_of(place, run, way)

    assert place.peak == peak


async def test_a_limit_holds_for_bodies_that_the_device_runs_as_any_other_does():
    place, under_way, peaks = Limited(2), [0], []

    async def watch():
        under_way[0] += 1
        peaks.append(under_way[0])
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        under_way[0] -= 1

    x = ag.tensor(1.0, device=place, requires_grad=True)
    await ag.backward([AwaitingCopy.apply(x, watch) for _ in range(7)])

    assert x.grad.item() == 7.0
    assert max(peaks) == 2


async def test_of_the_bodies_that_wait_for_a_device_the_newest_is_next_and_deeper_ones_are_before_it():
    place, order = Limited(1), []

    held, waiting = asyncio.Event(), asyncio.Event()
    x = ag.tensor(1.0, device=place, requires_grad=True)

    def noted(name):
        async def note():
            order.append(name)

        return AwaitingCopy.apply(x, note)

    async def hold():
        waiting.set()
        await held.wait()

    async def nested():
        with ag.enable_grad():
            deep = noted("deep")
        await deep.backward()

    held_up = asyncio.ensure_future(AwaitingCopy.apply(x, hold).backward())
    await waiting.wait()
    old, new = noted("old"), noted("new")
    flat = asyncio.ensure_future(ag.backward([old, new]))
    around = asyncio.ensure_future(AwaitingCopy.apply(x.to("cpu"), nested).backward())
    for _ in range(20):
        await asyncio.sleep(0)
    assert order == []
    held.set()
    await asyncio.gather(held_up, flat, around)

    assert order == ["deep", "new", "old"]


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 5, 100])
async def test_nested_backward_passes_on_devices_that_take_one_body_do_not_wait_for_each_other(depth):
    places = RunsBodies(1), Limited(1)

    async def descend(level):
        with ag.enable_grad():
            x = ag.tensor(1.0, device=places[level % 2], requires_grad=True)
            further = one_turn if level == depth else lambda: descend(level + 1)
            twice = AwaitingCopy.apply(x, further) + x.to(places[1 - level % 2]).to(places[level % 2])
        await twice.backward()
        assert x.grad.item() == 2.0

    await asyncio.gather(descend(0), descend(1))

    assert places[0].under_way == 0


class Asking(ag.Function):
    """x * 3, whose derivative `ask` knows."""

    concurrent = True

    @staticmethod
    def forward(ctx, x, ask):
        ctx.ask = ask
        return x * 3.0

    @staticmethod
    async def backward(ctx, grad):
        return grad * await ctx.ask(grad), None


class AskingTogether(Asking):
    """The same, of rows that are ready together in one call, and one call after the other."""

    concurrent = False

    @staticmethod
    async def backward_batch(ctx, grads):
        return await Asking.backward(ctx, grads)


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize(
    "kind", ["rows in calls", "one request", "a limited request", "a request of a request", "a request that fails"]
)
async def test_bodies_that_wait_for_a_request_lend_their_places_to_the_backward_that_it_calls(kind, most):
    place, sizes, left = RunsBodies(most), [], [kind == "a request that fails"]

    async def three_of(grad):
        y = ag.tensor(np.ones(2), device=place, requires_grad=True)
        with ag.enable_grad():
            loss = (Doubled.apply(y) * 1.5).sum()
        await loss.backward()
        return float(y.grad.numpy()[0])

    @ag.batched
    async def in_one_request(grads):
        sizes.append(len(grads))
        found = [await three_of(grad) for grad in grads]
        if left and left.pop():
            raise ConnectionError("no answer")
        return found

    @ag.batched
    @ag.limit(requests=1)
    async def in_limited_request(grads):
        return [await three_of(grad) for grad in grads]

    @ag.batched
    async def in_another_request(grads):
        return list(await asyncio.gather(*map(in_one_request, grads)))

    async def patient(grad):
        try:
            return await in_one_request(grad)
        except ConnectionError:
            return await in_one_request(grad)

    asks = {
        "rows in calls": three_of,
        "a limited request": in_limited_request,
        "a request of a request": in_another_request,
        "a request that fails": patient,
    }
    function = AskingTogether if kind == "rows in calls" else Asking
    x = ag.tensor([1.0, 2.0], device=place, requires_grad=True)
    out = function.apply(x, asks.get(kind, in_one_request))
    rows = ag.tensor(np.eye(2), device=place)
    async with asyncio.timeout(20.0):
        (found,) = await ag.grad([out], [x], [rows], is_grads_batched=True)
        await branches_on(place)[1].backward()

    assert found.tolist() == [[3.0, 0.0], [0.0, 3.0]]
    assert place.under_way == 0
    assert place.peak <= most


async def test_a_body_goes_on_after_a_backward_of_its_own_once_there_is_a_place_for_it():
    place, order = Limited(1), []

    held, called = asyncio.Event(), asyncio.Event()
    x = ag.tensor(1.0, device=place, requires_grad=True)

    async def wait():
        called.set()
        await held.wait()

    async def nest():
        with ag.enable_grad():
            inner = AwaitingCopy.apply(ag.tensor(1.0, requires_grad=True), wait)
        await inner.backward()
        order.append("goes on")

    async def other():
        held.set()
        for _ in range(20):
            await asyncio.sleep(0)
        order.append("has ended")

    first = asyncio.ensure_future(AwaitingCopy.apply(x, nest).backward())
    await called.wait()
    await asyncio.gather(first, AwaitingCopy.apply(x, other).backward())

    assert order == ["has ended", "goes on"]


def test_a_blocking_backward_in_a_body_needs_no_second_place():
    place = Limited(1)
    x, inner = (ag.tensor(1.0, device=place, requires_grad=True) for _ in range(2))

    def nest():
        with ag.enable_grad():
            ag.sync.backward(Doubled.apply(inner))

    ag.sync.backward(WatchedCopy.apply(x, nest))

    assert (x.grad.item(), inner.grad.item()) == (1.0, 2.0)


@on_each_loop
def test_a_blocking_backward_that_would_stall_the_loop_for_a_place_says_so(run):
    place = Limited(1)

    async def main():
        held, begun = asyncio.Event(), asyncio.Event()
        x = ag.tensor(1.0, device=place, requires_grad=True)

        async def hold():
            begun.set()
            await held.wait()

        task = asyncio.ensure_future(AwaitingCopy.apply(x, hold).backward())
        await begun.wait()
        with pytest.raises(BlockingError, match=r"await ag\.backward"):
            ag.sync.backward(x * 2)
        held.set()
        await task
        ag.sync.backward(x * 2)
        return x.grad

    assert run(main()).item() == 3.0


@pytest.mark.parametrize("ending", ["cancelled", "failed", "outlived"])
async def test_whoever_ends_early_keeps_no_place(ending):
    place = Limited(1)

    held, begun = asyncio.Event(), asyncio.Event()
    x = ag.tensor(1.0, device=place, requires_grad=True)
    kept = []

    async def late():
        await held.wait()
        with ag.enable_grad():
            y = ag.tensor(1.0, device=place, requires_grad=True) * 2
        await y.backward()

    async def hold():
        begun.set()
        if ending == "outlived":
            kept.append(asyncio.ensure_future(late()))
            return
        await held.wait()
        if ending == "failed":
            raise ValueError("as it should be")

    first = asyncio.ensure_future(AwaitingCopy.apply(x, hold).backward())
    await begun.wait()
    waiting = asyncio.ensure_future((x * 2).backward())
    for _ in range(5):
        await asyncio.sleep(0)
    if ending == "cancelled":
        waiting.cancel()
        first.cancel()
    held.set()
    await asyncio.gather(first, waiting, *kept, return_exceptions=True)
    await asyncio.gather(*kept)
    x.grad = None
    await asyncio.gather(*((x * 2).backward() for _ in range(3)))

    assert x.grad.item() == 6.0


def test_one_limit_holds_for_loops_in_several_threads():
    place = RunsBodies(1)
    found = []

    def train():
        async def main():
            for _ in range(5):
                x, y = branches_on(place)
                await y.backward()
            found.append(x.grad.tolist())

        asyncio.run(main())

    threads = [threading.Thread(target=train) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert place.peak == 1
    assert len(found) == 3
    assert found.count(found[0]) == 3


@on_each_loop
def test_a_loop_that_is_closed_in_mid_backward_gives_its_place_back(run):
    place, x = Limited(1), None

    async def forever():
        await asyncio.get_running_loop().create_future()

    x = ag.tensor(1.0, device=place, requires_grad=True)
    loop = asyncio.new_event_loop()
    task = loop.create_task(AwaitingCopy.apply(x, forever).backward())
    task._log_destroy_pending = False
    for _ in range(5):
        loop.call_soon(loop.stop)
        loop.run_forever()
    loop.close()
    del task, loop
    gc.collect()

    async def main():
        await (x * 2).backward()

    run(main())
    assert x.grad.item() == 2.0


@pytest.mark.parametrize("most", [0, -1, 1.5, "2"])
async def test_a_limit_that_is_no_number_of_bodies_is_refused(most):
    x = ag.tensor(1.0, device=Limited(most), requires_grad=True)

    async def main():
        await (x * 2).backward()

    with pytest.raises(DeviceError, match=rf"max_in_flight of 'limited:\d+' is {most!r}"):
        await main()


async def test_a_device_that_loses_gradients_is_named():
    class Forgetful(RunsBodies):
        def run_body(self, body):
            body()

    x = ag.tensor(1.0, device=Forgetful(), requires_grad=True)

    async def main():
        await (x * 2).backward()

    with pytest.raises(GradientTypeError, match=r"Forgetful\.run_body returned NoneType None for .*return body\(\)"):
        await main()
    assert x.grad is None


@on_each_loop
def test_a_device_whose_worker_cannot_be_reached_ends_the_backward_with_its_error(run):
    problem = OSError("no such line")

    class Unreachable(Limited):
        has_worker = True

        def submit(self, job):
            raise problem

    place = Unreachable(1)
    x, y = ag.tensor(1.0, device=place, requires_grad=True), ag.tensor(1.0, requires_grad=True)

    async def main():
        with pytest.raises(OSError, match="no such line") as raised:
            await ag.backward([x * 2, y * 2])
        assert raised.value is problem
        with pytest.raises(OSError, match="no such line"):
            await place.call(max, 1, 2)

    run(main())
    assert (x.grad, y.grad) == (None, None)
    with pytest.raises(OSError, match="no such line"):
        ag.sync.backward(x * 2)
