"""ModelCalls: how a learner calls its model and its loss, beside the event loop and on the model's device."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextvars import Context
from typing import Any, final

import numpy as np

from ..core.engine.device import Device, device
from ..core.engine.measured_calls import MeasuredCalls
from ..core.settings.context import GENERATOR, SeededGenerator, no_grad
from ..core.tensor import tensor
from ..core.tree.structure import map as map_tree
from ..memory.checkpoint.rng import RandomStreams, StreamReplay
from ..memory.checkpoint.steps import ContextAwaitable
from ..nn.modules.module import Module

__all__ = ["ModelCalls", "in_context"]


async def in_context(work: Coroutine[object, None, Any], context: Context) -> Any:
    """Await something in a copy of a context; the caller's random numbers, and NumPy's, stay as they are."""
    streams = RandomStreams(())
    return await ContextAwaitable(work, context.copy(), StreamReplay(streams, streams.start).run)


@final
class ModelCalls:
    """Calls a model and a loss: here while they are short, on a worker once they are known to take long.

    Args:
        model: where its parameters are, batches go.
        loss: `loss(model, batch)`, plain or async.
    """

    def __init__(self, model: Module, loss: Callable[..., object]) -> None:
        self.loss: Callable[..., object] = loss
        self._device: Device = next((param.device for param in model.parameters()), device("cpu"))
        self._of_model, self._of_loss, self._of_comparison = MeasuredCalls(), MeasuredCalls(), MeasuredCalls()

    async def outputs(self, model: Any, batch: Any) -> Any:
        """Return what a model answers to a batch of inputs, without a history."""
        with no_grad():
            found = await self._of_model.call(model, self._beside_model(batch))
        await self.settle()
        return found

    async def differentiable_loss(self, model: Module, batch: Any, is_replay: bool) -> Any:
        """Return what the loss returns for a batch, with its history.

        Args:
            model: the model that learns.
            batch: the stacked examples.
            is_replay: whether NumPy's global stream is to stay as it is.
        """
        given = self._beside_model(batch)
        if not is_replay:
            return await self._of_loss.call(self.loss, model, given)
        # A worker may call it, while the event loop has NumPy's global stream as others know it.
        streams = RandomStreams(())
        return await self._of_loss.call(StreamReplay(streams, streams.start).run, self.loss, model, given)

    async def losses(self, models: Mapping[str, Any], batch: Any, seeds: Sequence[int]) -> dict[str, float]:
        """Return the loss of each of some models on a batch; call it by `in_context`.

        Args:
            models: the models by their names.
            batch: the stacked examples.
            seeds: of the random numbers that the losses draw.
        """
        GENERATOR.set(SeededGenerator(list(seeds)))
        found = {}
        for name, model in models.items():
            with no_grad():
                loss: Any = await self._of_comparison.call(self.loss, model, self._beside_model(batch))
            await self.settle()
            found[name] = float(loss.item())
        return found

    async def settle(self) -> None:
        """Wait until the results of the model can be read without the event loop waiting for the device."""
        if self._device.is_asynchronous:
            await self._device.synchronize()

    def _beside_model(self, batch: Any) -> Any:
        """Return a batch of arrays; of a model whose arrays are not NumPy's, as tensors on its device."""
        place = self._device
        if place.has_host_arrays:
            return batch
        return map_tree(lambda leaf: tensor(leaf, device=place) if isinstance(leaf, np.ndarray) else leaf, batch)
