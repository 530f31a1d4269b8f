"""Replicas whose gradients are averaged while the backward goes on: the same bits at all, and all or nothing."""

from __future__ import annotations

import asyncio
import contextlib

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, optim
from asyncgrad.distributed import Collective, DataParallel, InProcessGroup, RemoteGroup, SimulatedTransport, pipeline
from asyncgrad.errors import ArgumentError, ArgumentTypeError, GraphError, ReplicaError
from asyncgrad.testing import explore
from tests.support.loops import on_each_loop, one_loop

LAYERS = 4


class Net(nn.Module):
    def __init__(self, fails=None):
        rng = np.random.default_rng(0)
        self.weights = [nn.Parameter(rng.normal(size=(3, 3))) for _ in range(LAYERS)]
        self.fails = fails

    def __call__(self, x):
        for number, weight in enumerate(self.weights):
            x = np.tanh(x @ weight)
            if number == self.fails:
                x = Fails.apply(x)
        return x


class Fails(ag.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1.0

    @staticmethod
    def backward(ctx, grad):
        raise ZeroDivisionError("this replica fails")


def data(rank):
    return np.random.default_rng(10 + rank).normal(size=(5, 3))


def loss_of(y):
    return np.square(y).mean()


def grads(model):
    return [None if weight.grad is None else weight.grad.tolist() for weight in model.weights]


async def train(model, rank, steps=1):
    for _ in range(steps):
        with model.step() if isinstance(model, DataParallel) else contextlib.nullcontext():
            await loss_of(model(data(rank))).backward()


async def outcomes(*coroutines):
    return await asyncio.gather(*coroutines, return_exceptions=True)


def replicas(size=2, models=None, **options):
    group = InProcessGroup(size)
    models = models or [Net() for _ in range(size)]
    return [DataParallel(model, group.member(rank), **options) for rank, model in enumerate(models)]


def expected(size=2):
    """The mean of the gradients, summed in the order of ranks."""
    models = [Net() for _ in range(size)]
    for rank, model in enumerate(models):
        ag.run(train(model, rank))
    return [(sum(model.weights[layer].grad.numpy() for model in models) / size).tolist() for layer in range(LAYERS)]


@on_each_loop
@pytest.mark.parametrize("bucket_bytes", [1, 100, 1 << 20])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_replica_has_the_mean_of_the_gradients_with_the_same_bits(run, size, bucket_bytes):
    parallel = replicas(size, bucket_bytes=bucket_bytes)

    async def main():
        await asyncio.gather(*(train(one, rank) for rank, one in enumerate(parallel)))

    run(main())

    assert [grads(one.module) for one in parallel] == [expected(size)] * size


def test_bits_do_not_depend_on_the_schedule():
    mean = expected(3)

    async def main():
        parallel = replicas(3, bucket_bytes=100)
        await asyncio.gather(*(train(one, rank) for rank, one in enumerate(parallel)))
        assert [grads(one.module) for one in parallel] == [mean] * 3

    with ag.workers(0):
        explore(main, seeds=30)


def remote_replicas(size=2, timeout=600.0, **options):
    """Replicas of which each knows the others only by the worker where they meet."""
    transport = SimulatedTransport(["a"], **options)
    groups = [RemoteGroup(transport, size, worker="a", name="run", timeout=timeout) for _ in range(size)]
    return transport, [DataParallel(Net(), one.member(rank), bucket_bytes=100) for rank, one in enumerate(groups)]


def test_replicas_that_meet_at_a_worker_have_the_same_bits_also_if_messages_come_twice():
    mean = expected(3)

    async def main():
        _, parallel = remote_replicas(3, on_message=lambda worker, message: 2)
        await asyncio.gather(*(train(one, rank) for rank, one in enumerate(parallel)))
        assert [grads(one.module) for one in parallel] == [mean] * 3

    with ag.workers(0):
        explore(main, seeds=10)


@pytest.mark.parametrize("where", ["forward", "backward"])
def test_a_failure_of_a_replica_elsewhere_fails_all_and_the_next_step_is_right(where):
    mean = expected(2)

    async def main():
        _, parallel = remote_replicas()
        model = parallel[1].module
        if where == "backward":
            model.fails = 1
        first, second = await outcomes(
            train(parallel[0], 0), train(parallel[1], 1) if model.fails else fail(parallel[1])
        )
        assert isinstance(first, ReplicaError)
        assert isinstance(second, ZeroDivisionError)
        assert [grads(one.module) for one in parallel] == [[None] * LAYERS] * 2
        model.fails = None
        await asyncio.gather(*(train(one, rank) for rank, one in enumerate(parallel)))
        assert [grads(one.module) for one in parallel] == [mean] * 2

    async def fail(replica):
        with replica.step():
            raise ZeroDivisionError("in the forward")

    with ag.workers(0):
        explore(main, seeds=10)


def test_a_replica_that_never_comes_and_a_meeting_place_that_is_lost_are_errors_that_change_nothing():
    async def main():
        transport, parallel = remote_replicas(timeout=5.0)
        (first,) = await outcomes(train(parallel[0], 0))
        assert isinstance(first, ReplicaError)
        assert "has waited 5 s for the others" in str(first)
        transport.kill("a")
        (second,) = await outcomes(train(parallel[0], 0))
        assert isinstance(second, ReplicaError)
        assert "where replicas meet is lost" in str(second)
        assert grads(parallel[0].module) == [None] * LAYERS

    with ag.workers(0):
        explore(main, seeds=3)


@one_loop
async def test_replicas_in_threads_with_loops_of_their_own_learn_together():
    parallel = replicas(2, bucket_bytes=100)

    async def learn(rank):
        optimizer = optim.SGD(parallel[rank].module, lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            await train(parallel[rank], rank)
            optimizer.step()

    await asyncio.gather(*(asyncio.to_thread(ag.run, learn(rank)) for rank in range(2)))

    first, second = ([weight.tolist() for weight in one.module.weights] for one in parallel)
    assert first == second != [weight.tolist() for weight in Net().weights]


@one_loop
async def test_buckets_are_exchanged_while_the_backward_goes_on():
    reached = asyncio.Event()
    sums = []

    class Held:
        """A collective that gives the first sum only when the backward has come to the first layer."""

        rank, size = 0, 1

        async def all_reduce(self, key, array):
            sums.append(key)
            await reached.wait()
            return array

        def abort(self, round_number, reason):
            return True

    model = Net()
    model.weights[0].register_hook(lambda grad: reached.set())
    assert isinstance(Held(), Collective)

    await train(DataParallel(model, Held(), bucket_bytes=72), 0)

    assert sums == [(1, 0, 0), (1, 0, 1), (1, 0, 2), (1, 0, 3), (1,)]


@one_loop
@pytest.mark.parametrize("layer", [0, LAYERS - 1])
async def test_a_failure_at_one_replica_changes_no_gradient_at_any_and_the_next_backward_is_right(layer):
    models = [Net(), Net(), Net()]
    parallel = replicas(models=models, size=3, bucket_bytes=100)

    await asyncio.gather(*(train(one, rank) for rank, one in enumerate(parallel)))
    before = [grads(model) for model in models]
    models[1].fails = layer
    found = await outcomes(*(train(one, rank) for rank, one in enumerate(parallel)))
    assert [type(one) for one in found] == [ReplicaError, ZeroDivisionError, ReplicaError]
    assert "replica 1 failed with ZeroDivisionError: this replica fails" in str(found[0])
    assert [grads(model) for model in models] == before
    models[1].fails = None
    for model in models:
        for weight in model.weights:
            weight.grad = None
    await asyncio.gather(*(train(one, rank) for rank, one in enumerate(parallel)))
    assert [grads(model) for model in models] == before


@one_loop
async def test_a_failing_last_callback_at_one_replica_rolls_back_all():
    parallel = replicas()

    def fail():
        raise ZeroDivisionError("late")

    x = ag.tensor(1.0, requires_grad=True)
    x.register_hook(lambda grad: ag.engine.queue_callback(fail))
    late = (parallel[0](data(0)) * x).sum()
    found = await outcomes(late.backward(), train(parallel[1], 1))
    assert [type(one) for one in found] == [ZeroDivisionError, ReplicaError]
    assert x.grad is None

    assert [grads(one.module) for one in parallel] == [[None] * LAYERS] * 2


@pytest.mark.slow
def test_a_cancellation_at_one_replica_at_any_moment_changes_all_gradients_or_none():
    mean = expected()
    seen = set()

    async def main():
        parallel = replicas(bucket_bytes=100)
        begun = asyncio.Event()

        async def begin(one, rank):
            with one.step():
                if rank == 0:
                    begun.set()
                await loss_of(one(data(rank))).backward()

        tasks = [asyncio.ensure_future(begin(one, rank)) for rank, one in enumerate(parallel)]
        await begun.wait()
        for _ in range(steps):
            await asyncio.sleep(0)
        tasks[0].cancel()
        found = await outcomes(*tasks)
        after = [grads(one.module) for one in parallel]
        assert after in ([mean] * 2, [[None] * LAYERS] * 2)
        assert (found[1] is None) == (after[1] == mean)
        seen.add(found[1] is None)

    with ag.workers(0):
        for steps in range(30):  # noqa: B007
            explore(main, seeds=3)

    assert seen == {True, False}


def test_a_replica_that_is_cancelled_after_the_vote_has_the_gradients_of_the_others():
    class Decided:
        rank, size = 0, 1

        async def all_reduce(self, key, array):
            if len(key) == 1:
                voted.set()
                await asyncio.Event().wait()
            return array

        def abort(self, round_number, reason):
            return False

    voted = asyncio.Event()
    model = Net()

    async def main():
        task = asyncio.ensure_future(train(DataParallel(model, Decided()), 0))
        await voted.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    ag.run(main())

    assert grads(model) == expected(1)


def test_gradients_of_no_sync_are_averaged_with_the_next_ones():
    parallel = replicas()

    async def both(one, rank):
        with one.no_sync():
            await train(one, rank)
        await train(one, rank)

    async def main():
        await asyncio.gather(*(both(one, rank) for rank, one in enumerate(parallel)))

    ag.run(main())

    np.testing.assert_allclose(np.array(grads(parallel[0].module)), 2 * np.array(expected()), rtol=1e-14)
    assert grads(parallel[0].module) == grads(parallel[1].module)


def test_the_sum_is_given_where_no_mean_is_wanted_and_removed_hooks_exchange_nothing():
    parallel = replicas(average=False)

    async def main():
        await asyncio.gather(*(train(one, rank) for rank, one in enumerate(parallel)))

    ag.run(main())

    np.testing.assert_allclose(np.array(grads(parallel[0].module)), 2 * np.array(expected()), rtol=1e-14)
    parallel[0].remove()
    ag.run(train(parallel[0], 0))
    assert grads(parallel[0].module) != grads(parallel[1].module)


@one_loop
async def test_parameters_that_no_replica_uses_get_no_gradient_and_those_that_some_use_are_an_error():
    def make(size):
        return [
            {"a": ag.tensor([1.0], requires_grad=True), "b": ag.tensor([2.0], requires_grad=True)} for _ in range(size)
        ]

    models = make(2)
    replicas(models=models, bucket_bytes=1)
    await asyncio.gather(*((model["a"] * 3.0).sum().backward() for model in models))
    assert [model["a"].grad.item() for model in models] == [3.0, 3.0]
    assert [model["b"].grad for model in models] == [None, None]

    models = make(2)
    replicas(models=models)
    found = await outcomes(models[0]["a"].sum().backward(), (models[1]["a"] + models[1]["b"]).sum().backward())
    assert [type(one) for one in found] == [ReplicaError, ReplicaError]
    assert "has a gradient at 1 of 2 replicas" in str(found[0])
    assert [one.grad for model in models for one in model.values()] == [None] * 4


@one_loop
async def test_synchronize_gives_all_the_parameters_of_rank_0():
    models = [
        {"w": ag.tensor([1.0, 2.0], requires_grad=True), "b": ag.tensor(np.float32(rank), requires_grad=True)}
        for rank in range(3)
    ]
    parallel = replicas(3, models=models)

    models[1]["w"].detach()[...] = 7.0
    await asyncio.gather(*(one.synchronize() for one in parallel))

    assert [(model["w"].tolist(), model["b"].item()) for model in models] == [([1.0, 2.0], 0.0)] * 3


def test_a_pipeline_of_a_replica_exchanges_its_gradients_once():
    keys = []

    class Counted:
        rank, size = 0, 1

        async def all_reduce(self, key, array):
            keys.append(key)
            return array

        def abort(self, round_number, reason):
            return True

    model = Net()

    async def main():
        with DataParallel(model, Counted()):
            await pipeline([model], data(0), micro_batches=5, loss=loss_of, schedule="1f1b")

    ag.run(main())

    assert keys == [(1, 0, 0), (1,)]
    np.testing.assert_allclose(np.array(grads(model)), np.array(expected(1)), rtol=1e-12)


@one_loop
async def test_one_backward_at_a_time_runs_at_a_replica():
    class Never:
        rank, size = 0, 2

        async def all_reduce(self, key, array):
            begun.set()
            await asyncio.Event().wait()

        def abort(self, round_number, reason):
            return True

    begun = asyncio.Event()
    model = {"a": ag.tensor([1.0], requires_grad=True), "b": ag.tensor([2.0], requires_grad=True)}

    with DataParallel(model, Never(), bucket_bytes=1):
        first = asyncio.ensure_future(model["a"].sum().backward())
        await begun.wait()
        with pytest.raises(GraphError, match="one backward at a time"):
            await model["b"].sum().backward()
        first.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await first

    assert [one.grad for one in model.values()] == [None, None]


@one_loop
async def test_a_group_sums_in_the_order_of_ranks_and_keeps_nothing_of_what_has_ended():
    group = InProcessGroup(3)
    values = [np.array([1e16]), np.array([1.0]), np.array([-1e16])]

    give = lambda rank: group.member(rank).all_reduce((1, 0), values[rank])
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        found = await asyncio.gather(*map(give, order))
        assert [one.tolist() for one in found] == [[(1e16 + 1.0) - 1e16]] * 3
    different = [group.member(rank).all_reduce((2, 0), np.zeros(rank + 1)) for rank in range(3)]
    assert {type(one) for one in await outcomes(*different)} == {ReplicaError}
    waiting = asyncio.ensure_future(group.member(0).all_reduce((3, 0), values[0]))
    await asyncio.sleep(0)
    assert group.member(1).abort(3, "gone")
    for member in (0, 2):
        with pytest.raises(ReplicaError, match="gone"):
            await (waiting if member == 0 else group.member(2).all_reduce((3, 0), values[2]))
        assert group.member(member).abort(3, "also")

    assert (group._waiting, group._aborted) == ({}, {})
    assert [one.tolist() for one in values] == [[1e16], [1.0], [-1e16]]


def test_what_cannot_be_replicated_is_refused():
    group = InProcessGroup(2)
    with pytest.raises(ArgumentTypeError, match="tensors that require grad"):
        DataParallel([np.ones(3)], group.member(0))
    with pytest.raises(ArgumentError, match="rank is a number from 0 to 1, not 2"):
        group.member(2)
    with pytest.raises(ArgumentError, match="size must be at least 1"):
        InProcessGroup(0)
