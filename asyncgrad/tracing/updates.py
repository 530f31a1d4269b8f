"""The update of an optimizer as a part of a program: formulas of parameters, states and gradients, and their numbers.

Rates and other numbers that change from step to step are arguments of the program; which formula a parameter has is a
part of the key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from ..core.arrays.values import as_array
from ..core.tensor import Tensor
from ..optim.elementwise import ElementwiseOptimizer, NewValues
from ..optim.optimizer import Group, Optimizer
from .trace import Untraceable

__all__ = ["Formula", "Update", "parameters_of", "update_of"]


@final
class _NoFormulaError(Exception):
    """The update of an optimizer is no formula."""


class Formula(NamedTuple):
    """How one parameter is updated."""

    #: A function of the array, its state, its gradient and numbers, which returns new values of the first ones.
    function: Callable[..., tuple[Any, ...]]
    #: The names of the arrays of its state.
    names: tuple[str, ...]
    #: Whether the optimizer has no state of it yet.
    is_fresh: bool
    #: Whether the gradient is taken with the other sign.
    maximize: bool
    #: Where its state begins among the others that the program takes.
    state: int
    #: Where its numbers begin and end.
    numbers: tuple[int, int]

    def __repr__(self) -> str:
        return f"<update with {', '.join(self.names) or 'no state'}>"

    def new_values(self, array: Any, grad: Any, others: Sequence[Any]) -> list[Any]:
        """Return the new values of an array and its state; None for each where there is no gradient.

        Raises:
            Untraceable: it has no state yet, or a new value would lie otherwise in memory than the old one.
        """
        if grad is None:
            return [None] * (1 + len(self.names))
        if self.is_fresh:
            raise Untraceable("the optimizer has no state of a parameter yet")
        gradient = np.negative(grad) if self.maximize else grad
        state, numbers = others[self.state : self.state + len(self.names)], others[slice(*self.numbers)]
        found = [as_array(one) for one in self.function(array, *state, gradient, *numbers)]
        for old, new in zip((array, *state), found, strict=True):
            if new.strides != old.strides:
                # The bits of the products of later steps depend on it.
                raise Untraceable("a parameter would lie otherwise in memory after it")
        return found


@final
class Update:
    """What one step of an optimizer reads, and how.

    Attributes:
        plan: the formula of each parameter.
        params: the parameters that require grad.
        others: the arrays of their states, and what the formulas take, as arrays without axes.

    Raises:
        _NoFormulaError: the optimizer has none.
    """

    __slots__ = ("_optimizer", "_scalars", "others", "params", "plan")

    def __init__(self, optimizer: ElementwiseOptimizer) -> None:
        self._optimizer = optimizer
        self.params: list[Tensor] = []
        self.others: list[Any] = []
        # The entries of each state after the step that are numbers.
        self._scalars: list[dict[str, Any]] = []
        plan: list[Formula] = []
        for group in optimizer.param_groups:
            self._add(group, plan)
        self.plan: tuple[Formula, ...] = tuple(plan)

    def _add(self, group: Group, plan: list[Formula]) -> None:
        """Add the parameters of a group."""
        known: dict[Any, tuple[Any, ...]] = {}
        states, others = self._optimizer.state, self.others
        maximize = bool(group.get("maximize", False))
        for param in group["params"]:
            if not param._requires_grad():
                continue
            array, state = param._data, states.get(param, {})
            # What parameters with equal keys have in common is asked once.
            key = array.dtype, tuple([(name, None if _is_array(one) else one) for name, one in state.items()])
            common = known.get(key)
            if common is None:
                common = known[key] = self._common(array, state, group)
            function, names, is_fresh, numbers, scalars = common
            plan.append(Formula(function, names, is_fresh, maximize, len(others), numbers))
            if not is_fresh:
                others += [state[name] for name in names]
            self.params.append(param)
            self._scalars.append(scalars)

    def _common(self, array: Any, state: dict[str, Any], group: Group) -> tuple[Any, ...]:
        update = self._optimizer._fused_update(array, array, state, group)
        if update is None:
            raise _NoFormulaError
        scalars = {name: one for name, one in update.state.items() if not _is_array(one)}
        names = tuple([name for name in update.state if name not in scalars])
        is_fresh = any(name not in state for name in names)
        begin = len(self.others)
        self.others += [np.asarray(number, array.dtype) for number in update.numbers]
        return update.formula, names, is_fresh, (begin, len(self.others)), scalars

    def new_values(self) -> NewValues:
        """Return what collects the new values."""
        return self._optimizer._new_values(self.params)

    def publish(self, values: NewValues, found: Sequence[Any]) -> None:
        """Give the parameters that have a gradient their new values and states, all at once.

        Args:
            values: what `new_values` has returned before.
            found: for each parameter its array and those of its state; None for each that has no gradient.

        Raises:
            OverlappingStepsError: a parameter was written into since then.
        """
        states, begin = self._optimizer.state, 0
        for param, formula, scalars in zip(self.params, self.plan, self._scalars, strict=True):
            array, arrays = found[begin], found[begin + 1 : begin + 1 + len(formula.names)]
            begin += 1 + len(arrays)
            if array is None:
                continue
            state = {**states.get(param, {}), **dict(zip(formula.names, arrays, strict=True)), **scalars}
            values.put(param, array, state)
        values.publish(states)

    def memory_of(self, outputs: Sequence[Any], values: NewValues) -> Callable[[int, np.ndarray], np.ndarray]:
        """Return what gives memory for an output of a program, by its number and an array like it.

        Args:
            outputs: for each parameter that of its array and those of its state, as `publish` finds them.
            values: what collects them.
        """
        states, begin = self._optimizer.state, 0
        places: dict[int, tuple[Tensor, int]] = {}
        for param, formula in zip(self.params, self.plan, strict=True):
            entries = list(states.get(param, ()))
            for name, output in zip(("", *formula.names), outputs[begin:], strict=False):
                if output is not None and output.kind == "array":
                    # An optimizer numbers the entries of a state from 1.
                    places[output.index] = param, 1 + entries.index(name) if name else 0
            begin += 1 + len(formula.names)

        def place(index: int, like: np.ndarray) -> np.ndarray:
            found = places.get(index)
            return np.empty_like(like) if found is None else values.memory_for(*found, like)

        return place


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray)


def parameters_of(optimizer: Optimizer) -> list[Tensor]:
    """Return the parameters that require grad."""
    return [param for group in optimizer.param_groups for param in group["params"] if param._requires_grad()]


def update_of(optimizer: Optimizer) -> Update | None:
    """Return what the next step of an optimizer reads; None where its update is no part of a program."""
    if not isinstance(optimizer, ElementwiseOptimizer) or optimizer._hooks.of_steps:
        return None
    for group in optimizer.param_groups:
        if not optimizer._has_bits_of_formula(group):
            return None
        if any(type(one._data) is not np.ndarray or one.dtype.kind == "c" or one._view for one in group["params"]):
            return None
    try:
        return Update(optimizer)
    except _NoFormulaError:
        return None
