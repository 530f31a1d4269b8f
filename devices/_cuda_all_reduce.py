"""A hook that sums or averages a leaf's gradient over the GPUs of several processes, by NCCL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from asyncgrad.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["all_reduce_hook"]

#: NCCL's numbers of the dtypes that it adds, and of its operations.
_DTYPES = {"float16": 6, "float32": 7, "float64": 8}
_SUM, _AVERAGE = 0, 4


def all_reduce_hook(communicator: Any, average: bool = True) -> Callable[[Any], Awaitable[None]]:
    """Return a post-accumulate-grad hook that replaces `.grad` by its sum or mean over the ranks of a communicator.

    Each rank is a process with a GPU and a copy of the parameters, and registers the hook on all of them in the same
    order. The exchange runs on a stream of its own, and the hook suspends meanwhile: the backward goes on with other
    nodes. If the backward fails, `.grad` is again what it was before.

    Args:
        communicator: a `cupy.cuda.nccl.NcclCommunicator` of all ranks.
        average: divide the sum by the number of ranks.

    Returns:
        An async hook for `t.register_post_accumulate_grad_hook`, which raises a DeviceError for a gradient that is not
        on a GPU, or of a dtype that NCCL does not add.

    Source: DistributedDataParallel of PyTorch.
    """
    operation = _AVERAGE if average else _SUM

    async def all_reduce(leaf: Any) -> None:
        device, grad = leaf.device, leaf.grad.detach()
        number = _DTYPES.get(grad.dtype.name)
        if device.kind != "cuda" or number is None:
            raise DeviceError(
                f"all_reduce_hook got a gradient of dtype {grad.dtype} on '{device}': NCCL adds gradients of dtype "
                f"{', '.join(_DTYPES)} on 'cuda:N'"
            )
        current, exchange = device.current_stream(), device.stream()
        exchange.wait_stream(current)
        with exchange:
            # In C order, and apart from the gradient, which a failure brings back.
            reduced = grad.copy()
            pointer = reduced._data.data.ptr
            communicator.allReduce(pointer, pointer, reduced.size, number, operation, exchange.cuda_stream.ptr)
        done = exchange.record_event()
        await done.synchronize()
        # The new gradient was made on the stream of the exchange, and is used on the current one from now on.
        current.wait_event(done)
        current.record_use(reduced._data)
        leaf.grad = reduced

    return all_reduce
