"""The helpers for requests, in a service on a real socket, asked by a real client on the same event loop."""

from __future__ import annotations

import asyncio
import errno
import json
import os

import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'asyncgrad[serve]'")
pytest.importorskip("fastapi", reason="needs FastAPI: pip install 'fastapi'")
pytest.importorskip("uvicorn", reason="needs uvicorn: pip install 'asyncgrad[serve]'")
pytest.importorskip("httpx", reason="needs httpx: pip install 'asyncgrad[serve]'")

import httpx

from asyncgrad.errors import ArgumentTypeError, ClientDisconnectedError
from asyncgrad.learn import http
from tests.learn.making import QUESTION, answers, example, failing_disk, new_learner, turns_until
from tests.learn.real import FRAMEWORKS, serving

ASK = QUESTION.tolist()


@pytest.fixture(params=FRAMEWORKS)
def framework(request):
    return request.param


def fields(seed):
    return {name: value.tolist() for name, value in example(seed).items()}


async def predicted(client):
    answer = await client.post("/predict", json=ASK)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_service_answers_and_learns(run, framework, tmp_path):
    async def main():
        async with serving(new_learner(tmp_path), framework) as (client, _):
            before = await predicted(client)
            learned = (await client.post("/learn", json=fields(1))).json()["learned"]
            return before, learned, await predicted(client)

    before, learned, after = run(main())
    assert learned == 1
    assert [before, after] == run(answers([1]))


def test_a_client_that_hangs_up_cancels_its_backward(run, framework, tmp_path):
    async def main():
        learner = new_learner(tmp_path)
        async with serving(learner, framework) as (client, _):
            learner.model.shut("backward")
            async with httpx.AsyncClient(base_url=client.base_url, trust_env=False) as other:
                learning = asyncio.create_task(other.post("/learn", json=fields(1)))
                await turns_until(lambda: learner.model.began("backward") == 1)
                learning.cancel()
                await asyncio.wait([learning])
            await turns_until(lambda: learner.statistics().cancelled == 1)
            await turns_until(lambda: learner.statistics().stage is None)
            learner.model.open()
            found = learner.statistics()
            assert (found.ended_in_backward, found.pending, found.learned) == (1, 0, 0)
            await client.post("/learn", json=fields(2))
            return await predicted(client)

    assert run(main()) == run(answers([2]))[-1]


def test_what_cannot_be_done_now_is_told_with_the_status_for_it(run, framework, tmp_path, monkeypatch):
    async def main():
        found = []

        async def post(seed):
            answer = await client.post("/learn", json=fields(seed))
            found.append((answer.status_code, answer.headers.get("retry-after"), answer.json()["error"]))

        learner = new_learner(tmp_path, max_pending=1)
        async with serving(learner, framework) as (client, _):
            learner.model.shut("forward")
            first = asyncio.create_task(client.post("/learn", json=fields(1)))
            await turns_until(lambda: learner.statistics().pending == 1)
            await post(2)
            learner.model.open()
            assert (await first).status_code == 200
            learner._timeout = 1e-9
            await post(3)
            learner._timeout = None
            with monkeypatch.context() as patch:
                failing_disk(patch, times=1)
                await post(4)
            learner._state = "closing"
            await post(5)
            learner._state = "running"
            return found

    assert [(status, later, text[:41]) for status, later, text in run(main())] == [
        (429, "1", "1 examples wait to be learned already, an"),
        (504, None, "not learned within 1e-09 s, and nothing h"),
        (503, "1", "the journal could not be written: [Errno "),
        (503, "1", "learn() came after the learner was closed"),
    ]


BAD = {
    "no JSON": (b"{", 400, "the body is not JSON: Expecting property name"),
    "nothing": (b"", 400, "the body is not JSON: Expecting value"),
    "no text": (b"\xff\xfe\xfa", 400, "the body is not JSON: "),
    "deep": (b"[" * 100_000, 400, "the body is not JSON: it is nested too deeply"),
    "digits": (b'{"x": [1, %s]}' % (b"1" * 5000), 400, "the body is not JSON: "),
    "an array": (b"[]", 422, "example must be an object with x and y, and is an array"),
    "no target": ({"x": [1, 2]}, 422, "example lacks y: "),
    "a string": ({"x": "12", "y": [1]}, 422, "example.x must be an array with 1 axis, and is a string"),
    "NaN": (b'{"x": [1, NaN], "y": [1]}', 422, "example.x[1] must lie within -1e+06 and 1e+06, and is NaN"),
    "too long": (b" " * 200_001, 413, "the body is longer than 200000 bytes"),
}


