"""serve_live: on a socket of its own, with clients that are slow, gone, strange or many."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.settings.observers import BACKWARDS
from asyncgrad.errors import ArgumentError, ArgumentTypeError
from asyncgrad.observing.live import server as module
from asyncgrad.observing.live.server import LiveServer
from tests.learn.making import turns_until
from tests.observing.live.making import parsed


def port_of(server: LiveServer) -> int:
    return int(server.url.rpartition(":")[2].rstrip("/"))


async def sent(server: LiveServer, request: bytes) -> bytes:
    """Return the answer to what is sent, once the connection has ended."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
    writer.write(request)
    with contextlib.suppress(ConnectionError):
        found = await reader.read()
    writer.close()
    return found


def get(path: str = "/", host: str = "localhost") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()


async def test_the_page_and_its_events_are_served_and_tell_of_backward_passes():
    x = ag.tensor(np.ones(3), requires_grad=True)
    async with ag.engine.serve_live(port=0) as server:
        page = await sent(server, get())
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
        writer.write(get("/events"))
        await reader.readuntil(b"\r\n\r\n")
        await reader.readuntil(b"\n\n")
        whole = parsed(await reader.readuntil(b"\n\n"))
        await (x * x).sum().backward()
        following = parsed(await reader.readuntil(b"\n\n"))
        writer.close()

    assert page.startswith(b"HTTP/1.1 200 OK\r\n")
    assert page.endswith(b"</html>\n")
    assert whole[2]["facts"]["title"] == "backward passes"
    assert [kind for _, kind, _, _ in following[2]["records"]] == ["done"]
    assert following[2]["samples"][0]["latencies"]["backward"]["count"] == 1
    assert following[2]["samples"][0]["rates"]["backward passes"] > 0


async def test_passes_that_fail_time_out_or_are_cancelled_are_told_apart_and_nested_ones_are_parts():
    source = module.BackwardSource()
    begun = asyncio.Event()

    def new(hook: Any) -> Any:
        x = ag.tensor(2.0, requires_grad=True)
        y = x * 3.0
        y.register_hook(hook)
        return y

    def fails(grad: Any) -> None:
        raise ValueError("no")

    def is_late(grad: Any) -> None:
        raise TimeoutError

    async def waits(grad: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def nests(grad: Any) -> None:
        with ag.enable_grad():
            x = ag.tensor(2.0, requires_grad=True)
            y = x * x
        await y.backward()

    for hook in (fails, is_late):
        with pytest.raises((ValueError, TimeoutError)):
            await new(hook).backward()
    task = asyncio.create_task(new(waits).backward())
    await begun.wait()
    task.cancel()
    await asyncio.wait([task])
    await new(nests).backward()
    source.close()
    await new(lambda grad: None).backward()

    assert [one.kind for one in source.records.since(0)] == ["failed", "timed out", "cancelled", "done"]


async def test_nothing_is_observed_before_and_after_the_block():
    before = BACKWARDS.of_process
    server = ag.engine.serve_live(port=0)
    made = BACKWARDS.of_process
    async with server:
        within = BACKWARDS.of_process
    with pytest.raises(ArgumentError, match=r"the page has an address within its block"):
        _ = server.url
    with pytest.raises(ArgumentError, match="this page is shown already, or was"):
        await server.__aenter__()

    assert before == made == BACKWARDS.of_process
    assert len(within) == len(before) + 1


@pytest.mark.parametrize(
    "request_",
    [
        b"nonsense\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost\r\n\r\n",
        b"GET / HTTP/1.1\r\n Host: localhost\r\n\r\n",
        b"\x00\xff \x01 HTTP/1.1\r\n\r\n",
    ],
)
async def test_what_is_no_request_is_told_so(request_):
    async with ag.engine.serve_live(port=0) as server:
        answer = await sent(server, request_)

    assert answer == b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n"


async def test_a_stranger_whose_name_leads_here_is_refused_and_a_known_name_is_not():
    async with ag.engine.serve_live(port=0, names=["box.example"]) as server:
        found = [await sent(server, get(host=host)) for host in ("rebound.example", "box.example:80", "127.0.0.1")]

    assert [one.split(b" ")[1] for one in found] == [b"421", b"200", b"200"]


async def test_headers_that_are_too_long_or_too_late_get_no_answer(monkeypatch):
    monkeypatch.setattr(module, "HEADERS_TIMEOUT", 0.01)
    async with ag.engine.serve_live(port=0) as server:
        found = [await sent(server, one) for one in (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 10_000, b"GET / HT", b"")]

    assert found == [b"", b"", b""]


async def test_one_connection_too_many_is_ended(monkeypatch):
    monkeypatch.setattr(module, "CONNECTIONS", 2)
    async with ag.engine.serve_live(port=0) as server:
        streams = []
        for _ in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
            writer.write(get("/events"))
            await reader.readuntil(b"event: whole")
            streams.append(writer)
        third = await sent(server, get())
        for writer in streams:
            writer.close()
            await writer.wait_closed()
        await turns_until(lambda: not server._tasks)
        again = await sent(server, get())

    assert third == b""
    assert again.startswith(b"HTTP/1.1 200 OK")


async def test_the_end_of_the_block_ends_all_that_look_and_leaves_nothing():
    async with ag.engine.serve_live(port=0) as server:
        connections = [await asyncio.open_connection("127.0.0.1", port_of(server)) for _ in range(3)]
        for reader, writer in connections[:2]:
            writer.write(get("/events"))
            await reader.readuntil(b"event: whole")
        port = port_of(server)
    ends = []
    for reader, writer in connections:
        with contextlib.suppress(ConnectionError):
            await reader.read()
        ends.append(reader.at_eof() or reader.exception() is not None)
        writer.close()

    assert ends == [True] * 3
    assert not server._tasks
    with pytest.raises(ConnectionError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_an_end_that_is_cancelled_ends_and_leaves_nothing():
    server = await ag.engine.serve_live(port=0).__aenter__()
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
    writer.write(get("/events"))
    await reader.readuntil(b"event: whole")
    closing = asyncio.create_task(server.__aexit__(None, None, None))
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])
    writer.close()

    assert closing.cancelled()
    assert not server._tasks
    with pytest.raises(ArgumentError, match="within its block"):
        _ = server.url


async def test_a_port_that_is_taken_says_what_to_write():
    async with ag.engine.serve_live(port=0) as first:
        taken = port_of(first)
        with pytest.raises(
            OSError, match=re.escape(f"port {taken} of 127.0.0.1 is taken: ag.engine.serve_live(port=0)")
        ):
            await ag.engine.serve_live(port=taken).__aenter__()


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"host": 8000}, ArgumentTypeError, "host of ag.engine.serve_live must be a string"),
        ({"port": 70000}, ArgumentError, "port must be from 0 to 65535, and is 70000"),
        ({"port": -1}, ArgumentError, "port must"),
        ({"port": "8000"}, ArgumentTypeError, "port must"),
        ({"names": "box.example"}, ArgumentTypeError, "names must be a list of strings"),
        ({"names": [1]}, ArgumentTypeError, "names must be a list of strings"),
        ({"names": None}, ArgumentTypeError, "names must be a list of strings"),
        ({"stuck_after": 0}, ArgumentError, "stuck_after must be a number of seconds above 0, not 0"),
        ({"stuck_after": "1"}, ArgumentTypeError, "stuck_after must"),
    ],
)
def test_bad_arguments_are_named(options, error, text):
    with pytest.raises(error, match=text):
        ag.engine.serve_live(**options)
