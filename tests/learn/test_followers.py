"""Followers of a directory and of a URL: the learner's bits, what they do when it fails, how one takes its place."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import inspect
import os
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, final

import httpx
import numpy as np
import prometheus_client
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from asyncgrad import nn, optim
from asyncgrad.errors import (
    ArgumentError,
    ArgumentTypeError,
    ExampleError,
    JournalError,
    LearnerClosedError,
    ModelDirectoryError,
)
from asyncgrad.learn import Follower, Learner, follow, http, prometheus_collector
from asyncgrad.learn import directory as directory_module
from asyncgrad.learn.checkpoint_file import read_checkpoint, write_checkpoint
from asyncgrad.learn.directory import ModelDirectory
from asyncgrad.learn.follower import LearnerOptions
from asyncgrad.learn.lines import Record, line_of
from tests.learn.crashing import as_killed, crash
from tests.learn.making import EXAMPLE, QUESTION, Gate, example, failing_disk, loss, new_learner, turns_until

KEY = "a key for followers alone"
URL = "http://learner/journal"


def follower_of(path: Path, **options: Any) -> Follower:
    """Return a follower of a directory, with a model of its own."""
    model = Gate()
    given: dict[str, Any] = {"inputs": EXAMPLE["x"], "example": EXAMPLE, "interval": 100.0, **options}
    optimizer = given.pop("optimizer", None) or optim.Adam(model, lr=0.01)
    return follow(given.pop("source", path), given.pop("model", model), given.pop("loss", loss), optimizer, **given)


def follower_over_http(learner: Learner, key: str = KEY, mounted: dict[str, Any] | None = None, **options: Any) -> Any:
    """Return a follower of a learner's application, which is called without a socket."""
    app = Starlette(routes=[Mount("/journal", http.journal_app(learner, key=KEY, **(mounted or {})))])
    follower = follower_of(Path(), source=URL, key=key, **options)
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), headers=follower._source._headers)
    follower._source._client = client
    return follower


Making = Callable[..., Follower]


@pytest.fixture(params=["directory", "url"])
def making(request: Any) -> Making:
    """Return what makes a follower of a learner: by its directory, or by a URL."""
    if request.param == "url":
        return follower_over_http
    return lambda learner, **options: follower_of(learner.directory, **options)


async def answer_of(one: Learner | Follower) -> list[float]:
    found: list[float] = (await one.predict(QUESTION)).tolist()
    return found


async def bits(one: Learner | Follower) -> tuple[int, list[float]]:
    """Return what tells a model from another: what it has learned, and what it answers."""
    if isinstance(one, Follower):
        await one.catch_up()
    return one.learned, await answer_of(one)


async def test_a_follower_has_the_learners_bits_after_each_step(tmp_path, making):
    found = []
    async with new_learner(tmp_path, batch_size=4, max_grad_norm=0.5) as learner:
        await learner.learn(example(0))
        async with making(learner) as follower:
            for seed in range(1, 7):
                if seed == 3:
                    await learner.set_options(lr=0.2, weight_decay=0.1)
                await asyncio.gather(*(learner.learn(example(10 * seed + nr)) for nr in range(seed)))
                found.append((await bits(learner), await bits(follower)))
            own, other = learner.model.state_dict(), follower._replica.state.model.state_dict()
            same = {name: np.array_equal(np.asarray(own[name]), np.asarray(other[name])) for name in own}

    assert all(one == other for one, other in found)
    assert len({one for (one, _), _ in found}) == 6
    assert all(same.values())
    assert len(same) >= 4


async def test_a_follower_has_the_learners_bits_whenever_a_checkpoint_comes(tmp_path, making):
    found = []
    async with new_learner(tmp_path, checkpoint_every=3) as learner, making(learner) as follower:
        for seed in range(10):
            await learner.learn(example(seed))
            # The checkpoint after every third comes after the answer.
            await turns_until(lambda: learner.statistics().stage is None)
            await follower.catch_up()
            found.append(await bits(follower) == await bits(learner))
        written = learner.statistics().checkpoints

    assert found == [True] * 10
    assert written == 3


