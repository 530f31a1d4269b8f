"""Drift: what detectors tell, what a learner does then, and that a start goes on watching where it was."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncgrad import nn, optim
from asyncgrad.errors import ArgumentError, ArgumentTypeError, LearningPausedError
from asyncgrad.learn import ADWIN, Change, Drift, DriftDetector, DriftEvent, Learner, PageHinkley
from tests.learn.crashing import as_killed, crash
from tests.learn.making import turns_until
from tests.support.sampling import cases

DETECTORS = {"PageHinkley": lambda: PageHinkley(delta=0.05, threshold=4, min_count=10), "ADWIN": lambda: ADWIN(clock=4)}


def noise(seed: int, mean: float, count: int) -> list[float]:
    return list(np.clip(np.random.default_rng(seed).normal(mean, 0.05, count), 0, 1))


def found_at(detector: DriftDetector, values: list[float]) -> list[tuple[int, Change]]:
    changes = [(at, detector.update(value)) for at, value in enumerate(values)]
    return [(at, change) for at, change in changes if change is not None]


# --- detectors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", DETECTORS.values(), ids=DETECTORS)
@pytest.mark.parametrize("after", [0.1, 0.9], ids=["a fall", "a rise"])
@pytest.mark.parametrize("seed", range(cases(30)))
def test_a_change_of_the_mean_is_told_once_soon_after_it_and_with_both_means(make, after, seed):
    ((at, change),) = found_at(make(), noise(seed, 0.5, 200) + noise(seed + 1000, after, 60))

    assert 200 < at < 230
    assert change.before == pytest.approx(0.5, abs=0.05)
    assert abs(change.after - after) < 0.3


@pytest.mark.parametrize("make", DETECTORS.values(), ids=DETECTORS)
@pytest.mark.parametrize("seed", range(cases(30)))
def test_values_that_stay_as_they_are_tell_nothing(make, seed):
    assert found_at(make(), noise(seed, 0.5, 3000)) == []


@pytest.mark.parametrize("make", DETECTORS.values(), ids=DETECTORS)
@pytest.mark.parametrize("seed", range(cases(30)))
def test_a_detector_goes_on_from_what_another_has_seen(make, seed):
    rng = random.Random(seed)
    values = [value for at in range(6) for value in noise(seed + at, rng.random(), rng.randrange(100))]
    first, second = make(), make()
    cut = rng.randrange(len(values))
    found_at(first, values[:cut])
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))

    assert found_at(second, values[cut:]) == found_at(first, values[cut:])
    assert (second.state_dict(), second.window) == (first.state_dict(), first.window)
    first.reset()
    assert (first.state_dict(), repr(first)) == (make().state_dict(), repr(make()))


@pytest.mark.parametrize("seed", range(cases(30)))
def test_the_window_of_adwin_has_the_count_the_mean_and_the_variance_of_its_values(seed):
    detector, values = ADWIN(clock=1), noise(seed, 0.2, 150) + noise(seed, 0.8, 150)
    for end, value in enumerate(values, 1):
        detector.update(value)
        count, mean = detector.window
        window = values[end - count : end]

        assert mean == pytest.approx(np.mean(window))
        assert detector.state_dict()["variance"] / count == pytest.approx(np.var(window), abs=1e-12)
    groups = detector.state_dict()["rows"]
    assert all(len(row) <= 5 for row in groups)
    assert sum(len(row) << level for level, row in enumerate(groups)) == count < 200


def test_the_sums_of_page_and_hinkley_are_those_of_the_paper():
    detector, values = PageHinkley(delta=0.01, threshold=1e9), noise(3, 0.5, 100)
    rise, least, total = 0.0, 0.0, 0.0
    for count, value in enumerate(values, 1):
        detector.update(value)
        total += value
        rise += value - total / count - 0.01
        least = min(least, rise)

    assert detector.state_dict()["sides"][0][:2] == pytest.approx([rise, least])


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: PageHinkley(delta=-1), "delta must be a finite number of at least 0"),
        (lambda: PageHinkley(min_count=0), "min_count must be at least 1"),
        (lambda: ADWIN(delta=0), "delta must be a probability between 0 and 1"),
        (lambda: ADWIN(delta=1), "delta must be a probability between 0 and 1"),
        (lambda: ADWIN(clock=0), "clock must be at least 1"),
        (lambda: Drift(3), "detector must be a DriftDetector"),  # type: ignore[arg-type]
        (lambda: Drift(ADWIN(), of="inputs"), "of must be callable with an example"),  # type: ignore[arg-type]
        (lambda: Drift(ADWIN(), then="panic"), "then must be 'warn', 'rollback', 'stop' or a function"),  # type: ignore[arg-type]
        (lambda: Drift(ADWIN(), examples="all"), "examples must be 'skip', 'keep' or 'learn'"),  # type: ignore[arg-type]
        (lambda: Drift(ADWIN(), to="../x"), "the name of a version has up to 64 letters"),
        (lambda: Drift(ADWIN(), window=0), "window must be at least 1"),
        (lambda: learner_of(None, Drift(ADWIN()), Drift(PageHinkley())), "drift has 'loss' twice"),
        (lambda: learner_of(None, ADWIN()), r"drift must be a list of learn\.Drift"),
    ],
)
def test_what_a_detector_or_a_drift_does_not_take_is_refused(make, text):
    with pytest.raises((ArgumentError, ArgumentTypeError), match=text):
        make()


# --- a learner that watches ----------------------------------------------------------------------


def learner_of(path: Path | None, *drift: Any, **options: Any) -> Learner:
    """Return a learner whose loss is the example's first number."""
    model = nn.Linear(1, 1, dtype=np.float64)
    model.update({"weight": np.zeros((1, 1)), "bias": np.zeros(1)})

    def loss(model: Any, batch: Any) -> Any:
        return (model(batch[:, :1] * 0.0) * 0.0).sum() + batch[:, 0].mean() + model(batch[:, 1:]).sum() * 0.0

    return Learner(model, loss, optim.SGD(model, lr=0.1, weight_decay=0.1), directory=path, drift=drift, **options)


