"""A server that computes for long answers meanwhile whether it is there, and so is waited for."""

from __future__ import annotations

import asyncio
import threading

import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'asyncgrad[serve]'")
pytest.importorskip("httpx", reason="needs httpx: pip install 'asyncgrad[serve]'")

import httpx
import numpy as np

import asyncgrad as ag
from asyncgrad import optim
from asyncgrad.distributed import Definition, HttpTransport, Request, Stage, http_app
from asyncgrad.distributed.wire import decode, encode
from asyncgrad.errors import WorkerLostError
from tests.support.loops import one_loop
from tests.support.threads import PATIENCE
from tests.support.turns import settle

URL = "http://owner"


class Computing:
    """Functions of an owner, each of which goes on, once it is to take long, when a question has been answered."""

    def __init__(self):
        self.answered = threading.Event()
        self.takes_long = False
        self.seen = []

    def wait(self):
        if self.takes_long:
            self.answered.clear()
            self.seen.append(self.answered.wait(PATIENCE))

    def forward(self, x):
        self.wait()
        return x * 2

    def backward(self, x):
        computing = self

        class Slow(ag.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, grad):
                computing.wait()
                return grad * 2

        return Slow.apply(x)

    def backward_in_parts(self, x):
        return self.backward(x * 1.0) * 1.0

    async def note(self, response):
        """Called with each response of the server."""
        await response.aread()
        if decode(bytearray(response.request.content))[0]["op"] == "ping":
            self.answered.set()


@one_loop
@pytest.mark.parametrize("which", ["forward", "backward", "backward_in_parts"])
async def test_a_server_that_computes_answers_whether_it_is_there(which):
    computing = Computing()
    app = http_app({"slow": Definition(getattr(computing, which))})
    client = lambda: httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app), event_hooks={"response": [computing.note]}
    )
    async with HttpTransport([URL], client=client, patience=0.01) as transport:
        stage: Stage = transport.stage("slow")
        found = []
        # Long after it was short many times, which is what is known of it then.
        for computing.takes_long in (False, False, False, False, True):
            x = ag.tensor(np.ones(3), requires_grad=True)
            await (await stage(x)).sum().backward()
            found.append(x.grad.tolist())
    seen = computing.seen

    assert found == [[2.0] * 3] * 5
    assert seen == [True]


class SlowOptimizer(optim.SGD):
    """An owner's optimizer, whose step waits on its thread."""

    def __init__(self, params, wait):
        super().__init__(params, lr=1.0)
        self._wait = wait

    def step(self, grads=None, closure=None):
        self._wait()


@one_loop
async def test_a_server_that_makes_a_step_answers_whether_it_is_there():
    computing = Computing()
    computing.takes_long = True
    definition = Definition(lambda w, x: w * x, 2.0, optimizer=lambda params: SlowOptimizer(params, computing.wait))
    app = http_app({"slow": definition})
    client = lambda: httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app), event_hooks={"response": [computing.note]}
    )
    async with HttpTransport([URL], client=client, patience=0.01) as transport:
        await transport.stage("slow").step()

    assert computing.seen == [True]


@one_loop
async def test_nothing_is_asked_of_a_stage_while_a_step_runs():
    steps, order = threading.Event(), []

    def wait():
        assert steps.wait(PATIENCE)
        order.append("step")

    def body(w, x):
        order.append("forward")
        return w * x

    app = http_app({"slow": Definition(body, 2.0, optimizer=lambda params: SlowOptimizer(params, wait))})
    client = lambda: httpx.AsyncClient(transport=httpx.ASGITransport(app=app))
    async with HttpTransport([URL], client=client) as transport:
        stage = await transport.stage("slow").start()
        step = asyncio.ensure_future(stage.step())
        await settle()
        call = asyncio.ensure_future(stage(3.0))
        await settle()
        assert order == []
        steps.set()
        await step
        await call

    assert order == ["step", "forward"]


async def answer_once(reader, writer):
    """Answer the first request of a connection, and end it in place of an answer to the second one."""
    head = await reader.readuntil(b"\r\n\r\n")
    size = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
    await reader.readexactly(size)
    reply = encode({"fields": {}}, [])
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(reply), reply))
    # The next request, or the end of the connection.
    await reader.read(1)
    writer.close()


@one_loop
async def test_a_server_is_not_lost_with_the_connections_that_were_kept_to_it():
    server = await asyncio.start_server(answer_once, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, HttpTransport([url]) as transport:
        requests = [transport.call(url, Request("ping", "")) for _ in range(4)]
        await asyncio.gather(*requests)
        found = (await transport.call(url, Request("ping", ""))).fields

    assert found == {}


@one_loop
async def test_a_server_that_ends_a_new_connection_without_an_answer_is_lost():
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, HttpTransport([url]) as transport:
        with pytest.raises(WorkerLostError, match="does not answer"):
            await transport.call(url, Request("ping", ""))
