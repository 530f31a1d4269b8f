"""The default device: NumPy arrays in the memory of this process; heavy bodies run on worker threads."""

from __future__ import annotations

import inspect
from time import perf_counter
from typing import TYPE_CHECKING, Any, final

from asyncgrad.core.engine.device import Device
from asyncgrad.errors import DeviceError

from ._costs import Costs

if TYPE_CHECKING:
    from asyncgrad.core.engine.body import Body

__all__ = ["Cpu", "open_device"]


@final
class Cpu(Device):
    """NumPy on this machine's processor.

    A body that takes less than `ag.offload_threshold` runs in the thread that drives the backward. A body that is
    expected to take longer runs on one of the worker threads (`ag.workers`). The time is expected by the kind of the
    body and the shapes and dtypes of its arrays: first estimated, then measured.
    """

    __slots__ = ("_costs",)

    sees_all_bodies = False

    def __init__(self) -> None:
        self._costs = Costs()

    @property
    def name(self) -> str:
        """Always `cpu`."""
        return "cpu"

    def prefers_worker(self, body: Body) -> bool:
        """Return whether a body is expected to take longer than the threshold."""
        return self._costs.expected(*body.cost_key()) >= body.threshold

    def run_body(self, body: Body) -> Any:
        """Run a body here and measure its time; if it is heavy and may leave, return an awaitable instead."""
        kind, estimate = body.cost_key()
        if body.may_leave and self._costs.expected(kind, estimate) >= body.threshold:
            return body.elsewhere(lambda seconds: self._costs.note(kind, estimate, seconds))
        began = perf_counter()
        outputs = body()
        # An awaitable body has only begun: its time is unknown.
        if outputs.__class__ is tuple or not inspect.isawaitable(outputs):
            mean = self._costs.note(kind, estimate, perf_counter() - began)
            if mean is not None and mean < body.threshold / 4:
                body.note_cheap()
        return outputs


def open_device(index: int | None) -> Cpu:
    """Return the one cpu device.

    Raises:
        DeviceError: an index was given.
    """
    if index is not None:
        raise DeviceError(f"there is only one 'cpu' device, so there is no 'cpu:{index}': write 'cpu'")
    return Cpu()
