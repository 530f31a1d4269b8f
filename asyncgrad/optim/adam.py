"""Adam, and Adam with decoupled weight decay."""

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
from .moments import decay_kinds
from .optimizer import Group, check_betas, check_range

__all__ = ["Adam", "AdamW"]


class _AdamFamily(ElementwiseOptimizer):
    """Abstract base of Adam and AdamW, which differ in their defaults only."""

    def __init__(
        self,
        params: Tree,
        lr: float,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
        amsgrad: bool,
        maximize: bool,
        decoupled_weight_decay: bool,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    @staticmethod
    def _check(group: Group) -> None:
        for name in ("lr", "eps", "weight_decay"):
            check_range(group, name)
        check_betas(group, "(0.9, 0.999)")
        for name in ("amsgrad", "decoupled_weight_decay"):
            truth(group[name], name)

    def _fused_update(self, param: Any, grad: Any, state: Mapping[str, Any], group: Group) -> FusedUpdate | None:
        amsgrad = bool(group["amsgrad"])
        step = state.get("step", 0) + 1
        names = _state_names(group)
        if state and not set(names) <= set(state):
            return None
        arrays = {name: state[name] if state else np.zeros_like(param) for name in names}
        adds_decay, shrinks = decay_kinds(group)
        l2 = group["weight_decay"] if adds_decay else 0.0
        shrink = 1.0 - group["lr"] * group["weight_decay"] if shrinks else 1.0
        numbers = _fused_numbers(l2, shrink, *group["betas"], step, group["eps"], group["lr"])
        formula = _fused_formula(bool(l2), shrinks, amsgrad, is_slow_mean(group["betas"][0]))
        return FusedUpdate(formula, (param, *arrays.values(), grad), 1 + len(names), numbers, {"step": step, **arrays})

    def _new_state(self, param: Any, group: Group) -> dict[str, Any]:
        arrays = {name: zeros_like(param, param.shape) for name in _state_names(group)}
        return {"step": 0, **arrays}

    def _updater(self, like: Any, group: Group) -> Update:
        is_complex, amsgrad = like.dtype.kind == "c", group["amsgrad"]
        beta1, beta2 = group["betas"]
        scratch = self._scratch(like.real if is_complex else like, 2)
        adds_decay, shrinks = decay_kinds(group)
        is_slow = is_slow_mean(beta1)
        l2, shrink, share1, decay1, decay2, share2, eps = as_scalars(
            like,
            group["weight_decay"],
            1 - group["lr"] * group["weight_decay"],
            1 - beta1,
            beta1,
            beta2,
            1 - beta2,
            group["eps"],
        )
        numbers = _step_numbers(like, group)
        multiply, add, subtract, divide, sqrt = np.multiply, np.add, np.subtract, np.divide, np.sqrt

        def update(param: Any, grad: Any, state: dict[str, Any]) -> None:
            mean, square, largest = state["exp_avg"], state["exp_avg_sq"], state["max_exp_avg_sq"] if amsgrad else None
            if is_complex:
                param, grad, mean, square = map(real_view, (param, grad, mean, square))
            # First, for there may be no memory left, and then this was no step.
            buffer, decayed = scratch[param.shape]
            step = state["step"] = state["step"] + 1
            root, rate = numbers(step)
            if adds_decay:
                grad = add(multiply(param, l2, decayed), grad, decayed)
            elif shrinks:
                multiply(param, shrink, param)
            # mean = beta1 * mean + (1 - beta1) * grad
            difference = subtract(grad, mean, buffer)
            if is_slow:
                add(mean, multiply(difference, share1, buffer), mean)
            else:
                subtract(grad, multiply(difference, decay1, buffer), mean)
            # square = beta2 * square + (1 - beta2) * grad ** 2
            multiply(square, decay2, square)
            add(square, multiply(multiply(grad, grad, buffer), share2, buffer), square)
            if amsgrad:
                largest = real_view(largest)
                square = np.maximum(largest, square, out=largest)
            # param -= rate * mean / (sqrt(square) / root + eps)
            add(divide(sqrt(square, buffer), root, buffer), eps, buffer)
            subtract(param, multiply(divide(mean, buffer, buffer), rate, buffer), param)

        return update


def _state_names(group: Group) -> list[str]:
    return ["exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if group["amsgrad"] else [])]


def _step_numbers(like: Any, group: Group) -> Callable[[int], tuple[Any, ...]]:
    """Return a function of the number of a step, which returns the root and the rate of that step."""
    (beta1, beta2), lr = group["betas"], group["lr"]

    # All parameters are mostly at the same step.
    @lru_cache(4)
    def numbers(step: int) -> tuple[Any, ...]:
        return as_scalars(like, math.sqrt(1 - beta2**step), lr / (1 - beta1**step))

    return numbers


@lru_cache(8)
def _fused_numbers(
    l2: float, shrink: float, beta1: float, beta2: float, step: int, eps: float, lr: float
) -> tuple[float, ...]:
    """Return what the formula takes beside arrays, which all parameters have in common."""
    root, rate = math.sqrt(1 - beta2**step), lr / (1 - beta1**step)
    return l2, shrink, 1 - beta1 if is_slow_mean(beta1) else beta1, beta2, 1 - beta2, root, eps, rate


@cache
def _fused_formula(has_l2: bool, shrinks: bool, amsgrad: bool, is_slow: bool) -> Callable[..., tuple[Any, ...]]:
    """Return the update of one parameter as elementwise operations, in the order of `_updater`."""

    def averaged(mean: Any, grad: Any, share: float) -> Any:
        return mean + (grad - mean) * share if is_slow else grad - (grad - mean) * share

    def moved(param: Any, shrink: float, mean: Any, square: Any, root: float, eps: float, rate: float) -> Any:
        if shrinks:
            param = param * shrink
        return param - mean / (np.sqrt(square) / root + eps) * rate

    def adam(
        param: Any,
        mean: Any,
        square: Any,
        grad: Any,
        l2: float,
        shrink: float,
        share: float,
        beta2: float,
        square_share: float,
        root: float,
        eps: float,
        rate: float,
    ) -> tuple[Any, ...]:
        if has_l2:
            grad = param * l2 + grad
        mean = averaged(mean, grad, share)
        square = square * beta2 + grad * grad * square_share
        return moved(param, shrink, mean, square, root, eps, rate), mean, square

    def amsgrad_adam(
        param: Any,
        mean: Any,
        square: Any,
        largest: Any,
        grad: Any,
        l2: float,
        shrink: float,
        share: float,
        beta2: float,
        square_share: float,
        root: float,
        eps: float,
        rate: float,
    ) -> tuple[Any, ...]:
        if has_l2:
            grad = param * l2 + grad
        mean = averaged(mean, grad, share)
        square = square * beta2 + grad * grad * square_share
        largest = np.maximum(largest, square)
        return moved(param, shrink, mean, largest, root, eps, rate), mean, square, largest

    return amsgrad_adam if amsgrad else adam


@final
class Adam(_AdamFamily):
    """Adam: each element moves by its mean gradient over the root of its mean squared gradient, both decaying means.

    Args:
        params: tensors, or groups of them.
        lr: the learning rate, about the size of a step.
        betas: the decay rates of the means of the gradient and of its square.
        eps: added to the root.
        weight_decay: adds `weight_decay * p` to the gradient.
        amsgrad: use the largest mean square so far.
        maximize: go uphill: the gradient is taken with the other sign.
        decoupled_weight_decay: shrink parameters as AdamW does.

    Raises:
        ArgumentError: an option or a parameter is invalid; the message names it.

    Source: torch.optim.Adam; D. P. Kingma and J. Ba, "Adam: a method for stochastic optimization" (2014).

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad import optim, sync
        >>> w = ag.tensor([1.0, -200.0], requires_grad=True)
        >>> optimizer = optim.Adam([w], lr=0.5)
        >>> sync.backward((w * w).sum())
        >>> optimizer.step()
        >>> w.numpy()
        array([ 0.5, -199.5])
    """

    def __init__(
        self,
        params: Tree,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        maximize: bool = False,
        decoupled_weight_decay: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize, decoupled_weight_decay)


@final
class AdamW(_AdamFamily):
    """Adam with decoupled weight decay: parameters shrink by `lr * weight_decay` of themselves in each step.

    Args:
        params: tensors, or groups of them.
        lr: the learning rate, about the size of a step.
        betas: the decay rates of the means of the gradient and of its square.
        eps: added to the root.
        weight_decay: the fraction by which parameters shrink in each step, before it is multiplied by `lr`.
        amsgrad: use the largest mean square so far.
        maximize: go uphill: the gradient is taken with the other sign.

    Raises:
        ArgumentError: an option or a parameter is invalid; the message names it.

    Source: torch.optim.AdamW; I. Loshchilov and F. Hutter, "Decoupled weight decay regularization" (2017).

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad import optim, sync
        >>> w = ag.tensor([1.0], requires_grad=True)
        >>> optimizer = optim.AdamW([w], lr=0.5, weight_decay=0.2)
        >>> sync.backward((w * w).sum())
        >>> optimizer.step()
        >>> w.numpy()
        array([0.4])
    """

    def __init__(
        self,
        params: Tree,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize, True)
