"""What clients of `http_app` may send and have remembered here: requests that no home makes."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'asyncgrad[serve]'")
pytest.importorskip("httpx", reason="needs httpx: pip install 'asyncgrad[serve]'")

import asyncio
import sys
import threading

import numpy as np

import asyncgrad as ag
from asyncgrad import nn, optim
from asyncgrad.distributed import (
    Definition,
    HttpTransport,
    RemoteGroup,
    Request,
    StageHost,
    collective,
    dropped,
    hosted_stage,
    http_app,
)
from asyncgrad.distributed.definition import Program
from asyncgrad.distributed.dropped import DroppedStages
from asyncgrad.distributed.ledger import GradientLedger
from asyncgrad.distributed.outbox import Outbox
from asyncgrad.distributed.payload import arrays_of, pack
from asyncgrad.errors import ArgumentError, BusyError
from tests.distributed.parts import simulated
from tests.distributed.test_limits import URL, connected, post, request
from tests.support.loops import one_loop
from tests.support.turns import settle

#: Half of a pair of surrogates: JSON can say it, and no bytes can be made of it.
HALF = "\ud800"


@one_loop
@pytest.mark.parametrize(
    "body",
    [
        request("all_reduce", "run", [np.ones(1)], rank=0, size=1, key=[1], secret=HALF * 16),
        request("abort", "run", rank=0, size=1, round=1, reason=HALF, secret="s" * 16),
        request("drop", "run", group=True, secret=HALF * 16),
        *(request("ping", HALF), request(HALF), request("ping", **{HALF: 1}), request("ping", x=[{"y": HALF}])),
        *(request("create", HALF, attempt=1, definition="same"), request("create", attempt=1, definition=HALF)),
        *(request("free", attempt=1, keys=[HALF]), request("cancel", attempt=1, key=HALF)),
        request("forward", attempt=1, key="1", inputs=[HALF], needs=[], number=1),
    ],
    ids=lambda body: str(body[16:100]),
)
async def test_a_text_of_which_no_bytes_can_be_made_is_answered_with_400(body):
    app = http_app({"same": lambda x: x}, replicas=True)

    assert (await post(app, body)).status_code == 400


@one_loop
async def test_a_client_of_whose_name_no_bytes_can_be_made_is_a_stranger():
    app = http_app({"same": lambda x: x}, authenticate=lambda http: HALF)

    assert (await post(app, request("create", attempt=1, definition="same"))).status_code == 401


@pytest.mark.parametrize(
    "make",
    [
        lambda: http_app({}, authenticate=HALF),
        lambda: http_app({}, authenticate={"alice": HALF}),
        lambda: http_app({}, authenticate={HALF: "key"}),
        lambda: HttpTransport([URL], key=HALF),
        lambda: RemoteGroup(HttpTransport([URL]), 1, worker=URL, name="run", secret=HALF * 16),
    ],
)
def test_a_key_or_secret_of_which_no_bytes_can_be_made_is_refused_at_once(make):
    with pytest.raises(ArgumentError, match="half of a pair of surrogates"):
        make()


MANY = list(range(4097))


@one_loop
@pytest.mark.parametrize(
    "body",
    [
        *(request("ping", finish=MANY), request("ping", dead=MANY), request("ping", floors=[1, 2, 3])),
        request("outcome", attempt=1, effects=MANY, wants_state=False),
        request("load_state", attempt=1, effects=MANY, state={"dict": []}),
        request("free", attempt=1, keys=["k"] * 4097),
        *(request("all_reduce", rank=0, size=1, key=key) for key in ([], [1] * 17)),
        *(request("all_reduce", rank=0, size=size, key=[1]) for size in (0, -1, 4097, 1 << 40)),
        request("abort", rank=0, size=1 << 40, round=1, reason="none"),
        request("x" * 257, attempt=1),
    ],
    ids=lambda body: str(body[16:80]),
)
async def test_no_list_of_a_request_is_longer_than_a_home_s(body):
    assert (await post(http_app({}, replicas=True), body)).status_code == 400


@one_loop
async def test_a_home_names_no_more_in_one_request_than_a_server_takes():
    sent = []

    async def deliver(worker, message):
        sent.append(message)
        await asyncio.sleep(0)

    outbox = Outbox(asyncio.get_running_loop(), deliver)
    for number in range(4000):
        outbox.put("a", Request("free", "one", {"attempt": 1, "keys": [str(number), f"{number}.1"]}))
    await outbox.flush()

    assert sum(len(one.fields["keys"]) for one in sent) == 8000
    assert max(len(one.fields["keys"]) for one in sent) <= 4096


# --- drops that come early -------------------------------------------------------------------------


async def ask(transport, worker, op, name, **fields):
    reply = await transport.call(worker, Request(op, name, fields))
    return reply.fields.get("error", {}).get("type")


@one_loop
@pytest.mark.parametrize("others", [0, 20])
async def test_a_drop_that_overtakes_its_create_leaves_no_stage(monkeypatch, others):
    monkeypatch.setattr(dropped, "_REMEMBERED", 16)
    app = http_app({"held": nn.Linear(3, 2)}, authenticate={"alice": "a", "bob": "b"})
    async with connected(app, key="a") as alice, connected(app, key="b") as bob:
        await ask(alice, URL, "drop", "one", attempt=1)
        for number in range(others):
            await ask(bob, URL, "drop", f"other {number}", attempt=1)
        late = await ask(alice, URL, "create", "one", attempt=1, definition="held")
        # The Module is another client's to have.
        then = await ask(bob, URL, "create", "two", attempt=1, definition="held")
        found = late, then, app.state.counts()["bob"]["stages"]

    assert found == ("UnknownStageError", None, 1)


@one_loop
async def test_a_drop_that_overtakes_its_create_leaves_no_stage_on_a_simulated_worker():
    transport = simulated()
    await ask(transport, "a", "drop", "one", attempt=2)
    late = [await ask(transport, "a", "create", "one", attempt=at, definition=Definition(lambda x: x)) for at in (1, 2)]
    again = await ask(transport, "a", "create", "one", attempt=3, definition=Definition(lambda x: x))

    assert (late, again, transport.host("a").counts()["stages"]) == (["UnknownStageError"] * 2, None, 1)


def test_no_client_pushes_out_what_another_has_dropped_and_each_has_a_bounded_number():
    dropped = DroppedStages()
    dropped.note("alice", "first", 3, 0.0)
    for number in range(5000):
        dropped.note("bob", str(number), 1, 1.0)

    assert dropped.attempt("alice", "first") == 3
    assert (dropped.attempt("bob", "0"), dropped.attempt("bob", "4999")) == (0, 1)
    assert len(dropped) == 1 + 4096


@one_loop
async def test_what_was_dropped_long_ago_is_forgotten():
    now = 0.0

    host = StageHost(stage_ttl=10.0, clock=lambda: now)
    for number in range(100):
        await host.handle(Request("drop", str(number), {"attempt": 1}), f"client {number}")
    before, now = len(host._dropped), 20.0
    await host.handle(Request("drop", "now", {"attempt": 1}), "another client")

    assert (before, len(host._dropped)) == (100, 1)


# --- the making of a stage -------------------------------------------------------------------------


class Slow:
    """A way to make an optimizer that waits on its thread until it is told to go on."""

    def __init__(self):
        self.loop = asyncio.get_running_loop()
        self.begun, self.go_on = asyncio.Event(), threading.Event()
        self.made = 0

    def __call__(self, model):
        self.made += 1
        assert threading.current_thread() is not threading.main_thread()
        self.loop.call_soon_threadsafe(self.begun.set)
        assert self.go_on.wait(60)
        return optim.SGD(model, lr=0.5)


@one_loop
async def test_a_server_that_makes_a_stage_answers_other_requests():
    slow = Slow()
    async with connected(http_app({"slow": Definition(nn.Linear(3, 2), optimizer=slow)})) as transport:
        making = asyncio.ensure_future(transport.stage("slow").start())
        await slow.begun.wait()
        reply = await ask(transport, URL, "ping", "")
        slow.go_on.set()
        await making
        found = reply

    assert found is None


@one_loop
async def test_nothing_is_asked_of_a_stage_while_it_is_made():
    slow = Slow()
    async with connected(http_app({"slow": Definition(nn.Linear(3, 2), optimizer=slow)})) as transport:
        same = {"attempt": 1, "definition": "slow"}
        asked = [asyncio.ensure_future(ask(transport, URL, "create", "one", **same)) for _ in range(2)]
        await slow.begun.wait()
        asked.append(asyncio.ensure_future(ask(transport, URL, "state", "one", attempt=1)))
        asked.append(asyncio.ensure_future(ask(transport, URL, "finish", "one", attempt=1)))
        await settle()
        waiting = [not one.done() for one in asked]
        slow.go_on.set()
        with pytest.raises(PermissionError):
            await asked.pop(2)
        found = waiting, [await one for one in asked], slow.made

    assert found == ([True, True, False, True], [None] * 3, 1)


@one_loop
async def test_a_stage_that_is_made_by_a_second_request_belongs_to_its_client():
    slow = Slow()

    def fail_first(model):
        made = slow(model)
        if slow.made == 1:
            raise ValueError("not now")
        return made

    app = http_app({"slow": Definition(nn.Linear(3, 2), optimizer=fail_first)})
    async with connected(app) as transport:
        same = {"attempt": 1, "definition": "slow"}
        asked = [asyncio.ensure_future(ask(transport, URL, "create", "one", **same)) for _ in range(2)]
        await slow.begun.wait()
        await settle()
        slow.go_on.set()
        found = [await one for one in asked]
        with pytest.raises(BusyError, match="another client has stage 'slow'"):
            await transport.stage("slow").start()
        await ask(transport, URL, "drop", "one", attempt=1)
        await transport.stage("slow").start()
        result = found

    assert result == ["ValueError", None]


@one_loop
@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_drop_while_a_stage_is_made_leaves_none(is_cancelled):
    async def main():
        slow = Slow()
        app = http_app({"slow": Definition(nn.Linear(3, 2), optimizer=slow)})
        async with connected(app) as transport:
            create = asyncio.ensure_future(ask(transport, URL, "create", "one", attempt=1, definition="slow"))
            await slow.begun.wait()
            drop = asyncio.ensure_future(ask(transport, URL, "drop", "one", attempt=1))
            await settle()
            with pytest.raises(BusyError, match="another client has stage 'slow'"):
                await transport.stage("slow").start()
            if is_cancelled:
                for one in (create, drop):
                    one.cancel()
                await asyncio.wait([create, drop])
            slow.go_on.set()
            found = None if is_cancelled else (await create, await drop)
            # The Module is free as soon as the worker has ended.
            while True:
                try:
                    await transport.stage("slow").start()
                    return found, slow.made
                except BusyError:
                    assert is_cancelled
                    await settle()

    expected = (None, 2) if is_cancelled else (("UnknownStageError", None), 2)
    assert await main() == expected


# --- what is remembered ----------------------------------------------------------------------------

#: By what a client has remembered here, requests each of which adds to it.
REMEMBERED = {
    "effects": lambda at: ("zero_grad", {"effect": at, "wants_state": False}),
    "effects that are asked about": lambda at: ("outcome", {"effects": [2 * at, 2 * at + 1], "wants_state": False}),
    "backward passes that were rolled back": lambda at: ("roll_back", {"transaction": at}),
    "backward passes that are dead": lambda at: ("zero_grad", {"effect": 0, "wants_state": False, "dead": [at]}),
    "failed parts of backward passes": lambda at: ("roll_back", {"transaction": 1, "task": at}),
    "backward passes": lambda at: ("prepare", {"transaction": at, "contributions": []}),
}


@one_loop
@pytest.mark.parametrize("what", REMEMBERED)
async def test_names_that_a_stage_remembers_count_as_held(what):
    async def fill(transport):
        for at in range(1, 200):
            op, fields = REMEMBERED[what](at)
            assert await ask(transport, URL, op, "one", attempt=1, **fields) is None

    async def main():
        app = http_app({"same": lambda x: x}, max_held_bytes=50 * 512)
        async with connected(app) as transport:
            await ask(transport, URL, "create", "one", attempt=1, definition="same")
            with pytest.raises(BusyError, match="max_held_bytes"):
                await fill(transport)
            return app.state.counts()[""]["held_bytes"]

    assert 16 * 512 < await main() <= 50 * 512


@one_loop
async def test_failed_parts_of_many_backward_passes_count_as_backward_passes():
    async with connected(http_app({"same": lambda x: x}, max_transactions=2)) as transport:
        await ask(transport, URL, "create", "one", attempt=1, definition="same")
        for at in (1, 2, 1, 2):
            await ask(transport, URL, "roll_back", "one", attempt=1, transaction=at, task=at)
        with pytest.raises(BusyError, match="max_transactions"):
            await ask(transport, URL, "roll_back", "one", attempt=1, transaction=3, task=1)
        await ask(transport, URL, "roll_back", "one", attempt=1, transaction=1)


@one_loop
async def test_a_client_that_holds_as_much_as_it_may_can_step_and_roll_back():
    definition = Definition(lambda w, x: w * x, 1.0, optimizer=lambda params: optim.SGD(params, lr=0.5))
    async with connected(http_app({"scale": definition}, max_held_bytes=16000)) as transport:
        scale = transport.stage("scale")
        kept = await scale(ag.tensor(np.ones(1000), requires_grad=True))
        with pytest.raises(BusyError):
            await scale(ag.tensor(np.ones(1000), requires_grad=True))
        for _ in range(40):
            await scale.step()
            with pytest.raises(BusyError):
                await (kept * 1.0).sum().backward(retain_graph=True)


@one_loop
@pytest.mark.parametrize("length", [1, 256])
async def test_calls_that_were_given_up_are_remembered_in_a_bounded_memory(length):
    host = StageHost()
    await host.handle(Request("create", "one", {"definition": Definition(lambda x: x), "attempt": 1}))
    for begin in range(0, 10000, 1000):
        keys = [str(number).rjust(length, "k") for number in range(begin, begin + 1000)]
        await host.handle(Request("free", "one", {"attempt": 1, "keys": keys}))
    given_up = host._stages["one"]._given_up

    assert len(given_up) == (4096 if length == 1 else 256)
    assert sum(map(len, given_up)) <= 1 << 16


@one_loop
async def test_thousands_of_empty_arrays_count_as_held():
    app = http_app({"none": lambda *args: None})
    async with connected(app) as transport:
        none = transport.stage("none")
        await none(*[ag.tensor(np.empty(0), requires_grad=True) for _ in range(2064)])
        found = app.state.counts()[""]["held_bytes"]

    assert found == 2000 * 512


@one_loop
@pytest.mark.parametrize("op", ["all_reduce", "abort"])
async def test_a_group_counts_for_each_of_its_replicas(op):
    async with connected(http_app({}, replicas=True, max_held_bytes=1 << 19)) as transport:
        fields = {"rank": 0, "secret": "s" * 16}
        fields |= {"key": [1]} if op == "all_reduce" else {"round": 1, "reason": "none"}
        arrays = [np.ones(1)] if op == "all_reduce" else []
        with pytest.raises(BusyError, match="max_held_bytes"):
            await transport.call(URL, Request(op, "large", {"size": 4096, **fields}, arrays))
        await transport.call(URL, Request(op, "small", {"size": 1, **fields}, arrays))


@one_loop
async def test_a_contribution_that_a_commit_names_twice_is_added_once():
    model = nn.Linear(1, 1, bias=False)

    async with connected(http_app({"one": model})) as transport:
        one, call = transport.stage("one"), transport.call

        async def repeat(worker, sent):
            fields = dict(sent.fields)
            if sent.op in ("prepare", "commit"):
                fields["contributions"] = fields["contributions"] * 3
            return await call(worker, Request(sent.op, sent.stage, fields, sent.arrays))

        transport.call = repeat
        await (await one(np.full((1, 1), 5.0))).sum().backward()
        found = model.weight.grad.item()

    assert found == 5.0


@one_loop
@pytest.mark.parametrize("is_large", [False, True])
async def test_gradients_that_take_long_to_sum_are_summed_on_a_worker(is_large, monkeypatch):
    seen = []
    prepare = GradientLedger.prepare

    def note(*args):
        seen.append(threading.current_thread() is threading.main_thread())
        return prepare(*args)

    monkeypatch.setattr(GradientLedger, "prepare", note)

    app = http_app({"scale": Definition(lambda w, x: (w * x).sum(), np.ones(1 << 16 if is_large else 1))})
    async with connected(app) as transport:
        scale = transport.stage("scale")
        await (await scale(2.0) + await scale(3.0)).backward()

    assert seen == [not is_large]


@one_loop
async def test_what_takes_long_to_read_is_read_on_a_worker(monkeypatch):
    seen = {}
    # The module: the package's name is its function.
    application = sys.modules[http_app.__module__]
    check = application.check_request

    def note(sent, *args):
        seen[sent.stage] = threading.current_thread() is threading.main_thread()
        return check(sent, *args)

    monkeypatch.setattr(application, "check_request", note)

    app = http_app({})
    for name, body in {
        "short": request("ping", "short", [np.ones(100)] * 10),
        "many": request("ping", "many", [np.empty(0)] * 2000),
        "long": request("ping", "long", x=[1] * 10000),
        "large": request("ping", "large", [np.ones(1 << 16)]),
    }.items():
        assert (await post(app, body)).status_code == 200, name

    assert seen == {"short": True, "many": False, "long": False, "large": False}


@one_loop
@pytest.mark.parametrize("count", [1, 5000])
async def test_inputs_are_made_where_the_function_runs(count, monkeypatch):
    threads, leaf = set(), hosted_stage._leaf

    def note(*args):
        threads.add(threading.current_thread())
        return leaf(*args)

    monkeypatch.setattr(hosted_stage, "_leaf", note)

    app = http_app({"none": lambda *args: threads.add(threading.current_thread())})
    inputs = [{"array": at} for at in range(count)]
    fields = {"attempt": 1, "key": "1", "inputs": inputs, "needs": [True] * count, "number": 1}
    await post(app, request("create", "one", attempt=1, definition="none"))

    assert (await post(app, request("forward", "one", [np.empty(0)] * count, **fields))).status_code == 200
    assert len(threads) == 1
    assert threading.main_thread() not in threads


@one_loop
@pytest.mark.parametrize("is_large", [False, True])
async def test_arrays_of_replicas_that_take_long_to_sum_are_summed_on_a_worker(is_large, monkeypatch):
    seen = []
    resolve = collective._resolve

    def note(*args):
        seen.append(threading.current_thread() is threading.main_thread())
        return resolve(*args)

    monkeypatch.setattr(collective, "_resolve", note)

    async with connected(http_app({}, replicas=True)) as transport:
        group = RemoteGroup(transport, 2, worker=URL, name="run", secret="s" * 16)
        # A hundred bytes, by their shape.
        array = np.broadcast_to(np.ones(()), (1 << 18 if is_large else 4,))
        calls = [group.member(rank).all_reduce((1, 0), array) for rank in range(2)]
        found = [total[-1] for total in await asyncio.gather(*calls)]

    assert found == [2.0, 2.0]
    assert seen == [not is_large]


@one_loop
async def test_a_stage_that_is_dropped_while_its_worker_leaves_is_adopted_by_none():
    transport, dropping = simulated(), []
    for name in ("first", "second"):
        await ask(transport, "a", "create", name, attempt=1, definition=Definition(lambda x: x))

    def drop_the_second(worker, message):
        if isinstance(message, Request) and message.op == "adopt" and not dropping:
            dropping.append(asyncio.ensure_future(transport.host("a").handle(Request("drop", "second", late))))

    late = {"attempt": 1}
    transport.on_message = drop_the_second
    await transport.retire("a")
    await dropping[0]

    assert [sorted(transport.host(one)._stages) for one in "ab"] == [["first"], ["first"]]


@one_loop
@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("what", ["copied", "loaded", "rolled back"])
async def test_large_parameters_are_moved_on_a_worker(what, is_large, monkeypatch):
    seen = []
    owner, name = {
        "copied": (Program, "state"),
        "loaded": (Program, "load_state"),
        "rolled back": (GradientLedger, "_write"),
    }[what]
    method = getattr(owner, name)

    def note(*args):
        seen.append(threading.current_thread() is threading.main_thread())
        return method(*args)

    definition = Definition(lambda w, x: (w * x).sum(), np.ones(1 << 16 if is_large else 1))
    app = http_app({"scale": definition}, share_parameters=True)
    async with connected(app) as transport:
        scale = await transport.stage("scale").start()
        y = await scale(2.0)
        # Nothing tells the server that the backward is final.
        transport.send = lambda worker, sent: None
        state = await scale.state_dict()
        monkeypatch.setattr(owner, name, note)
        if what == "copied":
            await scale.state_dict()
        elif what == "loaded":
            skeleton, leaves = pack(state)
            fields = {"attempt": 1, "effects": [], "state": skeleton, "begins": True}
            await ask(transport, URL, "create", "half", attempt=1, definition="scale", is_incomplete=True)
            await transport.call(URL, Request("load_state", "half", fields, arrays_of(leaves)))
        else:
            await y.backward()
            await ask(transport, URL, "roll_back", scale.name, attempt=1, transaction=1)

    # A commit, and what takes it back.
    assert seen == [not is_large] * (2 if what == "rolled back" else 1)