def soon() -> PageHinkley:
    return PageHinkley(threshold=2, min_count=5)


async def show(learner: Learner, *losses: float) -> None:
    for loss in losses:
        await learner.learn([loss, 1.0])


async def test_a_loss_that_rises_is_told_in_the_log_and_in_the_statistics(caplog):
    async with learner_of(None, Drift(soon())) as learner:
        await show(learner, *10 * [0.5], *3 * [1.5])
        found = learner.statistics()

    assert (found.drifts, found.paused) == (1, None)
    assert (found.drift[0].name, found.drift[0].drifts) == ("loss", 1)
    assert "loss has drifted from 0.5 to 1.5 after 13 examples" in caplog.text


async def test_a_loss_that_falls_is_no_drift():
    async with learner_of(None, Drift(soon())) as learner:
        await show(learner, *10 * [1.5], *10 * [0.5])

        assert learner.statistics().drifts == 0


async def test_an_input_that_falls_is_one():
    def first(example: Any) -> float:
        return float(example[0])

    async with learner_of(None, Drift(soon(), of=first)) as learner:
        await show(learner, *10 * [1.5], *10 * [0.5])

        assert [each.name for each in learner.statistics().drift] == ["first"]
        assert learner.statistics().drifts == 1


async def test_a_stop_refuses_what_comes_next_and_a_killed_process_does_so_too(tmp_path):
    def make(path: Path) -> Learner:
        return learner_of(path, Drift(soon(), then="stop"))

    async with make(tmp_path / "a") as learner:
        await show(learner, *10 * [0.5], *3 * [1.5])
        with pytest.raises(LearningPausedError, match=r"loss has drifted from 0\.5 to 1\.5"):
            await show(learner, 0.5)
        killed = as_killed(tmp_path / "a", tmp_path / "b")
    async with make(killed) as again:
        with pytest.raises(LearningPausedError, match=r"loss has drifted from 0\.5 to 1\.5"):
            await show(again, 0.5)
        await again.resume()
        await show(again, 0.5)

        assert again.learned == 14


