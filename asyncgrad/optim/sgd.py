"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

import numpy as np

from ..arguments import number, truth
from ..errors import ArgumentError
from .optimizer import Group, Optimizer, check_range

__all__ = ["SGD"]


@final
class SGD(Optimizer):
    """Stochastic gradient descent, optionally with momentum: `v = momentum * v + g`, then `p -= lr * v`.

    Args:
        params: tensors, or groups of them.
        lr: the learning rate.
        momentum: the factor of the previous direction `v`.
        dampening: the fraction of the gradient that is not added to the direction.
        weight_decay: adds `weight_decay * p` to the gradient.
        nesterov: step along `g + momentum * v`; needs a momentum, and no dampening.

    Raises:
        ArgumentError: an option or a parameter is invalid; the message names it.

    Source: torch.optim.SGD.

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad import optim, sync
        >>> w = ag.tensor([1.0, 2.0], requires_grad=True)
        >>> optimizer = optim.SGD([w], lr=0.5)
        >>> sync.backward((w * w).sum())
        >>> optimizer.step()
        >>> w.numpy()
        array([0., 0.])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
        }
        super().__init__(params, defaults)

    @staticmethod
    def _check(group: Group) -> None:
        for name in ("lr", "momentum", "weight_decay"):
            check_range(group, name)
        number(group["dampening"], "dampening")
        if truth(group["nesterov"], "nesterov") and (not group["momentum"] or group["dampening"]):
            raise ArgumentError(
                f"nesterov=True needs a momentum and no dampening, not momentum={group['momentum']} and "
                f"dampening={group['dampening']}"
            )

    def _update(self, param: np.ndarray, grad: np.ndarray, state: dict[str, Any], group: Group) -> None:
        first, second = self._buffers(param, 2)[:2]
        if group["weight_decay"]:
            np.multiply(param, group["weight_decay"], out=first)
            grad = np.add(grad, first, out=first)
        if group["momentum"]:
            direction = state.get("momentum_buffer")
            if direction is None:
                direction = state["momentum_buffer"] = grad.copy(order="K")
            else:
                direction *= group["momentum"]
                direction += np.multiply(grad, 1 - group["dampening"], out=second) if group["dampening"] else grad
            if group["nesterov"]:
                np.multiply(direction, group["momentum"], out=second)
                grad = np.add(grad, second, out=second)
            else:
                grad = direction
        param -= np.multiply(grad, group["lr"], out=first)
