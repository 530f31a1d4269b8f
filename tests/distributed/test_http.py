"""Stages over HTTP: two owners, of whom neither sees the other's parameters or runs the other's code."""

from __future__ import annotations

import asyncio
import gc
from contextlib import asynccontextmanager, suppress

import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'asyncgrad[serve]'")
pytest.importorskip("httpx", reason="needs httpx: pip install 'asyncgrad[serve]'")

import httpx
import numpy as np

import asyncgrad as ag
from asyncgrad import nn, optim
from asyncgrad.distributed import Definition, HttpTransport, RemoteGroup, Request, StageHost, http_app, stage
from asyncgrad.distributed.wire import decode, encode
from asyncgrad.errors import (
    ArgumentError,
    ArgumentTypeError,
    BusyError,
    PayloadError,
    RemoteError,
    StageLost,
    WorkerLostError,
)
from tests.distributed.parts import check_layouts, forward, layer, local_gradients, make_params, sum_and_strides
from tests.support.loops import one_loop
from tests.support.sampling import cases
from tests.support.turns import settle

URL = "http://owner"
TYPE = {"content-type": "application/octet-stream"}


@asynccontextmanager
async def connected(*apps, on_body=None, **options):
    """A transport to the applications, at http://0, http://1, and so on; `on_body` sees the bytes of both ways."""
    mounts = {f"http://{number}": httpx.ASGITransport(app=app) for number, app in enumerate(apps)}

    async def watch(message):
        if on_body is not None:
            on_body(await message.aread())

    hooks = {"request": [watch], "response": [watch]}
    async with HttpTransport(
        list(mounts), client=lambda: httpx.AsyncClient(mounts=mounts, event_hooks=hooks), **options
    ) as transport:
        yield transport


@asynccontextmanager
async def answered_by(handler, **options):
    """A transport whose requests a function answers."""
    client = lambda: httpx.AsyncClient(transport=httpx.MockTransport(handler))
    async with HttpTransport([URL], client=client, **options) as transport:
        yield transport


class Steps:
    """Events of a body at the server."""

    def __init__(self):
        self.begun, self.go_on, self.cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def __call__(self, x):
        self.begun.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return x * 2


async def test_gradients_over_http_have_the_bits_of_a_local_run():
    definitions = {str(number): Definition(layer, pair) for number, pair in enumerate(make_params())}
    async with connected(http_app(definitions, share_parameters=True)) as transport:
        scale = ag.tensor(1.5, requires_grad=True)
        stages = [transport.stage(name) for name in definitions]
        await (await forward(stages, scale)).backward()
        found = [[grad.tolist() for grad in await one.grads()] for one in stages], scale.grad.item()

    assert found == await local_gradients()