async def test_a_follower_that_has_read_a_journal_to_its_end_needs_no_checkpoint(tmp_path, making):
    async with new_learner(tmp_path) as learner, making(learner) as follower:
        for seed in range(4):
            await learner.learn(example(seed))
            await follower.catch_up()
            await learner.checkpoint()
        found = await bits(follower), await bits(learner)
        loads = follower.statistics().loads

    assert found[0] == found[1]
    assert loads == 1


async def test_a_follower_behind_several_checkpoints_loads_the_last_one(tmp_path, making):
    async with new_learner(tmp_path, checkpoint_every=4) as learner, making(learner) as follower:
        for seed in range(10):
            await learner.learn(example(seed))
        found = await bits(follower), await bits(learner)
        loads = follower.statistics().loads

    assert found[0] == found[1]
    assert loads == 2


async def test_over_http_the_journal_before_is_sent_while_it_is_kept(tmp_path):
    loads = []
    for number, retained in enumerate((1 << 20, 0)):
        learner = new_learner(tmp_path / str(number), checkpoint_every=4)
        async with learner, follower_over_http(learner, mounted={"max_retained": retained}) as follower:
            for seed in range(6):
                await learner.learn(example(seed))
            assert await bits(follower) == await bits(learner)
            loads.append(follower.statistics().loads)

    assert loads == [1, 2]


async def test_lines_and_checkpoints_come_in_parts_of_so_many_bytes(tmp_path):
    async with new_learner(tmp_path) as learner:
        await learner.learn(example(0))
        async with follower_over_http(learner, mounted={"max_bytes": 150}) as follower:
            assert await bits(follower) == await bits(learner)
            await learner.learn(example(1))
            await learner.learn(example(2))
            assert await bits(follower) == await bits(learner)
        size = (tmp_path / "checkpoint.npz").stat().st_size

    assert size > 10 * 150


async def test_a_follower_looks_by_itself(tmp_path, making):
    async with new_learner(tmp_path) as learner, making(learner, interval=0.001) as follower:
        await learner.learn(example(0))
        await turns_until(lambda: follower.learned == 1)
        found = await answer_of(follower), await answer_of(learner)

    assert found[0] == found[1]


async def test_predictions_are_answered_while_the_journal_is_applied(tmp_path):
    model = Gate()
    follower = follower_of(tmp_path, model=model, optimizer=optim.Adam(model, lr=0.01))
    async with new_learner(tmp_path) as learner, follower:
        before = await answer_of(follower)
        model.shut("backward")
        await learner.learn(example(0))
        task = asyncio.create_task(follower.catch_up())
        await turns_until(lambda: model.began("backward") > 0)
        meanwhile = await answer_of(follower)
        model.open()
        await task
        after = await answer_of(follower)

    assert meanwhile == before != after


async def test_a_line_that_is_taken_back_is_forgotten_by_a_follower(tmp_path):
    async with new_learner(tmp_path) as learner, follower_of(tmp_path) as follower:
        await learner.learn(example(0))
        assert await bits(follower) == await bits(learner)
        name = read_checkpoint(tmp_path / "checkpoint.npz")["journal"]
        size = (tmp_path / "journal").stat().st_size
        # What a follower sees between the write of a line and its removal, for a step that fails.
        with (tmp_path / "journal").open("ab") as file:
            file.write(line_of(Record(name, 1, [example(7)])))
        ahead = await bits(follower)
        os.truncate(tmp_path / "journal", size)
        after_removal = await bits(follower)
        with (tmp_path / "journal").open("ab") as file:
            file.write(line_of(Record(name, 1, [example(7)])))
        assert await bits(follower) == ahead
        os.truncate(tmp_path / "journal", size)
        await learner.learn(example(1))
        found = await bits(follower), await bits(learner)

    assert ahead[0] == 2
    assert after_removal[0] == 1
    assert found[0] == found[1]


