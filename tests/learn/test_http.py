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
JSON = {"content-type": "application/json"}


@pytest.fixture(params=FRAMEWORKS)
def framework(request):
    return request.param


class Silent:
    """A request whose client says no more."""

    async def receive(self):
        await asyncio.Event().wait()


def fields(seed):
    return {name: value.tolist() for name, value in example(seed).items()}


async def predicted(client):
    answer = await client.post("/predict", json=ASK)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.slow
async def test_a_service_answers_and_learns(framework, tmp_path):
    async with serving(new_learner(tmp_path), framework) as (client, _):
        before = await predicted(client)
        learned = (await client.post("/learn", json=fields(1))).json()["learned"]
        found = before, learned, await predicted(client)
    before, learned, after = found
    assert learned == 1
    assert [before, after] == await answers([1])


@pytest.mark.slow
async def test_a_client_that_hangs_up_cancels_its_backward(framework, tmp_path):
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
        result = await predicted(client)

    assert result == (await answers([2]))[-1]


@pytest.mark.slow
async def test_what_cannot_be_done_now_is_told_with_the_status_for_it(framework, tmp_path, monkeypatch):
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
            learner._predictions.timeout = 1e-9
            await post(3)
            learner._predictions.timeout = None
            with monkeypatch.context() as patch:
                failing_disk(patch, times=1)
                await post(4)
            await learner.pause("a flood of spam")
            await post(4)
            await learner.resume()
            learner._state = "closing"
            await post(5)
            learner._state = "running"
            return found

    assert [(status, later, text[:41]) for status, later, text in await main()] == [
        (429, "1", "1 examples wait to be learned already, an"),
        (504, None, "not learned within 1e-09 s, and nothing h"),
        (503, "1", "the journal could not be written: [Errno "),
        (503, None, "nothing is learned until await learner.re"),
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


@pytest.mark.slow
async def test_what_is_wrong_with_a_body_is_told_and_changes_nothing(framework):
    learner = new_learner()
    async with serving(learner, framework, max_bytes=200_000) as (client, _):
        for which, (body, status, text) in BAD.items():
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            answer = await client.post("/learn", content=content, headers=JSON)
            assert (answer.status_code, which) == (status, which), answer.text
            assert text in answer.json()["error"], which
        assert (learner.learned, learner.statistics().pending) == (0, 0)


#: What a browser sends to another origin without asking it first, and what is like it.
UNASKED = [
    None,
    "",
    "text/plain",
    "text/plain;charset=UTF-8",
    "TEXT/PLAIN; application/json",
    "application/x-www-form-urlencoded",
    "application/x-www-form-urlencoded; charset=application/json",
    "multipart/form-data; boundary=application/json",
    "text/json",
    "text/plain+json",
    "application/jsonp",
    "application/octet-stream",
    "text/plain, application/json",
]


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/learn", "/predict"])
async def test_what_a_web_page_may_send_unasked_is_not_read(framework, path):
    learner = new_learner()
    async with serving(learner, framework) as (client, _):
        content = json.dumps(fields(1) if path == "/learn" else ASK)
        for kind in UNASKED:
            headers = {} if kind is None else {"content-type": kind}
            answer = await client.post(path, content=content.encode(), headers=headers)
            assert (answer.status_code, kind) == (415, kind), answer.text
            assert "send the header content-type: application/json" in answer.json()["error"]
        assert (learner.learned, learner.statistics().predicted) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    ["application/json", "Application/JSON; charset=utf-8", "application/json ;x=y", "application/vnd.mine+json"],
)
async def test_a_body_that_says_that_it_is_json_is_read(framework, kind):
    async with serving(new_learner(), framework) as (client, _):
        answer = await client.post("/predict", content=json.dumps(ASK), headers={"content-type": kind})
        found = answer.status_code

    assert found == 200


@pytest.mark.slow
async def test_a_browser_that_asks_first_is_not_told_that_it_may_send_json(framework):
    async with serving(new_learner(), framework) as (client, _):
        asked = {"origin": "https://elsewhere.example", "access-control-request-method": "POST"}
        answer = await client.options("/learn", headers={**asked, "access-control-request-headers": "content-type"})
        found = answer.status_code, [name for name in answer.headers if name.startswith("access-control")]

    assert found == (405, [])


