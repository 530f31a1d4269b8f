"""Random numbers of PyTorch that come of asyncgrad's: a call that is made again draws the same ones.

PyTorch has one generator for all threads. A call that may draw seeds it from `ag.random`, and puts the state that it
had back. What makes a call again, such as `ag.checkpoint`, replays `ag.random`, and with it the numbers of PyTorch.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from functools import partial

from ..core.settings.process import has_effect, hold_in_forks, set_state_of_torch
from ..random import generator
from .torch_arrays import torch

__all__ = ["seeded"]

#: Held by the call that draws: another one at the same time would take some of its numbers. Reentrant: the call
#: itself may fork.
_DRAWING = hold_in_forks(threading.RLock())
#: Whether a call that encloses this one holds it, on this thread or on one that waits for this one.
_IS_DRAWING: ContextVar[bool] = ContextVar("asyncgrad_torch_is_drawing", default=False)


@contextlib.contextmanager
def seeded() -> Iterator[None]:
    """Have PyTorch draw, on the cpu, numbers that the state of `ag.random` decides; one block after the other."""
    if _IS_DRAWING.get() or not has_effect("torch"):
        yield
        return
    seed = int(generator().integers(2**63))
    with _DRAWING:
        token = _IS_DRAWING.set(True)
        before = torch.get_rng_state()
        try:
            set_state_of_torch(partial(torch.default_generator.manual_seed, seed))
            yield
        finally:
            set_state_of_torch(partial(torch.set_rng_state, before))
            _IS_DRAWING.reset(token)