@one_loop
async def test_an_owner_s_module_learns_as_it_would_at_home_and_its_parameters_never_travel():
    theirs, same = nn.Linear(3, 2), nn.Linear(3, 2)
    same.load_state_dict(theirs.state_dict())
    bodies = []

    definition = Definition(theirs, optimizer=lambda model: optim.SGD(model, lr=0.5))
    stages = {"encoder": definition, "copied": Definition(lambda w, x: w * x, 2.0, optimizer=definition.optimizer)}
    async with connected(http_app(stages), on_body=bodies.append) as transport:
        encoder = transport.stage("encoder")
        optimizer = optim.SGD(same, lr=0.5)
        for x in np.random.default_rng(0).normal(size=(3, 4, 3)):
            await np.square(await encoder(x)).sum().backward()
            await encoder.step()
            await np.square(same(x)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        for ask in (encoder.parameters, encoder.grads):
            with pytest.raises(PermissionError, match="parameters are its owner's"):
                await ask()
        with pytest.raises(PermissionError, match="options of the optimizer are its owner's"):
            await encoder.step(lr=1e6)
        with pytest.raises(PermissionError, match="make the stage with backup=False"):
            await transport.stage("copied", backup=True).step()

    assert theirs.weight.tolist() == same.weight.tolist()
    assert theirs.bias.tolist() == same.bias.tolist()
    secrets = [theirs.weight.numpy().tobytes(), theirs.bias.numpy().tobytes()]
    assert not any(secret in body for secret in secrets for body in bodies)


@one_loop
async def test_a_failure_at_one_owner_leaves_the_gradients_of_both_as_they_were():
    async def fails(_):
        raise ZeroDivisionError("this owner's backward fails")

    class Fails(ag.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            raise ZeroDivisionError("this owner's backward fails")

    first, second = nn.Linear(3, 3), nn.Linear(3, 3)

    async def main():
        apps = http_app({"a": first}), http_app({"b": second, "fails": lambda x: Fails.apply(x)})
        async with connected(*apps) as transport:
            at = [transport.stage("a"), transport.stage("b", worker="http://1")]
            failing = transport.stage("fails", worker="http://1")
            x = np.ones(3)
            for one in at:
                await (await one(x)).sum().backward()
            before = [one.weight.grad.tolist() for one in (first, second)]
            home = ag.tensor(2.0, requires_grad=True)
            y = await at[0](x * home) + await failing(await at[1](x * home))
            with pytest.raises(ZeroDivisionError, match=r"the stage has failed \(error \w{32}\)") as caught:
                await y.sum().backward()
            assert [one.weight.grad.tolist() for one in (first, second)] == before
            assert home.grad is None
            return "\n".join(caught.value.__notes__)

    notes = await main()

    assert "ask the owner of http://1" in notes
    assert "remote traceback" not in notes


@one_loop
async def test_an_error_whose_type_is_not_known_here_arrives_by_its_name():
    class Odd(Exception):
        pass

    def odd(_):
        raise Odd("something odd")

    async with connected(http_app({"odd": odd}, show_errors=True)) as transport:
        with pytest.raises(RemoteError, match=r"Odd: something odd") as caught:
            await transport.stage("odd")(1.0)
        assert "raise Odd" in "".join(caught.value.__notes__)


@one_loop
async def test_messages_that_are_too_large_are_refused_on_either_way():
    x = np.zeros(1 << 19)

    app = http_app({"grow": lambda x: np.concatenate([x] * 8), "same": lambda x: x}, max_bytes=1 << 20)
    async with connected(app) as transport:
        with pytest.raises(PayloadError, match="the reply of stage grow"):
            await transport.stage("grow")(np.zeros(1 << 15))
        with pytest.raises(PayloadError, match="answers 413: the request has more than"):
            await transport.stage("same")(x)
    async with connected(http_app({"same": lambda x: np.concatenate([x] * 4)}), max_bytes=1 << 20) as transport:
        with pytest.raises(PayloadError, match=r"the request 'forward' to stage same"):
            await transport.stage("same")(x)
        with pytest.raises(PayloadError, match="the reply of http://0 has more than"):
            await transport.stage("same")(x[: 1 << 17])


@one_loop
async def test_a_server_that_is_slow_is_waited_for():
    steps, pings = Steps(), asyncio.Event()

    def look(body):
        if b'"ping"' in body:
            pings.set()

    async with connected(http_app({"slow": steps}), on_body=look, patience=0.01) as transport:
        x = ag.tensor(3.0, requires_grad=True)
        call = asyncio.ensure_future(transport.stage("slow")(x))
        await pings.wait()
        pings.clear()
        await pings.wait()
        steps.go_on.set()
        found = (await call).item()

    assert found == 6.0


@one_loop
async def test_a_server_that_is_silent_or_gone_is_lost():
    async def silent(_):
        await asyncio.Event().wait()

    def gone(request):
        raise httpx.ConnectError("connection refused")

    def stopping(request):
        return httpx.Response(503, text="stopping")

    for handler, text in [(silent, "silent for 0.02 s"), (gone, "connection refused"), (stopping, "answers 503")]:
        async with answered_by(handler, patience=0.01) as transport:
            with pytest.raises(WorkerLostError, match=text):
                await transport.call(URL, Request("ping", ""))
            with pytest.raises(StageLost, match="cannot begin at worker"):
                await transport.stage("any")(1.0)


@one_loop
async def test_another_server_takes_over_where_the_owner_shares_the_parameters():
    apps = [http_app({"scale": Definition(lambda w, x: w * x, 2.0)}, share_parameters=True) for _ in range(2)]
    async with connected(*apps) as transport:
        one = transport.stage("scale", backup=True)
        x = ag.tensor(3.0, requires_grad=True)
        y = await one(x)
        transport._connections_here().client._mounts[next(iter(transport._connections_here().client._mounts))] = (
            httpx.MockTransport(lambda _: httpx.Response(502))
        )
        await y.backward()
        found = x.grad.item(), [grad.item() for grad in await one.grads()], one.worker

    assert found == (2.0, [3.0], "http://1")


@one_loop
async def test_a_stage_that_learned_at_a_server_that_was_restarted_is_lost_and_one_whose_connection_broke_is_not():
    async def main(is_restarted):
        apps = [http_app({"scale": Definition(lambda w, x: w * x, 2.0)}) for _ in range(2)]
        breaks = [False]

        async def serve(scope, receive, send):
            if breaks[0]:
                breaks[0] = False
                raise httpx.ReadError("the connection broke")
            await apps[0](scope, receive, send)

        async with connected(serve) as transport:
            scale = transport.stage("scale")
            await (await scale(3.0)).backward()
            x = ag.tensor(4.0, requires_grad=True)
            y = await scale(x)
            breaks[0] = True
            if is_restarted:
                del apps[0]
            await y.backward()
            return x.grad.item()

    assert await main(False) == 2.0
    with pytest.raises(StageLost, match="what it had learned is nowhere else"):
        await main(True)


@one_loop
async def test_replicas_meet_at_a_server_that_lets_them():
    async def main(**options):
        async with connected(http_app({}, **options)) as transport:
            groups = [RemoteGroup(transport, 2, worker="http://0", name="run", secret="s" * 22) for _ in range(2)]
            calls = [one.member(rank).all_reduce((1, 0), np.array([1.0, rank])) for rank, one in enumerate(groups)]
            return [one.tolist() for one in await asyncio.gather(*calls)]

    assert await main(replicas=True) == [[2.0, 1.0]] * 2
    with pytest.raises(PermissionError, match="does not answer 'all_reduce'"):
        await main()


@one_loop
async def test_a_cancelled_call_is_cancelled_at_the_server():
    steps = Steps()
    async with connected(http_app({"slow": steps})) as transport:
        call = asyncio.ensure_future(transport.stage("slow")(1.0))
        await steps.begun.wait()
        call.cancel()
        await steps.cancelled.wait()
        with pytest.raises(asyncio.CancelledError):
            await call


@one_loop
async def test_one_client_at_a_time_has_a_module_until_it_closes_its_stage_or_is_silent_for_long():
    now = 0.0

    async with connected(http_app({"one": nn.Linear(3, 2)}, ttl=10.0, clock=lambda: now)) as transport:
        first, second, third = (transport.stage("one") for _ in range(3))
        await first.start()
        with pytest.raises(BusyError, match="another client has stage 'one'"):
            await second.start()
        await first.close()
        await second.start()
        now = 8.0
        await second(np.ones(3))
        now = 17.0
        with pytest.raises(BusyError):
            await third.start()
        now = 18.5
        await third.start()
        with pytest.raises(BusyError):
            await second(np.ones(3))


@one_loop
@pytest.mark.parametrize("commits", [0, 1, 2])
async def test_a_home_that_dies_between_two_commits_leaves_a_gradient_at_no_owner(commits):
    now = 0.0
    models = [nn.Linear(2, 2), nn.Linear(2, 2)]
    make = lambda model: optim.SGD(model, lr=1.0)

    async def backward_of_one_that_dies(transport, stages):
        call, left = transport.call, commits

        async def die(worker, request):
            nonlocal left
            if request.op == "commit":
                left -= 1
            if left < 0 or (request.op in ("finish", "roll_back") and commits < 2):
                raise WorkerLostError("this home is no more")
            return await call(worker, request)

        transport.call = die
        y = await stages[1](await stages[0](np.ones(2)))
        if commits < 2:
            with pytest.raises(StageLost):
                await y.sum().backward()
        else:
            await y.sum().backward()
        left = -1
        return sum(model.weight.grad is not None for model in models)

    async def main():
        nonlocal now
        apps = [http_app({"one": Definition(model, optimizer=make)}, ttl=10.0, clock=lambda: now) for model in models]
        async with connected(*apps) as transport:
            first = [transport.stage("one", worker=f"http://{at}") for at in range(2)]
            assert await backward_of_one_that_dies(transport, first) == commits
        now = 11.0
        async with connected(*apps) as transport:
            before = [model.weight.tolist() for model in models]
            for at in range(2):
                async with transport.stage("one", worker=f"http://{at}") as one:
                    await one.step()
            assert [model.weight.tolist() for model in models] == before
            assert all(model.weight.grad is None for model in models)

    await main()


@one_loop
@pytest.mark.parametrize("op", ["create", "drop"])
async def test_a_late_create_or_drop_takes_no_stage_from_its_client(op):
    app = http_app({"encoder": Definition(nn.Linear(3, 2), optimizer=lambda model: optim.SGD(model, lr=0.5))})
    async with connected(app) as transport:
        mine = await transport.stage("encoder").start()
        call, is_broken = transport.call, True

        async def break_once(worker, request):
            nonlocal is_broken
            if is_broken:
                is_broken = False
                raise WorkerLostError("the connection broke")
            return await call(worker, request)

        transport.call = break_once
        await mine.step()
        # The stage is here by its second attempt: these are of the first, or of one before.
        fields = {"definition": "encoder", "known": 0} if op == "create" else {}
        await call("http://0", Request(op, mine.name, {"attempt": 1, **fields}))
        with pytest.raises(BusyError, match="another client has stage 'encoder'"):
            await transport.stage("encoder").start()
        is_broken = True
        await mine.step()
        found = (await mine(np.ones((1, 3)))).shape

    assert found == (1, 2)


@one_loop
async def test_clients_have_no_more_stages_than_may_be():
    async with connected(http_app({"same": lambda x: x}, max_stages=2)) as transport:
        held = [await transport.stage("same").start() for _ in range(2)]
        with pytest.raises(BusyError, match="a client may have 2 stages here"):
            await transport.stage("same").start()
        await held[0].close()
        await transport.stage("same").start()


@one_loop
async def test_stages_end_with_their_transport():
    app = http_app({"one": nn.Linear(3, 2)})
    async with connected(app) as transport:
        first = await transport.stage("one").start()
    async with connected(app) as transport:
        await transport.stage("one").start()

    assert first.worker == "http://0"


@one_loop
async def test_what_is_not_registered_is_refused_and_no_code_travels():
    async with connected(http_app({"same": lambda x: x})) as transport:
        with pytest.raises(ArgumentError, match=r"no stage is registered under 'other' here; there are \['same'\]"):
            await transport.stage("other").start()
        with pytest.raises(ArgumentTypeError, match="no code travels over HTTP"):
            await stage(lambda x: x, transport=transport).start()

    with pytest.raises(ArgumentTypeError, match="'two' must be a function, a Module or a Definition"):
        http_app({"two": 2})
    with pytest.raises(ArgumentTypeError, match="write \\['http://a'\\]"):
        HttpTransport("http://a")
    with pytest.raises(ArgumentError, match="workers is empty"):
        HttpTransport([])


@one_loop
async def test_a_stage_that_is_dropped_is_dropped_at_the_server():
    bodies = []
    async with connected(http_app({"same": lambda x: x}), on_body=bodies.append) as transport:
        one = await transport.stage("same").start()
        del one

    assert b'"drop"' in bodies[-2]
    assert b"error" not in bodies[-1]


@one_loop
@pytest.mark.parametrize("body", [b"", b"x" * 40, encode({"op": "ping"}, []), encode({"op": 1, "fields": 2}, [])])
async def test_a_body_that_is_no_request_is_answered_with_400(body):
    transport = httpx.ASGITransport(app=http_app({"same": lambda x: x}))
    async with httpx.AsyncClient(transport=transport, base_url=URL) as client:
        found = (await client.post("/call", content=body, headers=TYPE)).status_code

    assert found == 400


def test_arrays_of_every_dtype_order_and_shape_arrive_with_their_bits():
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(2, 3)).astype(kind) for kind in ("f2", "f4", "f8", "c8", "c16", "i1", "u2", "i8", "?")]
    arrays += [np.array(1.5), np.zeros((0, 3)), arrays[2].T, arrays[2][:, ::2], arrays[2].astype(">f8"), None]

    head, found = decode(bytearray(encode({"text": "ä"}, arrays)))

    assert head == {"text": "ä"}
    for sent, arrived in zip(arrays, found, strict=True):
        if sent is None:
            assert arrived is None
        else:
            assert (arrived.dtype, arrived.shape, arrived.tobytes()) == (sent.dtype, sent.shape, sent.tobytes())
            assert arrived.flags.writeable
            assert arrived.flags.aligned


