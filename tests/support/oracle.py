"""A reverse mode too naive to be wrong: no schedule, no ownership, no pruning, recursion all the way.

Its derivatives are written in its own operations, so they differentiate again. The tests hold the engine to it
bit for bit, on data that are whole numbers, whose sums do not depend on their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

#: From the gradients of an operation's outputs to those of its inputs; None where there is none.
Rule = Callable[[list[Any]], list[Any]]


class Operation:
    """One step of the forward: what it was computed from, and how gradients go back through it."""

    def __init__(self, inputs: Sequence[Var], rule: Rule, values: Sequence[np.ndarray], zeros_for_none: bool) -> None:
        self.inputs = inputs
        self.rule = rule
        self.zeros_for_none = zeros_for_none
        self.outputs = [Var(value, self) for value in values]

    def gradients(self, grads: list[Var | None]) -> list[Var | None]:
        if self.zeros_for_none:
            grads = [grad or Var(np.zeros_like(out.value)) for out, grad in zip(self.outputs, grads, strict=True)]
        elif not any(grads):
            return [None] * len(self.inputs)
        pairs = zip(self.rule(grads), self.inputs, strict=True)
        return [grad and sum_to(grad, source.value.shape) for grad, source in pairs]


class Var:
    """An array and the operation that made it."""

    def __init__(self, value: Any, operation: Operation | None = None) -> None:
        self.value = np.asarray(value)
        self.operation = operation


def apply(inputs: Sequence[Var], rule: Rule, *values: Any, zeros_for_none: bool = False) -> list[Var]:
    return Operation(inputs, rule, values, zeros_for_none).outputs


def add(x: Var, y: Var) -> Var:
    return apply([x, y], lambda g: [g[0], g[0]], x.value + y.value)[0]


def subtract(x: Var, y: Var) -> Var:
    return apply([x, y], lambda g: [g[0], multiply(g[0], Var(-1.0))], x.value - y.value)[0]


def multiply(x: Var, y: Var) -> Var:
    return apply([x, y], lambda g: [multiply(g[0], y), multiply(g[0], x)], x.value * y.value)[0]


def sum_to(x: Var, shape: tuple[int, ...]) -> Var:
    if x.value.shape == shape:
        return x
    extra = x.value.ndim - len(shape)
    axes = (*range(extra), *(extra + axis for axis, size in enumerate(shape) if size != x.value.shape[extra + axis]))
    total = x.value.sum(axis=axes).reshape(shape)
    return apply([x], lambda g: [broadcast_to(g[0], x.value.shape)], total)[0]


def broadcast_to(x: Var, shape: tuple[int, ...]) -> Var:
    return apply([x], lambda g: [g[0]], np.broadcast_to(x.value, shape))[0]


def scaled_on_the_way_back(x: Var, factors: Sequence[float]) -> Var:
    """Return x, whose gradient is multiplied by each factor: what hooks do that return a multiple of what they get."""
    for factor in factors:
        x = apply([x], lambda g, factor=factor: [multiply(g[0], Var(factor))], x.value)[0]  # type: ignore[misc]
    return x


def backward(roots: Sequence[Var], grads: Sequence[Var]) -> dict[Var, Var | None]:
    """Return the gradient of everything that the roots were computed from; None where it is undefined."""
    found: dict[Var, Var | None] = {}

    def arrive(source: Var, grad: Var | None) -> None:
        before = found.get(source)
        found[source] = add(before, grad) if before and grad else before or grad

    for root, grad in zip(roots, grads, strict=True):
        arrive(root, grad)
    for operation in operations(roots):
        outgoing = operation.gradients([found.get(output) for output in operation.outputs])
        for source, gradient in zip(operation.inputs, outgoing, strict=True):
            arrive(source, gradient)
    return found


def operations(roots: Sequence[Var]) -> list[Operation]:
    """Return all operations that the roots come from, each before those that it comes from."""
    order: dict[Operation, None] = {}

    def visit(operation: Operation | None) -> None:
        if operation is not None and operation not in order:
            for source in operation.inputs:
                visit(source.operation)
            order[operation] = None

    for root in roots:
        visit(root.operation)
    return list(reversed(order))
