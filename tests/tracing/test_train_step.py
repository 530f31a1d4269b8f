"""`ag.jit.train_step`: a step does what its lines do, bit for bit, by one program, all or nothing."""

from __future__ import annotations

import asyncio
import inspect
import math
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import errors, nn, optim
from asyncgrad.tracing import jitted, verifying
from asyncgrad.tracing.runner import missing_extra
from asyncgrad.tracing.stand_in import stand_in
from asyncgrad.tracing.updates import update_of
from asyncgrad.tracing.verifying import verify
from tests.support.loops import one_loop
from tests.tracing.running import bits

needs_llvmlite = pytest.mark.skipif(missing_extra() is not None, reason="there is no runner")

#: By name, an optimizer of parameters.
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda params: optim.SGD(params, lr=0.1),
    "SGD by BLAS": lambda params: optim.SGD(params, lr=0.1),
    "SGD uphill": lambda params: optim.SGD(params, lr=0.1, momentum=0.5, dampening=0.25, maximize=True),
    "SGD with momentum": lambda params: optim.SGD(params, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "Adam": lambda params: optim.Adam(params, lr=0.01, weight_decay=0.1),
    "AdamW": lambda params: optim.AdamW(params, lr=0.01, amsgrad=True),
    "RMSprop": lambda params: optim.RMSprop(params, lr=0.01, momentum=0.5, centered=True, weight_decay=0.1),
    "plain RMSprop": lambda params: optim.RMSprop(params, lr=0.01),
    "Lion": lambda params: optim.Lion(params, lr=0.01, weight_decay=0.1),
    "Adagrad": lambda params: optim.Adagrad(params, lr=0.1, lr_decay=0.1),
    "NAdam": lambda params: optim.NAdam(params, lr=0.01, weight_decay=0.1),
    "RAdam": lambda params: optim.RAdam(
        params, lr=0.01, betas=(0.9, 0.9), weight_decay=0.1, decoupled_weight_decay=True
    ),
    "Adamax": lambda params: optim.Adamax(params, lr=0.01, weight_decay=0.1),
    "Adadelta": lambda params: optim.Adadelta(params, lr=0.5, weight_decay=0.1),
    "ASGD": lambda params: optim.ASGD(params, lr=0.1, t0=2),
    "Rprop": lambda params: optim.Rprop(params),
    "Adafactor": lambda params: optim.Adafactor(params),
    "Muon": lambda params: optim.Muon([one for one in params if one.ndim == 2], lr=0.01),
    "LBFGS": lambda params: optim.LBFGS(params, max_iter=3, line_search_fn="strong_wolfe"),
    "SignDescent": lambda params: SignDescent(params),
}
#: Optimizers, each with how gradients are clipped.
CASES: list[tuple[str, dict[str, float]]] = [
    *[(name, {}) for name in OPTIMIZERS],
    ("Adam", {"clip_grad_norm": 0.05}),
    ("Adam", {"clip_grad_norm": math.inf}),
    ("Adam", {"clip_grad_value": 0.01}),
    ("LBFGS", {"clip_grad_norm": 0.05}),
    ("SGD by BLAS", {"clip_grad_value": 0.01}),
]


