"""Adafactor."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from ..core.arrays.values import zeros_like
from ..core.settings.arguments import number
from ..core.tensor import Tensor
from ..core.tree.structure import Tree
from ..errors import ArgumentError
from .elementwise import ElementwiseOptimizer, Update, move_mean
from .optimizer import Group, check_range

__all__ = ["Adafactor"]


@final
class Adafactor(ElementwiseOptimizer):
    """Adafactor: Adam without a mean gradient, whose mean squares of a matrix are kept by its rows and columns alone.

    A step is relative to the size of a parameter. Of a parameter of shape `(..., n, d)` the state has `(..., n, 1)`
    and `(..., 1, d)`; the mean square of an element is estimated by their product.

    Args:
        params: tensors, or groups of them.
        lr: the largest relative step, and what multiplies `weight_decay`.
        beta2_decay: the share of the newest square in step `n` is `n ** beta2_decay`.
        eps: the least root of a mean square, the dtype's own if it is None; and the least size of a parameter.
        d: moves whose root mean square is larger are shortened to it.
        weight_decay: the fraction by which parameters shrink in each step, before it is multiplied by `lr`.
        maximize: go uphill: the gradient is taken with the other sign.

    Raises:
        ArgumentError: an option or a parameter is invalid, such as one of complex numbers; the message names it.

    Source: torch.optim.Adafactor; N. Shazeer and M. Stern, "Adafactor: adaptive learning rates with sublinear memory
    cost" (2018).

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad import optim, sync
        >>> w = ag.tensor([[1.0, -200.0]], requires_grad=True)
        >>> optimizer = optim.Adafactor([w])
        >>> sync.backward((w * w).sum())
        >>> optimizer.step()
        >>> w.numpy().round(3)
        array([[  -0.414, -198.586]])
    """

    def __init__(
        self,
        params: Tree,
        lr: float = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    @staticmethod
    def _check(group: Group) -> None:
        for name in ("lr", "weight_decay"):
            check_range(group, name)
        if not number(group["beta2_decay"], "beta2_decay") <= 0:
            raise ArgumentError(f"beta2_decay must be at most 0, not {group['beta2_decay']}")
        if not number(group["d"], "d") >= 1:
            raise ArgumentError(f"d must be at least 1, not {group['d']}")
        eps = group["eps"]
        if not isinstance(eps, (tuple, list)) or len(eps) != 2:
            raise ArgumentError(f"eps must be a number or None, and a number, such as (None, 1e-3), not {eps!r}")
        check_range({"eps": (0.0 if eps[0] is None else eps[0], eps[1])}, "eps", several=True)

    @staticmethod
    def _check_param(name: str, param: Tensor) -> None:
        if param.dtype.kind == "c":
            raise ArgumentError(f"{name} has complex numbers, which Adafactor does not take: use Adam")

    def _state_shape(self, name: str, param: Tensor) -> tuple[int, ...]:
        return {"row_var": _rows(param.shape), "col_var": _columns(param.shape)}.get(name, param.shape)

    def _new_state(self, param: Any, group: Group) -> dict[str, Any]:
        return {"step": 0, **{name: zeros_like(param, self._state_shape(name, param)) for name in _mean_names(param)}}

    def _updater(self, like: Any, group: Group) -> Update:
        scratch = self._scratch(like, 2)
        lr, decay, (eps1, eps2) = group["lr"], group["weight_decay"], group["eps"]
        if eps1 is None:
            eps1 = float(np.finfo(like.dtype).eps)

        def update(param: Any, grad: Any, state: dict[str, Any]) -> None:
            means = [state[name] for name in _mean_names(param)]
            step = state["step"] = state["step"] + 1
            if not param.size:
                return
            buffer, move = scratch[param.shape]
            share = step ** group["beta2_decay"]
            rate = max(eps2, _root_mean_square(param, buffer)) * min(lr, 1 / math.sqrt(step))
            if decay:
                np.multiply(param, 1 - lr * decay, param)
            if param.ndim < 2:
                (variance,) = means
                np.multiply(grad, grad, move)
                move_mean(variance, move, 1 - share, buffer)
                move[...] = variance
            else:
                rows, columns = means
                for mean, axis in ((rows, -1), (columns, -2)):
                    move_mean(mean, _mean_square(grad, axis, buffer), 1 - share, np.empty_like(mean))
                np.multiply(rows, columns, move)
                np.divide(move, np.maximum(np.mean(rows, axis=-2, keepdims=True), eps1), move)
            np.divide(grad, np.sqrt(np.maximum(move, eps1 * eps1, out=move), move), move)
            excess = max(1.0, _root_mean_square(move, buffer) / group["d"])
            np.subtract(param, np.multiply(move, rate / excess, move), param)

        return update


def _mean_names(param: Any) -> tuple[str, ...]:
    """Return the names of the means of squares: of all numbers of a vector, of the rows and columns of matrices."""
    return ("variance",) if param.ndim < 2 else ("row_var", "col_var")


def _rows(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:-1], 1)


def _columns(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:-2], 1, *shape[-1:])


def _mean_square(array: Any, axis: int | None, buffer: Any) -> Any:
    """Return the mean of squares, with its axis; `buffer` is overwritten."""
    if array.dtype == np.float16:
        # Squares of numbers above 255 would be infinite.
        wide = array.astype(np.float32)
        return np.mean(wide * wide, axis=axis, keepdims=True)
    return np.mean(np.multiply(array, array, buffer), axis=axis, keepdims=True)


def _root_mean_square(array: Any, buffer: Any) -> float:
    return math.sqrt(float(_mean_square(array, None, buffer).reshape(())))