def test_what_is_wrong_with_a_body_is_told_and_changes_nothing(run, framework):
    async def main():
        learner = new_learner()
        async with serving(learner, framework, max_bytes=200_000) as (client, _):
            for which, (body, status, text) in BAD.items():
                content = body if isinstance(body, bytes) else json.dumps(body).encode()
                answer = await client.post("/learn", content=content)
                assert (answer.status_code, which) == (status, which), answer.text
                assert text in answer.json()["error"], which
            assert (learner.learned, learner.statistics().pending) == (0, 0)

    run(main())


def test_other_paths_and_methods_are_told_in_json_too(run, framework):
    async def main():
        async with serving(new_learner(), framework) as (client, _):
            found = [await client.get("/nothing"), await client.get("/learn")]
            return [(answer.status_code, answer.json()) for answer in found]

    assert run(main()) == [(404, {"error": "Not Found"}), (405, {"error": "Method Not Allowed"})]


def test_a_body_that_does_not_arrive_is_not_waited_for(run, framework):
    async def main():
        async with serving(new_learner(), framework, timeout=0.05) as (client, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
            writer.write(b"POST /learn HTTP/1.1\r\nHost: here\r\nContent-Length: 100\r\n\r\n{")
            line = await reader.readline()
            writer.close()
            await writer.wait_closed()
            return line

    assert run(main()).startswith(b"HTTP/1.1 408 ")


def test_a_body_in_chunks_is_held_to_the_limit_too(run, framework):
    async def chunks():
        for _ in range(30):
            yield b" " * 100

    async def main():
        async with serving(new_learner(), framework, max_bytes=1000) as (client, _):
            return (await client.post("/predict", content=chunks())).status_code

    assert run(main()) == 413


@pytest.mark.parametrize(("number", "status"), [(errno.EMFILE, 503), (errno.ENFILE, 503), (errno.EIO, 500)])
def test_a_want_of_descriptors_is_told_and_other_errors_are_the_services_own(run, caplog, number, status):
    async def main():
        learner = new_learner()
        async with serving(learner) as (client, _):

            async def fails(batch):
                raise OSError(number, os.strerror(number))

            learner._predictions._answer = fails
            return await client.post("/predict", json=ASK)

    answer = run(main())

    assert answer.status_code == status
    assert ("short of descriptors" in answer.json()["error"]) is (status == 503)
    assert answer.headers.get("retry-after") == ("1" if status == 503 else None)


def test_what_is_under_way_at_the_end_is_still_answered_and_saved(run, framework, tmp_path):
    async def main():
        learner = new_learner(tmp_path)
        async with serving(learner, framework) as (client, server):
            learner.model.shut("backward")
            learning = asyncio.create_task(client.post("/learn", json=fields(1)))
            await turns_until(lambda: learner.model.began("backward") == 1)
            server.should_exit = True
            learner.model.open()
            assert (await learning).json()["learned"] == 1
        assert (tmp_path / "journal").read_bytes() == b""
        async with new_learner(tmp_path) as again:
            return again.learned, again.statistics().replayed

    assert run(main()) == (1, 0)


class _Request:
    """A client that goes when it is told to."""

    def __init__(self):
        self.gone = asyncio.Event()

    async def receive(self):
        await self.gone.wait()
        return {"type": "http.disconnect"}


def test_work_for_a_client_is_awaited_cancelled_and_timed_out(run):
    async def main():
        request, ended = _Request(), []

        async def work(result):
            try:
                if result is None:
                    request.gone.set()
                    await asyncio.Event().wait()
                await asyncio.sleep(0)
                if isinstance(result, Exception):
                    raise result
                return result
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise

        assert await http.run_for_client(request, work(3)) == 3
        with pytest.raises(ZeroDivisionError):
            await http.run_for_client(request, work(ZeroDivisionError()))
        with pytest.raises(ClientDisconnectedError):
            await http.run_for_client(request, work(None))
        assert ended == ["cancelled"]
        with pytest.raises(TimeoutError, match=r"not done within 0\.01 s, and cancelled"):
            await http.run_for_client(_Request(), asyncio.Event().wait(), timeout=0.01)
        task = asyncio.create_task(http.run_for_client(_Request(), work(None)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(ArgumentTypeError, match=r"run_for_client\(request, work\) awaits work"):
            await http.run_for_client(_Request(), 3)

    run(main())