async def test_only_what_was_done_is_sent(tmp_path):
    async with new_learner(tmp_path) as learner, follower_over_http(learner) as follower:
        await learner.learn(example(0))
        name = read_checkpoint(tmp_path / "checkpoint.npz")["journal"]
        with (tmp_path / "journal").open("ab") as file:
            file.write(line_of(Record(name, 1, [example(7)])))
        found = (await bits(follower))[0]

    assert found == 1


def _no_write(*given: object) -> None:
    raise OSError(errno.EIO, "the disk is out of order")


async def test_what_a_disk_refused_and_could_not_remove_is_not_applied(tmp_path, monkeypatch):
    async with new_learner(tmp_path) as learner, follower_of(tmp_path) as follower:
        await learner.learn(example(0))
        size = (tmp_path / "journal").stat().st_size
        with monkeypatch.context() as patch:
            failing_disk(patch, times=1)
            patch.setattr(os, "ftruncate", _no_write)
            with pytest.raises(JournalError):
                await learner.learn(example(1))
            assert list(tmp_path.glob("journal.cut-*")) != []
            assert (tmp_path / "journal").stat().st_size > size
            found = await bits(follower), await bits(learner)

    assert found[0] == found[1]


async def test_a_line_of_a_rollback_has_the_version_hold(tmp_path, making):
    async with new_learner(tmp_path) as learner, making(learner) as follower:
        await learner.learn(example(0))
        state = read_checkpoint(tmp_path / "checkpoint.npz")["state"]
        (tmp_path / "versions").mkdir()
        content = {"version": {"id": "ab"}, "state": state}
        write_checkpoint(tmp_path / "versions" / "first.npz", content)
        assert (await bits(follower))[0] == 1
        directory: Any = learner._recorded.directory
        rollback = {"to": "first", "id": "ab", "learned": 0, "examples": "skip"}
        directory._append_line(line_of(Record(directory._name, 1, [], rollback=rollback)))
        directory._append_line(line_of(Record(directory._name, 0, [example(5)])))
        directory.confirm()
        found = await bits(follower)
        forgotten = {"to": "gone", "id": "cd", "learned": 0, "examples": "skip"}
        directory._append_line(line_of(Record(directory._name, 1, [], rollback=forgotten)))
        directory.confirm()
        with pytest.raises(ModelDirectoryError, match="was replaced"):
            await follower.catch_up()
    async with new_learner() as reference:
        await reference.learn(example(5))
        expected = await bits(reference)

    assert found == expected


async def test_a_damaged_line_is_told_and_predictions_go_on_until_a_checkpoint_mends_it(tmp_path):
    async with new_learner(tmp_path) as learner, follower_of(tmp_path) as follower:
        await learner.learn(example(0))
        assert (await bits(follower))[0] == 1
        size = (tmp_path / "journal").stat().st_size
        await learner.learn(example(1))
        content = bytearray((tmp_path / "journal").read_bytes())
        content[size + 30] ^= 1
        (tmp_path / "journal").write_bytes(content)
        with pytest.raises(ModelDirectoryError, match=rf"damaged line at byte {size}"):
            await follower.catch_up()
        before = await answer_of(follower), follower.learned
        await learner.checkpoint()
        found = await bits(follower), await bits(learner)

    assert before[1] == 1
    assert found[0] == found[1]


async def test_a_follower_goes_on_where_its_source_fails_and_says_so(tmp_path, caplog):
    async with new_learner(tmp_path) as learner, follower_of(tmp_path, interval=0.0001) as follower:
        await learner.learn(example(0))
        await turns_until(lambda: follower.learned == 1)
        aside = tmp_path / "aside"
        (tmp_path / "checkpoint.npz").rename(aside)
        await turns_until(lambda: follower.statistics().following_error is not None)
        statistics = follower.statistics()
        answer = await answer_of(follower), await answer_of(learner)
        aside.rename(tmp_path / "checkpoint.npz")
        await turns_until(lambda: follower.statistics().following_error is None)
        lag = follower.statistics().lag_seconds

    assert "has no checkpoint.npz any more" in str(statistics.following_error)
    assert answer[0] == answer[1]
    assert lag >= 0
    assert caplog.text.count("the follower goes on with the model after 1 examples") >= 1