@pytest.mark.parametrize("to", ["good", None])
async def test_a_rollback_is_made_before_the_next_example_is_learned(tmp_path, to):
    async with learner_of(tmp_path, Drift(soon(), then="rollback", to=to, examples="keep")) as learner:
        await learner.checkpoint("bad")
        await show(learner, *10 * [0.5])
        await learner.checkpoint("good")
        tasks = [asyncio.create_task(show(learner, 1.5)) for _ in range(4)]
        await asyncio.gather(*tasks)
        found = learner.statistics()

        assert (learner.learned, found.rollbacks, found.kept, found.drifts) == (11, 1, 3, 1)


async def test_a_rollback_without_a_version_is_told_and_learning_goes_on(tmp_path, caplog):
    async with learner_of(tmp_path, Drift(soon(), then="rollback")) as learner:
        await show(learner, *10 * [0.5], *5 * [1.5])
        found = learner.statistics()

    assert (found.learned, found.drifts, found.failed_reactions) == (15, 1, 1)
    assert "there is no version to go back to" in caplog.text


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_function_is_called_with_the_event_and_may_await_the_learner(tmp_path, is_async):
    events: list[DriftEvent] = []

    async def back(event: DriftEvent) -> None:
        await learner.rollback("good", examples="skip")
        events.append(event)

    learner = learner_of(tmp_path, Drift(soon(), then=back if is_async else events.append, window=4))
    async with learner:
        await learner.checkpoint("good")
        await show(learner, *10 * [0.5], *3 * [1.5])
        await turns_until(lambda: bool(events))
        found = learner.statistics().rollbacks
    (event,) = events

    assert (event.learned, event.before, event.after, event.window) == (13, 0.5, 1.5, (0.5, 1.5, 1.5, 1.5))
    assert found == is_async


async def test_a_function_that_fails_or_never_ends_holds_nothing(caplog):
    async def never(event: DriftEvent) -> None:
        await asyncio.Event().wait()

    def fails(event: DriftEvent) -> None:
        raise ZeroDivisionError("of the hook")

    drifts = Drift(soon(), then=never, name="a"), Drift(soon(), then=fails, name="b")
    async with learner_of(None, *drifts) as learner:
        await show(learner, *10 * [0.5], *5 * [1.5])

        assert learner.learned == 15
    assert "the hook of a drift failed, and learning goes on" in caplog.text


@pytest.mark.parametrize("make", DETECTORS.values(), ids=DETECTORS)
async def test_losses_of_a_model_that_diverges_are_a_drift_and_a_killed_process_starts_again(tmp_path, make):
    learner = await learner_of(tmp_path, Drift(make())).__aenter__()
    await show(learner, *40 * [0.5], *8 * [1e300])
    told, learned = learner.statistics().drifts, learner.learned
    before = learner._recorded.drift.tree()
    await crash(learner)
    async with learner_of(tmp_path, Drift(make())) as again:
        assert again._recorded.drift.tree() == before
        await show(again, *40 * [0.5])

        assert (told, learned, again.learned) == (1, 48, 88)
        assert again.statistics().drift[0].mean == pytest.approx(0.5)


async def test_an_example_is_learned_though_a_detector_fails_which_is_told(caplog):
    class Failing(DriftDetector):
        window = (0, 0.0)

        def update(self, value: float) -> Change | None:
            raise ZeroDivisionError(value)

        def reset(self) -> None:
            pass

        def state_dict(self) -> dict[str, Any]:
            return {}

        def load_state_dict(self, state_dict: Any) -> None:
            pass

    async with learner_of(None, Drift(Failing())) as learner:
        await show(learner, 0.5)

        assert learner.learned == 1
    assert "loss is watched anew, since its detector failed: ZeroDivisionError(0.5)" in caplog.text


async def test_a_function_of_inputs_that_fails_is_told_and_learning_goes_on(caplog):
    async with learner_of(None, Drift(ADWIN(), of=lambda example: example["x"], name="x")) as learner:
        await show(learner, 0.5)
        (status,) = learner.statistics().drift

    assert (status.count, learner.learned) == (0, 1)
    assert "x is not watched for these examples, since its function failed" in caplog.text


