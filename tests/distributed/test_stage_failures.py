"""All or nothing across stages, and the loss of workers: on many schedules of a simulated network."""

import asyncio
import gc
import random
import sys
from functools import partial

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import optim
from asyncgrad.distributed import Stage, stage
from asyncgrad.errors import StageLost, WorkerLostError
from asyncgrad.testing import explore, run_with_seed
from tests.distributed.parts import forward, gradients, layer, local_gradients, make_params, make_stages, simulated
from tests.support.loops import one_loop
from tests.support.sampling import cases

#: How many requests and replies a backward of the model takes, about.
MESSAGES = 90


class Network:
    """Counts messages, and does something at one of them."""

    def __init__(self, at, act):
        self.at, self.act, self.seen = at, act, 0

    def __call__(self, worker, message):
        self.seen += 1
        return self.act(worker, message) if self.seen == self.at else None


def cancel(task, worker, message):
    task.cancel()


def count_left(transport):
    return [
        sum(transport.host(one).counts()[what] for one in "abcdef") for what in ("calls", "transactions", "running")
    ]


async def settle():
    for _ in range(3):
        # A graph that a traceback refers to is freed by the collector, when the last of its tasks has ended.
        gc.collect()
        # The clock of a ScheduleLoop stands still while anything can run.
        await asyncio.sleep(1)


def test_connections_that_break_at_any_message_change_no_bit():
    expected = ag.run(local_gradients())

    async def main():
        seed = asyncio.get_running_loop().seed
        draw = random.Random(seed)
        transport = simulated()

        def cut(worker, message):
            # The worker lives on, and does what it has been asked for.
            if draw.random() < 0.03:
                raise WorkerLostError("the connection broke")

        transport.on_message = cut
        scale = ag.tensor(1.5, requires_grad=True)
        stages = make_stages(transport)
        try:
            loss = await forward(stages, scale)
            await loss.backward()
        except StageLost:
            return
        transport.on_message = None
        assert (await gradients(stages), scale.grad.item()) == expected

    with ag.workers(0):
        explore(main, seeds=cases(100))


@pytest.mark.slow
@pytest.mark.parametrize("order", ["fifo", "shuffled"])
def test_a_worker_that_dies_at_any_message_changes_no_bit(order):
    expected = ag.run(local_gradients())
    deaths = 0

    async def main():
        nonlocal deaths
        seed = asyncio.get_running_loop().seed
        transport = simulated()
        transport.on_message = Network(1 + seed % MESSAGES, lambda worker, _: transport.kill(worker))
        scale = ag.tensor(1.5, requires_grad=True)
        stages = make_stages(transport)
        loss = await forward(stages, scale)
        await loss.backward()
        deaths += transport.on_message.seen >= transport.on_message.at
        assert (await gradients(stages), scale.grad.item()) == expected

    with ag.workers(0):
        explore(main, seeds=cases(200), order=order)

    assert deaths


@one_loop
@pytest.mark.parametrize("kind", ["commit", "step"])
async def test_a_reply_of_a_worker_that_was_given_up_counts_for_nothing(kind):
    transport = simulated()
    one = stage(lambda w, x: w * x, 2.0, transport=transport, worker="a", optimizer=lambda p: optim.SGD(p, lr=0.5))
    loss = await one(ag.tensor(3.0))
    if kind == "step":
        await loss.backward()
    answered, moved = asyncio.Event(), asyncio.Event()
    call = transport.call

    async def late(worker, request):
        # The connection of one request breaks, and the reply to another arrives after that.
        if (worker, request.op) == ("a", "state"):
            await answered.wait()
            raise WorkerLostError("the connection broke")
        reply = await call(worker, request)
        if (worker, request.op) == ("a", kind):
            answered.set()
            await moved.wait()
        if worker == "b":
            moved.set()
        return reply

    transport.call = late
    await asyncio.gather(one.step() if kind == "step" else loss.backward(), one.grads())
    assert one.worker == "b"
    grads, params = (
        [grad and grad.item() for grad in await one.grads()],
        [param.item() for param in await one.parameters()],
    )

    assert (grads, params) == (([None], [0.5]) if kind == "step" else ([3.0], [2.0]))


