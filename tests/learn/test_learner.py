"""The laws of a Learner: what a step sees and leaves, who is answered, and what a failure changes."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, optim
from asyncgrad.errors import (
    ArgumentError,
    ArgumentTypeError,
    BusyError,
    ExampleError,
    LearnerClosedError,
)
from asyncgrad.learn import Learner
from asyncgrad.learn.directory import ModelDirectory
from tests.learn.making import EXAMPLE, QUESTION, Gate, answers, example, loss, new_learner, turns_until
from tests.support.device_arrays import DEVICES


async def predicted(learner):
    return (await learner.predict(QUESTION)).tolist()


def grads_of(learner):
    return [param.grad for param in learner.model.parameters() if param.grad is not None]


async def test_predictions_are_answered_while_a_step_is_under_way_and_are_of_the_model_before_it():
    async with new_learner() as learner:
        before = await predicted(learner)
        for stage in ("forward", "backward"):
            learner.model.shut(stage)
            began = learner.model.began(stage)
            learning = asyncio.create_task(learner.learn(example(1)))
            await turns_until(lambda stage=stage, began=began: learner.model.began(stage) > began)
            during = await predicted(learner)
            learner.model.open()
            await learning
            assert during == before
            before = await predicted(learner)
            assert before != during
        found = before

    assert found == (await answers([1, 1]))[-1]


@pytest.mark.parametrize("stage", ["forward", "backward"])
@pytest.mark.parametrize("how", ["timeout", "cancelled"])
async def test_a_step_that_is_ended_early_leaves_model_buffers_optimizer_and_grads_as_they_were(tmp_path, stage, how):
    async with new_learner(tmp_path) as learner:
        await learner.learn(example(1))
        model = {name: tensor.tolist() for name, tensor in learner._trained.tensors().items()}
        learner.model.shut(stage)
        began = learner.model.began(stage)
        learning = asyncio.create_task(learner.learn(example(2), timeout=0.05 if how == "timeout" else None))
        await turns_until(lambda: learner.model.began(stage) > began)
        if how == "cancelled":
            learning.cancel()
            with pytest.raises(asyncio.CancelledError):
                await learning
        else:
            with pytest.raises(TimeoutError, match=r"not learned within 0\.05 s, and nothing has changed"):
                await learning
        await turns_until(lambda: learner.statistics().stage is None)
        learner.model.open()
        found = learner.statistics()
        assert (found.ended_in_forward, found.ended_in_backward) == ((1, 0) if stage == "forward" else (0, 1))
        assert (found.timed_out, found.cancelled) == ((1, 0) if how == "timeout" else (0, 1))
        assert (found.learned, found.journal_records, found.pending) == (1, 1, 0)
        assert {name: tensor.tolist() for name, tensor in learner._trained.tensors().items()} == model
        assert grads_of(learner) == []
        assert (await learner.learn(example(3))).learned == 2
        result = await predicted(learner)

    assert result == (await answers([1, 3]))[-1]


async def test_a_timeout_holds_while_waiting_for_the_turn_and_however_short_it_is():
    async with new_learner() as learner:
        with pytest.raises(TimeoutError):
            await learner.learn(example(1), timeout=1e-9)
        learner.model.shut("forward")
        first = asyncio.create_task(learner.learn(example(2)))
        await turns_until(lambda: learner.model.began("forward") == 2 or learner.statistics().stage == "forward")
        with pytest.raises(TimeoutError):
            await learner.learn(example(3), timeout=0.01)
        await turns_until(lambda: learner.statistics().pending == 1)
        learner.model.open()
        assert (await first).learned == 1
        found = await predicted(learner)

    assert found == (await answers([2]))[-1]


async def test_examples_are_learned_in_order_of_arrival():
    async with new_learner() as learner:
        found = await asyncio.gather(*(learner.learn(example(seed)) for seed in range(8)))
        assert [one.learned for one in found] == list(range(1, 9))
        assert repr(learner) == "Learner(Gate, running, 8 learned)"
        result = await predicted(learner)

    assert result == (await answers(range(8)))[-1]


async def test_examples_that_wait_share_a_step_on_their_stack():
    seen = []

    def noted(model, batch):
        seen.append(batch["y"].ravel().tolist())
        return nn.mse_loss(model(batch["x"]), batch["y"])

    async with new_learner(batch_size=4, loss=noted) as learner:
        found = await asyncio.gather(*(learner.learn(example(seed)) for seed in range(9)))
        assert learner.statistics().steps == 3
        result = [one.learned for one in found]

    assert result == [4] * 4 + [8] * 4 + [9]
    targets = [example(seed)["y"].item() for seed in range(9)]
    assert seen == [targets[:4], targets[4:8], targets[8:]]


async def test_of_a_batch_only_the_example_that_fails_is_refused():
    def failing(model, batch):
        if np.any(np.asarray(batch["y"]) > 5):
            raise ZeroDivisionError("y is above 5")
        return nn.mse_loss(model(batch["x"]), batch["y"])

    async with new_learner(batch_size=4, loss=failing) as learner:
        examples = [example(1), {"x": [0.0, 1.0], "y": [6.0]}, example(2)]
        found = await asyncio.gather(*map(learner.learn, examples), return_exceptions=True)
        result = [type(one).__name__ for one in found], learner.learned

    assert result == (["Learned", "ZeroDivisionError", "Learned"], 2)


async def test_of_a_batch_who_goes_is_left_out_and_the_others_are_learned():
    async def main():
        async with new_learner(batch_size=3) as learner:
            learner.model.shut("backward")
            tasks = [asyncio.create_task(learner.learn(example(seed))) for seed in range(3)]
            await turns_until(lambda: learner.model.began("backward") == 1)
            tasks[1].cancel()
            await turns_until(lambda: learner.model.began("backward") == 2)
            learner.model.open()
            found = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(found[1], asyncio.CancelledError)
            assert [found[0].learned, found[2].learned] == [2, 2]
            return await predicted(learner)

    async def reference():
        async with new_learner(batch_size=3) as learner:
            await asyncio.gather(learner.learn(example(0)), learner.learn(example(2)))
            return await predicted(learner)

    assert await main() == await reference()


@pytest.mark.parametrize(
    ("value", "text"),
    [(math.nan, "the loss is nan for this example"), (math.inf, "the loss is inf for this example")],
)
async def test_a_loss_that_is_not_finite_is_refused(value, text):
    async def main():
        async with new_learner(loss=lambda model, batch: model(batch["x"]).sum() * value) as learner:
            with pytest.raises(ExampleError, match=text):
                await learner.learn(example(1))
            assert learner.learned == 0
            assert grads_of(learner) == []

    with np.errstate(all="ignore"):
        await main()


async def test_a_gradient_that_is_not_finite_is_refused():
    async def main():
        async with new_learner(loss=lambda model, batch: np.sqrt(model(batch["x"]).sum() * 0.0)) as learner:
            with pytest.raises(ExampleError, match="the gradient of this example is not finite"):
                await learner.learn(example(1))
            assert learner.learned == 0
            assert grads_of(learner) == []

    with np.errstate(all="ignore"):
        await main()


async def test_gradients_are_clipped():
    model = nn.Linear(1, 1, bias=False, dtype=np.float64)
    model.update({"weight": np.zeros((1, 1))})
    learner = Learner(model, lambda m, b: 100 * m(b["x"]).sum(), optim.SGD(model, lr=1.0), max_grad_norm=0.5)
    async with learner:
        await learner.learn({"x": [1.0]})
        found = model.weight.item()

    assert found == pytest.approx(-0.5)


async def test_no_more_wait_than_may():
    async with new_learner(max_pending=2, max_pending_predictions=2) as learner:
        learner.model.shut("forward")
        tasks = [asyncio.create_task(learner.learn(example(seed))) for seed in range(2)]
        await turns_until(lambda: learner.statistics().pending == 2)
        with pytest.raises(BusyError, match="2 examples wait to be learned already, and no more may"):
            await learner.learn(example(3))
        asked = [asyncio.create_task(learner.predict(QUESTION)) for _ in range(2)]
        await turns_until(lambda: learner.statistics().pending_predictions == 2)
        with pytest.raises(BusyError, match="2 predictions are waited for already"):
            await learner.predict(QUESTION)
        learner.model.open()
        await asyncio.gather(*tasks, *asked)
        assert learner.statistics().refused == 2


async def test_who_goes_makes_room():
    async with new_learner(max_pending=3) as learner:
        learner.model.shut("forward")
        first = asyncio.create_task(learner.learn(example(0)))
        await turns_until(lambda: learner.statistics().stage == "forward")
        for _ in range(50):
            waiting = asyncio.create_task(learner.learn(example(1)))
            await turns_until(lambda: learner.statistics().pending == 2)
            waiting.cancel()
            await asyncio.wait([waiting])
        learner.model.open()
        assert (await first).learned == 1


@pytest.mark.slow
async def test_inputs_share_calls_of_the_model_within_the_delay():
    async with new_learner(prediction_delay=0.2, prediction_batch_size=4) as learner:
        rows = np.random.default_rng(0).standard_normal((10, 2))
        alone = [(await learner.predict(row)).tolist() for row in rows[:1]]
        before = learner.statistics().prediction_batches
        found = await asyncio.gather(*map(learner.predict, rows))
        assert learner.statistics().prediction_batches - before == 3
        assert found[0].tolist() == pytest.approx(alone[0])
        whole = learner.model.snapshot()(rows)
        result = np.allclose(np.stack(found), whole.numpy()), found[0].base is None

    assert result == (True, True)


async def test_of_a_call_who_goes_is_left_out_and_the_others_are_answered():
    async with new_learner(prediction_delay=0.01) as learner:
        tasks = [asyncio.create_task(learner.predict(QUESTION)) for _ in range(3)]
        await turns_until(lambda: learner.statistics().pending_predictions == 3)
        tasks[0].cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(found[0], asyncio.CancelledError)
        assert found[1].tolist() == found[2].tolist() == await predicted(learner)
        with pytest.raises(TimeoutError, match="not predicted within 1e-06 s"):
            await learner.predict(QUESTION, timeout=1e-6)


async def test_outputs_may_be_a_tree_and_must_have_a_row_for_each_input():
    class Two(Gate):  # type: ignore[misc]
        def forward(self, x):
            return {"y": super().forward(x), "norm": np.sqrt((x * x).sum(axis=1))}

    class Whole(Gate):  # type: ignore[misc]
        def forward(self, x):
            return super().forward(x).sum()

    model = Two()
    async with new_learner(model=model, optimizer=optim.SGD(model)) as learner:
        found = await learner.predict([3.0, 4.0])
        assert sorted(found) == ["norm", "y"]
        assert found["norm"] == 5.0
    model = Whole()
    async with new_learner(model=model, optimizer=optim.SGD(model)) as learner:
        with pytest.raises(ArgumentError, match=r"returned an array of shape \(\): the first axis of each output"):
            await learner.predict([3.0, 4.0])


async def test_a_model_that_takes_long_is_called_by_a_worker():
    from threading import get_ident

    seen = []

    def slow(model, batch):
        seen.append(get_ident())
        return nn.mse_loss(model(batch["x"]), batch["y"])

    with ag.loop_budget(0.0), ag.workers(1):
        async with new_learner(loss=slow) as learner:
            for seed in range(3):
                await learner.learn(example(seed))
    assert get_ident() not in seen


async def test_evaluations_are_of_one_version_and_do_not_hold_up_the_learning(caplog):
    seen, go = [], asyncio.Event()

    async def evaluate(model):
        seen.append(model(QUESTION[None]).tolist())
        await go.wait()
        after = model(QUESTION[None]).tolist()
        if len(seen) > 1:
            raise ZeroDivisionError("no data")
        return after == seen[0]

    async with new_learner(evaluate=evaluate, evaluate_every=2) as learner:
        for seed in range(4):
            await learner.learn(example(seed))
        assert learner.evaluation is None
        go.set()
        await turns_until(lambda: learner.evaluation is not None)
        assert learner.evaluation == (2, True)
        for seed in range(2):
            await learner.learn(example(seed))
        await turns_until(lambda: learner.statistics().failed_evaluations == 1)
        assert (learner.evaluation.learned, learner.statistics().evaluations) == (2, 1)
    assert "an evaluation of the model after 6 examples failed" in caplog.text


async def test_at_the_end_what_waits_is_learned_and_answered_and_after_it_nothing_is():
    learner = new_learner()
    with pytest.raises(LearnerClosedError, match=r"write async with learner: await learner.learn\(...\)"):
        await learner.learn(example(0))
    async with learner:
        tasks = [asyncio.create_task(learner.learn(example(seed))) for seed in range(3)]
        asked = asyncio.create_task(learner.predict(QUESTION))
        await asyncio.sleep(0)
    assert [task.result().learned for task in tasks] == [1, 2, 3]
    assert (await asked).shape == (1,)
    for call in (learner.learn(example(0)), learner.predict(QUESTION)):
        with pytest.raises(LearnerClosedError, match="after the learner was closed"):
            await call
    with pytest.raises(LearnerClosedError, match="used once"):
        await learner.__aenter__()


async def test_a_block_that_raises_refuses_what_waits_and_leaves_nothing_half_done(tmp_path):
    learner, tasks = new_learner(tmp_path), []

    async def block():
        async with learner:
            await learner.learn(example(0))
            learner.model.shut("backward")
            tasks.extend(asyncio.create_task(learner.learn(example(seed))) for seed in (1, 2))
            await turns_until(lambda: learner.model.began("backward") == 2)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await block()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(one) for one in found] == [LearnerClosedError] * 2
    assert grads_of(learner) == []
    async with new_learner(tmp_path) as again:
        result = again.learned, await predicted(again)
    learned, found = result
    assert (learned, found) == (1, (await answers([0]))[-1])


async def test_an_error_of_the_learners_own_refuses_what_waits_and_is_raised_at_the_end(tmp_path, monkeypatch):
    def fails(*given):
        raise ZeroDivisionError("a defect")

    learner, found = new_learner(tmp_path, checkpoint_every=1), []

    async def block():
        async with learner:
            monkeypatch.setattr(ModelDirectory, "save_checkpoint", fails)
            tasks = [asyncio.create_task(learner.learn(example(seed))) for seed in (1, 2)]
            found.extend(await asyncio.gather(*tasks, return_exceptions=True))
            with pytest.raises(LearnerClosedError):
                await learner.predict(QUESTION)

    with pytest.raises(ZeroDivisionError, match="a defect"):
        await block()

    assert [type(one).__name__ for one in found] == ["Learned", "LearnerClosedError"]


async def test_a_checkpoint_can_be_asked_for(tmp_path):
    async with new_learner(tmp_path) as learner:
        await learner.learn(example(0))
        await learner.checkpoint()
        assert learner.statistics().journal_records == 0
    async with new_learner() as learner:
        with pytest.raises(ArgumentError, match="has no directory"):
            await learner.checkpoint()


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"model": 3}, ArgumentTypeError, "model must be an nn.Module, not "),
        (
            {"loss": 3},
            ArgumentTypeError,
            r"loss must be a function, which is called as loss\(model, batch\), not int 3",
        ),
        ({"loss": lambda model: model}, ArgumentTypeError, r"loss is called as loss\(model, batch\), and cannot be"),
        ({"optimizer": 3}, ArgumentTypeError, "optimizer must be one of ag.optim, not "),
        ({"model": Gate()}, ArgumentError, "4 parameters that are not of this Gate, the first of shape"),
        ({"example": {"x": 3}}, ArgumentError, r"example\['x'\] must be a tree of learn.ArraySpec"),
        ({"batch_size": 0}, ArgumentError, "batch_size must be at least 1, not 0"),
        ({"max_pending": 1.5}, ArgumentTypeError, "max_pending must be an int, not "),
        ({"timeout": 0}, ArgumentError, "timeout must be a number of seconds above 0"),
        ({"prediction_delay": -1}, ArgumentError, "prediction_delay"),
        ({"evaluate": 3}, ArgumentTypeError, "evaluate"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(options, error, text):
    model = Gate()
    given = {"model": model, "loss": loss, "optimizer": optim.SGD(model), "example": EXAMPLE, **options}

    with pytest.raises(error, match=text):
        Learner(given.pop("model"), given.pop("loss"), given.pop("optimizer"), **given)


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        (lambda model, batch: 3.0, "and returned float 3.0"),
        (lambda model, batch: model.first(batch["x"]), r"and returned a tensor of shape \(1, 4\)"),
    ],
    ids=["a number", "a vector"],
)
async def test_a_loss_that_returns_no_scalar_tensor_is_told(returned, text):
    async with new_learner(loss=returned) as learner:
        with pytest.raises(ArgumentTypeError, match=text):
            await learner.learn(example(1))


@pytest.mark.slow
@pytest.mark.parametrize("make", [optim.SGD, optim.Adam])
@pytest.mark.parametrize("kind", DEVICES)
async def test_a_model_on_another_device_learns_what_it_learns_on_the_cpu(tmp_path, kind, make):
    def loss_of(model, batch):
        assert ag.asarray(batch["y"]).device is model.weight.device
        return nn.mse_loss(model(batch["x"]), batch["y"])

    async def main(device, directory):
        answers = []
        for steps in (3, 0):
            model = nn.Linear(2, 1, dtype=np.float64)
            with ag.no_grad():
                for param in model.parameters():
                    param[...] = 0.5
            model.to(device)
            optimizer = make(model, lr=0.1)
            async with Learner(model, loss_of, optimizer, directory=directory, max_grad_norm=1.0) as learner:
                for _ in range(steps):
                    await learner.learn({"x": [1.0, 2.0], "y": [3.0]})
                answers.append((await learner.predict([1.0, 2.0])).tolist())
        return answers

    expected = await main("cpu", tmp_path / "cpu")
    with DEVICES[kind]() as device:
        found = await main(device, tmp_path / "device")

    assert found == expected
    assert found[0] == found[1]


async def test_statistics_are_json_before_the_first_step_and_after_a_loss_that_is_refused():
    def texts(learner):
        return json.dumps(dataclasses.asdict(learner.statistics()), allow_nan=False)

    async def main():
        async with new_learner(loss=lambda model, batch: model(batch["x"]).sum() * math.inf) as learner:
            before = json.loads(texts(learner))
            with pytest.raises(ExampleError):
                await learner.learn(example(1))
            return before["last_loss"], json.loads(texts(learner))["last_loss"]

    with np.errstate(all="ignore"):
        assert await main() == (None, None)


@pytest.mark.parametrize("text", ["the database does not answer", ""])
async def test_a_timeout_of_the_models_own_is_told_as_it_is_where_there_is_no_limit(text):
    def fails(*_):
        raise TimeoutError(text)

    async with new_learner(loss=fails) as learner:
        with pytest.raises(TimeoutError) as of_loss:
            await learner.learn(example(1))
        learner._predictions.current._answer = fails
        with pytest.raises(TimeoutError) as of_model:
            await learner.predict(QUESTION)
        found = [str(each.value) for each in (of_loss, of_model)], learner.statistics().timed_out

    assert found == ([text, text], 0)
