"""Adagrad."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, final

import numpy as np

from ..core.arrays.values import empty_like
from ..core.tree.structure import Tree
from .elementwise import ElementwiseOptimizer, Update, as_scalars, real_view
from .fused import FusedUpdate
from .optimizer import Group, check_range

__all__ = ["Adagrad"]


@final
class Adagrad(ElementwiseOptimizer):
    """Adagrad: each element moves by its gradient over the root of the sum of all its squared gradients.

    Args:
        params: tensors, or groups of them.
        lr: the learning rate.
        lr_decay: the rate of step `n` is `lr / (1 + (n - 1) * lr_decay)`.
        weight_decay: adds `weight_decay * p` to the gradient.
        initial_accumulator_value: what the sums start with.
        eps: added to the root.
        maximize: go uphill: the gradient is taken with the other sign.

    Raises:
        ArgumentError: an option or a parameter is invalid; the message names it.

    Source: torch.optim.Adagrad; J. Duchi, E. Hazan and Y. Singer, "Adaptive subgradient methods for online learning
    and stochastic optimization" (2011).

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad import optim, sync
        >>> w = ag.tensor([1.0, -200.0], requires_grad=True)
        >>> optimizer = optim.Adagrad([w], lr=0.5)
        >>> sync.backward((w * w).sum())
        >>> optimizer.step()
        >>> w.numpy()
        array([   0.5, -199.5])
    """

    def __init__(
        self,
        params: Tree,
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        maximize: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "eps": eps,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    @staticmethod
    def _check(group: Group) -> None:
        for name in ("lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps"):
            check_range(group, name)

    def _new_state(self, param: Any, group: Group) -> dict[str, Any]:
        return {"step": 0, "sum": _first_sum(param, group)}

    def _updater(self, like: Any, group: Group) -> Update:
        is_complex, has_l2 = like.dtype.kind == "c", bool(group["weight_decay"])
        scratch = self._scratch(like.real if is_complex else like, 2)
        l2, eps, base_lr = as_scalars(like, group["weight_decay"], group["eps"], group["lr"])
        multiply, add, subtract, divide, sqrt = np.multiply, np.add, np.subtract, np.divide, np.sqrt

        def update(param: Any, grad: Any, state: dict[str, Any]) -> None:
            total = state["sum"]
            step = state["step"] = state["step"] + 1
            lr = _rate(group, step) if group["lr_decay"] else base_lr
            if is_complex:
                param, grad, total = map(real_view, (param, grad, total))
            buffer, decayed = scratch[param.shape]
            if has_l2:
                grad = add(multiply(param, l2, decayed), grad, decayed)
            add(total, multiply(grad, grad, buffer), total)
            divide(grad, add(sqrt(total, buffer), eps, buffer), buffer)
            subtract(param, multiply(buffer, lr, buffer), param)

        return update

    def _fused_update(self, param: Any, grad: Any, state: Mapping[str, Any], group: Group) -> FusedUpdate | None:
        if state and "sum" not in state:
            return None
        step = state.get("step", 0) + 1
        total = state["sum"] if state else _first_sum(param, group)
        numbers = (group["weight_decay"], group["eps"], _rate(group, step))
        formula = _fused_formula(bool(group["weight_decay"]))
        return FusedUpdate(formula, (param, total, grad), 2, numbers, {"step": step, "sum": total})


def _first_sum(param: Any, group: Group) -> Any:
    total = empty_like(param)
    real_view(total).fill(group["initial_accumulator_value"])
    return total


def _rate(group: Group, step: int) -> float:
    rate: float = group["lr"] / (1 + (step - 1) * group["lr_decay"])
    return rate


@cache
def _fused_formula(has_l2: bool) -> Callable[..., tuple[Any, ...]]:
    """Return the update of one parameter as elementwise operations, in the order of `_updater`."""

    def adagrad(param: Any, total: Any, grad: Any, l2: float, eps: float, rate: float) -> tuple[Any, ...]:
        if has_l2:
            grad = param * l2 + grad
        total = total + grad * grad
        return param - grad / (np.sqrt(total) + eps) * rate, total

    return adagrad
