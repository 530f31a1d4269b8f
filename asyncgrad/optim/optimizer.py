"""Optimizer: parameters in groups, each with its options, and the state of each parameter."""

from __future__ import annotations

import copy
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import methodcaller
from typing import Any, Self

import numpy as np

from ..core.arrays.hooks import RemovableHandle
from ..core.arrays.interception import on_device_of
from ..core.arrays.uninitialized import UninitializedParameter, uninitialized_error
from ..core.arrays.values import has_memory, is_writeable, raw
from ..core.engine.device import moved_to
from ..core.engine.offloading import call_on_worker
from ..core.settings.arguments import describe, must_be, number, truth
from ..core.settings.awaiting import call
from ..core.settings.context import enable_grad
from ..core.settings.elsewhere import OPTIMIZER_ATTRIBUTES, OPTIMIZER_OPTIONS, hint_at
from ..core.settings.loop_turn import keep_pace
from ..core.settings.scheduling import WORKERS
from ..core.tensor import Tensor
from ..core.tree.registry import container_type
from ..core.tree.structure import Tree, flatten, leaves
from ..errors import ArgumentError, ArgumentTypeError
from .gradients import ParameterGradients, ParameterTree, gradients_like
from .hooks import OptimizerHooks, StepCall, call_plain
from .overlaps import StepTracker
from .recorded_steps import Steps, recorded, steps_are_recorded

__all__ = ["Entries", "Group", "Optimizer", "Steps", "check_betas", "check_range"]

#: An update of so many numbers takes about as long as to pass it to a worker and back.
_OFF_LOOP = 50_000

#: The options of one group, and its parameters under "params".
Group = dict[str, Any]

#: The parameters of a group that have a gradient, each with the array of it.
Entries = list[tuple[Tensor, Any]]


def check_range(group: Group, name: str, *, below: float | None = None, several: bool = False) -> None:
    """Raise unless an option is a number, or a tuple of several, of at least 0 and, if given, below `below`.

    Raises:
        ArgumentError: the option is out of range.
        ArgumentTypeError: the option is not a number.
    """
    value = group[name]
    for one in value if several else (value,):
        if not 0 <= number(one, name) < (math.inf if below is None else below):
            allowed = "at least 0" if below is None else f"at least 0 and below {below:g}"
            raise ArgumentError(f"{name} must be {allowed}, not {value}")


def check_betas(group: Group, example: str) -> None:
    """Raise unless the option "betas" is two numbers of at least 0 and below 1; `example` shows them in the error."""
    if not isinstance(group["betas"], (tuple, list)) or len(group["betas"]) != 2:
        raise ArgumentError(f"betas must be two numbers, such as {example}, not {group['betas']!r}")
    check_range({"betas": tuple(group["betas"])}, "betas", below=1, several=True)


