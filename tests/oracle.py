"""A reverse mode too naive to be wrong: no schedule, no ownership, no pruning, recursion all the way.

Its derivatives are written in its own operations, so they differentiate again. The tests hold the engine to it
bit for bit, on data that are whole numbers, whose sums do not depend on their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

#: From the gradients of an operation's outputs to those of its inputs; None where there is none.
Rule = Callable[[list["Var | None"]], list["Var | None"]]


class Operation:
    """One step of the forward: what it was computed from, and how gradients go back through it."""

    def __init__(self, inputs: Sequence[Var], rule: Rule, values: Sequence[np.ndarray], zeros_for_none: bool) -> None:
        self.inputs = inputs
        self.rule = rule
        self.zeros_for_none = zeros_for_none
        self.outputs = [Var(value, self) for value in values]

    def gradients(self, grads: list[Var | None]) -> list[Var | None]:
        if self.zeros_for_none:
            grads = [
                Var(np.zeros_like(out.value)) if grad is None else grad
                for out, grad in zip(self.outputs, grads, strict=True)
            ]
        elif all(grad is None for grad in grads):
            return [None] * len(self.inputs)
        return [
            None if grad is None else sum_to(grad, source.value.shape)
            for grad, source in zip(self.rule(grads), self.inputs, strict=True)
        ]


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
    return apply([x, y], lambda g: [g[0], multiply(only(g), Var(-1.0))], x.value - y.value)[0]


def multiply(x: Var, y: Var) -> Var:
    return apply([x, y], lambda g: [multiply(only(g), y), multiply(only(g), x)], x.value * y.value)[0]


def sum_to(x: Var, shape: tuple[int, ...]) -> Var:
    if x.value.shape == shape:
        return x
    extra = x.value.ndim - len(shape)
    axes = (*range(extra), *(extra + axis for axis, size in enumerate(shape) if size != x.value.shape[extra + axis]))
    total = x.value.sum(axis=axes).reshape(shape)
    return apply([x], lambda g: [broadcast_to(only(g), x.value.shape)], total)[0]


def broadcast_to(x: Var, shape: tuple[int, ...]) -> Var:
    return apply([x], lambda g: [only(g)], np.broadcast_to(x.value, shape))[0]


def only(grads: list[Var | None]) -> Var:
    (grad,) = grads
    assert grad is not None
    return grad


def backward(roots: Sequence[Var], grads: Sequence[Var]) -> dict[Var, Var | None]:
    """Return the gradient of everything that the roots were computed from; None where it is undefined."""
    found: dict[Var, Var | None] = {}
    for root, grad in zip(roots, grads, strict=True):
        found[root] = add(found[root], grad) if root in found else grad  # type: ignore[arg-type]
    for operation in reversed(operations(roots)):
        for source, grad in zip(
            operation.inputs, operation.gradients([found.get(output) for output in operation.outputs]), strict=True
        ):
            before = found.get(source)
            found[source] = grad if before is None else before if grad is None else add(before, grad)
    return found


def operations(roots: Sequence[Var]) -> list[Operation]:
    """Return all operations that the roots come from, each after those that it comes from."""
    order: dict[Operation, None] = {}

    def visit(operation: Operation | None) -> None:
        if operation is not None and operation not in order:
            for source in operation.inputs:
                visit(source.operation)
            order[operation] = None

    for root in roots:
        visit(root.operation)
    return list(order)
