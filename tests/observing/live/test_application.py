"""LiveApplication: whom it answers, for how long, and what becomes of those who do not read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from asyncgrad.observing.live.application import ENDLESS, LiveApplication
from asyncgrad.observing.live.feed import LiveFeed
from tests.observing.live.making import Client, Clock, Source, new_feed, parsed


def new_application(**options: Any) -> LiveApplication:
    return LiveApplication(new_feed()[0], **{"loopback_only": True, **options})


async def test_the_page_fetches_nothing_and_lets_its_own_script_run_alone():
    client = Client()
    await client.ask(new_application())
    policy = client.headers["content-security-policy"]

    assert client.status == 200
    assert client.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
    assert "script-src 'sha256-" in policy
    assert "script-src 'unsafe-inline'" not in policy
    assert b"http://" not in client.body.replace(b"http://www.w3.org/2000/svg", b"")
    assert b"https://" not in client.body
    assert len(client.body) == int(client.headers["content-length"])


async def test_a_title_is_escaped():
    feed = LiveFeed(Source(Clock(), "<script>alert(1)</script>"))
    client = Client()
    await client.ask(LiveApplication(feed, loopback_only=True))

    assert b"<script>alert" not in client.body
    assert b"&lt;script&gt;alert(1)&lt;/script&gt;" in client.body


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8000", 200),
        ("localhost.", 200),
        ("127.0.0.1:80", 200),
        ("192.168.1.7:80", 200),
        ("[::1]:8000", 200),
        ("[::1]", 200),
        ("box.example:8000", 200),
        ("rebound.example", 421),
        ("localhost.rebound.example", 421),
        ("127.0.0.1.rebound.example:80", 421),
        ("localhost:80:80", 421),
        ("localhost:port", 421),
        ("user@localhost", 421),
        ("", 421),
    ],
)
async def test_it_answers_to_addresses_and_to_the_names_that_it_is_given_alone(host, status):
    application = new_application(names=["box.example"])

    assert await Client(headers={"host": host}).ask(application) == status


async def test_it_needs_one_host():
    none, two = Client(), Client()
    none.scope["headers"] = []
    two.scope["headers"] = [(b"host", b"localhost"), (b"host", b"rebound.example")]

    assert [await client.ask(new_application()) for client in (none, two)] == [421, 421]


@pytest.mark.parametrize(
    ("client", "status"),
    [
        (("127.0.0.1", 1), 200),
        (("::1", 1), 200),
        (("::ffff:127.0.0.1", 1), 200),
        (("10.0.0.7", 1), 403),
        (("::ffff:10.0.0.7", 1), 403),
        (("box.example", 1), 403),
        (None, 403),
    ],
)
async def test_clients_on_other_machines_are_refused_unless_it_is_told_otherwise(client, status):
    assert await Client(client=client).ask(new_application()) == status
    assert await Client(client=client).ask(new_application(loopback_only=False)) == 200


@pytest.mark.parametrize(
    ("scope", "status"),
    [
        ({"path": "/live", "root_path": "/live"}, 200),
        ({"path": "/live/", "root_path": "/live"}, 200),
        ({"path": "/other"}, 404),
        ({"path": "/events/more"}, 404),
        ({"method": "HEAD"}, 200),
        ({"method": "POST"}, 405),
        ({"method": "HEAD", "path": "/events"}, 405),
        ({"path": "/events", "headers": {"sec-fetch-site": "cross-site"}}, 403),
        ({"path": "/events", "headers": {"sec-fetch-site": "same-site"}}, 403),
    ],
)
async def test_there_is_a_page_and_its_events_and_nothing_else(scope, status):
    assert await Client(**scope).ask(new_application()) == status


async def watched(application: LiveApplication, path: str = "/events", **scope: Any) -> tuple[Client, Any]:
    """Return a client that has been sent the first event, and the task of its request."""
    client = Client(path, **scope)
    task = asyncio.create_task(client.ask(application))
    await client.has(b"event: whole")
    return client, task


async def test_events_go_to_the_client_until_it_goes_and_then_nothing_runs():
    feed, _, clock = new_feed(interval=0.001)
    application = LiveApplication(feed, loopback_only=True)
    client, task = await watched(application)
    clock.now += 1.0
    await client.has(b"event: next")
    watching = feed.watching
    client.has_gone.set()
    await task
    kinds = [parsed(one)[1] for one in client.body.split(b"\n\n")[1:-1]]

    assert kinds == ["whole", "next"]
    assert (watching, feed.watching) == (1, 0)
    assert client.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert client.scope["state"] == {ENDLESS: True}


async def test_a_page_that_comes_back_goes_on_where_it_was():
    feed, _, clock = new_feed(interval=0.001)
    application = LiveApplication(feed, loopback_only=True)
    client, task = await watched(application)
    client.has_gone.set()
    await task
    last = parsed(client.body.split(b"\n\n", 1)[1])[0]
    clock.now += feed.interval
    again = Client("/events", headers={"last-event-id": last})
    task = asyncio.create_task(again.ask(application))
    await again.has(b"event: next")
    again.has_gone.set()
    await task

    assert b"event: whole" not in again.body


async def test_a_client_that_does_not_read_is_given_up_and_holds_nobody():
    feed, _, clock = new_feed(interval=0.001)
    application = LiveApplication(feed, loopback_only=True, write_timeout=0.02)
    slow, slow_task = await watched(application)
    slow.reads.clear()
    other, other_task = await watched(application)
    clock.now += 1.0
    await other.has(b"event: next")
    await slow_task
    left = feed.watching
    other.has_gone.set()
    await other_task

    assert b"event: next" not in slow.body
    assert (left, feed.watching) == (1, 0)


async def test_a_stream_ends_after_its_lifetime():
    feed, _, _ = new_feed(interval=0.001)
    client = Client("/events")

    assert await client.ask(LiveApplication(feed, loopback_only=True, lifetime=0.01)) == 200
    assert feed.watching == 0


async def test_a_further_client_is_told_to_come_later():
    feed, _, _ = new_feed()
    application = LiveApplication(feed, loopback_only=True, max_clients=2)
    clients = [await watched(application) for _ in range(2)]
    third = Client("/events")
    status = await third.ask(application)
    page = await Client().ask(application)
    for client, task in clients:
        client.has_gone.set()
        await task

    assert (status, third.headers["retry-after"], page) == (503, "5", 200)
    client, task = await watched(application)
    client.has_gone.set()
    await task


async def test_closing_ends_all_streams_and_answers_nobody_any_more():
    feed, source, _ = new_feed()
    application = LiveApplication(feed, loopback_only=True)
    clients = [await watched(application) for _ in range(3)]
    application.close()
    for _, task in clients:
        await task

    assert (feed.watching, source.closed) == (0, 1)
    assert [await Client(path).ask(application) for path in ("/", "/events")] == [503, 503]


async def test_a_cancelled_request_leaves_nothing():
    feed, _, _ = new_feed()
    application = LiveApplication(feed, loopback_only=True)
    _, task = await watched(application)
    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
    assert feed.watching == 0


async def test_a_client_that_cannot_be_watched_gets_no_more():
    feed, _, _ = new_feed()
    client = Client("/events")

    async def receive() -> Any:
        raise OSError("broken")

    client.receive = receive  # type: ignore[method-assign]
    status = await client.ask(LiveApplication(feed, loopback_only=True))

    assert (status, feed.watching) == (200, 0)


async def test_what_is_no_request_is_closed_or_refused():
    sent = []

    async def send(message: Any) -> None:
        sent.append(message["type"])

    await new_application()({"type": "websocket"}, Client().receive, send)
    with pytest.raises(NotImplementedError, match="a live page answers requests, and this is 'lifespan': mount it"):
        await new_application()({"type": "lifespan"}, Client().receive, send)

    assert sent == ["websocket.close"]
