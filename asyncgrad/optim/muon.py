"""Muon."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from ..core.arrays.values import zeros_like
from ..core.settings.arguments import number, truth, whole_number
from ..core.tensor import Tensor
from ..core.tree.structure import Tree
from ..errors import ArgumentError
from .elementwise import ElementwiseOptimizer, Update, factor_of_mean, is_slow_mean, move_mean, moved_mean
from .optimizer import Group, check_range

__all__ = ["Muon"]

#: How a rate may depend on the shape of a parameter.
_ADJUSTMENTS = (None, "original", "match_rms_adamw")


@final
class Muon(ElementwiseOptimizer):
    """Muon: each matrix moves by the orthogonal matrix that is nearest to its mean gradient, about.

    It is for the matrices of hidden layers: give embeddings, biases and other parameters to an AdamW.

    Args:
        params: matrices, or groups of them.
        lr: the learning rate.
        weight_decay: the fraction by which parameters shrink in each step, before it is multiplied by `lr`.
        momentum: the decay rate of the mean gradient.
        nesterov: move by the mean of the gradient and of the mean gradient.
        ns_coefficients: those of `x`, `x ** 3` and `x ** 5` in the Newton-Schulz iteration, which brings all singular
            values near 1.
        eps: the least norm that a gradient is divided by.
        ns_steps: how often it is iterated, below 100.
        adjust_lr_fn: how the rate of a matrix of shape `(n, d)` depends on that: "original", or None, multiplies by
            `sqrt(max(1, n / d))`, "match_rms_adamw" by `0.2 * sqrt(max(n, d))`, for rates as AdamW's.

    The iteration has the precision of the parameters, at least float32; PyTorch's has bfloat16.

    Raises:
        ArgumentError: an option is invalid, or a parameter is no matrix of real numbers; the message names it.

    Source: torch.optim.Muon; K. Jordan, "Muon: an optimizer for hidden layers in neural networks" (2024).

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> from asyncgrad import optim, sync
        >>> w = ag.tensor([[3.0, 0.0], [0.0, -200.0]], requires_grad=True)
        >>> optimizer = optim.Muon([w], lr=1.0, weight_decay=0.0)
        >>> sync.backward((w * w).sum())
        >>> optimizer.step()
        >>> w.numpy().round(1)
        array([[   2.1,    0. ],
               [   0. , -199.3]])
    """

    def __init__(
        self,
        params: Tree,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)

    @staticmethod
    def _check(group: Group) -> None:
        for name in ("lr", "weight_decay", "momentum"):
            check_range(group, name)
        number(group["eps"], "eps")
        truth(group["nesterov"], "nesterov")
        if whole_number(group["ns_steps"], "ns_steps") >= 100:
            raise ArgumentError(f"ns_steps must be below 100, not {group['ns_steps']}")
        coefficients = group["ns_coefficients"]
        if not isinstance(coefficients, (tuple, list)) or len(coefficients) != 3:
            raise ArgumentError(f"ns_coefficients must be three numbers, not {coefficients!r}")
        for one in coefficients:
            number(one, "ns_coefficients")
        if group["adjust_lr_fn"] not in _ADJUSTMENTS:
            raise ArgumentError(
                f"adjust_lr_fn must be 'original', 'match_rms_adamw' or None, not {group['adjust_lr_fn']!r}"
            )

    @staticmethod
    def _check_param(name: str, param: Tensor) -> None:
        if param.ndim != 2 or param.dtype.kind == "c":
            kind = "complex numbers" if param.dtype.kind == "c" else f"shape {param.shape}"
            raise ArgumentError(f"{name} has {kind}, but Muon takes matrices of real numbers alone: use AdamW for it")

    def _new_state(self, param: Any, group: Group) -> dict[str, Any]:
        return {"momentum_buffer": zeros_like(param, param.shape)}

    def _updater(self, like: Any, group: Group) -> Update:
        scratch = self._scratch(like, 1)
        lr, momentum = group["lr"], group["momentum"]

        def update(param: Any, grad: Any, state: dict[str, Any]) -> None:
            mean = state["momentum_buffer"]
            (buffer,) = scratch[param.shape]
            move_mean(mean, grad, momentum, buffer)
            direction = mean
            if group["nesterov"]:
                # The share of the gradient is what that of the old mean was.
                direction = moved_mean(grad, mean, factor_of_mean(1 - momentum), is_slow_mean(1 - momentum))
            move = _orthogonalized(direction, group)
            rate = _rate(lr, group["adjust_lr_fn"], param.shape)
            np.multiply(param, 1 - lr * group["weight_decay"], param)
            np.subtract(param, np.multiply(move, rate, buffer, casting="same_kind"), param)

        return update


def _orthogonalized(matrix: Any, group: Group) -> Any:
    """Return a matrix with the singular vectors of the given one, whose singular values are about 1."""
    first, third, fifth = group["ns_coefficients"]
    if matrix.dtype == np.float16:
        matrix = matrix.astype(np.float32)
    is_tall = matrix.shape[0] > matrix.shape[1]
    found = matrix.T if is_tall else matrix
    found = found / np.maximum(np.sqrt(np.sum(found * found)), group["eps"])
    for _ in range(group["ns_steps"]):
        gram = found @ found.T
        found = found * first + (gram * third + gram @ gram * fifth) @ found
    return found.T if is_tall else found


def _rate(lr: float, adjustment: str | None, shape: tuple[int, ...]) -> float:
    rows, columns = shape
    if adjustment == "match_rms_adamw":
        return lr * 0.2 * math.sqrt(max(rows, columns))
    return lr * math.sqrt(max(1, rows / columns)) if columns else lr