@pytest.mark.slow
async def test_other_paths_and_methods_are_told_in_json_too(framework):
    async with serving(new_learner(), framework) as (client, _):
        found = [await client.get("/nothing"), await client.get("/learn")]
        result = [(answer.status_code, answer.json()) for answer in found]

    assert result == [(404, {"error": "Not Found"}), (405, {"error": "Method Not Allowed"})]


@pytest.mark.slow
async def test_a_body_that_does_not_arrive_is_not_waited_for(framework):
    async with serving(new_learner(), framework, timeout=0.05) as (client, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
        writer.write(
            b"POST /learn HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        )
        line = await reader.readline()
        writer.close()
        await writer.wait_closed()
        found = line

    assert found.startswith(b"HTTP/1.1 408 ")


@pytest.mark.slow
async def test_a_body_in_chunks_is_held_to_the_limit_too(framework):
    async def chunks():
        for _ in range(30):
            yield b" " * 100

    async def main():
        async with serving(new_learner(), framework, max_bytes=1000) as (client, _):
            return (await client.post("/predict", content=chunks(), headers=JSON)).status_code

    assert await main() == 413


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(errno.EMFILE, 503), (errno.ENFILE, 503), (errno.EIO, 500)])
async def test_a_want_of_descriptors_is_told_and_other_errors_are_the_services_own(caplog, number, status):
    learner = new_learner()
    async with serving(learner) as (client, _):

        async def fails(batch):
            raise OSError(number, os.strerror(number))

        learner._predictions.current._answer = fails
        answer = await client.post("/predict", json=ASK)

    assert answer.status_code == status
    assert ("short of descriptors" in answer.json()["error"]) is (status == 503)
    assert answer.headers.get("retry-after") == ("1" if status == 503 else None)


@pytest.mark.parametrize("text", ["the database does not answer", ""])
async def test_a_timeout_of_the_works_own_is_told_as_it_is_where_there_is_no_limit(text):
    async def fails():
        raise TimeoutError(text)

    with pytest.raises(TimeoutError) as found:
        await http.run_for_client(Silent(), fails())

    assert str(found.value) == text


@pytest.mark.slow
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ETIMEDOUT])
async def test_no_answer_names_a_file_of_the_service(number):
    learner = new_learner()
    async with serving(learner) as (client, _):

        async def fails(batch):
            raise OSError(number, os.strerror(number), "/home/mine/secret", None, "/home/mine/other")

        learner._predictions.current._answer = fails
        answer = await client.post("/predict", json=ASK)

    assert answer.status_code in (503, 504)
    assert answer.json()["error"].endswith(f"[Errno {number}] {os.strerror(number)}")


async def test_no_answer_names_the_directory_of_the_learner(tmp_path, monkeypatch):
    learner = new_learner(tmp_path)
    async with serving(learner) as (client, _):
        learner._recorded.directory._following = "name"
        with monkeypatch.context() as patch:
            opens = os.open
            patch.setattr(
                os, "open", lambda path, *given: opens(path / "missing" if path == tmp_path else path, *given)
            )
            answer = await client.post("/learn", json=fields(1))
        learner._recorded.directory._following = None

    assert answer.status_code == 503
    assert answer.json() == {
        "error": f"the journal could not be written: [Errno {errno.ENOENT}] {os.strerror(errno.ENOENT)}"
    }


@pytest.mark.slow
async def test_what_is_under_way_at_the_end_is_still_answered_and_saved(framework, tmp_path):
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
        found = again.learned, again.statistics().replayed

    assert found == (1, 0)


class _Request:
    """A client that goes when it is told to."""

    def __init__(self):
        self.gone = asyncio.Event()

    async def receive(self):
        await self.gone.wait()
        return {"type": "http.disconnect"}


async def test_work_for_a_client_is_awaited_cancelled_and_timed_out():
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