@one_loop
async def test_arrays_arrive_in_the_order_of_memory_that_they_had():
    async with connected(http_app({"look": sum_and_strides})) as transport, transport.stage("look") as look:
        await check_layouts(look)


def test_a_broadcast_array_is_as_large_as_its_shape_says():
    huge = np.broadcast_to(np.ones(1), (1 << 40,))
    message = bytearray(encode({"op": "ping"}, [huge]))

    assert len(message) < 200
    with pytest.raises(PayloadError, match=f"has {8 << 40} bytes"):
        decode(message, 1 << 30)


def test_a_message_that_is_cut_or_changed_is_refused_or_read():
    message = encode({"op": "forward", "fields": {"key": "1"}}, [np.arange(6.0).reshape(2, 3), None])
    for length in range(len(message)):
        with pytest.raises(ArgumentError, match="no message of a stage"):
            decode(bytearray(message[:length]))
    rng = np.random.default_rng(0)
    for _ in range(cases(2000)):
        changed = bytearray(message)
        changed[rng.integers(len(message))] = rng.integers(256)
        with suppress(ArgumentError):
            decode(changed)


@pytest.mark.parametrize(
    "spec",
    [
        *('["O", [1], null]', '["f8", [-1], null]', '["f8", [1e3], null]', '["f8", [1180591620717411303424], null]'),
        *("[8, [1], null]", '["f8", [1]]', '["f8", [1], [[0, 1], [], [1]]]', '["f8", [1], 5]'),
        *('["f8", [1], [[0], [7], [1]]]', '["f8", [1], [[0], [], [-1]]]', '["f8", [1], [[0], [], ["x"]]]'),
    ],
)
def test_an_array_that_is_none_is_refused(spec):
    text = f'{{"arrays": [{spec}]}}'.encode()
    message = len(text).to_bytes(16, "little") + text + bytes(-len(text) % 16 + 16)

    with pytest.raises(ArgumentError, match="no message of a stage"):
        decode(bytearray(message))


