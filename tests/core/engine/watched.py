"""Tensors with hooks, captures and kept gradients, beside a naive model of all that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import asyncgrad as ag
from tests.support import oracle

__all__ = ["ModelOperation", "Watched"]


class ModelOperation(NamedTuple):
    """One operation: its name, and which values it takes and gives."""

    name: str
    operands: tuple[int, ...]
    outputs: tuple[int, ...]


class Watched:
    """A graph that grows; the hooks on it multiply gradients, and the model knows by what.

    The model keeps values and hooks as lists, and computes everything anew whenever it is asked.
    """

    def __init__(self, rules: dict[str, Any]) -> None:
        #: From the name of an operation to what the oracle has for it.
        self.rules = rules
        self.tensors: list[ag.Tensor] = []
        self.operations: list[ModelOperation] = []
        self.data: dict[int, np.ndarray] = {}
        #: By value, the factors of its tensor hooks, in order; by operation, those of its node's hooks.
        self.tensor_hooks: dict[int, list[float]] = {}
        self.pre_hooks: dict[int, list[float]] = {}
        self.post_hooks: dict[int, list[float]] = {}
        self.retained: set[int] = set()
        #: What the gradients are by the model; none where there is no entry.
        self.grads: dict[int, np.ndarray] = {}

    def add_leaf(self, tensor: ag.Tensor) -> int:
        index = len(self.tensors)
        self.tensors.append(tensor)
        self.data[index] = tensor.numpy().copy()
        if tensor.grad is not None:
            self.grads[index] = tensor.grad.numpy().copy()
        return index

    def add(self, name: str, operands: Sequence[int], results: Sequence[Any]) -> tuple[int, ...]:
        outputs = tuple(range(len(self.tensors), len(self.tensors) + len(results)))
        self.tensors.extend(results)
        self.operations.append(ModelOperation(name, tuple(operands), outputs))
        return outputs

    def maker(self, index: int) -> int | None:
        """Which operation made a value; None for a leaf."""
        return next((nr for nr, each in enumerate(self.operations) if index in each.outputs), None)

    def is_below(self, index: int, node: int) -> bool:
        """Tell whether gradients flow from operation `node` to the node of value `index`, which is another one."""
        maker = self.maker(index)
        for operand in self.operations[node].operands:
            above = self.maker(operand)
            if not self.tensors[operand].requires_grad:
                continue
            if operand == index or (above is not None and (above == maker or self.is_below(index, above))):
                return True
        return False

    def found(self, roots: Sequence[int], grads: Sequence[np.ndarray]) -> tuple[list[Any], list[Any]]:
        """Return the gradient of each value before its tensor hooks, and after them; None where it is undefined."""
        raw: list[oracle.Var] = []
        hooked: list[oracle.Var] = []
        makers = {each.outputs[0]: nr for nr, each in enumerate(self.operations)}
        for index in range(len(self.tensors)):
            if index in self.data:
                made = [oracle.Var(self.data[index])]
            elif index in makers:
                nr = makers[index]
                name, operands, _ = self.operations[nr]
                sources = [
                    oracle.scaled_on_the_way_back(raw[operand], self.post_hooks.get(nr, ())) for operand in operands
                ]
                made = [
                    oracle.scaled_on_the_way_back(result, self.pre_hooks.get(nr, ()))
                    for result in self.rules[name](*sources)
                ]
            else:
                continue
            for output, value in enumerate(made, index):
                hooked.append(value)
                raw.append(oracle.scaled_on_the_way_back(value, self.tensor_hooks.get(output, ())))
        arrived = oracle.backward([raw[root] for root in roots], [oracle.Var(grad) for grad in grads])
        return [_array(arrived.get(each)) for each in raw], [_array(arrived.get(each)) for each in hooked]

    def expect_backward(
        self, roots: Sequence[int], grads: Sequence[np.ndarray], inputs: Sequence[int] | None = None
    ) -> None:
        """Let the model accumulate; `inputs` limits that, and has their gradients kept from now on."""
        if inputs is not None:
            self.retained.update(index for index in inputs if index not in self.data)
        for index, grad in enumerate(self.found(roots, grads)[1]):
            if grad is None:
                continue
            if index in self.data:
                is_kept = inputs is None or index in inputs
            else:
                is_kept = index in self.retained and (inputs is None or self._is_seen(index, roots, inputs))
            if is_kept:
                self.accumulate(index, grad)

    def _is_seen(self, index: int, roots: Sequence[int], inputs: Sequence[int]) -> bool:
        """Tell whether a backward that is limited to `inputs` comes by the node that made a value."""
        maker = self.maker(index)
        if maker is None:
            return False
        if len(roots) == 1 and maker == self.maker(roots[0]):
            # PyTorch runs the hooks of a lone root even where no path leads on from it.
            return True
        return any(self.maker(each) == maker or self.is_below(each, maker) for each in inputs)

    def accumulate(self, index: int, grad: Any) -> None:
        before = self.grads.get(index)
        self.grads[index] = grad if before is None else before + grad

    def expect_grad(self, roots: Sequence[int], grads: Sequence[np.ndarray], inputs: Sequence[int]) -> list[Any]:
        """Return what a `grad` captures, and let the model accumulate what is kept on its way."""
        raw, hooked = self.found(roots, grads)
        captured = []
        for index in inputs:
            maker = self.maker(index)
            needed = maker is not None and any(self.is_below(other, maker) for other in inputs)
            captured.append(raw[index] if needed else hooked[index])
        for index in self.retained:
            if hooked[index] is not None and self._is_seen(index, roots, inputs):
                self.accumulate(index, hooked[index])
        return captured

    def actual(self) -> list[Any]:
        """Return the gradients that the tensors have."""
        return [None if tensor.grad is None else tensor.grad.tolist() for tensor in self.tensors]

    def expected(self) -> list[Any]:
        """Return the gradients that they have by the model."""
        return [None if index not in self.grads else self.grads[index].tolist() for index in range(len(self.tensors))]


def _array(grad: Any) -> Any:
    return None if grad is None else grad.value
