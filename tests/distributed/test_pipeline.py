"""Pipelines: which micro-batches are where, what they give, and that all of it happens or nothing."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.distributed import pipeline, stage
from asyncgrad.errors import ArgumentError, ArgumentTypeError, GraphError
from asyncgrad.testing import explore
from tests.distributed.parts import gradients, layer, make_params, make_stages, simulated
from tests.support.loops import one_loop

ROWS = 10


class Model:
    """Three stages here, of which the first and the last share a weight; each suspends as often as it is told."""

    def __init__(self, pauses=(0, 0, 0)):
        self.params = [[ag.tensor(one, requires_grad=True) for one in pair] for pair in make_params(count=2)]
        self.scale = ag.tensor(1.5, requires_grad=True)
        self.stages = [self._stage(at, pauses[at]) for at in range(3)]

    def _stage(self, at, pauses):
        async def run(x):
            for _ in range(pauses):
                await asyncio.sleep(0)
            return layer(self.params[at % 2], x)

        return run

    def x(self):
        return self.scale * np.random.default_rng(2).normal(size=(ROWS, 4))

    def grads(self):
        return [[None if one.grad is None else one.grad.tolist() for one in pair] for pair in self.params] + [
            None if self.scale.grad is None else self.scale.grad.item()
        ]


def loss(y):
    return (y * y).mean()


async def trained(model, **options):
    total = await pipeline(model.stages, model.x(), micro_batches=4, loss=loss, **options)
    return total.item(), model.grads()


class Recorder:
    """Stages that begin and end when a test says so, by (stage, micro-batch)."""

    def __init__(self, count):
        self.log = []
        self.stages = [self._stage(at) for at in range(count)]

    def _stage(self, at):
        async def run(x):
            number = int(x.numpy()[0])
            self.log.append(("begin", at, number))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            self.log.append(("end", at, number))
            return x * 1.0

        return run


def numbers(count, requires_grad=False):
    return ag.tensor(np.arange(float(count)), requires_grad=requires_grad)


@one_loop
async def test_the_output_and_the_gradients_are_those_of_the_batch():
    one, other = Model(), Model()
    y = await pipeline(one.stages, one.x(), micro_batches=3)
    await loss(y).backward()
    expected = other.x()
    for each in other.stages:
        expected = await each(expected)
    await loss(expected).backward()
    np.testing.assert_allclose(y.numpy(), expected.numpy(), rtol=1e-13)

    for pair, same in zip(one.params, other.params, strict=True):
        for mine, theirs in zip(pair, same, strict=True):
            np.testing.assert_allclose(mine.grad.numpy(), theirs.grad.numpy(), rtol=1e-12)
    np.testing.assert_allclose(one.scale.grad.numpy(), other.scale.grad.numpy(), rtol=1e-12)


@one_loop
async def test_with_a_loss_they_are_those_of_the_batch_too():
    model, other = Model(), Model()
    total, _ = await trained(model, schedule="1f1b")

    y = other.x()
    for each in other.stages:
        y = await each(y)
    await loss(y).backward()
    np.testing.assert_allclose(total, loss(y).item(), rtol=1e-13)
    for pair, same in zip(model.params, other.params, strict=True):
        for mine, theirs in zip(pair, same, strict=True):
            np.testing.assert_allclose(mine.grad.numpy(), theirs.grad.numpy(), rtol=1e-12)
    np.testing.assert_allclose(model.scale.grad.numpy(), other.scale.grad.numpy(), rtol=1e-12)


@one_loop
async def test_bits_depend_neither_on_the_schedule_nor_on_how_many_are_in_flight_nor_on_time():
    expected = await trained(Model())

    for schedule in ("gpipe", "1f1b"):
        for in_flight in (1, 2, 3, None):
            for pauses in ((0, 0, 0), (3, 0, 1), (0, 4, 0)):
                assert await trained(Model(pauses), schedule=schedule, in_flight=in_flight) == expected


def test_bits_are_the_same_on_any_schedule_of_the_loop():
    expected = ag.run(trained(Model()))

    async def main():
        assert await trained(Model((1, 2, 0)), schedule="1f1b") == expected

    with ag.workers(0):
        explore(main, seeds=30)


@one_loop
async def test_bits_without_a_loss_do_not_depend_on_time():
    async def run(pauses, in_flight):
        rng = np.random.default_rng(0)
        weights = [ag.tensor(rng.normal(size=(4, 4)), requires_grad=True) for _ in pauses]

        def make(weight, count):
            async def stage(x):
                for _ in range(count):
                    await asyncio.sleep(0)
                return np.tanh(x @ weight)

            return stage

        stages = [make(weight, count) for weight, count in zip(weights, pauses, strict=True)]
        y = await pipeline(stages, rng.normal(size=(8, 4)), micro_batches=4, in_flight=in_flight)
        await (y * y).sum().backward()
        return [weight.grad.tolist() for weight in weights]

    expected = await run((0, 0, 0), None)

    for pauses in ((0, 3, 1), (4, 0, 0)):
        for in_flight in (1, 2, None):
            assert await run(pauses, in_flight) == expected


@one_loop
async def test_all_stages_work_at_the_same_time():
    meeting = asyncio.Barrier(3)

    def make(at):
        async def stage(x):
            if at + int(x.numpy()[0]) == 2:
                await meeting.wait()
            return x * 1.0

        return stage

    assert (await pipeline([make(at) for at in range(3)], numbers(6), micro_batches=6)).tolist() == [
        0.0,
        1.0,
        2.0,
        3.0,
        4.0,
        5.0,
    ]


@one_loop
async def test_each_stage_has_one_micro_batch_at_a_time_in_order():
    record = Recorder(3)

    await pipeline(record.stages, numbers(6), micro_batches=6)

    for at in range(3):
        mine = [(what, number) for what, where, number in record.log if where == at]
        assert mine == [(what, number) for number in range(6) for what in ("begin", "end")]


@one_loop
@pytest.mark.parametrize("in_flight", [1, 2, 4])
async def test_no_more_micro_batches_are_in_the_stages_than_may_be(in_flight):
    record = Recorder(3)

    await pipeline(record.stages, numbers(6), micro_batches=6, in_flight=in_flight)

    inside, most = 0, 0
    for what, at, _ in record.log:
        inside += (what, at) == ("begin", 0)
        most = max(most, inside)
        inside -= (what, at) == ("end", 2)
    assert most == min(in_flight, 3)


class Watched(ag.Function):
    @staticmethod
    def forward(ctx, x, log, number):
        ctx.log, ctx.number = log, number
        return x * 1.0

    @staticmethod
    def backward(ctx, grad):
        ctx.log.append(("backward", ctx.number))
        return grad, None, None


@one_loop
@pytest.mark.parametrize(
    ("schedule", "in_flight", "most"), [("1f1b", None, 3), ("1f1b", 2, 2), ("1f1b", 1, 1), ("gpipe", 2, 6)]
)
async def test_1f1b_keeps_no_more_graphs_than_may_be_in_flight_and_gpipe_all(schedule, in_flight, most):
    record = Recorder(2)

    async def watched(x):
        number = int(x.numpy()[0])
        record.log.append(("forward", number))
        return Watched.apply(x, record.log, number)

    options = {"micro_batches": 6, "in_flight": in_flight, "schedule": schedule}
    await pipeline([watched, *record.stages], numbers(6, requires_grad=True), loss=np.sum, **options)

    kept, highest = 0, 0
    for entry in record.log:
        kept += entry[0] == "forward"
        highest = max(highest, kept)
        kept -= entry[0] == "backward"
    assert (highest, kept) == (most, 0)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_stages_at_workers_have_the_bits_of_a_local_pipeline(schedule):
    async def main(stages):
        scale = ag.tensor(1.5, requires_grad=True)
        x = scale * np.random.default_rng(2).normal(size=(ROWS, 4))
        await pipeline(stages, x, micro_batches=4, loss=loss, schedule=schedule)
        return scale.grad.item()

    async def remote():
        stages = make_stages(simulated())
        return await main(stages), await gradients(stages)

    async def local():
        params = [[ag.tensor(one, requires_grad=True) for one in pair] for pair in make_params()]
        scale = await main([lambda x, pair=pair: layer(pair, x) for pair in params])
        return scale, [[one.grad.tolist() for one in pair] for pair in params]

    expected = ag.run(local())

    async def explored():
        assert await remote() == expected

    with ag.workers(0):
        explore(explored, seeds=15)


@one_loop
@pytest.mark.parametrize("at", ["forward", "loss", "backward"])
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
async def test_a_failure_of_one_micro_batch_leaves_all_gradients_as_they_were_here_and_elsewhere(at, schedule):
    class Fails(ag.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        def backward(ctx, grad):
            raise ZeroDivisionError("backward")

    rows = np.random.default_rng(2).normal(size=(ROWS, 4))
    numbered = np.arange(float(ROWS))

    transport = simulated()
    away = stage(layer, make_params()[0], transport=transport)
    here = Model()

    async def begin(both):
        return await away(both[0]), both[1]

    async def fail(both):
        x, number = both
        x = await here.stages[1](x)
        if number.max() >= 7:
            if at == "forward":
                raise ZeroDivisionError(at)
            x = Fails.apply(x) if at == "backward" else x
        return x, number

    def broken(both):
        if at == "loss" and both[1].max() >= 7:
            raise ZeroDivisionError(at)
        return loss(both[0])

    options = {"micro_batches": 5, "schedule": schedule}
    await pipeline([begin, lambda both: both[0]], (here.scale * rows, numbered), loss=loss, **options)
    before = here.grads(), await gradients([away])
    with pytest.raises(ZeroDivisionError, match=at):
        await pipeline([begin, fail], (here.scale * rows, numbered), loss=broken, **options)
    assert (here.grads(), await gradients([away])) == before
    counts = transport.host(away.worker).counts()
    assert (counts["transactions"], counts["running"]) == (0, 0)


@one_loop
async def test_a_cancelled_pipeline_cancels_its_stages_and_changes_nothing():
    model, reached, cancelled = Model(), asyncio.Event(), []

    async def waits(x):
        if x.shape[0] == 2:
            reached.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(x.shape)
                raise
        return x

    run = pipeline([*model.stages, waits], model.x(), micro_batches=4, loss=loss, schedule="1f1b")
    task = asyncio.ensure_future(run)
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    grads = model.grads()

    assert grads == [[None, None], [None, None], None]
    assert cancelled == [(2, 4)]


@one_loop
async def test_trees_are_split_and_joined_and_what_has_no_rows_goes_to_each_whole():
    def first(batch):
        assert isinstance(batch["ids"], np.ndarray)
        return {"y": batch["x"] * batch["scale"], "n": batch["ids"].sum(), "name": batch["name"]}

    def second(batch):
        return batch["y"], batch["n"]

    x = ag.tensor(np.arange(10.0).reshape(5, 2), requires_grad=True)
    scale = ag.tensor(3.0, requires_grad=True)

    tree = {"x": x, "ids": np.arange(5), "scale": scale, "name": "batch"}
    y, n = await pipeline([first, second], tree, micro_batches=2)
    await y.sum().backward()
    totals = x.grad.tolist(), scale.grad.item()
    x.grad = scale.grad = None
    await pipeline([first, second], tree, micro_batches=2, loss=lambda out: out[0].sum(), reduction="sum")
    y, n, single, with_loss = (y.tolist(), n.tolist(), totals, (x.grad.tolist(), scale.grad.item()))

    assert y == (3 * np.arange(10.0).reshape(5, 2)).tolist()
    assert n == [3, 7]
    assert single == with_loss == ([[3.0, 3.0]] * 5, 45.0)


@one_loop
async def test_targets_are_split_as_x_is_and_unequal_micro_batches_weigh_by_their_rows():
    w = ag.tensor(2.0, requires_grad=True)
    x, target = np.arange(7.0), np.arange(7.0) ** 2

    async def compare(y, goal):
        return np.square(y - goal).mean()

    total = await pipeline([lambda x: w * x], x, micro_batches=3, loss=compare, target=target)

    np.testing.assert_allclose(total.item(), np.square(2 * x - target).mean())
    np.testing.assert_allclose(w.grad.item(), (2 * (2 * x - target) * x).mean())


@one_loop
async def test_post_accumulate_hooks_see_the_whole_gradient_once():
    w = ag.tensor(2.0, requires_grad=True)
    seen = []
    w.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.item()))

    await pipeline([lambda x: w * x], np.arange(6.0), micro_batches=3, loss=np.sum, reduction="sum")

    assert seen == [15.0]


@one_loop
@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"micro_batches": 0}, ArgumentError, "micro_batches must be at least 1"),
        ({"micro_batches": 7}, ArgumentError, "x has 6 rows, which cannot be split into 7"),
        ({"micro_batches": 2, "in_flight": 0}, ArgumentError, "in_flight must be at least 1"),
        ({"micro_batches": 2, "schedule": "1f1b"}, ArgumentError, "needs a loss"),
        ({"micro_batches": 2, "schedule": "2f2b"}, ArgumentError, "'gpipe' or '1f1b'"),
        ({"micro_batches": 2, "reduction": "max"}, ArgumentError, "'mean' or 'sum'"),
        ({"micro_batches": 2, "target": np.arange(6)}, ArgumentError, "pass loss, or leave it out"),
        ({"micro_batches": 2, "loss": np.sum, "target": np.arange(5)}, ArgumentError, "6 rows and target 5"),
        ({"micro_batches": 2, "loss": 3}, ArgumentTypeError, "loss must be a function"),
        ({"micro_batches": 2, "loss": lambda y: y}, ArgumentTypeError, "a tensor with one real number"),
        ({"micro_batches": 2, "loss": lambda y: ag.tensor(1.0)}, GraphError, "depends on nothing that requires grad"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused(options, error, text):
    with pytest.raises(error, match=text):
        await pipeline([lambda x: x], np.arange(6.0), **options)


@one_loop
async def test_what_cannot_be_a_pipeline_is_refused():
    w = ag.tensor(2.0, requires_grad=True)
    w.register_hook(lambda grad: grad * 2)

    async def without_recording():
        with ag.no_grad():
            await pipeline([lambda x: x], np.arange(6.0), micro_batches=2, loss=np.sum)

    for stages, x, error, text in [
        ([], np.arange(3.0), ArgumentTypeError, "stages must be a list of functions"),
        ([3], np.arange(3.0), ArgumentTypeError, "stages must be a list of functions"),
        ([lambda x: x], (np.arange(3.0), np.arange(4.0)), ArgumentError, r"not \[3, 4\]"),
        ([lambda x: w * x], np.arange(3.0), GraphError, "has tensor hooks"),
    ]:
        with pytest.raises(error, match=text):
            await pipeline(stages, x, micro_batches=2, loss=np.sum)
    with pytest.raises(GraphError, match="recording is off"):
        await without_recording()
