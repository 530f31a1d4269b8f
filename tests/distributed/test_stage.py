"""Stages on simulated workers: the graph at home runs through them as through any other node."""

import asyncio
import gc
import weakref
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, optim
from asyncgrad.distributed import RemoteModule, stage
from asyncgrad.errors import (
    ArgumentError,
    ArgumentTypeError,
    GraphError,
    PayloadError,
    ReleasedGraphError,
    StageLost,
)
from asyncgrad.testing import explore
from tests.distributed.parts import (
    check_layouts,
    forward,
    gradients,
    layer,
    local_gradients,
    make_params,
    make_stages,
    simulated,
    sum_and_strides,
)
from tests.support.failing import Trouble, raising
from tests.support.loops import one_loop
from tests.support.turns import settle


@pytest.mark.slow
def test_gradients_have_the_bits_of_a_local_run_on_any_schedule():
    expected = ag.run(local_gradients())

    async def main():
        scale = ag.tensor(1.5, requires_grad=True)
        stages = make_stages(simulated())
        await (await forward(stages, scale)).backward()
        assert (await gradients(stages), scale.grad.item()) == expected

    with ag.workers(0):
        explore(main, seeds=30)


@one_loop
async def test_arrays_arrive_in_the_order_of_memory_that_they_had():
    await check_layouts(stage(sum_and_strides, transport=simulated()))


@one_loop
async def test_a_worker_keeps_no_output_after_a_backward_has_begun():
    outputs = []

    def double(x):
        y = 2 * x
        outputs.append(weakref.ref(y.numpy()))
        return y

    async def main():
        # A deep copy, as the simulated transport makes of a definition, shares a plain function.
        one = stage(double, transport=simulated())
        x = ag.tensor(np.ones(3), requires_grad=True)
        y = await one(x)
        await y.sum().backward(retain_graph=True)
        return x.grad.tolist(), outputs[0]() is None

    assert await main() == ([2.0, 2.0, 2.0], True)


@one_loop
async def test_gradients_come_home_to_leaves_with_the_same_bits():
    expected = await local_gradients()

    scale = ag.tensor(1.5, requires_grad=True)
    params = [tuple(ag.tensor(one, requires_grad=True) for one in pair) for pair in make_params()]
    transport = simulated()
    stages = [stage(layer, pair, transport=transport, gradients="home") for pair in params]
    await (await forward(stages, scale)).backward()

    assert ([[one.grad.tolist() for one in pair] for pair in params], scale.grad.item()) == expected


@one_loop
async def test_a_second_backward_adds_to_the_gradients_at_the_worker():
    w = stage(lambda w, x: w * x, 2.0, transport=simulated())
    for x in (3.0, 4.0):
        await (await w(x)).backward()

    assert [grad.item() for grad in await w.grads()] == [7.0]


@one_loop
async def test_a_stage_learns_where_it_is_as_it_would_here():
    def make(params):
        return optim.Adam(params, lr=0.1)

    async def remote():
        one = stage(layer, make_params()[0], transport=simulated(), optimizer=make)
        for x in np.ones((5, 2, 4)):
            await (await one(x)).sum().backward()
            await one.step()
        return [param.tolist() for param in await one.parameters()]

    async def local():
        params = [ag.tensor(one, requires_grad=True) for one in make_params()[0]]
        optimizer = make(params)
        for x in np.ones((5, 2, 4)):
            optimizer.zero_grad()
            await layer(params, x).sum().backward()
            optimizer.step()
        return [param.tolist() for param in params]

    assert await remote() == await local()


@one_loop
async def test_options_of_a_step_change_the_optimizer():
    one = stage(lambda w: w * 1.0, 2.0, transport=simulated(), optimizer=lambda params: optim.SGD(params, lr=1.0))
    await (await one()).backward()
    await one.step(lr=0.5)

    assert (await one.parameters())[0].item() == 1.5


@one_loop
async def test_an_option_that_the_optimizer_does_not_have_is_refused():
    one = stage(lambda w: w * 1.0, 2.0, transport=simulated(), optimizer=lambda params: optim.SGD(params, lr=1.0))
    await (await one()).backward()
    with pytest.raises(ArgumentError, match="SGD has no option rate: it has dampening, lr"):
        await one.step(rate=0.5)

    assert ((await one.parameters())[0].item(), (await one.grads())[0].item()) == (2.0, 1.0)


