"""Connections that take their time, and more of them than there may be."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections import Counter
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'asyncgrad[serve]'")
pytest.importorskip("fastapi", reason="needs FastAPI: pip install 'fastapi'")
pytest.importorskip("uvicorn", reason="needs uvicorn: pip install 'asyncgrad[serve]'")
pytest.importorskip("httpx", reason="needs httpx: pip install 'asyncgrad[serve]'")

from starlette.responses import PlainTextResponse

from asyncgrad.errors import ArgumentError
from asyncgrad.learn import http
from asyncgrad.learn.connections import RESERVED, within_descriptors
from tests.learn.making import new_learner, turns_until
from tests.learn.real import serving

#: The first headers of an example to learn.
POST = b"POST /learn HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n"
#: Headers that are never whole, from nothing at all to all but the last line.
HALVES = [b"", b"P", b"POST /learn HTTP/1.1\r\n", POST + b"Content-Length: 1\r\n"]
WHOLE = b"GET /nothing HTTP/1.1\r\nHost: here\r\n\r\n"


async def answer(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Return the head and the body of an answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    (length,) = [int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
    return head, await reader.readexactly(length)


@contextlib.asynccontextmanager
async def soon() -> Any:
    """Serve with little time for headers."""
    async with serving(new_learner(), protocol=http.connections(headers_timeout=0.05)) as (client, _):
        yield client


@contextlib.asynccontextmanager
async def connected(client: Any) -> Any:
    reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@pytest.mark.slow
@pytest.mark.parametrize("half", HALVES, ids=["nothing", "a byte", "a line", "all but the end"])
async def test_headers_that_do_not_end_are_not_waited_for(half):
    async with soon() as client, connected(client) as (reader, writer):
        writer.write(half)
        found = await reader.read()

    if half:
        assert found.startswith(b"HTTP/1.1 408 ")
        assert found.endswith(b'\r\n\r\n{"error": "the headers did not arrive within 0.05 s"}')
    else:
        assert found == b""


async def test_a_byte_now_and_then_gains_no_time():
    async with soon() as client, connected(client) as (reader, writer):
        writer.write(b"GET /health HTTP/1.1\r\nx: ")

        async def trickle():
            while True:
                writer.write(b"x")
                await asyncio.sleep(0)

        trickling = asyncio.create_task(trickle())
        line = await reader.readline()
        trickling.cancel()
        await asyncio.wait([trickling])
        found = line

    assert found.startswith(b"HTTP/1.1 408 ")


async def test_the_headers_of_a_second_request_are_timed_out_too():
    async with soon() as client, connected(client) as (reader, writer):
        writer.write(WHOLE)
        first, _ = await answer(reader)
        writer.write(b"GET /hea")
        second, _ = await answer(reader)
        found = first, second, await reader.read()
    first, second, rest = found

    assert (first[:12], second[:12], rest) == (b"HTTP/1.1 404", b"HTTP/1.1 408", b"")


@pytest.mark.slow
async def test_a_request_that_takes_longer_than_headers_may_is_not_cut_off():
    learner = new_learner()
    protocol = http.connections(headers_timeout=0.1)
    async with serving(learner, protocol=protocol) as (client, _), connected(client) as (reader, writer):
        learner.model.shut("forward")
        body = b'{"x": [1, 2], "y": [1]}'
        writer.write(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        await turns_until(lambda: learner.model.began("forward") == 1)
        asyncio.get_running_loop().call_later(0.2, learner.model.open)
        found = await answer(reader)
    head, _ = found

    assert head.startswith(b"HTTP/1.1 200 ")


async def test_more_clients_than_may_are_told_to_come_later_and_still_more_are_hung_up_on():
    protocol = http.connections(max_connections=2, spare_after=60)
    async with (
        serving(new_learner(), protocol=protocol) as (client, server),
        contextlib.AsyncExitStack() as stack,
    ):
        opened = []
        for count in range(1, 5):
            opened.append(await stack.enter_async_context(connected(client)))
            await turns_until(lambda count=count: len(server.server_state.connections) == count)
        async with connected(client) as (reader, _):
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        found = []
        for reader, writer in opened:
            writer.write(WHOLE)
            found.append(await answer(reader))
        rest = await opened[2][0].read()
        await turns_until(lambda: len(server.server_state.connections) == 2)
        async with connected(client) as (reader, writer):
            writer.write(WHOLE)
            result = found, rest, await answer(reader)
    found, rest, last = result
    statuses = [head[9:12] for head, _ in found]

    assert rest == b""
    assert statuses == [b"404", b"404", b"503", b"503"]
    assert found[2][1] == b'{"error":"2 clients are connected already, and no more may be"}'
    assert b"retry-after: 1" in found[2][0]
    # Two of the four are served still.
    assert last[0][9:12] == b"503"


async def ask_and_never_read(client, server, writer):
    """Ask, one request after another, for answers that are more than lies anywhere on the way."""
    name = writer.get_extra_info("sockname")
    (connection,) = [one for one in server.server_state.connections if one.client == name]
    connection.app = PlainTextResponse(b" " * 8_000_000)
    writer.transport.pause_reading()
    writer.write(WHOLE * 3)
    await turns_until(lambda: connection.flow.write_paused)


#: What clients do who keep a place, and a server waiting.
async def _send_nothing(client, server, writer):
    return


async def _send_half_of_the_headers(client, server, writer):
    writer.write(HALVES[-1])


async def _send_half_of_a_body(client, server, writer):
    writer.write(POST + b"Content-Length: 100\r\n\r\n{")


async def _send_half_of_a_body_that_nobody_reads(client, server, writer):
    writer.write(b"POST /nothing HTTP/1.1\r\nHost: here\r\nContent-Length: 100\r\n\r\n{")
    before = server.server_state.total_requests
    await turns_until(lambda: server.server_state.total_requests > before)
    writer.write(b"{")


async def _stay_idle(client, server, writer):
    before = server.server_state.total_requests
    writer.write(WHOLE)
    await turns_until(lambda: server.server_state.total_requests > before)


async def _ask_ahead(client, server, writer):
    writer.write(WHOLE * 500)
    before = server.server_state.total_requests
    await turns_until(lambda: server.server_state.total_requests > before)


STUCK = {
    "asks ahead": _ask_ahead,
    "sends nothing": _send_nothing,
    "sends half of the headers": _send_half_of_the_headers,
    "sends half of a body": _send_half_of_a_body,
    "sends half of a body that nobody reads": _send_half_of_a_body_that_nobody_reads,
    "has its answer": _stay_idle,
    "never reads": ask_and_never_read,
}


@contextlib.asynccontextmanager
async def one_more(client, server, count):
    """A further client; the server has so many connections then."""
    async with connected(client) as (reader, writer):
        name = writer.get_extra_info("sockname")
        await turns_until(lambda: any(one.client == name for one in server.server_state.connections) or reader.at_eof())
        assert len(server.server_state.connections) <= count
        yield reader, writer


@pytest.mark.slow
@pytest.mark.parametrize("stuck", STUCK.values(), ids=STUCK)
async def test_clients_that_keep_the_server_waiting_lock_nobody_out(stuck):
    learner = new_learner()
    protocol = http.connections(max_connections=3, spare_after=0)
    async with serving(learner, protocol=protocol) as (client, server), contextlib.AsyncExitStack() as stack:
        for _ in range(10):
            _, writer = await stack.enter_async_context(one_more(client, server, 7))
            await stuck(client, server, writer)
        async with one_more(client, server, 7) as (reader, writer):
            writer.write(WHOLE)
            head, _ = await answer(reader)
            await turns_until(lambda: len(server.server_state.connections) <= 6)
            found = head

    assert found.startswith(b"HTTP/1.1 404 ")


async def test_a_client_that_the_server_works_for_keeps_its_place():
    learner = new_learner()
    protocol = http.connections(max_connections=2, spare_after=0)
    async with serving(learner, protocol=protocol) as (client, server), contextlib.AsyncExitStack() as stack:
        learner.model.shut("forward")
        body = b'{"x": [1, 2], "y": [1]}'
        working = []
        for count in (1, 2):
            reader, writer = await stack.enter_async_context(one_more(client, server, 2))
            writer.write(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            await turns_until(lambda count=count: learner.statistics().pending == count)
            working.append(reader)
        async with connected(client) as (reader, writer):
            writer.write(WHOLE)
            third, _ = await answer(reader)
        learner.model.open()
        found = third, [(await answer(reader))[0][:13] for reader in working]
    third, others = found

    assert third.startswith(b"HTTP/1.1 503 ")
    assert others == [b"HTTP/1.1 200 "] * 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "stuck",
    [_send_half_of_a_body, _send_half_of_a_body_that_nobody_reads, ask_and_never_read],
    ids=["body", "body that nobody reads", "answers"],
)
async def test_a_client_that_neither_sends_nor_reads_is_disconnected(stuck):
    protocol = http.connections(body_timeout=0.05, write_timeout=0.05)
    async with (
        serving(new_learner(), protocol=protocol) as (client, server),
        one_more(client, server, 1) as (_, writer),
    ):
        await stuck(client, server, writer)
        await turns_until(lambda: not server.server_state.connections)


@pytest.mark.slow
async def test_an_answer_that_is_not_taken_does_not_keep_a_connection_that_is_closed():
    protocol = http.connections(write_timeout=0.2)
    async with (
        serving(new_learner(), protocol=protocol) as (client, server),
        one_more(client, server, 1) as (_, writer),
    ):
        (connection,) = server.server_state.connections
        await ask_and_never_read(client, server, writer)
        connection.transport.close()
        assert connection in server.server_state.connections
        await turns_until(lambda: not server.server_state.connections)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "status"), [(b"/learn", b"400"), (b"/nothing", b"404")], ids=["that is read", "after the answer"]
)
async def test_a_body_that_is_no_http_is_answered_once_and_raises_nothing(caplog, path, status):
    async with (
        serving(new_learner(), protocol=http.connections()) as (client, server),
        one_more(client, server, 1) as (reader, writer),
    ):
        (connection,) = server.server_state.connections
        head = POST.replace(b"/learn", path) + b"Transfer-Encoding: chunked\r\n\r\n"
        writer.write(head + b"1\r\n{\r\n")
        before = server.server_state.total_requests
        if status == b"404":
            await turns_until(lambda: server.server_state.total_requests > before)
        else:
            await turns_until(lambda: connection.cycle is not None)
        writer.write(b"zz\r\n")
        found = await reader.read()

    assert found.startswith(b"HTTP/1.1 " + status)
    assert found.count(b"HTTP/1.1 ") == 1
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_of_those_who_ask_ahead_one_request_is_begun_in_each_turn_of_the_loop():
    turn, begun = 0, []

    async def answers(scope, receive, send):
        begun.append((scope["client"], turn))
        await PlainTextResponse("")(scope, receive, send)

    loop = asyncio.get_running_loop()

    def count():
        nonlocal turn
        turn += 1
        nonlocal counting
        counting = loop.call_soon(count)

    async with (
        serving(new_learner(), protocol=http.connections()) as (client, server),
        contextlib.AsyncExitStack() as stack,
    ):
        opened = [await stack.enter_async_context(connected(client)) for _ in range(6)]
        await turns_until(lambda: len(server.server_state.connections) == len(opened))
        for connection in server.server_state.connections:
            connection.app = answers
        counting = loop.call_soon(count)
        for _, writer in opened:
            writer.write(WHOLE * 20)
        for reader, _ in opened:
            for _ in range(20):
                assert (await answer(reader))[0].startswith(b"HTTP/1.1 200 ")
        counting.cancel()
    seen, turns = set(), Counter()
    for client, at in begun:
        turns[at] += client in seen
        seen.add(client)

    assert len(begun) == 120
    assert max(turns.values()) == 1


@pytest.mark.slow
async def test_a_body_is_not_awaited_while_the_application_does_not_read():
    learner, go_on = new_learner(), asyncio.Event()

    async def slow(scope, receive, send):
        if scope["type"] == "http" and scope["path"] == "/slow":
            await go_on.wait()
        await application(scope, receive, send)

    protocol = http.connections(body_timeout=0.05)
    async with (
        serving(learner, protocol=protocol) as (client, server),
        one_more(client, server, 1) as (reader, writer),
    ):
        (connection,) = server.server_state.connections
        application, connection.app = connection.app, slow
        writer.write(b"POST /slow HTTP/1.1\r\nHost: here\r\nContent-Length: 200000\r\n\r\n" + b" " * 200_000)
        await turns_until(lambda: connection.flow.read_paused)
        asyncio.get_running_loop().call_later(0.2, go_on.set)
        found = await answer(reader)

    assert found[0].startswith(b"HTTP/1.1 404 ")


@pytest.mark.parametrize(
    ("descriptors", "most"), [(256, 112), (1000, 256), (40, 4), (10, 1), (resource.RLIM_INFINITY, 256)]
)
def test_there_are_never_so_many_that_descriptors_run_out(monkeypatch, descriptors, most):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (descriptors, descriptors))

    found = within_descriptors(256)

    assert found == most
    assert most == 1 or 2 * most + RESERVED <= descriptors or descriptors == resource.RLIM_INFINITY


def test_limits_of_connections_are_checked():
    with pytest.raises(ArgumentError, match="max_connections must be at least 1, not 0"):
        http.connections(0)
    for name in ("headers_timeout", "body_timeout", "write_timeout"):
        with pytest.raises(ArgumentError, match=f"{name} must be above 0, not 0"):
            http.connections(**{name: 0})
    with pytest.raises(ArgumentError, match="spare_after must be a finite number of at least 0"):
        http.connections(spare_after=-1)
