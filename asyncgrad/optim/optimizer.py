"""Optimizer: parameters in groups, each with its options, and the state of each parameter."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..arguments import describe, number, truth
from ..engine.device import Device, moved_to
from ..errors import ArgumentError, ArgumentTypeError
from ..graph.current_streams import follow_streams
from ..graph.saved_hooks import copy_saved_before_write
from ..graph.values import empty_beside, is_foreign, is_writeable
from ..ops.kernels import COMPILERS, TableUpdate
from ..tensor import Tensor
from ..tree.registry import container_type
from ..tree.structure import TreeStructure, flatten, leaves, paths

__all__ = ["FusedUpdate", "Optimizer", "check_range"]

#: The options of one group, and its parameters under "params".
Group = dict[str, Any]


class FusedUpdate(NamedTuple):
    """The update of one parameter as a formula."""

    #: A function of the arrays and then of the numbers, which returns new values of the first arrays, as a tuple.
    formula: Callable[..., tuple[Any, ...]]
    #: The parameter, its state, and its gradient.
    arrays: tuple[Any, ...]
    #: How many of the arrays get a new value.
    written: int
    #: What all parameters have in common.
    numbers: tuple[float, ...]
    #: The entries of the parameter's state, by name, once the update has been made.
    state: dict[str, Any]


def check_range(group: Group, name: str, *, below: float | None = None) -> None:
    """Raise unless an option is a number (or a tuple of numbers) of at least 0 and, if given, below `below`.

    Raises:
        ArgumentError: the option is out of range.
        ArgumentTypeError: the option is not a number.
    """
    value = group[name]
    values = value if isinstance(value, tuple) else (value,)
    for one in values:
        if not 0 <= number(one, name) < (math.inf if below is None else below):
            allowed = "at least 0" if below is None else f"at least 0 and below {below:g}"
            raise ArgumentError(f"{name} must be {allowed}, not {value}")


class Optimizer(ABC):
    """Abstract base of optimizers, which update parameters in place from their gradients.

    A subclass defines `_check`, which checks the options of a group, and `_update`, which updates one parameter.

    Args:
        params: tensors, as an iterable or a tree (`ag.tree`), or a list of groups: dicts with tensors under "params"
            and options that differ from the defaults.
        defaults: all options and their default values.

    Attributes:
        param_groups: the groups; their options may be changed between steps (a schedule sets "lr").
        state: for each parameter that has been updated, its state by name.

    Raises:
        ArgumentError: an option or a parameter is invalid; the message names it.
        ArgumentTypeError: a parameter is not a tensor.

    Source: torch.optim.Optimizer.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> from asyncgrad import optim
        >>> class SignDescent(optim.Optimizer):
        ...     def __init__(self, params, lr=0.25):
        ...         super().__init__(params, {"lr": lr})
        ...     @staticmethod
        ...     def _check(group):
        ...         assert group["lr"] >= 0
        ...     def _update(self, param, grad, state, group):
        ...         param -= group["lr"] * np.sign(grad)
        >>> w = ag.tensor([1.0, -1.0], requires_grad=True)
        >>> w.grad = ag.tensor([3.0, -7.0])
        >>> SignDescent([w]).step()
        >>> w.numpy()
        array([ 0.75, -0.75])
    """

    def __init__(self, params: Iterable[Any], defaults: Group) -> None:
        self.defaults = defaults
        self.param_groups: list[Group] = []
        self.state: dict[Tensor, dict[str, Any]] = {}
        # Scratch arrays, shared by all parameters of a shape, dtype and device, so that a step allocates nothing.
        self._scratch: dict[tuple[tuple[int, ...], np.dtype[Any], Device | None], list[np.ndarray]] = {}
        # The device of the parameter that is updated.
        self._device: Device | None = None
        # By the type of arrays and the formula, what updates many parameters at once.
        self._compiled_updates: dict[Any, TableUpdate] = {}
        self._check(defaults)
        given = _as_tree(params)
        if isinstance(params, Tensor) or given is None:
            what = describe(params)
            raise ArgumentTypeError(
                f"params must be a sequence of tensors, or of dicts with 'params', or a tree of tensors, not {what}"
            )
        if not _are_groups(given) and not leaves(given):
            raise ArgumentError(f"{type(self).__name__} got no parameters: is a generator used up?")
        for group in given if _are_groups(given) else [{"params": given}]:
            self.add_param_group(group)
        if not any(param.requires_grad for param in self._params()):
            raise ArgumentError(
                f"no parameter of this {type(self).__name__} requires grad, so no backward gives it a gradient: make "
                "them by ag.tensor(..., requires_grad=True), or call .requires_grad_() on them"
            )

    @staticmethod
    @abstractmethod
    def _check(group: Group) -> None:
        """Raise if an option of a group is invalid."""

    @abstractmethod
    def _update(self, param: np.ndarray, grad: np.ndarray, state: dict[str, Any], group: Group) -> None:
        """Update a parameter's array and its state in place.

        Args:
            param: the array to update.
            grad: its gradient, of the same shape and dtype; must not be written into.
            state: the parameter's state by name; empty in the first step.
            group: the options.
        """

    def add_param_group(self, group: Group) -> None:
        """Add a group: a dict with a tensor or a tree under "params", and options that differ from the defaults.

        Raises:
            ArgumentError, ArgumentTypeError: as on construction.
        """
        if not isinstance(group, dict) or "params" not in group:
            raise ArgumentTypeError(f"a group must be a dict with tensors under 'params', not {group!r:.60}")
        if unknown := sorted(set(group) - {"params", *self.defaults}):
            known = ", ".join(self.defaults)
            raise ArgumentError(f"{type(self).__name__} has no option {unknown[0]!r}: there are {known}")
        given = _as_tree(group["params"])
        if given is None:
            what = describe(group["params"])
            raise ArgumentTypeError(f"the 'params' of a group must be a tensor, or a tree of tensors, not {what}")
        if type(given) in (list, tuple):
            # In a tree that is deeper, None stands for a parameter that a model does not have.
            for index, param in enumerate(given):
                if param is None:
                    _check_param(f"parameter {index} of group {len(self.param_groups)}", param)
        params, structure = flatten(given)
        names = _names_of(structure, len(self.param_groups))
        group = {"params": params, **self.defaults, **{name: group[name] for name in group if name != "params"}}
        self._check(group)
        known_params = {id(param) for one in self.param_groups for param in one["params"]}
        for name, param in zip(names, params, strict=True):
            _check_param(name, param)
            if id(param) in known_params:
                raise ArgumentError(f"{name} is given twice: pass it once")
            known_params.add(id(param))
        self.param_groups.append(group)

    def step(self) -> None:
        """Update every parameter that has a gradient, in place; the others stay as they are."""
        follow_streams()
        for group in self.param_groups:
            for param in self._step_fused(group) if COMPILERS else group["params"]:
                grad = param.grad
                if grad is None:
                    continue
                state = self.state.get(param)
                if state is None:
                    state = self.state[param] = {}
                copy_saved_before_write(param)
                self._device = param._device
                self._update(param._data, grad._data, state, group)
                param._bump_version()

    def _fused_update(self, param: Any, grad: Any, state: Mapping[str, Any], group: Group) -> FusedUpdate | None:
        """Return what `_update` does as a formula of elementwise operations; None where it cannot be that.

        It writes into none of its arguments. `step` applies the formula to many parameters in one launch where there is
        a KernelCompiler for their arrays.

        Args:
            param: the array to update.
            grad: its gradient, of the same shape and dtype.
            state: the parameter's state by name; empty in the first step.
            group: the options.
        """
        return None

    def _step_fused(self, group: Group) -> list[Tensor]:
        """Update in few launches the parameters whose arrays have a KernelCompiler; return the others."""
        others: list[Tensor] = []
        batches: dict[Any, list[tuple[Tensor, FusedUpdate]]] = {}
        last: tuple[Any, ...] = ()
        for param in group["params"]:
            data, grad = param._data, param.grad
            if grad is None:
                continue
            found = None
            if type(data) in COMPILERS and data.dtype.char in "efdFD":
                found = self._fused_update(data, grad._data, self.state.get(param, {}), group)
            if found is None or not _lie_alike(found.arrays):
                others.append(param)
                continue
            key = (type(data), data.dtype, param._device, found.formula, found.written, found.numbers)
            # Mostly all parameters of a group have one key, and to hash it takes longer than all else.
            if key != last:
                last, batch = key, batches.setdefault(key, [])
            batch.append((param, found))
        for (kind, _, _, formula, written, numbers), batch in batches.items():
            update = self._compiled_updates.get((kind, formula))
            if update is None:
                update = self._compiled_updates[kind, formula] = COMPILERS[kind].update(formula, written)
            for param, _ in batch:
                copy_saved_before_write(param)
            update([found.arrays for _, found in batch], numbers)
            for param, found in batch:
                self.state.setdefault(param, {}).update(found.state)
                param._bump_version()
        return others

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters.

        Args:
            set_to_none: set `.grad` to None; without it, to zeros in a new array, since code that holds the old
                gradient must not see it change.
        """
        set_to_none = truth(set_to_none, "set_to_none")
        for group in self.param_groups:
            for param in group["params"]:
                if set_to_none or param.grad is None:
                    param.grad = None
                else:
                    param.grad = Tensor(np.zeros_like(param._data), None, 0, param._device)

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of all state and options that can be pickled; parameters are given by number.

        The arrays of the copy are on the devices of their parameters.

        Returns:
            A dict with "state", by the number of the parameter, and "param_groups", with numbers under "params".
        """
        numbers = {id(param): number for number, param in enumerate(self._params())}
        return {
            "state": {numbers[id(param)]: _copy_state(state) for param, state in self.state.items()},
            "param_groups": [
                {**group, "params": [numbers[id(param)] for param in group["params"]]} for group in self.param_groups
            ],
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load a copy of a result of `state_dict`, for parameters in the same order.

        Its arrays may be on any device, and are moved to those of the parameters.

        Raises:
            ArgumentError: groups or shapes differ from those of this optimizer, which stays as it was.
            ArgumentTypeError: `state_dict()` returns nothing like it.
        """
        if not isinstance(state_dict, Mapping) or not {"state", "param_groups"} <= set(state_dict):
            raise ArgumentTypeError(
                "state_dict must be a dict with 'state' and 'param_groups', as optimizer.state_dict() returns it, not "
                f"{describe(state_dict)}"
            )
        saved = state_dict["param_groups"]
        if not isinstance(state_dict["state"], Mapping) or not isinstance(saved, Sequence):
            raise ArgumentTypeError(
                "in state_dict, 'state' must be a dict and 'param_groups' a list, not "
                f"{describe(state_dict['state'])} and {describe(saved)}"
            )
        sizes, saved_sizes = ([len(group["params"]) for group in groups] for groups in (self.param_groups, saved))
        if sizes != saved_sizes:
            raise ArgumentError(f"state_dict has groups of {saved_sizes} parameters, but this optimizer has {sizes}")
        merged = [
            {**group, **other, "params": group["params"]} for group, other in zip(self.param_groups, saved, strict=True)
        ]
        for group in merged:
            self._check(group)
        numbers = [number for group in saved for number in group["params"]]
        params = dict(zip(numbers, self._params(), strict=True))
        self.state = {
            params[number]: _cast_state(number, params[number], state) for number, state in state_dict["state"].items()
        }
        self.param_groups = merged

    def _params(self) -> Sequence[Tensor]:
        return [param for group in self.param_groups for param in group["params"]]

    def _buffers(self, like: np.ndarray, count: int) -> list[np.ndarray]:
        """Return scratch arrays with the shape and dtype of `like`, on its device; their content is arbitrary."""
        key = (like.shape, like.dtype, self._device)
        buffers = self._scratch.setdefault(key, [])
        while len(buffers) < count:
            buffers.append(empty_beside(like))
        return buffers

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value}" for name, value in self.defaults.items())
        return f"{type(self).__name__}({len(self._params())} parameters, {options})"


