"""Schedules of learning rates, with the names and numbers of torch.optim.lr_scheduler.

A schedule sets the "lr" of each group of an optimizer: at once for the first step, and by `schedule.step()` after each
step (or epoch) for the next one. Each rate is computed from the group's first one, so two schedules of one optimizer
would overwrite each other: combine them by `SequentialLR` or `ChainedScheduler`.

To go on with a training that was saved, make the schedule anew and call `load_state_dict`; or, as in PyTorch, give it
the number of the last step as `last_epoch`, for an optimizer whose groups still have their first rates as "initial_lr".
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, final

from ..core.settings.arguments import check_callable, describe, must_be, number, takes, truth, whole_number
from ..core.settings.lazy import name_advisor
from ..core.tensor import Tensor
from ..errors import ArgumentError, ArgumentTypeError
from .optimizer import Group, Optimizer

if TYPE_CHECKING:
    from typing import SupportsFloat


__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SWALR",
    "Schedule",
    "SequentialLR",
    "StepLR",
]

#: A function of the number of steps.
Factor = Callable[[int], float]


class Schedule(ABC):
    """Abstract base of schedules that depend on the number of steps only.

    A subclass defines `rate`.

    Args:
        optimizer: the optimizer whose rates are set.
        last_epoch: -1 for a new schedule; to go on with one, the number of the last step that was taken with it, from
            0. The rates are set for the step after that one, as if `step` had been called `last_epoch + 1` times.

    Attributes:
        optimizer: that optimizer.
        base_lrs: the rate of each group when its first schedule was made, which the group has as "initial_lr".
        last_epoch: how often `step` was called.

    Raises:
        ArgumentError: `last_epoch` is given, and a group has no "initial_lr".
        ArgumentTypeError: `optimizer` is not an Optimizer.

    Source: torch.optim.lr_scheduler.LRScheduler.

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad import optim
        >>> group = {"params": [ag.tensor(1.0, requires_grad=True)]}
        >>> optimizer = optim.SGD([group], lr=1.0)
        >>> schedule = optim.schedule.ExponentialLR(optimizer, gamma=0.5)
        >>> again = optim.schedule.ExponentialLR(optimizer, gamma=0.5, last_epoch=2)
        >>> again
        ExponentialLR(step 3, lr=[0.125])
    """

    #: Whether a step sets the rate, whatever it was, and does not change the one that is there: for ChainedScheduler.
    _sets_rate: ClassVar[bool] = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer: Optimizer = _check_optimizer(optimizer, type(self).__name__)
        self.last_epoch: int = whole_number(last_epoch, "last_epoch", -1) + 1
        if last_epoch != -1:
            _check_first_rates(optimizer, last_epoch)
        self.base_lrs: list[float] | list[Any] = [_first_rate(group) for group in optimizer.param_groups]
        self._apply()

    @abstractmethod
    def rate(self, base_lr: float, epoch: int, group: int = 0) -> float:
        """Return the rate after `epoch` calls of `step`, for a group whose first rate was `base_lr`.

        Args:
            base_lr: the first rate.
            epoch: the number of calls, from 0.
            group: the number of the group.
        """

    def options(self, base_lr: float, epoch: int, group: int = 0) -> Group:
        """Return the options of a group that the schedule sets after `epoch` calls of `step`: its "lr", by `rate`."""
        return {"lr": self.rate(base_lr, epoch, group)}

    def step(self) -> None:
        """Set the rates for the next step of the optimizer."""
        self.last_epoch += 1
        self._apply()

    def get_last_lr(self) -> list[float]:
        """Return the rate of each group, as set last."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Return what `load_state_dict` needs to go on: numbers that can be pickled."""
        return {"last_epoch": self.last_epoch, "base_lrs": list(self.base_lrs)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a result of `state_dict`; sets the rates of the optimizer.

        Raises:
            ArgumentError: `state_dict()` returns nothing like it, or it is of an optimizer with other groups.
        """
        base_lrs = _entry(state_dict, "base_lrs")
        if len(base_lrs) != len(self.base_lrs):
            raise ArgumentError(
                f"state_dict is of a schedule for {len(base_lrs)} groups, but this optimizer has {len(self.base_lrs)}"
            )
        epoch = whole_number(_entry(state_dict, "last_epoch"), "last_epoch")
        self._load_own(state_dict, epoch)
        self.last_epoch, self.base_lrs = epoch, list(base_lrs)
        self._apply()

    def _load_own(self, state_dict: Mapping[str, Any], epoch: int) -> None:
        """Take from a state, which is of `epoch` steps, what this kind of schedule alone has in it; or raise."""

    def _apply(self) -> None:
        groups = self.optimizer.param_groups
        # Groups that were added later have no first rate yet.
        self.base_lrs += [_first_rate(group) for group in groups[len(self.base_lrs) :]]
        changes = [self.options(base_lr, self.last_epoch, index) for index, base_lr in enumerate(self.base_lrs)]
        for group, options in zip(groups, changes, strict=True):
            group.update(options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(step {self.last_epoch}, lr={self.get_last_lr()})"


@final
class LambdaLR(Schedule):
    """The first rate times a function of the number of steps.

    Args:
        optimizer: the optimizer.
        lr_lambda: takes the number of steps, returns the factor; or a function for each group.
        last_epoch: as for `Schedule`.

    Source: torch.optim.lr_scheduler.LambdaLR.

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad import optim
        >>> optimizer = optim.SGD([ag.tensor(1.0, requires_grad=True)], lr=1.0)
        >>> schedule = optim.schedule.LambdaLR(optimizer, lambda epoch: 0.5**epoch)
        >>> schedule.step()
        >>> optimizer.param_groups[0]["lr"]
        0.5
    """

    _sets_rate = True

    def __init__(self, optimizer: Optimizer, lr_lambda: Factor | Sequence[Factor], last_epoch: int = -1) -> None:
        self._functions = _functions_of_groups(optimizer, lr_lambda, "LambdaLR")
        super().__init__(optimizer, last_epoch)

    def rate(self, base_lr: float, epoch: int, group: int = 0) -> float:
        """Return the first rate times the function of `epoch`."""
        return base_lr * _factor(self._functions, epoch, group)


@final
class MultiplicativeLR(Schedule):
    """The rate is multiplied after every step by a function of the number of steps.

    Args:
        optimizer: the optimizer.
        lr_lambda: takes the number of steps, from 1, and returns the factor of the rate before; or a function for each
            group. It is called once for each step, and from 1 again to go back, or to go on from a saved state.
        last_epoch: as for `Schedule`.

    Source: torch.optim.lr_scheduler.MultiplicativeLR.

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad import optim
        >>> optimizer = optim.SGD([ag.tensor(1.0, requires_grad=True)], lr=1.0)
        >>> schedule = optim.schedule.MultiplicativeLR(optimizer, lambda epoch: 0.5 if epoch < 3 else 1.0)
        >>> [schedule.rate(1.0, epoch) for epoch in range(5)]
        [1.0, 0.5, 0.25, 0.25, 0.25]
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Factor | Sequence[Factor], last_epoch: int = -1) -> None:
        self._functions = _functions_of_groups(optimizer, lr_lambda, "MultiplicativeLR")
        #: For each group, a number of steps and the product of the factors up to it.
        self._products: dict[int, tuple[int, float]] = {}
        super().__init__(optimizer, last_epoch)

    def rate(self, base_lr: float, epoch: int, group: int = 0) -> float:
        """Return the first rate times the function of 1, of 2, and so on up to `epoch`."""
        done, product = self._products.get(group, (0, 1.0))
        if epoch < done:
            done, product = 0, 1.0
        for number_of_steps in range(done + 1, epoch + 1):
            product *= _factor(self._functions, number_of_steps, group)
        self._products[group] = epoch, product
        return base_lr * product