async def test_a_directory_of_another_history_is_loaded_anew(tmp_path):
    path = tmp_path / "model"
    async with new_learner(path) as learner, follower_of(path) as follower:
        await learner.learn(example(0))
        copy = as_killed(path, tmp_path / "copy")
        await learner.learn(example(1))
        assert (await bits(follower))[0] == 2
        await crash(learner)
        # Restored from a copy, and gone on from there by other examples.
        for name in ("checkpoint.npz", "journal"):
            os.replace(copy / name, path / name)  # noqa: PTH105  # as whoever restores it
        async with new_learner(path) as restored:
            await restored.learn(example(3))
            await restored.learn(example(4))
            found = await bits(follower), await bits(restored)

    assert found[0] == found[1]


@final
class _Proxy(httpx.AsyncBaseTransport):
    """Passes requests on, and cuts some connections: before the request has arrived, or within the answer."""

    def __init__(self, transport: httpx.AsyncBaseTransport, seed: int) -> None:
        self._transport, self._rng = transport, random.Random(seed)
        self.cuts = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = None
        if self._rng.random() < 0.7:
            answer = await self._transport.handle_async_request(request)
        if answer is None or self._rng.random() < 0.3:
            self.cuts += 1
            raise httpx.RemoteProtocolError("peer closed connection", request=request)
        return answer


@pytest.mark.parametrize("seed", range(2))
async def test_a_proxy_that_cuts_connections_delays_a_follower_and_its_promotion_and_loses_nothing(tmp_path, seed):
    async with new_learner(tmp_path / "old", checkpoint_every=3) as learner:
        await learner.checkpoint("first")
        async with follower_over_http(learner, mounted={"max_bytes": 700}) as follower:
            proxy = _Proxy(follower._source._client._transport, seed)
            follower._source._client._transport = proxy
            for number in range(6):
                await learner.learn(example(number))
            await learner.rollback("first", examples="learn")
            await until_it_succeeds(follower.catch_up)
            found = follower.learned, await answer_of(follower), await bits(learner)
            await learner.learn(example(6))
            await until_it_succeeds(lambda: follower.promote(tmp_path / "new"))
            with pytest.raises(JournalError, match="goes on elsewhere"):
                await learner.learn(example(7))
            last = await bits(follower), await bits(learner)

    assert found[:2] == found[2]
    assert last[0] == last[1]
    assert proxy.cuts > 3


async def until_it_succeeds(work: Callable[[], Any]) -> None:
    """Await something again and again while the connection fails."""
    while True:
        try:
            await work()
        except ConnectionError:
            continue
        return


async def test_a_follower_serves_versions_beside_its_model_until_another_serves_none(tmp_path, making):
    async with new_learner(tmp_path) as learner, making(learner) as follower:
        await learner.learn(example(0))
        await learner.checkpoint("first")
        expected = await answer_of(learner)
        await learner.learn(example(1))
        with pytest.raises(ExampleError, match=r"one that is served, 'current', not 'first': await learner\.serve"):
            await follower.predict(QUESTION, version="first")
        await follower.serve("first")
        await follower.catch_up()
        await learner.forget("first")
        found = (await follower.predict(QUESTION, version="first")).tolist()
        own = (await follower.predict(QUESTION, version="current")).tolist()
        with pytest.raises(ArgumentError, match=r"has no version 'first': there, await learner\.checkpoint\('first'\)"):
            await follower.serve("first")
        with pytest.raises(ArgumentError, match="has up to 64 letters"):
            await follower.serve("../checkpoint")
        await follower.serve()
        with pytest.raises(ExampleError, match="'current', not 'first'"):
            await follower.predict(QUESTION, version="first")
        last = await answer_of(learner)

    assert found == expected != last
    assert own == last


# --- promotion -----------------------------------------------------------------------------------