@pytest.mark.parametrize("checkpoint_every", [1, 4, 100])
async def test_a_start_goes_on_watching_where_a_killed_process_was(tmp_path, checkpoint_every):
    def make(path: Path | None) -> Learner:
        return learner_of(path, Drift(ADWIN(clock=4)), Drift(soon(), name="b"), checkpoint_every=checkpoint_every)

    async with make(None) as whole:
        await show(whole, *40 * [0.5], *2 * [0.9])
        before = whole._recorded.drift.tree()
        await show(whole, *20 * [0.9])
        expected = whole._recorded.drift.tree()
    learner = await make(tmp_path).__aenter__()
    await show(learner, *40 * [0.5], *2 * [0.9])
    await crash(learner)
    async with make(tmp_path) as again:
        assert again._recorded.drift.tree() == before
        await show(again, *20 * [0.9])

        assert again._recorded.drift.tree() == expected


async def test_a_killed_process_that_had_not_done_what_it_was_to_do_leaves_that_to_the_next(tmp_path, monkeypatch):
    def make(path: Path) -> Learner:
        return learner_of(path, Drift(soon(), then="rollback", to="good", examples="skip"))

    async with make(tmp_path / "a") as learner:
        await learner.checkpoint("good")
        await show(learner, *10 * [0.5], *2 * [1.5])
        append = learner._recorded.directory.append  # type: ignore[union-attr]

        def noted(*given: Any) -> None:
            if given[1]:
                append(*given)
            if "rollback" in given[2]:
                as_killed(tmp_path / "a", tmp_path / "b")
                append(*given)

        monkeypatch.setattr(learner._recorded.directory, "append", noted)
        await show(learner, 1.5)
        await learner.checkpoint()
        assert learner.learned == 0
    async with make(tmp_path / "b") as again:
        await again.checkpoint()
        found = again.statistics()

        assert (again.learned, found.replayed, found.rollbacks) == (0, 13, 1)


async def test_what_a_rollback_has_learned_again_is_no_news(tmp_path):
    async with learner_of(tmp_path, Drift(ADWIN())) as learner:
        await learner.checkpoint("v")
        await show(learner, *10 * [0.5])
        await learner.rollback("v", examples="learn")
        (status,) = learner.statistics().drift

        assert (learner.learned, status.count) == (10, 0)


async def test_a_detector_with_other_arguments_begins_anew(tmp_path):
    async with learner_of(tmp_path, Drift(ADWIN())) as learner:
        await show(learner, 0.5, 0.5)
    async with learner_of(tmp_path, Drift(ADWIN(delta=0.01))) as again:
        (status,) = again.statistics().drift

    assert status.count == 0


async def test_drifts_and_losses_of_versions_are_metrics(tmp_path):
    prometheus_client = pytest.importorskip("prometheus_client")
    from asyncgrad.learn import prometheus_collector

    registry = prometheus_client.CollectorRegistry()
    async with learner_of(tmp_path, Drift(soon(), then="stop")) as learner:
        registry.register(prometheus_collector(learner))
        await learner.checkpoint("v")
        await learner.serve("v")
        await show(learner, *10 * [0.5], *3 * [1.5])
        await learner.resume()
        await show(learner, 0.25)
        await learner.checkpoint()
        await learner.pause("for now")
        text = prometheus_client.generate_latest(registry).decode()

    for line in (
        'asyncgrad_learner_drift_drifts_total{of="loss"} 1.0',
        'asyncgrad_learner_drift_count{of="loss"} 1.0',
        'asyncgrad_learner_drift_mean{of="loss"} 0.25',
        "asyncgrad_learner_drifts_total 1.0",
        "asyncgrad_learner_versions 1.0",
        "asyncgrad_learner_can_learn 0.0",
    ):
        assert line in text.splitlines()
    assert 'asyncgrad_learner_version_loss{version="v"}' in text
    assert 'asyncgrad_learner_version_loss{version="current"}' in text


async def test_a_learner_without_drift_tells_nothing_and_its_statistics_are_json(caplog):
    caplog.set_level(logging.INFO)
    async with learner_of(None) as learner:
        await show(learner, *10 * [0.5], *10 * [5.0])

        assert learner.statistics().drift == ()
    assert not caplog.records