class Optimizer(ABC):
    """Abstract base of optimizers, which update parameters in place from their gradients.

    A subclass defines `_check`, which checks the options of a group, and `_steps`, which does what a step does. Those
    that update each parameter by itself are subclasses of ElementwiseOptimizer.

    Args:
        params: tensors, as an iterable, alone or in pairs with their names, or as a tree (`ag.tree`); or a list of
            groups: dicts with tensors under "params" and options that differ from the defaults.
        defaults: all options and their default values.

    Attributes:
        param_groups: the groups; their options may be changed between steps (a schedule sets "lr").
        state: for each parameter that has been updated, its state by name.

    Raises:
        ArgumentError: an option or a parameter is invalid; the message names it.
        ArgumentTypeError: a parameter is not a tensor.

    Source: torch.optim.Optimizer.
    """

    def __new__(cls, *args: object, **options: object) -> Self:
        """Return a new optimizer; refuse the names of other libraries for its options."""
        if "learning_rate" in options and "learning_rate" not in inspect.signature(cls).parameters:
            raise ArgumentTypeError(
                f"{cls.__name__} has no option 'learning_rate': write lr={options['learning_rate']!r}"
            )
        found = [name for name in ("beta1", "beta2", "beta_1", "beta_2") if name in options]
        if found and "betas" in inspect.signature(cls).parameters:
            raise ArgumentTypeError(f"{cls.__name__} has no option {found[0]!r}: write betas=(beta1, beta2)")
        return super().__new__(cls)

    def __init__(self, params: Tree, defaults: Group) -> None:
        self.defaults = defaults
        self.param_groups: list[Group] = []
        self.state: dict[Tensor, dict[str, Any]] = {}
        # The tree that each group was given.
        self._trees: list[ParameterTree] = []
        self._tracker = StepTracker(type(self).__name__)
        self._hooks = OptimizerHooks()
        self._check_options(defaults)
        given = _as_tree(params)
        if isinstance(params, Tensor) or given is None:
            hint = "pass [t]" if isinstance(params, Tensor) else "call it" if callable(params) else ""
            expected = "a sequence of tensors, or of dicts with 'params', or a tree of tensors"
            raise ArgumentTypeError(must_be("params", expected, params, hint))
        if not _are_groups(given) and not leaves(given):
            raise ArgumentError(
                f"{type(self).__name__} got no parameters: is a generator used up? The parameters of a module are its "
                "attributes that are leaves that require grad, such as nn.Parameter(array)"
            )
        for group in given if _are_groups(given) else [{"params": given}]:
            self.add_param_group(group)
        if not any(param.requires_grad for param in self._params()):
            raise ArgumentError(
                f"no parameter of this {type(self).__name__} requires grad, so no backward gives it a gradient: make "
                "them by ag.tensor(..., requires_grad=True), or call .requires_grad_() on them"
            )

    #: Whether a step evaluates its closure more than once, each time at other parameters.
    _evaluates_again: bool = False

    #: Which entries of a parameter's state are numbers, besides "step"; in PyTorch's states they are tensors.
    _scalar_names: frozenset[str] = frozenset()

    def _check_options(self, group: Group) -> None:
        self._check(group)
        truth(group.get("maximize", False), "maximize")

    @staticmethod
    @abstractmethod
    def _check(group: Group) -> None:
        """Raise if an option of a group is invalid."""

    @staticmethod
    def _check_param(name: str, param: Tensor) -> None:
        """Raise if a parameter, which is a leaf, is not what this optimizer takes."""

    def add_param_group(self, param_group: Group) -> None:
        """Add a group: a dict with a tensor or a tree under "params", and options that differ from the defaults.

        Raises:
            ArgumentError, ArgumentTypeError: as on construction.
        """
        group = param_group
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
        found, structure = flatten(given)
        tree = ParameterTree(structure, found)
        params, names = tree.params(found), tree.names(len(self.param_groups))
        group = {"params": params, **self.defaults, **{name: group[name] for name in group if name != "params"}}
        self._check_options(group)
        known_params = {id(param) for one in self.param_groups for param in one["params"]}
        for name, param in zip(names, params, strict=True):
            _check_param(name, param)
            self._check_param(name, param)
            if id(param) in known_params:
                raise ArgumentError(f"{name} is given twice: pass it once")
            known_params.add(id(param))
        self.param_groups.append(group)
        self._trees.append(tree)

    def step(self, grads: Tree = None, closure: Callable[[], object] | None = None) -> Any:
        """Update every parameter that has a gradient, in place; the others stay as they are.

        Nothing changes if an argument does not fit.

        Args:
            grads: gradients to use in place of `.grad`, which is neither read nor changed: a tree with the structure of
                the parameters, such as `ag.func.grad` returns, with tensors, arrays, or None for a parameter to leave
                alone. If there are several groups, a sequence with a tree for each. A function is taken as `closure`.
            closure: a function without arguments that computes gradients anew and returns the loss; called first.

        Returns:
            What `closure` returned; None without one.

        Raises:
            ArgumentError: a gradient belongs to no parameter, has another shape, or belongs to one that does not
                require grad; the message names both.
            ArgumentTypeError: a gradient is no tensor or array, or `closure` is an `async def`.
            OverlappingStepsError: `.grad` has gradients of a training step of another task, or an awaited step runs.

        Example:
            >>> import numpy as np, asyncgrad as ag
            >>> from asyncgrad import optim, sync
            >>> params = {"w": ag.tensor([1.0, 2.0], requires_grad=True), "b": ag.tensor(1.0, requires_grad=True)}
            >>> optimizer = optim.SGD(params, lr=0.5)
            >>> gradient = sync.func.grad(lambda p: (p["w"] ** 2).sum() + p["b"])(params)
            >>> optimizer.step(gradient)
            >>> params["w"].tolist(), params["b"].item()
            ([0.0, 0.0], 0.5)
        """
        hooked: StepCall | None = None
        if self._hooks.of_steps:
            hooked = self._step_call(grads, closure)
            for hook in self._hooks.before_step.snapshot():
                hooked = _changed_call(hooked, call_plain(hook, "step()", self, *hooked))
            grads, closure = _step_arguments(*hooked)
        grads, closure = _split_closure(grads, closure)
        self._tracker.check_no_update("step()")
        loss = self._plain_step(grads, closure)
        if hooked is not None:
            for hook in self._hooks.after_step.snapshot():
                call_plain(hook, "step()", self, *hooked)
        return loss

    def _plain_step(self, grads: Any, closure: Callable[[], object] | None) -> Any:
        """Update as `step` does, without hooks."""
        steps = self._steps(grads, closure is not None, None)
        if steps_are_recorded[0]:
            steps = recorded(steps, f"{type(self).__name__}.step")
        try:
            next(steps)
            while True:
                with enable_grad():
                    loss = closure()  # type: ignore[misc]  # the generator asks for a loss only if there is one
                if inspect.isawaitable(loss):
                    if inspect.iscoroutine(loss):
                        loss.close()
                    raise ArgumentTypeError(
                        "the closure returned an awaitable, which step() cannot await: write "
                        "await optimizer.step_async(closure)"
                    )
                steps.send(loss)
        except StopIteration as end:
            return end.value
        finally:
            steps.close()

    async def step_async(self, grads: Tree = None, closure: Callable[[], object] | None = None) -> Any:
        """Update as `step` does, off the event loop where that takes long; `closure` may be an `async def`.

        The new values of large parameters are computed by a worker, in new arrays, and then published all at once: what
        runs on the loop meanwhile, a prediction say, sees all parameters from before the step or all from after it.
        Arrays and views that were taken of a parameter before keep its old values. A step that fails or is cancelled
        changes nothing. Steps of several tasks take turns.

        Args:
            grads: as for `step`.
            closure: as for `step`, or an `async def`.

        Returns:
            What `closure` returned; None without one.

        Raises:
            ArgumentError, ArgumentTypeError: as `step`.
            OverlappingStepsError: something else has written into the parameters meanwhile.

        Example:
            >>> import asyncgrad as ag
            >>> from asyncgrad import optim
            >>> async def main():
            ...     w = ag.tensor([1.0, 2.0], requires_grad=True)
            ...     optimizer = optim.SGD([w], lr=0.5)
            ...     async def closure():
            ...         optimizer.zero_grad()
            ...         loss = (w * w).sum()
            ...         await loss.backward()
            ...         return loss.item()
            ...     return await optimizer.step_async(closure), w.tolist()
            >>> ag.run(main())
            (5.0, [0.0, 0.0])
        """
        grads, closure = _split_closure(grads, closure)
        await keep_pace()
        async with self._tracker.turn():
            return await self._step_in_turn(grads, closure)

    async def _step_in_turn(self, grads: Any, closure: Callable[[], object] | None) -> Any:
        """Update as `step_async` does, for who has waited for the turn of the optimizer."""
        if not self._hooks.of_steps:
            return await self._awaited_step(grads, closure)
        hooked = self._step_call(grads, closure)
        for hook in self._hooks.before_step.snapshot():
            hooked = _changed_call(hooked, await call(hook, self, *hooked))
        loss = await self._awaited_step(*_split_closure(*_step_arguments(*hooked)))
        for hook in self._hooks.after_step.snapshot():
            await call(hook, self, *hooked)
        return loss

    def _step_call(self, grads: Any, closure: Any) -> StepCall:
        """Return the arguments of a step as hooks see them."""
        given = () if grads is None else (grads,)
        return (self, *given), {} if closure is None else {"closure": closure}

    async def _awaited_step(self, grads: Any, closure: Callable[[], object] | None) -> Any:
        """Update as `step_async` does, without hooks."""
        steps = self._steps(grads, closure is not None, _OFF_LOOP if WORKERS.get().limit else None)
        if steps_are_recorded[0]:
            steps = recorded(steps, f"{type(self).__name__}.step")
        try:
            wanted = next(steps)
            while True:
                if wanted is not None:
                    wanted = steps.send(await call_on_worker(wanted))
                    continue
                with enable_grad():
                    # The generator asks for a loss only if there is a closure.
                    loss = await call(closure)  # type: ignore[arg-type]
                wanted = steps.send(loss)
        except StopIteration as end:
            return end.value
        finally:
            steps.close()

    @abstractmethod
    def _steps(self, grads: Tree, has_closure: bool, off_loop: int | None) -> Steps:
        """Do what one call of `step` does; a generator that is sent what it asks for.

        It yields None where it needs the closure's loss, and a function where it needs the result of that, computed on
        a worker. It changes nothing before it ends, or takes it back if it is closed.

        Args:
            grads: what `step` was given; None for those in `.grad`.
            has_closure: whether there is a closure.
            off_loop: how many numbers in parameters are too many to be updated on the event loop; None for any.

        Returns:
            What `step` returns.
        """

    def register_step_pre_hook(self, hook: Callable[..., object]) -> RemovableHandle:
        """Have `hook(optimizer, args, kwargs)` called before each step; return the handle that removes it.

        Args:
            hook: gets the arguments of the step, of which the first is the optimizer. What it returns, unless None,
                replaces them: a pair of a tuple and a dict. It may be an `async def` if steps are awaited.

        Example:
            >>> import asyncgrad as ag
            >>> from asyncgrad import optim
            >>> w = ag.tensor([1.0], requires_grad=True)
            >>> optimizer = optim.SGD([w], lr=0.5)
            >>> with optimizer.register_step_pre_hook(lambda optimizer, args, kwargs: print("step")):
            ...     optimizer.step()
            step
        """
        return self._hooks.before_step.add(hook)

    def register_step_post_hook(self, hook: Callable[..., object]) -> RemovableHandle:
        """Have `hook(optimizer, args, kwargs)` called after each step; an `async def` if steps are awaited."""
        return self._hooks.after_step.add(hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., object], prepend: bool = False) -> RemovableHandle:
        """Have `hook(optimizer)` called before `state_dict`; with `prepend`, before the other hooks."""
        return self._hooks.before_state.add(hook, prepend=prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., object], prepend: bool = False) -> RemovableHandle:
        """Have `hook(optimizer, state_dict)` called with a result of `state_dict`, which it may change or replace."""
        return self._hooks.after_state.add(hook, prepend=prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., object], prepend: bool = False) -> RemovableHandle:
        """Have `hook(optimizer, state_dict)` called before a state is loaded, which it may change or replace."""
        return self._hooks.before_load.add(hook, prepend=prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., object], prepend: bool = False) -> RemovableHandle:
        """Have `hook(optimizer)` called after a state was loaded."""
        return self._hooks.after_load.add(hook, prepend=prepend)

    def _gradients(self, grads: Tree) -> list[Entries]:
        """Return for each group the parameters that have a gradient, in `grads` or else in `.grad`, and its array."""
        if type(grads) is ParameterGradients:
            found = grads.of_groups(self.param_groups)
        elif grads is not None:
            trees = _trees_of_groups(grads, len(self.param_groups))
            found = [
                gradients_like(tree, group["params"], given, index, self._grad_name(index))
                for index, (tree, group, given) in enumerate(zip(self._trees, self.param_groups, trees, strict=True))
            ]
        else:
            self._tracker.end()
            found = [
                [
                    (param, grad._data)
                    for param in group["params"]
                    if (meta := param._meta) is not None and (grad := meta.grad) is not None
                ]
                for group in self.param_groups
            ]
        for index, entries in enumerate(found):
            for param, _ in entries:
                meta = param._meta
                if (meta is None or not meta.requires_grad) and not param.requires_grad:
                    raise self._frozen_error(index, param, grads is not None)
        return found

    def _frozen_error(self, index: int, param: Tensor, is_given: bool) -> ArgumentError:
        params = self.param_groups[index]["params"]
        name = next(name for one, name in zip(params, self._trees[index].names(index), strict=True) if one is param)
        return ArgumentError(
            f"{name}, of shape {param.shape}, does not require grad, but has a gradient: "
            + ("give None for it" if is_given else "set its .grad to None")
            + ", or call requires_grad_() on it"
        )

    def _grad_name(self, index: int) -> str:
        return "grads" if len(self.param_groups) == 1 else f"grads[{index}]"

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters, which begins a training step of the running task.

        Args:
            set_to_none: set `.grad` to None; without it, to zeros in a new array, since code that holds the old
                gradient must not see it change.

        Raises:
            OverlappingStepsError: a training step of another task has a backward running, or gradients in `.grad`.
        """
        set_to_none = truth(set_to_none, "set_to_none")
        self._tracker.begin()
        for group in self.param_groups:
            for param in group["params"]:
                if set_to_none or param.grad is None:
                    param.grad = None
                else:
                    param.grad = Tensor(on_device_of(param._data, np.zeros_like), None, 0, param._device)

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of all state and options that can be pickled; parameters are given by number.

        The arrays of the copy are on the devices of their parameters.

        Returns:
            A dict with "state", by the number of the parameter, and "param_groups", with numbers under "params".
        """
        for hook in self._hooks.before_state.snapshot():
            call_plain(hook, "state_dict()", self)
        numbers = {id(param): number for number, param in enumerate(self._params())}
        groups = {id(param): group for group in self.param_groups for param in group["params"]}
        found: dict[str, Any] = {
            "state": {
                numbers[id(param)]: {**_copy_state(state), **self._missing_state(param, state, groups[id(param)])}
                for param, state in self.state.items()
                if state
            },
            "param_groups": [
                {**group, "params": [numbers[id(param)] for param in group["params"]]} for group in self.param_groups
            ],
        }
        for hook in self._hooks.after_state.snapshot():
            changed = call_plain(hook, "state_dict()", self, found)
            found = found if changed is None else changed
        return found

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load a copy of a result of `state_dict`, for parameters in the same order.

        Its arrays may be on any device, and are moved to those of the parameters.

        Raises:
            ArgumentError: groups or shapes differ from those of this optimizer, which stays as it was.
            ArgumentTypeError: `state_dict()` returns nothing like it.
        """
        if not isinstance(state_dict, Mapping) or not {"state", "param_groups"} <= set(state_dict):
            raise ArgumentTypeError(
                must_be(
                    "state_dict",
                    "a dict with 'state' and 'param_groups', as optimizer.state_dict() returns it",
                    state_dict,
                )
            )
        for hook in self._hooks.before_load.snapshot():
            # A shallow copy, so that a hook may change it.
            state_dict = {**state_dict}
            changed = call_plain(hook, "load_state_dict()", self, state_dict)
            state_dict = state_dict if changed is None else changed
        self._load(state_dict)
        for hook in self._hooks.after_load.snapshot():
            call_plain(hook, "load_state_dict()", self)

    def _load(self, state_dict: Mapping[str, Any]) -> None:
        """Load a state dict, or nothing of it."""
        saved = state_dict["param_groups"]
        if not isinstance(state_dict["state"], Mapping):
            raise ArgumentTypeError(must_be("in state_dict, 'state'", "a dict", state_dict["state"]))
        if not isinstance(saved, Sequence):
            raise ArgumentTypeError(must_be("in state_dict, 'param_groups'", "a list", saved))
        sizes, saved_sizes = ([len(group["params"]) for group in groups] for groups in (self.param_groups, saved))
        if sizes != saved_sizes:
            raise ArgumentError(f"state_dict has groups of {saved_sizes} parameters, but this optimizer has {sizes}")
        self._tracker.check_no_update("load_state_dict()")
        merged = [
            {**group, **other, "params": group["params"]} for group, other in zip(self.param_groups, saved, strict=True)
        ]
        for group in merged:
            lr = group.get("lr")
            # A schedule may have made it negative, as a StepLR does whose gamma is.
            self._check_options({**group, "lr": -lr} if isinstance(lr, (int, float)) and lr < 0 else group)
        numbers = [number for group in saved for number in group["params"]]
        params = dict(zip(numbers, self._params(), strict=True))
        groups = {id(param): group for group in merged for param in group["params"]}
        loaded = {}
        for key, state in state_dict["state"].items():
            if key not in params:
                raise ArgumentError(f"state_dict has the state of a parameter {key}, which is in none of its groups")
            # PyTorch's has an empty one for a parameter that was never updated.
            if state:
                param = params[key]
                loaded[param] = self._load_state(key, param, state)
                self._check_state(key, param, loaded[param], groups[id(param)])
        self.state, self.param_groups = loaded, merged

    def _missing_state(self, param: Tensor, state: Mapping[str, Any], group: Group) -> dict[str, Any]:
        """Return what a state lacks by options that were set since the last step, as it is before the first one."""
        return {}

    def _check_state(self, number: int, param: Tensor, state: Mapping[str, Any], group: Group) -> None:
        """Raise an ArgumentError unless a state that was loaded has what a step with the options of `group` needs."""

    def _load_state(self, number: int, param: Tensor, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of a saved state as the state of a parameter, in its dtype and on its device."""
        fitted: dict[str, Any] = {}
        for name, value in state.items():
            if not has_memory(value) and hasattr(value, "__array__") and not isinstance(value, np.generic):
                # A tensor, of PyTorch's mostly; one of a device stays there until it is moved below.
                value = raw(value) if isinstance(value, Tensor) else np.asarray(value)  # noqa: PLW2901
            if name == "step":
                # PyTorch's is a tensor.
                fitted[name] = int(value)
            elif name in self._scalar_names:
                fitted[name] = float(value)
            elif not has_memory(value):
                fitted[name] = value
            elif value.shape != (expected := self._state_shape(name, param)):
                others = f"the parameter {param.shape}" if expected == param.shape else f"it needs {expected}"
                raise ArgumentError(f"{name} of parameter {number} in state_dict has shape {value.shape}, but {others}")
            else:
                fitted[name] = moved_to(on_device_of(value, methodcaller("astype", param.dtype)), param._device)
        return fitted

    def _state_shape(self, name: str, param: Tensor) -> tuple[int, ...]:
        """Return the shape of an array in the state of a parameter."""
        return param.shape

    def _params(self) -> Sequence[Tensor]:
        return [param for group in self.param_groups for param in group["params"]]

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value}" for name, value in self.defaults.items())
        return f"{type(self).__name__}({len(self._params())} parameters, {options})"


