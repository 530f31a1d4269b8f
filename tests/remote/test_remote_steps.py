"""What docs/remote-steps.md says of cancellation, beside its examples, which tests/house/test_docs.py runs."""

from __future__ import annotations

import asyncio
import doctest
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from tests.remote.serving import serving_app

PAGE = Path(__file__).parents[2] / "docs" / "remote-steps.md"


def wrapper_of_page() -> Any:
    """Return the function `to_its_end`, by running the example of the page that defines it."""
    examples = doctest.DocTestParser().get_examples(PAGE.read_text().replace("```", ""))
    (example,) = [one for one in examples if one.source.startswith("async def to_its_end(")]
    test = doctest.DocTest([example], {"asyncio": asyncio}, PAGE.name, str(PAGE), 0, None)
    doctest.DocTestRunner(verbose=False).run(test, clear_globs=False)
    return test.globs["to_its_end"]


class Request(ag.Function):
    """Sends one request in its backward, which tells the name of the rule."""

    concurrent = True

    @staticmethod
    def forward(ctx, x, client, name):
        ctx.client, ctx.name = client, name
        return x * 2.0

    @staticmethod
    async def backward(ctx, grad):
        reply = await ctx.client.post("/", json=ctx.name)
        return np.array(reply.json()) * grad.numpy(), None, None


async def test_a_request_that_is_cancelled_closes_its_connection_and_the_others_of_the_client_go_on():
    httpx = pytest.importorskip("httpx")
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    arrived, told, may_answer = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def answer(request):
        if await request.json() == "cancelled":
            arrived.set()
            assert (await request.receive())["type"] == "http.disconnect"
            told.set()
        await may_answer.wait()
        return JSONResponse(3.0)

    async with (
        serving_app(Starlette(routes=[Route("/", answer, methods=["POST"])])) as address,
        httpx.AsyncClient(base_url=address, timeout=None) as client,
    ):
        x, y = (ag.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
        going = asyncio.ensure_future(Request.apply(y, client, "goes on").sum().backward())
        cancelled = asyncio.ensure_future(Request.apply(x, client, "cancelled").sum().backward())
        await arrived.wait()
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        await told.wait()
        may_answer.set()
        await going
        assert x.grad is None
        assert y.grad.tolist() == [3.0, 3.0]
        await Request.apply(x, client, "again").sum().backward()
        assert x.grad.tolist() == [3.0, 3.0]


async def test_a_transaction_awaited_to_its_end_leaves_no_lock_where_it_is_cancelled(tmp_path):
    """Without the wrapper, a cancelled query after a write leaves the file locked."""
    pytest.importorskip("aiosqlite")
    import sqlalchemy
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'numbers.db'}", connect_args={"timeout": 0.1})
    loop, started, may_end = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def hold() -> int:
        loop.call_soon_threadsafe(started.set)
        may_end.wait()
        return 0

    @sqlalchemy.event.listens_for(engine.sync_engine, "connect")
    def add_hold(connection: Any, _: object) -> None:
        connection.create_function("hold", 0, hold)

    async def write(*statements: str) -> None:
        async with engine.begin() as connection:
            for statement in statements:
                await connection.execute(sqlalchemy.text(statement))

    await write("CREATE TABLE numbers (number)")
    cancelled = asyncio.ensure_future(
        wrapper_of_page()(write("INSERT INTO numbers VALUES (1)", "SELECT hold() FROM numbers"))
    )
    await started.wait()
    cancelled.cancel()
    await asyncio.sleep(0)
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await cancelled

    await write("INSERT INTO numbers VALUES (2)")
    async with engine.connect() as connection:
        numbers = await connection.scalars(sqlalchemy.text("SELECT number FROM numbers ORDER BY number"))
        assert numbers.all() == [1, 2]
    await engine.dispose()
