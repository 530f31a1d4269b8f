"""What a client of `http_app` may hold, send and do: each limit at its figure, and beyond it."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'asyncgrad[serve]'")
pytest.importorskip("httpx", reason="needs httpx: pip install 'asyncgrad[serve]'")

import httpx
import numpy as np

import asyncgrad as ag
from asyncgrad import nn, optim
from asyncgrad.distributed import Definition, HttpTransport, RemoteGroup, Request, http_app
from asyncgrad.distributed.wire import CONTENT_TYPE, decode, encode
from asyncgrad.errors import (
    ArgumentError,
    BusyError,
    InvalidGradientError,
    PayloadError,
    UnknownStageError,
)
from tests.support.loops import one_loop

URL = "http://owner"


@asynccontextmanager
async def connected(app, **options):
    """A transport to an application."""
    connect = lambda: httpx.AsyncClient(transport=httpx.ASGITransport(app=app))
    async with HttpTransport([URL], client=connect, **options) as transport:
        yield transport


async def post(app, body, **headers):
    """The reply of an application to bytes."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=URL) as client:
        return await client.post("/call", content=body, headers={"content-type": CONTENT_TYPE, **headers})


def request(op, stage="any", arrays=(), **fields):
    return encode({"op": op, "stage": stage, "fields": fields}, arrays)


def a_leaf(value=1.0):
    return ag.tensor(value, requires_grad=True)


def with_optimizer(model, lr=0.5, make=optim.SGD):
    return Definition(model, optimizer=lambda model: make(model, lr=lr))


def test_a_head_that_is_larger_than_heads_may_be_is_refused_unread(monkeypatch):
    text = b'{"x": [' + b"[]," * (1 << 19) + b"[]]}"
    message = len(text).to_bytes(16, "little") + text
    monkeypatch.setattr(json, "loads", lambda _: pytest.fail("the head is read"))

    with pytest.raises(PayloadError, match=r"says \d+ bytes besides its arrays, and may say 1048576"):
        decode(bytearray(message))


def test_a_message_has_no_more_arrays_than_may_be():
    array = np.ones(())

    assert len(decode(bytearray(encode({}, [array] * 100)))[1]) == 100
    with pytest.raises(PayloadError, match="may have 16384: stack them"):
        encode({}, [array] * 16385)


@one_loop
async def test_a_client_keeps_no_more_calls_than_may_be():
    async with connected(http_app({"same": lambda x: x * 1}, max_calls=2)) as transport:
        same = transport.stage("same")
        kept = [await same(a_leaf()) for _ in range(2)]
        with pytest.raises(BusyError, match=r"answers 429: a client may have 2 calls under way here \(max_calls\)"):
            await same(a_leaf())
        await kept[0].backward()
        await same(a_leaf())


@one_loop
async def test_a_client_has_no_more_calls_running_than_may_be():
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(x):
        begun.set()
        await go_on.wait()
        return x

    async with connected(http_app({"slow": slow}, max_calls=1)) as transport:
        stage = transport.stage("slow")
        first = asyncio.ensure_future(stage(1.0))
        await begun.wait()
        with pytest.raises(BusyError, match="max_calls"):
            await stage(1.0)
        go_on.set()
        await first
        await stage(1.0)


@one_loop
@pytest.mark.parametrize("is_broadcast", [False, True])
async def test_a_client_holds_no_more_bytes_than_may_be(is_broadcast):
    # Of each call the input and the output are kept, and the input of the last one is on its way.
    x = np.broadcast_to(np.ones(()), (1000,)) if is_broadcast else np.ones(1000)

    async def main(size):
        async with connected(http_app({"same": lambda x: x * 1}, max_held_bytes=size)) as transport:
            same = transport.stage("same")
            kept = [await same(a_leaf(x)), await same(a_leaf(x))]
            return len(kept)

    assert await main(32000) == 2
    with pytest.raises(BusyError, match=r"may hold 31999 \(max_held_bytes\)"):
        await main(31999)


