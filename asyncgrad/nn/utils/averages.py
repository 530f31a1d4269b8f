"""AveragedModel: a copy of a model with the means of its parameters over the steps of a training."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from operator import setitem
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ...core.arrays.interception import on_device_of
from ...core.graph.saved_hooks import prepare_write
from ...core.settings.arguments import must_be, number, truth
from ...core.settings.context import no_grad
from ...core.tensor import Tensor, asarray, tensor
from ...errors import ArgumentError, ArgumentTypeError
from ..modules.module import Module
from ..modules.normalization import BatchNorm

if TYPE_CHECKING:
    from ...core.engine.device import Device

__all__ = [
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

#: Returns a new average, of the old one, of the current value, and of how many values are in the old one.
Average = Callable[[Tensor, Tensor, int], Tensor]
#: Writes the new averages into a list of the old ones.
Averages = Callable[[list[Tensor], list[Tensor], int], object]


def get_swa_avg_fn() -> Average:
    """Return the function that makes the mean of all values of a parameter, for AveragedModel."""

    def averaged(average: Tensor, current: Tensor, count: int) -> Tensor:
        return average + (current - average) / (count + 1)

    return averaged


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """Return the function that makes an exponential moving average of a parameter, for AveragedModel.

    Args:
        decay: the share of the old average, from 0 to 1.

    Raises:
        ArgumentError: `decay` is out of range.
    """
    if number(decay, "decay", 0) > 1:
        raise ArgumentError(f"decay must be from 0 to 1, not {decay}")

    def averaged(average: Tensor, current: Tensor, count: int) -> Tensor:
        return decay * average + (1 - decay) * current

    return averaged


def get_swa_multi_avg_fn() -> Averages:
    """Return the function that makes the mean of all values of several parameters, for AveragedModel."""
    return _for_lists(get_swa_avg_fn())


def get_ema_multi_avg_fn(decay: float = 0.999) -> Averages:
    """Return the function that makes exponential moving averages of several parameters, for AveragedModel.

    Args:
        decay: the share of the old averages, from 0 to 1.

    Raises:
        ArgumentError: `decay` is out of range.
    """
    return _for_lists(get_ema_avg_fn(decay))


def _for_lists(averaged: Average) -> Averages:
    def average_all(averages: Sequence[Tensor], currents: Sequence[Tensor], count: Any) -> None:
        for average, current in zip(averages, currents, strict=True):
            _write(average, averaged(average, current, count))

    return average_all


@final
class AveragedModel(Module):
    """A copy of a model whose parameters are the means of the model's, over the calls of `update_parameters`.

    Args:
        model: the model, which is copied.
        device: where the copy is, if not where the model is.
        avg_fn: returns a new average of the average before, the current value, and the number of values before; by
            default the mean of all values.
        multi_avg_fn: does so in place for all parameters, in two lists.
        use_buffers: average buffers too; otherwise they are those of the model.

    Attributes:
        module: the copy.
        n_averaged: how often `update_parameters` was called, a buffer.

    Raises:
        ArgumentError: both functions are given.
        ArgumentTypeError: `model` is no Module.

    Source: torch.optim.swa_utils.AveragedModel; P. Izmailov et al., "Averaging weights leads to wider optima and better
    generalization" (2018).

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> from asyncgrad import nn
        >>> model = nn.Linear(1, 1, bias=False)
        >>> averaged = nn.utils.AveragedModel(model)
        >>> for value in (1.0, 3.0):
        ...     _ = model.update({"weight": np.array([[value]])})
        ...     averaged.update_parameters(model)
        >>> averaged(np.ones(1)).item()
        2.0
    """

    def __init__(
        self,
        model: Module,
        device: str | Device | None = None,
        avg_fn: Average | None = None,
        multi_avg_fn: Averages | None = None,
        use_buffers: bool = False,
    ) -> None:
        if not isinstance(model, Module):
            raise ArgumentTypeError(must_be("model", "a Module", model))
        if avg_fn is not None and multi_avg_fn is not None:
            raise ArgumentError("give one of avg_fn and multi_avg_fn, not both")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module.to(device)
        self.register_buffer("n_averaged", tensor(np.zeros((), np.int64)))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = truth(use_buffers, "use_buffers")

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the copy returns."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the parameters of the model as they are now into the averages.

        Raises:
            ArgumentError: the model has other parameters, or other buffers.
        """
        averages, currents = self._pairs(model, True)
        if self.use_buffers:
            more = self._pairs(model, False)
            averages, currents = averages + more[0], currents + more[1]
        count = int(self.n_averaged)
        if not count:
            for average, current in zip(averages, currents, strict=True):
                _write(average, current)
        elif averages:
            average_all = self.multi_avg_fn or _for_lists(self.avg_fn or get_swa_avg_fn())
            with no_grad():
                average_all(averages, currents, count)
        if not self.use_buffers:
            for average, current in zip(*self._pairs(model, False), strict=True):
                _write(average, current)
        _write(self.n_averaged, count + 1)

    n_averaged: Tensor

    def _pairs(self, model: Module, are_parameters: bool) -> tuple[list[Tensor], list[Tensor]]:
        """Return the parameters or buffers of the copy and of the model, without their histories."""
        own, theirs = (
            dict(one.named_parameters() if are_parameters else one.named_buffers()) for one in (self.module, model)
        )
        for name in [*own, *theirs]:
            if name not in own or name not in theirs or own[name].shape != theirs[name].shape:
                raise ArgumentError(f"{name} differs between the averages and the model, or only one of them has it")
        found = [(own[name], theirs[name].detach()) for name in own]
        return [one.detach() for one, _ in found], [other.to(one.device) for one, other in found]


def update_bn(loader: Iterable[object], model: Module, device: str | Device | None = None) -> None:
    """Compute the running statistics of batch norms anew, as means over all batches of one pass.

    Args:
        loader: batches, each an array or a tuple or list whose first element is one.
        model: the model, which is called with each.
        device: where the batches are moved to.

    Source: torch.optim.swa_utils.update_bn.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> from asyncgrad import nn
        >>> model = nn.Sequential(nn.BatchNorm1d(1))
        >>> nn.utils.update_bn([np.array([[0.0], [2.0]]), np.array([[4.0], [6.0]])], model)
        >>> model[0].running_mean.tolist()
        [3.0]
    """
    norms: list[Any] = [one for one in model.modules() if isinstance(one, BatchNorm)]
    if not norms:
        return
    was_training, momenta = model.training, [norm.momentum for norm in norms]
    model.train()
    try:
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None
        with no_grad():
            for batch in loader:
                x: Any = batch[0] if isinstance(batch, (list, tuple)) else batch
                model(x if device is None else asarray(x).to(device))
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        model.train(was_training)


def _write(target: Tensor, value: Any) -> None:
    prepare_write(target)
    on_device_of(target._data, setitem, ..., value._data if isinstance(value, Tensor) else value)
    target._bump_version()