hint_at(Optimizer, OPTIMIZER_ATTRIBUTES)
hint_at(Optimizer, OPTIMIZER_OPTIONS, is_never_set=True)


def _changed_call(given: StepCall, changed: Any) -> StepCall:
    """Return the arguments of a step after a hook that has returned `changed`."""
    if changed is None:
        return given
    is_pair = isinstance(changed, tuple) and len(changed) == 2
    if not is_pair or not isinstance(changed[0], tuple) or not isinstance(changed[1], dict):
        raise ArgumentTypeError(
            f"a hook before a step returns None, or the arguments as a pair (args, kwargs), not {describe(changed)}"
        )
    return changed[0], changed[1]


def _step_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """Return the gradients and the closure among arguments of a step, of which the first is the optimizer."""
    names = ("grads", "closure")
    given = {**dict(zip(names, args[1:], strict=False)), **kwargs}
    if len(args) > 3 or not set(given) <= set(names):
        raise ArgumentTypeError(
            f"a step takes grads and closure, but a hook made its arguments {args[1:]} and {kwargs}"
        )
    return given.get("grads"), given.get("closure")


def _split_closure(grads: Tree, closure: Any) -> tuple[Any, Callable[[], Any] | None]:
    """Return the gradients and the closure of a step; the closure may have been given in place of the gradients."""
    if isinstance(grads, Tensor):
        expected = "gradients with the structure of the parameters"
        raise ArgumentTypeError(
            must_be("grads of step()", expected, grads, "of a loss, write await loss.backward(), then optimizer.step()")
        )
    if closure is None and callable(grads) and container_type(type(grads)) is None:
        return None, grads
    if closure is not None and not callable(closure):
        raise ArgumentTypeError(must_be("closure", "a function without arguments", closure))
    if closure is not None and grads is not None:
        raise ArgumentError("step() got both gradients and a closure, which computes them: give one of the two")
    return grads, closure