@one_loop
async def test_what_a_refused_forward_kept_is_free_again():
    async with connected(http_app({"grow": lambda x: x * np.ones(1000)}, max_held_bytes=9000)) as transport:
        grow = transport.stage("grow")
        # Nothing that the client sends frees it.
        transport.send = lambda worker, request: None
        y = await grow(a_leaf())
        with pytest.raises(BusyError):
            await grow(a_leaf())
        await y.sum().backward()
        await grow(a_leaf())


@one_loop
async def test_gradients_that_are_not_final_count_as_held():
    async def main(size):
        # The gradient of one parameter of 8000 bytes, beside some of 8.
        definition = Definition(lambda w, x: (w * x).sum(), np.ones(1000))
        async with connected(http_app({"scale": definition}, max_held_bytes=size)) as transport:
            await (await transport.stage("scale")(a_leaf())).backward()

    await main(16024 + 2048)
    with pytest.raises(BusyError, match="max_held_bytes"):
        await main(8000)


@one_loop
async def test_a_client_has_no_more_backward_passes_under_way_than_may_be():
    app = http_app({"same": lambda x: x}, max_transactions=2)
    async with connected(app) as transport:
        same = await transport.stage("same").start()
        for number in (1, 2, 2):
            await same.ask("prepare", {"transaction": number, "contributions": []}, [])
        with pytest.raises(BusyError, match="a client may have 2 backward passes that have not ended"):
            await same.ask("prepare", {"transaction": 3, "contributions": []}, [])
        await same.ask("roll_back", {"transaction": 1}, [])
        await same.ask("prepare", {"transaction": 3, "contributions": []}, [])


@one_loop
async def test_a_client_has_no_more_groups_than_may_be():
    async with connected(http_app({}, replicas=True, max_groups=1)) as transport:
        first, second = (RemoteGroup(transport, 1, worker=URL, name=name, secret="s" * 16) for name in ("one", "two"))
        await first.member(0).all_reduce((1, 0), np.ones(2))
        with pytest.raises(BusyError, match="a client may have 1 groups here"):
            await second.member(0).all_reduce((1, 0), np.ones(2))
        await first.close()
        found = await second.member(0).all_reduce((1, 0), np.ones(2))

    assert found.tolist() == [1.0, 1.0]


@one_loop
async def test_a_request_that_says_it_is_too_large_is_refused_unread():
    async def body():
        pytest.fail("the body is read")
        yield b""

    assert (await post(http_app({}), body(), **{"content-length": str(1 << 40)})).status_code == 413


@one_loop
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
async def test_a_body_that_a_page_of_a_browser_may_post_is_refused(kind):
    assert (await post(http_app({}), request("ping"), **{"content-type": kind})).status_code == 415


@one_loop
@pytest.mark.parametrize(
    "body",
    [
        *(request("create"), request("create", attempt="1"), request("create", attempt=1 << 70)),
        *(request("forward", key="1"), request("forward", key=1, inputs=[], needs=[], number=1)),
        *(request("forward", key="1", inputs=[{"array": 3}], needs=[], number=1), request("free", keys="1")),
        *(request("prepare", transaction="1", contributions=[1]), request("ping", stage="x" * 300)),
        *(request("forward", key="1", inputs=[float("nan")], needs=[], number=1), request("ping", finish=[[]])),
        request("forward", key="1" * 300, inputs=[], needs=[], number=1),
    ],
)
async def test_what_is_no_request_of_its_operation_is_answered_with_400(body):
    assert (await post(http_app({"any": lambda x: x}), body)).status_code == 400


# --- Modules that are shared -----------------------------------------------------------------------


def shared_pairs():
    model, other = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2)), nn.Linear(3, 3)
    other.weight = model[0].weight
    return {"one Module": (model, model), "a submodule": (model, model[1]), "a parameter": (model, other)}


