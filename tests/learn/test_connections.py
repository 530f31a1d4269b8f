"""Connections that take their time, and more of them than there may be."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'asyncgrad[serve]'")
pytest.importorskip("fastapi", reason="needs FastAPI: pip install 'fastapi'")
pytest.importorskip("uvicorn", reason="needs uvicorn: pip install 'asyncgrad[serve]'")
pytest.importorskip("httpx", reason="needs httpx: pip install 'asyncgrad[serve]'")

from asyncgrad.errors import ArgumentError
from asyncgrad.learn import http
from asyncgrad.learn.connections import RESERVED, within_descriptors
from tests.learn.making import new_learner, turns_until
from tests.learn.real import serving

#: Headers that are never whole, from nothing at all to all but the last line.
HALVES = [b"", b"P", b"POST /learn HTTP/1.1\r\n", b"POST /learn HTTP/1.1\r\nHost: here\r\nContent-Length: 1\r\n"]
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


@pytest.mark.parametrize("half", HALVES, ids=["nothing", "a byte", "a line", "all but the end"])
def test_headers_that_do_not_end_are_not_waited_for(run, half):
    async def main():
        async with soon() as client, connected(client) as (reader, writer):
            writer.write(half)
            return await reader.read()

    found = run(main())

    if half:
        assert found.startswith(b"HTTP/1.1 408 ")
        assert found.endswith(b'\r\n\r\n{"error": "the headers did not arrive within 0.05 s"}')
    else:
        assert found == b""


def test_a_byte_now_and_then_gains_no_time(run):
    async def main():
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
            return line

    assert run(main()).startswith(b"HTTP/1.1 408 ")


def test_the_headers_of_a_second_request_are_timed_out_too(run):
    async def main():
        async with soon() as client, connected(client) as (reader, writer):
            writer.write(WHOLE)
            first, _ = await answer(reader)
            writer.write(b"GET /hea")
            second, _ = await answer(reader)
            return first, second, await reader.read()

    first, second, rest = run(main())

    assert (first[:12], second[:12], rest) == (b"HTTP/1.1 404", b"HTTP/1.1 408", b"")


def test_a_request_that_takes_longer_than_headers_may_is_not_cut_off(run):
    async def main():
        learner = new_learner()
        protocol = http.connections(headers_timeout=0.1)
        async with serving(learner, protocol=protocol) as (client, _), connected(client) as (reader, writer):
            learner.model.shut("forward")
            body = b'{"x": [1, 2], "y": [1]}'
            writer.write(b"POST /learn HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            await turns_until(lambda: learner.model.began("forward") == 1)
            asyncio.get_running_loop().call_later(0.2, learner.model.open)
            return await answer(reader)

    head, _ = run(main())

    assert head.startswith(b"HTTP/1.1 200 ")


def test_more_clients_than_may_are_told_to_come_later_and_still_more_are_hung_up_on(run):
    async def main():
        protocol = http.connections(max_connections=2)
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
                return found, rest, await answer(reader)

    found, rest, last = run(main())
    statuses = [head[9:12] for head, _ in found]

    assert rest == b""
    assert statuses == [b"404", b"404", b"503", b"503"]
    assert found[2][1] == b'{"error":"2 clients are connected already, and no more may be"}'
    assert b"retry-after: 1" in found[2][0]
    # Two of the four are served still.
    assert last[0][9:12] == b"503"


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
    with pytest.raises(ArgumentError, match="headers_timeout must be above 0, not 0"):
        http.connections(headers_timeout=0)