def test_a_stage_goes_on_from_a_state_that_was_kept_also_after_its_worker_is_lost():
    async def learn(one, steps):
        for _ in range(steps):
            await (await one(np.array([1.0, 3.0]))).sum().backward()
            await one.step()

    def make(transport):
        options = {"optimizer": lambda params: optim.Adam(params, lr=0.1), "transport": transport, "worker": "a"}
        return stage(lambda w, x: w * x, np.array([2.0, 1.0]), **options)

    async def main():
        first, transport = make(simulated()), simulated()
        await learn(first, 3)
        state = await first.state_dict()
        await learn(first, 2)
        second = make(transport)
        await learn(second, 1)
        await second.load_state_dict(state)
        transport.kill("a")
        await learn(second, 2)
        with pytest.raises(ArgumentError, match="of shapes"):
            await stage(lambda w: w, 1.0, transport=transport).load_state_dict(state)
        return [(await one.parameters())[0].tolist() for one in (first, second)]

    first, second = ag.run(main())

    assert first == second


@one_loop
async def test_inputs_may_be_passed_by_name():
    one = stage(lambda w, x, *, scale, shift=0.0: w * x * scale + shift, 2.0, transport=simulated())
    scale = ag.tensor(5.0, requires_grad=True)
    y = await one(np.array(3.0), scale=scale)
    await y.backward()

    assert (y.item(), scale.grad.item(), (await one.grads())[0].item()) == (30.0, 6.0, 15.0)


@one_loop
async def test_a_worker_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(ArgumentError, match=r"no worker 'z'; there are \['a', 'b'"):
        await stage(lambda x: x, transport=simulated(), worker="z")(np.ones(1))


@one_loop
async def test_a_remote_module_is_that_of_its_seed():
    ag.random.seed(3)
    one = RemoteModule("a", nn.Linear, (3, 2), transport=simulated())
    ag.random.seed(3)
    other = RemoteModule("b", nn.Linear, args=(3,), kwargs={"out_features": 2}, transport=simulated())
    first, second = [[param.tolist() for param in await each.parameters()] for each in (one, other)]

    assert first == second


@one_loop
async def test_an_async_stage_waits_for_what_it_awaits():
    async def slow(w, x):
        await asyncio.sleep(0)
        return w * x

    one = stage(slow, 2.0, transport=simulated())
    await (await one(3.0)).backward()

    assert (await one.grads())[0].item() == 3.0


@one_loop
async def test_a_number_of_numpy_arrives_as_a_tensor():
    one = stage(lambda x: np.float32(2.0) * np.ones(()), transport=simulated())

    assert type(await one(np.float64(1.0))) is ag.Tensor


@one_loop
async def test_inputs_and_outputs_are_trees():
    one = stage(
        lambda tree, flag: {"sum": tree["a"] + tree["b"][0], "flag": flag, "k": [1, None]}, transport=simulated()
    )
    x = ag.tensor(2.0, requires_grad=True)
    found = await one({"a": x, "b": (x, 5)}, "yes")
    await found["sum"].backward()

    assert (found["flag"], found["k"], x.grad.item()) == ("yes", [1, None], 2.0)


@one_loop
async def test_random_numbers_are_those_of_the_seed_and_the_number_of_the_call():
    pair = [stage(lambda x: x * ag.random.generator().random(), transport=simulated(), seed=5) for _ in range(2)]
    first, second = [[(await one(np.ones(()))).item() for _ in range(2)] for one in pair]

    assert first == second
    assert first[0] != first[1]


@one_loop
async def test_nothing_is_kept_without_grad_mode():
    transport = simulated()
    one = stage(layer, make_params()[0], transport=transport, worker="a")
    with ag.no_grad():
        y = await one(np.ones((1, 4)))

    assert (y.requires_grad, transport.host("a").counts()["calls"]) == (False, 0)


@one_loop
async def test_a_graph_that_is_dropped_is_freed_at_the_worker():
    transport = simulated()
    one = stage(layer, make_params()[0], transport=transport, worker="a")
    y = await one(np.ones((1, 4)))
    kept = transport.host("a").counts()["calls"]
    del y
    gc.collect()
    for _ in range(5):
        await asyncio.sleep(0)

    assert (kept, transport.host("a").counts()["calls"]) == (1, 0)