async def test_a_promoted_follower_has_all_that_was_acknowledged_and_learns_on(tmp_path):
    learner = new_learner(tmp_path, checkpoint_every=100)
    await learner.__aenter__()
    async with follower_of(tmp_path) as follower, follower_of(tmp_path) as other:
        for seed in range(5):
            await learner.learn(example(seed))
        before = await answer_of(learner)
        with pytest.raises(LearnerClosedError, match="does not learn: send examples to the learner"):
            await follower.learn(example(9))
        await crash(learner)
        promoted = await follower.promote()
        after = await answer_of(follower)
        again = await follower.promote()
        learned = await follower.learn(example(5))
        found = await bits(other), await bits(promoted)
        statistics = follower.statistics()
        answered = follower.latencies["predict"].count
        await answer_of(follower)
        answered = follower.latencies["predict"].count - answered
    async with new_learner(tmp_path) as last:
        at_the_end = await bits(last)

    assert before == after
    assert promoted is again is follower.learner
    assert learned.learned == 6
    assert found[0] == found[1] == at_the_end
    assert (statistics.lag_bytes, statistics.lag_seconds, statistics.learned) == (0, 0.0, 6)
    assert answered == 1


async def test_of_followers_that_are_promoted_at_once_one_is_and_the_others_follow_it(tmp_path):
    learner = new_learner(tmp_path)
    await learner.__aenter__()
    await learner.learn(example(0))
    await learner.checkpoint("first")
    async with follower_of(tmp_path) as one, follower_of(tmp_path) as other:
        for follower in (one, other):
            await follower.serve("first")
        await learner.learn(example(1))
        await crash(learner)
        ended = await asyncio.gather(one.promote(), other.promote(), return_exceptions=True)
        promoted, left = (one, other) if isinstance(ended[0], Learner) else (other, one)
        await promoted.learn(example(2))
        found = await bits(left), await bits(promoted)
        served = [(await each.predict(QUESTION, version="first")).tolist() for each in (one, other)]

    assert {type(each) for each in ended} == {Learner, ModelDirectoryError}
    assert left.learner is None
    assert found[0] == found[1]
    assert found[0][0] == 3
    assert served[0] == served[1] != found[0][1]


async def test_a_follower_is_not_promoted_while_its_learner_lives(tmp_path):
    async with new_learner(tmp_path) as learner, follower_of(tmp_path) as follower:
        await learner.learn(example(0))
        with pytest.raises(ModelDirectoryError, match="is in use by another process"):
            await follower.promote()
        await learner.learn(example(1))
        found = await bits(follower), await bits(learner)

    assert found[0] == found[1]
    assert follower.learner is None


async def test_a_learner_that_comes_back_after_a_promotion_acknowledges_nothing(tmp_path, monkeypatch):
    learner = new_learner(tmp_path)
    await learner.__aenter__()
    await learner.learn(example(0))
    await learner.checkpoint("both")
    await learner.checkpoint()
    # A file system of the network gives the lock to another machine when this one does not answer for long.
    monkeypatch.setattr("fcntl.flock", lambda *given: None)
    async with follower_of(tmp_path) as follower:
        promoted = await follower.promote()
        await promoted.learn(example(1))
        with pytest.raises(JournalError, match="another process has taken over the directory"):
            await learner.learn(example(2))
        with pytest.raises(OSError, match="another process has taken over the directory"):
            await learner.checkpoint()
        with pytest.raises(JournalError, match="taken over"):
            await learner.set_options(lr=0.5)
        with pytest.raises(OSError, match="taken over"):
            await learner.checkpoint("another")
        with pytest.raises(OSError, match="taken over"):
            await learner.forget("both")
        await learner.__aexit__(None, None, None)
        await promoted.learn(example(3))
        expected = await bits(promoted)
        found = as_killed(tmp_path, tmp_path / "copy")
    async with new_learner(found) as restarted:
        assert await bits(restarted) == expected
        assert list(restarted.versions()) == ["both"]

    assert expected[0] == 3


