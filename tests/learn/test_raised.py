"""What a loss, a model, an optimizer or an evaluation raises: who waits is told, nothing is half-done, none goes on."""

from __future__ import annotations

import asyncio
import gc
import threading

import numpy as np
import pytest

from asyncgrad import nn, optim
from asyncgrad.errors import LearnerClosedError
from asyncgrad.learn import Learner
from tests.learn.making import EXAMPLE, QUESTION, example, new_learner, turns_until
from tests.support.loops import one_loop


class Odd(BaseException):
    """No Exception, as a KeyboardInterrupt is none."""


RAISED = [asyncio.CancelledError, Odd, StopAsyncIteration]


class Model(nn.Module):
    """A model that raises what it is told to."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 1, dtype=np.float64)
        self.raises = None

    async def forward(self, x):
        if self.raises is not None:
            await asyncio.sleep(0)
            raise self.raises
        return self.linear(x)


async def loss_of(model, batch):
    return nn.mse_loss(await model(batch["x"]), batch["y"])


def learner_of(model, optimizer=optim.SGD, **options):
    given = {"inputs": EXAMPLE["x"], "example": EXAMPLE, **options}
    return Learner(model, loss_of, optimizer(model), **given)


@pytest.mark.parametrize("kind", RAISED)
@pytest.mark.parametrize("size", [1, 3])
async def test_what_a_loss_raises_is_told_to_who_waits_and_the_learning_goes_on(kind, size):
    model = Model()
    async with learner_of(model, batch_size=size) as learner:
        model.raises = kind
        found = await asyncio.gather(*(learner.learn(example(seed)) for seed in range(3)), return_exceptions=True)
        assert [type(one) for one in found] == [RuntimeError] * 3
        assert str(found[0]) == f"the loss or the optimizer raised {kind.__name__} by itself, and nothing has changed"
        model.raises = None
        assert (await learner.learn(example(0))).learned == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", RAISED)
async def test_what_a_model_raises_is_told_to_who_asks_and_to_nobody_else(kind):
    model = Model()
    async with learner_of(model) as learner:
        model.raises = kind
        # The version that answers has the attributes of the model when it was published.
        learner._trained.publish(0)
        found = await asyncio.gather(*(learner.predict(QUESTION) for _ in range(2)), return_exceptions=True)
        assert [str(one) for one in found] == [
            f"the model raised {kind.__name__} by itself, and nothing has changed"
        ] * 2
    gc.collect()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [asyncio.CancelledError, Odd, ZeroDivisionError])
async def test_what_an_evaluation_raises_is_logged_and_the_learning_goes_on(kind, caplog):
    async def evaluate(model):
        await asyncio.sleep(0)
        raise kind

    async with learner_of(Model(), evaluate=evaluate, evaluate_every=1) as learner:
        await learner.learn(example(0))
        await turns_until(lambda: learner.statistics().failed_evaluations == 1)
        assert (await learner.learn(example(1))).learned == 2
    assert "an evaluation of the model after 1 examples failed, and the learning goes on" in caplog.text
    gc.collect()


class Fails(optim.ElementwiseOptimizer):
    """An optimizer of somebody else, which may fail after it has updated the first parameter and its state."""

    raises = None

    def __init__(self, params):
        super().__init__(params, {})

    @staticmethod
    def _check(group):
        pass

    def _new_state(self, param, group):
        return {"calls": np.zeros_like(param)}

    def _updater(self, like, group):
        calls = []

        def update(param, grad, state):
            state["calls"] += 1
            param -= 0.5 * state["calls"] + grad
            calls.append(param)
            if self.raises is not None and len(calls) == 2:
                raise self.raises

        return update


@one_loop
@pytest.mark.parametrize("kind", [*RAISED, ZeroDivisionError])
@pytest.mark.parametrize("earlier", [0, 1])
async def test_a_step_that_an_optimizer_fails_in_the_midst_of_changes_nothing(tmp_path, kind, earlier):
    async def after(seeds, path):
        model = Model()
        async with learner_of(model, Fails, directory=path) as learner:
            start = {name: np.ones(one.shape) for name, one in model.named_parameters()}
            model.update(start)
            learner._trained.publish(0)
            for seed in seeds:
                learner.optimizer.raises = kind if seed is None else None
                if seed is not None:
                    await learner.learn(example(seed))
                    continue
                with pytest.raises((RuntimeError, ZeroDivisionError)):
                    await learner.learn(example(0))
            states = [{name: value.tolist() for name, value in one.items()} for one in learner.optimizer.state.values()]
            return [param.tolist() for param in model.parameters()], [one for one in states if one], learner.learned

    seeds = list(range(earlier))
    failed = await after([*seeds, None], tmp_path / "failed")
    assert failed == await after(seeds, tmp_path / "not")
    assert await after([*seeds, None, 5], tmp_path / "on") == await after([*seeds, 5], tmp_path / "as")


@pytest.mark.parametrize("is_async", [False, True])
async def test_an_evaluation_has_ended_when_its_learner_has(is_async):
    begun, go_on, ended = threading.Event(), threading.Event(), []

    def on_worker(model):
        begun.set()
        go_on.wait()
        ended.append(True)

    async def on_loop(model):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    async with learner_of(Model(), evaluate=on_loop if is_async else on_worker, evaluate_every=1) as learner:
        await learner.learn(example(0))
        await turns_until(begun.is_set)
        asyncio.get_running_loop().call_soon(go_on.set)
    assert ended == [True]


@pytest.mark.parametrize("how", ["cancelled", "failed"])
async def test_a_model_that_never_answers_ends_with_a_block_that_is_cancelled_or_fails(how):
    class Hangs(Model):
        async def forward(self, x):
            begun.append(x)
            await asyncio.Event().wait()

    begun, asked = [], []

    async def block():
        async with learner_of(Hangs()) as learner:
            asked.append(asyncio.ensure_future(learner.predict(QUESTION)))
            await turns_until(lambda: begun)
            if how == "failed":
                raise ZeroDivisionError

    task = asyncio.ensure_future(block())
    await turns_until(lambda: begun)
    if how == "cancelled":
        await turns_until(lambda: task._fut_waiter is not None)
        task.cancel()
    with pytest.raises(asyncio.CancelledError if how == "cancelled" else ZeroDivisionError):
        await task
    with pytest.raises(LearnerClosedError, match="was closed before this was done"):
        await asked[0]


@one_loop
async def test_a_checkpoint_that_fails_by_a_defect_is_told_to_who_waits_for_it(tmp_path, monkeypatch):
    def fails(*_):
        raise ZeroDivisionError("a defect")

    learner, found = new_learner(tmp_path), []

    async def block():
        async with learner:
            monkeypatch.setattr(learner._recorded, "_save_now", fails)
            found.extend(await asyncio.gather(learner.checkpoint(), learner.checkpoint(), return_exceptions=True))

    with pytest.raises(ZeroDivisionError):
        await block()
    assert [type(one) for one in found] == [LearnerClosedError] * 2


@one_loop
async def test_who_is_cancelled_while_an_example_is_written_goes_after_its_step_also_where_it_takes_a_second_one(
    tmp_path, monkeypatch
):
    def of_one(model, batch):
        if len(batch["x"]) > 1:
            raise ZeroDivisionError
        return nn.mse_loss(model.linear(batch["x"]), batch["y"])

    written, go_on = threading.Event(), threading.Event()
    model = Model()
    options = {"inputs": EXAMPLE["x"], "example": EXAMPLE, "batch_size": 2, "directory": tmp_path}
    async with Learner(model, of_one, optim.SGD(model), **options) as learner:
        append = learner._recorded.directory.append

        def waits(*args):
            written.set()
            go_on.wait()
            return append(*args)

        monkeypatch.setattr(learner._recorded.directory, "append", waits)
        tasks = [asyncio.ensure_future(learner.learn(example(seed))) for seed in range(2)]
        await turns_until(written.is_set)
        tasks[0].cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        is_done = tasks[0].done()
        go_on.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
    assert (is_done, type(found[0]), found[1].learned) == (False, asyncio.CancelledError, 2)