@one_loop
async def test_a_batch_of_gradients_leaves_no_graph_at_the_worker():
    transport = simulated()
    one = stage(layer, make_params()[0], transport=transport, worker="a")
    x = ag.tensor(np.ones(4), requires_grad=True)
    y = await one(x)
    await ag.grad([y], [x], [np.eye(4)], is_grads_batched=True, retain_graph=True)
    await settle()
    kept = transport.host("a").counts()["calls"]
    await ag.grad([y], [x], [np.eye(4)], is_grads_batched=True)
    await settle()

    assert (kept, transport.host("a").counts()["calls"]) == (1, 0)


class Clock:
    seconds = 0.0

    def __call__(self):
        return self.seconds


@one_loop
async def test_a_transaction_whose_home_has_gone_ends_by_itself():
    now = Clock()
    transport = simulated(ttl=10.0, clock=now)
    host = transport.host("a")
    one = stage(layer, make_params()[0], transport=transport, worker="a")

    def vanish(worker, message):
        if getattr(message, "op", "") in ("commit", "roll_back", "cancel", "free"):
            raise ConnectionAbortedError

    y = await one(np.ones((1, 4)))
    transport.on_message = vanish
    with pytest.raises(ConnectionAbortedError):
        await y.sum().backward()
    kept = host.counts()["transactions"]
    now.seconds += 11.0
    host.expire()

    assert (kept, host.counts()["transactions"]) == (1, 0)


@one_loop
async def test_a_graph_whose_time_was_over_is_computed_again():
    now = Clock()
    transport = simulated(ttl=10.0, clock=now)
    one = stage(layer, make_params()[0], transport=transport, worker="a", backup=False)
    x = ag.tensor(np.ones((1, 4)), requires_grad=True)
    y = await one(x)
    now.seconds += 11.0
    await one.parameters()
    kept = transport.host("a").counts()["calls"]
    await y.sum().backward()

    assert (kept, x.grad is not None) == (0, True)


@one_loop
@pytest.mark.parametrize("backup", [True, False])
async def test_a_stage_that_nobody_asks_for_is_dropped_and_made_again_where_home_has_a_backup(backup):
    async def main():
        now = Clock()
        transport = simulated(ttl=10.0, stage_ttl=100.0, clock=now)
        one = stage(lambda w, x: w * x, 2.0, transport=transport, worker="a", backup=backup)
        await (await one(3.0)).backward()
        now.seconds += 101.0
        transport.host("a").expire()
        assert transport.host("a").counts()["stages"] == 0
        return [grad.item() for grad in await one.grads()]

    if backup:
        assert await main() == [3.0]
    else:
        with pytest.raises(StageLost, match="what it had learned is nowhere else"):
            await main()


@one_loop
async def test_a_closed_stage_leaves_nothing():
    transport = simulated()
    async with stage(layer, make_params()[0], transport=transport, worker="a") as one:
        y = await one(np.ones((1, 4)))
    counts = transport.host("a").counts()
    del y

    assert counts == {"stages": 0, "calls": 0, "transactions": 0, "running": 0}


@one_loop
async def test_a_retained_graph_runs_twice_and_a_released_one_raises():
    one = stage(lambda w, x: w * x, 2.0, transport=simulated())
    x = ag.tensor(3.0, requires_grad=True)
    y = await one(x)
    await y.backward(retain_graph=True)
    await y.backward()
    with pytest.raises(ReleasedGraphError):
        await y.backward()

    assert (x.grad.item(), (await one.grads())[0].item()) == (4.0, 6.0)


@one_loop
@pytest.mark.parametrize("until", [None, "until_success"])
async def test_a_graph_at_the_worker_is_kept_for_another_try_and_freed_by_the_success(until):
    transport = simulated()
    one = stage(lambda w, x: w * x, 2.0, transport=transport, worker="a")
    x = ag.tensor(3.0, requires_grad=True)
    y = await one(x)
    kept = []
    if until is not None:
        with x.register_hook(raising(Trouble("at home"))), pytest.raises(Trouble):
            await y.backward(retain_graph=until)
        kept = [transport.host("a").counts()["calls"], (await one.grads())[0]]
    await y.backward(retain_graph=until)
    await settle()

    assert kept in ([], [1, None])
    assert transport.host("a").counts()["calls"] == 0
    assert (x.grad.item(), (await one.grads())[0].item()) == (2.0, 3.0)
    with pytest.raises(ReleasedGraphError):
        await y.backward(retain_graph=until)


