"""pipeline: micro-batches flow through stages, so that all stages work at the same time; GPipe's order, and 1F1B's."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ..core.backward import backward, grad
from ..core.engine.measured_calls import MeasuredCalls
from ..core.function.function import Function
from ..core.function.once_differentiable import once_differentiable
from ..core.graph.leaf import AccumulateGrad
from ..core.graph.node import Node
from ..core.settings.arguments import must_be, whole_number
from ..core.settings.context import enable_grad, is_grad_enabled
from ..core.tensor import Tensor, asarray, tensor
from ..core.tree.structure import TreeStructure, flatten, unflatten
from ..errors import ArgumentError, ArgumentTypeError, GraphError
from .concurrency import run_together

if TYPE_CHECKING:
    from ..core.arrays.array_like import TensorLike


__all__ = ["pipeline"]


async def pipeline(
    stages: Sequence[Callable[..., object]],
    x: TensorLike,
    *,
    micro_batches: int,
    in_flight: int | None = None,
    loss: Callable[..., object] | None = None,
    target: object = None,
    schedule: str = "gpipe",
    reduction: str = "mean",
) -> Any:
    """Send micro-batches of `x` through stages, each of which has one at a time; with a `loss`, run the backward too.

    Without a loss this returns the output, and `await loss.backward()` runs as ever. With one, each micro-batch has a
    backward of its own, all within one backward, which succeeds as a whole or changes no `.grad` anywhere: the result
    is the loss, and the gradients are there. Then "1f1b" begins the backward of a micro-batch as soon as its forward
    has ended, so that no more than `in_flight` graphs are kept; "gpipe" begins with them when all forwards have ended.
    The gradients of micro-batches are summed from the first to the last, so they have the same bits in both, for any
    `in_flight`, however long each stage takes.

    Args:
        stages: functions or `async def`s of one argument, among them what `ag.distributed.stage` returns.
        x: a tree of arrays and tensors, split along axis 0. What has no axis 0 goes to every micro-batch whole.
        micro_batches: how many parts it is split into.
        in_flight: how many micro-batches may be under way at a time: between their first stage and their last, or, with
            "1f1b", the end of their backward. None means all for "gpipe", and one for each stage for "1f1b".
        loss: a function or an `async def` of the output of a micro-batch, and of its part of `target` if there is one,
            that returns a number.
        target: a tree of arrays, split as `x` is.
        schedule: "gpipe" or "1f1b"; the latter needs a loss.
        reduction: "mean" where the loss of a batch is the mean over its samples, "sum" where it is their sum.

    Returns:
        The output, with the outputs of micro-batches joined along axis 0, and numbers in an array with one for each
        micro-batch. With a loss: that of the batch, without a history.

    Raises:
        ArgumentError: an argument does not fit, such as arrays of fewer rows than micro-batches.
        GraphError: there is a loss and recording is off; or a parameter has tensor hooks, which would see its gradient
            in parts, and then again as a whole.

    Source: torch.distributed.pipelining, ScheduleGPipe and Schedule1F1B.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> w = ag.tensor(2.0, requires_grad=True)
        >>> stages, loss = [lambda x: w * x, lambda x: x - 1], lambda y: (y * y).mean()
        >>> run = ag.distributed.pipeline(stages, np.arange(4.0), micro_batches=2, loss=loss, schedule="1f1b")
        >>> ag.run(run), w.grad.item()
        (tensor(9., dtype=float64, device='cpu'), 11.0)
    """
    flow = _Flow(stages, micro_batches, in_flight, schedule, reduction, loss)
    batch = _Batch(x, flow.count, "x")
    if loss is not None:
        return await _run_with_loss(flow, loss, batch, target)
    if target is not None:
        raise ArgumentError("target is what a loss compares with: pass loss, or leave it out")
    return await flow.outputs(batch.split())


async def _run_with_loss(flow: _Flow, loss: Callable[..., Any], batch: _Batch, target: Any) -> Tensor:
    """Run the forwards and backwards within one backward; return the loss of the batch."""
    if not is_grad_enabled():
        raise GraphError("a pipeline with a loss runs the backward, and recording is off: leave the loss out")
    targets = None if target is None else _Batch(target, flow.count, "target")
    if targets is not None and targets.rows != batch.rows:
        raise ArgumentError(f"x has {batch.rows} rows and target {targets.rows}: they are split alike")
    run = _LossRun(flow, loss, batch, targets)
    root = PipelineRun.apply(run, tensor(0.0, requires_grad=True), *batch.leaves)
    await backward(root)
    return run.total()


@final
class _Flow:
    """The stages, the order of micro-batches in them, and how many may be under way.

    Args: those of `pipeline`.
    """

    def __init__(
        self,
        stages: Sequence[Callable[[Any], Any]],
        micro_batches: int,
        in_flight: int | None,
        schedule: str,
        reduction: str,
        loss: Any,
    ) -> None:
        self._stages = list(stages) if isinstance(stages, Iterable) else []
        if not self._stages or not all(callable(one) for one in self._stages):
            raise ArgumentTypeError(must_be("stages", "a list of functions", stages))
        self.count: int = whole_number(micro_batches, "micro_batches", 1)
        if schedule not in ("gpipe", "1f1b"):
            raise ArgumentError(f"schedule is 'gpipe' or '1f1b', not {schedule!r}")
        if reduction not in ("mean", "sum"):
            raise ArgumentError(f"reduction is 'mean' or 'sum', not {reduction!r}")
        if loss is not None and not callable(loss):
            raise ArgumentTypeError(must_be("loss", "a function", loss))
        if schedule == "1f1b" and loss is None:
            raise ArgumentError("'1f1b' runs the backward of a micro-batch in between, for which it needs a loss")
        self.is_1f1b: bool = schedule == "1f1b"
        self.is_mean: bool = reduction == "mean"
        default = len(self._stages) if self.is_1f1b else self.count
        self._in_flight = default if in_flight is None else whole_number(in_flight, "in_flight", 1)
        self._calls = [_caller(stage) for stage in self._stages]

    async def run(
        self,
        parts: Sequence[Any],
        on_output: Callable[[int, Any], Awaitable[None]],
        after: Callable[[int], Awaitable[None]] | None = None,
    ) -> None:
        """Send parts through the stages.

        Args:
            parts: the micro-batches.
            on_output: awaited with the number and the output of each.
            after: awaited after that, when another micro-batch has been let in.
        """
        passed = [[asyncio.Event() for _ in parts] for _ in self._stages]
        room = asyncio.Semaphore(self._in_flight)
        entered = [asyncio.Event() for _ in parts]

        async def send(number: int, part: Any) -> None:
            if number:
                # A semaphore alone might let them in in another order.
                await entered[number - 1].wait()
            async with room:
                entered[number].set()
                for call, passes in zip(self._calls, passed, strict=True):
                    if number:
                        await passes[number - 1].wait()
                    part = await call(part)
                    passes[number].set()
                await on_output(number, part)
            if after is not None:
                await after(number)

        await run_together([send(number, part) for number, part in enumerate(parts)], "micro-batch of a pipeline")

    async def outputs(self, parts: Sequence[Any]) -> Any:
        """Return the outputs of micro-batches, joined."""
        found: list[Any] = [None] * len(parts)

        async def keep(number: int, output: Any) -> None:
            found[number] = output

        await self.run(parts, keep)
        return _join(found)


@final
class _Batch:
    """A tree of arrays and tensors that is split along axis 0.

    Args:
        tree: the tree.
        count: into how many parts.
        name: that of the argument.
    """

    def __init__(self, tree: Any, count: int, name: str) -> None:
        found, self._structure = flatten(tree)
        self.leaves: list[Any] = found
        self._count = count
        rows = {leaf.shape[0] for leaf in self.leaves if _has_rows(leaf)}
        if len(rows) != 1:
            raise ArgumentError(
                f"the arrays in {name} have one number of rows, along which they are split, not {sorted(rows)}"
            )
        self.rows: int = rows.pop()
        if self.rows < count:
            raise ArgumentError(f"{name} has {self.rows} rows, which cannot be split into {count} micro-batches")

    def split(self) -> list[Any]:
        """Return the micro-batches, with their history."""
        return self._parts(self.leaves)

    def split_detached(self) -> tuple[list[Any], list[list[Any]]]:
        """Return the micro-batches, without a history, and for each its leaves; those require grad that did."""
        detached = [leaf.detach() if isinstance(leaf, Tensor) else leaf for leaf in self.leaves]
        parts = self._parts(detached)
        found = [flatten(part)[0] for part in parts]
        for leaves in found:
            for leaf, before in zip(leaves, self.leaves, strict=True):
                if isinstance(before, Tensor) and before._requires_grad():
                    leaf.requires_grad_()
        return parts, found

    def _parts(self, leaves: list[Any]) -> list[Any]:
        columns = [
            np.array_split(leaf, self._count) if _has_rows(leaf) else [_alias(leaf) for _ in range(self._count)]
            for leaf in leaves
        ]
        return [unflatten(self._structure, [column[number] for column in columns]) for number in range(self._count)]

    def weights(self, is_mean: bool) -> list[float]:
        """Return for each micro-batch what its loss counts."""
        small, larger = divmod(self.rows, self._count)
        sizes = [small + (number < larger) for number in range(self._count)]
        return [size / self.rows if is_mean else 1.0 for size in sizes]

    def join_grads(self, grads: Sequence[Sequence[Any]]) -> list[Any]:
        """Return the gradients of the leaves, from those of each micro-batch's; None where there is none."""
        joined: list[Any] = []
        for leaf, column in zip(self.leaves, zip(*grads, strict=True), strict=True):
            if all(one is None for one in column):
                joined.append(None)
            elif _has_rows(leaf):
                pieces = np.array_split(leaf.numpy(), self._count)
                whole = [
                    np.zeros_like(piece) if one is None else one for one, piece in zip(column, pieces, strict=True)
                ]
                joined.append(np.concatenate(whole))
            else:
                joined.append(_sum_in_order([one for one in column if one is not None]))
        return joined


