"""Libraries that are built on anyio, such as httpx, work in async bodies of a backward."""

import pytest

import asyncgrad as ag

anyio = pytest.importorskip("anyio", reason="needs anyio, which comes with httpx: pip install 'asyncgrad[serve]'")


class Races(ag.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    async def backward(ctx, grad):
        async def win():
            await anyio.sleep(0)
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
            group.start_soon(win)
            await anyio.sleep_forever()
        with anyio.move_on_after(0):
            await anyio.sleep_forever()
        return grad * 2


async def test_a_cancel_scope_ends_what_a_body_awaits_and_the_backward_goes_on():
    x = ag.tensor(3.0, requires_grad=True)

    await Races.apply(x).backward()

    assert x.grad.item() == 2.0
