"""What finalizers send: it goes out later, joined and bounded; and calls that are cancelled keep no descriptor."""

from __future__ import annotations

import asyncio
import gc
import socket
import time
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Thread

import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'asyncgrad[serve]'")
pytest.importorskip("httpx", reason="needs httpx: pip install 'asyncgrad[serve]'")

import httpx

from asyncgrad.distributed import HttpTransport, Reply, Request, SimulatedTransport, http_app
from asyncgrad.distributed.outbox import Outbox
from asyncgrad.distributed.wire import decode, encode
from tests.support.loops import one_loop
from tests.support.sampling import cases
from tests.support.threads import PATIENCE
from tests.support.turns import settle

URL = "http://owner"
PONG = encode({"fields": {}}, [])


class Garbage:
    """A cycle, whose finalizer calls a function."""

    def __init__(self, finalize):
        self.itself, self._finalize = self, finalize

    def __del__(self):
        self._finalize()


class Network:
    """An HTTP server that collects garbage in the midst of each request, and notes what is asked."""

    def __init__(self):
        self.transport = HttpTransport([URL], client=self.client)
        self.is_finalizing = False
        self.begun_in_a_finalizer = []
        self.asked = []

    def client(self):
        client = httpx.AsyncClient(transport=httpx.MockTransport(self.answer))
        stream = client.stream

        def watched(*args, **options):
            if self.is_finalizing:
                self.begun_in_a_finalizer.append(args)
            return stream(*args, **options)

        client.stream = watched
        return client

    def finalize(self):
        self.is_finalizing = True
        self.transport.send(URL, Request("free", "one", {"keys": [str(len(self.asked))]}))
        self.is_finalizing = False

    async def answer(self, request):
        self.asked.append(decode(bytearray(request.content))[0])
        if self.asked[-1]["op"] == "ping":
            Garbage(self.finalize)
            gc.collect()
        return httpx.Response(200, content=PONG)


@one_loop
async def test_a_finalizer_in_the_midst_of_a_request_begins_no_other():
    network = Network()
    async with network.transport:
        for _ in range(3):
            await network.transport.call(URL, Request("ping", ""))

    assert network.begun_in_a_finalizer == []
    assert sorted(key for one in network.asked if one["op"] == "free" for key in one["fields"]["keys"])[0] == "1"


@one_loop
async def test_a_finalizer_on_a_thread_without_a_loop_is_sent_by_a_loop_that_has_connections():
    network = Network()
    async with network.transport:
        await network.transport.call(URL, Request("cancel", "one"))
        thread = Thread(target=network.finalize)
        thread.start()
        await asyncio.to_thread(thread.join)

    assert ([one["op"] for one in network.asked], network.begun_in_a_finalizer) == (["cancel", "free"], [])


@one_loop
async def test_a_finalizer_in_the_midst_of_a_simulated_request_starts_no_task():
    stack = []

    def on_message(worker, message):
        if isinstance(message, Reply):
            return
        stack.append(message.op)
        if message.op == "ping":
            before = asyncio.all_tasks()
            transport.send("a", Request("free", "one", {"keys": ["1"]}))
            assert asyncio.all_tasks() == before

    transport = SimulatedTransport(["a"], on_message=on_message)
    await transport.call("a", Request("ping", ""))
    for _ in range(5):
        await asyncio.sleep(0)

    assert stack == ["ping", "free"]


def test_what_is_freed_while_another_loop_runs_is_not_sent_on_that():
    transport = SimulatedTransport(["a"])
    arrived = []

    async def use():
        await transport.call("a", Request("ping", ""))

    async def drop():
        transport.on_message = lambda worker, message: arrived.append(message.op)
        transport.send("a", Request("free", "one", {"keys": ["1"]}))
        await settle()

    asyncio.run(use())
    asyncio.run(drop())

    assert arrived == []