@one_loop
@pytest.mark.parametrize("which", shared_pairs())
async def test_a_module_has_one_client_whatever_its_name(which):
    first, second = shared_pairs()[which]

    app = http_app({"a": first, "b": with_optimizer(second), "c": nn.Linear(3, 2)})
    async with connected(app) as transport:
        async with transport.stage("a"):
            with pytest.raises(BusyError, match="another client has stage 'b'"):
                await transport.stage("b").start()
            await transport.stage("c").start()
        await transport.stage("b").start()


@one_loop
async def test_a_stage_is_not_made_again_of_another_definition():
    app = http_app({"open": lambda x: x, "held": nn.Linear(3, 2)})
    async with connected(app) as transport, transport.stage("open") as mine:
        again = Request("create", mine.name, {"definition": "held", "attempt": 2})
        found = (await transport.call(URL, again)).fields["error"]["text"]

    assert "is one of 'open', and is not made again of 'held'" in found


@one_loop
async def test_a_client_whose_call_runs_for_longer_than_the_time_to_live_keeps_its_module():
    now = 0.0
    begun, go_on = asyncio.Event(), asyncio.Event()

    class Slow(nn.Module):
        async def forward(self, x):
            begun.set()
            await go_on.wait()
            return x * 2

    async def main():
        nonlocal now
        async with connected(http_app({"slow": Slow()}, ttl=10.0, clock=lambda: now)) as transport:
            first, second, x = transport.stage("slow"), transport.stage("slow"), a_leaf(3.0)
            call = asyncio.ensure_future(first(x))
            await begun.wait()
            now = 100.0
            with pytest.raises(BusyError):
                await second.start()
            go_on.set()
            y = await call
            with pytest.raises(BusyError):
                await second.start()
            await y.backward()
            return x.grad.item()

    assert await main() == 2.0


# --- numbers that are not finite -------------------------------------------------------------------


def float64_layer():
    model = nn.Linear(1, 1, bias=False)
    model.weight = nn.Parameter(np.ones((1, 1)))
    return model


@one_loop
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
async def test_inputs_that_are_not_finite_are_refused(value):
    async with connected(http_app({"same": lambda x: x})) as transport:
        with pytest.raises(ArgumentError, match="array 0 of the request 'forward' has NaN or infinity"):
            await transport.stage("same")(np.array([1.0, value]))


@one_loop
@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("scale", [np.nan, np.inf, 1e300])
async def test_a_backward_that_would_ruin_an_owner_s_parameters_changes_none_at_any_owner(scale):
    # The last is finite, and its product with the input is not.
    model, other = float64_layer(), float64_layer()

    app = http_app({"ruined": with_optimizer(model), "other": with_optimizer(other)})
    async with connected(app) as transport:
        ruined, same = transport.stage("ruined"), transport.stage("other")
        y = (await ruined(np.array([[1e30]]))).sum() * scale + (await same(np.ones((1, 1)))).sum()
        with pytest.raises((ArgumentError, InvalidGradientError)):
            await y.backward()

    assert [one.grad for each in (model, other) for one in each.parameters()] == [None] * 2


@one_loop
@pytest.mark.filterwarnings("ignore:overflow")
async def test_a_sum_of_finite_gradients_that_is_not_finite_changes_nothing():
    model = float64_layer()

    async with connected(http_app({"ruined": model})) as transport:
        ruined, x = transport.stage("ruined"), np.array([[1e308]])
        y = (await ruined(x)).sum() + (await ruined(x)).sum()
        with pytest.raises(InvalidGradientError, match="is not finite"):
            await y.backward()

    assert model.weight.grad is None


@one_loop
@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("make", [optim.SGD, optim.Adam])
async def test_a_step_that_would_make_a_parameter_or_the_optimizer_s_state_infinite_is_not_made(make):
    model = float64_layer()
    before = model.weight.tolist()

    app = http_app({"ruined": with_optimizer(model, lr=1e10, make=make)})
    async with connected(app) as transport:
        ruined = transport.stage("ruined")
        await (await ruined(np.array([[1e305]]))).sum().backward()
        with pytest.raises(InvalidGradientError, match="has not been made"):
            await ruined.step()
        await ruined.zero_grad()
        await (await ruined(np.array([[0.0]]))).sum().backward()
        await ruined.step()

    assert model.weight.tolist() == before


