"""Adam, and Adam with decoupled weight decay."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from typing import Any, final

import numpy as np

from ..arguments import truth
from ..errors import ArgumentError
from ..graph.values import zeros_beside
from .optimizer import FusedUpdate, Group, Optimizer, check_range

__all__ = ["Adam", "AdamW"]


def _real(array: np.ndarray) -> np.ndarray:
    """Return a real array as it is, and a contiguous complex one as a view of its real and imaginary parts."""
    return array if array.dtype.kind != "c" else array.reshape(-1).view(array.real.dtype)


class _AdamFamily(Optimizer):
    """Abstract base of Adam and AdamW, which differ in the weight decay only."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
        amsgrad: bool,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad}
        super().__init__(params, defaults)

    @staticmethod
    def _check(group: Group) -> None:
        for name in ("lr", "eps", "weight_decay"):
            check_range(group, name)
        if not isinstance(group["betas"], (tuple, list)) or len(group["betas"]) != 2:
            raise ArgumentError(f"betas must be two numbers, such as (0.9, 0.999), not {group['betas']!r}")
        check_range({"betas": tuple(group["betas"])}, "betas", below=1)
        truth(group["amsgrad"], "amsgrad")

    def _fused_update(self, param: Any, grad: Any, state: Mapping[str, Any], group: Group) -> FusedUpdate | None:
        amsgrad = bool(group["amsgrad"])
        step = state.get("step", 0) + 1
        names = ["exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if amsgrad else [])]
        if state and not set(names) <= set(state):
            return None
        arrays = {name: state[name] if state else np.zeros_like(param) for name in names}
        l2, shrink = self._fused_decay(group)
        numbers = _fused_numbers(l2, shrink, *group["betas"], step, group["eps"], group["lr"])
        formula = _fused_formula(bool(l2), amsgrad)
        return FusedUpdate(formula, (param, *arrays.values(), grad), 1 + len(names), numbers, {"step": step, **arrays})

    @abstractmethod
    def _fused_decay(self, group: Group) -> tuple[float, float]:
        """Return what the weight decay adds to the gradient, in parameters, and the factor that they shrink by."""

    @abstractmethod
    def _decay(self, param: np.ndarray, grad: np.ndarray, buffer: np.ndarray, group: Group) -> np.ndarray:
        """Apply the weight decay; return the gradient to use, which may be in `buffer`."""

    def _update(self, param: np.ndarray, grad: np.ndarray, state: dict[str, Any], group: Group) -> None:
        if param.dtype.kind == "c":
            if not param.flags.c_contiguous:
                raise ArgumentError(f"{type(self).__name__} needs a complex parameter to be contiguous in memory")
            grad = np.ascontiguousarray(grad)
        if not state:
            state["step"] = 0
            for name in ("exp_avg", "exp_avg_sq", *(("max_exp_avg_sq",) if group["amsgrad"] else ())):
                state[name] = zeros_beside(param.shape, param)
        state["step"] += 1
        param, grad = _real(param), _real(grad)
        mean, square = _real(state["exp_avg"]), _real(state["exp_avg_sq"])
        buffer, decayed = self._buffers(param, 2)[:2]
        grad = self._decay(param, grad, decayed, group) if group["weight_decay"] else grad
        beta1, beta2 = group["betas"]

        np.subtract(grad, mean, out=buffer)
        buffer *= 1 - beta1
        mean += buffer
        square *= beta2
        np.multiply(grad, grad, out=buffer)
        buffer *= 1 - beta2
        square += buffer
        if group["amsgrad"]:
            largest = _real(state["max_exp_avg_sq"])
            square = np.maximum(largest, square, out=largest)
        np.sqrt(square, out=buffer)
        buffer /= math.sqrt(1 - beta2 ** state["step"])
        buffer += group["eps"]
        np.divide(mean, buffer, out=buffer)
        buffer *= group["lr"] / (1 - beta1 ** state["step"])
        param -= buffer


@lru_cache(8)
def _fused_numbers(
    l2: float, shrink: float, beta1: float, beta2: float, step: int, eps: float, lr: float
) -> tuple[float, ...]:
    """Return what the formula takes beside arrays, which all parameters have in common."""
    root, rate = math.sqrt(1 - beta2**step), lr / (1 - beta1**step)
    return l2, shrink, 1 - beta1, beta2, 1 - beta2, root, eps, rate


@cache
def _fused_formula(has_l2: bool, amsgrad: bool) -> Callable[..., tuple[Any, ...]]:
    """Return the update of one parameter as elementwise operations, in the order of `_update`."""

    def moved(param: Any, mean: Any, square: Any, root: float, eps: float, rate: float) -> Any:
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
        mean = mean + (grad - mean) * share
        square = square * beta2 + grad * grad * square_share
        return moved(param * shrink, mean, square, root, eps, rate), mean, square

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
        mean = mean + (grad - mean) * share
        square = square * beta2 + grad * grad * square_share
        largest = np.maximum(largest, square)
        return moved(param * shrink, mean, largest, root, eps, rate), mean, square, largest

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
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad)

    def _decay(self, param: np.ndarray, grad: np.ndarray, buffer: np.ndarray, group: Group) -> np.ndarray:
        np.multiply(param, group["weight_decay"], out=buffer)
        buffer += grad
        return buffer

    def _fused_decay(self, group: Group) -> tuple[float, float]:
        return group["weight_decay"], 1.0


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
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad)

    def _decay(self, param: np.ndarray, grad: np.ndarray, buffer: np.ndarray, group: Group) -> np.ndarray:
        param *= 1 - group["lr"] * group["weight_decay"]
        return grad

    def _fused_decay(self, group: Group) -> tuple[float, float]:
        return 0.0, 1.0 - group["lr"] * group["weight_decay"]
