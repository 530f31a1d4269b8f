"""ElementwiseOptimizer: the base of optimizers that update each parameter by itself, and what their updates share."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from sys import getrefcount
from typing import Any, final

import numpy as np

from ..core.arrays.current_devices import keep_device, several_devices, use_device
from ..core.arrays.current_streams import follow_streams
from ..core.arrays.device_functions import COMPILED_TYPES
from ..core.arrays.device_work import record_step
from ..core.arrays.interception import on_device_of
from ..core.arrays.values import empty_like
from ..core.engine.device import Device
from ..core.graph.saved import version_of
from ..core.graph.saved_hooks import begin_writes
from ..core.tensor import Tensor
from ..core.tree.structure import Tree
from ..errors import ArgumentError, OverlappingStepsError
from .fused import FusedSteps, FusedUpdate
from .optimizer import Entries, Group, Optimizer, Steps
from .options import plain_options

__all__ = [
    "ElementwiseOptimizer",
    "NewValues",
    "Scratch",
    "Update",
    "as_scalars",
    "factor_of_mean",
    "is_slow_mean",
    "move_mean",
    "moved_mean",
    "real_view",
]

#: Returns for each parameter the array and the state to update; takes also the states of those that have none.
Places = Callable[[Entries, dict[Tensor, dict[str, Any]]], Iterable[tuple[Any, dict[str, Any]]]]

#: Updates one parameter in place: takes its array, its gradient, which it must not write into, and its state by name.
#: It reads all of its state before it writes anything, for it is called again where an entry was missing
#: (test_an_update_reads_all_of_its_state_before_it_writes).
Update = Callable[[Any, Any, dict[str, Any]], None]


@final
class Scratch(dict[tuple[int, ...], tuple[Any, ...]]):
    """Arrays of arbitrary content by their shape, made when first asked for, so that later steps allocate nothing.

    Args:
        like: an array of their type, dtype and device.
        count: how many there are of each shape.
    """

    __slots__ = ("_count", "_like")

    def __init__(self, like: Any, count: int) -> None:
        super().__init__()
        # An empty array, since `like` itself would be kept alive.
        self._like = empty_like(like, (0,))
        self._count = count

    def __missing__(self, shape: tuple[int, ...]) -> tuple[Any, ...]:
        arrays = self[shape] = tuple([empty_like(self._like, shape) for _ in range(self._count)])
        return arrays


def as_scalars(like: Any, *numbers: float) -> tuple[Any, ...]:
    """Return numbers as what is multiplied fastest by an array: for NumPy, arrays of one element in its real dtype.

    A ufunc takes 0.3 µs longer for a Python number than for such an array.
    """
    if type(like) is not np.ndarray:
        return numbers
    dtype = like.dtype if like.dtype.kind != "c" else like.real.dtype
    return tuple([np.asarray(number, dtype) for number in numbers])


def is_slow_mean(decay: float) -> bool:
    """Return whether a decaying mean is nearer to the one before than to what is new.

    It is computed from the nearer of the two, as by torch.lerp: with a decay of 0 it is exactly what is new.
    """
    return 1 - decay < 0.5


def move_mean(mean: Any, new: Any, decay: float, buffer: Any) -> None:
    """Move a decaying mean towards what is new, in place: `mean = decay * mean + (1 - decay) * new`.

    Args:
        mean: the mean, of real numbers.
        new: what is new, which may not be `buffer`.
        decay: the share of the old mean.
        buffer: an array of their shape and dtype, of any content.
    """
    np.subtract(new, mean, buffer)
    (factor,) = as_scalars(mean, factor_of_mean(decay))
    np.multiply(buffer, factor, buffer)
    if is_slow_mean(decay):
        np.add(mean, buffer, mean)
    else:
        np.subtract(new, buffer, mean)


def moved_mean(mean: Any, new: Any, factor: float, is_slow: bool) -> Any:
    """Return what `move_mean` makes of a mean, in elementwise operations.

    Args:
        mean: the mean.
        new: what is new.
        factor: for a slow mean the share of what is new, otherwise that of the old mean.
        is_slow: whether it is one: see `is_slow_mean`.
    """
    return mean + (new - mean) * factor if is_slow else new - (new - mean) * factor


def factor_of_mean(decay: float) -> float:
    """Return the factor that `moved_mean` takes for a decay."""
    return 1 - decay if is_slow_mean(decay) else decay


def real_view(array: Any) -> Any:
    """Return a real array as it is, and a complex one as a view of its real and imaginary parts, on a last axis."""
    return array if array.dtype.kind != "c" else array[..., None].view(array.real.dtype)


class ElementwiseOptimizer(Optimizer):
    """Abstract base of optimizers that update each parameter by itself.

    A subclass defines `_check`, which checks the options of a group, and `_updater`, which returns the function that
    updates one parameter. The arguments and attributes are those of Optimizer.

    Args:
        params: tensors, or groups of them.
        defaults: the options of groups that do not set them.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> from asyncgrad import optim
        >>> class SignDescent(optim.ElementwiseOptimizer):
        ...     def __init__(self, params, lr=0.25):
        ...         super().__init__(params, {"lr": lr})
        ...     @staticmethod
        ...     def _check(group):
        ...         assert group["lr"] >= 0
        ...     def _updater(self, like, group):
        ...         def update(param, grad, state):
        ...             param -= group["lr"] * np.sign(grad)
        ...         return update
        >>> w = ag.tensor([1.0, -1.0], requires_grad=True)
        >>> w.grad = ag.tensor([3.0, -7.0])
        >>> SignDescent([w]).step()
        >>> w.numpy()
        array([ 0.75, -0.75])
    """

    def __init__(self, params: Tree, defaults: Group) -> None:
        # Shared by all parameters of a type of array, dtype and device.
        self._scratches: dict[Any, Scratch] = {}
        # The device of the parameter that is updated.
        self._device: Device | None = None
        self._fused_steps = FusedSteps()
        self._spares = _Spares()
        super().__init__(params, defaults)

    @abstractmethod
    def _updater(self, like: Any, group: Group) -> Update:
        """Return the function that updates the parameters of a group in one step.

        Args:
            like: an array of the type, dtype and device of those parameters.
            group: the options.
        """

    def _new_state(self, param: Any, group: Group) -> dict[str, Any]:
        """Return the state of a parameter before its first step.

        Args:
            param: its array.
            group: the options.
        """
        return {}

    def _steps(self, grads: Tree, has_closure: bool, off_loop: int | None) -> Steps:
        loss = (yield None) if has_closure else None
        found, groups = self._gradients(grads), [*map(plain_options, self.param_groups)]
        if off_loop is not None and _is_large(found, off_loop):
            values = NewValues(found, self.state, self._spares)
            # The options of now: a schedule may set others while the worker reads them.
            yield functools.partial(self._apply, found, values.places, [*map(dict, groups)])
            values.publish(self.state)
        else:
            self._apply(found, None, groups)
        return loss

    def _apply(self, found: list[Entries], places: Places | None, groups: list[Group]) -> None:
        """Update parameters by their gradients, which fit.

        The new values go into the arrays that `places` returns; without it, into those of the parameters.
        """
        follow_streams()
        devices = (param._device for entries in found for param, _ in entries)
        with record_step(f"{type(self).__name__}.step", devices):
            self._apply_to_groups(found, places, groups)

    def _apply_to_groups(self, found: list[Entries], places: Places | None, groups: list[Group]) -> None:
        if several_devices[0]:
            with keep_device():
                for group, given in zip(groups, found, strict=True):
                    for device, entries in _by_device(given).items():
                        use_device(device)
                        self._apply_group(group, entries, places)
            return
        for group, given in zip(groups, found, strict=True):
            self._apply_group(group, given, places)

    def _apply_group(self, group: Group, given: Entries, places: Places | None) -> None:
        """Update the parameters of a group by their gradients."""
        maximize = group.get("maximize", False)
        entries = self._apply_fused(group, given, maximize) if COMPILED_TYPES else given
        if places is None and self._update_without_state(group, entries):
            return
        # All states first: where memory ends, no parameter has been updated.
        states = self.state
        fresh = {param: self._new_state(param._data, group) for param, _ in entries if param not in states}
        kind, dtype, device = None, None, None
        found = (places or self._places)(entries, fresh)
        for (param, grad), (data, state) in zip(entries, found, strict=True):
            if data.dtype is not dtype or param._device is not device or type(data) is not kind:
                kind, dtype, device = type(data), data.dtype, param._device
                self._device = device
                update = self._updater(data, group)
                negated = self._scratch(data, 1, "negated") if maximize else None
            gradient = grad if negated is None else np.negative(grad, *negated[data.shape])
            try:
                update(data, gradient, state)
            except KeyError as error:
                # An option that needs more state was set since the last step.
                given_states = [(param, state)] if places else [(one, self.state[one]) for one, _ in entries]
                if not self._add_state(error.args[0], given_states, group):
                    raise
                update(data, gradient, state)

    def _add_state(self, name: str, states: Iterable[tuple[Tensor, dict[str, Any]]], group: Group) -> bool:
        """Add what states lack by the options of now, if `name` is among it; tell whether it is."""
        missing = [(state, self._missing_state(param, state, group)) for param, state in states]
        if not any(name in added for _, added in missing):
            return False
        for state, added in missing:
            state.update(added)
        return True

    def _missing_state(self, param: Tensor, state: Mapping[str, Any], group: Group) -> dict[str, Any]:
        new = on_device_of(param._data, self._new_state, group)
        return {name: value for name, value in new.items() if name not in state}

    def _update_without_state(self, group: Group, entries: Entries) -> bool:
        """Update the parameters of a group in place, if no state is needed; tell whether that was done.

        What is done for each parameter otherwise takes as long as the update of a small one.
        """
        return False

    def _places(self, entries: Entries, fresh: dict[Tensor, dict[str, Any]]) -> Iterable[tuple[Any, dict[str, Any]]]:
        """Return the arrays and the states of parameters, to be updated in place."""
        states = self.state
        begin_writes([param for param, _ in entries])
        if fresh:
            states.update(fresh)
        return [(param._data, states[param]) for param, _ in entries]

    def _apply_fused(self, group: Group, entries: Entries, maximize: bool) -> Entries:
        """Update what can be updated by kernels; return the other entries."""

        def fused_update(param: Any, grad: Any, state: Mapping[str, Any]) -> FusedUpdate | None:
            return self._fused_update(param, -grad if maximize else grad, state, group)

        return self._fused_steps.step(entries, self.state, fused_update)

    def _fused_update(self, param: Any, grad: Any, state: Mapping[str, Any], group: Group) -> FusedUpdate | None:
        """Return what the update of a parameter does as a formula of elementwise operations; None if it cannot be that.

        It writes into none of its arguments. `step` applies the formula to many parameters in one launch where there is
        a KernelCompiler for their arrays.

        Args:
            param: the array to update.
            grad: its gradient, of the same shape and dtype.
            state: the parameter's state by name; empty in the first step.
            group: the options.
        """
        return None

    def _has_bits_of_formula(self, group: Group) -> bool:
        """Tell whether `_updater` computes NumPy's arrays as `_fused_update` says, bit for bit."""
        return True

    def _new_values(self, params: Iterable[Tensor]) -> NewValues:
        """Return what collects new values of parameters and states, which are computed elsewhere."""
        return NewValues([[(param, None) for param in params]], {}, self._spares)

    def _check_state(self, number: int, param: Tensor, state: Mapping[str, Any], group: Group) -> None:
        if missing := self._missing_state(param, state, group):
            raise ArgumentError(
                f"the state of parameter {number} in state_dict has {', '.join(map(repr, state))}, but no "
                f"{next(iter(missing))!r}, which {type(self).__name__} needs: is it that of another optimizer?"
            )

    def _scratch(self, like: Any, count: int, use: str = "update") -> Scratch:
        """Return scratch arrays of the type and dtype of `like`, on the device of the parameter that is updated."""
        key = (type(like), like.dtype, self._device, count, use)
        found = self._scratches.get(key)
        if found is None:
            found = self._scratches[key] = Scratch(like, count)
        return found