@final
class StepLR(Schedule):
    """The rate is multiplied by `gamma` after every `step_size` steps.

    Args:
        optimizer: whose rates are set.
        step_size: every how many steps the rates are multiplied.
        gamma: by what they are multiplied.
        last_epoch: the number of the last step; -1 to begin.

    Source: torch.optim.lr_scheduler.StepLR.

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad import optim
        >>> optimizer = optim.SGD([ag.tensor(1.0, requires_grad=True)], lr=1.0)
        >>> schedule = optim.schedule.StepLR(optimizer, step_size=2, gamma=0.5)
        >>> [schedule.rate(1.0, epoch) for epoch in range(5)]
        [1.0, 1.0, 0.5, 0.5, 0.25]
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size: int = whole_number(step_size, "step_size", 1)
        self.gamma: float = number(gamma, "gamma")
        super().__init__(optimizer, last_epoch)

    def rate(self, base_lr: float, epoch: int, group: int = 0) -> float:
        """Return the first rate times `gamma ** (epoch // step_size)`."""
        return float(base_lr * self.gamma ** (epoch // self.step_size))


@final
class MultiStepLR(Schedule):
    """The rate is multiplied by `gamma` at each of some numbers of steps.

    Args:
        optimizer: whose rates are set.
        milestones: the steps at which the rates are multiplied; negative ones never come.
        gamma: by what they are multiplied.
        last_epoch: the number of the last step; -1 to begin.

    Source: torch.optim.lr_scheduler.MultiStepLR.
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        if not isinstance(milestones, Iterable):
            raise ArgumentTypeError(must_be("milestones", "an iterable of ints", milestones))
        self.milestones: list[int] = sorted(Counter(whole_number(one, "a milestone") for one in milestones).elements())
        self.gamma: float = number(gamma, "gamma")
        super().__init__(optimizer, last_epoch)

    def rate(self, base_lr: float, epoch: int, group: int = 0) -> float:
        """Return the first rate times `gamma` for each milestone from 0 up to `epoch`."""
        passed = bisect_right(self.milestones, epoch) - bisect_left(self.milestones, 0)
        return float(base_lr * self.gamma ** max(0, passed))