# --- what strangers are told -----------------------------------------------------------------------


@one_loop
async def test_an_error_of_the_owner_arrives_with_its_type_and_an_id_of_the_owner_s_log(caplog):
    def fails(_):
        secret = "/home/owner/key"
        raise FileNotFoundError(2, "no such file", secret)

    bodies = []

    async def main():
        app = http_app({"fails": fails})
        async with connected(app) as transport:
            with pytest.raises(OSError, match="the stage has failed") as caught:
                await transport.stage("fails")(1.0)
            bodies.append(str(caught.value) + "".join(caught.value.__notes__))

    with caplog.at_level(logging.ERROR, "asyncgrad.distributed"):
        await main()

    (text,), (record,) = bodies, caplog.records
    assert "/home/owner/key" not in text
    assert __file__ not in text
    assert record.getMessage().split()[1] in text
    assert "ask the owner of http://owner" in text
    assert "/home/owner/key" in caplog.text


@pytest.mark.parametrize(
    "definition",
    [
        Definition(lambda x: b"a key"),
        Definition(lambda x: [x, {"deeper": (b"a key",)}]),
        Definition(lambda x: {b"a key": x}),
        Definition(lambda w, x: w * x, 1.0, optimizer=lambda params: b"a key"),
    ],
)
def test_no_error_shows_what_an_owner_s_function_returned(definition):
    async def main():
        async with connected(http_app({"any": definition})) as transport:
            with pytest.raises(TypeError, match="the stage has failed") as caught:
                await transport.stage("any")(1.0)
            return str(caught.value) + "".join(caught.value.__notes__)

    assert "a key" not in ag.run(main())


# --- who is who ------------------------------------------------------------------------------------


async def by_function(http):
    return {"Bearer a": "alice", "Bearer b": "bob"}.get(http.headers.get("authorization"))


@one_loop
@pytest.mark.parametrize("authenticate", [{"alice": "a", "bob": b"b"}, by_function])
async def test_a_stage_belongs_to_the_client_that_made_it(authenticate):
    app = http_app({"same": lambda x: x}, authenticate=authenticate)
    async with connected(app, key="a") as alice, connected(app, key="b") as bob:
        mine = await alice.stage("same").start()
        reply = await bob.call(URL, Request("zero_grad", mine.name, {"attempt": 1, "effect": 1, "wants_state": False}))
        await bob.call(URL, Request("drop", mine.name))
        found = reply.fields["error"]["type"], await mine(2.0)

    assert found == (UnknownStageError.__name__, 2.0)


@one_loop
@pytest.mark.parametrize("key", [None, "wrong", "a-key-and-more"])
async def test_a_stranger_learns_that_the_server_is_there_and_nothing_else(key):
    async with connected(http_app({"same": lambda x: x}, authenticate="a-key"), key=key) as transport:
        with pytest.raises(PermissionError, match="answers 401"):
            await transport.stage("same").start()
        found = (await transport.call(URL, Request("ping", ""))).fields

    assert found == {}


@one_loop
@pytest.mark.parametrize("kind", [PermissionError, TimeoutError, BusyError, PayloadError, ValueError])
async def test_what_authenticate_raises_is_told_to_nobody(kind):
    def fail(http):
        raise kind("[Errno 13] /srv/keys.json")

    inner = httpx.ASGITransport(app=http_app({"same": lambda x: x}, authenticate=fail), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=inner, base_url=URL) as client:
        reply = await client.post("/call", content=request("ping"), headers={"content-type": CONTENT_TYPE})

    assert (reply.status_code, reply.text) == (500, "Internal Server Error")


