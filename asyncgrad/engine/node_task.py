"""NodeTask: one careful run of a node, with hooks around its body, as a coroutine.

It suspends only where a hook or the body does.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, final

from ..arguments import describe
from ..context import BLOCKING, CURRENT_NODE, is_kind
from ..errors import GradientTypeError, HookError, HookTypeError
from ..graph import values
from ..graph.anomaly import check_nan
from ..graph.grad_journal import change_grad
from ..graph.leaf import AccumulateGrad
from ..graph.metadata import conform, no_tuple_error
from ..graph.naming import identify, name_hook
from ..graph.node import LEAF_ORDER
from ..graph.tensor_base import TensorBase
from .body import Body, TaskGroupLike, prefers_worker
from .dependency_executor import wrong_count
from .device import has_limit, has_own_way
from .device_limit import acquire_permit
from .loops import loop_is_running, run_apart
from .node_lock import acquire, release, try_acquire
from .streams import enter_streams

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..graph.node import Node, NodeMeta
    from .device import Device
    from .graph_task import GraphTask

__all__ = ["NodeTask"]


@final
class NodeTask:
    """One run of one node in one GraphTask.

    Args:
        graph_task: whose node it is.
        node: the node.
        grads: what has arrived at its inputs; the NodeTask owns the list.
        group: the NodeTasks that run beside it, where any do: a hook may have them wait.
    """

    __slots__ = ("grads", "graph_task", "group", "is_sent", "node")

    def __init__(self, graph_task: GraphTask, node: Node, grads: list[Any], group: TaskGroupLike | None = None) -> None:
        self.group: Any = group
        #: Whether it runs in the thread of its device's worker, and not in the driver's.
        self.is_sent = False
        self.graph_task = graph_task
        self.node = node
        self.grads = grads

    @property
    def name(self) -> str:
        """What debuggers show of this run."""
        node = self.node
        return identify(node) if node.order == LEAF_ORDER else f"{node.name} #{node.sequence_nr}"

    def may_suspend(self) -> bool:
        """Tell whether the body or a hook is an `async def`, or a hook that packs or unpacks what the node saved."""
        node, meta = self.node, self.node.meta
        if node.is_async or node.waits_for_saved():
            return True
        if has_own_way(node.device) and (
            node.device.max_in_flight is not None or is_kind(inspect.iscoroutinefunction, node.device.run_body)
        ):
            return True
        if meta is not None and meta.stream is not None and not meta.stream.is_free():
            return True
        return any(is_kind(inspect.iscoroutinefunction, hook) for hook in _all_hooks(node, meta))

    def prefers_worker(self) -> bool:
        """Tell whether a worker is to run the body, if the loop that waits for it can go on meanwhile."""
        node = self.node
        return not isinstance(node, AccumulateGrad) and prefers_worker(node, self.grads)

    async def run(self) -> tuple[Any, ...] | None:
        """Run hooks, body, checks and release in PyTorch's order; return the gradients for the edges.

        None where the body is not to run, since this backward only captures here.
        """
        graph_task, node = self.graph_task, self.node
        meta = node.meta or node.make_meta()
        try:
            if not try_acquire(meta, graph_task):
                await acquire(meta, node, graph_task)
            CURRENT_NODE.set(node)
            if meta.stream is not None:
                await self._enter_stream(meta.stream)
            # Nothing comes before most bodies, and two coroutines to find that out would cost as much as they do.
            if (
                meta.tensor_pre_hooks
                or meta.retains_grad_hooks
                or meta.pre_hooks
                or graph_task.limits is not None
                or node.order == LEAF_ORDER
            ) and not await self._run_pre_hooks(meta):
                return None
            # What the post-hooks see; where there are none, the body is to hold the only reference to its gradients.
            inputs = self._wrapped(self.grads) if meta.post_hooks else ()
            outputs = await self._run_body()
            if meta.post_hooks:
                for hook in meta.post_hooks.snapshot():
                    seen = self._wrapped(outputs)
                    result = await self._call(hook, seen, inputs)
                    outputs = tuple(self._checked(result, seen, hook))
                    del seen, result
            if graph_task.anomaly is not None and graph_task.anomaly.check_nan:
                check_nan(node, outputs)
            if not graph_task.keep_graph:
                node.release_variables()
            return outputs
        finally:
            release(meta, graph_task)

    async def _enter_stream(self, stream: Any) -> None:
        """Make the node's stream the current one of this run, once a body may run there; suspends where it may not."""
        enter_streams({self.node.device: stream})
        if not stream.is_free():
            await stream.until_free()
        if self.graph_task.streams is not None and not self.node.next_nodes:
            self.graph_task.streams.leave(self.node)

    async def _run_pre_hooks(self, meta: NodeMeta) -> bool:
        """Run all that comes before the body, and capture; tell whether the body is to run."""
        graph_task, node, grads = self.graph_task, self.node, self.grads
        needed = graph_task.limits is None or graph_task.limits[node].needed
        # PyTorch captures the raw gradient of a node whose body runs too, and the hooked one otherwise.
        if needed:
            graph_task.capture(node, grads)
        await self._run_tensor_hooks(meta)
        self._retain_grads(meta)
        if not needed:
            graph_task.capture(node, grads)
            return False
        if meta.pre_hooks:
            for hook in meta.pre_hooks.snapshot():
                seen = self._wrapped(grads)
                grads[:] = self._checked(await self._call(hook, seen), seen, hook)
        return True

    async def _run_body(self) -> tuple[Any, ...]:
        graph_task, node = self.graph_task, self.node
        if isinstance(node, AccumulateGrad):
            await self._accumulate(node)
            return ()
        if not graph_task.keep_graph:
            node.will_release_variables()
        grads = tuple(self.grads)
        self.grads.clear()
        # Under create_graph bodies record nodes, whose order is to be the same in each run: they stay on one thread.
        stays = self.group is None or node.is_async or graph_task.create_graph
        if has_own_way(node.device):
            body = Body(node, grads, None if stays or self.is_sent else self.group, graph_task.reentrant_depth)
            del grads
            return self._conforming(await self._run_on(node.device, body))
        if stays or node.device is None:
            outputs = node.apply(grads)
            del grads
        else:
            body = Body(node, grads, None if self.is_sent else self.group, graph_task.reentrant_depth)
            del grads
            outputs = node.device.run_body(body)
        if not isinstance(outputs, (tuple, list)) and inspect.isawaitable(outputs):
            outputs = run_apart(outputs) if _blocks() else await outputs
        if not isinstance(outputs, (tuple, list)):
            raise no_tuple_error(node, outputs)
        return self._conforming(outputs)

    async def _run_on(self, device: Device, body: Body) -> Any:
        """Have a device run a body in its own way; under create_graph no further node starts meanwhile."""
        graph_task, node, group = self.graph_task, self.node, self.group
        is_alone = graph_task.create_graph and not node.is_async and group is not None
        if is_alone:
            group.hold_up()
        permit = None
        try:
            if has_limit(device):
                permit = await acquire_permit(device, (-graph_task.reentrant_depth, node.order))
            outputs: Any = device.run_body(body)
            # Of a node that awaits, what the device awaits may have to be awaited once more.
            while not isinstance(outputs, (tuple, list)) and inspect.isawaitable(outputs):
                outputs = run_apart(outputs) if _blocks() else await outputs
        finally:
            if permit is not None:
                permit.end()
            if is_alone:
                group.let_go()
        if not isinstance(outputs, (tuple, list)):
            raise GradientTypeError(
                f"{type(device).__name__}.run_body gave {describe(outputs)} for {identify(node)}: "
                "return body(), a tuple with a gradient for each input, or an awaitable of that"
            )
        return outputs

    async def _accumulate(self, leaf: AccumulateGrad) -> None:
        if self.is_sent and self.graph_task.has_error:
            # Failed meanwhile, in another thread: nothing is written any more.
            return
        change = self.graph_task.accumulate(leaf, self.grads)
        hooks = leaf.variable._autograd_meta().post_accumulate_hooks
        if not hooks:
            return
        try:
            for hook, overlap in hooks.snapshot_with_overlap():
                result = await (self._call(hook, leaf.variable) if overlap else self._call_alone(hook, leaf.variable))
                if result is not None and result is not leaf.variable:
                    returned = describe(result)
                    raise HookError(f"post-accumulate-grad {self._called(hook)} must return None, not {returned}")
        finally:
            # A hook may have set the gradient to something else: an optimizer that steps within the backward does.
            if change is not None:
                change.update_after()

    def _conforming(self, outputs: Any) -> tuple[Any, ...]:
        """Return what the body returned as the next nodes take it, for post-hooks to see."""
        node = self.node
        if len(outputs) != len(node.next_nodes):
            raise wrong_count(node, outputs)
        conforming = []
        create_graph, edge = self.graph_task.create_graph, -1
        # Neither `enumerate` nor `strict`, which cost as much as a gradient that conforms.
        for target, input_nr, grad in zip(node.next_nodes, node.input_nrs, outputs):  # noqa: B905
            edge += 1
            value = grad
            if isinstance(grad, TensorBase):
                if target is not None and grad._device is not target.device:
                    value = _moved(grad, target, input_nr)
                if not create_graph:
                    value = value._data
            if create_graph:
                value = values.wrap(value, node.device)
            if value is not None and target is not None:
                value = conform(node, edge, target, input_nr, value)
            conforming.append(value)
        return tuple(conforming)

    async def _run_tensor_hooks(self, meta: NodeMeta) -> None:
        hook_lists = meta.tensor_pre_hooks
        if isinstance(self.node, AccumulateGrad):
            hooks = self.node.variable._autograd_meta().hooks
            hook_lists = [(0, hooks)] if hooks else []
        # A hook may put the first one on another output of this node: that counts from the next run on.
        for input_nr, hooks in tuple(hook_lists):
            for hook in hooks.snapshot():
                grad = values.wrap(self.grads[input_nr], self.node.device)
                result = await self._call(hook, grad)
                self.grads[input_nr] = self._bare(grad) if result is None else self._replacement(result, grad, hook)

    def _retain_grads(self, meta: NodeMeta) -> None:
        for input_nr, reference in meta.retains_grad_hooks.items():
            tensor, grad = reference(), self.grads[input_nr]
            if tensor is None or grad is None:
                continue
            change_grad(tensor, grad, self.graph_task.changes, sole=False, listed=True, retained=True)

    async def _call(self, hook: Callable[..., Any], *arguments: Any) -> Any:
        result = hook(*arguments)
        return await _ended(result) if inspect.isawaitable(result) else result

    async def _call_alone(self, hook: Callable[..., Any], *arguments: Any) -> Any:
        """Call a hook; until it has ended no further node starts."""
        group = self.group
        if group is None:
            # Nothing runs beside it anyway.
            return await self._call(hook, *arguments)
        group.hold_up()
        try:
            return await self._call(hook, *arguments)
        finally:
            group.let_go()

    def _wrapped(self, grads: Any) -> tuple[Any, ...]:
        return tuple(values.wrap(grad, self.node.device) for grad in grads)

    def _bare(self, grad: Any) -> Any:
        """Return a gradient that a hook has seen, and may have written into, as the engine keeps it."""
        return grad if self.graph_task.create_graph else values.raw(grad)

    def _checked(self, results: Any, before: tuple[Any, ...], hook: Callable[..., Any]) -> list[Any]:
        """Return what a node's hook returned in place of the gradients `before`, if it may stand there."""
        if results is None:
            return [self._bare(grad) for grad in before]
        if not isinstance(results, tuple):
            raise HookTypeError(
                f"{self._called(hook)} must return None or a tuple of gradients, not {describe(results)}: "
                f"write a tuple of {len(before)}, with None where there is no gradient"
            )
        if len(results) != len(before):
            raise HookError(
                f"{self._called(hook)} returned {values.counted(len(results), 'gradient')}, not {len(before)}: "
                "return one for each that it is given, None where there is none, or None in place of the tuple"
            )
        return [
            None if result is None else self._replacement(result, old, hook)
            for result, old in zip(results, before, strict=True)
        ]

    def _replacement(self, result: Any, old: Any, hook: Callable[..., Any]) -> Any:
        """Return what a hook returned in place of gradient `old`, if it may stand there."""
        where, device = self._called(hook), self.node.device
        if old is None:
            raise HookError(f"{where} returned {describe(result)} where there was none: return None for it")
        if isinstance(result, TensorBase) and device not in (None, result._device):
            raise HookError(
                f"{where} returned a gradient on '{result._device}' for one on '{device}': "
                f"write return grad.to('{device}')"
            )
        result = values.wrap(result, device) if self.graph_task.create_graph else values.raw(result)
        if not hasattr(old, "dtype") and type(result) is type(old):
            return result
        if not hasattr(result, "dtype"):
            raise HookTypeError(f"{where} must return None or a tensor, not {describe(result)}")
        if result.shape != old.shape or result.dtype != old.dtype:
            raise HookError(
                f"{where} returned {describe(result)} for a gradient of shape {old.shape} and dtype {old.dtype}"
            )
        return result

    def _called(self, hook: Callable[..., Any]) -> str:
        return f"{name_hook(hook)} of {identify(self.node)}"


