"""What a newcomer writes wrong: each error says what to write instead, and nothing is left open."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'asyncgrad[serve]'")
pytest.importorskip("httpx", reason="needs httpx: pip install 'asyncgrad[serve]'")

import httpx

import asyncgrad as ag
from asyncgrad import nn
from asyncgrad.distributed import HttpTransport, Request, http_app
from asyncgrad.errors import ArgumentError, ArgumentTypeError, BusyError, RemoteError, StageLost
from tests.support.loops import one_loop

URL = "http://owner"


def answered_by(answer):
    """A transport whose requests a function answers."""
    return HttpTransport([URL], client=lambda: httpx.AsyncClient(transport=httpx.MockTransport(answer)))


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("lab.example", "begins with http:// or https://"),
        ("127.0.0.1:8000", "begins with http:// or https://"),
        ("", "begins with http:// or https://"),
        ("http://", "begins with http:// or https://"),
        ("ftp://lab.example", "begins with http:// or https://"),
        ("http://lab.example:99999", "a port is at most 65535"),
        ("http://lab.example:http", "Invalid port"),
        ("http://lab.example/?key=1", r"has no \? or #"),
        ("http://lab.example/#stages", r"has no \? or #"),
        (f"http://{'a' * 70}", "too long"),
        ("http://lab..example", "empty"),
    ],
)
def test_what_is_no_address_of_a_server_is_told_before_anything_is_sent(address, text):
    with pytest.raises(
        ArgumentError, match=rf"is no address of a server, such as 'https://lab.example/stages': .*{text}"
    ):
        HttpTransport([address])
    with pytest.raises(ArgumentError, match="is no address of a server"):
        HttpTransport([URL]).stage("one", worker=address)


@pytest.mark.parametrize("workers", [None, 8000, [8000], [None], [b"http://owner"]])
def test_addresses_are_strings_in_a_list(workers):
    with pytest.raises(
        ArgumentTypeError, match=r"a list of addresses of servers, not|address of a server is a string, not"
    ):
        HttpTransport(workers)


@one_loop
@pytest.mark.parametrize(
    ("response", "text"),
    [
        (lambda: httpx.Response(404, text="Not Found"), "no stages are served there: the address is that of http_app"),
        (lambda: httpx.Response(405, text="no"), "no stages are served there"),
        (
            lambda: httpx.Response(301, headers={"location": "https://x"}),
            "names another address, which is not followed",
        ),
        (lambda: httpx.Response(200, html="<html>Welcome</html>"), "no reply of a stage, as http_app makes it"),
    ],
)
async def test_a_server_that_serves_no_stages_is_told_of(response, text):
    async with answered_by(lambda _: response()) as transport:
        with pytest.raises(RemoteError, match=text):
            await transport.stage("one").start()


@one_loop
async def test_a_server_that_cannot_be_reached_is_told_with_what_may_be_wrong():
    def refuses(request):
        raise httpx.ConnectError("[SSL: WRONG_VERSION_NUMBER]")

    def ends(request):
        raise httpx.RemoteProtocolError("Server disconnected without sending a response.")

    for answer, text in ((refuses, "is its address right, and is it http?"), (ends, "is its address one of https://?")):
        async with answered_by(answer) as transport:
            with pytest.raises(StageLost, match=f"cannot begin at worker {URL}.*{text[:-1]}"):
                await transport.stage("one").start()


@one_loop
async def test_a_reply_that_is_compressed_is_not_decoded():
    # Of 64 MiB: a layer more for each that it says.
    bomb, asked = gzip.compress(gzip.compress(bytes(1 << 20))), []

    def answer(request):
        asked.append(request.headers["accept-encoding"])
        headers = {"content-encoding": "gzip, gzip"}
        return httpx.Response(200, headers=headers, stream=httpx.ByteStream(bomb))

    async with answered_by(answer) as transport:
        with pytest.raises(RemoteError, match="is compressed, which was not asked for, and is not decoded"):
            await transport.call(URL, Request("ping", ""))
    assert asked == ["identity"]


@one_loop
async def test_what_comes_after_a_transport_was_closed_opens_nothing_and_says_so():
    made, app = [], http_app({"one": nn.Linear(3, 2)})

    def connect():
        made.append(httpx.AsyncClient(transport=httpx.ASGITransport(app=app)))
        return made[-1]

    transport = HttpTransport([URL], client=connect)
    async with transport:
        one = transport.stage("one")
        x = ag.tensor(np.ones(3), requires_grad=True)
        y = (await one(x)).sum()
    for work in (y.backward, lambda: one(x), one.step, transport.stage("one").start):
        with pytest.raises(StageLost, match="this transport was closed, and its stages with it: make another one"):
            await work()
    await one.close()
    assert (len(made), x.grad, app.state.counts()) == (1, None, {})
    async with transport, transport.stage("one") as again:
        await again(x)
    assert len(made) == 2


@one_loop
async def test_a_stage_that_was_closed_says_what_to_do_and_closes_twice():
    app = http_app({"one": nn.Linear(3, 2)})
    connect = lambda: httpx.AsyncClient(transport=httpx.ASGITransport(app=app))
    async with HttpTransport([URL], client=connect) as transport:
        one, other = transport.stage("one"), transport.stage("one")
        await one.start()
        with pytest.raises(BusyError, match=r"or this one by another Stage.*await stage\.close\(\) there"):
            await other.start()
        await one.close()
        await one.close()
        with pytest.raises(StageLost, match="has been closed: make another one"):
            await one(np.ones(3))