@one_loop
async def test_limits_are_those_of_each_client():
    app = http_app({"same": lambda x: x}, authenticate={"alice": "a", "bob": "b"}, max_stages=1)
    async with connected(app, key="a") as alice, connected(app, key="b") as bob:
        held = [await one.stage("same").start() for one in (alice, bob)]
        with pytest.raises(BusyError):
            await alice.stage("same").start()
        found = len(held)

    assert found == 2


@pytest.mark.parametrize("authenticate", [{}, "", "two words", {"a": "k", "b": "k"}, {"": "k"}])
def test_keys_that_would_let_in_the_wrong_client_are_refused(authenticate):
    with pytest.raises(ArgumentError):
        http_app({}, authenticate=authenticate)


@one_loop
async def test_a_group_over_http_needs_a_secret_and_members_that_know_it():
    app = http_app({}, replicas=True, authenticate={"alice": "a", "bob": "b"})
    async with connected(app, key="a") as alice, connected(app, key="b") as bob:
        group = lambda transport, secret: RemoteGroup(transport, 2, worker=URL, name="run", secret=secret)
        with pytest.raises(PermissionError, match=r"write RemoteGroup\(..., secret=secret\)"):
            await group(alice, None).member(0).all_reduce((1, 0), np.ones(1))
        await group(alice, "s" * 20).member(0).abort(9, "the first secret decides")
        first = asyncio.ensure_future(group(alice, "s" * 20).member(0).all_reduce((1, 0), np.ones(1)))
        with pytest.raises(PermissionError, match="another secret"):
            await group(bob, "t" * 20).member(1).all_reduce((1, 0), np.ones(1))
        with pytest.raises(PermissionError, match="another secret"):
            await group(bob, "t" * 20).close()
        with pytest.raises(PermissionError, match="another client's"):
            await group(bob, "s" * 20).member(0).all_reduce((1, 0), np.ones(1))
        await group(bob, "s" * 20).member(1).all_reduce((1, 0), np.ones(1))
        found = (await first).tolist()

    assert found == [2.0]


@one_loop
async def test_an_owner_is_told_what_each_client_holds():
    app = http_app({"double": lambda x: x * 2}, authenticate={"alice": "a" * 22, "bob": "b" * 22}, replicas=True)

    found = [app.state.counts()]
    async with connected(app, key="a" * 22) as alice, connected(app, key="b" * 22) as bob:
        first, second = alice.stage("double"), bob.stage("double")
        y, _ = await first(a_leaf(np.ones(1000))), await second(a_leaf(np.ones(4)))
        found.append(app.state.counts())
        await y.sum().backward()
        await first.close()
        found.append(app.state.counts())
    before, while_kept, after = found

    assert before == {}
    nothing = {"transactions": 0, "requests": 0, "groups": 0}
    assert while_kept["alice"] == {**nothing, "stages": 1, "calls": 1, "held_bytes": 2 * 8000}
    assert while_kept["bob"] == {**nothing, "stages": 1, "calls": 1, "held_bytes": 2 * 32}
    assert list(after) == ["bob"]


@one_loop
async def test_an_owner_is_told_whose_groups_there_are():
    app = http_app({}, replicas=True)

    async with connected(app) as transport:
        group = RemoteGroup(transport, 1, worker=URL, name="run", secret="s" * 16)
        await group.member(0).all_reduce((1, 0), np.ones(2))
        found = [app.state.counts()[""]["groups"]]
        await group.close()
        result = [*found, app.state.counts()]

    assert result == [1, {}]


@one_loop
async def test_no_request_reaches_a_stage_as_one_of_a_group():
    app = http_app({"same": lambda x: x}, authenticate={"alice": "a", "bob": "b"}, replicas=True)
    async with connected(app, key="b") as bob:
        fields = {"group": True, "secret": "s" * 16, "rank": 0, "size": 1, "attempt": 1, "definition": "same"}
        await bob.call(URL, Request("create", "one", fields))
        found = app.state.counts()["bob"]["stages"]

    assert found == 1
