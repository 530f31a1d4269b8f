"""What an owner's functions raise and return: it fails one request, once, and nothing is half-done or lost by it."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'asyncgrad[serve]'")
pytest.importorskip("httpx", reason="needs httpx: pip install 'asyncgrad[serve]'")

import httpx
from starlette.exceptions import HTTPException

import asyncgrad as ag
from asyncgrad import nn, optim
from asyncgrad.distributed import Definition, HttpTransport, SimulatedTransport, http_app, stage
from asyncgrad.errors import (
    ArgumentTypeError,
    RemoteError,
    UnknownCallError,
    UnknownStageError,
    WorkerLostError,
)


class Odd(BaseException):
    """No Exception, as a KeyboardInterrupt is none."""


#: What would mean something else coming from a host, or of a task.
RAISED = [asyncio.CancelledError, GeneratorExit, Odd, UnknownCallError, UnknownStageError, WorkerLostError]

#: What is no array of numbers, and what no message holds.
RETURNED = {
    "objects": lambda: np.array([object()]),
    "an object": lambda: np.array(None),
    "text": lambda: np.array(["a"]),
    "bytes": lambda: np.bytes_(b"a"),
    "times": lambda: np.array(["2020"], "M8[D]"),
    "records": lambda: np.zeros(2, [("a", "f4")]),
}


class Raises(ag.Function):
    """A node whose backward raises."""

    made = 0

    @staticmethod
    def forward(ctx, x, kind, is_async):
        ctx.kind, ctx.is_async = kind, is_async
        return x.numpy() * 1.0

    @staticmethod
    def backward(ctx, grad):
        Raises.made += 1

        async def later():
            await asyncio.sleep(0)
            raise ctx.kind

        if ctx.is_async:
            return later()
        raise ctx.kind


def connected(app, **options):
    return HttpTransport(
        ["http://0"], client=lambda: httpx.AsyncClient(transport=httpx.ASGITransport(app=app)), **options
    )


@pytest.mark.parametrize("kind", RAISED)
@pytest.mark.parametrize("is_async", [False, True])
async def test_what_a_function_of_the_owner_raises_is_told_once_and_the_stage_stays_where_it_is(kind, is_async):
    made = []

    def plain(w, x):
        made.append(x)
        raise kind

    async def later(w, x):
        await asyncio.sleep(0)
        return plain(w, x)

    transport = SimulatedTransport(["a", "b"])
    one = stage(later if is_async else plain, 2.0, transport=transport, worker="a")
    with pytest.raises(RemoteError, match=f"a function of the stage raised {kind.__name__} by itself") as raised:
        await one(1.0)
    assert (len(made), one.worker) == (1, "a")
    # The owner's line is told to a home that is trusted.
    assert any("raise kind" in note for note in raised.value.__notes__)


@pytest.mark.parametrize("kind", RAISED)
@pytest.mark.parametrize("is_async", [False, True])
async def test_what_a_backward_of_the_owner_raises_is_told_once_and_no_gradient_is_kept(kind, is_async):
    transport = SimulatedTransport(["a", "b"])
    one = stage(lambda w, x: Raises.apply(x, kind, is_async) * w, 2.0, transport=transport, worker="a")
    x = ag.tensor(3.0, requires_grad=True)
    y = await one(x)
    before = Raises.made
    with pytest.raises(RemoteError, match=f"raised {kind.__name__} by itself"):
        await y.backward()
    assert (Raises.made - before, one.worker, x.grad, await one.grads()) == (1, "a", None, [None])


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*RAISED, ZeroDivisionError])
async def test_a_step_that_an_optimizer_fails_in_the_midst_of_is_not_made(kind):
    class Fails(optim.ElementwiseOptimizer):
        def __init__(self, params):
            super().__init__(params, {})

        @staticmethod
        def _check(group):
            pass

        def _updater(self, like, group):
            calls = []

            def update(param, grad, state):
                param -= 1.0
                calls.append(param)
                if len(calls) == 2 and fails:
                    raise kind

            return update

    fails, model = True, nn.Linear(2, 1, dtype=np.float64)
    before = [param.numpy().copy() for param in model.parameters()]
    async with connected(http_app({"one": Definition(model, optimizer=Fails)})) as transport:
        one = transport.stage("one")
        await (await one(np.ones(2))).backward()
        with pytest.raises(ZeroDivisionError if kind is ZeroDivisionError else RemoteError):
            await one.step()
        assert all(map(np.array_equal, model.parameters(), before))
        assert not one.is_step_unsure
        # The gradients are there still.
        fails = False
        await one.step(retry=True)
        assert all(map(np.array_equal, model.parameters(), [array - 1.0 for array in before]))


@pytest.mark.parametrize("what", RETURNED)
async def test_an_array_that_holds_no_numbers_is_refused_where_it_is_returned(what):
    one = stage(RETURNED[what], transport=SimulatedTransport(["a"]))
    with pytest.raises(ArgumentTypeError, match=r"a stage takes and returns arrays.* not "):
        await one()
    async with connected(http_app({"one": RETURNED[what]})) as transport:
        with pytest.raises(ArgumentTypeError, match=r"the stage has failed \(error"):
            await transport.stage("one")()


@pytest.mark.parametrize("show_errors", [False, True])
async def test_what_no_message_holds_is_an_error_of_the_stage_and_not_of_the_server(show_errors):
    def raises():
        raise ArithmeticError(10**5000)

    app = http_app({"returns": lambda: 10**5000, "raises": raises}, show_errors=show_errors)
    async with connected(app) as transport:
        with pytest.raises(ValueError, match="integer string conversion" if show_errors else "the stage has failed"):
            await transport.stage("returns")()
        with pytest.raises(ArithmeticError):
            await transport.stage("raises")()


async def test_an_http_exception_of_authenticate_is_the_owner_s_answer():
    def authenticate(request):
        raise HTTPException(418, "come back on Monday")

    async with connected(http_app({"one": lambda x: x}, authenticate=authenticate)) as transport:
        with pytest.raises(RemoteError, match="answers 418: come back on Monday"):
            await transport.stage("one").start()