def _moved(grad: TensorBase, target: Node, input_nr: int) -> Any:
    """Return a gradient where that of input `input_nr` of `target` is to live."""
    metadata = target.input_metadata[input_nr]
    place = target.device if metadata is None or metadata.device is None else metadata.device
    return grad if place is None or grad._device is place else values.move(grad, grad._device, place)


async def _ended(awaitable: Awaitable[Any]) -> Any:
    """Return the result of what a hook or a body returned.

    Of an `async def` the blocking driver knows, and has an event loop; of a plain function that returns something to
    wait for it does not.
    """
    return run_apart(awaitable) if _blocks() else await awaitable


def _blocks() -> bool:
    return BLOCKING.get() and not loop_is_running()


def _all_hooks(node: Node, meta: NodeMeta | None) -> list[Callable[..., Any]]:
    lists = []
    if meta is not None:
        if meta.pre_hooks or meta.post_hooks or meta.tensor_pre_hooks:
            lists = [meta.pre_hooks, meta.post_hooks, *(hooks for _, hooks in meta.tensor_pre_hooks)]
        elif node.order != LEAF_ORDER:
            # Most: a body that nobody watches.
            return []
    if isinstance(node, AccumulateGrad):
        leaf_meta = node.variable._autograd_meta()
        lists += [leaf_meta.hooks, leaf_meta.post_accumulate_hooks]
    return [hook for hooks in lists if hooks is not None for hook in hooks.snapshot()]
