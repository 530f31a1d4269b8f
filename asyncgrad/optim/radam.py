"""RAdam."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any, final

import numpy as np

from ..core.arrays.values import zeros_like
from ..core.settings.arguments import truth
from ..core.tree.structure import Tree
from .elementwise import ElementwiseOptimizer, Update, as_scalars, is_slow_mean, real_view
from .fused import FusedUpdate
from .moments import decay_kinds, fused_numbers, moments_mover, moved_moments
from .optimizer import Group, check_betas, check_range

__all__ = ["RAdam"]


@final
class RAdam(ElementwiseOptimizer):
    """RAdam: Adam whose first steps follow the mean gradient alone, until the mean square is of enough gradients.

    Later steps are those of Adam, shortened by how uncertain the mean square still is.

    Args:
        params: tensors, or groups of them.
        lr: the learning rate.
        betas: the decay rates of the means of the gradient and of its square.
        eps: added to the root.
        weight_decay: adds `weight_decay * p` to the gradient.
        decoupled_weight_decay: shrink parameters as AdamW does, in place of adding to the gradient.
        maximize: go uphill: the gradient is taken with the other sign.

    Raises:
        ArgumentError: an option or a parameter is invalid; the message names it.

    Source: torch.optim.RAdam; L. Liu et al., "On the variance of the adaptive learning rate and beyond" (2019).

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad import optim, sync
        >>> w = ag.tensor([1.0, -200.0], requires_grad=True)
        >>> optimizer = optim.RAdam([w], lr=0.5)
        >>> sync.backward((w * w).sum())
        >>> optimizer.step()
        >>> w.numpy().round(4).tolist()
        [0.0, 0.0]
    """

    def __init__(
        self,
        params: Tree,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    @staticmethod
    def _check(group: Group) -> None:
        for name in ("lr", "eps", "weight_decay"):
            check_range(group, name)
        check_betas(group, "(0.9, 0.999)")
        truth(group["decoupled_weight_decay"], "decoupled_weight_decay")

    def _new_state(self, param: Any, group: Group) -> dict[str, Any]:
        return {"step": 0, **{name: zeros_like(param, param.shape) for name in ("exp_avg", "exp_avg_sq")}}

    def _updater(self, like: Any, group: Group) -> Update:
        is_complex = like.dtype.kind == "c"
        beta1, beta2 = group["betas"]
        scratch, move = self._scratch(like.real if is_complex else like, 2), moments_mover(like, group)
        (eps,) = as_scalars(like, group["eps"])
        multiply, add, subtract, divide, sqrt = np.multiply, np.add, np.subtract, np.divide, np.sqrt

        def update(param: Any, grad: Any, state: dict[str, Any]) -> None:
            mean, square = state["exp_avg"], state["exp_avg_sq"]
            if is_complex:
                param, grad, mean, square = map(real_view, (param, grad, mean, square))
            buffer, decayed = scratch[param.shape]
            step = state["step"] = state["step"] + 1
            is_adaptive, number = _rate(group["lr"], beta1, beta2, step)
            (rate,) = as_scalars(like, number)
            move(param, grad, mean, square, buffer, decayed)
            if is_adaptive:
                divide(mean, add(sqrt(square, buffer), eps, buffer), buffer)
                multiply(buffer, rate, buffer)
            else:
                multiply(mean, rate, buffer)
            subtract(param, buffer, param)

        return update

    def _fused_update(self, param: Any, grad: Any, state: Mapping[str, Any], group: Group) -> FusedUpdate | None:
        names = ("exp_avg", "exp_avg_sq")
        if state and not set(names) <= set(state):
            return None
        arrays = {name: state[name] if state else np.zeros_like(param) for name in names}
        step = state.get("step", 0) + 1
        beta1, beta2 = group["betas"]
        is_adaptive, rate = _rate(group["lr"], beta1, beta2, step)
        numbers = (*fused_numbers(group), group["eps"], rate)
        formula = _fused_formula(decay_kinds(group), is_slow_mean(beta1), is_adaptive)
        return FusedUpdate(formula, (param, *arrays.values(), grad), 3, numbers, {"step": step, **arrays})


@lru_cache(8)
def _rate(lr: float, beta1: float, beta2: float, step: int) -> tuple[bool, float]:
    """Return whether a step divides by the root of the mean square, and what it multiplies by."""
    correction = 1 - beta2**step
    most = 2 / (1 - beta2) - 1
    length = most - 2 * step * beta2**step / correction
    rate = lr / (1 - beta1**step)
    if length <= 5:
        return False, rate
    certainty = (length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)
    return True, rate * math.sqrt(correction) * math.sqrt(certainty)


@cache
def _fused_formula(kinds: tuple[bool, bool], is_slow: bool, is_adaptive: bool) -> Callable[..., tuple[Any, ...]]:
    """Return the update of one parameter as elementwise operations, in the order of `_updater`."""

    def radam(
        param: Any,
        mean: Any,
        square: Any,
        grad: Any,
        l2: float,
        shrink: float,
        factor: float,
        decay: float,
        share: float,
        eps: float,
        rate: float,
    ) -> tuple[Any, ...]:
        moved = moved_moments(kinds, is_slow, param, mean, square, grad, l2, shrink, factor, decay, share)
        param, mean, square, _ = moved
        move = mean / (np.sqrt(square) + eps) * rate if is_adaptive else mean * rate
        return param - move, mean, square

    return radam