def _lie_alike(arrays: Sequence[Any]) -> bool:
    """Tell whether arrays have one type, shape and dtype, and fill their memory in the same order."""
    first, *others = arrays
    if not first.flags.forc:
        return False
    kind, dtype, shape, strides = type(first), first.dtype, first.shape, first.strides
    for one in others:
        if type(one) is not kind or one.dtype != dtype or one.strides != strides or one.shape != shape:
            return False
    return True


def _as_tree(params: Any) -> Any:
    """Return a tree or a tensor as it is, another iterable of tensors as a list, and None for anything else."""
    if isinstance(params, Tensor) or container_type(type(params)) is not None:
        return params
    if isinstance(params, str) or not isinstance(params, Iterable):
        return None
    return [params[key] for key in params] if isinstance(params, Mapping) else list(params)


def _are_groups(params: Any) -> bool:
    if type(params) not in (list, tuple) or not params or not isinstance(params[0], dict):
        return False
    return "params" in params[0] or not leaves(params[0])


def _names_of(structure: TreeStructure, group: int) -> Iterable[str]:
    """Return the names of parameters in errors: by number in a sequence, by path in a tree."""
    is_nested = any(child.kind is not None for child in structure.children)
    if structure.kind is None or (structure.cls in (list, tuple) and not is_nested):
        return [f"parameter {index} of group {group}" for index in range(structure.count)]
    return paths(structure, "params" if group == 0 else f"the 'params' of group {group}: params")


def _check_param(which: str, param: Any) -> None:
    if not isinstance(param, Tensor):
        raise ArgumentTypeError(f"{which} must be a Tensor, not {describe(param)}")
    if param.grad_fn is not None:
        raise ArgumentError(
            f"{which} was computed by {param.grad_fn.name}, but only leaves can be optimized: "
            "pass the tensor it was computed from, or param.detach().requires_grad_()"
        )
    if not is_writeable(param._data):
        raise ArgumentError(f"{which} has a read-only array: make it with ag.tensor(...), which copies")


def _copy_state(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.copy() if _is_array(value) else value for name, value in state.items()}


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or is_foreign(value)


def _cast_state(number: int, param: Tensor, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a saved state as the state of a parameter, in its dtype and on its device."""
    fitted = {}
    for name, value in state.items():
        if not _is_array(value):
            fitted[name] = value
            continue
        if value.shape not in ((), param.shape):
            raise ArgumentError(
                f"{name} of parameter {number} in state_dict has shape {value.shape}, but the parameter {param.shape}"
            )
        fitted[name] = moved_to(value.astype(param.dtype), param._device)
    return fitted
