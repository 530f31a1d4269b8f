"""Training steps of one optimizer that overlap are told; backward passes gathered within one step are summed."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import pickle
import threading
from typing import Any

import pytest

import asyncgrad as ag
from asyncgrad import optim, sync
from asyncgrad.errors import OverlappingStepsError
from asyncgrad.testing import explore
from tests.support.sampling import cases
from tests.support.turns import one_turn


def weight() -> ag.Tensor:
    return ag.tensor([1.0], requires_grad=True)


async def slow_backward(w: ag.Tensor, factor: float, pause: Any = one_turn) -> None:
    """Add `factor` to the gradient, in a backward that suspends."""
    product = w * factor
    product.register_hook(pause)
    await product.sum().backward()


async def test_overlapping_steps_of_tasks_are_told_with_both_names_and_what_to_write() -> None:
    w = weight()
    optimizer = optim.SGD([w], lr=1.0)

    async def request() -> list[float]:
        await one_turn()  # before Python 3.13.3 an eager task has no name in its first step
        optimizer.zero_grad()
        await slow_backward(w, 2.0)
        optimizer.step()
        return w.tolist()

    tasks = [asyncio.create_task(request(), name=name) for name in ("first", "second", "third")]
    results = await asyncio.gather(*tasks, return_exceptions=True)

    assert results[0] == w.tolist() == [-1.0]
    for name, error in zip(("second", "third"), results[1:], strict=True):
        assert isinstance(error, OverlappingStepsError)
        assert f"overlap: task '{name}' calls zero_grad(), but task 'first' has a backward running" in str(error)
        assert "await ag.func.grad(loss)(params), then await optimizer.step_async(grads)" in str(error)


async def test_backward_passes_gathered_within_one_step_are_summed_and_never_accused() -> None:
    w = weight()
    optimizer = optim.SGD([w], lr=1.0)
    for _ in range(3):
        optimizer.zero_grad()
        await asyncio.gather(*(slow_backward(w, factor) for factor in (1.0, 2.0, 4.0)))
        assert w.grad is not None
        assert w.grad.tolist() == [7.0]
        optimizer.step()
    assert w.tolist() == [-20.0]


async def test_a_step_may_end_in_a_task_that_it_has_started() -> None:
    w = weight()
    optimizer = optim.SGD([w], lr=1.0)

    async def finish() -> None:
        await slow_backward(w, 2.0)
        optimizer.step()

    for _ in range(2):
        optimizer.zero_grad()
        await asyncio.create_task(finish())
    assert w.tolist() == [-3.0]


@pytest.mark.parametrize("zero_first", [True, False])
async def test_steps_in_turns_are_not_accused(zero_first: bool) -> None:
    w = weight()
    optimizer = optim.SGD([w], lr=1.0)
    lock = asyncio.Lock()

    async def trainer() -> None:
        for _ in range(3):
            async with lock:
                if zero_first:
                    optimizer.zero_grad()
                await slow_backward(w, 1.0)
                optimizer.step()
                if not zero_first:
                    optimizer.zero_grad()
            await one_turn()

    await asyncio.gather(trainer(), trainer())
    assert w.tolist() == [-5.0]


async def test_a_step_that_was_given_up_accuses_nobody() -> None:
    w = weight()
    optimizer = optim.SGD([w], lr=1.0)

    async def given_up() -> None:
        optimizer.zero_grad()
        await slow_backward(w, 100.0)

    async def cancelled() -> None:
        optimizer.zero_grad()
        await slow_backward(w, 100.0, lambda grad: asyncio.Event().wait())

    await asyncio.create_task(given_up())
    task = asyncio.create_task(cancelled())
    await one_turn()
    task.cancel()
    await asyncio.wait([task])

    optimizer.zero_grad()
    await slow_backward(w, 2.0)
    optimizer.step()
    assert w.tolist() == [-1.0]


async def test_a_step_does_not_use_gradients_that_another_has_added_since_its_zero_grad() -> None:
    w = weight()
    optimizer = optim.SGD([w], lr=1.0)
    may_go_on = asyncio.Event()

    async def waits_before_its_backward() -> None:
        optimizer.zero_grad()
        await may_go_on.wait()
        await slow_backward(w, 2.0)
        optimizer.step()

    async def is_in_between() -> None:
        optimizer.zero_grad()
        await slow_backward(w, 4.0)
        optimizer.step()

    late = asyncio.create_task(waits_before_its_backward(), name="late")
    await one_turn()
    await asyncio.create_task(is_in_between(), name="quick")
    may_go_on.set()
    with pytest.raises(OverlappingStepsError, match=r"'late' calls step\(\), but task 'quick' added its gradients"):
        await late
    assert w.tolist() == [-3.0]


async def test_steps_of_given_gradients_belong_to_who_asked_for_them() -> None:
    w = weight()
    optimizer = optim.SGD([w], lr=1.0)

    async def request(factor: float) -> None:
        grads = await ag.func.grad(lambda params: (params[0] * factor).sum())([w])
        await one_turn()
        optimizer.step(grads)

    await asyncio.gather(*map(request, (1.0, 2.0, 4.0)))
    assert w.tolist() == [-6.0]
    assert w.grad is None


def test_each_step_that_succeeds_has_used_its_own_gradients_only() -> None:
    outcomes = set[tuple[bool, ...]]()

    async def main() -> None:
        w = weight()
        optimizer = optim.SGD([w], lr=0.0)

        async def request(factor: float) -> bool:
            await one_turn()
            try:
                optimizer.zero_grad()
                await one_turn()
                await slow_backward(w, factor)
                await one_turn()
                used = None if w.grad is None else w.grad.tolist()
                optimizer.step()
            except OverlappingStepsError:
                return False
            assert used == [factor]
            return True

        outcomes.add(tuple(await asyncio.gather(*map(request, (1.0, 2.0, 4.0)))))

    assert explore(main, seeds=cases(1000)).distinct > 1
    assert {sum(outcome) for outcome in outcomes} >= {0, 1}


def test_threads_that_train_at_a_time_are_told_apart() -> None:
    w = weight()
    optimizer = optim.SGD([w], lr=1.0)
    optimizer.zero_grad()
    sync.backward((w * 2.0).sum())
    errors: list[BaseException] = []

    def train() -> None:
        try:
            optimizer.zero_grad()
        except OverlappingStepsError as error:
            errors.append(error)

    thread = threading.Thread(target=contextvars.Context().run, args=(train,), name="other")
    thread.start()
    thread.join()

    assert "thread 'other' calls zero_grad(), but thread 'MainThread' has gradients in .grad" in str(errors[0])
    optimizer.step()
    assert w.tolist() == [-1.0]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_of_an_optimizer_has_steps_of_its_own(copied: Any) -> None:
    w = weight()
    optimizer = optim.SGD([w], lr=1.0)
    optimizer.zero_grad()
    sync.backward((w * 2.0).sum())
    other = copied(optimizer)
    assert other._tracker.open == []
    assert optimizer._tracker.open != []
