"""Adamax."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, final

import numpy as np

from ..core.arrays.values import zeros_like
from ..core.tree.structure import Tree
from .elementwise import (
    ElementwiseOptimizer,
    Update,
    as_scalars,
    factor_of_mean,
    is_slow_mean,
    move_mean,
    moved_mean,
    real_view,
)
from .fused import FusedUpdate
from .optimizer import Group, check_betas, check_range

__all__ = ["Adamax"]


@final
class Adamax(ElementwiseOptimizer):
    """Adamax: Adam with the largest gradient so far, which decays, in place of the root of the mean square.

    Args:
        params: tensors, or groups of them.
        lr: the learning rate, about the size of a step.
        betas: the decay rates of the mean gradient and of the largest one.
        eps: added to each gradient's absolute value.
        weight_decay: adds `weight_decay * p` to the gradient.
        maximize: go uphill: the gradient is taken with the other sign.

    Raises:
        ArgumentError: an option or a parameter is invalid; the message names it.

    Source: torch.optim.Adamax; D. P. Kingma and J. Ba, "Adam: a method for stochastic optimization" (2014).

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad import optim, sync
        >>> w = ag.tensor([1.0, -200.0], requires_grad=True)
        >>> optimizer = optim.Adamax([w], lr=0.5)
        >>> sync.backward((w * w).sum())
        >>> optimizer.step()
        >>> w.numpy()
        array([   0.5, -199.5])
    """

    def __init__(
        self,
        params: Tree,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, defaults)

    @staticmethod
    def _check(group: Group) -> None:
        for name in ("lr", "eps", "weight_decay"):
            check_range(group, name)
        check_betas(group, "(0.9, 0.999)")

    def _new_state(self, param: Any, group: Group) -> dict[str, Any]:
        return {"step": 0, **{name: zeros_like(param, param.shape) for name in ("exp_avg", "exp_inf")}}

    def _updater(self, like: Any, group: Group) -> Update:
        is_complex, has_l2 = like.dtype.kind == "c", bool(group["weight_decay"])
        beta1, beta2 = group["betas"]
        scratch = self._scratch(like.real if is_complex else like, 2)
        l2, decay2, eps = as_scalars(like, group["weight_decay"], beta2, group["eps"])
        multiply, add = np.multiply, np.add

        def update(param: Any, grad: Any, state: dict[str, Any]) -> None:
            mean, largest = state["exp_avg"], state["exp_inf"]
            if is_complex:
                param, grad, mean, largest = map(real_view, (param, grad, mean, largest))
            buffer, decayed = scratch[param.shape]
            step = state["step"] = state["step"] + 1
            (rate,) = as_scalars(like, group["lr"] / (1 - beta1**step))
            if has_l2:
                grad = add(multiply(param, l2, decayed), grad, decayed)
            move_mean(mean, grad, beta1, buffer)
            multiply(largest, decay2, largest)
            np.maximum(largest, add(np.absolute(grad, buffer), eps, buffer), out=largest)
            np.subtract(param, multiply(np.divide(mean, largest, buffer), rate, buffer), param)

        return update

    def _fused_update(self, param: Any, grad: Any, state: Mapping[str, Any], group: Group) -> FusedUpdate | None:
        names = ("exp_avg", "exp_inf")
        if state and not set(names) <= set(state):
            return None
        arrays = {name: state[name] if state else np.zeros_like(param) for name in names}
        step, (beta1, beta2) = state.get("step", 0) + 1, group["betas"]
        rate = group["lr"] / (1 - beta1**step)
        numbers = (group["weight_decay"], factor_of_mean(beta1), beta2, group["eps"], rate)
        formula = _fused_formula(bool(group["weight_decay"]), is_slow_mean(beta1))
        return FusedUpdate(formula, (param, *arrays.values(), grad), 3, numbers, {"step": step, **arrays})


@cache
def _fused_formula(has_l2: bool, is_slow: bool) -> Callable[..., tuple[Any, ...]]:
    """Return the update of one parameter as elementwise operations, in the order of `_updater`."""

    def adamax(
        param: Any, mean: Any, largest: Any, grad: Any, l2: float, factor: float, decay: float, eps: float, rate: float
    ) -> tuple[Any, ...]:
        if has_l2:
            grad = param * l2 + grad
        mean = moved_mean(mean, grad, factor, is_slow)
        largest = np.maximum(largest * decay, np.absolute(grad) + eps)
        return param - mean / largest * rate, mean, largest

    return adamax