async def test_a_line_that_was_under_way_at_a_takeover_is_acknowledged_by_nobody(tmp_path, monkeypatch):
    monkeypatch.setattr("fcntl.flock", lambda *given: None)
    old = ModelDirectory(tmp_path)
    old.begin({"a": np.zeros(1)})
    old.append(0, [example(0)])
    write, others = directory_module._write, []

    def taken_over_meanwhile(descriptor: int, data: bytes) -> None:
        if not others:
            others.append(None)
            new = ModelDirectory(tmp_path, takes_over=True)
            new.checkpoint()
            assert len(list(new.replay(0))) == 1
            new.save_checkpoint({"a": np.ones(1)})
            others.append(new)
        write(descriptor, data)

    monkeypatch.setattr(directory_module, "_write", taken_over_meanwhile)
    with pytest.raises(JournalError, match="taken over"):
        old.append(1, [example(1)])
    old.take_back()
    new: Any = others[1]
    new.append(1, [example(2)])
    new.append(2, [example(3)])
    # It removes its own last line, and what the old one has written is in another file.
    new.take_back()
    old.close()
    new.close()
    last = ModelDirectory(tmp_path)
    last.checkpoint()
    found = [record.learned for record in last.replay(1)]
    last.close()

    assert found == [1]


async def test_a_follower_of_a_url_is_promoted_in_a_directory_of_its_own(tmp_path):
    async with new_learner(tmp_path / "old") as learner, follower_over_http(learner) as follower:
        await learner.set_options(lr=0.3)
        await learner.learn(example(0))
        await follower.catch_up()
        with pytest.raises(ArgumentError, match="needs a directory to learn in"):
            await follower.promote()
        with pytest.raises(ArgumentError, match="has a model already"):
            await follower.promote(tmp_path / "old")
        await learner.learn(example(1))
        await learner.learn(example(2))
        # It reads these two, and what is written from now on is refused.
        await follower.promote(tmp_path / "new")
        with pytest.raises(JournalError, match="goes on elsewhere"):
            await learner.learn(example(3))
        await learner.checkpoint()
        with pytest.raises(JournalError, match="goes on elsewhere"):
            await learner.set_options(lr=0.1)
        found = await bits(follower), await bits(learner)
        await follower.learn(example(3))
        last = await bits(follower)
    async with new_learner(tmp_path / "new") as restarted:
        assert await bits(restarted) == last
    with pytest.raises(ModelDirectoryError, match="goes on elsewhere: a follower was promoted"):
        async with new_learner(tmp_path / "old"):
            pass

    assert found[0] == found[1]
    assert found[0][0] == 3


async def test_a_step_that_is_under_way_when_a_follower_of_a_url_is_promoted_is_refused(tmp_path):
    model = Gate()
    learner = new_learner(tmp_path / "old", model=model, optimizer=optim.Adam(model, lr=0.01))
    async with learner, follower_over_http(learner) as follower:
        model.shut("backward")
        learning = asyncio.create_task(learner.learn(example(0)))
        await turns_until(lambda: model.began("backward") == 1)
        promoting = asyncio.create_task(follower.promote(tmp_path / "new"))
        await turns_until(lambda: (tmp_path / "old" / "fenced").exists())
        model.open()
        await promoting
        with pytest.raises(JournalError, match="goes on elsewhere"):
            await learning
        found = await bits(follower), await bits(learner)

    assert found[0] == found[1]
    assert found[0][0] == 0


async def test_a_step_that_is_being_made_at_a_promotion_is_waited_for_and_read(tmp_path, monkeypatch):
    learner = new_learner(tmp_path / "old")
    async with learner, follower_over_http(learner) as follower:
        step, gate = learner.optimizer.step_async, asyncio.Event()

        async def gated() -> None:
            await gate.wait()
            await step()

        monkeypatch.setattr(learner.optimizer, "step_async", gated)
        learning = asyncio.create_task(learner.learn(example(0)))
        await turns_until(lambda: learner.statistics().stage == "step")
        promoting = asyncio.create_task(follower.promote(tmp_path / "new"))
        await turns_until(lambda: (tmp_path / "old" / "fenced").exists())
        for _ in range(1000):
            await asyncio.sleep(0)
        is_done = promoting.done()
        gate.set()
        learned = await learning
        await promoting
        found = await bits(follower), await bits(learner)
        error = learner.statistics().journal_error

    assert not is_done
    assert learned.learned == 1
    assert found[0] == found[1]
    assert "goes on elsewhere" in str(error)


