"""Memory of a GPU that is full at any allocation: all is as it was before, and the same backward runs afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from tests.support.fake_cupy import Failure, OutOfMemoryError, open_gpus
from tests.support.sampling import SHARE, some

pytestmark = pytest.mark.usefixtures("only_the_loop_keeps")


@pytest.fixture
def gpu() -> Iterator[Any]:
    with open_gpus(1) as (opened,):
        yield opened


def written_into(layer: Any, x: Any) -> Any:
    y = layer(x)
    y *= 2
    y[1] = 3
    y[:, 0] += y[:, 1]
    return np.exp(y * 0.1, out=y)


def saved_on_the_host(layer: Any, x: Any) -> Any:
    with ag.graph.save_on_cpu():
        return layer(x)


def layers() -> Any:
    return nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.Linear(5, 4), nn.LayerNorm(4))


#: What makes a model, the shape of its input, and what calls it.
MODELS: dict[str, tuple[Callable[[], Any], tuple[int, ...], Callable[[Any, Any], Any]]] = {
    "layers": (layers, (3, 4), lambda model, x: model(x)),
    "images": (lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(2)), (2, 1, 6, 6), lambda model, x: model(x)),
    "recurrence": (lambda: nn.GRU(3, 4), (2, 2, 3), lambda model, x: model(x)[0]),
    "attention": (
        lambda: nn.MultiheadAttention(8, 2),
        (3, 2, 8),
        lambda model, x: model(x, x, x, need_weights=False)[0],
    ),
    "indices": (lambda: nn.Linear(4, 4), (5, 4), lambda model, x: model(x)[[0, 0, 2]]),
    "in place": (lambda: nn.Linear(4, 4), (5, 4), written_into),
    "checkpoint": (layers, (3, 4), lambda model, x: ag.checkpoint(model, x, use_reentrant=False)),
    "saved on the host": (layers, (3, 4), saved_on_the_host),
}


def bits(params: list[Any]) -> list[Any]:
    return [None if param.grad is None else param.grad.to("cpu").numpy().tobytes() for param in params]


def allocations() -> int:
    """Return how many arrays have found room since there was room for a million."""
    assert Failure.room is not None
    return 1_000_000 - Failure.room


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("blocks", [False, True], ids=["awaited", "blocking"])
@pytest.mark.parametrize("name", MODELS)
def test_a_backward_without_memory_at_any_allocation_changes_nothing(
    gpu: Any, name: str, blocks: bool, compiled: bool
) -> None:
    make, shape, call = MODELS[name]
    model = make().to(gpu)
    params = list(model.parameters())
    x = ag.tensor(np.random.default_rng(0).integers(-3, 4, shape).astype(np.float64), device=gpu)

    async def backward(loss: Any) -> None:
        if blocks:
            sync.backward(loss, retain_graph=True)
        else:
            await loss.backward(retain_graph=True)

    async def main() -> None:
        with ag.compiled_autograd(after=1) if compiled else nullcontext():
            for _ in range(3):
                model.zero_grad()
                loss = np.square(call(model, x)).sum()
                await backward(loss)
            model.zero_grad()
            Failure.room = 1_000_000
            await backward(loss)
            count, expected = allocations(), bits(params)
            for room in some(range(count), SHARE / 4):
                for param in params:
                    param.grad = ag.tensor(np.ones(param.shape), device=gpu) if room % 2 else None
                before, occupied = bits(params), gpu.memory_allocated()
                Failure.room = room
                with pytest.raises(OutOfMemoryError):
                    await backward(loss)
                assert Failure.room is None
                assert bits(params) == before
                assert gpu.memory_allocated() == occupied
                model.zero_grad()
                await backward(loss)
                assert bits(params) == expected

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_forward_without_memory_at_any_allocation_keeps_none(gpu: Any, name: str) -> None:
    make, shape, call = MODELS[name]
    model = make().to(gpu)
    x = ag.tensor(np.random.default_rng(0).integers(-3, 4, shape).astype(np.float64), device=gpu)
    call(model, x)
    occupied = gpu.memory_allocated()
    Failure.room = 1_000_000
    call(model, x)

    for room in some(range(allocations()), SHARE / 2):
        Failure.room = room
        with pytest.raises(OutOfMemoryError):
            call(model, x)
        assert gpu.memory_allocated() == occupied
