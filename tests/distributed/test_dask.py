"""Stages on a Dask cluster of processes: what the simulated transport cannot show."""

import asyncio
import logging
import os
import signal

import numpy as np
import pytest
from distributed import Client, LocalCluster

import asyncgrad as ag
from asyncgrad import nn, optim
from asyncgrad.distributed import DaskTransport, Definition, RemoteGroup, RemoteModule, Request, stage
from asyncgrad.errors import ArgumentTypeError, PayloadError, WorkerLostError
from tests.distributed.parts import (
    check_layouts,
    forward,
    gradients,
    layer,
    local_gradients,
    make_params,
    sum_and_strides,
)
from tests.support.loops import one_loop


def process_of(client, worker):
    return client.run(os.getpid, workers=[worker])[worker]


async def counts(transport, workers):
    found = [(await transport.call(one, Request("ping", ""))).fields for one in workers]
    return [sum(one[what] for one in found) for what in ("calls", "transactions", "running")]


async def until_running(transport, worker, count):
    """Ask a worker, over and over, until so many bodies run there."""
    while (await counts(transport, [worker]))[2] != count:
        pass


@one_loop
async def test_gradients_have_the_bits_of_a_local_run(client, workers):
    scale = ag.tensor(1.5, requires_grad=True)
    stages = [stage(layer, pair, client=client, worker=one) for pair, one in zip(make_params(), workers, strict=True)]
    await (await forward(stages, scale)).backward()

    assert (await gradients(stages), scale.grad.item()) == await local_gradients()


@one_loop
async def test_a_remote_module_learns_at_its_worker(client, workers):
    transport = DaskTransport(client)
    make = lambda module: optim.SGD(module, lr=0.1)
    model = RemoteModule(workers[0], nn.Linear, (3, 1), transport=transport, optimizer=make)
    losses = []
    for _ in range(5):
        loss = (await model(np.eye(3)) ** 2).sum()
        losses.append(loss.item())
        await loss.backward()
        await model.step()
    del loss
    await model.close()
    left = await counts(transport, workers[:1])

    assert losses == sorted(losses, reverse=True)
    assert left == [0, 0, 0]


@one_loop
async def test_a_drop_that_overtakes_its_create_leaves_no_stage_at_a_worker(client, workers):
    transport = DaskTransport(client)
    definition = transport.export(Definition(np.sin))
    before = (await transport.call(workers[0], Request("ping", ""))).fields["stages"]
    await transport.call(workers[0], Request("drop", "early", {"attempt": 1}))
    late = await transport.call(workers[0], Request("create", "early", {"attempt": 1, "definition": definition}))
    after = (await transport.call(workers[0], Request("ping", ""))).fields["stages"]

    assert (late.fields["error"]["type"], after - before) == ("UnknownStageError", 0)


@one_loop
async def test_an_error_of_a_users_own_type_arrives_as_that(client, workers):
    class MineError(Exception):
        def __init__(self, first, second):
            super().__init__(f"{first} and {second}")

    def fail(x):
        raise MineError("one", "two")

    with pytest.raises(MineError, match="one and two") as caught:
        await stage(fail, client=client, worker=workers[1])(np.ones(1))
    (note,) = caught.value.__notes__

    assert note.startswith(f"at {workers[1]}, remote traceback:")
    assert "in fail" in note


@one_loop
async def test_a_cancellation_reaches_an_async_body_at_the_worker(client, workers):
    async def wait_forever(x):
        await asyncio.Event().wait()

    transport = DaskTransport(client)
    one = stage(wait_forever, transport=transport, worker=workers[0])
    await one.start()
    task = asyncio.ensure_future(one(np.ones(1)))
    await until_running(transport, workers[0], 1)
    task.cancel()
    await asyncio.wait([task])
    await until_running(transport, workers[0], 0)

    assert task.cancelled()


@one_loop
async def test_payloads_have_a_limit(client, workers):
    one = stage(lambda x: x, transport=DaskTransport(client, max_bytes=100), worker=workers[0])
    with pytest.raises(PayloadError):
        await one(np.ones(100))


@one_loop
async def test_arrays_arrive_aligned_and_in_the_order_of_memory_that_they_had(client, workers):
    await check_layouts(stage(sum_and_strides, client=client, worker=workers[0]))


@one_loop
async def test_a_leaf_takes_over_a_large_gradient_that_has_come_home(client, workers):
    one = stage(lambda x: 2 * x, client=client, worker=workers[0])
    x = ag.tensor(np.ones(1 << 16), requires_grad=True)
    await (await one(x)).sum().backward()
    # A copy would own its memory.

    assert (x.grad.numpy().flags.owndata, x.grad.numpy().flags.aligned, x.grad.sum().item()) == (
        False,
        True,
        2.0 * (1 << 16),
    )


@pytest.mark.slow
def test_a_killed_worker_changes_no_bit(client, workers):
    async def main():
        scale = ag.tensor(1.5, requires_grad=True)
        transport = DaskTransport(client, patience=1.0)
        stages = [
            stage(layer, pair, transport=transport, worker=one)
            for pair, one in zip(make_params(), workers, strict=True)
        ]
        loss = await forward(stages, scale)
        killed = stages[1].worker
        os.kill(await asyncio.to_thread(process_of, client, killed), signal.SIGKILL)
        await loss.backward()
        assert stages[1].worker != killed
        return await gradients(stages), scale.grad.item()

    assert ag.run(main()) == ag.run(local_gradients())
    client.wait_for_workers(3)


