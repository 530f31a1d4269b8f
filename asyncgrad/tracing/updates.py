"""The update of an optimizer as a part of a program: formulas of parameters, states and gradients, and their numbers.

Rates and other numbers that change from step to step are arguments of the program; which formula a parameter has is a
part of the key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Any, NamedTuple, final

import numpy as np

from ..core.arrays.array import BareArray
from ..core.arrays.values import as_array
from ..core.tensor import Tensor
from ..optim.elementwise import ElementwiseOptimizer, NewValues
from ..optim.fused import FusedUpdate
from ..optim.optimizer import Group, Optimizer
from ..optim.options import plain_options
from .call_key import Static
from .table import PlaceOf
from .trace import Untraceable

__all__ = ["Formula", "Places", "Update", "has_hooks", "memory_of", "parameters_of", "update_of"]


#: By the number of an output that is a new value: the parameter, and the name of its state or "".
Places = dict[int, tuple[Tensor, str]]


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
class _Alike:
    """Parameters of a group whose updates have their formula and their numbers in common.

    Args:
        optimizer: the optimizer.
        group: the options.
        array: the array of one of them.
        state: its state.

    Attributes:
        params: the parameters.
        function: the formula.
        names: the names of the arrays of a state.
        scalars: the entries of a state after the step that are numbers.
        numbers: what the formula takes beside arrays, as arrays without axes.
        is_fresh, maximize: as for Formula.

    Raises:
        _NoFormulaError: the update is no formula.
    """

    __slots__ = (
        "_before",
        "_group",
        "_names_before",
        "_optimizer",
        "function",
        "is_fresh",
        "maximize",
        "names",
        "numbers",
        "params",
        "scalars",
    )

    def __init__(self, optimizer: ElementwiseOptimizer, group: Group, array: BareArray, state: dict[str, Any]) -> None:
        self._optimizer = optimizer
        self._group = group
        #: The names in a state before the step, and which of them are those of numbers.
        self._before = tuple(state)
        self._names_before = [name for name, one in state.items() if not _is_array(one)]
        self.params: list[Tensor] = []
        self.numbers: list[np.ndarray] = []
        self.scalars: dict[str, Any] = {}
        update = self._read_update(array, state)
        if update is None:
            raise _NoFormulaError
        self.function = update.formula
        self.names = tuple([name for name in update.state if name not in self.scalars])
        self.is_fresh = any(name not in state for name in self.names)
        self.maximize = self._maximizes()

    def _read_update(self, array: BareArray, state: dict[str, Any]) -> FusedUpdate | None:
        """Read the numbers of a step; return all of the update."""
        update = self._optimizer._fused_update(array, array, state, plain_options(self._group))
        if update is not None:
            self.numbers = [np.asarray(number, array.dtype) for number in update.numbers]
            self.scalars = {name: one for name, one in update.state.items() if not _is_array(one)}
        return update

    def _maximizes(self) -> bool:
        return bool(self._group.get("maximize", False))

    def renew(self, states: Sequence[dict[str, Any]]) -> bool:
        """Read the numbers of the next step; tell whether its formula is that of the step before.

        Args:
            states: those of the parameters.
        """
        if {*map(tuple, states)} != {self._before} or self._maximizes() is not self.maximize:
            return False
        for name in self._names_before:
            if [state[name] for state in states].count(states[0][name]) != len(states):
                return False
        update = self._read_update(self.params[0]._data, states[0])
        return update is not None and update.formula is self.function


@final
class Update:
    """What one step of an optimizer reads, and how; what cannot change between two steps is kept for the next ones.

    Attributes:
        plan: the formula of each parameter, marked as static.
        params: the parameters that require grad.
        others: what the formulas take, as arrays without axes, and the arrays of the states.

    Raises:
        _NoFormulaError: the optimizer has none.
    """

    __slots__ = ("_alike", "_frozen", "_groups", "_optimizer", "_parts", "_types", "others", "params", "plan")

    def __init__(self, optimizer: ElementwiseOptimizer) -> None:
        self._optimizer = optimizer
        self._groups: list[tuple[Group, list[Tensor]]] = [(one, [*one["params"]]) for one in optimizer.param_groups]
        self._frozen = [param for _, params in self._groups for param in params if not param._requires_grad()]
        self._alike: list[_Alike] = []
        whose: dict[Tensor, _Alike] = {}
        for group, params in self._groups:
            self._add(group, params, whose)
        self.params: list[Tensor] = [*whose]
        self._types = [param._data.dtype for param in self.params]
        self.others: list[Any] = self._read_others(self._states())
        plan = self._formulas()
        self.plan = Static(tuple([plan[param] for param in self.params]))
        #: By parameter, which of its new values and those of its state are which, and their names.
        self._parts: list[tuple[Tensor, _Alike, int, int]] = []
        end = 0
        for param, alike in whose.items():
            begin, end = end, end + 1 + len(alike.names)
            self._parts.append((param, alike, begin, end))

    def _add(self, group: Group, params: Sequence[Tensor], whose: dict[Tensor, _Alike]) -> None:
        """Put the parameters of a group to those that are like them."""
        known: dict[Any, _Alike] = {}
        for param in params:
            if not param._requires_grad():
                continue
            array, state = param._data, self._optimizer.state.get(param, {})
            values = [None if _is_array(one) else one for one in state.values()]
            key = array.dtype, *state, *values
            if key not in known:
                known[key] = _Alike(self._optimizer, group, array, state)
                self._alike.append(known[key])
            known[key].params.append(param)
            whose[param] = known[key]

    def _states(self) -> list[list[dict[str, Any]]]:
        states: dict[Tensor, dict[str, Any]] = self._optimizer.state
        return [[states.get(param, {}) for param in alike.params] for alike in self._alike]

    def _read_others(self, states: Sequence[Sequence[dict[str, Any]]]) -> list[Any]:
        others: list[Any] = [number for alike in self._alike for number in alike.numbers]
        for alike, found in zip(self._alike, states, strict=True):
            if not alike.is_fresh:
                others += [state[name] for state in found for name in alike.names]
        return others

    def _formulas(self) -> dict[Tensor, Formula]:
        """Return the formula of each parameter, which finds its arrays and numbers as `_read_others` puts them."""
        found: dict[Tensor, Formula] = {}
        end, state = 0, sum(len(alike.numbers) for alike in self._alike)
        for alike in self._alike:
            begin, end = end, end + len(alike.numbers)
            for param in alike.params:
                found[param] = Formula(alike.function, alike.names, alike.is_fresh, alike.maximize, state, (begin, end))
                state += 0 if alike.is_fresh else len(alike.names)
        return found

    def renew(self) -> bool:
        """Read numbers and states for the next step; tell whether the plan and the parameters are as they were."""
        optimizer = self._optimizer
        if optimizer._hooks.of_steps or len(optimizer.param_groups) != len(self._groups):
            return False
        for now, (group, params) in zip(optimizer.param_groups, self._groups, strict=True):
            given = now["params"]
            are_same = now is group and len(given) == len(params) and all(map(is_, given, params))
            if not are_same or not optimizer._has_bits_of_formula(group):
                return False
        if not all(map(_is_leaf_of, self.params, self._types)):
            return False
        if any(param._requires_grad() for param in self._frozen):
            return False
        states = self._states()
        if not all(alike.renew(found) for alike, found in zip(self._alike, states, strict=True)):
            return False
        self.others = self._read_others(states)
        return True

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
        states = self._optimizer.state
        for param, alike, begin, end in self._parts:
            if found[begin] is not None:
                state = dict(states.get(param, ()))
                state.update(zip(alike.names, found[begin + 1 : end], strict=True))
                state.update(alike.scalars)
                values.put(param, found[begin], state)
        values.publish(states)

    def places_of(self, outputs: Sequence[Any]) -> Places:
        """Return where new values are among the outputs of a program.

        Args:
            outputs: for each parameter that of its array and those of its state, as `publish` finds them.
        """
        whose = [(param, name) for param, alike, _, _ in self._parts for name in ("", *alike.names)]
        pairs = zip(outputs, whose, strict=True)
        return {output.index: place for output, place in pairs if output is not None and output.kind == "array"}


def memory_of(places: Places, values: NewValues) -> PlaceOf:
    """Return what gives memory for outputs of a program, by their numbers and arrays like them.

    Args:
        places: where new values are among the outputs.
        values: what collects them.
    """
    memory_for = values.memory_for

    def place(indices: Sequence[int], like: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [
            memory_for(*places[index], one) if index in places else np.empty_like(one)
            for index, one in zip(indices, like, strict=True)
        ]

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
    if not all(map(optimizer._has_bits_of_formula, optimizer.param_groups)):
        return None
    if not all(map(_is_plain, parameters_of(optimizer))):
        return None
    try:
        return Update(optimizer)
    except _NoFormulaError:
        return None


def _is_plain(param: Tensor) -> bool:
    """Tell whether a parameter is of real numbers in NumPy's memory, no view, and without hooks."""
    array: Any = param._data
    return type(array) is np.ndarray and array.dtype.kind != "c" and not param._view and not has_hooks(param)


def _is_leaf_of(param: Tensor, dtype: np.dtype[Any]) -> bool:
    """Tell whether a parameter is plain, has a dtype and requires grad; each step asks it of all, so without calls."""
    array: Any = param._data
    meta = param._meta
    if type(array) is not np.ndarray or array.dtype != dtype or param._grad_fn is not None or param._view:
        return False
    return meta is not None and meta.requires_grad and (meta.hooks is None or not meta.hooks.snapshot())


def has_hooks(param: Tensor) -> bool:
    """Tell whether the gradient of a parameter is passed to hooks, which are called eagerly."""
    meta = param._meta
    return meta is not None and meta.hooks is not None and bool(meta.hooks.snapshot())
