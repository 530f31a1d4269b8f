"""ASGD."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, final

import numpy as np

from ..core.arrays.values import zeros_like
from ..core.settings.arguments import number
from ..core.tree.structure import Tree
from .elementwise import ElementwiseOptimizer, Update, as_scalars, real_view
from .fused import FusedUpdate
from .optimizer import Group, check_range

__all__ = ["ASGD"]


@final
class ASGD(ElementwiseOptimizer):
    """Averaged SGD: gradient descent with a decaying rate, which also keeps the mean of the parameters over time.

    The mean of a parameter is `optimizer.state[param]["ax"]`.

    Args:
        params: tensors, or groups of them.
        lr: the learning rate of the first step; that of step `n + 1` is `lr / (1 + lambd * lr * n) ** alpha`.
        lambd: how fast the rate decays; parameters shrink by `lambd` times the rate in each step, too.
        alpha: the power of that decay.
        t0: the step after which the mean begins; before, it is the parameter itself.
        weight_decay: adds `weight_decay * p` to the gradient.
        maximize: go uphill: the gradient is taken with the other sign.

    Raises:
        ArgumentError: an option or a parameter is invalid; the message names it.

    Source: torch.optim.ASGD; B. T. Polyak and A. B. Juditsky, "Acceleration of stochastic approximation by averaging"
    (1992).

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad import optim, sync
        >>> w = ag.tensor([1.0], requires_grad=True)
        >>> optimizer = optim.ASGD([w], lr=0.25, lambd=0.0, t0=1)
        >>> for _ in range(3):
        ...     optimizer.zero_grad()
        ...     sync.backward((w * w).sum())
        ...     optimizer.step()
        >>> w.tolist(), optimizer.state[w]["ax"].tolist()
        ([0.125], [0.125])
    """

    _scalar_names = frozenset({"eta", "mu"})

    def __init__(
        self,
        params: Tree,
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    @staticmethod
    def _check(group: Group) -> None:
        for name in ("lr", "weight_decay"):
            check_range(group, name)
        for name in ("lambd", "alpha", "t0"):
            number(group[name], name)

    def _new_state(self, param: Any, group: Group) -> dict[str, Any]:
        return {"step": 0, "eta": float(group["lr"]), "mu": 1.0, "ax": zeros_like(param, param.shape)}

    def _updater(self, like: Any, group: Group) -> Update:
        is_complex, has_l2 = like.dtype.kind == "c", bool(group["weight_decay"])
        scratch = self._scratch(like.real if is_complex else like, 2)
        (l2,) = as_scalars(like, group["weight_decay"])
        multiply, add, subtract = np.multiply, np.add, np.subtract

        def update(param: Any, grad: Any, state: dict[str, Any]) -> None:
            average, eta, mu, step = state["ax"], state["eta"], state["mu"], state["step"]
            if is_complex:
                param, grad, average = map(real_view, (param, grad, average))
            buffer, decayed = scratch[param.shape]
            shrink, rate, share = as_scalars(like, 1 - group["lambd"] * eta, eta, mu)
            if has_l2:
                grad = add(multiply(param, l2, decayed), grad, decayed)
            multiply(param, shrink, param)
            subtract(param, multiply(grad, rate, buffer), param)
            if mu == 1:
                average[...] = param
            else:
                add(average, multiply(subtract(param, average, buffer), share, buffer), average)
            state.update(_next_scalars(group, step))

        return update

    def _fused_update(self, param: Any, grad: Any, state: Mapping[str, Any], group: Group) -> FusedUpdate | None:
        known = state or {"step": 0, "eta": float(group["lr"]), "mu": 1.0, "ax": np.zeros_like(param)}
        if not {"eta", "mu", "ax"} <= set(known):
            return None
        numbers = (group["weight_decay"], 1 - group["lambd"] * known["eta"], known["eta"], known["mu"])
        formula = _fused_formula(bool(group["weight_decay"]), known["mu"] == 1)
        new_state = {**_next_scalars(group, known["step"]), "ax": known["ax"]}
        return FusedUpdate(formula, (param, known["ax"], grad), 2, numbers, new_state)


def _next_scalars(group: Group, step: int) -> dict[str, Any]:
    """Return the state after a step that is no array: its number, the next rate, and the next share of the mean."""
    step, lr = step + 1, group["lr"]
    rate = lr / (1 + group["lambd"] * lr * step) ** group["alpha"]
    return {"step": step, "eta": float(rate), "mu": 1 / max(1, step - group["t0"])}


@cache
def _fused_formula(has_l2: bool, is_copy: bool) -> Callable[..., tuple[Any, ...]]:
    """Return the update of one parameter as elementwise operations, in the order of `_updater`."""

    def asgd(
        param: Any, average: Any, grad: Any, l2: float, shrink: float, rate: float, share: float
    ) -> tuple[Any, ...]:
        if has_l2:
            grad = param * l2 + grad
        param = param * shrink - grad * rate
        # A new array: one that is returned twice would be the memory of both.
        return param, +param if is_copy else average + (param - average) * share

    return asgd
