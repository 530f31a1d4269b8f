"""DataParallel: replicas of a model, whose gradients are averaged while the backward goes on.

A post-accumulate-grad hook on each parameter notes that its gradient is there. The hook that completes a bucket has it
summed over the replicas, and all hooks of the bucket wait for that, beside the rest of the backward. What a hook does
to `.grad` is rolled back if the backward fails. The last final callback is a vote: a backward succeeds at all replicas
or at none.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ..core.engine.current import outermost_of
from ..core.engine.eager_task import EagerTask, start_task
from ..core.graph.leaf import get_gradient_edge
from ..core.settings.arguments import takes, truth, whole_number
from ..core.settings.context import CURRENT_GRAPH_TASK, no_grad
from ..core.tensor import Tensor, asarray
from ..core.tree.structure import leaves as leaves_of
from ..errors import ArgumentTypeError, DeviceError, GraphError, ReplicaError
from ..nn.modules.module import Module
from .collective import Collective
from .concurrency import start_unawaited, wait_until_done

if TYPE_CHECKING:
    from ..core.engine.graph_task import GraphTask

__all__ = ["DataParallel"]


@final
class DataParallel:
    """A replica of a model: a backward leaves the mean of all replicas' gradients in `.grad`, the same bits at each.

    Each replica runs its part of the batch, in a block `with parallel.step():`; then their optimizers make equal steps.
    All run the same number of backward passes, one at a time, through the same parameters. A backward that fails or is
    cancelled at one replica fails at all, and changes no `.grad` at any. Parameters are on the CPU.

    Args:
        model: a Module, which this calls, or a tree of parameters.
        collective: the way to the other replicas, such as `InProcessGroup(2).member(0)`.
        bucket_bytes: how many bytes of gradients are exchanged at a time. Small buckets are begun with earlier, large
            ones cost less.
        average: whether `.grad` becomes the mean, rather than the sum.

    Raises:
        ArgumentTypeError: nothing requires grad.
        DeviceError: a parameter is on a GPU.

    Source: torch.nn.parallel.DistributedDataParallel.

    Example:
        >>> import asyncio, numpy as np, asyncgrad as ag
        >>> async def replica(collective, x):
        ...     w = ag.tensor(3.0, requires_grad=True)
        ...     with ag.distributed.DataParallel([w], collective):
        ...         await (w * x).backward()
        ...     return w.grad.item()
        >>> async def main():
        ...     group = ag.distributed.InProcessGroup(2)
        ...     return await asyncio.gather(replica(group.member(0), 1.0), replica(group.member(1), 5.0))
        >>> ag.run(main())
        [3.0, 3.0]
    """

    def __init__(
        self, model: object, collective: Collective, *, bucket_bytes: int = 25 << 20, average: bool = True
    ) -> None:
        found = model.parameters() if isinstance(model, Module) else leaves_of(model)
        self._params: list[Tensor] = list({id(one): one for one in found if _is_parameter(one)}.values())
        if not self._params:
            raise ArgumentTypeError(takes("DataParallel", "a Module or a tree of tensors that require grad", model))
        for param in self._params:
            if not param.device.has_host_arrays:
                raise DeviceError(
                    f"DataParallel exchanges gradients in the memory of the host, and a parameter of shape "
                    f"{param.shape} is on '{param.device}': for GPUs there is asyncgrad.devices.cuda.all_reduce_hook"
                )
        self.module: Any = model
        self.collective: Collective = collective
        self.is_average: bool = truth(average, "average")
        self.buckets: list[_Bucket] = _make_buckets(self._params, whole_number(bucket_bytes, "bucket_bytes", 1))
        self._is_paused = False
        self._rounds = 0
        self._aborting: set[EagerTask] = set()
        self._round: _Round | None = None
        self._hooks = [
            param.register_post_accumulate_grad_hook(_make_hook(self, bucket, place))
            for bucket in self.buckets
            for place, param in enumerate(bucket.params)
        ]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the Module."""
        return self.module(*args, **kwargs)

    async def synchronize(self) -> None:
        """Set the parameters of all replicas to those of rank 0. All of them await it, outside of a backward."""
        self._rounds += 1
        for index, bucket in enumerate(self.buckets):
            mine = [
                param.numpy() if self.collective.rank == 0 else np.zeros_like(param.numpy()) for param in bucket.params
            ]
            total = await self.collective.all_reduce((self._rounds, 0, index), bucket.join(mine))
            with no_grad():
                for param, value in zip(bucket.params, bucket.split(total), strict=True):
                    param[...] = value

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Exchange nothing in backward passes in this block; the next one averages their gradients with its own."""
        before, self._is_paused = self._is_paused, True
        try:
            yield
        finally:
            self._is_paused = before

    @contextmanager
    def step(self) -> Iterator[None]:
        """Hold the forward and the one backward of a step: where the block fails, the step fails at all replicas.

        Without it, a replica that fails before the first gradient of a parameter is there, as in its forward, leaves
        the others waiting for it.
        """
        before = self._rounds
        try:
            yield
        except BaseException as error:
            if self._rounds == before:
                self._rounds += 1
                what = f"failed with {type(error).__name__}: {error}"
                reason = f"the step of replica {self.collective.rank} {what}"
                aborting = self.collective.abort(self._rounds, reason)
                if not isinstance(aborting, bool):
                    start_unawaited(_wait_for(aborting), self._aborting, "abort a step")
            raise

    def remove(self) -> None:
        """Remove the hooks from the parameters."""
        for hook in self._hooks:
            hook.remove()

    def __enter__(self) -> DataParallel:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    async def exchange(self, bucket: _Bucket, place: int) -> None:
        """Average the gradient of a parameter; called by its hook."""
        if self._is_paused:
            return
        task: Any = CURRENT_GRAPH_TASK.get()
        outermost = outermost_of(task)
        if self._round is None:
            self._rounds += 1
            self._round = _Round(self, self._rounds, outermost)
        elif self._round.task_id != outermost.id:
            raise GraphError(
                "a replica runs one backward at a time: await the first before the second, or use no_sync()"
            )
        await self._round.exchange(task, bucket, place)

    def end_round(self) -> None:
        """Note that the backward has ended."""
        self._round = None


@final
class _Bucket:
    """Parameters whose gradients are exchanged together.

    Args:
        params: parameters of one dtype.
    """

    __slots__ = ("params",)

    def __init__(self, params: list[Tensor]) -> None:
        self.params: list[Tensor] = params

    def join(self, arrays: Iterable[Any]) -> np.ndarray:
        """Return the elements of an array for each parameter, and for each a 1, or a 0 where there is none."""
        given = list(arrays)
        parts = [
            np.zeros(param.size, param.dtype) if array is None else array.reshape(-1)
            for param, array in zip(self.params, given, strict=True)
        ]
        flags = np.array([array is not None for array in given], self.params[0].dtype)
        return np.concatenate([*parts, flags])

    def split(self, total: np.ndarray) -> list[np.ndarray]:
        """Return the sums of the arrays."""
        found, begin = [], 0
        for param in self.params:
            found.append(total[begin : begin + param.size].reshape(param.shape))
            begin += param.size
        return found

    def counts(self, total: np.ndarray) -> list[int]:
        """Return for each parameter how many replicas have a gradient."""
        return [round(float(one.real)) for one in total[-len(self.params) :]]


@final
class _Round:
    """One backward of a replica, up to the vote that ends it.

    Args:
        owner: the replica.
        number: the number of the round, the same at all replicas.
        task: the outermost backward that runs.
    """

    def __init__(self, owner: DataParallel, number: int, task: GraphTask) -> None:
        self.task_id: int = task.id
        self._owner = owner
        self._number = number
        self._passes: dict[int, list[_Exchange]] = {}
        self._completion = task.complete_with()
        self._completion.callbacks.append(self.vote)
        self._completion.failure_callbacks.append(self.abort)

    async def exchange(self, task: Any, bucket: _Bucket, place: int) -> None:
        """Average the gradient of a parameter, together with its bucket."""
        exchanges = self._passes.get(task.id)
        if exchanges is None:
            number = len(self._passes)
            exchanges = self._passes[task.id] = [
                _Exchange(self._owner, one, (self._number, number, index), task)
                for index, one in enumerate(self._owner.buckets)
            ]
        await exchanges[self._owner.buckets.index(bucket)].reach(place)

    async def vote(self) -> None:
        """Wait until all replicas have come this far: then the backward succeeds at all of them."""
        if self._completion.callbacks[-1] != self.vote:
            # What other callbacks do may fail, so the vote is the last.
            self._completion.callbacks.append(self.vote)
            return
        for exchanges in self._passes.values():
            for one in exchanges:
                await one.end()
        await self._owner.collective.all_reduce((self._number,), np.ones(1))
        self._owner.end_round()

    async def abort(self, error: BaseException) -> None:
        """Have the backward fail at all replicas; if all have voted already, set the gradients that the others have."""
        self._owner.end_round()
        reason = f"the backward of replica {self._owner.collective.rank} failed with {type(error).__name__}: {error}"
        aborting = self._owner.collective.abort(self._number, reason)
        is_aborted = aborting if isinstance(aborting, bool) else await aborting
        for exchanges in self._passes.values():
            for one in exchanges:
                if is_aborted:
                    await one.cancel()
                else:
                    # Cancelled between the vote and the end of the backward: replicas must not differ.
                    one.set_grads()


@final
class _Exchange:
    """The exchange of one bucket in one backward.

    Args:
        owner: the replica.
        bucket: the bucket.
        key: that of the sum.
        task: the backward.
    """

    def __init__(self, owner: DataParallel, bucket: _Bucket, key: tuple[int, ...], task: GraphTask) -> None:
        self._owner = owner
        self._bucket = bucket
        self._key = key
        #: The places of the parameters whose hooks have yet to be called.
        self._missing = {
            place for place, param in enumerate(bucket.params) if task.will_reach(get_gradient_edge(param).node)
        }
        self._task: EagerTask | None = None
        self._ready = asyncio.Event()
        if not self._missing:
            self._begin()

    async def reach(self, place: int) -> None:
        """Wait for the sum, and set the `.grad` of a parameter."""
        self._missing.discard(place)
        if not self._missing and self._task is None:
            self._begin()
        await self._ready.wait()
        assert self._task is not None
        await wait_until_done(self._task)
        self._set_grad(place)

    def set_grads(self) -> None:
        """Set the `.grad` of all parameters."""
        for place in range(len(self._bucket.params)):
            self._set_grad(place)

    def _set_grad(self, place: int) -> None:
        value = None if self._task is None else self._task.result()[place]
        if value is not None:
            self._bucket.params[place].grad = asarray(value)

    async def end(self) -> None:
        """Wait for the sum; raise if there is none."""
        if self._task is not None:
            await wait_until_done(self._task)
            self._task.result()

    async def cancel(self) -> None:
        """End the exchange, whose result nobody wants any more."""
        if self._task is not None:
            self._task.cancel()
            await wait_until_done(self._task)
            if not self._task.cancelled():
                # Asked for, so that asyncio does not report an error that the backward has raised already.
                self._task.exception()

    def _begin(self) -> None:
        self._task = start_task(self._exchange(), contextvars.copy_context(), "all-reduce of a bucket")
        self._ready.set()

    async def _exchange(self) -> list[Any]:
        grads = [None if param.grad is None else param.grad.numpy() for param in self._bucket.params]
        size = self._owner.collective.size
        total = await self._owner.collective.all_reduce(self._key, self._bucket.join(grads))
        found: list[Any] = []
        for place, (value, count) in enumerate(zip(self._bucket.split(total), self._bucket.counts(total), strict=True)):
            if count not in (0, size):
                param = self._bucket.params[place]
                raise ReplicaError(
                    f"a parameter of shape {param.shape} has a gradient at {count} of {size} replicas: every replica "
                    "has to use the same parameters in a backward"
                )
            found.append(None if count == 0 else value / size if self._owner.is_average else value.copy())
        return found


async def _wait_for(aborting: Awaitable[bool]) -> None:
    await aborting


def _make_hook(owner: DataParallel, bucket: _Bucket, place: int) -> Any:
    async def average(_: Tensor) -> None:
        await owner.exchange(bucket, place)

    return average


def _make_buckets(params: list[Tensor], bucket_bytes: int) -> list[_Bucket]:
    """Return buckets of parameters, the last parameter first, for its gradient is there first."""
    buckets: list[_Bucket] = []
    by_dtype: dict[str, list[Tensor]] = {}
    for param in reversed(params):
        known = by_dtype.setdefault(param.dtype.str, [])
        known.append(param)
        if sum(one.nbytes for one in known) >= bucket_bytes:
            buckets.append(_Bucket(by_dtype.pop(param.dtype.str)))
    buckets.extend(_Bucket(rest) for rest in by_dtype.values())
    return buckets


def _is_parameter(found: Any) -> bool:
    return isinstance(found, Tensor) and found.requires_grad and found.is_leaf