@final
class _LossRun:
    """The forwards and backwards of one pipeline with a loss, which a node of one backward runs.

    Args:
        flow: the stages.
        loss: the loss.
        batch: what is split.
        targets: the targets; None for none.
    """

    def __init__(self, flow: _Flow, loss: Callable[..., Any], batch: _Batch, targets: _Batch | None) -> None:
        self._flow = flow
        self._loss = _caller(loss)
        self._batch = batch
        self._targets = None if targets is None else targets.split()
        self._weights = batch.weights(flow.is_mean)
        self._losses: list[Any] = [None] * flow.count

    def total(self) -> Tensor:
        """Return the loss of the batch."""
        return asarray(_sum_in_order([one * weight for one, weight in zip(self._losses, self._weights, strict=True)]))

    async def run(self) -> list[Any]:
        """Run all, accumulate the gradients of leaves, and return those of the batch's leaves."""
        parts, leaves = self._batch.split_detached()
        count = self._flow.count
        losses: list[Any] = [None] * count
        sums = _Sums(count)
        of_inputs: list[list[Any]] = [[] for _ in range(count)]
        begun = [asyncio.Event() for _ in range(count)]
        all_forward = asyncio.Event()

        async def differentiate(number: int) -> None:
            if number:
                # A stage elsewhere sums backward passes in the order in which they begin.
                await begun[number - 1].wait()
            found, losses[number] = losses[number], None
            wanted = [leaf for leaf in leaves[number] if isinstance(leaf, Tensor) and leaf._requires_grad()]
            params = [leaf for leaf in _leaves_of(found) if all(leaf is not one for one in wanted)]
            if not (wanted or params):
                raise GraphError("the loss depends on nothing that requires grad: no parameter, and not x")
            seed = np.full(found.shape, self._weights[number], found.dtype)
            run = grad([found], [*wanted, *params], [asarray(seed)], allow_unused=True)
            begun[number].set()
            grads = iter(await run)
            by_leaf = {id(leaf): next(grads) for leaf in wanted}
            of_inputs[number] = [_array_of(by_leaf.get(id(leaf))) for leaf in leaves[number]]
            sums.add(number, params, [_array_of(one) for one in grads])

        async def on_output(number: int, output: Any) -> None:
            target = () if self._targets is None else (self._targets[number],)
            found = await self._loss(output, *target)
            self._losses[number] = _check_loss(found)
            losses[number] = found
            if self._flow.is_1f1b:
                await differentiate(number)

        async def after(number: int) -> None:
            if all(one is not None for one in losses):
                all_forward.set()
            await all_forward.wait()
            await differentiate(number)

        with enable_grad():
            await self._flow.run(parts, on_output, None if self._flow.is_1f1b else after)
        await sums.accumulate()
        return self._batch.join_grads(of_inputs)