@final
class _Spares(dict[Tensor, dict[str, Any]]):
    """By parameter, what the last awaited update has replaced; the next one writes into these arrays again.

    They have the names of its state, and "" is that of its own array. New memory would cost more than the update.
    """

    __slots__ = ()

    def __reduce__(self) -> Any:
        # A copy of an optimizer begins without.
        return _Spares, ()

    def copy_of(self, param: Tensor, name: str, array: Any) -> Any:
        """Return a copy of an array of a parameter: in the spare array of that name if nobody else has it."""
        if not isinstance(array, np.ndarray):
            return array
        copy = self.memory_for(param, name, array)
        np.copyto(copy, array)
        return copy

    def memory_for(self, param: Tensor, name: str, array: np.ndarray) -> np.ndarray:
        """Return an array like an array of a parameter, of any content: the spare one of that name if it is free."""
        spares = self.get(param)
        if spares is not None:
            spare = spares.get(name)
            # Held by the dict, the variable and the argument.
            is_free = getrefcount(spare) == _SPARE
            if type(spare) is np.ndarray and is_free and spare.base is None and _layout(spare) == _layout(array):
                return spare
        return np.empty_like(array)


_layout = attrgetter("shape", "dtype", "strides")
#: The result of `getrefcount` for a spare that nobody else has.
_SPARE = 3


