"""Lion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, final

import numpy as np

from ..core.arrays.values import zeros_like
from ..core.tree.structure import Tree
from .elementwise import ElementwiseOptimizer, Update, as_scalars, real_view
from .fused import FusedUpdate
from .optimizer import Group, check_betas, check_range

__all__ = ["Lion"]


@final
class Lion(ElementwiseOptimizer):
    """Lion: each element moves by `lr`, in the direction of the sign of a mean of its gradients.

    Weight decay is decoupled: parameters shrink by `lr * weight_decay` of themselves in each step. For a complex
    parameter, the signs of the real and the imaginary part are taken each.

    Args:
        params: tensors, or groups of them.
        lr: the learning rate: the size of a step. About a tenth of that of AdamW is usual.
        betas: the share of the old mean in the direction of a step, and in the new mean.
        weight_decay: the fraction by which parameters shrink in each step, before it is multiplied by `lr`.
        maximize: go uphill: the gradient is taken with the other sign.

    Raises:
        ArgumentError: an option or a parameter is invalid; the message names it.

    Source: X. Chen et al., "Symbolic discovery of optimization algorithms" (2023).

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad import optim, sync
        >>> w = ag.tensor([1.0, -200.0], requires_grad=True)
        >>> optimizer = optim.Lion([w], lr=0.5)
        >>> sync.backward((w * w).sum())
        >>> optimizer.step()
        >>> w.numpy()
        array([   0.5, -199.5])
    """

    def __init__(
        self,
        params: Tree,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay, "maximize": maximize})

    @staticmethod
    def _check(group: Group) -> None:
        for name in ("lr", "weight_decay"):
            check_range(group, name)
        check_betas(group, "(0.9, 0.99)")

    def _new_state(self, param: Any, group: Group) -> dict[str, Any]:
        return {"exp_avg": zeros_like(param, param.shape)}

    def _updater(self, like: Any, group: Group) -> Update:
        is_complex, has_decay = like.dtype.kind == "c", bool(group["weight_decay"])
        scratch = self._scratch(like.real if is_complex else like, 1)
        beta1, beta2 = group["betas"]
        shrink, share1, share2, lr = as_scalars(
            like, 1 - group["lr"] * group["weight_decay"], 1 - beta1, 1 - beta2, group["lr"]
        )
        multiply, add, subtract = np.multiply, np.add, np.subtract

        def update(param: Any, grad: Any, state: dict[str, Any]) -> None:
            mean = state["exp_avg"]
            if is_complex:
                param, grad, mean = map(real_view, (param, grad, mean))
            (buffer,) = scratch[param.shape]
            if has_decay:
                multiply(param, shrink, param)
            add(mean, multiply(subtract(grad, mean, buffer), share1, buffer), buffer)
            subtract(param, multiply(np.sign(buffer, buffer), lr, buffer), param)
            add(mean, multiply(subtract(grad, mean, buffer), share2, buffer), mean)

        return update

    def _fused_update(self, param: Any, grad: Any, state: Mapping[str, Any], group: Group) -> FusedUpdate | None:
        if param.dtype.kind == "c":
            return None
        mean = state["exp_avg"] if state else np.zeros_like(param)
        beta1, beta2 = group["betas"]
        shrink = 1 - group["lr"] * group["weight_decay"]
        numbers = (shrink, 1 - beta1, 1 - beta2, group["lr"])
        return FusedUpdate(_fused_formula(), (param, mean, grad), 2, numbers, {"exp_avg": mean})


@cache
def _fused_formula() -> Callable[..., tuple[Any, ...]]:
    """Return the update of one parameter as elementwise operations, in the order of `_updater`."""

    def lion(
        param: Any, mean: Any, grad: Any, shrink: float, share1: float, share2: float, lr: float
    ) -> tuple[Any, ...]:
        direction = mean + (grad - mean) * share1
        return param * shrink - np.sign(direction) * lr, mean + (grad - mean) * share2

    return lion
