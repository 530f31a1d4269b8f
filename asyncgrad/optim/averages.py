"""Means over time: exponential moving averages of parameters, and of gradients over micro-batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import add, mul, setitem
from typing import Any, final

from ..core.arrays.interception import on_device_of, on_device_of_arguments
from ..core.arrays.values import as_array
from ..core.graph.saved_hooks import prepare_write
from ..core.settings.arguments import must_be, number, whole_number
from ..core.tensor import Tensor
from ..core.tree.structure import Tree, TreeStructure, first_places, flatten, leaves_like, paths, unflatten
from ..errors import ArgumentError, ArgumentTypeError
from .gradients import check_array

__all__ = ["ExponentialMovingAverage", "GradientAccumulator"]


@final
class ExponentialMovingAverage:
    """The exponential moving average of parameters: `average = decay * average + (1 - decay) * parameter`.

    Args:
        params: a tree of tensors, or an iterable of them.
        decay: the share of the old average, at least 0 and below 1.

    Attributes:
        decay: that share.
        num_updates: how often `update` was called. The first call takes over the parameters as they are.

    Raises:
        ArgumentError: `decay` is out of range.
        ArgumentTypeError: a parameter is not a tensor.

    Source: torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn.

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad import optim
        >>> w = ag.tensor([0.0], requires_grad=True)
        >>> average = optim.ExponentialMovingAverage({"w": w}, decay=0.75)
        >>> average.update()
        >>> with ag.no_grad():
        ...     w += 4.0
        >>> average.update()
        >>> average.averages()["w"].tolist(), w.tolist()
        ([1.0], [4.0])
        >>> with average.average_parameters():
        ...     print(w.tolist())
        [1.0]
        >>> w.tolist()
        [4.0]
    """

    def __init__(self, params: Tree, decay: float = 0.999) -> None:
        if not 0 <= number(decay, "decay") < 1:
            raise ArgumentError(f"decay must be at least 0 and below 1, not {decay}")
        self.decay: float = float(decay)
        self.num_updates: int = 0
        found, self._structure = _tensors(params)
        #: For each leaf its number, or that of the same one in another place of a model.
        self._places = first_places(self._structure, found)
        self._params = [param for index, param in enumerate(found) if self._places[index] == index]
        self._averages = [_copied(param._data) for param in self._params]

    def __repr__(self) -> str:
        count = len(self._params)
        return f"ExponentialMovingAverage({count} parameters, decay={self.decay:g}, {self.num_updates} updates)"

    def update(self) -> None:
        """Take the parameters as they are now into the average. Call it after each step of the optimizer."""
        self.num_updates += 1
        for index, param in enumerate(self._params):
            average, data = self._averages[index], param._data
            if self.num_updates == 1 or data.dtype.kind not in "fc":
                # An integer buffer counts something, and has no mean.
                self._averages[index] = _copied(data)
            else:
                # A new array, since `averages` hands out the old one.
                self._averages[index] = as_array(_moved_average(data, average, 1 - self.decay))

    def averages(self) -> Any:
        """Return the averages, a tree like the parameters, of tensors that do not require grad and never change."""
        pairs = zip(self._averages, self._params, strict=True)
        tensors = iter([Tensor(array, None, 0, param._device) for array, param in pairs])
        found: list[Tensor] = []
        for index, place in enumerate(self._places):
            found.append(next(tensors) if place == index else found[place])
        return unflatten(self._structure, found)

    @contextmanager
    def average_parameters(self) -> Iterator[None]:
        """Inside, the parameters have the values of the averages, for an evaluation; afterwards their own again."""
        own = [_copied(param._data) for param in self._params]
        self.copy_to()
        try:
            yield
        finally:
            _write(self._params, own)

    def copy_to(self) -> None:
        """Write the averages into the parameters."""
        _write(self._params, self._averages)

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of the averages and what they depend on; it can be pickled."""
        return {
            "decay": self.decay,
            "num_updates": self.num_updates,
            "averages": [average.copy() for average in self._averages],
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a result of `state_dict`.

        Raises:
            ArgumentError: it is of other parameters; the message names the first by its path, with both shapes.
        """
        if not isinstance(state_dict, Mapping) or not {"decay", "num_updates", "averages"} <= set(state_dict):
            raise ArgumentError("state_dict must be what ExponentialMovingAverage.state_dict() returned")
        arrays = state_dict["averages"]
        if len(arrays) != len(self._params):
            raise ArgumentError(
                f"state_dict has averages of {len(arrays)} parameters, but there are {len(self._params)}"
            )
        places = zip(self._places, paths(self._structure, "params"), strict=True)
        names = [name for index, (place, name) in enumerate(places) if place == index]
        for name, array, param in zip(names, arrays, self._params, strict=True):
            if array.shape != param.shape:
                raise ArgumentError(
                    f"the average of {name} in state_dict has shape {array.shape}, but the parameter {param.shape}"
                )
        self.decay = number(state_dict["decay"], "decay")
        self.num_updates = whole_number(state_dict["num_updates"], "num_updates")
        self._averages = [array.astype(param.dtype) for array, param in zip(arrays, self._params, strict=True)]


@final
class GradientAccumulator:
    """The sum of gradients over the micro-batches of one step, in trees that `optimizer.step(grads)` takes.

    Gradients in `.grad` accumulate by themselves, from one backward to the next.

    Attributes:
        count: how many gradients were added since the last `reset`.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import optim
        >>> accumulator = optim.GradientAccumulator()
        >>> for micro_batch in (1.0, 3.0):
        ...     accumulator.add({"w": np.array([micro_batch])})
        >>> accumulator.mean()
        {'w': array([2.])}
        >>> accumulator.count
        0
    """

    def __init__(self) -> None:
        self.count: int = 0
        self._structure: TreeStructure | None = None
        self._sums: list[Any] = []

    def add(self, grads: Tree) -> None:
        """Add a tree of gradients; one that is None counts as zeros.

        Raises:
            ArgumentError: its structure or a shape differs from that of the others; nothing has been added then.
        """
        if self._structure is None:
            found, structure = flatten(grads)
            for name, leaf in zip(paths(structure, "grads"), found, strict=True):
                check_array(name, leaf)
            self._sums, self._structure, self.count = found, structure, 1
            return
        entries = leaves_like(self._structure, grads, "grads", "the gradients so far", allows_none=True)
        for name, total, entry in zip(paths(self._structure, "grads"), self._sums, entries, strict=True):
            if entry is None:
                continue
            check_array(name, entry)
            if entry.shape != total.shape:
                raise ArgumentError(
                    f"{name} has shape {entry.shape}, but that of the gradients so far is {total.shape}"
                )
        # New arrays: the first ones belong to the caller. One gradient in two places of a model stays one.
        pairs = list(zip(self._sums, entries, strict=True))
        sums = {(id(total), id(entry)): _sum(total, entry) for total, entry in pairs}
        self._sums = [sums[id(total), id(entry)] for total, entry in pairs]
        self.count += 1

    def sum(self) -> Any:
        """Return the sum of the gradients, and reset.

        Raises:
            ArgumentError: none was added.
        """
        found = unflatten(self._require_structure(), self._sums)
        self.reset()
        return found

    def mean(self) -> Any:
        """Return the mean of the gradients, and reset.

        Raises:
            ArgumentError: none was added.
        """
        structure, share = self._require_structure(), 1.0 / max(self.count, 1)
        means = {id(total): _scaled(total, share) for total in self._sums}
        found = unflatten(structure, [means[id(total)] for total in self._sums])
        self.reset()
        return found

    def reset(self) -> None:
        """Forget all gradients."""
        self.count, self._structure, self._sums = 0, None, []

    def _require_structure(self) -> TreeStructure:
        if self._structure is None:
            raise ArgumentError("no gradients were added since the last step: call add(grads) first")
        return self._structure


def _tensors(params: Tree) -> tuple[list[Tensor], TreeStructure]:
    tree = list(params) if isinstance(params, Iterator) else params
    found, structure = flatten(tree)
    for name, leaf in zip(paths(structure, "params"), found, strict=True):
        if not isinstance(leaf, Tensor):
            raise ArgumentTypeError(must_be(name, "a Tensor", leaf))
    return found, structure


def _write(params: list[Tensor], arrays: list[Any]) -> None:
    for param, array in zip(params, arrays, strict=True):
        prepare_write(param)
        on_device_of(param._data, setitem, ..., array)
        param._bump_version()


@on_device_of_arguments
def _copied(array: Any) -> Any:
    return array.copy()


@on_device_of_arguments
def _moved_average(data: Any, average: Any, share: float) -> Any:
    return average + (data - average) * data.real.dtype.type(share)


def _sum(total: Any, entry: Any) -> Any:
    if entry is None:
        return total
    if isinstance(total, Tensor):
        more = entry._data if isinstance(entry, Tensor) else entry
        return Tensor(as_array(on_device_of(total._data, add, more)), None, 0, total._device)
    return total + (entry._data if isinstance(entry, Tensor) else entry)


def _scaled(total: Any, share: float) -> Any:
    if isinstance(total, Tensor):
        return Tensor(as_array(on_device_of(total._data, mul, share)), None, 0, total._device)
    return total * share