@final
class NewValues:
    """New values of parameters and their states, which a worker computes and the loop publishes.

    Args:
        found: the parameters.
        states: the states of those that have one.
        spares: arrays to compute in.
    """

    __slots__ = ("_places", "_spares", "_states", "_versions", "memory_for")

    def __init__(self, found: list[Entries], states: dict[Tensor, dict[str, Any]], spares: _Spares) -> None:
        self._versions = [(param, version_of(param)) for entries in found for param, _ in entries]
        self._states = dict(states)
        self._spares = spares
        #: Returns an array of any content, like that of a parameter (of the name "") or of its state.
        self.memory_for: Callable[[Tensor, str, np.ndarray], np.ndarray] = spares.memory_for
        self._places: list[tuple[Tensor, Any, dict[str, Any]]] = []

    def places(self, entries: Entries, fresh: dict[Tensor, dict[str, Any]]) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Yield copies of the arrays and the states of parameters, to be updated in place."""
        copy_of = self._spares.copy_of
        for param, _ in entries:
            old = self._states.get(param)
            data = copy_of(param, "", param._data)
            if old is None:
                state = fresh[param]
            else:
                state = {name: copy_of(param, name, value) for name, value in old.items()}
            self.put(param, data, state)
            yield data, state

    def put(self, param: Tensor, data: Any, state: dict[str, Any]) -> None:
        """Note the new values of a parameter and its state."""
        self._places.append((param, data, state))

    def publish(self, states: dict[Tensor, dict[str, Any]]) -> None:
        """Put the new values in place of the old ones, all at once.

        Raises:
            OverlappingStepsError: a parameter was written into since the worker began.
        """
        for param, version in self._versions:
            if version_of(param) != version:
                raise OverlappingStepsError(
                    f"a parameter of shape {param.shape} was written into while step_async() computed its new value, "
                    "so nothing was updated: await the step before that write"
                )
        spares, no_state = self._spares, dict[str, Any]()
        for param, data, state in self._places:
            spares[param] = {"": param._data, **states.get(param, no_state)}
            param._data = data
            # A parameter requires grad, which its meta says.
            param._meta.has_shared_array = False  # type: ignore[union-attr]
            param._bump_version()
            states[param] = state
        # A worker may refer to this a moment longer, and must not keep what the next update writes into.
        self._places, self._states = [], {}


def _by_device(entries: Entries) -> dict[Any, Entries]:
    """Return the parameters of each device."""
    found: dict[Any, Entries] = {}
    for entry in entries:
        found.setdefault(entry[0]._device, []).append(entry)
    return found


def _is_large(found: list[Entries], size: int) -> bool:
    """Tell whether parameters in this process's memory have more than so many numbers."""
    total = 0
    for entries in found:
        for param, _ in entries:
            if not isinstance(param._data, np.ndarray) or not param._device.has_host_arrays:
                return False
            total += param._data.size
    return total > size