class Deliveries:
    """Takes what an outbox delivers, and answers when it is told to."""

    def __init__(self):
        self.outbox = Outbox(asyncio.get_running_loop(), self.deliver)
        self.begun, self.answer = [], asyncio.Event()
        self.under_way = self.most = 0

    async def deliver(self, worker, request):
        self.begun.append((worker, request))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await self.answer.wait()
        self.under_way -= 1


@one_loop
async def test_graphs_that_are_freed_together_are_freed_by_one_request():
    one_of_each = [("free", "one", 1000), ("finish", "one", 1000), ("free", "other", 1), ("free", "one", 1)]
    found = Deliveries()
    for number in range(1000):
        found.outbox.put("a", Request("free", "one", {"keys": [str(number)], "attempt": 1}))
        found.outbox.put("a", Request("finish", "one", {"finish": [str(number)]}))
    found.outbox.put("a", Request("free", "other", {"keys": ["0"]}))
    found.outbox.put("a", Request("free", "one", {"keys": ["0"], "attempt": 2}))
    found.answer.set()
    await found.outbox.flush()

    assert [(one.op, one.stage, len(next(iter(one.fields.values())))) for _, one in found.begun] == one_of_each


@one_loop
async def test_what_is_sent_to_a_silent_worker_is_bounded_and_keeps_no_other_worker_waiting():
    found = Deliveries()
    for number in range(10_000):
        found.outbox.put("silent", Request("drop", str(number)))
    found.outbox.put("other", Request("drop", "one"))
    await asyncio.sleep(0)
    begun = [worker for worker, _ in found.begun]
    for number in range(10_000):
        found.outbox.put("silent", Request("drop", str(number)))
        if number % 1000 == 0:
            await asyncio.sleep(0)
    found.answer.set()
    await found.outbox.flush()
    count = len(found.begun)
    last = found.begun[-1][1].stage
    most = found.most

    assert begun == ["silent"] * 4 + ["other"]
    assert (count, last, most) == (5 + 4096, "9999", 5)


async def test_a_request_that_fails_keeps_no_other_from_being_sent():
    sent = []

    async def fail(_, request):
        sent.append(request.stage)
        await asyncio.sleep(0)
        raise OSError("gone")

    outbox = Outbox(asyncio.get_running_loop(), fail)
    for number in range(20):
        outbox.put("a", Request("drop", str(number)))
    await outbox.flush()

    assert sent == [str(number) for number in range(20)]


def test_an_outbox_whose_loop_has_been_closed_takes_requests_and_raises_nothing():
    async def main():
        return Deliveries()

    found = asyncio.run(main())
    found.outbox.put("a", Request("drop", "one"))

    assert found.begun == []


@asynccontextmanager
async def served(app):
    """The address of a server of an application, on this loop."""
    uvicorn = pytest.importorskip("uvicorn", reason="needs uvicorn: pip install 'asyncgrad[serve]'")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
        serving = asyncio.ensure_future(server._serve([listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving


@one_loop
async def test_calls_that_are_cancelled_at_any_moment_keep_no_descriptor():
    count = lambda: len(list(Path("/dev/fd").iterdir()))

    async def main(url):
        client = lambda: httpx.AsyncClient(verify=False, limits=httpx.Limits(max_connections=None))
        async with HttpTransport([url], client=client) as transport:
            await transport.call(url, Request("ping", ""))
            before = count()
            for number in range(cases(1000)):
                call = asyncio.ensure_future(transport.call(url, Request("ping", "")))
                for _ in range(number % 40):
                    await asyncio.sleep(0)
                call.cancel()
                await asyncio.wait([call])
            ends = time.monotonic() + PATIENCE
            # The server notices turns later that a connection has been closed. One may be new, at both ends.
            while count() > before + 2 and time.monotonic() < ends:
                await settle()
            return count() - before

    async def with_server():
        async with served(http_app({})) as url:
            return await main(url)

    assert await with_server() <= 2
