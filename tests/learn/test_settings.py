"""What a step depends on beside the examples is what it was in a replay, and is told where the code differs."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncgrad import nn, optim
from asyncgrad.errors import ArgumentError, ArgumentTypeError, JournalError, LearnerClosedError, ModelDirectoryError
from asyncgrad.learn import Learner
from asyncgrad.learn.recorded_model import RecordedModel
from asyncgrad.optim.adam import Adam
from asyncgrad.optim.elementwise import ElementwiseOptimizer
from tests.learn.crashing import as_killed, learn, reopened
from tests.learn.making import QUESTION, Gate, example, failing_disk, new_learner

#: Options that each optimizer has, with two values of each.
OPTIONS: dict[Any, dict[str, tuple[Any, Any]]] = {
    optim.SGD: {
        "lr": (0.01, 0.1),
        "momentum": (0.9, 0.5),
        "dampening": (0.0, 0.5),
        "weight_decay": (0.0, 0.1),
        "maximize": (False, True),
    },
    optim.Adam: {"lr": (0.01, 0.1), "betas": ((0.9, 0.999), (0.5, 0.9)), "eps": (1e-8, 0.1), "weight_decay": (0, 0.1)},
    optim.RMSprop: {"lr": (0.01, 0.1), "alpha": (0.99, 0.5), "momentum": (0.5, 0.9)},
    optim.Lion: {"lr": (0.01, 0.1), "betas": ((0.9, 0.99), (0.5, 0.6))},
}
CASES = [(make, name, values) for make, options in OPTIONS.items() for name, values in options.items()]
IDS = [f"{make.__name__}-{name}" for make, name, _ in CASES]


def learner_of(make: Any, path: Path | None, **options: Any) -> Learner:
    model = Gate()
    return new_learner(path, model=model, optimizer=make(model, **options))


async def answer(learner: Learner) -> list[float]:
    found: list[float] = (await learner.predict(QUESTION)).tolist()
    return found


def set_by_hand(learner: Learner, name: str, value: Any) -> None:
    for group in learner.optimizer.param_groups:
        group[name] = value


@pytest.mark.sampled
@pytest.mark.parametrize("how", ["set_options", "by hand"])
@pytest.mark.parametrize(("make", "name", "values"), CASES, ids=IDS)
async def test_an_option_that_was_changed_at_run_time_survives_a_kill(tmp_path, make, name, values, how):
    async with learner_of(make, tmp_path / "a", **{name: values[0]}) as learner:
        await learner.learn(example(1))
        if how == "set_options":
            await learner.set_options(**{name: values[1]})
        else:
            set_by_hand(learner, name, values[1])
        for seed in (2, 3):
            await learner.learn(example(seed))
        expected = await answer(learner)
        killed = as_killed(tmp_path / "a", tmp_path / "b")
    async with learner_of(make, killed, **{name: values[0]}) as again:
        assert again.statistics().replayed == 3
        assert await answer(again) == expected
        await again.learn(example(4))
        went_on = await answer(again)
    async with learner_of(make, tmp_path / "a", **{name: values[0]}) as uninterrupted:
        await uninterrupted.learn(example(4))
        found = went_on, await answer(uninterrupted)
    went_on, expected = found
    assert went_on == expected


async def test_a_change_is_on_the_disk_once_set_options_returns(tmp_path):
    async with new_learner(tmp_path / "a") as learner:
        await learner.set_options(lr=0.88)
        killed = as_killed(tmp_path / "a", tmp_path / "b")
    async with new_learner(killed) as again:
        found = again.optimizer.param_groups[0]["lr"]

    assert found == 0.88


async def test_a_change_by_hand_is_saved_at_the_end_though_no_step_came_after_it(tmp_path):
    async with new_learner(tmp_path) as learner:
        await learner.learn(example(1))
        await learner.checkpoint()
        set_by_hand(learner, "lr", 0.88)
    async with new_learner(tmp_path) as again:
        found = again.optimizer.param_groups[0]["lr"]

    assert found == 0.88


async def test_options_are_set_between_two_steps():
    async with new_learner() as learner:
        learner.model.shut("backward")
        learning = asyncio.create_task(learner.learn(example(1)))
        setting = asyncio.create_task(learner.set_options(lr=0.5))
        for _ in range(20):
            await asyncio.sleep(0)
        before = learner.optimizer.param_groups[0]["lr"]
        learner.model.open()
        await learning
        await setting
        found = before, learner.optimizer.param_groups[0]["lr"]

    assert found == (0.01, 0.5)


async def test_options_of_one_group_are_set(tmp_path):
    def make(path: Path) -> Learner:
        model = Gate()
        groups = [{"params": model.first.parameters()}, {"params": model.last.parameters(), "lr": 0.5}]
        return new_learner(path, model=model, optimizer=optim.SGD(groups, lr=0.25))

    async with make(tmp_path / "a") as learner:
        await learner.set_options(group=1, lr=0.125)
        await learner.learn(example(1))
        expected = await answer(learner)
        killed = as_killed(tmp_path / "a", tmp_path / "b")
    async with make(killed) as again:
        assert await answer(again) == expected
        found = [group["lr"] for group in again.optimizer.param_groups]

    assert found == [0.25, 0.125]


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"rate": 1.0}, ArgumentError, "Adam has no option 'rate': there are lr, betas"),
        ({"lr": -1.0}, ArgumentError, r"lr must be at least 0, not -1\.0"),
        ({"lr": "much"}, ArgumentTypeError, "lr must be a number"),
        ({"lr": 0.5, "group": 1}, ArgumentError, "the optimizer has 1 groups of parameters, from 0, and no group 1"),
    ],
)
async def test_an_option_that_the_optimizer_does_not_take_is_refused_and_nothing_changes(
    tmp_path, options, error, text
):
    async with new_learner(tmp_path) as learner:
        with pytest.raises(error, match=text):
            await learner.set_options(**options)
        assert learner.statistics().journal_records == 0
        found = learner.optimizer.param_groups[0]["lr"]

    assert found == 0.01


async def test_an_option_set_by_hand_that_no_start_would_take_refuses_the_step(tmp_path):
    async with new_learner(tmp_path) as learner:
        set_by_hand(learner, "lr", -1.0)
        with pytest.raises(ArgumentError, match="lr must be at least 0"):
            await learner.learn(example(1))
    async with new_learner(tmp_path) as again:
        found = again.learned, again.optimizer.param_groups[0]["lr"]

    assert found == (0, 0.01)


async def test_options_that_cannot_be_written_are_not_set(tmp_path, monkeypatch):
    async with new_learner(tmp_path) as learner:
        with monkeypatch.context() as patch:
            failing_disk(patch, times=1)
            with pytest.raises(JournalError, match="the disk is out of order"):
                await learner.set_options(lr=0.5)
        found = learner.optimizer.param_groups[0]["lr"]

    assert found == 0.01


async def test_options_are_not_set_before_the_learner_begins_or_after_it_ended():
    learner = new_learner()
    with pytest.raises(LearnerClosedError, match=r"await learner.set_options\(...\)"):
        await learner.set_options(lr=0.5)
    async with learner:
        waiting = asyncio.create_task(learner.set_options(lr=0.5))
        await asyncio.sleep(0)
    await waiting
    with pytest.raises(LearnerClosedError, match="after the learner was closed"):
        await learner.set_options(lr=0.25)

    assert learner.optimizer.param_groups[0]["lr"] == 0.5


async def test_a_step_is_made_with_the_options_that_were_written_for_it(tmp_path, monkeypatch):
    rates = []
    step = Adam.step_async

    async def noted(optimizer: Any) -> Any:
        rates.append(optimizer.param_groups[0]["lr"])
        return await step(optimizer)

    async with new_learner(tmp_path) as learner:
        append = learner._recorded.directory.append

        def meanwhile(*given: Any) -> None:
            append(*given)
            set_by_hand(learner, "lr", 0.5)

        monkeypatch.setattr(learner._recorded.directory, "append", meanwhile)
        monkeypatch.setattr(Adam, "step_async", noted)
        await learner.learn(example(1))
        monkeypatch.setattr(learner._recorded.directory, "append", append)
        await learner.learn(example(2))
    assert rates == [0.01, 0.5]


async def test_a_step_on_a_worker_has_the_options_of_its_beginning(monkeypatch):
    rates = []
    apply = ElementwiseOptimizer._apply_group

    def later(optimizer: Any, group: Any, *given: Any) -> None:
        optimizer.param_groups[0]["lr"] = 0.5
        rates.append(group["lr"])
        apply(optimizer, group, *given)

    async def main():
        params = nn.Linear(300, 300)
        optimizer = optim.SGD(params, lr=0.25)
        for param in params.parameters():
            param.grad = param.detach().clone()
        monkeypatch.setattr(ElementwiseOptimizer, "_apply_group", later)
        await optimizer.step_async()

    await main()
    assert rates == [0.25]


async def test_a_schedule_survives_a_kill_and_goes_on_from_the_number_of_steps(tmp_path):
    def begin(learner: Learner) -> Any:
        return optim.schedule.ExponentialLR(learner.optimizer, 0.5, last_epoch=learner.statistics().steps - 1)

    async def go_on(learner: Learner, *seeds: int) -> list[float]:
        schedule = begin(learner)
        for seed in seeds:
            await learner.learn(example(seed))
            schedule.step()
        return await answer(learner)

    async def main():
        async with new_learner(tmp_path / "a") as learner:
            await go_on(learner, 1, 2)
            killed = as_killed(tmp_path / "a", tmp_path / "b")
            expected = await go_on(learner, 3, 4)
        async with new_learner(killed) as again:
            assert await go_on(again, 3, 4) == expected
            return again.optimizer.param_groups[0]["lr"]

    assert await main() == 0.01 * 0.5**4


@pytest.mark.parametrize(("name", "values"), [("seed", (0, 7)), ("max_grad_norm", (0.01, None))])
async def test_a_replay_is_with_the_arguments_that_held_and_later_steps_with_those_of_the_code(tmp_path, name, values):
    expected = []
    for directory in (None, tmp_path / "a"):
        async with new_learner(directory, **{name: values[0]}) as learner:
            for seed in (1, 2):
                await learner.learn(example(seed))
            expected.append(await answer(learner))
            if directory is not None:
                as_killed(directory, tmp_path / "b")
    found = []
    for directory in ("a", "b"):
        # From the checkpoint, and by a replay.
        async with new_learner(tmp_path / directory, **{name: values[1]}) as again:
            found.append((await answer(again), again.statistics().replayed))
            await again.learn(example(3))
            found.append(await answer(again))
            if directory == "b":
                as_killed(tmp_path / "b", tmp_path / "c")
    async with new_learner(tmp_path / "c", **{name: values[0]}) as last:
        found.append((await answer(last), last.statistics().replayed))
    (expected, same), (saved, after_saved, replayed, after_replayed, twice) = (expected, found)
    assert expected == same
    assert (saved, replayed) == ((expected, 0), (expected, 2))
    assert after_saved == after_replayed
    assert twice == (after_replayed, 3)


async def test_arguments_that_change_what_is_learned_do_change_it(tmp_path):
    # Else the laws above would say nothing.
    first = await learn(tmp_path / "a", 1, 2)

    assert await learn(tmp_path / "b", 1, 2, seed=7) != first
    assert await learn(tmp_path / "c", 1, 2, max_grad_norm=0.01) != first


async def test_a_rate_that_was_set_at_run_time_goes_on_and_that_of_the_code_is_told(tmp_path, caplog):
    async with new_learner(tmp_path) as learner:
        await learner.set_options(lr=0.25)
    caplog.set_level(logging.WARNING)

    async with new_learner(tmp_path) as again:
        found = again.optimizer.param_groups[0]["lr"]

    assert found == 0.25
    assert f"{tmp_path}: lr is 0.25, as in the directory, and not 0.01, as in the code" in caplog.text


def learner_with_rate(path: Path, rate: float, **options: Any) -> Learner:
    model = Gate()
    return new_learner(path, model=model, optimizer=optim.Adam(model, lr=rate), **options)


@pytest.mark.parametrize("meanwhile", [None, 0.5], ids=["as the code", "set at run time"])
@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_rate_that_was_edited_in_the_code_holds_from_the_next_start_on_and_is_told(
    tmp_path, caplog, meanwhile, is_killed
):
    async with learner_with_rate(tmp_path / "a", 0.125) as learner:
        await learner.learn(example(1))
        if meanwhile is not None:
            await learner.set_options(lr=meanwhile)
        killed = as_killed(tmp_path / "a", tmp_path / "b")
    place = killed if is_killed else tmp_path / "a"
    caplog.set_level(logging.WARNING)
    async with learner_with_rate(place, 0.25) as again:
        found = [again.optimizer.param_groups[0]["lr"]]
        told = f"lr was {meanwhile or 0.125} there, and is 0.25 from here on, as in the code" in caplog.text
        await again.learn(example(2))
        expected = await answer(again)
        # Its edit is of the start before now, and is not made again.
        await again.set_options(lr=0.0625)
        as_killed(place, tmp_path / "c")
    async with learner_with_rate(tmp_path / "c", 0.25) as last:
        found += [last.optimizer.param_groups[0]["lr"]]
        same = await answer(last) == expected

    assert (found, told, same) == ([0.25, 0.0625], True, True)


async def test_an_edit_that_no_line_has_yet_is_made_by_the_next_start_again(tmp_path):
    async with learner_with_rate(tmp_path / "a", 0.125) as learner:
        await learner.learn(example(1))
        await learner.set_options(lr=0.5)
    async with learner_with_rate(tmp_path / "a", 0.25):
        as_killed(tmp_path / "a", tmp_path / "b")
    async with learner_with_rate(tmp_path / "b", 0.25) as again:
        found = again.optimizer.param_groups[0]["lr"]

    assert found == 0.25


async def test_an_edit_to_the_value_that_was_set_at_run_time_is_an_edit(tmp_path):
    async with learner_with_rate(tmp_path, 0.125) as learner:
        await learner.set_options(lr=0.25)
    async with learner_with_rate(tmp_path, 0.25):
        pass
    async with learner_with_rate(tmp_path, 0.125) as again:
        found = again.optimizer.param_groups[0]["lr"]

    assert found == 0.125


@pytest.mark.parametrize("norm", [0.01, None])
async def test_a_threshold_is_set_at_run_time_and_survives_a_kill(tmp_path, norm):
    async with new_learner(tmp_path / "a", max_grad_norm=0.5) as learner:
        await learner.set_options(max_grad_norm=norm, lr=0.125)
        await learner.learn(example(1))
        expected = await answer(learner)
        killed = as_killed(tmp_path / "a", tmp_path / "b")
    found = []
    for place in (killed, tmp_path / "a"):
        async with new_learner(place, max_grad_norm=0.5) as again:
            found.append(await answer(again))
            await again.learn(example(2))
            found.append(await answer(again))
    async with new_learner(max_grad_norm=norm) as other:
        await other.set_options(lr=0.125)
        for seed in (1, 2):
            await other.learn(example(seed))
        later = await answer(other)

    assert found == [expected, later, expected, later]


async def test_a_threshold_is_one_for_all_groups():
    async with new_learner() as learner:
        with pytest.raises(ArgumentError, match="max_grad_norm is one for all groups"):
            await learner.set_options(max_grad_norm=1.0, group=0)
        with pytest.raises(ArgumentError, match="max_grad_norm must be a finite number of at least 0"):
            await learner.set_options(max_grad_norm=-1.0)


async def test_a_directory_that_does_not_tell_what_the_code_gave_keeps_its_rate(tmp_path, caplog, monkeypatch):
    whole = RecordedModel._tree
    with monkeypatch.context() as patch:
        state = lambda *given: {name: part for name, part in whole(*given).items() if name != "code"}
        patch.setattr(RecordedModel, "_tree", state)
        await learn(tmp_path, 1)
    caplog.set_level(logging.WARNING)
    async with learner_with_rate(tmp_path, 0.25) as again:
        found = again.optimizer.param_groups[0]["lr"]
        assert f"{tmp_path}: lr is 0.01, as in the directory, and not 0.25, as in the code" in caplog.text
    async with learner_with_rate(tmp_path, 0.125) as last:
        found = found, last.optimizer.param_groups[0]["lr"]

    assert found == (0.01, 0.125)


async def test_a_start_with_the_same_code_tells_nothing(tmp_path, caplog):
    await learn(tmp_path, 1)
    caplog.set_level(logging.INFO)
    await reopened(tmp_path)

    assert not [record for record in caplog.records if record.name.startswith("asyncgrad.learn")]


async def test_a_loss_that_is_another_one_since_is_refused_with_both_values(tmp_path):
    await learn(tmp_path, 1, 2)
    lines = (tmp_path / "journal").read_bytes()

    def other(model: Any, batch: Any) -> Any:
        return 2.0 * nn.mse_loss(model(batch["x"]), batch["y"])

    with pytest.raises(ModelDirectoryError, match=r"has example 1 in its journal, whose loss was \d.* and is \d"):
        await new_learner(tmp_path, loss=other).__aenter__()
    assert (tmp_path / "journal").read_bytes() == lines
    assert (await reopened(tmp_path))[0] == 2


async def test_a_loss_that_is_rounded_otherwise_is_told_and_learned(tmp_path, caplog):
    await learn(tmp_path, 1, 2)

    def rounded(model: Any, batch: Any) -> Any:
        return nn.mse_loss(model(batch["x"]), batch["y"]) * (1 + 1e-14)

    async with new_learner(tmp_path, loss=rounded) as learner:
        found = learner.learned

    assert found == 2
    assert caplog.text.count("in the replay: rounding differs on this machine") == 1


async def test_a_loss_may_be_another_one_once_a_checkpoint_has_taken_the_journals_place(tmp_path):
    def other(model: Any, batch: Any) -> Any:
        return 2.0 * nn.mse_loss(model(batch["x"]), batch["y"])

    async with new_learner(tmp_path) as learner:
        await learner.learn(example(1))
    async with new_learner(tmp_path, loss=other) as again:
        found = again.learned

    assert found == 1


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda model: optim.Adam([*model.parameters()][::-1], lr=0.01),
            "its optimizer has the parameters .*, and this one",
        ),
        (
            lambda model: optim.Adam([{"params": model.first.parameters()}, {"params": model.last.parameters()}]),
            "its optimizer has the parameters .*, and this one",
        ),
        (lambda model: optim.AdamW(model), "it is one of Adam, not AdamW"),
    ],
    ids=["another order", "other groups", "another class"],
)
async def test_an_optimizer_of_other_parameters_is_refused(tmp_path, make, text):
    await learn(tmp_path, 1)
    model = Gate()

    with pytest.raises(ModelDirectoryError, match=text):
        await new_learner(tmp_path, model=model, optimizer=make(model)).__aenter__()
    assert (await reopened(tmp_path))[0] == 1


async def test_a_model_of_another_dtype_is_refused(tmp_path):
    def make(dtype: Any) -> Learner:
        model = nn.Linear(1, 1, dtype=dtype)
        return Learner(model, lambda m, b: m(b).sum(), optim.SGD(model, lr=0.1), directory=tmp_path)

    async with make(np.float64) as learner:
        await learner.learn([1.0])
    with pytest.raises(ModelDirectoryError, match="weight has dtype float32, and there float64"):
        await make(np.float32).__aenter__()


def learner_of_one_layer(path: Path, *, has_both: bool = False) -> Learner:
    model = Gate()
    optimizer = optim.SGD(model.first, lr=0.1, momentum=0.5)
    if has_both:
        optimizer.add_param_group({"params": model.last.parameters(), "lr": 0.5})
    return new_learner(path, model=model, optimizer=optimizer)


async def test_a_group_that_was_added_at_run_time_survives_a_kill(tmp_path):
    async with learner_of_one_layer(tmp_path / "a") as learner:
        await learner.learn(example(1))
        learner.optimizer.add_param_group({"params": learner.model.last.parameters(), "lr": 0.5})
        await learner.learn(example(2))
        expected = await answer(learner)
        killed = as_killed(tmp_path / "a", tmp_path / "b")
    async with learner_of_one_layer(killed, has_both=True) as again:
        found = await answer(again) == expected, again.statistics().replayed

    assert found == (True, 1)


async def test_a_group_that_cannot_be_written_is_learned_with_later(tmp_path, monkeypatch):
    async with learner_of_one_layer(tmp_path) as learner:
        learner.optimizer.add_param_group({"params": learner.model.last.parameters()})
        with monkeypatch.context() as patch:
            failing_disk(patch, times=1)
            with pytest.raises(JournalError, match="another group since, and no checkpoint with it could be"):
                await learner.learn(example(1))
        found = learner.learned, (await learner.learn(example(1))).learned

    assert found == (0, 1)


@pytest.mark.parametrize(("name", "text"), [("seed", "seed was 0 there, and is 7"), ("max_grad_norm", "was inf there")])
async def test_an_argument_of_the_code_that_differs_from_that_of_the_directory_is_told(tmp_path, caplog, name, text):
    await learn(tmp_path, 1)
    caplog.set_level(logging.WARNING)
    await learn(tmp_path, 2, **{name: 7})

    assert text in caplog.text
    assert "from here on, as in the code" in caplog.text


async def test_a_replay_has_the_steps_that_were_made_whatever_the_size_of_a_batch(tmp_path):
    async with new_learner(tmp_path / "a", batch_size=3) as learner:
        await asyncio.gather(*(learner.learn(example(seed)) for seed in range(7)))
        expected = await answer(learner), learner.statistics().steps
        killed = as_killed(tmp_path / "a", tmp_path / "b")
    async with new_learner(killed, batch_size=1) as again:
        assert again.statistics().replayed == 7
        found = expected == (await answer(again), again.statistics().steps)

    assert found
