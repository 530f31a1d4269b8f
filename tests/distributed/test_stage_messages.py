"""What a stage has learned is what its home was told, whatever becomes of messages: late, repeated, lost, given up."""

import asyncio
import random

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, optim
from asyncgrad.distributed import Definition, Request, StageHost, stage
from asyncgrad.errors import StageLost, WorkerLostError
from asyncgrad.testing import explore
from tests.distributed.parts import layer, make_params, simulated
from tests.support.loops import one_loop
from tests.support.sampling import cases


def make_sgd(params):
    return optim.SGD(params, lr=1.0)


def linear(transport, **options):
    return stage(lambda w, x: w * x, 2.0, transport=transport, worker="a", optimizer=make_sgd, **options)


async def state_of(one):
    (grad,), (param,) = await one.grads(), await one.parameters()
    return param.item(), None if grad is None else grad.item()


class Copies:
    """Delivers copies of earlier requests, at any later time, loses replies, and kills workers."""

    def __init__(self, transport, seed, copies=0.3, losses=0.0, deaths=0.0):
        self.draw, self.copies, self.losses, self.deaths = random.Random(seed), copies, losses, deaths
        self.transport, self._call, self.seen = transport, transport.call, []
        transport.call = self.call

    async def call(self, worker, request):
        self.seen.append((worker, request))
        while self.draw.random() < self.copies:
            await self.repeat(self.draw.choice(self.seen))
        reply = await self._call(worker, request)
        while self.draw.random() < self.copies:
            await self.repeat(self.draw.choice(self.seen))
        if self.draw.random() < self.deaths and len(await self.transport.workers()) > 2:
            self.transport.kill(worker)
        if self.draw.random() < self.losses:
            raise WorkerLostError("the reply was lost")
        return reply

    async def repeat(self, sent):
        worker, request = sent
        arrays = [None if one is None else one.copy() for one in request.arrays]
        await self.transport.host(worker).handle(Request(request.op, request.stage, request.fields, arrays))

    async def repeat_all(self, *ops):
        for sent in list(self.seen):
            if sent[1].op in ops:
                await self.repeat(sent)


class Oracle:
    """The same programs at home."""

    def __init__(self):
        self.params = [tuple(ag.tensor(one, requires_grad=True) for one in pair) for pair in make_params(count=2)]
        self.optimizers = [make_sgd(list(pair)) for pair in self.params]

    async def backward(self, x):
        y = ag.tensor(x)
        for pair in self.params:
            y = layer(pair, y)
        await (y * y).sum().backward()

    def step(self, at, zero_grad):
        self.optimizers[at].step()
        if zero_grad:
            self.optimizers[at].zero_grad()

    def values(self, at):
        pair = self.params[at]
        return [one.tolist() for one in pair], [None if one.grad is None else one.grad.tolist() for one in pair]


async def values(one):
    grads = [None if grad is None else grad.tolist() for grad in await one.grads()]
    return [param.tolist() for param in await one.parameters()], grads


async def train(stages, oracle, draw, cancel):
    """Do the same at stages and at home: backward passes and steps, some of which are given up and tried again."""
    for _ in range(8):
        kind, at = (
            draw.choice(["backward", "backward", "step", "zero_grad", "cancelled", "cancelled step"]),
            draw.randrange(2),
        )
        if kind in ("backward", "cancelled"):
            x = np.random.default_rng(draw.randrange(100)).normal(size=(3, 4))
            y = await stages[1](await stages[0](x))
            backward = asyncio.ensure_future((y * y).sum().backward())
            if kind == "cancelled":
                await cancel(backward, draw)
            if not backward.cancelled():
                await backward
                await oracle.backward(x)
        elif kind == "zero_grad":
            await stages[at].zero_grad()
            oracle.optimizers[at].zero_grad()
        else:
            zero_grad = draw.random() < 0.5
            begun = asyncio.Event()
            step = asyncio.ensure_future(begin_step(stages[at], zero_grad, begun))
            if kind == "cancelled step":
                await begun.wait()
                await cancel(step, draw)
                if step.cancelled():
                    await stages[at].step(retry=True)
            await step if not step.cancelled() else None
            oracle.step(at, zero_grad)


