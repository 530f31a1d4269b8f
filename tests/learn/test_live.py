"""The live page of a learner, mounted in a service on a real socket; and in a real browser."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any, final

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'asyncgrad[serve]'")
pytest.importorskip("fastapi", reason="needs FastAPI: pip install 'fastapi'")
pytest.importorskip("uvicorn", reason="needs uvicorn: pip install 'asyncgrad[serve]'")
pytest.importorskip("httpx", reason="needs httpx: pip install 'asyncgrad[serve]'")
pytest.importorskip("prometheus_client", reason="needs prometheus-client: pip install 'asyncgrad[metrics]'")

import httpx
import prometheus_client
import uvicorn

from asyncgrad import optim
from asyncgrad.errors import ArgumentError, ArgumentTypeError, BusyError, ExampleError
from asyncgrad.learn import Drift, Learner, PageHinkley, http, prometheus_collector
from asyncgrad.learn.live import LearnerSource
from tests.learn.making import QUESTION, Gate, example, loss, new_learner, turns_until
from tests.learn.real import FRAMEWORKS, application
from tests.observing.live.making import Client, parsed
from tests.support.browser import SCREENSHOTS, browser, pixels
from tests.support.devtools import devtools
from tests.support.listeners import new_listener
from tests.support.loops import one_loop


@contextlib.asynccontextmanager
async def serving(
    learner: Any, framework: str = "starlette", protocol: Any = None, **options: Any
) -> AsyncIterator[tuple[str, uvicorn.Server, Any]]:
    """Serve a learner and its page; give the address, the server, and the task that ends when it has stopped."""
    started = asyncio.Event()
    app = application(learner, framework, started)
    app.mount("/live", http.live(learner, **options))
    listener = new_listener()
    chosen: Any = protocol or http.connections()
    config = uvicorn.Config(app, http=chosen, lifespan="on", ws="none", access_log=False, log_config=None)
    server = uvicorn.Server(config)
    ended = asyncio.create_task(server.serve(sockets=[listener]))
    await started.wait()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", server, ended
    finally:
        server.should_exit = True
        await ended


@contextlib.asynccontextmanager
async def looking(url: str) -> AsyncIterator[AsyncGenerator[Any, None]]:
    """Give the events of a page: kind and data of each."""
    async with (
        httpx.AsyncClient(base_url=url, timeout=20.0, trust_env=False) as client,
        client.stream("GET", "/live/events") as answer,
    ):
        assert answer.status_code == 200

        async def events() -> AsyncGenerator[Any, None]:
            text = ""
            async for part in answer.aiter_text():
                text += part
                while "\n\n" in text:
                    event, _, text = text.partition("\n\n")
                    if event.startswith("id"):
                        yield parsed(f"{event}\n\n".encode())[1:]

        async with contextlib.aclosing(events()) as found:
            yield found


@pytest.mark.slow
@pytest.mark.parametrize("framework", FRAMEWORKS)
async def test_a_mounted_page_shows_what_the_learner_does(framework, tmp_path):
    learner = new_learner(tmp_path, max_pending=2)
    async with serving(learner, framework) as (url, _, _), looking(url) as events:
        kind, whole = await anext(events)
        for seed in range(3):
            await learner.learn(example(seed))
        await learner.predict(QUESTION)
        learner.model.shut("backward")
        learning = [asyncio.create_task(learner.learn(example(seed))) for seed in (4, 5)]
        await turns_until(lambda: learner.model.began("backward") == 4)
        with pytest.raises(BusyError):
            await learner.learn(example(6))
        learner._max_pending = 3
        with pytest.raises(TimeoutError):
            await learner.learn(example(7), timeout=0.001)
        learning[1].cancel()
        await asyncio.wait(learning[1:])
        _, following = await anext(events)
        learner.model.open()
        await learning[0]
    (sample,) = following["samples"]
    (running,) = following["running"]["passes"]

    assert kind == "whole"
    assert (whole["facts"]["title"], whole["facts"]["loss"], whole["facts"]["optimizer"]) == ("Gate", "loss", "Adam")
    assert [kind for _, kind, _, _ in following["records"]] == ["done"] * 3 + ["refused", "timed out", "cancelled"]
    assert [sample["latencies"][name]["count"] for name in ("predict", "learn", "step")] == [1, 3, 3]
    assert sample["queues"] == {"examples": [1, 3], "predictions": [0, 1024]}
    assert sample["rates"]["predictions"] > 0
    assert (running["task"], running["running"][0]["waits"]) == ("a step of ag.learn.Learner", "asyncio's Event.wait")


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["with limits", "h11"])
async def test_a_stop_does_not_wait_for_a_live_page(protocol, monkeypatch):
    # uvicorn alone waits for what is under way: a stream ends by itself.
    monkeypatch.setattr(http, "LiveApplication", lambda feed, **options: LIVE(feed, **options, lifetime=LIFE[protocol]))
    async with (
        serving(new_learner(), protocol=None if protocol == "with limits" else "h11") as (url, server, ended),
        looking(url) as events,
    ):
        await anext(events)
        server.should_exit = True
        with contextlib.suppress(httpx.TransportError):
            async for _ in events:
                pass
        await ended

    assert ended.exception() is None


#: Forever, and a moment.
LIFE = {"with limits": float("inf"), "h11": 0.01}
LIVE = http.LiveApplication


async def test_the_page_and_prometheus_are_told_the_same_numbers():
    registry = prometheus_client.CollectorRegistry()
    async with new_learner() as learner:
        source = LearnerSource(learner)
        registry.register(prometheus_collector(learner))
        for seed in range(4):
            await learner.learn(example(seed))
        await learner.predict(QUESTION)
        sample = source.sample(1.0)
        value: Any = registry.get_sample_value
        names = ("predict", "learn", "step")
        found = [value(f"asyncgrad_learner_{name}_seconds_count") for name in names]
        queue = [value(f"asyncgrad_learner_{name}") for name in ("pending", "max_pending")]

    assert [sample["latencies"][name]["count"] for name in names] == found
    assert sample["queues"]["examples"] == queue == [0.0, 64.0]
    assert sample["rates"] == {"predictions": 1.0, "examples": 4.0, "steps": 4.0}


async def test_a_step_that_fails_and_one_of_several_examples_are_recorded():
    async def may_be_infinite(model: Any, batch: Any) -> Any:
        return (await loss(model, batch)) * (np.inf if batch["y"].max() > 1e5 else 1.0)

    async with new_learner(batch_size=4, loss=may_be_infinite) as learner:
        records = learner.keep_records()
        learner.model.shut("forward")
        learning = [asyncio.create_task(learner.learn(example(seed))) for seed in range(3)]
        await turns_until(lambda: learner.statistics().pending == 3)
        learner.model.open()
        await asyncio.gather(*learning)
        with pytest.raises(ExampleError):
            await learner.learn({**example(1), "y": np.array([1e6])})
        found = [(one.kind, one.times, one.value is None) for one in records.since(0)]

    assert found == [("done", 3, False), ("failed", 1, True)]


async def test_a_drift_is_recorded_and_the_page_is_told_what_is_watched():
    watched = [rises_after(3), Drift(PageHinkley(), name="its loss")]
    async with new_learner(drift=watched) as learner:
        source = LearnerSource(learner)
        for seed in range(5):
            await learner.learn(example(seed))
        losses = [one.value for one in source.records.since(0) if one.value is not None]
        sample = source.sample(1.0)

    assert [one.kind for one in source.records.since(0)] == ["done", "done", "done", "done", "drift", "done"]
    assert source.facts()["marks"][-1] == "drift"
    assert sample["drift"] == {"x": [1, 1, 1.0], "its loss": [0, 5, pytest.approx(np.mean(losses))]}
    assert not sample["paused"]


def rises_after(count: int) -> Drift:
    """Return a drift of a number of examples that is 0 at first, and 1 after so many."""
    numbers = itertools.chain([0.0] * count, itertools.repeat(1.0))
    return Drift(PageHinkley(threshold=0.5, min_count=count), of=lambda _: next(numbers), name="x")


async def test_without_a_page_nothing_is_recorded():
    async with new_learner() as learner:
        await learner.learn(example(1))
        before = learner._activity.records
        records = learner.keep_records()
        await learner.learn(example(2))
        again = learner.keep_records()

    assert before is None
    assert again is records
    assert [one.kind for one in records.since(0)] == ["done"]


async def test_a_page_is_loopback_only_unless_told_otherwise_and_knows_the_names_that_it_is_given():
    learner = new_learner()
    elsewhere = {"client": ("10.0.0.7", 1), "headers": {"host": "box.example"}}
    found = [
        await Client(**elsewhere).ask(http.live(learner, **options))
        for options in ({}, {"loopback_only": False}, {"loopback_only": False, "names": ["box.example"]})
    ]

    assert found == [403, 421, 200]


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"learner": 1}, ArgumentTypeError, "learn.http.live takes a Learner, not int 1"),
        ({"learner": Learner}, ArgumentTypeError, "learn.http.live takes a Learner, not "),
        ({"loopback_only": "no"}, ArgumentTypeError, "loopback_only"),
        ({"names": "box.example"}, ArgumentTypeError, "names must be a list of strings"),
        ({"stuck_after": -1}, ArgumentError, "stuck_after"),
    ],
)
def test_bad_arguments_are_named(options, error, text):
    given = {"learner": new_learner(), **options}
    with pytest.raises(error, match=text):
        http.live(given.pop("learner"), **given)


# --- in a browser --------------------------------------------------------------------------------


def hostile(name: str, thing: Any) -> Any:
    """Give a class or a function a name that would be run if it were not escaped."""
    thing.__name__ = thing.__qualname__ = name
    return thing


TAG = "<img src=x onerror=\"document.title='run'\"></script><b>"

#: What is there, what is wider than the window, and what colour the page has.
LOOK = """({
  size: [innerWidth, document.documentElement.scrollWidth],
  watched: document.getElementById("drift-box").offsetHeight > 50 && document.getElementById("drift-key").textContent,
  wide: [...document.querySelectorAll("main *")].filter(one => one.getBoundingClientRect().right > innerWidth).length,
  lines: [...document.querySelectorAll("svg path")].filter(one => one.getAttribute("d")).length,
  marks: [...new Set([...document.querySelectorAll("svg circle")].map(one => one.dataset.kind))].sort(),
  texts: [...document.querySelectorAll("svg text")].some(one => /NaN|undefined|Infinity/.test(one.textContent)),
  stuck: document.querySelectorAll("#passes > li.stuck").length,
  full: document.querySelectorAll(".bar.full").length,
  state: document.getElementById("state").textContent,
  tags: document.querySelectorAll("img, main b b, h1 b").length,
  heading: document.querySelector("h1").textContent,
  dark: getComputedStyle(document.body).backgroundColor !== "rgb(251, 252, 254)",
})"""


#: True once the page has been told a few samples.
TOLD = """new Promise(done => {
  const isTold = () => document.documentElement.dataset.ready === "yes" && samples.length > 3;
  const look = () => isTold() ? done(true) : setTimeout(look, 20);
  look();
})"""


def looked_at(url: str, folder: Path) -> tuple[list[Any], set[str], list[str]]:
    """Return what a browser shows at two widths, light and dark; and what it has asked for and complained of."""
    found: list[Any] = []
    requests: set[str] = set()
    complaints: list[str] = []
    with devtools(folder / "profile") as page:
        for width in (1400, 390):
            for is_dark in (False, True):
                page.open(f"{url}/live/", width, is_dark)
                assert page.ask(TOLD)
                found.append(page.ask(LOOK))
                picture = SCREENSHOTS / f"live-{width}-{'dark' if is_dark else 'light'}.png"
                page.photograph(picture)
                assert pixels(picture.read_bytes()) == (width, 900)
                requests.update(page.requests)
                complaints += page.complaints
    return found, requests, complaints


@final
class Stuck(Gate):
    """A gate with another name."""


@pytest.mark.slow
@one_loop
@pytest.mark.timeout(120)
async def test_a_browser_shows_the_page_wide_and_narrow_light_and_dark(tmp_path):
    browser()

    async def own(model: Any, batch: Any) -> Any:
        return await loss(model, batch)

    model = hostile(TAG, Stuck)()
    optimizer, drift = optim.SGD(model, lr=0.01), [rises_after(6)]
    learner = new_learner(model=model, optimizer=optimizer, loss=hostile(TAG, own), max_pending=1, drift=drift)
    async with serving(learner, stuck_after=0.01) as (url, _, _):
        for seed in range(12):
            await learner.learn(example(seed))
        model.shut("backward")
        learning = asyncio.create_task(learner.learn(example(20)))
        await turns_until(lambda: model.began("backward") == 13)
        with pytest.raises(BusyError):
            await learner.learn(example(21))
        found, requested, complaints = await asyncio.to_thread(looked_at, url, tmp_path)
        model.open()
        await learning

    assert [one["size"] for one in found] == [[1400, 1400]] * 2 + [[390, 390]] * 2
    assert [one["dark"] for one in found] == [False, True] * 2
    for one in found:
        assert (one["wide"], one["tags"], one["texts"]) == (0, 0, False), json.dumps(one)
        assert one["lines"] >= 3
        assert (one["marks"], one["stuck"], one["full"], one["state"]) == (["drift", "refused"], 1, 1, "1 stuck")
        assert one["watched"] == "x 1 of 5, 1 drift"
        assert one["heading"] == TAG
    assert {one.removeprefix(url) for one in requested} == {"/live/", "/live/events"}
    assert complaints == []