def http_reply(body, status=b"200 OK", extra=b""):
    return b"HTTP/1.1 " + status + b"\r\n" + extra + b"content-length: %d\r\n\r\n" % len(body) + body


def reply_of(fields, arrays=()):
    return http_reply(encode({"fields": fields}, arrays))


CREATED = reply_of({"parameters": 0, "kept": False, "version": 0})
FORWARD = {"outputs": {"array": 0}, "differentiable": [True], "nodes": 1}
ERROR = {"type": "ValueError", "module": "builtins", "args": ["no"], "text": "no", "notes": [], "traceback": ""}

#: What breaks off, or is no HTTP: nobody can tell that from a server that has gone.
BROKEN = {
    "nothing": b"",
    "junk": b"\x00\xff\x01junk\r\n\r\n",
    "no status": b"HTTP/1.1 abc\r\n\r\n",
    "half a head": b"HTTP/1.1 200 OK\r\ncontent-le",
    "half a body": b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc",
    "a negative length": b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\nabc",
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
    "no chunk": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nabc",
}
#: What is HTTP, and no reply of a stage.
ODD = {
    "empty": http_reply(b""),
    "no gzip": http_reply(b"no gzip", extra=b"content-encoding: gzip\r\n"),
    "binary": http_reply(bytes(range(256))),
    "a redirection": http_reply(b"", b"302 Found", b"location: http://127.0.0.1:1/\r\n"),
    "an error of its own": http_reply(b"oops", b"500 Error"),
    "no fields": http_reply(encode({}, [])),
    "fields that are null": reply_of(None),
    "a string for an error": reply_of({"error": "x"}),
    "half an error": reply_of({"error": {"type": "X"}}),
    "an error of odd types": reply_of({"error": {**ERROR, "module": [], "notes": 5}}),
    "the arguments of another error": reply_of({"error": {**ERROR, "type": "UnicodeDecodeError"}}),
    "an error that would exit": reply_of({"error": {**ERROR, "type": "SystemExit"}}),
}
ODD_BY_OP = {
    "create": {
        "lacks parameters": reply_of({}),
        "parameters": reply_of({"parameters": "x", "kept": False, "version": 0}),
    },
    "forward": {
        "lacks outputs": reply_of({}),
        "an output that is not there": reply_of({**FORWARD, "outputs": {"array": 5}}, [np.ones(2)]),
        "an output of which nothing is said": reply_of({**FORWARD, "differentiable": []}, [np.ones(2)]),
        "no tree": reply_of({**FORWARD, "outputs": {"x": 1, "y": 2}}, [np.ones(2)]),
        "null for an output": reply_of(FORWARD, [None]),
    },
    "backward": {"lacks gradients": reply_of({"seconds": 0.1}), "lacks seconds": reply_of({}, [np.ones(2)])},
}
BEFORE = {"create": [], "forward": [CREATED], "backward": [CREATED, reply_of(FORWARD, [np.ones(2)])]}


