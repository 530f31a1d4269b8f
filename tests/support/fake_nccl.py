"""A stand-in for NCCL where there is no GPU: communicators of ranks in one process, on the stand-in for CuPy."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, final

import numpy as np
import pytest

from tests.support.fake_cupy import Gate, get_device, stream_at

__all__ = ["NcclCommunicator", "Ring", "fake_nccl"]

SUM, AVERAGE = 0, 4
REALS = {6: np.float16, 7: np.float32, 8: np.float64}


@final
class Ring:
    """What joins the communicators of two ranks: the n-th calls of both belong together."""

    def __init__(self) -> None:
        #: The calls of each rank: addresses, count, dtype and operation, and what the rank's stream waits for.
        self.calls: tuple[list[Any], list[Any]] = ([], [])
        self._mutex = threading.Lock()

    def ranks(self) -> list[NcclCommunicator]:
        """Return the communicator of each rank."""
        return [NcclCommunicator(2, self, rank) for rank in (0, 1)]

    def add(self, rank: int, call: Any) -> None:
        """Add a call; once the other rank has made its own, both are done."""
        with self._mutex:
            self._add(rank, call)

    def _add(self, rank: int, call: Any) -> None:
        self.calls[rank].append(call)
        number = len(self.calls[rank])
        if len(self.calls[1 - rank]) < number:
            return
        pair = [calls[number - 1] for calls in self.calls]
        assert pair[0][2:5] == pair[1][2:5], "the ranks exchange different things"
        _, _, count, number, operation, _ = pair[0]
        kind = np.dtype(REALS[number])

        def at(address: int) -> np.ndarray:
            return np.frombuffer((ctypes.c_char * (count * kind.itemsize)).from_address(address), kind)

        total = at(pair[0][0]) + at(pair[1][0])
        for _, received, *_, gate in pair:
            at(received)[:] = total / 2 if operation == AVERAGE else total
            gate.set()


@final
class NcclCommunicator:
    """`cupy.cuda.nccl.NcclCommunicator` of one rank.

    Args:
        ranks: how many there are, which is two.
        ring: what joins it to the other rank; NCCL has an id for it.
        rank: the number, which is that of the GPU.
    """

    def __init__(self, ranks: int, ring: Ring, rank: int) -> None:
        assert ranks == 2
        self._ring = ring
        self._rank = rank
        #: Whether calls fail.
        self.is_broken = False

    def allReduce(  # noqa: N802
        self, sent: int, received: int, count: int, dtype: int, operation: int, stream: int
    ) -> None:
        """Put the sum of the ranks' numbers in a buffer, as work on a stream, which waits for the other ranks."""
        if self.is_broken:
            raise RuntimeError("NCCL_ERROR_SYSTEM_ERROR: unhandled system error")
        assert get_device() == self._rank
        found = stream_at(stream)
        assert found.device_id == self._rank
        gate = Gate()
        found.gates = (*found.gates, gate)
        self._ring.add(self._rank, (sent, received, count, dtype, operation, gate))


@contextmanager
def fake_nccl() -> Iterator[None]:
    """Put the stand-in in the place of `cupy.cuda.nccl`, while that for CuPy is in the place of CuPy."""
    module = ModuleType("cupy.cuda.nccl")
    vars(module).update(NcclCommunicator=NcclCommunicator, get_unique_id=Ring)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "cupy.cuda.nccl", module)
        patch.setattr(sys.modules["cupy.cuda"], "nccl", module, raising=False)
        yield
