"""Schedules set the rates that PyTorch's do, go on from their state, and can be combined."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import optim
from asyncgrad.errors import ArgumentError, ArgumentTypeError
from asyncgrad.optim import schedule

RATES = (0.5, 0.1)


def optimizer_of_two_groups() -> optim.Optimizer:
    return optim.SGD([{"params": [ag.tensor([1.0], requires_grad=True)], "lr": rate} for rate in RATES])


#: Each makes a schedule from the module, ours or PyTorch's, and an optimizer.
MAKERS: dict[str, Callable[[Any, Any], Any]] = {
    "LambdaLR": lambda module, optimizer: module.LambdaLR(optimizer, lambda epoch: 0.9**epoch),
    "LambdaLR-each": lambda module, optimizer: module.LambdaLR(
        optimizer, [lambda epoch: 0.9**epoch, lambda epoch: 1 / (1 + epoch)]
    ),
    "MultiplicativeLR": lambda module, optimizer: module.MultiplicativeLR(
        optimizer, lambda epoch: 1 - 0.5 / (epoch + 1)
    ),
    "MultiplicativeLR-each": lambda module, optimizer: module.MultiplicativeLR(
        optimizer, [lambda epoch: 0.9, lambda epoch: epoch / (1 + epoch)]
    ),
    "StepLR": lambda module, optimizer: module.StepLR(optimizer, 3, 0.5),
    "MultiStepLR": lambda module, optimizer: module.MultiStepLR(optimizer, [3, 7, 7], 0.5),
    "ConstantLR": lambda module, optimizer: module.ConstantLR(optimizer, 0.2, 4),
    "LinearLR": lambda module, optimizer: module.LinearLR(optimizer, 0.2, 0.9, 4),
    "ExponentialLR": lambda module, optimizer: module.ExponentialLR(optimizer, 0.9),
    "PolynomialLR": lambda module, optimizer: module.PolynomialLR(optimizer, 10, 2.0),
    "CosineAnnealingLR": lambda module, optimizer: module.CosineAnnealingLR(optimizer, 8, 0.01),
    "CosineAnnealingWarmRestarts": lambda module, optimizer: module.CosineAnnealingWarmRestarts(optimizer, 3, 2, 0.01),
    "SequentialLR": lambda module, optimizer: module.SequentialLR(
        optimizer,
        [module.LinearLR(optimizer, 0.1, total_iters=5), module.CosineAnnealingLR(optimizer, 20)],
        milestones=[5],
    ),
    "ChainedScheduler": lambda module, optimizer: module.ChainedScheduler(
        [module.LinearLR(optimizer, 0.1, total_iters=5), module.ExponentialLR(optimizer, 0.9)]
    ),
    "SequentialLR-one cycle": lambda module, optimizer: module.SequentialLR(
        optimizer, [module.LinearLR(optimizer, 0.1, total_iters=5), module.OneCycleLR(optimizer, 1.0, 40)], [5]
    ),
    "SequentialLR-of a function": lambda module, optimizer: module.SequentialLR(
        optimizer, [module.LambdaLR(optimizer, lambda step: 0.5**step), module.OneCycleLR(optimizer, 1.0, 40)], [3]
    ),
}


def one_cycle(module: Any, optimizer: Any, anneal: str, max_lr: Any = 0.7, **others: Any) -> Any:
    return module.OneCycleLR(optimizer, max_lr, pct_start=0.2, anneal_strategy=anneal, **others)


MAKERS["OneCycleLR-cos"] = lambda module, optimizer: one_cycle(module, optimizer, "cos", total_steps=20)
MAKERS["OneCycleLR-linear"] = lambda module, optimizer: one_cycle(module, optimizer, "linear", total_steps=20)
MAKERS["OneCycleLR-three phases"] = lambda module, optimizer: one_cycle(
    module, optimizer, "cos", [0.7, 0.2], epochs=4, steps_per_epoch=5, three_phase=True
)


def to_averages(module: Any, optimizer: Any, **others: Any) -> Any:
    """Return a schedule to averaged parameters, which PyTorch has in another module."""
    kind = module.SWALR if module is schedule else pytest.importorskip("torch.optim.swa_utils").SWALR
    return kind(optimizer, [0.05, 0.3], **others)


MAKERS["SWALR-cos"] = lambda module, optimizer: to_averages(module, optimizer, anneal_epochs=7)
MAKERS["SWALR-linear"] = lambda module, optimizer: to_averages(
    module, optimizer, anneal_epochs=4, anneal_strategy="linear"
)
MAKERS["SWALR-at once"] = lambda module, optimizer: to_averages(module, optimizer, anneal_epochs=0)


CYCLES: dict[str, dict[str, Any]] = {
    "triangular": {"step_size_up": 4},
    "triangular2": {"step_size_up": 4, "step_size_down": 2, "mode": "triangular2"},
    "exp_range": {"step_size_up": 3, "mode": "exp_range", "gamma": 0.95, "base_momentum": [0.7, 0.8]},
    "by cycle": {"step_size_up": 3, "scale_fn": lambda cycle: 1 / cycle, "cycle_momentum": False},
    "by step": {"step_size_up": 2, "scale_fn": lambda step: 0.9**step, "scale_mode": "iterations"},
}
for name, options in CYCLES.items():
    MAKERS[f"CyclicLR-{name}"] = partial(
        lambda options, module, optimizer: module.CyclicLR(optimizer, [0.1, 0.05], 0.8, **options), options
    )


EACH = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def rates(optimizer: Any) -> list[float]:
    return [group["lr"] for group in optimizer.param_groups]


@pytest.mark.parametrize(
    "name", [name for name in MAKERS if not name.startswith(("SequentialLR", "ChainedScheduler", "SWALR"))]
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_schedule_goes_on_from_its_last_epoch_as_pytorchs_does(name: str) -> None:
    torch = pytest.importorskip("torch")
    make, given = MAKERS[name], {"last_epoch": 4}
    optimizer = optimizer_of_two_groups()
    peer = torch.optim.SGD([{"params": [torch.ones(1, requires_grad=True)], "lr": rate} for rate in RATES])
    for module, one in ((schedule, optimizer), (torch.optim.lr_scheduler, peer)):
        made = make(module, one)
        for _ in range(5):
            one.step()
            made.step()
    found, expected = make(Resumed(schedule, given), optimizer), make(Resumed(torch.optim.lr_scheduler, given), peer)
    for _ in range(10):
        assert found.last_epoch == expected.last_epoch
        assert rates(optimizer) == pytest.approx(rates(peer), rel=1e-12, abs=1e-15)
        peer.step()
        found.step()
        expected.step()


class Resumed:
    """A module of schedules, each of which is made with some options."""

    def __init__(self, module: Any, options: dict[str, Any]) -> None:
        self.module, self.options = module, options

    def __getattr__(self, name: str) -> Any:
        return partial(getattr(self.module, name), **self.options)


def test_a_sequence_goes_on_from_its_last_epoch() -> None:
    whole, optimizer = optimizer_of_two_groups(), optimizer_of_two_groups()
    first = MAKERS["SequentialLR"](schedule, whole)
    parts = [schedule.LinearLR(optimizer, 0.1, total_iters=5), schedule.CosineAnnealingLR(optimizer, 20)]
    for _ in range(8):
        first.step()
    schedule.SequentialLR(optimizer, parts, [5], last_epoch=7)

    assert rates(optimizer) == rates(whole)


def test_a_chain_goes_on_from_where_its_schedules_are() -> None:
    whole, optimizer = optimizer_of_two_groups(), optimizer_of_two_groups()
    first = MAKERS["ChainedScheduler"](schedule, whole)
    schedule.ExponentialLR(optimizer, 0.9)
    parts = [
        schedule.LinearLR(optimizer, 0.1, total_iters=5, last_epoch=2),
        schedule.ExponentialLR(optimizer, 0.9, last_epoch=2),
    ]
    for _ in range(3):
        first.step()
    schedule.ChainedScheduler(parts)

    assert rates(optimizer) == rates(whole)


def test_a_rate_that_a_schedule_of_a_chain_sets_is_changed_by_those_after_it_alone() -> None:
    optimizer = optim.SGD([ag.tensor(1.0, requires_grad=True)], lr=0.1)
    parts = [
        schedule.StepLR(optimizer, 1, 0.5),
        schedule.LambdaLR(optimizer, lambda epoch: 1.0 + epoch),
        schedule.ExponentialLR(optimizer, 0.5),
    ]
    chained = schedule.ChainedScheduler(parts)

    assert [chained.rate(0.1, epoch) for epoch in range(4)] == pytest.approx([0.1, 0.1, 0.15, 0.2])


@pytest.mark.parametrize("after", ["ExponentialLR", "LinearLR", "PolynomialLR"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_one_cycle_in_a_chain_is_that_of_pytorch(after: str) -> None:
    torch = pytest.importorskip("torch")
    options = {"ExponentialLR": {"gamma": 0.9}, "LinearLR": {"start_factor": 0.1}, "PolynomialLR": {"total_iters": 3}}
    optimizer = optim.SGD([ag.tensor(1.0, requires_grad=True)], lr=0.1)
    peer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
    found, expected = (
        module.ChainedScheduler(
            [
                module.OneCycleLR(one, 1.0, 20, cycle_momentum=False),
                getattr(module, after)(one, **options[after]),
            ]
        )
        for module, one in ((schedule, optimizer), (torch.optim.lr_scheduler, peer))
    )
    for _ in range(8):
        assert rates(optimizer) == pytest.approx(rates(peer), rel=1e-12, abs=1e-15)
        peer.step()
        found.step()
        expected.step()


def momentums(optimizer: Any) -> list[float]:
    return [group["betas"][0] if "betas" in group else group["momentum"] for group in optimizer.param_groups]


@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_momentum_cycles_as_pytorchs_does(kind: str) -> None:
    torch = pytest.importorskip("torch")
    optimizer = getattr(optim, kind)([ag.tensor([1.0], requires_grad=True)], lr=0.1)
    peer = getattr(torch.optim, kind)([torch.ones(1, requires_grad=True)], lr=0.1)
    both = []
    for module, one in ((schedule, optimizer), (torch.optim.lr_scheduler, peer)):
        parts = [module.ExponentialLR(one, 0.5), module.CyclicLR(one, 0.1, 0.4, 3, 2, "triangular2")]
        both.append(module.SequentialLR(one, parts, [4]))
    for _ in range(16):
        assert momentums(optimizer) == pytest.approx(momentums(peer), rel=1e-12)
        for one in both:
            one.step()


@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
@pytest.mark.parametrize("three_phase", [False, True])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_momentum_falls_and_rises_in_one_cycle_as_pytorchs_does(kind: str, three_phase: bool) -> None:
    torch = pytest.importorskip("torch")
    optimizer = getattr(optim, kind)([ag.tensor([1.0], requires_grad=True)], lr=0.1)
    peer = getattr(torch.optim, kind)([torch.ones(1, requires_grad=True)], lr=0.1)
    both = [
        module.OneCycleLR(one, 0.4, 20, None, None, 0.3, "cos", True, 0.7, 0.9, 10.0, 100.0, three_phase)
        for module, one in ((schedule, optimizer), (torch.optim.lr_scheduler, peer))
    ]
    for _ in range(19):
        assert momentums(optimizer) == pytest.approx(momentums(peer), rel=1e-12)
        assert rates(optimizer) == pytest.approx(rates(peer), rel=1e-12)
        for one in both:
            one.step()


def test_momentum_of_one_cycle_is_lowest_where_the_rate_is_highest() -> None:
    optimizer = optim.SGD([ag.tensor([1.0], requires_grad=True)], lr=0.1, momentum=0.5)
    made = schedule.OneCycleLR(optimizer, 1.0, total_steps=11, anneal_strategy="linear", base_momentum=0.6)
    found = []
    for _ in range(11):
        found.append((rates(optimizer)[0], momentums(optimizer)[0]))
        made.step()

    top = int(np.argmax([rate for rate, _ in found]))
    assert (found[0][1], round(found[top][1], 1), round(found[-1][1], 6)) == (0.95, 0.6, 0.95)
    assert found[top][1] == min(momentum for _, momentum in found)


def test_a_warm_up_before_one_cycle_leads_to_its_first_rate() -> None:
    optimizer = optim.SGD([ag.tensor([1.0], requires_grad=True)], lr=0.5)
    warm_up = schedule.LinearLR(optimizer, 0.1, total_iters=5)
    cycle = schedule.OneCycleLR(optimizer, 1.0, total_steps=70, cycle_momentum=False)
    made = schedule.SequentialLR(optimizer, [warm_up, cycle], [5])
    found = []
    for _ in range(6):
        found += rates(optimizer)
        made.step()

    np.testing.assert_allclose(found, [0.004, 0.0112, 0.0184, 0.0256, 0.0328, 0.04], rtol=1e-12)


def test_a_schedule_to_averages_begins_where_another_one_has_left_off() -> None:
    optimizer = optimizer_of_two_groups()
    falling = schedule.ExponentialLR(optimizer, 0.5)
    last = schedule.SWALR(optimizer, 0.05, anneal_epochs=2, anneal_strategy="linear")
    falling.step()
    assert rates(optimizer) == [0.25, 0.05]
    last.step()
    assert rates(optimizer) == pytest.approx([0.15, 0.05])
    last.step()
    assert rates(optimizer) == pytest.approx([0.05, 0.05])
    with pytest.raises(ArgumentError, match="anneal_strategy must be 'cos' or 'linear', not 'exp'"):
        schedule.SWALR(optimizer, 0.05, anneal_strategy="exp")


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_schedule_to_averages_goes_on_from_pytorchs_state_or_its_last_epoch(strategy: str) -> None:
    torch = pytest.importorskip("torch")
    groups = [{"params": [torch.ones(1, requires_grad=True)], "lr": rate} for rate in RATES]
    peer, options = torch.optim.SGD(groups), {"anneal_epochs": 6, "anneal_strategy": strategy}
    theirs = to_averages(torch.optim.lr_scheduler, peer, **options)
    for _ in range(3):
        peer.step()
        theirs.step()
    loaded, counted = optimizer_of_two_groups(), optimizer_of_two_groups()
    for one in (loaded, counted):
        one.load_state_dict(peer.state_dict())
    ours = to_averages(schedule, loaded, **options)
    loaded.load_state_dict(peer.state_dict())
    ours.load_state_dict(theirs.state_dict())
    to_averages(schedule, counted, **options, last_epoch=3)
    peer.step()
    theirs.step()
    ours.step()

    assert rates(loaded) == pytest.approx(rates(peer), rel=1e-12)
    assert rates(counted) == pytest.approx(rates(peer), rel=1e-12)


@pytest.mark.parametrize("name", ["SequentialLR", "ChainedScheduler", "averages"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_schedules_that_are_combined_go_on_from_pytorchs_state(name: str) -> None:
    torch = pytest.importorskip("torch")

    def make(module: Any, optimizer: Any) -> Any:
        if name != "averages":
            return MAKERS[name](module, optimizer)
        parts = [module.LinearLR(optimizer, 0.1, total_iters=3), to_averages(module, optimizer, anneal_epochs=6)]
        return module.SequentialLR(optimizer, parts, [3])

    peer = torch.optim.SGD([{"params": [torch.ones(1, requires_grad=True)], "lr": rate} for rate in RATES])
    optimizer, theirs = optimizer_of_two_groups(), make(torch.optim.lr_scheduler, peer)
    for _ in range(6):
        peer.step()
        theirs.step()
    ours = make(schedule, optimizer)
    optimizer.load_state_dict(peer.state_dict())
    ours.load_state_dict(theirs.state_dict())
    for _ in range(3):
        assert rates(optimizer) == pytest.approx(rates(peer), rel=1e-12)
        peer.step()
        theirs.step()
        ours.step()
    with pytest.raises(ArgumentError, match="state_dict is of 3 schedules, but there are 2"):
        ours.load_state_dict({"_schedulers": [{}, {}, {}]})


@pytest.mark.parametrize("factor", [1, 2])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_restarts_go_on_within_an_epoch_as_pytorchs_do(factor: int) -> None:
    torch = pytest.importorskip("torch")
    groups = [{"params": [torch.ones(1, requires_grad=True)], "lr": rate} for rate in RATES]
    optimizer, peer = optimizer_of_two_groups(), torch.optim.SGD(groups)
    ours = schedule.CosineAnnealingWarmRestarts(optimizer, 3, factor)
    theirs = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(peer, 3, factor)
    for epoch in (0, 0.25, 2.75, 3, 5.5, None, 12.25, None, 1.0):
        peer.step()
        ours.step(epoch)
        theirs.step(epoch)
        assert rates(optimizer) == pytest.approx(rates(peer), rel=1e-12), epoch
        assert ours.last_epoch == theirs.last_epoch
        again = schedule.CosineAnnealingWarmRestarts(optimizer, 3, factor)
        again.load_state_dict(theirs.state_dict())
        assert rates(optimizer) == pytest.approx(rates(peer), rel=1e-12), epoch
    with pytest.raises(ArgumentError, match=r"epoch must be a finite number of at least 0, not float -0\.5"):
        ours.step(-0.5)


@EACH
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_rates_are_those_of_pytorch(make: Callable[[Any, Any], Any]) -> None:
    torch = pytest.importorskip("torch")
    optimizer = optimizer_of_two_groups()
    peer = torch.optim.SGD([{"params": [torch.ones(1, requires_grad=True)], "lr": rate} for rate in RATES])
    found, expected = make(schedule, optimizer), make(torch.optim.lr_scheduler, peer)
    for _ in range(20):
        assert rates(optimizer) == pytest.approx(rates(peer), rel=1e-12, abs=1e-15)
        assert found.get_last_lr() == rates(optimizer)
        peer.step()
        found.step()
        expected.step()


@EACH
def test_a_schedule_goes_on_from_its_state_dict(make: Callable[[Any, Any], Any]) -> None:
    optimizer, other = optimizer_of_two_groups(), optimizer_of_two_groups()
    first, second = make(schedule, optimizer), make(schedule, other)
    for _ in range(7):
        first.step()
    second.load_state_dict(first.state_dict())
    for _ in range(3):
        assert rates(other) == rates(optimizer)
        first.step()
        second.step()


PLATEAUS: list[dict[str, Any]] = [
    {"patience": 2, "factor": 0.5},
    {"mode": "max", "patience": 1, "cooldown": 2, "threshold": 0.1},
    {"threshold_mode": "abs", "threshold": 0.2, "patience": 0, "min_lr": 0.05},
    {"mode": "max", "threshold_mode": "abs", "threshold": 0.2, "patience": 0, "min_lr": [0.05, 0.01]},
]
MEASURES = [3.0, 2.5, 2.7, 2.4, 2.4, 2.4, 2.39, math.nan, 1.0, 1.5, 1.6, 1.7, 1.8, 0.9, 2.0, 2.2, 2.1, 2.5, 2.6, 2.7]


@pytest.mark.parametrize("options", PLATEAUS, ids=str)
def test_a_plateau_reduces_rates_where_pytorch_does(options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    optimizer = optimizer_of_two_groups()
    peer = torch.optim.SGD([{"params": [torch.ones(1, requires_grad=True)], "lr": rate} for rate in RATES])
    found = schedule.ReduceLROnPlateau(optimizer, **options)
    expected = torch.optim.lr_scheduler.ReduceLROnPlateau(peer, **options)
    for measure in MEASURES:
        found.step(ag.tensor(measure))
        expected.step(measure)
        assert rates(optimizer) == pytest.approx(rates(peer), rel=1e-12)
    assert rates(optimizer) != list(RATES)


def test_a_plateau_goes_on_from_its_state_dict() -> None:
    optimizer, other = optimizer_of_two_groups(), optimizer_of_two_groups()
    first, second = (schedule.ReduceLROnPlateau(one, patience=1) for one in (optimizer, other))
    for _ in range(2):
        first.step(1.0)
    second.load_state_dict(first.state_dict())
    second.step(1.0)

    assert rates(other) == pytest.approx([0.05, 0.01])


def test_an_optimizer_loads_the_negative_rate_that_a_schedule_has_set() -> None:
    optimizer, other = optimizer_of_two_groups(), optimizer_of_two_groups()
    first, second = (schedule.StepLR(each, 1, gamma=-0.5) for each in (optimizer, other))
    first.step()
    other.load_state_dict(optimizer.state_dict())
    second.load_state_dict(first.state_dict())

    assert rates(other) == rates(optimizer) == [-0.5 * rate for rate in RATES]


def test_a_group_that_is_added_later_has_its_own_first_rate() -> None:
    optimizer = optimizer_of_two_groups()
    halving = schedule.ExponentialLR(optimizer, 0.5)
    optimizer.add_param_group({"params": [ag.tensor([1.0], requires_grad=True)], "lr": 8.0})
    halving.step()

    assert rates(optimizer) == [0.25, 0.05, 4.0]


def stepped(made: schedule.Schedule, times: int) -> schedule.Schedule:
    for _ in range(times):
        made.step()
    return made


BAD: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda _: schedule.StepLR([0.1], 3), ArgumentTypeError, "StepLR takes an Optimizer, not list"),  # type: ignore[arg-type]
    (lambda one: schedule.StepLR(one, 0), ArgumentError, "step_size must be at least 1, not 0"),
    (lambda one: schedule.LambdaLR(one, 0.5), ArgumentTypeError, "lr_lambda must be a function"),
    (lambda one: schedule.LambdaLR(one, [lambda _: 1.0]), ArgumentError, "has 1 functions, but the optimizer has 2"),
    (lambda one: schedule.ReduceLROnPlateau(one, mode="low"), ArgumentError, "mode must be 'min' or 'max'"),
    (lambda one: schedule.ReduceLROnPlateau(one, min_lr=[0.1]), ArgumentError, "min_lr has 1 entries"),
    (lambda one: schedule.SequentialLR(one, [], []), ArgumentError, "SequentialLR got no schedules"),
    (lambda _: schedule.ChainedScheduler([]), ArgumentError, "ChainedScheduler got no schedules"),
    (lambda one: schedule.ReduceLROnPlateau(one).step("1"), ArgumentTypeError, "metrics must be a number"),
    (
        lambda one: schedule.SequentialLR(one, [schedule.ExponentialLR(one, 0.5)], [3]),
        ArgumentError,
        "1 schedules need 0 rising milestones, not [3]",
    ),
    (
        lambda one: schedule.ChainedScheduler([schedule.ExponentialLR(optimizer_of_two_groups(), 0.5)], one),
        ArgumentError,
        "is a schedule of another optimizer",
    ),
    (lambda one: schedule.StepLR(one, 3, last_epoch=2), ArgumentError, "group 0 of the optimizer has no 'initial_lr'"),
    (lambda one: schedule.StepLR(one, 3, last_epoch=-2), ArgumentError, "last_epoch must be at least -1, not -2"),
    (lambda one: schedule.MultiplicativeLR(one, 0.5), ArgumentTypeError, "lr_lambda must be a function"),
    (lambda one: schedule.CyclicLR(one, 0.1, [0.2]), ArgumentError, "max_lr has 1 entries, but the optimizer has 2"),
    (lambda one: schedule.CyclicLR(one, 0.1, 0.2, 0), ArgumentError, "step_size_up must be above 0, not 0"),
    (lambda one: schedule.CyclicLR(one, 0.1, 0.2, mode="square"), ArgumentError, "mode must be 'triangular', "),
    (lambda one: schedule.CyclicLR(one, 0.1, 0.2, scale_mode="step"), ArgumentError, "scale_mode must be 'cycle' or "),
    (
        lambda one: schedule.CyclicLR(optim.Adagrad(one.param_groups[0]["params"]), 0.1, 0.2),
        ArgumentError,
        "Adagrad has no momentum and no betas to cycle",
    ),
    (
        lambda one: schedule.ChainedScheduler([stepped(schedule.ExponentialLR(one, 0.5), 2), schedule.StepLR(one, 3)]),
        ArgumentError,
        "schedules that are at the same step, not at [2, 0]",
    ),
    (lambda one: stepped(schedule.OneCycleLR(one, 0.1, 5), 6), ArgumentError, "the cycle has 5 steps"),
    (lambda one: schedule.OneCycleLR(one, 0.1, epochs=5), ArgumentError, "total_steps, or both epochs and steps_per"),
    (lambda one: schedule.OneCycleLR(one, [0.1], 5), ArgumentError, "max_lr has 1 entries, but the optimizer has 2"),
    (
        lambda one: schedule.OneCycleLR(optim.Adagrad(one.param_groups[0]["params"]), 0.1, 5),
        ArgumentError,
        "Adagrad has no momentum and no betas to cycle: pass cycle_momentum=False",
    ),
    (lambda one: schedule.LinearLR(one, 2.0), ArgumentError, "start_factor must be a share from 0 to 1, not 2.0"),
    (lambda one: schedule.LinearLR(one, 0.0), ArgumentError, "start_factor must be above 0"),
    (lambda one: schedule.LinearLR(one, 0.5, 1.5), ArgumentError, "end_factor must be a share from 0 to 1, not 1.5"),
    (lambda one: schedule.ConstantLR(one, 1.5), ArgumentError, "factor must be a share from 0 to 1, not 1.5"),
    (
        lambda one: schedule.ExponentialLR(one, 0.5).load_state_dict({"last_epoch": 3}),
        ArgumentError,
        "state_dict has no 'base_lrs'",
    ),
    (lambda o: schedule.MultiStepLR(o, 3), ArgumentTypeError, "milestones must be an iterable of ints, not int 3"),  # type: ignore[arg-type]
    (lambda o: schedule.CyclicLR(o, 0.1, 1.0, scale_fn=2.0), ArgumentTypeError, "scale_fn must be callable"),  # type: ignore[arg-type]
    (lambda o: schedule.OneCycleLR(o, 1.0, 5, div_factor=0), ArgumentError, "final_div_factor divide the rate"),
    (lambda o: schedule.PolynomialLR(o, power=-1), ArgumentError, "power must be a finite number of at least 0"),
]


def test_a_negative_milestone_never_comes() -> None:
    optimizer = optim.SGD([ag.tensor([1.0], requires_grad=True)], 1.0)

    assert schedule.MultiStepLR(optimizer, [-1, 3]).get_last_lr() == [1.0]


@pytest.mark.parametrize(("make", "error", "message"), BAD, ids=[message for _, _, message in BAD])
def test_what_is_no_schedule_is_named(make: Callable[[Any], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        make(optimizer_of_two_groups())