@pytest.mark.slow
def test_a_stalled_worker_changes_no_bit(client, workers):
    async def main():
        scale = ag.tensor(1.5, requires_grad=True)
        transport = DaskTransport(client, patience=0.3)
        stages = [
            stage(layer, pair, transport=transport, worker=one)
            for pair, one in zip(make_params(), workers, strict=True)
        ]
        loss = await forward(stages, scale)
        stalled = stages[2].worker
        process = await asyncio.to_thread(process_of, client, stalled)
        os.kill(process, signal.SIGSTOP)
        try:
            await loss.backward()
        finally:
            os.kill(process, signal.SIGCONT)
        assert stages[2].worker != stalled
        return await gradients(stages), scale.grad.item()

    assert ag.run(main()) == ag.run(local_gradients())


@one_loop
async def test_a_function_of_a_script_takes_what_it_refers_to_along(client, workers):
    # As a notebook's functions, it is in no module that the worker can import.
    namespace = {"np": np, "ag": ag, "__name__": "__main__"}
    exec("def double(x): return ag.nn.relu(2 * np.abs(x))", namespace)  # noqa: S102

    assert (await stage(namespace["double"], client=client, worker=workers[0])(np.array([-1.0, 2.0]))).tolist() == [
        2.0,
        4.0,
    ]


@one_loop
async def test_stages_end_with_their_transport(client, workers):
    async with DaskTransport(client) as transport:
        kept = [await stage(lambda x: x, transport=transport, worker=one).start() for one in workers]
        before = await stages_at(transport, workers)
    after = await stages_at(transport, workers)

    assert (len(kept), [there - left for there, left in zip(before, after, strict=True)]) == (3, [1, 1, 1])


async def stages_at(transport, workers):
    return [(await transport.call(one, Request("ping", ""))).fields["stages"] for one in workers]


@one_loop
async def test_replicas_meet_at_a_worker():
    async def main(client, workers):
        groups = [RemoteGroup(DaskTransport(client), 2, worker=workers[0], name="run") for _ in range(2)]
        arrays = [np.full(100_000, 1.0 + rank) for rank in range(2)]
        calls = [one.member(rank).all_reduce((1, 0), arrays[rank]) for rank, one in enumerate(groups)]
        return [(one.shape, set(one.tolist())) for one in await asyncio.gather(*calls)]

    assert await with_cluster_here(main) == [((100_000,), {3.0})] * 2


@one_loop
async def test_a_client_that_is_closed_or_none_is_refused_by_name():
    async def main(client, workers):
        one = stage(lambda w, x: w * x, 2.0, client=client, worker=workers[0])
        y = await one(3.0)
        await client.close()
        with pytest.raises(WorkerLostError, match="client of this transport is closed"):
            await y.backward()

    await with_cluster_here(main)
    with pytest.raises(ArgumentTypeError, match=r"client must be a distributed.Client, not int 3"):
        stage(lambda x: x, client=3)


@one_loop
async def test_a_client_that_is_closed_while_a_request_is_under_way_is_named():
    async def main(client, workers):
        transport = DaskTransport(client)
        # Closed after the request has looked whether it is.
        exchange = transport._send_and_receive(workers[0], Request("ping", ""))
        await client.close()
        with pytest.raises(WorkerLostError, match="client of this transport is closed"):
            await exchange

    await with_cluster_here(main)


@one_loop
async def test_workers_in_this_process_share_no_memory_with_home():
    async def main(client, workers):
        one = stage(np.tanh, client=client, worker=workers[0])
        x = ag.tensor(np.ones(1 << 14), requires_grad=True)
        y = await one(x)
        expected = 1 - y.numpy() ** 2
        y *= 2
        await y.sum().backward()
        return np.array_equal(x.grad.numpy(), 2 * expected)

    assert await with_cluster_here(main)


async def with_cluster_here(main):
    """Run something on a cluster of its own, in this process."""
    options = {"n_workers": 2, "processes": False, "dashboard_address": ":0", "asynchronous": True}
    async with LocalCluster(**options) as cluster, Client(cluster, asynchronous=True) as client:
        return await main(client, [worker.address for worker in cluster.workers.values()])


@pytest.mark.slow
@one_loop
async def test_a_worker_that_retires_hands_its_state_on():
    async def main(client, workers):
        transport = DaskTransport(client, patience=1.0)
        one = stage(lambda w, x: w * x, 2.0, transport=transport, worker=workers[0], backup=False)
        await (await one(ag.tensor(3.0))).backward()
        y = await one(ag.tensor(4.0))
        await client.retire_workers([workers[0]])
        with pytest.raises(WorkerLostError):
            # Asked over and over until it has closed.
            await until_running(transport, workers[0], -1)
        await y.backward()
        assert one.worker == workers[1]
        return (await one.grads())[0].item()

    # One of its own: the other tests need all their workers.
    assert await with_cluster_here(main) == 7.0


@pytest.mark.slow
@one_loop
async def test_a_cluster_closes_at_once_though_stages_were_not_closed(caplog):
    async def main(client):
        stages = [stage(lambda w, x: w * x, 2.0, client=client) for _ in range(3)]
        y = ag.tensor(1.0, requires_grad=True)
        for one in stages:
            y = await one(y)
        await y.backward()
        return stages

    # Dask's loggers hand nothing on.
    nanny = logging.getLogger("distributed.nanny")
    cluster = LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0")
    client = Client(cluster)
    kept = await main(client)
    client.close()
    nanny.addHandler(caplog.handler)
    try:
        cluster.close()
    finally:
        nanny.removeHandler(caplog.handler)

    assert len(kept) == 3
    # What the nanny says of a worker that it has to kill.
    assert "still alive" not in caplog.text