def test_gradients_of_earlier_backward_passes_survive_their_worker():
    async def main():
        transport = simulated()
        one = stage(lambda w, x: w * x, 2.0, transport=transport, worker="a", optimizer=lambda p: optim.SGD(p, lr=0.5))
        await (await one(ag.tensor(1.0))).backward()
        await one.step(zero_grad=False)
        for x in (3.0, 5.0):
            await (await one(ag.tensor(x))).backward()
        y = await one(ag.tensor(7.0))
        transport.kill("a")
        await y.backward()
        return one.worker, (await one.parameters())[0].item(), (await one.grads())[0].item()

    assert ag.run(main()) == ("b", 1.5, 16.0)


def test_a_message_that_comes_twice_counts_once():
    expected = ag.run(local_gradients())

    async def main():
        transport = simulated(on_message=lambda worker, message: 2)
        scale = ag.tensor(1.5, requires_grad=True)
        stages = make_stages(transport)
        await (await forward(stages, scale)).backward()
        assert (await gradients(stages), scale.grad.item()) == expected

    with ag.workers(0):
        explore(main, seeds=20)


@pytest.mark.slow
def test_a_failure_anywhere_leaves_every_gradient_as_it_was():
    async def main():
        seed = asyncio.get_running_loop().seed
        transport = simulated()
        scale = ag.tensor(1.5, requires_grad=True)
        stages = make_stages(transport)
        await (await forward(stages, scale, 1)).backward()
        before = await gradients(stages), scale.grad.item()
        loss = await forward(stages, scale)

        countdown = 1 + seed % 30

        def fail(worker, message):
            nonlocal countdown
            countdown -= getattr(message, "op", None) in ("backward", "prepare", "commit")
            if not countdown:
                countdown = -1
                raise ZeroDivisionError("a network that raises what nobody expects")

        transport.on_message = fail
        has_failed = False
        try:
            await loss.backward()
        except ZeroDivisionError:
            has_failed = True
        transport.on_message = None
        del loss
        await settle()
        assert ((await gradients(stages), scale.grad.item()) == before) == has_failed
        assert count_left(transport) == [0, 0, 0]

    with ag.workers(0):
        explore(main, seeds=cases(100))


@pytest.mark.slow
def test_a_cancelled_backward_leaves_every_gradient_and_worker_as_it_was():
    async def main():
        seed = asyncio.get_running_loop().seed
        transport = simulated()
        scale = ag.tensor(1.5, requires_grad=True)
        stages = make_stages(transport)
        loss = await forward(stages, scale)
        task = asyncio.ensure_future(loss.backward())
        transport.on_message = Network(1 + seed % 60, partial(cancel, task))
        await asyncio.wait([task])
        transport.on_message = None
        was_cancelled = task.cancelled()
        del loss, task
        await settle()
        assert (scale.grad is None) == was_cancelled
        assert (await gradients(stages) == [[None, None]] * 3) == was_cancelled
        assert count_left(transport) == [0, 0, 0]

    with ag.workers(0):
        explore(main, seeds=cases(100))


@one_loop
async def test_a_later_failure_takes_back_what_was_committed():
    transport = simulated()
    stages = make_stages(transport)
    leaf = ag.tensor(0.0, requires_grad=True)
    total = await forward(stages, ag.tensor(1.0)) + leaf
    committed = []

    def fail():
        committed.extend(count_transactions(transport))
        raise ZeroDivisionError("after the commit")

    # Queued when the stages have queued theirs.
    total.register_hook(lambda grad: ag.engine.queue_callback(lambda: ag.engine.queue_callback(fail)))
    with pytest.raises(ZeroDivisionError, match="after the commit"):
        await total.backward()

    assert (committed, await gradients(stages), leaf.grad) == ([1, 1, 1], [[None, None]] * 3, None)