async def test_a_follower_whose_learner_is_gone_is_promoted_with_a_warning(tmp_path, caplog):
    learner = new_learner(tmp_path / "old")
    await learner.__aenter__()
    await learner.learn(example(0))
    async with follower_over_http(learner) as follower:
        before = await bits(follower)
        await crash(learner)
        follower._source._client = httpx.AsyncClient(transport=httpx.AsyncHTTPTransport())
        follower._source._url = "http://127.0.0.1:1/journal"
        await follower.promote(tmp_path / "new")
        found = await bits(follower)

    assert found == before
    assert "cannot be reached: what it acknowledged in its last moments may be missing" in caplog.text


# --- bad use, and what is seen -------------------------------------------------------------------


@final
class _Other(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 1, dtype=np.float64)

    def forward(self, x: Any) -> Any:
        return self.first(x)


async def test_what_cannot_be_followed_is_told_at_the_start(tmp_path):
    with pytest.raises(ModelDirectoryError, match="start its learner first"):
        async with follower_of(tmp_path / "nothing"):
            pass
    assert not (tmp_path / "nothing").exists()
    other = _Other()
    async with new_learner(tmp_path) as learner:
        with pytest.raises(ModelDirectoryError, match="does not fit this model or optimizer"):
            async with follower_of(tmp_path, model=other, optimizer=optim.Adam(other)):
                pass
        with pytest.raises(ModelDirectoryError, match="refuses the key"):
            async with follower_over_http(learner, key="another key of that size"):
                pass
        follower = follower_over_http(learner)
        follower._source._url = "http://learner/elsewhere"
        with pytest.raises(ModelDirectoryError, match="is not there: mount learn"):
            async with follower:
                pass
    with pytest.raises(OSError, match="cannot be reached"):
        async with follower_of(tmp_path, source="http://127.0.0.1:1", key=KEY):
            pass


def test_arguments_of_a_follower_are_checked(tmp_path):
    with pytest.raises(ArgumentTypeError, match="source must be the path of a directory, or a URL"):
        follower_of(tmp_path, source=3)
    with pytest.raises(ArgumentError, match="a URL of http or https"):
        follower_of(tmp_path, source="ftp://learner")
    with pytest.raises(ArgumentError, match="with the key"):
        follower_of(tmp_path, source=URL)
    with pytest.raises(ArgumentError, match="key= is for a URL"):
        follower_of(tmp_path, key=KEY)
    with pytest.raises(ArgumentError, match="as its first argument"):
        follower_of(tmp_path, directory=tmp_path)
    with pytest.raises(ArgumentError, match="interval"):
        follower_of(tmp_path, interval=0)
    with pytest.raises(ArgumentError, match="batch_size must be at least 1"):
        follower_of(tmp_path, batch_size=0)
    with pytest.raises(ArgumentError, match="no journal to follow"):
        http.journal_app(new_learner(), key=KEY)
    with pytest.raises(ArgumentError, match="key must be a str of 16"):
        http.journal_app(new_learner(tmp_path), key="short")
    with pytest.raises(ArgumentTypeError, match="a Learner"):
        http.journal_app(3, key=KEY)
    with pytest.raises(ArgumentTypeError, match="a Learner or a Follower"):
        http.health_app(3)


def test_a_follower_takes_the_options_of_a_learner():
    taken = set(inspect.signature(Learner).parameters) - {"model", "loss", "optimizer", "directory"}

    assert set(LearnerOptions.__annotations__) == taken


