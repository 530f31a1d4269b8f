"""Optimizers of nested containers, by the names of `autograd.misc.optimizers`; `ag.optim` has more."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .flatten import flatten

__all__ = ["adam", "rmsprop", "sgd", "unflatten_optimizer"]

Gradient = Callable[[Any, int], Any]
Callback = Callable[[Any, int, Any], object]
#: From (the number of the step, the gradient) to what is added to the parameters.
Rule = Callable[[int, Any], Any]


def unflatten_optimizer(optimize: Callable[..., Any]) -> Callable[..., Any]:
    """Return an optimizer of nested containers, made of one of vectors.

    Args:
        optimize: called as `optimize(grad, x0, callback, ...)` with a vector `x0`, and a gradient that is one; it
            returns a vector.

    Source: autograd.misc.optimizers.unflatten_optimizer.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.hips.misc.optimizers import unflatten_optimizer
        >>> @unflatten_optimizer
        ... def one_step(grad, x, callback=None):
        ...     return x - 0.5 * grad(x, 0)
        >>> one_step(lambda x, i: {"a": 2 * x["a"]}, {"a": np.array([3.0])})
        {'a': array([0.])}
    """

    @functools.wraps(optimize)
    def of_containers(grad: Gradient, x0: Any, callback: Callback | None = None, *args: Any, **kwargs: Any) -> Any:
        start, unflatten = flatten(x0)

        def of_vector(x: Any, step: int) -> Any:
            return flatten(grad(unflatten(x), step))[0]

        def told(x: Any, step: int, g: Any) -> None:
            if callback is not None:
                callback(unflatten(x), step, unflatten(g))

        return unflatten(optimize(of_vector, start, None if callback is None else told, *args, **kwargs))

    return of_containers


@unflatten_optimizer
def _minimize(grad: Gradient, x: Any, callback: Callback | None, num_iters: int, rule: Rule) -> Any:
    for step in range(num_iters):
        g = grad(x, step)
        if callback is not None:
            callback(x, step, g)
        x = x + rule(step, g)
    return x


def sgd(
    grad: Gradient,
    x0: Any,
    callback: Callback | None = None,
    num_iters: int = 200,
    step_size: float = 0.1,
    mass: float = 0.9,
) -> Any:
    """Return where gradient descent with momentum ends.

    Args:
        grad: a function of the parameters and the number of the step, which returns a gradient.
        x0: the parameters at the start: dicts, lists and tuples of arrays and numbers.
        callback: called with the parameters, the number of the step and the gradient before each step.
        num_iters: the number of steps.
        step_size: the length of a step.
        mass: how much of the velocity each step keeps.

    Source: autograd.misc.optimizers.sgd.

    Example:
        >>> from asyncgrad.hips.misc.optimizers import sgd
        >>> round(float(sgd(lambda x, i: 2 * x, 1.0)), 3)
        0.0
    """
    velocity: Any = 0.0

    def rule(_: int, g: Any) -> Any:
        nonlocal velocity
        velocity = mass * velocity - (1 - mass) * g
        return step_size * velocity

    return _minimize(grad, x0, callback, num_iters, rule)


def rmsprop(
    grad: Gradient,
    x0: Any,
    callback: Callback | None = None,
    num_iters: int = 100,
    step_size: float = 0.1,
    gamma: float = 0.9,
    eps: float = 1e-8,
) -> Any:
    """Return where steps end that are divided by a running root mean square of the gradient.

    Args:
        grad: as for `sgd`.
        x0: as for `sgd`.
        callback: as for `sgd`.
        num_iters: as for `sgd`.
        step_size: as for `sgd`.
        gamma: how much of the mean square each step keeps.
        eps: added to the root.

    Source: autograd.misc.optimizers.rmsprop.

    Example:
        >>> from asyncgrad.hips.misc.optimizers import rmsprop
        >>> abs(float(rmsprop(lambda x, i: 2 * x, 1.0))) < 0.1
        True
    """
    square: Any = 1.0

    def rule(_: int, g: Any) -> Any:
        nonlocal square
        square = gamma * square + (1 - gamma) * g**2
        return -step_size * g / (np.sqrt(square) + eps)

    return _minimize(grad, x0, callback, num_iters, rule)


def adam(
    grad: Gradient,
    x0: Any,
    callback: Callback | None = None,
    num_iters: int = 100,
    step_size: float = 0.001,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
) -> Any:
    """Return where the steps of Adam end.

    Args:
        grad: as for `sgd`.
        x0: as for `sgd`.
        callback: as for `sgd`.
        num_iters: as for `sgd`.
        step_size: as for `sgd`.
        b1: how much of the mean gradient each step keeps.
        b2: how much of the mean square each step keeps.
        eps: added to the root of the mean square.

    Source: autograd.misc.optimizers.adam.

    Example:
        >>> from asyncgrad.hips.misc.optimizers import adam
        >>> round(float(adam(lambda x, i: 2 * x, 1.0, num_iters=10, step_size=0.1)), 2)
        0.07
    """
    mean: Any = 0.0
    square: Any = 0.0

    def rule(step: int, g: Any) -> Any:
        nonlocal mean, square
        mean = b1 * mean + (1 - b1) * g
        square = b2 * square + (1 - b2) * g**2
        corrected, corrected_square = mean / (1 - b1 ** (step + 1)), square / (1 - b2 ** (step + 1))
        return -step_size * corrected / (np.sqrt(corrected_square) + eps)

    return _minimize(grad, x0, callback, num_iters, rule)