@one_loop
async def test_grad_of_an_input_leaves_the_parameters_alone():
    one = stage(lambda w, x: w * x, 2.0, transport=simulated())
    x = ag.tensor(3.0, requires_grad=True)
    (grad,) = await ag.grad(await one(x), [x])

    assert (grad.item(), await one.grads()) == (2.0, [None])


@one_loop
async def test_a_derivative_of_a_gradient_of_a_stage_raises():
    one = stage(lambda x: x * x, transport=simulated())
    x = ag.tensor(3.0, requires_grad=True)
    (grad,) = await ag.grad(await one(x), [x], create_graph=True)
    with pytest.raises(GraphError, match="differentiated"):
        await grad.backward()


def test_a_blocking_backward_runs_through_stages():
    async def build():
        one = stage(lambda w, x: w * x, 2.0, transport=simulated())
        x = ag.tensor(3.0, requires_grad=True)
        return one, x, await one(x)

    one, x, y = ag.run(build())
    ag.sync.backward(y)

    assert x.grad.item() == 2.0
    assert ag.run(one.grads())[0].item() == 3.0


@one_loop
async def test_payloads_have_a_limit():
    one = stage(lambda x: x, transport=simulated(max_bytes=100))
    with pytest.raises(PayloadError, match=r"has 160 bytes, and a message may have 100.*shape \(20,\)"):
        await one(np.ones(20))
    with pytest.raises(PayloadError, match="the reply of stage"):
        await stage(lambda: np.ones(20), transport=simulated(max_bytes=100))()


@pytest.mark.parametrize(
    ("error", "message", "make"),
    [
        (ArgumentTypeError, "a stage must be a function or a Module", lambda: stage(3, transport=simulated())),
        (ArgumentTypeError, "for a class, RemoteModule", lambda: stage(nn.Linear, transport=simulated())),
        (ArgumentTypeError, "takes a subclass of nn.Module", lambda: RemoteModule("a", len, transport=simulated())),
        (ArgumentError, "parameters of its own", lambda: stage(nn.Linear(1, 1), [1.0], transport=simulated())),
        (ArgumentError, "'stage' or 'home'", lambda: stage(len, gradients="away", transport=simulated())),
        (ArgumentError, "pass params", lambda: stage(len, gradients="home", transport=simulated())),
        (ArgumentError, "not both", lambda: stage(len, transport=simulated(), client=object())),
    ],
)
def test_a_stage_that_cannot_be_is_refused_when_it_is_made(error, message, make):
    with pytest.raises(error, match=message):
        make()


@one_loop
async def test_what_is_no_payload_is_refused():
    with pytest.raises(ArgumentTypeError, match="in lists, tuples and dicts, not"):
        await stage(lambda x: x, transport=simulated())(object())
    with pytest.raises(ArgumentTypeError, match="has no optimizer"):
        await stage(lambda w: w, 1.0, transport=simulated()).step()


@one_loop
async def test_an_error_arrives_with_its_type_and_tells_both_nodes():
    def forward(x):
        return np.sqrt(x) @ np.ones(7)

    class Broken(ag.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        def backward(ctx, grad):
            raise ZeroDivisionError("at the worker")

    async def main():
        with pytest.raises(ValueError, match="matmul") as caught:
            await stage(forward, transport=simulated(), worker="a")(np.ones(3))
        assert any("at a, remote traceback" in note and "in forward" in note for note in caught.value.__notes__)
        x = ag.tensor(1.0, requires_grad=True)
        y = await stage(Broken.apply, transport=simulated(), worker="b")(x)
        with pytest.raises(ZeroDivisionError, match="at the worker") as caught:
            await y.backward()
        return caught.value.__notes__

    notes = await main()

    assert any(note.startswith("at b: in BrokenBackward (node #") for note in notes)
    assert any(note.startswith("in StageCallBackward (node #") for note in notes)


@one_loop
async def test_a_profile_shows_each_worker_as_a_lane():
    scale = ag.tensor(1.5, requires_grad=True)
    stages = make_stages(simulated())
    loss = await forward(stages, scale, 1)
    with ag.profile() as prof:
        await loss.backward()
    events: list[Any] = [event for event in prof.events if event.name == "StageCallBackward"]

    assert [event.worker for event in events] == ["c", "b", "a"]
    assert all(event.began <= event.worker_began <= event.worker_ended <= event.ended for event in events)