async def begin_step(one, zero_grad, begun):
    begun.set()
    await one.step(zero_grad=zero_grad)


async def cancel_after_some_turns(task, draw):
    for _ in range(draw.randrange(20)):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.slow
@pytest.mark.parametrize("deaths", [0.0, 0.03])
@pytest.mark.parametrize("losses", [0.0, 0.05])
def test_late_copies_of_requests_change_nothing(losses, deaths):
    lost = 0

    async def main():
        nonlocal lost
        seed = asyncio.get_running_loop().seed
        draw, transport = random.Random(seed), simulated()
        copies = Copies(transport, seed, losses=losses, deaths=deaths)
        stages = [
            stage(layer, pair, transport=transport, worker=worker, optimizer=make_sgd)
            for pair, worker in zip(make_params(count=2), "ab", strict=True)
        ]
        oracle = Oracle()
        try:
            await train(stages, oracle, draw, cancel_after_some_turns)
        except StageLost:
            lost += 1
            return
        copies.losses = copies.deaths = 0.0
        await copies.repeat(draw.choice(copies.seen))
        for at, one in enumerate(stages):
            assert await values(one) == oracle.values(at)

    with ag.workers(0):
        explore(main, seeds=cases(200))

    assert lost < cases(200)


@one_loop
@pytest.mark.parametrize("op", ["create", "backward", "commit", "zero_grad", "step", "restore", "drop", "roll_back"])
async def test_a_request_that_comes_again_when_all_is_done_changes_nothing(op):
    async def main():
        transport = simulated()
        copies = Copies(transport, 0, copies=0.0)
        one = linear(transport)
        await (await one(3.0)).backward()
        await one.zero_grad()
        await one.step()
        await one.load_state_dict(await one.state_dict())
        y = await one(4.0)
        await y.backward(retain_graph=True)
        with pytest.raises(ZeroDivisionError):
            await fail(y)
        other = linear(transport)
        await other(1.0)
        await other.close()
        before = await state_of(one), transport.host("a").counts()
        await copies.repeat_all(op)
        return before, (await state_of(one), transport.host("a").counts())

    async def fail(y):
        y.register_hook(lambda grad: ag.engine.queue_callback(lambda: 1 / 0))
        await y.backward()

    before, after = await main()

    assert before == after
    assert before[0] == (2.0, 4.0)


@one_loop
async def test_a_late_create_does_not_bring_back_what_a_stage_began_with():
    transport = simulated()
    copies = Copies(transport, 0, copies=0.0)
    one = linear(transport)
    await (await one(3.0)).backward()
    await one.step()
    await copies.repeat_all("create")
    earlier = next(request for _, request in copies.seen if request.op == "create")
    reply = await transport.host("a").handle(Request("create", one.name, {**earlier.fields, "attempt": 0}, []))

    assert (await state_of(one), reply.fields["error"]["type"]) == ((-1.0, None), "UnknownStageError")


@one_loop
@pytest.mark.parametrize("is_made", [True, False])
async def test_a_step_that_was_given_up_swallows_no_later_one(is_made):
    transport = simulated()
    one = linear(transport)
    await (await one(3.0)).backward()
    call, entered = transport.call, asyncio.Event()

    async def silent(worker, request):
        if request.op == "step" and not entered.is_set():
            if is_made:
                await call(worker, request)
            entered.set()
            await asyncio.Event().wait()
        return await call(worker, request)

    transport.call = silent
    step = asyncio.ensure_future(one.step())
    await entered.wait()
    step.cancel()
    await asyncio.wait([step])
    assert one.is_step_unsure
    await (await one(10.0)).backward()
    assert not one.is_step_unsure
    await one.step()

    assert (await state_of(one)) == (-11.0, None)


@one_loop
@pytest.mark.parametrize("is_made", [True, False])
@pytest.mark.parametrize("asks", [True, False])
async def test_a_retry_makes_the_step_that_was_given_up_once(is_made, asks):
    transport = simulated()
    one = linear(transport)
    await (await one(3.0)).backward()
    call = transport.call

    async def lose(worker, request):
        if request.op == "step":
            transport.call = call
            if is_made:
                await call(worker, request)
            raise asyncio.CancelledError
        return await call(worker, request)

    transport.call = lose
    with pytest.raises(asyncio.CancelledError):
        await one.step(zero_grad=False, lr=2.0)
    if asks:
        await one.grads()
    await one.step(retry=True)
    await one.step(retry=True)

    assert (await state_of(one)) == (-4.0, 3.0)