def _trees_of_groups(grads: Tree, count: int) -> Sequence[Any]:
    """Return the gradients of each group."""
    if count == 1:
        return [grads]
    if not isinstance(grads, (list, tuple)) or len(grads) != count:
        size = f" of length {len(grads)}" if isinstance(grads, (list, tuple)) else ""
        raise ArgumentError(
            f"this optimizer has {count} groups of parameters, so grads must be a list with a tree for each, not "
            f"a {type(grads).__name__}{size}"
        )
    return grads


def _as_tree(params: Tree) -> Any:
    """Return a tree or a tensor as it is, another iterable of tensors as a list, and None for anything else.

    Of pairs of a name and a tensor, as `model.named_parameters()` yields them, the tensors are taken.
    """
    found = _as_tree_or_pairs(params)
    if type(found) is list and found and all(map(_is_named, found)):
        return [param for _, param in found]
    return found


def _is_named(entry: Any) -> bool:
    return type(entry) is tuple and len(entry) == 2 and isinstance(entry[0], str)


def _as_tree_or_pairs(params: Tree) -> Any:
    if isinstance(params, Tensor) or container_type(type(params)) is not None:
        return params
    if isinstance(params, str) or not isinstance(params, Iterable):
        return None
    return [params[key] for key in params] if isinstance(params, Mapping) else list(params)


def _are_groups(params: Any) -> bool:
    if type(params) not in (list, tuple) or not params or not isinstance(params[0], dict):
        return False
    return "params" in params[0] or not leaves(params[0])


def _check_param(which: str, param: Any) -> None:
    if isinstance(param, UninitializedParameter):
        raise uninitialized_error(which)
    if not isinstance(param, Tensor):
        raise ArgumentTypeError(must_be(which, "a Tensor", param))
    if param.grad_fn is not None:
        raise ArgumentError(
            f"{which} was computed by {param.grad_fn.name}, but only leaves can be optimized: "
            "pass the tensor it was computed from, or param.detach().requires_grad_()"
        )
    if not is_writeable(param._data):
        raise ArgumentError(f"{which} has a read-only array: make it with ag.tensor(...), which copies")


def _copy_state(state: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: on_device_of(value, methodcaller("copy")) if has_memory(value) else copy.deepcopy(value)
        for name, value in state.items()
    }
