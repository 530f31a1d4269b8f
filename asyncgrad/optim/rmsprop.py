"""RMSprop."""

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
from .optimizer import Group, check_range

__all__ = ["RMSprop"]


@final
class RMSprop(ElementwiseOptimizer):
    """RMSprop: each element moves by its gradient over the root of a decaying mean of the squared gradients.

    Args:
        params: tensors, or groups of them.
        lr: the learning rate.
        alpha: the decay rate of the mean of squares.
        eps: added to the root.
        weight_decay: adds `weight_decay * p` to the gradient.
        momentum: the factor of the previous direction; 0 keeps none.
        centered: subtract the square of the mean gradient from the mean of squares: an estimate of the variance.
        maximize: go uphill: the gradient is taken with the other sign.

    Raises:
        ArgumentError: an option or a parameter is invalid; the message names it.

    Source: torch.optim.RMSprop; G. Hinton, "Neural networks for machine learning", lecture 6e (2012).

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad import optim, sync
        >>> w = ag.tensor([1.0, -200.0], requires_grad=True)
        >>> optimizer = optim.RMSprop([w], lr=0.5, alpha=0.75)
        >>> sync.backward((w * w).sum())
        >>> optimizer.step()
        >>> w.numpy().round(6)
        array([   0., -199.])
    """

    def __init__(
        self,
        params: Tree,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "alpha": alpha,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "centered": centered,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    @staticmethod
    def _check(group: Group) -> None:
        for name in ("lr", "alpha", "eps", "weight_decay", "momentum"):
            check_range(group, name)
        truth(group["centered"], "centered")

    def _new_state(self, param: Any, group: Group) -> dict[str, Any]:
        return {"step": 0, **{name: zeros_like(param, param.shape) for name in _state_names(group)}}

    def _updater(self, like: Any, group: Group) -> Update:
        is_complex, centered = like.dtype.kind == "c", group["centered"]
        momentum, has_l2 = bool(group["momentum"]), bool(group["weight_decay"])
        is_slow = is_slow_mean(group["alpha"])
        scratch = self._scratch(like.real if is_complex else like, 2)
        l2, decay, share, eps, factor, lr = as_scalars(
            like,
            group["weight_decay"],
            group["alpha"],
            1 - group["alpha"],
            group["eps"],
            group["momentum"],
            group["lr"],
        )
        names = _state_names(group)
        multiply, add, subtract, divide, sqrt = np.multiply, np.add, np.subtract, np.divide, np.sqrt

        def update(param: Any, grad: Any, state: dict[str, Any]) -> None:
            arrays = [state[name] for name in names]
            state["step"] += 1
            if is_complex:
                param, grad, *arrays = map(real_view, (param, grad, *arrays))
            square, *others = arrays
            buffer, decayed = scratch[param.shape]
            if has_l2:
                grad = add(multiply(param, l2, decayed), grad, decayed)
            multiply(square, decay, square)
            add(square, multiply(multiply(grad, grad, buffer), share, buffer), square)
            if centered:
                mean = others.pop()
                difference = subtract(grad, mean, buffer)
                if is_slow:
                    add(mean, multiply(difference, share, buffer), mean)
                else:
                    subtract(grad, multiply(difference, decay, buffer), mean)
                sqrt(subtract(square, multiply(mean, mean, buffer), buffer), buffer)
            else:
                sqrt(square, buffer)
            divide(grad, add(buffer, eps, buffer), buffer)
            if momentum:
                (direction,) = others
                add(multiply(direction, factor, direction), buffer, direction)
                multiply(direction, lr, buffer)
            else:
                multiply(buffer, lr, buffer)
            subtract(param, buffer, param)

        return update

    def _fused_update(self, param: Any, grad: Any, state: Mapping[str, Any], group: Group) -> FusedUpdate | None:
        names = _state_names(group)
        if state and not set(names) <= set(state):
            return None
        arrays = {name: state[name] if state else np.zeros_like(param) for name in names}
        decay = group["alpha"]
        numbers = (group["weight_decay"], decay, 1 - decay, group["eps"], group["momentum"], group["lr"])
        is_slow = is_slow_mean(decay)
        formula = _fused_formula(bool(group["weight_decay"]), bool(group["momentum"]), bool(group["centered"]), is_slow)
        new_state = {"step": state.get("step", 0) + 1, **arrays}
        return FusedUpdate(formula, (param, *arrays.values(), grad), 1 + len(names), numbers, new_state)


def _state_names(group: Group) -> list[str]:
    names = ["square_avg"]
    if group["momentum"]:
        names.append("momentum_buffer")
    if group["centered"]:
        names.append("grad_avg")
    return names


@cache
def _fused_formula(has_l2: bool, has_momentum: bool, centered: bool, is_slow: bool) -> Callable[..., tuple[Any, ...]]:
    """Return the update of one parameter as elementwise operations, in the order of `_updater`."""
    return _centered_formula(has_l2, has_momentum, is_slow) if centered else _plain_formula(has_l2, has_momentum)


def _plain_formula(has_l2: bool, has_momentum: bool) -> Callable[..., tuple[Any, ...]]:
    def plain(
        param: Any, square: Any, grad: Any, l2: float, decay: float, share: float, eps: float, factor: float, lr: float
    ) -> tuple[Any, ...]:
        if has_l2:
            grad = param * l2 + grad
        square = square * decay + grad * grad * share
        return param - grad / (np.sqrt(square) + eps) * lr, square

    def with_momentum(
        param: Any,
        square: Any,
        direction: Any,
        grad: Any,
        l2: float,
        decay: float,
        share: float,
        eps: float,
        factor: float,
        lr: float,
    ) -> tuple[Any, ...]:
        if has_l2:
            grad = param * l2 + grad
        square = square * decay + grad * grad * share
        direction = direction * factor + grad / (np.sqrt(square) + eps)
        return param - direction * lr, square, direction

    return with_momentum if has_momentum else plain


def _centered_formula(has_l2: bool, has_momentum: bool, is_slow: bool) -> Callable[..., tuple[Any, ...]]:
    def averaged(mean: Any, grad: Any, decay: float, share: float) -> Any:
        return mean + (grad - mean) * share if is_slow else grad - (grad - mean) * decay

    def with_mean(
        param: Any,
        square: Any,
        mean: Any,
        grad: Any,
        l2: float,
        decay: float,
        share: float,
        eps: float,
        factor: float,
        lr: float,
    ) -> tuple[Any, ...]:
        if has_l2:
            grad = param * l2 + grad
        square = square * decay + grad * grad * share
        mean = averaged(mean, grad, decay, share)
        return param - grad / (np.sqrt(square - mean * mean) + eps) * lr, square, mean

    def with_both(
        param: Any,
        square: Any,
        direction: Any,
        mean: Any,
        grad: Any,
        l2: float,
        decay: float,
        share: float,
        eps: float,
        factor: float,
        lr: float,
    ) -> tuple[Any, ...]:
        if has_l2:
            grad = param * l2 + grad
        square = square * decay + grad * grad * share
        mean = averaged(mean, grad, decay, share)
        direction = direction * factor + grad / (np.sqrt(square - mean * mean) + eps)
        return param - direction * lr, square, direction, mean

    return with_both if has_momentum else with_mean
