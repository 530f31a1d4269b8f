"""Adadelta."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, final

import numpy as np

from ..core.arrays.values import zeros_like
from ..core.settings.arguments import number
from ..core.tree.structure import Tree
from ..errors import ArgumentError
from .elementwise import ElementwiseOptimizer, Update, as_scalars, real_view
from .fused import FusedUpdate
from .optimizer import Group, check_range

__all__ = ["Adadelta"]


@final
class Adadelta(ElementwiseOptimizer):
    """Adadelta: each element moves by its gradient times the root of its mean squared moves over that of its gradients.

    Args:
        params: tensors, or groups of them.
        lr: what each move is multiplied by.
        rho: the decay rate of both means.
        eps: added to both means; the first steps are about its root.
        weight_decay: adds `weight_decay * p` to the gradient.
        maximize: go uphill: the gradient is taken with the other sign.

    Raises:
        ArgumentError: an option or a parameter is invalid; the message names it.

    Source: torch.optim.Adadelta; M. D. Zeiler, "ADADELTA: an adaptive learning rate method" (2012).

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad import optim, sync
        >>> w = ag.tensor([1.0, -200.0], requires_grad=True)
        >>> optimizer = optim.Adadelta([w], rho=0.75, eps=0.25)
        >>> sync.backward((w * w).sum())
        >>> optimizer.step()
        >>> w.numpy().round(4).tolist()
        [0.1056, -199.0]
    """

    def __init__(
        self,
        params: Tree,
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, defaults)

    @staticmethod
    def _check(group: Group) -> None:
        for name in ("lr", "eps", "weight_decay"):
            check_range(group, name)
        if not 0 <= number(group["rho"], "rho") <= 1:
            raise ArgumentError(f"rho must be at least 0 and at most 1, not {group['rho']}")

    def _new_state(self, param: Any, group: Group) -> dict[str, Any]:
        return {"step": 0, **{name: zeros_like(param, param.shape) for name in ("square_avg", "acc_delta")}}

    def _updater(self, like: Any, group: Group) -> Update:
        is_complex, has_l2 = like.dtype.kind == "c", bool(group["weight_decay"])
        scratch = self._scratch(like.real if is_complex else like, 3)
        rho = group["rho"]
        l2, decay, share, eps, lr = as_scalars(like, group["weight_decay"], rho, 1 - rho, group["eps"], group["lr"])
        multiply, add, sqrt = np.multiply, np.add, np.sqrt

        def update(param: Any, grad: Any, state: dict[str, Any]) -> None:
            square, moves = state["square_avg"], state["acc_delta"]
            if is_complex:
                param, grad, square, moves = map(real_view, (param, grad, square, moves))
            buffer, move, decayed = scratch[param.shape]
            state["step"] += 1
            if has_l2:
                grad = add(multiply(param, l2, decayed), grad, decayed)
            multiply(square, decay, square)
            add(square, multiply(multiply(grad, grad, buffer), share, buffer), square)
            sqrt(add(square, eps, buffer), buffer)
            np.divide(sqrt(add(moves, eps, move), move), buffer, move)
            multiply(move, grad, move)
            multiply(moves, decay, moves)
            add(moves, multiply(multiply(move, move, buffer), share, buffer), moves)
            np.subtract(param, multiply(move, lr, move), param)

        return update

    def _fused_update(self, param: Any, grad: Any, state: Mapping[str, Any], group: Group) -> FusedUpdate | None:
        names = ("square_avg", "acc_delta")
        if state and not set(names) <= set(state):
            return None
        arrays = {name: state[name] if state else np.zeros_like(param) for name in names}
        numbers = (group["weight_decay"], group["rho"], 1 - group["rho"], group["eps"], group["lr"])
        formula = _fused_formula(bool(group["weight_decay"]))
        new_state = {"step": state.get("step", 0) + 1, **arrays}
        return FusedUpdate(formula, (param, *arrays.values(), grad), 3, numbers, new_state)


@cache
def _fused_formula(has_l2: bool) -> Callable[..., tuple[Any, ...]]:
    """Return the update of one parameter as elementwise operations, in the order of `_updater`."""

    def adadelta(
        param: Any, square: Any, moves: Any, grad: Any, l2: float, decay: float, share: float, eps: float, lr: float
    ) -> tuple[Any, ...]:
        if has_l2:
            grad = param * l2 + grad
        square = square * decay + grad * grad * share
        move = np.sqrt(moves + eps) / np.sqrt(square + eps) * grad
        return param - move * lr, square, moves * decay + move * move * share

    return adadelta
