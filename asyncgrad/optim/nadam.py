"""NAdam."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, final

import numpy as np

from ..core.arrays.values import zeros_like
from ..core.settings.arguments import truth
from ..core.tree.structure import Tree
from .elementwise import ElementwiseOptimizer, Update, as_scalars, is_slow_mean, real_view
from .fused import FusedUpdate
from .moments import decay_kinds, fused_numbers, moments_mover, moved_moments
from .optimizer import Group, check_betas, check_range

__all__ = ["NAdam"]


@final
class NAdam(ElementwiseOptimizer):
    """NAdam: Adam with Nesterov's momentum, so each element moves by the mean gradient that the next step would have.

    Args:
        params: tensors, or groups of them.
        lr: the learning rate, about the size of a step.
        betas: the decay rates of the means of the gradient and of its square.
        eps: added to the root.
        weight_decay: adds `weight_decay * p` to the gradient.
        momentum_decay: how fast the share of the mean gradient grows from half of the first of `betas` to all of it.
        decoupled_weight_decay: shrink parameters as AdamW does, in place of adding to the gradient.
        maximize: go uphill: the gradient is taken with the other sign.

    Raises:
        ArgumentError: an option or a parameter is invalid; the message names it.

    Source: torch.optim.NAdam; T. Dozat, "Incorporating Nesterov momentum into Adam" (2016).

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad import optim, sync
        >>> w = ag.tensor([1.0, -200.0], requires_grad=True)
        >>> optimizer = optim.NAdam([w], lr=0.5)
        >>> sync.backward((w * w).sum())
        >>> optimizer.step()
        >>> w.numpy().round(4)
        array([   0.4718, -199.4718])
    """

    _scalar_names = frozenset({"mu_product"})

    def __init__(
        self,
        params: Tree,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    @staticmethod
    def _check(group: Group) -> None:
        for name in ("lr", "eps", "weight_decay", "momentum_decay"):
            check_range(group, name)
        check_betas(group, "(0.9, 0.999)")
        truth(group["decoupled_weight_decay"], "decoupled_weight_decay")

    def _new_state(self, param: Any, group: Group) -> dict[str, Any]:
        means = {name: zeros_like(param, param.shape) for name in ("exp_avg", "exp_avg_sq")}
        return {"step": 0, "mu_product": 1.0, **means}

    def _updater(self, like: Any, group: Group) -> Update:
        is_complex = like.dtype.kind == "c"
        scratch, move = self._scratch(like.real if is_complex else like, 2), moments_mover(like, group)
        (eps,) = as_scalars(like, group["eps"])
        multiply, add, subtract, divide, sqrt = np.multiply, np.add, np.subtract, np.divide, np.sqrt

        def update(param: Any, grad: Any, state: dict[str, Any]) -> None:
            mean, square, product = state["exp_avg"], state["exp_avg_sq"], state["mu_product"]
            if is_complex:
                param, grad, mean, square = map(real_view, (param, grad, mean, square))
            buffer, decayed = scratch[param.shape]
            step = state["step"] = state["step"] + 1
            state["mu_product"], *numbers = _step_numbers(group, step, product)
            correction, rate, mean_rate = as_scalars(like, *numbers)
            grad = move(param, grad, mean, square, buffer, decayed)
            add(sqrt(divide(square, correction, buffer), buffer), eps, buffer)
            # The second buffer last, for the gradient may lie in it.
            subtract(param, multiply(divide(grad, buffer, decayed), rate, decayed), param)
            subtract(param, multiply(divide(mean, buffer, buffer), mean_rate, buffer), param)

        return update

    def _fused_update(self, param: Any, grad: Any, state: Mapping[str, Any], group: Group) -> FusedUpdate | None:
        names = ("exp_avg", "exp_avg_sq")
        if state and not {*names, "mu_product"} <= set(state):
            return None
        arrays = {name: state[name] if state else np.zeros_like(param) for name in names}
        step = state.get("step", 0) + 1
        product, *of_step = _step_numbers(group, step, state.get("mu_product", 1.0))
        numbers = (*fused_numbers(group), group["eps"], *of_step)
        formula = _fused_formula(decay_kinds(group), is_slow_mean(group["betas"][0]))
        new_state = {"step": step, "mu_product": product, **arrays}
        return FusedUpdate(formula, (param, *arrays.values(), grad), 3, numbers, new_state)


def _step_numbers(group: Group, step: int, product: float) -> tuple[float, ...]:
    """Return the product of all momenta so far, the correction of the mean square, and the rates of both parts."""
    beta1, beta2 = group["betas"]

    def momentum(step: int) -> float:
        found: float = beta1 * (1.0 - 0.5 * 0.96 ** (step * group["momentum_decay"]))
        return found

    now, following = momentum(step), momentum(step + 1)
    product *= now
    rate = group["lr"] * (1.0 - now) / (1.0 - product)
    return product, 1 - beta2**step, rate, group["lr"] * following / (1.0 - product * following)


@cache
def _fused_formula(kinds: tuple[bool, bool], is_slow: bool) -> Callable[..., tuple[Any, ...]]:
    """Return the update of one parameter as elementwise operations, in the order of `_updater`."""

    def nadam(
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
        correction: float,
        rate: float,
        mean_rate: float,
    ) -> tuple[Any, ...]:
        moved = moved_moments(kinds, is_slow, param, mean, square, grad, l2, shrink, factor, decay, share)
        param, mean, square, grad = moved
        root = np.sqrt(square / correction) + eps
        return param - grad / root * rate - mean / root * mean_rate, mean, square

    return nadam
