"""A loop of small steps, none of which spends the loop's budget, lets the event loop turn whenever it is spent."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, optim
from asyncgrad.core.engine.graph_task import all_suspended
from asyncgrad.scipy import integrate, optimize
from tests.support.clocks import TickingClock, hand_in
from tests.support.functions import awaiting
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop, one_loop
from tests.support.sampling import cases
from tests.support.settings import loop_budget
from tests.support.turns import at_once, turns_given

#: In ticks of the clock: one for each step at least.
BUDGET = 20.0
STEPS = 60


@pytest.fixture(autouse=True)
def clock() -> Iterator[TickingClock]:
    """A clock that goes on whenever it is read."""
    made = TickingClock()
    with hand_in(made), loop_budget(BUDGET):
        yield made


def square(x: Any) -> Any:
    return (x * x).sum()


def squares(x: Any) -> Any:
    return x * x


async def square_later(x: Any) -> Any:
    return (x * x).sum()


async def double_later(x: Any) -> Any:
    return x * 2.0


class Doubled(ag.Function):
    """Twice its argument, by an async forward that never suspends."""

    @staticmethod
    async def forward(ctx: Any, x: Any) -> Any:
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2.0


class Awaited(nn.Module):
    """A module whose calls are awaited, and never suspend."""

    async def forward(self, x: Any) -> Any:
        return x * 2.0


def hooked_module() -> nn.Module:
    module = Awaited()

    async def hook(*_: Any) -> None:
        pass

    module.register_forward_hook(hook)
    return module


def optimizer() -> optim.Optimizer:
    weight = leaf(1.0, 2.0)
    weight.grad = ag.tensor([1.0, 1.0])
    return optim.SGD([weight], lr=0.1)


def closure_of(made: optim.Optimizer) -> Callable[[], Any]:
    async def closure() -> Any:
        return 1.0

    return closure


def step_with(make: Callable[[], Any], step: Callable[[Any], Any]) -> Callable[[], Callable[[], Awaitable[Any]]]:
    """Return what prepares something, and returns the step that uses it."""

    def prepare() -> Callable[[], Awaitable[Any]]:
        made = make()
        return lambda: step(made)

    return prepare


def of_leaf(step: Callable[[Any], Any]) -> Callable[[], Callable[[], Awaitable[Any]]]:
    return step_with(lambda: leaf(1.0, 2.0), step)


def on_no_workers(step: Callable[[Any], Any]) -> Callable[[Any], Any]:
    async def run(x: Any) -> Any:
        with ag.workers(0):
            return await step(x)

    return run


async def leapfrog(x: Any) -> Any:
    """One step of Hamiltonian Monte Carlo."""
    gradient = ag.func.grad(square)
    momentum = np.ones(2) - 0.05 * await gradient(x)
    return momentum - 0.05 * await gradient(x + 0.1 * momentum)


#: What may be awaited again and again, by its name; each prepares something, and returns the step.
STEPS_OF: dict[str, Callable[[], Callable[[], Awaitable[Any]]]] = {
    "t.backward": of_leaf(lambda x: square(x).backward()),
    "t.backward of an async body": of_leaf(lambda x: awaiting(square(x), at_once).backward()),
    "t.backward of a hooked tensor": of_leaf(lambda x: hooked(x).backward()),
    "ag.backward": of_leaf(lambda x: ag.backward([square(x)])),
    "ag.grad": of_leaf(lambda x: ag.grad(square(x), [x])),
    "ag.grad with create_graph": of_leaf(lambda x: ag.grad(square(x), [x], create_graph=True)),
    "ag.grad with is_grads_batched": of_leaf(
        lambda x: ag.grad([squares(x)], [x], [ag.tensor(np.eye(2))], is_grads_batched=True),
    ),
    "compiled backward": of_leaf(lambda x: compiled(x)),
    "ag.value_and_grad": of_leaf(ag.value_and_grad(square)),
    "ag.vjp": of_leaf(lambda x: ag.vjp(square, x)),
    "ag.jvp": of_leaf(lambda x: ag.jvp(square, x, x)),
    "ag.vhp": of_leaf(lambda x: ag.vhp(square, x, x)),
    "ag.hvp": of_leaf(lambda x: ag.hvp(square, x, x)),
    "ag.jacobian": of_leaf(lambda x: ag.jacobian(squares, x)),
    "ag.hessian": of_leaf(lambda x: ag.hessian(square, x)),
    "ag.gradcheck": of_leaf(lambda x: ag.gradcheck(square, x)),
    "func.grad": of_leaf(ag.func.grad(square)),
    "func.grad of an async def": of_leaf(ag.func.grad(square_later)),
    "func.value_and_grad": of_leaf(ag.func.value_and_grad(square)),
    "func.elementwise_grad": of_leaf(ag.func.elementwise_grad(squares)),
    "func.vjp": of_leaf(lambda x: ag.func.vjp(square, x)),
    "func.jvp": of_leaf(lambda x: ag.func.jvp(square, (x,), (x,))),
    "func.linearize": of_leaf(lambda x: ag.func.linearize(square, x)),
    "func.jacrev": of_leaf(ag.func.jacrev(squares)),
    "func.jacfwd": of_leaf(ag.func.jacfwd(squares)),
    "func.hessian": of_leaf(ag.func.hessian(square)),
    "func.hvp": of_leaf(lambda x: ag.func.hvp(square)(x, x)),
    "func.fixed_point": of_leaf(lambda x: ag.func.fixed_point(lambda a, y: a + 0.5 * y, x, np.ones(2))),
    "optimizer.step_async": step_with(optimizer, lambda made: made.step_async()),
    "optimizer.step_async with a closure": step_with(optimizer, lambda made: made.step_async(closure_of(made))),
    "ag.forward without workers": of_leaf(on_no_workers(lambda x: ag.forward(square, x))),
    "Function.apply of an async forward": of_leaf(lambda x: Doubled.apply(x)),
    "ag.checkpoint of an async def": of_leaf(lambda x: ag.checkpoint(square_later, x)),
    "ag.checkpoint of an async def, not reentrant": of_leaf(
        lambda x: ag.checkpoint(square_later, x, use_reentrant=False)
    ),
    "a checkpointed backward": of_leaf(lambda x: ag.checkpoint(square, x).backward()),
    "nn.Sequential of an async module": of_leaf(lambda x: nn.Sequential(Awaited())(x)),
    "a module with an async hook": step_with(hooked_module, lambda module: module(leaf(1.0))),
    "scipy.integrate.quad of an async def": of_leaf(lambda x: integrate.quad(double_later, 0.0, 1.0)),
    "scipy.optimize.minimize of an async def": of_leaf(lambda x: optimize.minimize(square_later, x)),
    "a step of Hamiltonian Monte Carlo": step_with(lambda: np.ones(2), leapfrog),
}


def hooked(x: ag.Tensor) -> Any:
    y = x * x
    y.register_hook(lambda grad: None)
    return y.sum()


async def compiled(x: ag.Tensor) -> None:
    with ag.compiled_autograd(after=1):
        await square(x).backward()


async def again_and_again(step: Callable[[], Awaitable[Any]]) -> None:
    for _ in range(STEPS):
        await step()


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPS_OF)
async def test_the_loop_turns_beside_a_loop_of_small_steps(name):
    step = STEPS_OF[name]()
    # Each step looks at the clock at least once, and a turn of the loop follows on each budget.
    assert await turns_given(again_and_again(step)) >= STEPS / BUDGET


async def examples() -> AsyncIterator[float]:
    for index in range(STEPS):
        yield float(index)


BATCHES: dict[str, Callable[[], Any]] = {
    "an array": lambda: ag.data.batches(np.arange(STEPS), 1),
    "an array, read by a worker": lambda: ag.data.batches(np.arange(STEPS), 1, workers=1),
    "an iterable": lambda: ag.data.batches(iter(range(STEPS)), 1),
    "an async iterable": lambda: ag.data.batches(examples(), 1),
    "an async iterable, in whole batches": lambda: ag.data.batches(examples(), None),
    "an async iterable, read by a task": lambda: ag.data.batches(examples(), 1, workers=1),
}


@pytest.mark.parametrize("source", BATCHES)
async def test_the_loop_turns_beside_a_loop_over_batches(source):
    async def read() -> None:
        async for _ in BATCHES[source]():
            pass

    assert await turns_given(read()) >= STEPS / BUDGET


#: Those that take about as long as a backward, for programs of many.
_SHORT = sorted(STEPS_OF.keys() - {"ag.gradcheck", *(name for name in STEPS_OF if name.startswith("scipy."))})


@one_loop
@pytest.mark.parametrize("seed", range(cases(500)))
async def test_random_programs_of_small_steps_keep_the_loop_no_longer_than_the_budget(clock, seed):
    rng = random.Random(seed)
    tasks = rng.randint(1, 6)
    longest = last = 0.0

    async def program(names: list[str]) -> None:
        steps = [STEPS_OF[name]() for name in names]
        for _ in range(rng.randint(1, 20)):
            await rng.choice(steps)()
            if rng.random() < 0.1:
                await asyncio.sleep(0)

    async def tick() -> None:
        nonlocal longest, last
        while True:
            longest, last = max(longest, clock.now - last), clock.now
            await asyncio.sleep(0)

    async def main() -> None:
        nonlocal last
        last = clock.now
        ticker = asyncio.ensure_future(tick())
        await asyncio.gather(*[program(rng.sample(_SHORT, 3)) for _ in range(tasks)])
        ticker.cancel()
        await asyncio.wait([ticker])

    await main()
    # Besides, each task looks at the clock a few times until it finds the budget spent.
    assert longest <= BUDGET + 4 * tasks + 4


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [2, 50])
async def test_the_loop_turns_beside_loops_in_many_tasks(tasks):
    xs = [leaf(1.0, 2.0) for _ in range(tasks)]
    loops = [again_and_again(lambda x=x: square(x).backward()) for x in xs]
    assert await turns_given(asyncio.gather(*loops)) >= tasks * STEPS / BUDGET
    assert all(x.grad.tolist() == [2.0 * STEPS, 4.0 * STEPS] for x in xs)


async def test_a_timeout_ends_a_loop_of_small_backwards():
    async def timed() -> None:
        x = leaf(1.0, 2.0)
        async with asyncio.timeout(0):
            while True:
                await square(x).backward()

    with pytest.raises(TimeoutError):
        await timed()


async def test_a_cancelled_loop_of_small_backwards_ends_between_two_of_them():
    x = leaf(3.0)

    async def forever() -> None:
        while True:
            await (x * 2.0).backward()

    task = asyncio.ensure_future(forever())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert x.grad.item() % 2.0 == 0.0


async def test_backward_passes_that_wait_for_their_turn_have_nothing_yet():
    xs = [leaf(1.0, 2.0) for _ in range(50)]
    tasks = [asyncio.ensure_future(square(x).backward()) for x in xs]
    await asyncio.sleep(0)
    waiting = [task for task in tasks if not task.done()]
    assert waiting
    assert not all_suspended()

    waiting[-1].cancel()
    await asyncio.wait(tasks)
    assert [x.grad is None for x in xs] == [task is waiting[-1] for task in tasks]


@pytest.mark.parametrize("name", [name for name in STEPS_OF if "async" in name])
async def test_a_step_that_is_cancelled_while_it_yields_leaves_no_coroutine_that_was_never_awaited(name):
    async def main() -> None:
        step = STEPS_OF[name]()
        for _ in range(30):
            task = asyncio.ensure_future(again_and_again(step))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])

    with loop_budget(0.0):
        await main()


@on_each_loop
def test_blocking_calls_in_a_loop_never_yield(run):
    async def main() -> None:
        x = leaf(1.0, 2.0)

        async def work() -> None:
            for _ in range(STEPS):
                ag.sync.backward(square(x))

        assert await turns_given(work()) <= 1

    run(main())