@final
class ConstantLR(Schedule):
    """The rate is multiplied by `factor` for the first `total_iters` steps.

    Args:
        optimizer: whose rates are set.
        factor: of the first rates.
        total_iters: for how many steps.
        last_epoch: the number of the last step; -1 to begin.

    Source: torch.optim.lr_scheduler.ConstantLR.
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        self.factor: float = _share(factor, "factor")
        self.total_iters: int = whole_number(total_iters, "total_iters", 0)
        super().__init__(optimizer, last_epoch)

    def rate(self, base_lr: float, epoch: int, group: int = 0) -> float:
        """Return the first rate, times `factor` before step `total_iters`."""
        return base_lr * self.factor if epoch < self.total_iters else base_lr


@final
class LinearLR(Schedule):
    """The factor of the rate goes linearly from `start_factor` to `end_factor` over `total_iters` steps: a warm-up.

    Args:
        optimizer: whose rates are set.
        start_factor: of the first rates, at first.
        end_factor: of the first rates, from `total_iters` on.
        total_iters: for how many steps the factor changes.
        last_epoch: the number of the last step; -1 to begin.

    Source: torch.optim.lr_scheduler.LinearLR.

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad import optim
        >>> optimizer = optim.SGD([ag.tensor(1.0, requires_grad=True)], lr=1.0)
        >>> schedule = optim.schedule.LinearLR(optimizer, start_factor=0.25, total_iters=3)
        >>> [schedule.rate(1.0, epoch) for epoch in range(5)]
        [0.25, 0.5, 0.75, 1.0, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        self.start_factor: float = _share(start_factor, "start_factor")
        self.end_factor: float = _share(end_factor, "end_factor")
        if not self.start_factor:
            raise ArgumentError("start_factor must be above 0: a rate of 0 would stay so")
        self.total_iters: int = whole_number(total_iters, "total_iters", 1)
        super().__init__(optimizer, last_epoch)

    def rate(self, base_lr: float, epoch: int, group: int = 0) -> float:
        """Return the first rate times the factor."""
        share = min(epoch, self.total_iters) / self.total_iters
        return base_lr * (self.start_factor + (self.end_factor - self.start_factor) * share)


@final
class ExponentialLR(Schedule):
    """The rate is multiplied by `gamma` after every step.

    Args:
        optimizer: whose rates are set.
        gamma: the factor of each step.
        last_epoch: the number of the last step; -1 to begin.

    Source: torch.optim.lr_scheduler.ExponentialLR.
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma: float = number(gamma, "gamma")
        super().__init__(optimizer, last_epoch)

    def rate(self, base_lr: float, epoch: int, group: int = 0) -> float:
        """Return the first rate times `gamma ** epoch`."""
        return float(base_lr * self.gamma**epoch)


@final
class PolynomialLR(Schedule):
    """The rate falls to 0 over `total_iters` steps, as a power of the share of them that is left.

    Args:
        optimizer: whose rates are set.
        total_iters: steps until the rates are 0.
        power: of the polynomial; not negative.
        last_epoch: the number of the last step; -1 to begin.

    Source: torch.optim.lr_scheduler.PolynomialLR.
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters: int = whole_number(total_iters, "total_iters", 1)
        self.power: float = number(power, "power", 0)
        super().__init__(optimizer, last_epoch)

    def rate(self, base_lr: float, epoch: int, group: int = 0) -> float:
        """Return the first rate times `(1 - epoch / total_iters) ** power`."""
        return float(base_lr * (1 - min(epoch, self.total_iters) / self.total_iters) ** self.power)


@final
class CosineAnnealingLR(Schedule):
    """The rate goes to `eta_min` in `T_max` steps along half of a cosine, and back in as many.

    Args:
        optimizer: whose rates are set.
        T_max: steps from the first rate to the least one.
        eta_min: the least rate.
        last_epoch: the number of the last step; -1 to begin.

    Source: torch.optim.lr_scheduler.CosineAnnealingLR; I. Loshchilov and F. Hutter, "SGDR" (2016).

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad import optim
        >>> optimizer = optim.SGD([ag.tensor(1.0, requires_grad=True)], lr=1.0)
        >>> schedule = optim.schedule.CosineAnnealingLR(optimizer, T_max=4)
        >>> [round(schedule.rate(1.0, epoch), 3) for epoch in range(5)]
        [1.0, 0.854, 0.5, 0.146, 0.0]
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max: int = whole_number(T_max, "T_max", 1)
        self.eta_min: float = number(eta_min, "eta_min", 0)
        super().__init__(optimizer, last_epoch)

    def rate(self, base_lr: float, epoch: int, group: int = 0) -> float:
        """Return the rate on the cosine."""
        return _on_cosine(base_lr, self.eta_min, epoch / self.T_max)


@final
class CosineAnnealingWarmRestarts(Schedule):
    """The rate goes to `eta_min` along half of a cosine again and again: in `T_0` steps, then in `T_0 * T_mult`, ….

    Args:
        optimizer: whose rates are set.
        T_0: steps until the first restart.
        T_mult: the factor by which each period is longer than the one before.
        eta_min: the least rate.
        last_epoch: the number of the last step; -1 to begin.

    Source: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts; I. Loshchilov and F. Hutter, "SGDR" (2016).

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad import optim
        >>> optimizer = optim.SGD([ag.tensor(1.0, requires_grad=True)], lr=1.0)
        >>> schedule = optim.schedule.CosineAnnealingWarmRestarts(optimizer, T_0=2)
        >>> for epoch in (0.0, 0.5, 1.0, 1.5, 2.0):
        ...     schedule.step(epoch)
        ...     print(round(optimizer.param_groups[0]["lr"], 3))
        1.0
        0.854
        0.5
        0.146
        1.0
    """

    _sets_rate = True

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        self.T_0 = whole_number(T_0, "T_0", 1)
        self.T_mult: int = whole_number(T_mult, "T_mult", 1)
        self.eta_min: float = number(eta_min, "eta_min", 0)
        #: What a call of `step` with a part of an epoch has added to the number of steps.
        self._part = 0.0
        super().__init__(optimizer, last_epoch)

    def step(self, epoch: float | None = None) -> None:
        """Set the rates for the next step of the optimizer.

        Args:
            epoch: where the schedule is, which need not be a whole number: `epoch + batch / batches` within an epoch.
                None for one more than before.

        Raises:
            ArgumentError: `epoch` is below 0.
            ArgumentTypeError: it is no number.
        """
        if epoch is None:
            super().step()
            return
        whole = math.floor(number(epoch, "epoch", 0))
        self.last_epoch, self._part = whole, float(epoch) - whole
        self._apply()

    def rate(self, base_lr: float, epoch: float, group: int = 0) -> float:
        """Return the rate on the cosine of the current period."""
        period = self.T_0
        while epoch >= period:
            epoch, period = epoch - period, period * self.T_mult
            if self.T_mult == 1:
                epoch %= period
        return _on_cosine(base_lr, self.eta_min, epoch / period)

    def options(self, base_lr: float, epoch: int, group: int = 0) -> Group:
        """Return the rate."""
        return {"lr": self.rate(base_lr, epoch + self._part, group)}

    def state_dict(self) -> dict[str, Any]:
        """Return what `load_state_dict` needs to go on: numbers that can be pickled."""
        return {**super().state_dict(), "T_cur": self.last_epoch + self._part}

    def _load_own(self, state_dict: Mapping[str, Any], epoch: int) -> None:
        # PyTorch's counts from the last restart, which was at a whole number.
        self._part = number(state_dict.get("T_cur", 0), "T_cur", 0) % 1


@final
class CyclicLR(Schedule):
    """The rate rises from `base_lr` to `max_lr` and falls back in a straight line, again and again.

    Args:
        optimizer: the optimizer.
        base_lr: the lowest rate, or one for each group.
        max_lr: the highest rate of the first cycle, or one for each group.
        step_size_up: the number of steps in which the rate rises.
        step_size_down: the number of steps in which it falls; None for as many.
        mode: "triangular"; "triangular2" for a height that is halved after each cycle; "exp_range" for one that is
            multiplied by `gamma` after each step.
        gamma: that factor.
        scale_fn: in place of `mode`, a function that returns the factor of the height.
        scale_mode: what `scale_fn` takes: "cycle" for the number of the cycle, from 1; "iterations" for the number of
            steps.
        cycle_momentum: let the momentum, or the first of the "betas", fall while the rate rises, and rise while it
            falls.
        base_momentum: the lowest momentum, or one for each group.
        max_momentum: the highest momentum, or one for each group.
        last_epoch: as for `Schedule`.

    Raises:
        ArgumentError: an option is out of range, or the optimizer has no momentum to cycle.

    Source: torch.optim.lr_scheduler.CyclicLR; L. Smith, "Cyclical learning rates" (2015).

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad import optim
        >>> optimizer = optim.SGD([ag.tensor(1.0, requires_grad=True)], lr=1.0, momentum=0.9)
        >>> schedule = optim.schedule.CyclicLR(optimizer, 1.0, 3.0, step_size_up=2, mode="triangular2")
        >>> [schedule.rate(1.0, epoch) for epoch in range(7)]
        [1.0, 2.0, 3.0, 2.0, 1.0, 1.5, 2.0]
        >>> schedule.step()
        >>> round(optimizer.param_groups[0]["momentum"], 3)
        0.85
    """

    _sets_rate = True

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | Sequence[float],
        max_lr: float | Sequence[float],
        step_size_up: float = 2000,
        step_size_down: float | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.8,
        max_momentum: float | Sequence[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        _check_optimizer(optimizer, "CyclicLR")
        lowest = _for_each_group(optimizer, base_lr, "base_lr")
        self.max_lrs: list[float] = _for_each_group(optimizer, max_lr, "max_lr")
        self._rise: float = number(step_size_up, "step_size_up")
        self._length: float = self._rise + (
            self._rise if step_size_down is None else number(step_size_down, "step_size_down", 0)
        )
        if self._rise <= 0:
            raise ArgumentError(f"step_size_up must be above 0, not {step_size_up}")
        self.mode, self.gamma, self.scale_mode = mode, number(gamma, "gamma"), scale_mode
        if scale_fn is not None:
            check_callable(scale_fn, "scale_fn", "with a number", "pass a function", ArgumentTypeError)
        elif mode not in ("triangular", "triangular2", "exp_range"):
            raise ArgumentError(f"mode must be 'triangular', 'triangular2' or 'exp_range', not {mode!r}")
        if scale_mode not in ("cycle", "iterations"):
            raise ArgumentError(f"scale_mode must be 'cycle' or 'iterations', not {scale_mode!r}")
        self._scale_fn = scale_fn
        self._momentums = _cycled_momentums(optimizer, cycle_momentum, base_momentum, max_momentum)
        self._lowest = lowest
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, lowest, strict=True):
                group["lr"] = rate
        super().__init__(optimizer, last_epoch)
        self.base_lrs = list(lowest)

    def rate(self, base_lr: float, epoch: int, group: int = 0) -> float:
        """Return the rate in the cycle; it does not depend on `base_lr`."""
        index = min(group, len(self._lowest) - 1)
        low, high = self._lowest[index], self.max_lrs[index]
        return low + (high - low) * self._height(epoch)

    def options(self, base_lr: float, epoch: int, group: int = 0) -> Group:
        """Return the rate, and the momentum or the betas where they cycle."""
        found: Group = {"lr": self.rate(base_lr, epoch, group)}
        if self._momentums is None:
            return found
        low, high = self._momentums[min(group, len(self._momentums) - 1)]
        return {**found, **_with_momentum(self.optimizer, group, high - (high - low) * self._height(epoch))}

    def _height(self, epoch: int) -> float:
        """Return how far the rate is above its lowest value, as a share of the height of the first cycle."""
        cycle = math.floor(1 + epoch / self._length)
        share, top = 1.0 + epoch / self._length - cycle, self._rise / self._length
        height = share / top if share <= top else (share - 1) / (top - 1)
        if self._scale_fn is not None:
            return height * number(self._scale_fn(cycle if self.scale_mode == "cycle" else epoch), "what scale_fn gave")
        if self.mode == "exp_range":
            return float(height * self.gamma**epoch)
        return height / 2.0 ** (cycle - 1) if self.mode == "triangular2" else height


@final
class OneCycleLR(Schedule):
    """The rate rises from `max_lr / div_factor` to `max_lr`, and falls far below where it began.

    Args:
        optimizer: the optimizer.
        max_lr: the highest rate, or one for each group.
        total_steps: the number of steps of the cycle.
        epochs: in place of `total_steps`, together with `steps_per_epoch`, whose product it is.
        steps_per_epoch: the number of steps in each of them.
        pct_start: the share of the cycle in which the rate rises.
        anneal_strategy: "cos" or "linear".
        cycle_momentum: let the momentum, or the first of the "betas", fall while the rate rises, and rise while it
            falls.
        base_momentum: the lowest momentum, or one for each group.
        max_momentum: the highest momentum, at which it begins, or one for each group.
        div_factor: the first rate is `max_lr / div_factor`.
        final_div_factor: the last rate is the first divided by it.
        three_phase: fall to the first rate in as many steps as the rate has risen in, and from there to the last one.
        last_epoch: as for `Schedule`.

    Raises:
        ArgumentError: an option is out of range, or the optimizer has no momentum to cycle.

    Source: torch.optim.lr_scheduler.OneCycleLR; L. Smith and N. Topin, "Super-convergence" (2017).

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad import optim
        >>> optimizer = optim.SGD([ag.tensor(1.0, requires_grad=True)], lr=1.0, momentum=0.9)
        >>> schedule = optim.schedule.OneCycleLR(optimizer, 1.0, total_steps=10, anneal_strategy="linear")
        >>> for _ in range(2):
        ...     schedule.step()
        >>> group = optimizer.param_groups[0]
        >>> round(group["lr"], 3), round(group["momentum"], 3)
        (1.0, 0.85)
    """

    _sets_rate = True

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        self.max_lrs: list[float] = _for_each_group(_check_optimizer(optimizer, "OneCycleLR"), max_lr, "max_lr")
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ArgumentError("OneCycleLR needs total_steps, or both epochs and steps_per_epoch")
            total_steps = whole_number(epochs, "epochs", 1) * whole_number(steps_per_epoch, "steps_per_epoch", 1)
        self.total_steps: int = whole_number(total_steps, "total_steps", 1)
        if not 0 <= number(pct_start, "pct_start") <= 1:
            raise ArgumentError(f"pct_start must be a share from 0 to 1, not {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ArgumentError(f"anneal_strategy must be 'cos' or 'linear', not {anneal_strategy!r}")
        self.anneal_strategy = anneal_strategy
        self._divisor: float = number(div_factor, "div_factor")
        self._final_divisor: float = number(final_div_factor, "final_div_factor")
        if not self._divisor or not self._final_divisor:
            raise ArgumentError("div_factor and final_div_factor divide the rate, and must not be 0")
        top = pct_start * self.total_steps - 1
        #: The steps at which the rate has its extremes after the first one.
        self._bends: list[float] = [top, self.total_steps - 1]
        if truth(three_phase, "three_phase"):
            self._bends.insert(1, 2 * top)
        self._momentums = _cycled_momentums(optimizer, cycle_momentum, base_momentum, max_momentum)
        if last_epoch == -1:
            # Schedules that are combined with this one begin with its first rate, as in PyTorch.
            for group, highest in zip(optimizer.param_groups, self.max_lrs, strict=True):
                group["initial_lr"] = highest / self._divisor
        super().__init__(optimizer, last_epoch)

    def rate(self, base_lr: float, epoch: int, group: int = 0) -> float:
        """Return the rate in the cycle; it does not depend on `base_lr`.

        Raises:
            ArgumentError: the cycle has ended.
        """
        if epoch > self.total_steps:
            raise ArgumentError(f"the cycle has {self.total_steps} steps, and step() was called {epoch} times")
        highest = self.max_lrs[min(group, len(self.max_lrs) - 1)]
        first = highest / self._divisor
        middle = [first] if len(self._bends) == 3 else []
        return self._between([first, highest, *middle, first / self._final_divisor], epoch)

    def options(self, base_lr: float, epoch: int, group: int = 0) -> Group:
        """Return the rate, and the momentum or the betas where they cycle."""
        found: Group = {"lr": self.rate(base_lr, epoch, group)}
        if self._momentums is None:
            return found
        low, high = self._momentums[min(group, len(self._momentums) - 1)]
        momentum = self._between([high, low, *([high] if len(self._bends) == 3 else []), high], epoch)
        return {**found, **_with_momentum(self.optimizer, group, momentum)}

    def _between(self, values: Sequence[float], epoch: int) -> float:
        """Return what lies between two of the values, of which the first is at step 0 and the others are at bends."""
        phase = next((number for number, end in enumerate(self._bends) if epoch <= end), len(self._bends) - 1)
        begin, end = self._bends[phase - 1] if phase else 0.0, self._bends[phase]
        share = min((epoch - begin) / (end - begin), 1.0) if end > begin else 1.0
        start, stop = values[phase], values[phase + 1]
        return _on_cosine(start, stop, share) if self.anneal_strategy == "cos" else start + (stop - start) * share


@final
class ReduceLROnPlateau:
    """The rate is multiplied by `factor` when a measure has not improved for more than `patience` steps.

    Args:
        optimizer: the optimizer.
        mode: "min" if a smaller measure is better, "max" if a larger one is.
        factor: what the rate is multiplied by, below 1.
        patience: how many steps without improvement are allowed.
        threshold: how much counts as an improvement.
        threshold_mode: "rel" or "abs": `threshold` is a share of the best measure, or a difference from it.
        cooldown: how many steps after a reduction do not count.
        min_lr: the lowest rate, or one for each group.
        eps: a smaller change of the rate is not made.

    Source: torch.optim.lr_scheduler.ReduceLROnPlateau.

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad import optim
        >>> optimizer = optim.SGD([ag.tensor(1.0, requires_grad=True)], lr=1.0)
        >>> schedule = optim.schedule.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
        >>> for loss in (3.0, 2.0, 2.0, 2.0):
        ...     schedule.step(loss)
        >>> schedule.get_last_lr()
        [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        self.optimizer: Optimizer = _check_optimizer(optimizer, "ReduceLROnPlateau")
        if mode not in ("min", "max"):
            raise ArgumentError(f"mode must be 'min' or 'max', not {mode!r}")
        if threshold_mode not in ("rel", "abs"):
            raise ArgumentError(f"threshold_mode must be 'rel' or 'abs', not {threshold_mode!r}")
        if not 0 <= number(factor, "factor") < 1:
            raise ArgumentError(f"factor must be at least 0 and below 1, not {factor}")
        groups = len(optimizer.param_groups)
        self.min_lrs: list[float] | None = (
            [number(one, "min_lr", 0) for one in min_lr] if isinstance(min_lr, Sequence) else None
        )
        if self.min_lrs is not None and len(self.min_lrs) != groups:
            raise ArgumentError(f"min_lr has {len(self.min_lrs)} entries, but the optimizer has {groups} groups")
        self.min_lr: float = 0.0 if isinstance(min_lr, Sequence) else number(min_lr, "min_lr", 0)
        self.mode = mode
        self.factor: float = factor
        self.threshold_mode = threshold_mode
        self.threshold: float = number(threshold, "threshold", 0)
        self.eps: float = number(eps, "eps", 0)
        self.patience: int = whole_number(patience, "patience", 0)
        self.cooldown: int = whole_number(cooldown, "cooldown", 0)
        self.best: float = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs: int = 0
        self.cooldown_counter: int = 0
        self.last_epoch: int = 0

    def step(self, metrics: Tensor | SupportsFloat) -> None:
        """Take note of a measure, and reduce the rates if it is time.

        Args:
            metrics: a number, or a tensor of one element. A NaN is no improvement.

        Raises:
            ArgumentTypeError: it is no number.
        """
        given = metrics.item() if isinstance(metrics, Tensor) else metrics
        if isinstance(given, (str, bytes)) or not hasattr(type(given), "__float__"):
            raise ArgumentTypeError(must_be("metrics", "a number, such as a mean loss", metrics))
        current = float(given)
        self.last_epoch += 1
        if self._is_better(current):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown_counter - 1, 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0

    def get_last_lr(self) -> list[float]:
        """Return the rate of each group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Return what `load_state_dict` needs to go on: numbers that can be pickled."""
        return {name: getattr(self, name) for name in ("best", "num_bad_epochs", "cooldown_counter", "last_epoch")}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a result of `state_dict`; the optimizer's own state has the rates.

        Raises:
            ArgumentError: `state_dict()` returns nothing like it.
        """
        found = {name: _entry(state_dict, name) for name in self.state_dict()}
        for name, value in found.items():
            setattr(self, name, value)

    def _is_better(self, current: float) -> bool:
        sign = 1.0 if self.mode == "min" else -1.0
        bar = (
            self.best * (1 - sign * self.threshold)
            if self.threshold_mode == "rel"
            else self.best - sign * self.threshold
        )
        return sign * current < sign * bar

    def _reduce(self) -> None:
        for index, group in enumerate(self.optimizer.param_groups):
            least = self.min_lr if self.min_lrs is None else self.min_lrs[index]
            rate = max(group["lr"] * self.factor, least)
            if group["lr"] - rate > self.eps:
                group["lr"] = rate


class _Combined(Schedule):
    """Abstract: several schedules of one optimizer."""

    schedulers: list[Schedule]

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a result of `state_dict`, or from a state of PyTorch's; sets the rates of the optimizer.

        Raises:
            ArgumentError: as for `Schedule`, or the state is of other schedules.
        """
        parts = state_dict.get("_schedulers") if isinstance(state_dict, Mapping) else None
        super().load_state_dict(state_dict if parts is None else self._load_parts(parts, state_dict))

    def _load_parts(self, parts: Sequence[Mapping[str, Any]], state_dict: Mapping[str, Any]) -> Mapping[str, Any]:
        """Load the state that each schedule has in one of PyTorch's; return that of all together."""
        if len(parts) != len(self.schedulers):
            raise ArgumentError(f"state_dict is of {len(parts)} schedules, but there are {len(self.schedulers)}")
        rates = self.get_last_lr()
        for schedule, part in zip(self.schedulers, parts, strict=True):
            schedule.load_state_dict(part)
            # A schedule that goes on from the rates must not find those of another one.
            for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
                group["lr"] = rate
        return {
            "last_epoch": state_dict.get("last_epoch", self.schedulers[0].last_epoch),
            "base_lrs": list(self.base_lrs),
        }


@final
class SequentialLR(_Combined):
    """One schedule after another: each starts anew at its milestone.

    Args:
        optimizer: the optimizer of all of them.
        schedulers: the schedules.
        milestones: the number of steps at which each schedule but the first begins.
        last_epoch: as for `Schedule`, counted over all of them; the schedules themselves are made without it.

    Source: torch.optim.lr_scheduler.SequentialLR.

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad import optim
        >>> optimizer = optim.SGD([ag.tensor(1.0, requires_grad=True)], lr=1.0)
        >>> warm_up = optim.schedule.LinearLR(optimizer, start_factor=0.5, total_iters=2)
        >>> decay = optim.schedule.ExponentialLR(optimizer, gamma=0.5)
        >>> schedule = optim.schedule.SequentialLR(optimizer, [warm_up, decay], milestones=[2])
        >>> [schedule.rate(1.0, epoch) for epoch in range(5)]
        [0.5, 0.75, 1.0, 0.5, 0.25]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[Schedule],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        self.schedulers = _check_schedules(optimizer, schedulers, "SequentialLR")
        self.milestones: list[int] = [whole_number(one, "a milestone") for one in milestones]
        if len(self.milestones) != len(self.schedulers) - 1 or sorted(set(self.milestones)) != self.milestones:
            raise ArgumentError(
                f"{len(self.schedulers)} schedules need {len(self.schedulers) - 1} rising milestones, not "
                f"{self.milestones}"
            )
        if last_epoch == -1:
            # The later schedules have set their own first rates when they were made.
            for group in optimizer.param_groups:
                group["lr"] = group["initial_lr"]
        super().__init__(optimizer, last_epoch)

    def rate(self, base_lr: float, epoch: int, group: int = 0) -> float:
        """Return the rate of the schedule that is on."""
        schedule, epoch = self._find(epoch)
        return schedule.rate(self._first_rate_of(schedule, base_lr, group), epoch, group)

    def options(self, base_lr: float, epoch: int, group: int = 0) -> Group:
        """Return what the schedule that is on sets."""
        schedule, epoch = self._find(epoch)
        return schedule.options(self._first_rate_of(schedule, base_lr, group), epoch, group)

    def _first_rate_of(self, schedule: Schedule, base_lr: float, group: int) -> float:
        """Return the rate of a group that a schedule multiplies.

        It is the schedule's own, which was that of the group when it was made. The first one has the rate that the
        group has now: a OneCycleLR that was made later has changed it.
        """
        is_first = schedule is self.schedulers[0] and not isinstance(schedule, (LambdaLR, CosineAnnealingWarmRestarts))
        return base_lr if is_first or group >= len(schedule.base_lrs) else schedule.base_lrs[group]

    def _find(self, epoch: int) -> tuple[Schedule, int]:
        """Return the schedule that is on, and its own number of steps."""
        index = bisect_right(self.milestones, epoch)
        return self.schedulers[index], epoch - (self.milestones[index - 1] if index else 0)


@final
class ChainedScheduler(_Combined):
    """The first rate times the factors of several schedules, from the step at which they are.

    Where one sets the rate, as LambdaLR, CosineAnnealingWarmRestarts, CyclicLR and OneCycleLR do, it is that rate,
    times the factors by which those after it change theirs in this step.

    Args:
        schedulers: the schedules, all at the same step.
        optimizer: the optimizer of all of them.

    Source: torch.optim.lr_scheduler.ChainedScheduler.
    """

    def __init__(self, schedulers: Sequence[Schedule], optimizer: Optimizer | None = None) -> None:
        schedulers = list(schedulers)
        if not schedulers:
            raise ArgumentError("ChainedScheduler got no schedules")
        if optimizer is None:
            optimizer = getattr(schedulers[0], "optimizer", None)
        optimizer = _check_optimizer(optimizer, "ChainedScheduler")
        self.schedulers = _check_schedules(optimizer, schedulers, "ChainedScheduler")
        steps = [one.last_epoch for one in self.schedulers]
        if len(set(steps)) > 1:
            raise ArgumentError(f"ChainedScheduler takes schedules that are at the same step, not at {steps}")
        super().__init__(optimizer, steps[0] - 1)

    def rate(self, base_lr: float, epoch: int, group: int = 0) -> float:
        """Return the product of the first rate and the factor of each schedule.

        A schedule that sets a rate, whatever it was, undoes what those before it have done; those after it change it by
        the factor of this step alone.
        """
        found = [number for number, one in enumerate(self.schedulers) if one._sets_rate]
        if found:
            return self._rate_after(found[-1], base_lr, epoch, group)
        if not base_lr:
            return base_lr
        return base_lr * math.prod(one.rate(base_lr, epoch, group) / base_lr for one in self.schedulers)

    def _rate_after(self, last: int, base_lr: float, epoch: int, group: int) -> float:
        """Return the rate that the schedule of this number sets, times the factors of one step of those after it."""
        setting = self.schedulers[last]
        rate = setting.rate(setting.base_lrs[group] if group < len(setting.base_lrs) else base_lr, epoch, group)
        for one in self.schedulers[last + 1 :]:
            before = one.rate(1.0, epoch - 1, group) if epoch else 1.0
            # A rate that has fallen to 0 is not multiplied any more.
            rate *= one.rate(1.0, epoch, group) / before if before else 1.0
        return rate

    def options(self, base_lr: float, epoch: int, group: int = 0) -> Group:
        """Return what the schedules set, with the product of the factors as "lr"."""
        found: Group = {}
        for one in self.schedulers:
            found |= one.options(base_lr, epoch, group)
        return {**found, "lr": self.rate(base_lr, epoch, group)}


def _on_cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2


def _check_optimizer(optimizer: Any, where: str) -> Optimizer:
    if not isinstance(optimizer, Optimizer):
        raise ArgumentTypeError(takes(where, "an Optimizer", optimizer))
    return optimizer


def _check_schedules(optimizer: Optimizer, schedules: Sequence[Schedule], where: str) -> list[Schedule]:
    found = list(schedules)
    if not found:
        raise ArgumentError(f"{where} got no schedules")
    for one in found:
        if not isinstance(one, Schedule):
            raise ArgumentTypeError(f"{where} combines schedules of the number of steps, not {describe(one)}")
        if one.optimizer is not optimizer:
            raise ArgumentError(f"{where}: {one!r} is a schedule of another optimizer")
    return found


@final
class SWALR(Schedule):
    """The rate goes within `anneal_epochs` steps from what it is at the first of them to `swa_lr`, and stays there.

    It begins where another schedule has left off: call `step` of that one before, and of this one from then on. With
    `nn.utils.AveragedModel`, the parameters of the later steps are averaged.

    Args:
        optimizer: the optimizer.
        swa_lr: the last rate, or that of each group.
        anneal_epochs: how many steps it takes; with 0, the rate is the last one at once.
        anneal_strategy: "cos", along half a cosine, or "linear".
        last_epoch: as for `Schedule`.

    Raises:
        ArgumentError: `anneal_strategy` is another one.

    Source: torch.optim.swa_utils.SWALR.

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad import optim
        >>> optimizer = optim.SGD([ag.tensor(1.0, requires_grad=True)], lr=1.0)
        >>> schedule = optim.schedule.SWALR(optimizer, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear")
        >>> for _ in range(3):
        ...     schedule.step()
        ...     print(optimizer.param_groups[0]["lr"])
        0.75
        0.5
        0.5
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | Sequence[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise ArgumentError(f"anneal_strategy must be 'cos' or 'linear', not {anneal_strategy!r}")
        self.anneal_epochs: int = whole_number(anneal_epochs, "anneal_epochs", 0)
        self._strategy = anneal_strategy
        self.optimizer = _check_optimizer(optimizer, "SWALR")
        #: The rate of each group before the first step, once there was one.
        self._starts: list[float] = []
        rates = _for_each_group(optimizer, swa_lr, "swa_lr")
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["swa_lr"] = rate
        if whole_number(last_epoch, "last_epoch", -1) != -1:
            self._starts = self._starts_from(last_epoch)
        super().__init__(optimizer, last_epoch)

    def step(self) -> None:
        """Set the rates for the next step of the optimizer."""
        if self.last_epoch == 0:
            self._starts = self.get_last_lr()
        super().step()

    def options(self, base_lr: float, epoch: int, group: int = 0) -> Group:
        """Return the rate, between that which the group has when `epoch` is 0 and the last one."""
        # A SequentialLR asks for these, and calls no `step`.
        if epoch == 0:
            self._starts[group : group + 1] = [self.optimizer.param_groups[group]["lr"]]
        elif not self._starts:
            self._starts = self._starts_from(epoch)
        return super().options(base_lr, epoch, group)

    def rate(self, base_lr: float, epoch: int, group: int = 0) -> float:
        """Return the rate between that before the first step and the last one."""
        options = self.optimizer.param_groups[group]
        start = self._starts[group] if group < len(self._starts) else options["lr"]
        share = self._share_at(epoch)
        return float(options["swa_lr"] * share + start * (1 - share))

    def _share_at(self, epoch: int) -> float:
        """Return how much of the way the rate has gone after `epoch` calls of `step`."""
        share = min(1.0, epoch / self.anneal_epochs) if self.anneal_epochs else 1.0
        return (1 - math.cos(math.pi * share)) / 2 if self._strategy == "cos" else share

    def _starts_from(self, epoch: int) -> list[float]:
        """Return the rates before the first step, of which those that the optimizer has are what `epoch` steps made."""
        share, groups = self._share_at(epoch), self.optimizer.param_groups
        if share == 1:
            return [group["lr"] for group in groups]
        return [(group["lr"] - group["swa_lr"] * share) / (1 - share) for group in groups]

    def state_dict(self) -> dict[str, Any]:
        """Return what `load_state_dict` needs to go on: numbers that can be pickled."""
        return {**super().state_dict(), "starts": list(self._starts)}

    def _load_own(self, state_dict: Mapping[str, Any], epoch: int) -> None:
        # A state of PyTorch's does not say where the rates were before the first step: those of the optimizer do, whose
        # own state is loaded before.
        if "starts" in state_dict:
            self._starts = list(state_dict["starts"])
        else:
            self._starts = self._starts_from(epoch) if epoch else []


def _first_rate(group: Group) -> float:
    """Return the rate of a group before any schedule set it."""
    group.setdefault("initial_lr", group["lr"])
    return float(group["initial_lr"])


def _check_first_rates(optimizer: Optimizer, last_epoch: int) -> None:
    for index, group in enumerate(optimizer.param_groups):
        if "initial_lr" not in group:
            raise ArgumentError(
                f"last_epoch={last_epoch} goes on with a schedule, but group {index} of the optimizer has no "
                "'initial_lr': load the optimizer's state_dict first, or set group['initial_lr'] to its first rate"
            )


def _functions_of_groups(optimizer: Optimizer, lr_lambda: Any, where: str) -> Factor | list[Factor]:
    """Return the function of all groups, or a list with that of each."""
    functions = list(lr_lambda) if isinstance(lr_lambda, Sequence) else None
    for function in [lr_lambda] if functions is None else functions:
        if not callable(function):
            raise ArgumentTypeError(
                must_be("lr_lambda", "a function of the number of steps, or one for each group", function)
            )
    groups = len(_check_optimizer(optimizer, where).param_groups)
    if functions is not None and len(functions) != groups:
        raise ArgumentError(f"lr_lambda has {len(functions)} functions, but the optimizer has {groups} groups")
    return lr_lambda if functions is None else functions


def _factor(functions: Factor | list[Factor], epoch: int, group: int) -> float:
    function = functions[group] if isinstance(functions, list) else functions
    return number(function(epoch), "what lr_lambda returned")


def _share(value: Any, name: str) -> float:
    if number(value, name, 0) > 1:
        raise ArgumentError(f"{name} must be a share from 0 to 1, not {value}")
    return float(value)


def _for_each_group(optimizer: Optimizer, value: float | Sequence[float], name: str) -> list[float]:
    """Return a number for each group, of which there is one for all, or a sequence with one for each."""
    groups = len(optimizer.param_groups)
    given = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value] * groups
    if len(given) != groups:
        raise ArgumentError(f"{name} has {len(given)} entries, but the optimizer has {groups} groups")
    return [number(one, name, 0) for one in given]


def _cycled_momentums(
    optimizer: Optimizer, is_cycled: Any, lowest: float | Sequence[float], highest: float | Sequence[float]
) -> list[tuple[float, float]] | None:
    """Return the lowest and the highest momentum of each group; None where momentum is not cycled."""
    if not truth(is_cycled, "cycle_momentum"):
        return None
    if not {"momentum", "betas"} & optimizer.defaults.keys():
        raise ArgumentError(
            f"{type(optimizer).__name__} has no momentum and no betas to cycle: pass cycle_momentum=False"
        )
    least = _for_each_group(optimizer, lowest, "base_momentum")
    return list(zip(least, _for_each_group(optimizer, highest, "max_momentum"), strict=True))


def _with_momentum(optimizer: Optimizer, group: int, momentum: float) -> Group:
    """Return the options of a group that hold a momentum."""
    if "betas" in optimizer.defaults:
        return {"betas": (momentum, *optimizer.param_groups[group]["betas"][1:])}
    return {"momentum": momentum}


def _entry(state_dict: Any, name: str) -> Any:
    if not isinstance(state_dict, Mapping) or name not in state_dict:
        raise ArgumentError(f"state_dict has no {name!r}: pass what schedule.state_dict() returned")
    return state_dict[name]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:
    # A type checker that saw a `__getattr__` would take any name for one of the module.
    __getattr__ = name_advisor(__name__)