async def test_a_follower_is_used_in_its_block_alone(tmp_path):
    async with new_learner(tmp_path):
        follower = follower_of(tmp_path)
        with pytest.raises(LearnerClosedError, match=r"async with follower: await follower\.predict"):
            await follower.predict(QUESTION)
        async with follower:
            assert follower.is_running
        with pytest.raises(LearnerClosedError, match="after the follower was closed"):
            await follower.catch_up()
        with pytest.raises(LearnerClosedError, match="used once"):
            await follower.__aenter__()

    assert not follower.is_running


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("lines?offset=-1", 400),
        ("lines?offset=²", 400),
        ("lines?offset=1&checksum=abc", 400),
        ("lines?journal=another", 410),
        ("lines?journal=another&offset=999999999999999999", 410),
        ("checkpoint?offset=x", 400),
        ("checkpoint?tag=another", 410),
        ("versions/none", 404),
        ("versions/..%2F..%2Fcheckpoint", 404),
        ("versions/.hidden", 404),
    ],
)
async def test_a_question_that_no_follower_asks_is_refused(tmp_path, query, status):
    async with new_learner(tmp_path) as learner:
        transport = httpx.ASGITransport(http.journal_app(learner, key=KEY))
        async with httpx.AsyncClient(transport=transport, base_url="http://learner") as client:
            answer = await client.get(f"/{query}", headers={"authorization": f"Bearer {KEY}"})
            without = await client.get(f"/{query}")

    assert answer.status_code == status
    assert without.status_code in (401, 400, 404)
    assert str(tmp_path) not in answer.text


async def test_a_stranger_is_sent_nothing(tmp_path):
    async with new_learner(tmp_path) as learner:
        transport = httpx.ASGITransport(http.journal_app(learner, key=KEY))
        async with httpx.AsyncClient(transport=transport, base_url="http://learner") as client:
            found = [
                (await client.get(path, headers=headers)).status_code
                for path in ("/lines", "/checkpoint", "/versions/a")
                for headers in ({}, {"authorization": f"Bearer {KEY}x"}, {"authorization": f"Basic {KEY}"})
            ]

    assert found == [401] * 9


@contextlib.asynccontextmanager
async def probing(one: Learner | Follower, **options: Any) -> AsyncIterator[Callable[[str], Any]]:
    """Give what asks the probes of a learner or a follower."""
    transport = httpx.ASGITransport(http.health_app(one, **options))
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:

        async def ask(path: str) -> int:
            return (await client.get(path)).status_code

        yield ask


async def test_probes_tell_whether_requests_should_come(tmp_path, monkeypatch):
    learner, follower = new_learner(tmp_path), follower_of(tmp_path)
    async with probing(learner) as of_learner, probing(follower, max_lag=1000) as of_follower:
        async with learner, follower:
            well = [await of_learner("/ready"), await of_follower("/ready")]
            monkeypatch.setattr(follower._following, "level_at", follower._following.level_at - 2000)
            late = await of_follower("/ready")
            directory: Any = learner._recorded.directory
            directory.broken = OSError("no disk")
            broken = [await of_learner("/ready"), await of_learner("/live")]
            directory.broken = None
        ended = await of_learner("/ready")

    assert (well, late, broken, ended) == ([200, 200], 503, [503, 200], 503)


async def test_a_collector_has_the_numbers_of_a_follower(tmp_path):
    registry = prometheus_client.CollectorRegistry()
    async with new_learner(tmp_path) as learner, follower_of(tmp_path) as follower:
        registry.register(prometheus_collector(follower, prefix="mine"))
        await learner.learn(example(1))
        await follower.catch_up()
        await follower.predict(QUESTION)
        names = ("learned_total", "applied_total", "loads_total", "lag_bytes", "can_follow", "predicted_total")
        found = [registry.get_sample_value(f"mine_{name}") for name in names]
        lag = registry.get_sample_value("mine_lag_seconds")

    assert found == [1.0, 1.0, 1.0, 0.0, 1.0, 1.0]
    assert lag is not None
    assert 0 <= lag < 60