def count_transactions(transport):
    return [transport.host(one).counts()["transactions"] for one in "abc"]


@one_loop
async def test_a_nested_backward_that_fails_takes_back_its_part_alone():
    one = stage(lambda w, x: w * x, 2.0, transport=simulated())
    leaf = ag.tensor(1.0, requires_grad=True)
    tail = leaf * 1.0
    failing = await one(ag.tensor(100.0)) + tail

    class Nested(ag.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        async def backward(ctx, grad):
            with pytest.raises(ZeroDivisionError):
                await failing.backward()
            return grad

    def fail():
        raise ZeroDivisionError

    tail.register_hook(lambda grad: ag.engine.queue_callback(fail))
    x = ag.tensor(1.0, requires_grad=True)
    await Nested.apply(await one(x)).backward()

    assert ((await one.grads())[0].item(), leaf.grad) == (1.0, None)


@one_loop
async def test_a_nested_backward_that_succeeds_is_part_of_the_outer_one():
    async def main(fails):
        one = stage(lambda w, x: w * x, 2.0, transport=simulated())
        inner = await one(ag.tensor(10.0))

        class Nested(ag.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1.0

            @staticmethod
            async def backward(ctx, grad):
                await inner.backward()
                assert await one.grads() == [None]
                if fails:
                    raise ZeroDivisionError
                return grad

        x = ag.tensor(1.0, requires_grad=True)
        y = Nested.apply(await one(x))
        if fails:
            with pytest.raises(ZeroDivisionError):
                await y.backward()
        else:
            await y.backward()
        return [None if grad is None else grad.item() for grad in await one.grads()]

    assert await main(False) == [11.0]
    assert await main(True) == [None]


def test_a_stage_whose_state_is_nowhere_else_is_lost_by_name_and_nothing_is_half_done():
    async def main():
        transport = simulated()

        def make(params):
            return optim.SGD(params, lr=0.1)

        kept = stage(layer, make_params()[0], transport=transport, worker="a")
        lost = stage(
            layer, make_params()[1], transport=transport, worker="b", backup=False, optimizer=make, name="tail"
        )
        x = ag.tensor(np.ones((1, 4)), requires_grad=True)
        await (await lost(x)).sum().backward()
        await lost.step()
        x.grad = None
        y = (await lost(await kept(x))).sum()
        transport.kill("b")
        with pytest.raises(
            StageLost, match=r"stage tail-\w+ was at worker b.*in StageCallBackward \(node #\d+\).*backup"
        ):
            await y.backward()
        return x.grad, await kept.grads()

    assert ag.run(main()) == (None, [None, None])


@one_loop
@pytest.mark.parametrize("backup", [True, False])
async def test_a_worker_that_leaves_in_an_orderly_way_hands_its_state_on(backup):
    transport = simulated()
    one = stage(
        lambda w, x: w * x,
        2.0,
        transport=transport,
        worker="a",
        backup=backup,
        optimizer=lambda params: optim.SGD(params, lr=0.5),
    )
    await (await one(ag.tensor(1.0))).backward()
    await one.step()
    await (await one(ag.tensor(3.0))).backward()
    y = await one(ag.tensor(7.0))
    await transport.retire("a")
    await y.backward()

    assert (one.worker, (await one.parameters())[0].item(), (await one.grads())[0].item()) == ("b", 1.5, 10.0)


@pytest.mark.slow
@pytest.mark.parametrize("backup", [True, False])
def test_nothing_is_lost_of_what_a_worker_is_asked_for_while_it_leaves(backup):
    async def main():
        transport = simulated()
        make = lambda params: optim.SGD(params, lr=1.0)
        options = {"transport": transport, "worker": "a", "backup": backup, "optimizer": make}
        one = stage(lambda w, x: w * x, 2.0, **options)
        await (await one(3.0)).backward()
        y = await one(4.0)
        await asyncio.gather(transport.retire("a"), y.backward())
        grads = await one.grads()
        await asyncio.gather(transport.retire(one.worker), one.step())
        assert [grads[0].item(), (await one.parameters())[0].item()] == [7.0, -5.0]

    with ag.workers(0):
        explore(main, seeds=40)


def test_a_connection_that_breaks_loses_nothing_of_a_stage_that_has_no_backup():
    async def main():
        transport = simulated()
        one = stage(lambda w, x: w * x, 2.0, transport=transport, worker="a", backup=False)
        await (await one(3.0)).backward()
        draw = random.Random(asyncio.get_running_loop().seed)

        def cut(worker, message):
            if draw.random() < 0.2:
                raise WorkerLostError("the connection broke")

        transport.on_message = cut
        x = ag.tensor(4.0, requires_grad=True)
        try:
            await (await one(x)).backward()
            expected = [7.0, 2.0]
        except StageLost:
            # The connection broke again while the worker was asked what it has.
            expected = [3.0, None]
        transport.on_message = None
        assert [(await one.grads())[0].item(), x.grad and x.grad.item()] == expected
        assert one.worker == "a"
        return expected[0]

    with ag.workers(0):
        explore(main, seeds=cases(300))


@one_loop
@pytest.mark.parametrize("backup", [True, False])
async def test_what_was_committed_before_a_worker_left_can_be_taken_back(backup):
    transport = simulated()
    one = stage(lambda w, x: w * x, 2.0, transport=transport, worker="a", backup=backup)
    await (await one(ag.tensor(1.0))).backward()
    leaf = ag.tensor(0.0, requires_grad=True)
    total = await one(ag.tensor(5.0)) + leaf

    async def fail():
        assert transport.host("a").counts()["transactions"] == 1
        await transport.retire("a")
        assert (await one.grads())[0].item() == 6.0
        raise ZeroDivisionError

    total.register_hook(lambda grad: ag.engine.queue_callback(lambda: ag.engine.queue_callback(fail)))
    with pytest.raises(ZeroDivisionError):
        await total.backward()

    assert (one.worker, (await one.grads())[0].item()) == ("b", 1.0)


def test_home_does_not_keep_more_of_calls_than_the_state_is_worth(monkeypatch):
    monkeypatch.setattr(sys.modules[Stage.__module__], "_LOG_BYTES", 100)

    async def main():
        transport = simulated()
        one = stage(lambda w, x: (w * x).sum(), np.ones(2), transport=transport, worker="a")
        kept = []
        for _ in range(20):
            await (await one(np.ones(2))).backward()
            kept.append(len(one._log))
        transport.kill("a")
        return max(kept) < 20, (await one.grads())[0].tolist()

    assert ag.run(main()) == (True, [20.0, 20.0])


def test_a_stage_that_may_not_move_is_lost_with_its_worker():
    async def main():
        transport = simulated()
        one = stage(layer, make_params()[0], transport=transport, worker="a", allow_other_workers=False)
        y = await one(np.ones((1, 4)))
        transport.kill("a")
        with pytest.raises(StageLost, match="no other worker can take over"):
            await y.sum().backward()

    ag.run(main())


@pytest.mark.slow
def test_no_state_is_left_after_many_backward_passes():
    async def main():
        transport = simulated()
        stages = make_stages(transport)
        scale = ag.tensor(1.5, requires_grad=True)
        for number in range(cases(400)):
            loss = await forward(stages, scale, 1)
            if number % 3 == 0:
                await loss.backward()
            elif number % 3 == 1:
                loss.register_hook(lambda grad: 1 / 0)
                with pytest.raises(ZeroDivisionError):
                    await loss.backward()
            else:
                task = asyncio.ensure_future(loss.backward())
                for _ in range(number % 17):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                task.cancelled() or task.exception()
                del task
            for one in stages:
                if number % 10 == 0:
                    await one.zero_grad()
        del loss
        await settle()
        return count_left(transport)

    with ag.workers(0):
        assert run_with_seed(main, 0).result == [0, 0, 0]