@final
class _Sums:
    """The gradients of leaves, summed over micro-batches from the first to the last, in whatever order they come.

    Args:
        count: how many micro-batches there are.
    """

    def __init__(self, count: int) -> None:
        self._waiting: list[Any] = [None] * count
        self._next = 0
        self._leaves: dict[int, Any] = {}
        self._sums: dict[int, Any] = {}

    def add(self, number: int, leaves: list[Any], grads: list[Any]) -> None:
        """Add the gradients of one micro-batch, when those of all before it have come."""
        self._waiting[number] = leaves, grads
        while self._next < len(self._waiting) and self._waiting[self._next] is not None:
            leaves, grads = self._waiting[self._next]
            self._waiting[self._next] = None
            self._next += 1
            for leaf, one in zip(leaves, grads, strict=True):
                if one is not None:
                    before = self._sums.get(id(leaf))
                    self._leaves[id(leaf)] = leaf
                    self._sums[id(leaf)] = one if before is None else before + one

    async def accumulate(self) -> None:
        """Add the sums to the `.grad` of the leaves, as a part of the backward that runs."""
        if self._leaves:
            await backward(list(self._leaves.values()), [asarray(self._sums[key]) for key in self._leaves])


@final
class PipelineRun(Function):
    """The node whose backward runs a pipeline with a loss."""

    @staticmethod
    def forward(ctx: Any, run: _LossRun, anchor: Any, *leaves: Any) -> Any:
        """Return a number, from which the backward begins.

        Args:
            ctx: the context.
            run: what the backward runs.
            anchor: a tensor that requires grad.
            *leaves: those of the batch, whose history the backward goes on into.
        """
        ctx.run = run
        return np.zeros(())

    @staticmethod
    @once_differentiable
    async def backward(ctx: Any, _: Any) -> Any:
        """Run the pipeline."""
        run, ctx.run = ctx.run, None
        return None, None, *(await run.run())


