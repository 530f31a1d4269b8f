"""What sends tensors elsewhere takes those in the memory of the host, and says so of others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.errors import DeviceError
from tests.support.device_arrays import DEVICES


@pytest.mark.parametrize("kind", DEVICES)
async def test_a_stage_takes_no_tensor_of_a_gpu(kind: str) -> None:
    async def main(device: Any) -> None:
        transport = ag.distributed.SimulatedTransport(["a"])
        async with ag.distributed.stage(np.tanh, transport=transport, worker="a") as stage:
            await stage(ag.tensor([1.0], device=device))

    with DEVICES[kind]() as device, pytest.raises(DeviceError, match=r"stage .* on '.*': write t\.to\('cpu'\)"):
        await main(device)


@pytest.mark.parametrize("kind", DEVICES)
def test_replicas_on_gpus_are_told_what_there_is_for_them(kind: str) -> None:
    with DEVICES[kind]() as device:
        param = ag.tensor([1.0], device=device, requires_grad=True)

        with pytest.raises(DeviceError, match="all_reduce_hook"):
            ag.distributed.DataParallel([param], ag.distributed.InProcessGroup(2).member(0))