class SignDescent(optim.ElementwiseOptimizer):
    """An optimizer of a user, whose update is no part of a program."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 0.1})

    @staticmethod
    def _check(group: dict[str, Any]) -> None:
        pass

    def _updater(self, like: Any, group: dict[str, Any]) -> Any:
        def update(param: Any, grad: Any, state: dict[str, Any]) -> None:
            param -= group["lr"] * np.sign(grad)

        return update


def model_of(width: int = 5) -> nn.Sequential:
    ag.random.seed(0)
    return nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Dropout(0.25), nn.Linear(width, 4))


def batch(index: int, dtype: Any = np.float64) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(index)
    return rng.standard_normal((6, 3)).astype(dtype), rng.integers(0, 4, 6)


def state_of(model: nn.Module, optimizer: optim.Optimizer) -> Any:
    """Return what is equal where parameters, buffers and the state of the optimizer have equal bits."""
    states = optimizer.state_dict()["state"]
    return [bits(one) for one in model.state_dict().values()], repr(states), list(states)


async def step_by_hand(model: Any, optimizer: Any, x: Any, y: Any, clipping: dict[str, float]) -> ag.Tensor:
    """Do what a step does."""

    def clipped(grads: tuple[Any, ...]) -> Any:
        if "clip_grad_norm" in clipping:
            return optim.clip_grad_norm(grads, clipping["clip_grad_norm"])[0]
        return optim.clip_grad_value(grads, clipping["clip_grad_value"]) if clipping else grads

    async def closure() -> ag.Tensor:
        loss = nn.cross_entropy(model(x), y)
        found = clipped(await ag.grad(loss, list(model.parameters())))
        for param, gradient in zip(model.parameters(), found, strict=True):
            param.grad = gradient
        return loss

    if isinstance(optimizer, optim.LBFGS):
        return await optimizer.step_async(closure)
    loss = nn.cross_entropy(model(x), y)
    params = list(model.parameters())
    found = clipped(await ag.grad(loss, params))
    for param, gradient in zip(params, found, strict=True):
        param.grad = gradient
    await optimizer.step_async()
    optimizer.zero_grad()
    return loss


@one_loop
@pytest.mark.sampled("name", "clipping")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("name", "clipping"), CASES, ids=str)
async def test_a_step_has_the_bits_of_its_lines_for_each_optimizer_and_with_a_schedule(name, clipping, dtype):
    width = 500 if name == "SGD by BLAS" else 5
    with ag.default_dtype(dtype):
        model, twin = model_of(width), model_of(width)
    optimizer, other = OPTIMIZERS[name](list(model.parameters())), OPTIMIZERS[name](list(twin.parameters()))
    schedules = [optim.schedule.ExponentialLR(one, 0.9) for one in (optimizer, other)]
    step = ag.jit.train_step(lambda x, y: nn.cross_entropy(model(x), y), optimizer, **clipping)
    # The update of the two is another one after some steps.
    for index in range(20 if name in ("RAdam", "ASGD") else 9):
        ag.random.seed(index)
        loss = await step(*batch(index, dtype))
        ag.random.seed(index)
        expected = await step_by_hand(twin, other, *batch(index, dtype), clipping)
        for schedule in schedules:
            schedule.step()

        assert bits(loss) == bits(expected)
        assert loss.grad_fn is None
        assert state_of(model, optimizer) == state_of(twin, other)
        assert all(param.grad is None for param in model.parameters())
    assert step._jitted.counts["replayed"] >= 4


#: By name, what makes another number of a Python one, which an option may be as well.
NUMBERS: dict[str, Callable[[float], Any]] = {
    "float32": np.float32,
    "longdouble": np.longdouble,
    "array": np.array,
    "array of float32": lambda number: np.array(number, np.float32),
    "tensor": ag.tensor,
}


def with_numbers(optimizer: optim.Optimizer, number: Callable[[float], Any]) -> optim.Optimizer:
    """Make every number among the options of an optimizer another one."""
    for group in optimizer.param_groups:
        for name, value in group.items():
            if type(value) is float:
                group[name] = number(value)
            elif type(value) is tuple:
                group[name] = tuple([number(one) if type(one) is float else one for one in value])
    return optimizer


@one_loop
@pytest.mark.sampled("name", "kind")
@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("name", OPTIMIZERS)
async def test_options_are_numbers_of_numpy_arrays_and_tensors_as_well(name, kind):
    number = NUMBERS[kind]
    models = [model_of() for _ in range(4)]
    plain, compiled, other, eager = (OPTIMIZERS[name](list(model.parameters())) for model in models)
    # Each is rounded once, as an option of Python that has its value.
    for optimizer in (plain, other):
        with_numbers(optimizer, lambda value: float(number(value)))
    for optimizer in (compiled, eager):
        with_numbers(optimizer, number)
    steps = [
        ag.jit.train_step(lambda x, y, model=model: nn.cross_entropy(model(x), y), optimizer)
        for model, optimizer in zip(models[:2], (plain, compiled), strict=True)
    ]
    for index in range(8):
        for step in steps:
            ag.random.seed(index)
            await step(*batch(index))
        for model, optimizer in zip(models[2:], (other, eager), strict=True):
            ag.random.seed(index)
            await step_by_hand(model, optimizer, *batch(index), {})

    states = [state_of(*one) for one in zip(models, (plain, compiled, other, eager), strict=True)]
    assert states[1:] == states[:-1]


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam, optim.NAdam])
async def test_a_rate_that_is_an_array_may_be_written_into_between_two_steps(kind):
    model, twin = model_of(), model_of()
    rate, other_rate = np.array(0.1), 0.1
    optimizer, other = kind(model, lr=rate), kind(twin, lr=other_rate)
    step = ag.jit.train_step(lambda x, y: nn.cross_entropy(model(x), y), optimizer)
    for index in range(8):
        ag.random.seed(index)
        await step(*batch(index))
        ag.random.seed(index)
        await step_by_hand(twin, other, *batch(index), {})
        rate *= 0.5
        other.param_groups[0]["lr"] *= 0.5

        assert state_of(model, optimizer) == state_of(twin, other)
    assert step._jitted.counts["replayed"] >= 3


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam, optim.NAdam])
async def test_a_rate_may_be_set_between_two_steps_to_an_array_of_one_number(kind, shape):
    model, twin = model_of(), model_of()
    optimizer, other = kind(model, lr=0.1), kind(twin, lr=0.1)
    step = ag.jit.train_step(lambda x, y: nn.cross_entropy(model(x), y), optimizer)
    for index in range(8):
        rate = 0.1 * 0.5**index
        optimizer.param_groups[0]["lr"] = np.full(shape, rate)
        other.param_groups[0]["lr"] = rate
        ag.random.seed(index)
        await step(*batch(index))
        ag.random.seed(index)
        await step_by_hand(twin, other, *batch(index), {})

        assert state_of(model, optimizer) == state_of(twin, other)
    assert step._jitted.counts["replayed"] >= 3


@pytest.mark.parametrize("backend", ["table", "auto", pytest.param("fused", marks=needs_llvmlite)])
async def test_groups_have_options_of_their_own_which_may_change(backend):
    def made() -> tuple[Any, Any]:
        model = model_of()
        first, last = list(model[0].parameters()), list(model[3].parameters())
        groups = [{"params": first, "lr": 0.1}, {"params": last, "lr": 0.01, "weight_decay": 0.1}]
        return model, optim.Adam(groups)

    (model, optimizer), (twin, other) = made(), made()
    step = ag.jit.train_step(lambda x, y: nn.cross_entropy(model(x), y), optimizer, backend=backend)
    for index in range(20):
        for one in (optimizer, other):
            one.param_groups[0]["amsgrad"] = index > 30
            one.param_groups[1]["weight_decay"] = 0.0 if index > 12 else 0.1
        ag.random.seed(index)
        loss = await step(*batch(index))
        ag.random.seed(index)
        expected = await step_by_hand(twin, other, *batch(index), {})

        assert bits(loss) == bits(expected)
        assert state_of(model, optimizer) == state_of(twin, other)


def write_step(optimizer: optim.Adam) -> None:
    optimizer.state[optimizer.param_groups[0]["params"][1]]["step"] = 2


def replace_group(optimizer: optim.Adam) -> None:
    optimizer.param_groups[0] = {**optimizer.param_groups[0], "lr": 0.05}


def thaw(optimizer: optim.Adam) -> None:
    optimizer.param_groups[0]["params"][0].requires_grad_(True)


#: What a user does between two steps.
CHANGES: list[Callable[[optim.Adam], object]] = [
    lambda optimizer: optimizer.param_groups[1].update(lr=0.02),
    lambda optimizer: optimizer.param_groups[0].update(maximize=True, betas=(0.5, 0.6)),
    write_step,
    replace_group,
    lambda optimizer: optimizer.param_groups[0]["params"][0].requires_grad_(False),
    thaw,
    lambda optimizer: optimizer.add_param_group({"params": [ag.tensor([1.0], requires_grad=True)]}),
    lambda optimizer: optimizer.load_state_dict(optimizer.state_dict()),
    lambda optimizer: optimizer.step([[np.ones(one.shape) for one in g["params"]] for g in optimizer.param_groups]),
    lambda optimizer: optimizer.param_groups[1].update(amsgrad=True),
]


@one_loop
async def test_a_step_follows_what_is_done_to_its_optimizer_between_two():
    def made() -> tuple[Any, Any]:
        model = model_of()
        return model, optim.Adam([{"params": [*model[0].parameters()]}, {"params": [*model[3].parameters()]}], lr=0.1)

    (model, optimizer), (twin, other) = made(), made()
    step = ag.jit.train_step(lambda x, y: nn.cross_entropy(model(x), y), optimizer, verify=0)
    for index in range(4 + 2 * len(CHANGES)):
        if index >= 4 and index % 2 == 0:
            for one in (optimizer, other):
                CHANGES[index // 2 - 2](one)
        ag.random.seed(index)
        loss = await step(*batch(index))
        ag.random.seed(index)
        expected = nn.cross_entropy(twin(batch(index)[0]), batch(index)[1])
        await expected.backward()
        await other.step_async()
        other.zero_grad()

        assert bits(loss) == bits(expected)
        assert state_of(model, optimizer) == state_of(twin, other)
    assert step._jitted.counts["replayed"] > 4


async def test_a_parameter_without_a_gradient_stays_and_one_that_is_frozen_too():
    used, unused = ag.tensor([1.0, 2.0], requires_grad=True), ag.tensor([3.0], requires_grad=True)
    frozen = ag.tensor([4.0], requires_grad=True)
    optimizer = optim.Adam([used, unused, frozen], lr=0.5)
    frozen.requires_grad_(False)
    step = ag.jit.train_step(lambda x: (used * x * frozen).sum(), optimizer, clip_grad_norm=1.0)
    for index in range(8):
        await step(np.arange(2.0) + index)

    assert (unused.tolist(), frozen.tolist()) == ([3.0], [4.0])
    assert list(optimizer.state) == [used]
    assert optimizer.state[used]["step"] == 8
    assert step._jitted.counts["replayed"] == 3


async def test_a_parameter_stays_in_fortran_order():
    w = ag.tensor(np.asfortranarray(np.arange(6.0).reshape(2, 3)), requires_grad=True)
    assert w.numpy().flags.f_contiguous
    step = ag.jit.train_step(lambda x: (x @ w).sum(), optim.Adam([w], lr=0.5))
    for index in range(8):
        await step(np.full((4, 2), float(index)))
        assert w.numpy().flags.f_contiguous


async def test_a_compiled_function_is_taken_as_the_function():
    w = ag.tensor([1.0, 2.0], requires_grad=True)
    step = ag.jit.train_step(ag.jit(lambda x: (w * x).sum()), optim.SGD([w], lr=1.0))
    for _ in range(6):
        await step(np.ones(2))
    assert w.tolist() == [-5.0, -4.0]
    assert step._jitted.counts["replayed"] == 2


async def test_a_step_neither_reads_nor_changes_grads():
    w = ag.tensor([1.0, 2.0], requires_grad=True)
    w.grad = ag.tensor([5.0, 5.0])
    kept = w.grad
    step = ag.jit.train_step(lambda x: (w * x).sum(), optim.SGD([w], lr=1.0))
    for _ in range(6):
        await step(np.ones(2))

    assert w.tolist() == [-5.0, -4.0]
    assert w.grad is kept
    assert kept.tolist() == [5.0, 5.0]


async def test_with_aux_a_step_returns_what_the_function_returns_beside_the_loss():
    w = ag.tensor([1.0, 2.0], requires_grad=True)

    def loss_fn(x):
        y = w * x
        return (y**2).sum(), {"y": y, "first": y[0]}

    step = ag.jit.train_step(loss_fn, optim.Lion([w], lr=1.0), has_aux=True)
    for index in range(8):
        before = w.numpy().copy()
        loss, aux = await step(np.array([1.0, index]))
        expected = before * [1.0, index]

        assert loss.item() == (expected**2).sum()
        assert aux["y"].tolist() == expected.tolist()
        assert aux["first"].item() == expected[0]
        assert aux["y"].grad_fn is None
    assert step._jitted.counts["replayed"] == 3


async def test_running_statistics_are_those_of_the_lines():
    def made() -> tuple[Any, Any]:
        ag.random.seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 4))
        return model, optim.Adam(model, lr=0.01)

    (model, optimizer), (twin, other) = made(), made()
    step = ag.jit.train_step(lambda model, x, y: nn.cross_entropy(model(x), y), optimizer)
    for index in range(9):
        loss = await step(model, *batch(index))
        expected = await step_by_hand(twin, other, *batch(index), {})

        assert bits(loss) == bits(expected)
        assert state_of(model, optimizer) == state_of(twin, other)
    assert step._jitted.counts["replayed"] == 4


async def test_steps_of_several_tasks_take_turns():
    def made() -> tuple[Any, Any]:
        w = ag.tensor([1.0, 2.0], requires_grad=True)
        return w, optim.Adam([w], lr=0.1)

    (w, optimizer), (twin, other) = made(), made()
    step = ag.jit.train_step(lambda x: ((w - x) ** 2).sum(), optimizer)
    xs = [np.array([float(index), 1.0]) for index in range(12)]
    await asyncio.gather(*map(step, xs))
    for x in xs:
        gradient = await ag.func.grad(lambda p, x: ((p - x) ** 2).sum())(twin, x)
        await other.step_async([gradient])

    assert bits(w) == bits(twin)
    assert step._jitted.counts["replayed"] > 0


async def replayed_step(**options: Any) -> tuple[Any, Any, Any]:
    """Return a model, its optimizer, and a step that is replayed from now on."""
    ag.random.seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 4))
    optimizer = optim.Adam(model, lr=0.01)
    step = ag.jit.train_step(lambda x, y: nn.cross_entropy(model(x), y), optimizer, **options)
    for index in range(6):
        await step(*batch(index))
    assert step._jitted.counts["replayed"] == 1
    return model, optimizer, step


@asynccontextmanager
async def step_that_waits(step: Any) -> AsyncIterator[asyncio.Task[Any]]:
    """Begin a step whose program waits for a worker inside the block, and goes on after it."""
    running = asyncio.get_running_loop()
    began, let_go = asyncio.Event(), threading.Event()

    def occupy() -> None:
        running.call_soon_threadsafe(began.set)
        let_go.wait()

    # No step is short enough for the loop then, and the only worker does something else.
    with ag.loop_budget(0.0), ag.workers(1):
        other = asyncio.ensure_future(ag.forward(occupy))
        try:
            await began.wait()
            task = asyncio.ensure_future(step(*batch(6)))
            for _ in range(5):
                await asyncio.sleep(0)
            assert step._optimizer._tracker._updating is task
            yield task
        finally:
            let_go.set()
        await other


async def test_a_number_may_decide_otherwise_than_in_the_traced_step():
    w = [ag.tensor([1.0, 2.0], requires_grad=True) for _ in range(2)]
    steps = []
    for one in w:

        def loss(x: Any, w: Any = one) -> Any:
            return ((w * x) ** 2).sum() if x[0] > 0 else np.exp(w * x).sum()

        steps.append(ag.jit.train_step(loss, optim.SGD([one], lr=0.01)))
    for step in range(12):
        x = np.array([(-1.0) ** step, 0.5])
        await steps[0](x)
        optimizer = optim.SGD([w[1]], lr=0.01)
        loss_value = ((w[1] * x) ** 2).sum() if x[0] > 0 else np.exp(w[1] * x).sum()
        optimizer.zero_grad()
        await loss_value.backward()
        optimizer.step()
        assert bits(w[0]) == bits(w[1])


async def test_a_step_that_is_cancelled_changes_nothing():
    model, optimizer, step = await replayed_step()
    before = state_of(model, optimizer)
    async with step_that_waits(step) as task:
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert state_of(model, optimizer) == before
    assert np.isfinite((await step(*batch(6))).item())
    assert step._jitted.counts["replayed"] >= 2


@pytest.mark.parametrize("options", [{"clip_grad_norm": 1.0}, {"clip_grad_value": 1.0}], ids=str)
async def test_a_gradient_that_is_not_finite_is_named_and_changes_no_parameter(options):
    model, optimizer, step = await replayed_step(**options)
    before = state_of(model, optimizer)[1], [bits(one) for one in model.parameters()]
    x, y = batch(6)
    x[0, 0] = np.nan
    with np.errstate(all="ignore"), pytest.raises(errors.InvalidGradientError, match=r"of shape \(\d"):
        await step(x, y)

    assert (state_of(model, optimizer)[1], [bits(one) for one in model.parameters()]) == before


async def test_the_norm_before_clipping_is_kept():
    w = ag.tensor([0.0, 0.0], requires_grad=True)
    step = ag.jit.train_step(lambda x: (w * x).sum(), optim.SGD([w], lr=1.0), clip_grad_norm=0.5)
    assert step.grad_norm is None
    for index in range(1, 9):
        await step(np.array([3.0 * index, 4.0 * index]))
        assert step.grad_norm == 5.0 * index
    assert step._jitted.counts["replayed"] == 4


async def test_arrays_and_snapshots_taken_before_keep_their_numbers():
    model, _, step = await replayed_step()
    for index in range(5):
        snapshot, arrays = model.snapshot(), [one.numpy() for one in model.parameters()]
        before = [bits(one) for one in snapshot.parameters()]
        await step(*batch(index))

        assert [bits(one) for one in snapshot.parameters()] == before
        assert [bits(one) for one in arrays] == before
        assert [bits(one) for one in model.parameters()] != before


async def test_new_values_lie_in_the_memory_that_the_step_before_has_left():
    _, optimizer, step = await replayed_step()
    seen = []
    for index in range(6):
        await step(*batch(index))
        arrays = [one for state in optimizer.state.values() for one in state.values() if isinstance(one, np.ndarray)]
        seen.append([id(one) for one in arrays])
        del arrays

    assert seen[2] == seen[4]
    assert seen[3] == seen[5]


async def test_a_worker_compares_the_program_of_a_long_step(monkeypatch: pytest.MonkeyPatch):
    compared = []

    def verify_here(*args: Any) -> str | None:
        compared.append(threading.current_thread())
        return verify(*args)

    monkeypatch.setattr(jitted, "verify", verify_here)
    with ag.loop_budget(0.0):
        await replayed_step()

    assert len(compared) == 2
    assert threading.main_thread() not in compared


@one_loop
async def test_a_comparison_in_whose_midst_another_task_writes_is_made_again(monkeypatch: pytest.MonkeyPatch):
    w, target = ag.tensor([1.0, 2.0], requires_grad=True), ag.tensor([3.0, 4.0])
    is_within, may_go_on = asyncio.Event(), threading.Event()
    loop, waits = asyncio.get_running_loop(), [True]

    def stand_in_later(argument: ag.Tensor, array: np.ndarray) -> object:
        if waits.pop(0) if waits else False:
            loop.call_soon_threadsafe(is_within.set)
            may_go_on.wait()
        return stand_in(argument, array)

    monkeypatch.setattr(verifying, "stand_in", stand_in_later)
    step = ag.jit.train_step(lambda x: ((w * x - target) ** 2).sum(), optim.SGD([w], lr=0.0, momentum=0.5))
    x = np.ones(2)
    with ag.loop_budget(0.0):
        for _ in range(3):
            await step(x)
        task = asyncio.ensure_future(step(x))
        await is_within.wait()
        with ag.no_grad():
            target[...] = np.zeros(2)
        may_go_on.set()
        await task
        losses = [(await step(x)).item() for _ in range(4)]

    assert losses == [5.0] * 4
    assert step._jitted.counts["compared in vain"] == 1
    assert step._jitted.counts["replayed"] == 2


@one_loop
async def test_a_write_into_a_parameter_meanwhile_raises_and_changes_nothing_else():
    model, optimizer, step = await replayed_step()
    async with step_that_waits(step) as task:
        with ag.no_grad():
            model[0].bias[...] = 1.0
        before = state_of(model, optimizer)
    with pytest.raises(errors.OverlappingStepsError, match=r"a parameter of shape \(4,\) was written into"):
        await task

    assert state_of(model, optimizer) == before


async def test_a_hook_of_a_parameter_is_called_in_each_step():
    w = ag.tensor([1.0, 2.0], requires_grad=True)
    step = ag.jit.train_step(lambda x: (w * x).sum(), optim.SGD([w], lr=1.0))
    for _ in range(5):
        await step(np.ones(2))
    found = w.tolist()
    handle = w.register_hook(lambda grad: grad * 10)
    for _ in range(5):
        await step(np.ones(2))
    assert w.tolist() == [one - 50 for one in found]
    handle.remove()
    await step(np.ones(2))
    assert w.tolist() == [one - 51 for one in found]


async def test_a_method_with_static_arguments_is_compiled():
    class Task:
        def __init__(self) -> None:
            self.rate = 2.0

    class Model(nn.Module):
        def __init__(self) -> None:
            self.w = nn.Parameter(np.array([1.0, 2.0]))

        def loss(self, x: Any, mode: str) -> Any:
            return (self.w * x).sum() if mode == "sum" else (self.w * x).mean()

    model = Model()
    step = ag.jit.train_step(model.loss, optim.SGD(model, lr=1.0), static="mode")
    for _ in range(6):
        await step(np.ones(2), "sum")
    for _ in range(6):
        await step(np.ones(2), mode="mean")

    assert model.w.tolist() == [1.0 - 6 - 3, 2.0 - 6 - 3]
    assert step._jitted.counts["replayed"] == 4


@pytest.mark.parametrize("is_detached", [False, True])
async def test_a_step_whose_parameters_another_function_reads_is_eager_and_says_why(is_detached):
    def made() -> tuple[Any, Any, Any]:
        model = model_of()
        optimizer = optim.Adam(model, lr=0.05)

        def predicted(x: Any) -> Any:
            return nn.cross_entropy(model(x), np.zeros(6, int)).detach() if is_detached else model(x).sum()

        return model, optimizer, lambda x, y: nn.cross_entropy(model[0](x)[:, :4], y) * predicted(x)

    (model, optimizer, loss_fn), (twin, other, same_fn) = made(), made()
    step = ag.jit.train_step(loss_fn, optimizer)
    for index in range(8):
        ag.random.seed(index)
        loss = await step(*batch(index))
        ag.random.seed(index)
        expected = same_fn(*batch(index))
        await expected.backward()
        await other.step_async()
        other.zero_grad()

        assert bits(loss) == bits(expected)
        assert state_of(model, optimizer) == state_of(twin, other)
    reason = "would not see it change" if is_detached else "neither an argument"
    assert any(reason in key for key in step._jitted.counts), step._jitted.counts


async def test_explain_shows_the_program_of_a_step_and_changes_nothing():
    w = ag.tensor([1.0, 2.0], requires_grad=True)
    step = ag.jit.train_step(lambda x: (w * x).sum(), optim.SGD([w], lr=0.5))
    text = str(ag.jit.explain(step, np.ones(2)))

    assert "subtract(" in text
    assert w.tolist() == [1.0, 2.0]


async def test_a_loss_that_is_none_is_an_error_that_says_what_to_write():
    w = ag.tensor([1.0, 2.0], requires_grad=True)
    optimizer = optim.SGD([w], lr=1.0)
    with pytest.raises(errors.InvalidRootError, match=r"shape \(2,\): take its .sum\(\) or .mean\(\)"):
        await ag.jit.train_step(lambda: w * 2, optimizer)()
    with pytest.raises(errors.ArgumentTypeError, match="has_aux=True"):
        await ag.jit.train_step(lambda: (w.sum(), 1), optimizer)()
    with pytest.raises(errors.ArgumentTypeError, match="must return a pair"):
        await ag.jit.train_step(lambda: w.sum(), optimizer, has_aux=True)()
    assert w.tolist() == [1.0, 2.0]


def test_arguments_that_do_not_fit_are_refused():
    w = ag.tensor([1.0], requires_grad=True)
    optimizer = optim.SGD([w])

    async def waits() -> None:
        pass

    with pytest.raises(errors.ArgumentTypeError, match="swapped"):
        ag.jit.train_step(optimizer, lambda: w.sum())  # type: ignore[arg-type]
    with pytest.raises(errors.ArgumentTypeError, match="an Optimizer as its second argument"):
        ag.jit.train_step(lambda: w.sum(), [w])  # type: ignore[arg-type]
    with pytest.raises(errors.ArgumentTypeError, match=r"compile the async def by ag\.jit"):
        ag.jit.train_step(waits, optimizer)
    with pytest.raises(errors.ArgumentError, match="give one of the two"):
        ag.jit.train_step(lambda: w.sum(), optimizer, clip_grad_norm=1.0, clip_grad_value=1.0)
    with pytest.raises(errors.ArgumentTypeError, match="with a plain function"):
        ag.jit.train_step(None, optimizer)  # type: ignore[arg-type]
    with pytest.raises(errors.ArgumentError, match="clip_grad_norm"):
        ag.jit.train_step(lambda: w.sum(), optimizer, clip_grad_norm=-1.0)
    with pytest.raises(errors.ArgumentError, match="backend"):
        ag.jit.train_step(lambda: w.sum(), optimizer, backend="tables")


#: Those that do their update themselves, after the program: docs/jit.md has the same.
_BY_THEMSELVES = {"Adafactor", "LBFGS", "Muon", "Rprop"}
_OPTIMIZERS = [
    name
    for name in optim.__all__
    if isinstance(getattr(optim, name), type)
    and issubclass(getattr(optim, name), optim.Optimizer)
    and not inspect.isabstract(getattr(optim, name))
]


@pytest.mark.parametrize("name", _OPTIMIZERS)
def test_the_update_of_an_optimizer_is_a_part_of_the_program_unless_the_document_names_it(name: str) -> None:
    optimizer = getattr(optim, name)([ag.tensor(np.ones((3, 2)), requires_grad=True)])
    assert (update_of(optimizer) is None) == (name in _BY_THEMSELVES)
