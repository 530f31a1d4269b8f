"""The all-reduce hook: two ranks, each with a GPU of a stand-in for CuPy, and a communicator between them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import optim
from asyncgrad.devices.cuda import all_reduce_hook
from asyncgrad.errors import DeviceError
from tests.support.fake_cupy import open_gpus
from tests.support.fake_nccl import Ring


@pytest.fixture
def gpus() -> Iterator[list[Any]]:
    with open_gpus(2) as opened:
        yield opened


def leaf(device: Any, data: Any, hook: Any) -> Any:
    # The order in memory is kept.
    made = ag.tensor(data).to(device).detach().requires_grad_()
    made.register_post_accumulate_grad_hook(hook)
    return made


def host(tensor: Any) -> Any:
    return tensor.to("cpu").numpy()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("order", ["C", "F"])
async def test_the_gradient_is_the_sum_or_the_mean_over_the_ranks(
    gpus: list[Any], dtype: Any, average: bool, order: str
) -> None:
    data = np.array([[1, 2, 3], [4, 5, 6]], dtype, order=order)  # type: ignore[call-overload]
    ranks = [leaf(gpu, data, all_reduce_hook(one, average)) for gpu, one in zip(gpus, Ring().ranks(), strict=True)]

    async def main() -> None:
        grads = [ag.tensor(data * (rank + 1), device=gpu) for rank, gpu in enumerate(gpus)]
        await asyncio.gather(*((x * 1).backward(grad) for x, grad in zip(ranks, grads, strict=True)))

    await main()

    for x, gpu in zip(ranks, gpus, strict=True):
        assert x.grad.device is gpu
        assert x.grad.dtype == dtype
        assert x.grad._data.strides == x._data.strides
        np.testing.assert_array_equal(host(x.grad), data * np.array(1.5 if average else 3, dtype))


async def test_ranks_train_alike_and_exchange_in_the_order_of_their_graphs(gpus: list[Any]) -> None:
    ring, orders = Ring(), ([], [])  # type: ignore[var-annotated]

    async def train(gpu: Any, communicator: Any, order: list[str]) -> list[Any]:
        hook = all_reduce_hook(communicator)
        params = {name: leaf(gpu, np.full((2, size), 0.5), hook) for name, size in (("a", 2), ("b", 3), ("c", 4))}
        for name, param in params.items():
            param.register_post_accumulate_grad_hook(lambda _, name=name: order.append(name))
        optimizer = optim.Adam(params, lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            x = ag.tensor(np.full((1, 2), 0.1 * (gpu.index + 1) * (step + 1)), device=gpu)
            parts = [np.tanh(x @ param).sum() for param in params.values()]
            await (parts[0] * parts[1] * parts[2]).backward()
            optimizer.step()
        return [host(param).tolist() for param in params.values()]

    trained = await asyncio.gather(*map(train, gpus, ring.ranks(), orders))
    assert trained[0] == trained[1]

    counts = [[call[2] for call in calls] for calls in ring.calls]
    assert counts[0] == counts[1]
    assert len(counts[0]) == 9
    assert sorted(orders[0]) == sorted(["a", "b", "c"] * 3)


async def test_other_nodes_run_while_a_gradient_is_exchanged(gpus: list[Any]) -> None:
    first, second = Ring().ranks()
    seen: list[str] = []
    went_on = asyncio.Event()

    x = leaf(gpus[0], [1.0, 2.0], all_reduce_hook(first))
    before = ag.tensor([1.0, 1.0], device=gpus[0], requires_grad=True)
    z = np.exp(before)

    def note(_: Any) -> None:
        seen.append("z")
        went_on.set()

    z.register_hook(note)
    x.register_post_accumulate_grad_hook(lambda _: seen.append("x"))
    task = asyncio.ensure_future((z * x).sum().backward())
    # The node of z comes after the exchange has begun, and before the other rank takes part in it.
    await went_on.wait()
    assert seen == ["z"]
    assert not task.done()
    other = leaf(gpus[1], [1.0, 2.0], all_reduce_hook(second))
    await (other * 3).sum().backward()
    await task
    assert seen == ["z", "x"]
    np.testing.assert_allclose(host(x.grad), (np.e + 3) / 2)


@pytest.mark.parametrize("former", [None, 7.0])
async def test_a_rank_that_fails_or_is_left_alone_has_its_former_gradients(gpus: list[Any], former: Any) -> None:
    first, second = Ring().ranks()
    second.is_broken = True

    ranks = [leaf(gpu, [1.0, 2.0], all_reduce_hook(one)) for gpu, one in zip(gpus, (first, second), strict=True)]
    for x in ranks:
        x.grad = None if former is None else ag.tensor([former, former], device=x.device)
    with pytest.raises(RuntimeError, match="unhandled system error") as caught:
        await (ranks[1] * 2).sum().backward()
    assert any("AccumulateGrad" in note for note in caught.value.__notes__)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await (ranks[0] * 2).sum().backward()
    for x in ranks:
        assert (x.grad if former is None else host(x.grad).tolist()) == (former and [former, former])
    # Both GPUs go on.
    for x in ranks:
        (grad,) = await ag.grad((x * 3).sum(), [x])
        assert host(grad).tolist() == [3.0, 3.0]
    for calls in first._ring.calls:
        for *_, gate in calls:
            gate.set()


async def test_a_gradient_that_is_none_counts_as_zeros(gpus: list[Any]) -> None:
    class Cut(ag.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return None

    first, second = Ring().ranks()
    cut, whole = leaf(gpus[0], [1.0, 2.0], all_reduce_hook(first)), leaf(gpus[1], [1.0, 2.0], all_reduce_hook(second))

    await asyncio.gather(Cut.apply(cut).sum().backward(), (whole * 4).sum().backward())

    assert host(cut.grad).tolist() == host(whole.grad).tolist() == [2.0, 2.0]


async def test_a_leaf_of_the_cpu_is_refused(gpus: list[Any]) -> None:
    x = leaf("cpu", [1.0, 2.0], all_reduce_hook(Ring().ranks()[0]))

    with pytest.raises(DeviceError, match=r"dtype float64 on 'cpu': NCCL adds gradients of dtype float16, float32"):
        await (x * 2).sum().backward()
    assert x.grad is None
