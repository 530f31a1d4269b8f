"""What Adam's kin begin a step with: weight decay, and decaying means of the gradient and of its square."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .elementwise import as_scalars, factor_of_mean, move_mean, moved_mean
from .optimizer import Group

__all__ = ["decay_kinds", "fused_numbers", "moments_mover", "moved_moments"]


def decay_kinds(group: Group) -> tuple[bool, bool]:
    """Return whether the weight decay is added to the gradient, and whether it shrinks the parameters."""
    has_decay, is_decoupled = bool(group["weight_decay"]), bool(group["decoupled_weight_decay"])
    return has_decay and not is_decoupled, has_decay and is_decoupled


def moments_mover(like: Any, group: Group) -> Callable[[Any, Any, Any, Any, Any, Any], Any]:
    """Return a function that decays a parameter and moves both means, in place.

    It takes the parameter, its gradient, the means, and two arrays of any content; it returns the gradient with what
    the decay adds, which may lie in the second of these.
    """
    beta1, beta2 = group["betas"]
    adds_decay, shrinks = decay_kinds(group)
    l2, shrink, decay2, share2 = as_scalars(
        like, group["weight_decay"], 1 - group["lr"] * group["weight_decay"], beta2, 1 - beta2
    )
    multiply, add = np.multiply, np.add

    def move(param: Any, grad: Any, mean: Any, square: Any, buffer: Any, decayed: Any) -> Any:
        if shrinks:
            multiply(param, shrink, param)
        elif adds_decay:
            grad = add(multiply(param, l2, decayed), grad, decayed)
        move_mean(mean, grad, beta1, buffer)
        multiply(square, decay2, square)
        add(square, multiply(multiply(grad, grad, buffer), share2, buffer), square)
        return grad

    return move


def fused_numbers(group: Group) -> tuple[float, ...]:
    """Return the numbers that `moved_moments` takes."""
    beta1, beta2 = group["betas"]
    decay = group["weight_decay"]
    return decay, 1 - group["lr"] * decay, factor_of_mean(beta1), beta2, 1 - beta2


def moved_moments(
    kinds: tuple[bool, bool], is_slow: bool, param: Any, mean: Any, square: Any, grad: Any, *numbers: float
) -> tuple[Any, ...]:
    """Return what `moments_mover` makes of a parameter, the means and the gradient, in elementwise operations.

    Args:
        kinds: what `decay_kinds` returns.
        is_slow: whether the mean of gradients is a slow one: see `is_slow_mean`.
        param: the parameter.
        mean: the mean of gradients.
        square: the mean of their squares.
        grad: the gradient.
        *numbers: those of `fused_numbers`.
    """
    adds_decay, shrinks = kinds
    l2, shrink, factor, decay, share = numbers
    if shrinks:
        param = param * shrink
    elif adds_decay:
        grad = param * l2 + grad
    return param, moved_mean(mean, grad, factor, is_slow), square * decay + grad * grad * share, grad
