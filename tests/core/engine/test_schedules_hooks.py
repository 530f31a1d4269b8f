"""On any schedule hooks keep what they promise: who overlaps whom, who is called how often, and in which order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np

import asyncgrad as ag
from tests.core.engine.schedules import Alone, each_order, holds, no_task_is_left, randomness
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.turns import turns


@each_order
def test_no_later_node_starts_while_a_hook_runs_that_none_is_to_overlap(order):
    async def main():
        random = randomness()
        inside, started, broken = 0, 0, []

        def starts(grad: Any) -> None:
            nonlocal started
            started += 1
            if inside:
                broken.append(started)

        async def starts_and_waits(grad: Any) -> None:
            starts(grad)
            await turns(2)

        async def alone(tensor: Any) -> None:
            nonlocal inside
            inside += 1
            await turns(2)
            inside -= 1

        leaves = [leaf(1.0) for _ in range(3)]
        out = None
        for x in leaves:
            x.register_hook(starts)
            if random.random() < 0.7:
                x.register_post_accumulate_grad_hook(alone, overlap=False)
            branch = awaiting(x, starts_and_waits) if random.random() < 0.5 else calling(x, starts)
            out = branch if out is None else np.add(out, branch)
        await ag.backward(out)
        assert broken == []
        assert started == 6
        assert [x.grad.item() for x in leaves] == [1.0] * 3

    holds(main, order)


def observed_tensors(count: int) -> tuple[list[ag.Tensor], Any]:
    """Tensors of a graph, leaves and others, and its root, whose gradient times 1, 2, 3, ... is theirs."""
    tensors: list[ag.Tensor] = []
    out = None
    for factor in range(1, count + 1):
        x = leaf(1.0)
        y = awaiting(x, lambda grad: turns(1))
        tensors.append(x if factor % 2 else y)
        scaled = np.multiply(awaiting(y, lambda grad: turns(1)), float(factor))
        out = scaled if out is None else np.add(out, scaled)
    return tensors, out


@each_order
def test_a_multi_grad_hook_for_all_is_called_once_in_each_backward_with_the_gradients_of_that_one(order):
    async def main():
        tensors, out = observed_tensors(3)
        seen: list[list[float]] = []

        async def hook(grads: Any) -> None:
            await turns(2)
            seen.append([grad.item() for grad in grads])

        async def backward(factor: float) -> None:
            await turns(1)
            await ag.backward(out, np.full(1, factor), retain_graph=True)
            assert [factor * each for each in (1.0, 2.0, 3.0)] in seen

        ag.graph.register_multi_grad_hook(tensors, hook)
        await asyncio.gather(backward(1.0), backward(10.0))
        assert sorted(seen) == [[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]]
        assert no_task_is_left()

    holds(main, order)


@each_order
def test_a_multi_grad_hook_for_any_is_called_once_in_each_backward_with_one_of_that(order):
    async def main():
        tensors, out = observed_tensors(3)
        seen: list[float] = []

        async def hook(grad: Any) -> None:
            seen.append(grad.item())
            await turns(2)

        async def backward(factor: float) -> None:
            await turns(1)
            await ag.backward(out, np.full(1, factor), retain_graph=True)
            assert len([each for each in seen if each in (factor, 2.0 * factor, 3.0 * factor)]) == 1

        ag.graph.register_multi_grad_hook(tensors, hook, mode="any")
        await asyncio.gather(backward(1.0), backward(10.0))
        assert len(seen) == 2
        assert no_task_is_left()

    holds(main, order)


@each_order
def test_the_hooks_of_one_node_run_one_after_the_other_in_their_order_each_on_what_the_last_one_made(order):
    async def main():
        random, ran = randomness(), list[tuple[str, str, float]]()

        def doubling(node: str, name: str) -> Callable[..., Any]:
            async def hook(grads: Any, *inputs: Any) -> Any:
                grad = grads[0] if isinstance(grads, tuple) else grads
                ran.append((node, name, grad.item()))
                await turns(random.randrange(3))
                doubled = np.multiply(grad, 2.0)
                return (doubled,) if isinstance(grads, tuple) else doubled

            return hook

        leaves, out = [leaf(1.0), leaf(1.0)], None
        for node, x in zip("ab", leaves, strict=True):
            y = awaiting(x, lambda grad: turns(1))
            y.grad_fn.register_hook(doubling(node, "post 1"))
            y.grad_fn.register_prehook(doubling(node, "pre"))
            y.register_hook(doubling(node, "tensor 1"))
            y.grad_fn.register_hook(doubling(node, "post 2"))
            y.register_hook(doubling(node, "tensor 2"))
            out = y if out is None else np.add(out, y)
        await ag.backward(out)
        order_of_one = ["tensor 1", "tensor 2", "pre", "post 1", "post 2"]
        for node in "ab":
            own = [(name, grad) for each, name, grad in ran if each == node]
            assert own == [(name, 2.0**place) for place, name in enumerate(order_of_one)]
        assert [x.grad.item() for x in leaves] == [32.0, 32.0]

    holds(main, order)


@each_order
def test_a_hook_removed_or_added_while_its_node_runs_counts_from_the_next_run_on(order):
    async def main():
        random, x = randomness(), leaf(1.0)
        hooks = [Alone(1), Alone(1), Alone(1)]
        y = np.multiply(x, 2.0)
        handles = [y.register_hook(hook) for hook in hooks[:2]]
        begun = asyncio.Event()

        async def begins(grad: Any) -> None:
            begun.set()

        y.register_hook(begins)
        out = awaiting(y, lambda grad: turns(1))
        task = asyncio.ensure_future(ag.backward(out, retain_graph=True))
        await begun.wait()
        handles[random.randrange(2)].remove()
        y.register_hook(hooks[2])
        await task
        assert [hook.runs for hook in hooks] == [1, 1, 0]
        await ag.backward(out)
        assert sorted(hook.runs for hook in hooks[:2]) == [1, 2]
        assert hooks[2].runs == 1
        assert x.grad.item() == 4.0

    holds(main, order)