def _caller(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """Return what calls a function and awaits its result; a plain function that takes long runs on a worker thread."""
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        return function
    return functools.partial(MeasuredCalls().call, function)


def _leaves_of(root: Any) -> list[Any]:
    """Return the leaves in the graph of a tensor, in an order that the graph decides."""
    node = root.grad_fn
    found: list[Any] = []
    seen: set[int] = {id(node)}
    rest: list[Node | None] = [node]
    while rest:
        node = rest.pop()
        if isinstance(node, AccumulateGrad):
            found.append(node.variable)
            hooks = node.variable._autograd_meta().hooks
            if hooks is not None and len(hooks):
                raise GraphError(
                    f"a tensor of shape {node.shape} that a pipeline with a loss differentiates has tensor hooks, "
                    "which would see its gradient in parts, and then the sum: use a post-accumulate-grad hook"
                )
        elif node is not None:
            for target in node.next_nodes:
                if target is not None and id(target) not in seen:
                    seen.add(id(target))
                    rest.append(target)
    return found


def _check_loss(found: Any) -> Any:
    if not isinstance(found, Tensor) or found._data.size != 1 or found._data.dtype.kind != "f":
        raise ArgumentTypeError(must_be("the loss of a micro-batch", "a tensor with one real number", found))
    return found._data.reshape(()).copy()


def _has_rows(leaf: Any) -> bool:
    return isinstance(leaf, (Tensor, np.ndarray)) and leaf.ndim > 0


def _alias(leaf: Any) -> Any:
    # Each micro-batch has a leaf of its own, for it has a gradient of its own.
    return leaf.detach() if isinstance(leaf, Tensor) and not leaf._requires_grad() else leaf


def _array_of(found: Any) -> Any:
    return None if found is None else found.numpy()


def _sum_in_order(terms: Sequence[Any]) -> Any:
    total = terms[0]
    for one in terms[1:]:
        total = total + one
    return total


def _join(outputs: Sequence[Any]) -> Any:
    """Return a tree whose leaves are those of trees of equal structure, joined along axis 0."""
    first, structure = flatten(outputs[0])
    columns = [_leaves_like(structure, output) for output in outputs]
    joined = [
        (np.concatenate if np.ndim(one) else np.stack)(list(column))
        for one, column in zip(first, zip(*columns, strict=True), strict=True)
    ]
    return unflatten(structure, joined)


def _leaves_like(structure: TreeStructure, output: Any) -> list[Any]:
    found, other = flatten(output)
    if other != structure:
        raise ArgumentError(f"the outputs of micro-batches have two structures, {structure} and {other}")
    return found
