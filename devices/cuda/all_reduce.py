"""A hook that sums or averages a leaf's gradient over the GPUs of several processes, by NCCL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from asyncgrad.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .streams import CudaStream, Gpu

__all__ = ["all_reduce_hook"]

#: NCCL's number of each dtype that it adds, and how many of its numbers an element has.
_DTYPES = {"float16": (6, 1), "float32": (7, 1), "float64": (8, 1), "complex64": (7, 2), "complex128": (8, 2)}
#: NCCL's numbers of its operations.
_SUM, _AVERAGE = 0, 4


def all_reduce_hook(communicator: Any, average: bool = True) -> Callable[[Any], Awaitable[None]]:
    """Return a post-accumulate-grad hook that replaces `.grad` by its sum or mean over the ranks of a communicator.

    Each rank is a process with a GPU and a copy of the parameters. The hook is registered on the same parameters in
    each, and each backward of a rank reaches the same ones: NCCL pairs the calls of all ranks by their order, which is
    that of the leaves in the graph. The exchange runs on a stream of its own, and the hook suspends meanwhile: the
    backward goes on with other nodes. If the backward fails or is cancelled, `.grad` is again what it was before; what
    the other ranks have begun ends only when `communicator.abort()` is called there.

    Args:
        communicator: a `cupy.cuda.nccl.NcclCommunicator` of all ranks, made while the GPU of the rank was the current
            one.
        average: divide the sum by the number of ranks.

    Returns:
        An async hook for `t.register_post_accumulate_grad_hook`. A gradient that is None counts as zeros. The hook
        raises a DeviceError for a gradient that is not on a GPU, or of a dtype that NCCL does not add.

    Source: DistributedDataParallel of PyTorch.
    """
    operation = _AVERAGE if average else _SUM
    #: The stream of the exchange, once there is one.
    streams: dict[Gpu, CudaStream] = {}

    async def all_reduce(leaf: Any) -> None:
        device, kind = leaf.device, _DTYPES.get(leaf.dtype.name)
        if device.kind != "cuda" or kind is None:
            raise DeviceError(
                f"all_reduce_hook got a gradient of dtype {leaf.dtype} on '{device}': NCCL adds gradients of dtype "
                f"{', '.join(_DTYPES)} on 'cuda:N'"
            )
        number, parts = kind
        with device.gpu:
            exchange = streams.get(device)
            if exchange is None:
                exchange = streams[device] = device.stream()
            current = device.current_stream()
            # Of the memory that the current stream uses in its order.
            grad = np.zeros_like(leaf.detach()) if leaf.grad is None else leaf.grad.detach()
            # In the same order on all ranks.
            sent = grad._data if grad._data.flags.c_contiguous else grad._data.copy()
            # Apart from the gradient, which a failure brings back.
            received = np.empty_like(sent, order="C")
            exchange.wait_stream(current)
            communicator.allReduce(
                sent.data.ptr, received.data.ptr, sent.size * parts, number, operation, exchange.cuda_stream.ptr
            )
            done = exchange.record_event()
            device.hold([done.cuda_event], (sent, received))
        await done.synchronize()
        with device.gpu:
            current.wait_event(done)
            reduced = type(grad)(received, None, 0, device)
            if sent is not grad._data:
                # In the order in memory that the gradient had, which is the parameter's.
                reduced, ordered = grad.clone(), reduced
                reduced[...] = ordered
        leaf.grad = reduced

    return all_reduce
