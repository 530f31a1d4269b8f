"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, final

import numpy as np

from ..core.graph.saved_hooks import begin_writes
from ..core.settings.arguments import number, truth
from ..core.tree.structure import Tree
from ..errors import ArgumentError
from .blas import LEAST, add_multiple, find_axpy
from .elementwise import ElementwiseOptimizer, Update, as_scalars
from .fused import FusedUpdate
from .optimizer import Entries, Group, check_range

__all__ = ["SGD"]


@final
class SGD(ElementwiseOptimizer):
    """Stochastic gradient descent, optionally with momentum: `v = momentum * v + g`, then `p -= lr * v`.

    Args:
        params: tensors, or groups of them.
        lr: the learning rate.
        momentum: the factor of the previous direction `v`.
        dampening: the fraction of the gradient that is not added to the direction.
        weight_decay: adds `weight_decay * p` to the gradient.
        nesterov: step along `g + momentum * v`; needs a momentum, and no dampening.
        maximize: go uphill: the gradient is taken with the other sign.

    Raises:
        ArgumentError: an option or a parameter is invalid; the message names it.

    Without momentum and decay, parameters of 1,024 elements or more are updated by BLAS where SciPy is installed. That
    may round once where NumPy rounds twice.

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
        params: Tree,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        maximize: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
        }
        super().__init__(params, defaults)
        if not (momentum or weight_decay) and any(param.size >= LEAST for param in self._params()):
            # Here, since an import is no part of a training step.
            find_axpy(np.dtype(np.float32))

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

    def _updater(self, like: Any, group: Group) -> Update:
        momentum, has_dampening, nesterov = group["momentum"], bool(group["dampening"]), group["nesterov"]
        has_l2 = bool(group["weight_decay"])
        if not momentum and not has_l2:
            descend = self._descent(like, group["lr"])
            return lambda param, grad, state: descend(param, grad)
        scratch = self._scratch(like, 2)
        lr, l2, factor, share = as_scalars(like, group["lr"], group["weight_decay"], momentum, 1.0 - group["dampening"])
        multiply, add, subtract = np.multiply, np.add, np.subtract

        def update(param: Any, grad: Any, state: dict[str, Any]) -> None:
            first, second = scratch[param.shape]
            if has_l2:
                multiply(param, l2, first)
                grad = add(grad, first, first)
            if momentum:
                direction = state.get("momentum_buffer")
                if direction is None:
                    direction = state["momentum_buffer"] = grad.copy(order="K")
                else:
                    multiply(direction, factor, direction)
                    add(direction, multiply(grad, share, second) if has_dampening else grad, direction)
                if nesterov:
                    multiply(direction, factor, second)
                    grad = add(grad, second, second)
                else:
                    grad = direction
            subtract(param, multiply(grad, lr, first), param)

        return update

    def _update_without_state(self, group: Group, entries: Entries) -> bool:
        if group["momentum"] or group["weight_decay"]:
            return False
        begin_writes([param for param, _ in entries])
        rate = -group["lr"] if group["maximize"] else group["lr"]
        kind, dtype, device = None, None, None
        for param, grad in entries:
            data = param._data
            if data.dtype is not dtype or param._device is not device or type(data) is not kind:
                kind, dtype, device = type(data), data.dtype, param._device
                self._device = device
                descend = self._descent(data, rate)
            descend(data, grad)
        return True

    def _descent(self, like: Any, rate: float) -> Callable[[Any, Any], None]:
        """Return what subtracts `rate` times a gradient from a parameter, in place."""
        scratch = self._scratch(like, 1)
        (lr,) = as_scalars(like, rate)
        # Where the rate is 0, BLAS does not look at the gradient, which may be NaN.
        axpy = find_axpy(like.dtype) if type(like) is np.ndarray and rate else None
        multiply, subtract = np.multiply, np.subtract

        def descend(param: Any, grad: Any) -> None:
            if axpy is not None and param.size >= LEAST and param.flags.carray:
                add_multiple(axpy, param, grad, -rate)
            else:
                (product,) = scratch[param.shape]
                subtract(param, multiply(grad, lr, product), param)

        return descend

    def _has_bits_of_formula(self, group: Group) -> bool:
        # BLAS rounds otherwise.
        is_plain = not group["momentum"] and not group["weight_decay"] and group["lr"]
        return not is_plain or all(one.size < LEAST or find_axpy(one.dtype) is None for one in group["params"])

    def _fused_update(self, param: Any, grad: Any, state: Mapping[str, Any], group: Group) -> FusedUpdate | None:
        l2, momentum = group["weight_decay"], group["momentum"]
        if not momentum:
            return FusedUpdate(_fused_formula(bool(l2)), (param, grad), 1, (l2, group["lr"]), {})
        direction = state.get("momentum_buffer")
        is_first = direction is None
        if is_first:
            direction = np.empty_like(param)
        formula = _fused_momentum_formula(bool(l2), is_first, bool(group["nesterov"]))
        numbers = (l2, momentum, 1.0 - group["dampening"], group["lr"])
        return FusedUpdate(formula, (param, direction, grad), 2, numbers, {"momentum_buffer": direction})


@cache
def _fused_formula(has_l2: bool) -> Callable[..., tuple[Any, ...]]:
    """Return the update of one parameter as elementwise operations."""

    def sgd(param: Any, grad: Any, l2: float, lr: float) -> tuple[Any, ...]:
        if has_l2:
            grad = grad + param * l2
        return (param - grad * lr,)

    return sgd


@cache
def _fused_momentum_formula(has_l2: bool, is_first: bool, nesterov: bool) -> Callable[..., tuple[Any, ...]]:
    """Return the update of one parameter with momentum as elementwise operations, in the order of `_update`."""

    def sgd_momentum(
        param: Any, direction: Any, grad: Any, l2: float, momentum: float, share: float, lr: float
    ) -> tuple[Any, ...]:
        if has_l2:
            grad = grad + param * l2
        direction = grad if is_first else direction * momentum + grad * share
        step = grad + direction * momentum if nesterov else direction
        return param - step * lr, direction

    return sgd_momentum