@one_loop
async def test_a_retry_needs_a_step_and_takes_no_options():
    one = linear(simulated())
    with pytest.raises(ag.errors.ArgumentError, match=r"needs one before it: write step\(\)"):
        await one.step(retry=True)
    await one.step()
    with pytest.raises(ag.errors.ArgumentError, match=r"takes no options.*write step\(lr=2.0\)"):
        await one.step(retry=True, lr=2.0)


@one_loop
async def test_a_step_that_raises_at_its_worker_is_not_unsure():
    one = stage(lambda w, x: w * x, 2.0, transport=simulated())
    with pytest.raises(ag.errors.ArgumentTypeError, match="no optimizer"):
        await one.step()

    assert one.is_step_unsure is False


@one_loop
@pytest.mark.parametrize("backup", [True, False])
@pytest.mark.parametrize("op", ["create", "load_state", "forward", "backward", "commit", "ready"])
async def test_a_half_begun_stage_answers_nothing(op, backup):
    transport = simulated()
    one = linear(transport, backup=backup)
    await (await one(3.0)).backward()
    await one.step()
    await (await one(4.0)).backward()
    call = transport.call

    async def break_off(worker, request):
        if worker == "a" or request.op == op:
            # Half of it has been done.
            if worker != "a":
                await call(worker, request)
            raise WorkerLostError("the connection broke")
        return await call(worker, request)

    transport.call = break_off
    for _ in range(2):
        with pytest.raises(StageLost):
            await one.step()
    transport.call = call

    assert (await state_of(one)) == (-1.0, 4.0)


@one_loop
async def test_what_is_not_stepped_goes_with_its_stage():
    model = nn.Linear(1, 1, bias=False)
    host = StageHost()
    for number in ("first", "second"):
        fields = {"definition": Definition(model, optimizer=make_sgd), "attempt": 1}
        await host.handle(Request("create", number, fields))
        if number == "first":
            call = {
                "attempt": 1,
                "key": "0",
                "inputs": [{"array": 0}],
                "needs": [False],
                "number": 0,
                "saves": True,
            }
            await host.handle(Request("forward", "first", call, [np.ones((1, 1))]))
            back = {"attempt": 1, "key": "0", "transaction": 1, "contribution": [[1, 1], 0, "0"]}
            back |= {"wants": [False], "wants_params": True, "keep": False}
            await host.handle(Request("backward", "first", back, [np.ones((1, 1))]))
            done = {"attempt": 1, "transaction": 1, "contributions": [[[1, 1], 0, "0"]]}
            await host.handle(Request("commit", "first", done))
            assert model.weight.grad.item() == 1.0
            await host.handle(Request("drop", "first", {"attempt": 1}))
    before = model.weight.item()
    step = {"attempt": 1, "effect": 1, "options": {}, "zero_grad": True, "wants_state": False}
    await host.handle(Request("step", "second", step))

    assert (model.weight.item() - before) == 0.0


@one_loop
async def test_a_group_and_a_stage_of_one_name_are_dropped_apart():
    host = StageHost()
    await host.handle(Request("create", "one", {"definition": Definition(lambda x: x), "attempt": 1}))
    fields = {"rank": 0, "size": 1, "key": [1, 0], "secret": "theirs"}
    await host.handle(Request("all_reduce", "one", fields, [np.ones(1)]))
    reply = await host.handle(Request("drop", "one", {"attempt": 1}))
    left = host.has_stage("one"), list(host.groups())
    await host.handle(Request("create", "one", {"definition": Definition(lambda x: x), "attempt": 2}))
    await host.handle(Request("drop", "one", {"group": True, "secret": "theirs"}))

    assert (reply.fields, left, host.has_stage("one"), list(host.groups())) == ({}, (False, ["one"]), True, [])