@asynccontextmanager
async def answering(replies):
    """The address of a server that gives these replies, whatever it is asked, and then the last one."""
    left = list(replies)

    async def serve(reader, writer):
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = head.lower().split(b"\r\n")
                (length,) = [int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length")]
                await reader.readexactly(length)
                reply = left.pop(0) if len(left) > 1 else left[0]
                writer.write(reply)
                await writer.drain()
                if reply in BROKEN.values():
                    break
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@pytest.mark.slow
@pytest.mark.parametrize("op", BEFORE)
@pytest.mark.parametrize("which", [*BROKEN, *ODD, None])
async def test_what_is_no_reply_is_told_of_the_server_and_leaves_no_error_unretrieved(op, which):
    async def use(url):
        # Without certificates, which take a tenth of a second to read.
        async with HttpTransport([url], client=lambda: httpx.AsyncClient(verify=False), patience=5) as transport:
            one = transport.stage("any")
            y = await one(ag.tensor(np.ones(2), requires_grad=True))
            await y.sum().backward()

    async def main():
        for reply in ODD_BY_OP[op].values() if which is None else [{**BROKEN, **ODD}[which]]:
            async with answering([*BEFORE[op], reply]) as url:
                with pytest.raises(StageLost if which in BROKEN else RemoteError) as caught:
                    await use(url)
                assert url in "".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
                del caught
            # The stage is dropped, which tells the server; what that answers is no better.
            gc.collect()
            await settle()

    # `run` has failed if an error was left to asyncio.
    await main()


async def test_an_error_of_work_whose_client_has_gone_is_not_left_to_asyncio():
    steps, failed = Steps(), asyncio.Event()

    async def fails(x):
        try:
            steps.begun.set()
            await steps.go_on.wait()
            raise ValueError("nobody waits for this")
        finally:
            failed.set()

    host = StageHost(load=lambda _: Definition(fails))
    await host.handle(Request("create", "one", {"definition": "one", "attempt": 1}))
    fields = {"attempt": 1, "key": "1", "inputs": [1.0], "needs": [], "number": 1}
    asking = asyncio.ensure_future(host.handle(Request("forward", "one", fields)))
    await steps.begun.wait()
    asking.cancel()
    with suppress(asyncio.CancelledError):
        await asking
    del asking
    steps.go_on.set()
    await failed.wait()
    await settle()
    gc.collect()
