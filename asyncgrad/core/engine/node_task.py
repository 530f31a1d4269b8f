"""NodeTask: one run of a node on the slow path, with its lock, its hooks and its checks, as a coroutine.

It suspends only where a hook or the body does, or where it waits for a lock, a stream or a permit.
"""

from __future__ import annotations

import inspect
from types import CoroutineType
from typing import TYPE_CHECKING, Any, final

from ...errors import ChangedTensorError, GradientTypeError, HookError, HookTypeError
from ..arrays import values
from ..arrays.bits import bits_of
from ..arrays.current_devices import coroutine_on_device, several_devices
from ..arrays.current_streams import follow_streams
from ..arrays.ownership import make_all_private, make_private, prepare_all_to_lend, prepare_to_lend
from ..arrays.tensor_base import TensorBase
from ..arrays.value_type import ValueGradient
from ..graph.anomaly import check_nan
from ..graph.grad_journal import change_grad
from ..graph.leaf import GraphRoot, Leaf
from ..graph.metadata import conform, no_tuple_error
from ..graph.naming import identify, name_hook
from ..graph.node import LEAF_ORDER
from ..graph.value_metadata import ValueMetadata, may_await_merge, replaced, unheld
from ..settings.arguments import describe
from ..settings.callers import note_refused_call
from ..settings.context import BLOCKING, CURRENT_NODE, is_kind
from .body import Body, TaskGroupLike, prefers_worker
from .dependency_executor import gradient_count_error
from .device import has_custom_run, has_limit
from .device_limit import acquire_permit
from .loops import loop_is_running, run_on_own_loop
from .memoized import MemoizedRun, Question
from .node_lock import acquire, release, try_acquire
from .streams import enter_streams

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from ..arrays.hooks import HookList
    from ..graph.node import Node, NodeMeta
    from .device import Device
    from .graph_task import GraphTask

__all__ = ["NodeTask", "may_suspend"]

#: Bound once: a method of an imported name is looked up and bound anew at each call.
_set_current_node = CURRENT_NODE.set


@final
class NodeTask:
    """One run of one node in one GraphTask.

    Args:
        graph_task: the backward.
        node: the node.
        grads: the gradients that have arrived at its inputs; the NodeTask owns the list.
        group: the NodeTaskGroup that runs it; None in a blocking backward.
    """

    __slots__ = ("answered", "grads", "graph_task", "group", "is_sent", "node")

    #: What a memoized body or merge has answered here, and may be refused yet; mostly unset, so that it costs nothing.
    answered: tuple[Question, ...]

    def __init__(self, graph_task: GraphTask, node: Node, grads: list[Any], group: TaskGroupLike | None = None) -> None:
        self.group: Any = group
        #: Whether it runs on the worker of its device, not in the driver's thread.
        self.is_sent: bool = False
        self.graph_task: GraphTask = graph_task
        self.node: Node = node
        self.grads: list[Any] = grads
        if graph_task.create_graph and may_suspend(node):
            graph_task.is_out_of_order = True

    @property
    def name(self) -> str:
        """The name of its task, for debuggers."""
        node = self.node
        return identify(node) if node.order == LEAF_ORDER else f"{node.name} #{node.sequence_nr}"

    def may_suspend(self) -> bool:
        """Tell whether the node has an async body or hook, or anything else that it may have to wait for."""
        return may_suspend(self.node)

    def prefers_worker(self) -> bool:
        """Tell whether the body should run on a worker, if there is a loop that can wait for it."""
        node = self.node
        return not isinstance(node, Leaf) and prefers_worker(node, self.grads)

    def begin(self) -> Coroutine[object, None, tuple[Any, ...] | None]:
        """Return the coroutine that runs the node, seen by observers, on the node's device."""
        observed = self.graph_task.observed_steps
        coroutine = self.run() if observed is None else observed.watch(self)
        return coroutine_on_device(coroutine, self.node.device) if several_devices[0] else coroutine

    async def run(self) -> tuple[Any, ...] | None:
        """Run hooks, body, checks and release in PyTorch's order; return the gradients for the edges.

        Return None where the body is not to run, since this backward only captures here.
        """
        graph_task, node = self.graph_task, self.node
        meta = node.meta or node.make_meta()
        try:
            if not try_acquire(meta, graph_task, node):
                await acquire(meta, node, graph_task)
            _set_current_node(node)
            if meta.stream is not None:
                await self._enter_stream(meta.stream)
            elif graph_task.streams is not None:
                follow_streams()
            if meta.takes_values:
                await self._merge_values()
            # Most nodes have nothing to run before the body, and two needless coroutines would cost as much as it.
            if (
                meta.tensor_pre_hooks
                or meta.retains_grad_hooks
                or meta.pre_hooks
                or (graph_task.limits is not None and node not in graph_task.limits.whole)
                or node.order == LEAF_ORDER
            ) and not await self._run_pre_hooks(meta):
                return None
            # For the post-hooks. Without any, the body must hold the only reference to its gradients.
            inputs = unheld(self._lend(self.grads)) if meta.post_hooks else ()
            if meta.takes_values:
                self.grads[:] = unheld(self.grads)
                # The hooks have accepted what was merged.
                self.answered = ()
            keeps_answer = node.is_memoized and self._remembers()
            if keeps_answer or isinstance(node, Leaf) or has_custom_run(node.device):
                outputs = await self._run_apart(keeps_answer)
            else:
                outputs = node.apply(self._take_grads()) if node.is_async else self._call_body()
                if outputs.__class__ is CoroutineType and self.group is not None:
                    outputs = await outputs
                elif outputs.__class__ is not tuple and inspect.isawaitable(outputs):
                    outputs = run_on_own_loop(outputs) if _needs_own_loop() else await outputs
                # What a backward starts from has been made to fit.
                outputs = [*outputs] if isinstance(node, GraphRoot) else self._conform_outputs(outputs)
                if node.is_users:
                    make_all_private(outputs)
            if meta.post_hooks:
                for hook in meta.post_hooks.snapshot():
                    await self._call_node_hook(hook, outputs, inputs)
            if graph_task.anomaly is not None and graph_task.anomaly.check_nan:
                check_nan(node, outputs)
            if not graph_task.keep_graph:
                node.release_variables()
                if node.is_memoized or meta.takes_values:
                    meta.forget_answers()
            return tuple(outputs)
        except Exception as error:
            self._forget_refused(error)
            raise
        finally:
            release(meta, graph_task)

    def _forget_refused(self, error: Exception) -> None:
        """Have the next try ask again what the node has refused; raise what the error of a concurrent node means."""
        for question in getattr(self, "answered", ()):
            question.forget()
        if self.node.concurrent:
            _refuse_write(self.node, error)

    async def _enter_stream(self, stream: Any) -> None:
        """Make the node's stream the current one of this run; suspends until a body may run on it."""
        enter_streams({self.node.device: stream})
        if not stream.is_free():
            await stream.until_free()
        if self.graph_task.streams is not None and not self.node.next_nodes:
            self.graph_task.streams.leave(self.node)

    async def _merge_values(self) -> None:
        """Merge the gradients that have arrived at each input that takes what is no array."""
        grads = self.grads
        for index, metadata in enumerate(self.node.input_metadata):
            held = grads[index]
            if isinstance(metadata, ValueMetadata) and held is not None and len(held.gradients) > 1:
                if metadata.type.is_memoized and self._remembers():
                    grads[index] = await self._merge_memoized(index, metadata, held)
                else:
                    grads[index] = await self._merge(metadata, held)

    async def _merge(self, metadata: ValueMetadata, held: ValueGradient) -> ValueGradient | None:
        return metadata.merged(held, await self._call(metadata.type.merge, held.gradients), self.node)

    async def _merge_memoized(self, index: int, metadata: ValueMetadata, held: ValueGradient) -> ValueGradient | None:
        """Return what `_merge` does, which the node keeps until the backward has succeeded."""
        question = Question(self.node, index, bits_of(held.gradients), self.graph_task.most_answers)
        answer = question.recall()
        if answer is None:
            answer = (await self._merge(metadata, held),)
            question.keep(answer)
        self.answered = (*getattr(self, "answered", ()), question)
        merged: ValueGradient | None = answer[0]
        return merged

    def _remembers(self) -> bool:
        """Tell whether what is memoized is kept for another try of this backward."""
        return self.graph_task.most_answers > 0 and not self.graph_task.create_graph

    async def _run_pre_hooks(self, meta: NodeMeta) -> bool:
        """Capture, and run the hooks that come before the body; tell whether the body is to run."""
        graph_task, node, grads = self.graph_task, self.node, self.grads
        needed = graph_task.limits is None or graph_task.limits[node].needed
        # As in PyTorch: the gradient before the tensor hooks if the body runs too, and the one after them otherwise.
        if needed:
            graph_task.capture(node, grads)
        await self._run_tensor_hooks(meta)
        self._retain_grads(meta)
        if not needed:
            graph_task.capture(node, grads)
            return False
        if meta.pre_hooks:
            for hook in meta.pre_hooks.snapshot():
                await self._call_node_hook(hook, grads)
        return True

    async def _run_apart(self, keeps_answer: bool) -> list[Any]:
        """Run the body of a leaf, one that a device runs in its way, or one whose answers are kept.

        Return a list of its gradients, each as the next node's input takes it.
        """
        graph_task, node = self.graph_task, self.node
        if isinstance(node, Leaf):
            await self._accumulate(node)
            return []
        if keeps_answer:
            return await self._run_memoized()
        group = None if node.is_async or graph_task.create_graph or self.is_sent else self.group
        body = Body(node, self._take_grads(), group, graph_task.reentrant_depth)
        outputs = self._conform_outputs(await self._run_on_device(node.device, body))
        if node.is_users:
            make_all_private(outputs)
        return outputs

    def _take_grads(self) -> tuple[Any, ...]:
        """Return the gradients for a body whose last run this may be, and keep none of them."""
        graph_task, node, grads = self.graph_task, self.node, self.grads
        if not graph_task.keep_graph:
            node.will_release_variables()
        if node.is_users:
            # It may write into what it gets, and keep that, or what it returns, to write into it later
            # (test_a_body_that_writes_into_its_gradient_changes_no_other).
            prepare_all_to_lend(grads)
        taken = tuple(grads)
        grads.clear()
        return taken

    async def _run_memoized(self) -> list[Any]:
        """Return the gradients of a body whose answers are kept until the backward has succeeded."""
        graph_task, node = self.graph_task, self.node
        prepare_all_to_lend(self.grads)
        grads = tuple(self.grads)
        self.grads.clear()
        run = MemoizedRun(node, grads, graph_task.limits, graph_task.most_answers)
        outputs = run.recall()
        if outputs is None:
            body = Body(node, grads, None if node.is_async or self.is_sent else self.group, graph_task.reentrant_depth)
            body.run_by(run.ask)
            outputs = await self._await_body(body)
        # Not before: another row with the same gradients may have an answer where this one has failed.
        self.answered = (run.question,)
        return self._conform_outputs(outputs)

    async def _await_body(self, body: Body) -> Any:
        """Run a body as its device does; return its gradients once they are there."""
        node = self.node
        if has_custom_run(node.device):
            return await self._run_on_device(node.device, body)
        outputs: Any = body() if node.is_async or node.device is None else node.device.run_body(body)
        if not isinstance(outputs, (tuple, list)) and inspect.isawaitable(outputs):
            outputs = run_on_own_loop(outputs) if _needs_own_loop() else await outputs
        if not isinstance(outputs, (tuple, list)):
            raise no_tuple_error(node, outputs)
        return outputs

    def _call_body(self) -> Any:
        """Call a body that is no `async def`; return its gradients, or an awaitable of them."""
        graph_task, node = self.graph_task, self.node
        # Under create_graph bodies record nodes, whose order must be the same in each run: they stay in one thread.
        if self.group is None or graph_task.create_graph or node.device is None:
            return node.apply(self._take_grads())
        group = None if self.is_sent else self.group
        return node.device.run_body(Body(node, self._take_grads(), group, graph_task.reentrant_depth))

    async def _run_on_device(self, device: Device, body: Body) -> Any:
        """Run a body by `device.run_body`, with a permit if needed; under create_graph no node starts meanwhile."""
        graph_task, node, group = self.graph_task, self.node, self.group
        is_exclusive = graph_task.create_graph and not node.is_async and group is not None
        if is_exclusive:
            group.pause()
        permit = None
        try:
            if has_limit(device):
                permit = await acquire_permit(device, (-graph_task.reentrant_depth, node.order))
                if graph_task.observed_steps is not None:
                    graph_task.observed_steps.admit(node)
            outputs: Any = device.run_body(body)
            # If the body is a coroutine function, the device's awaitable may return another awaitable.
            while not isinstance(outputs, (tuple, list)) and inspect.isawaitable(outputs):
                outputs = run_on_own_loop(outputs) if _needs_own_loop() else await outputs
        finally:
            if permit is not None:
                permit.end()
            if is_exclusive:
                group.resume()
        if not isinstance(outputs, (tuple, list)):
            raise GradientTypeError(
                f"{type(device).__name__}.run_body returned {describe(outputs)} for {identify(node)}: "
                "return body(), a tuple with a gradient for each input, or an awaitable of that"
            )
        return outputs

    async def _accumulate(self, leaf: Leaf) -> None:
        if self.is_sent and self.graph_task.has_error:
            # The backward has failed meanwhile in its own thread: write nothing any more.
            return
        change = self.graph_task.accumulate(leaf, self.grads)
        hooks = leaf.variable._autograd_meta().post_accumulate_hooks
        if not hooks:
            return
        try:
            for hook, overlap in hooks.snapshot_with_overlap():
                result = await (
                    self._call(hook, leaf.variable) if overlap else self._call_exclusively(hook, leaf.variable)
                )
                if result is not None and result is not leaf.variable:
                    returned = describe(result)
                    raise HookError(
                        f"post-accumulate-grad {self._describe_hook(hook)} must return None, not {returned}"
                    )
        finally:
            # A hook may have replaced the gradient, as an optimizer that steps within the backward does.
            if change is not None:
                change.update_after()

    def _conform_outputs(self, outputs: Any) -> list[Any]:
        """Check the gradients that the body returned, and convert each to the metadata of the next node's input."""
        node = self.node
        if not isinstance(outputs, (tuple, list)):
            raise no_tuple_error(node, outputs)
        if len(outputs) != len(node.next_nodes):
            raise gradient_count_error(node, tuple(outputs))
        conforming: list[Any] = []
        create_graph, edge = self.graph_task.create_graph, -1
        # Without `enumerate` and `strict`, which cost as much as the check of one gradient.
        for target, input_nr, grad in zip(node.next_nodes, node.input_nrs, outputs):  # noqa: B905
            edge += 1
            if grad is None:
                conforming.append(None)
                continue
            value = grad
            if isinstance(grad, TensorBase):
                if target is not None and grad._device is not target.device:
                    value = _move_to_input(grad, target, input_nr)
                if not create_graph:
                    value = value._data
            if create_graph:
                value = values.wrap(value, node.device)
            if target is not None:
                value = conform(node, edge, target, input_nr, value)
            conforming.append(value)
        return conforming

    async def _run_tensor_hooks(self, meta: NodeMeta) -> None:
        hook_lists = meta.tensor_pre_hooks
        if isinstance(self.node, Leaf):
            hooks = self.node.variable._autograd_meta().hooks
            hook_lists = [(0, hooks)] if hooks else []
        # A copy: a hook may add the first hook of another input, which takes effect from the next run on.
        for input_nr, hooks in tuple(hook_lists):
            if self.grads[input_nr].__class__ is ValueGradient:
                await self._run_value_hooks(input_nr, hooks)
                continue
            for hook in hooks.snapshot():
                prepare_to_lend(self.grads, input_nr)
                grad = values.wrap(self.grads[input_nr], self.node.device)
                result = await self._call(hook, grad)
                self.grads[input_nr] = (
                    self._unwrap(grad) if result is None else self._check_replacement(result, grad, hook)
                )
                # So that from here on only the hook may have more references.
                del grad, result
                make_private(self.grads, input_nr)

    async def _run_value_hooks(self, input_nr: int, hooks: HookList) -> None:
        """Run the tensor hooks of an input whose gradient is no array."""
        for hook in hooks.snapshot():
            held = self.grads[input_nr]
            result = None if held is None else await self._call(hook, held.gradient)
            if result is not None:
                self.grads[input_nr] = self._check_replacement(result, held, hook)

    def _retain_grads(self, meta: NodeMeta) -> None:
        for input_nr, reference in meta.retains_grad_hooks.items():
            tensor, grad = reference(), self.grads[input_nr]
            if tensor is None or grad is None:
                continue
            if grad.__class__ is ValueGradient:
                grad = grad.gradient
            change_grad(tensor, grad, self.graph_task.changes, sole=False, listed=True, retained=True)
            if self.graph_task.create_graph:
                # `.grad` is the gradient itself, with its history.
                del grad
                make_private(self.grads, input_nr)

    async def _call_node_hook(self, hook: Callable[..., Any], grads: list[Any], *others: Any) -> None:
        """Call a pre-hook or a post-hook with gradients, which it may replace in the list."""
        seen = self._lend(grads)
        result = await self._call(hook, unheld(seen), *others)
        grads[:] = self._check_results(result, seen, hook)
        # As after a tensor hook.
        del seen, result
        make_all_private(grads)

    async def _call(self, hook: Callable[..., Any], *arguments: Any) -> Any:
        try:
            result = hook(*arguments)
        except TypeError as error:
            count, given = values.counted(len(arguments), "argument"), ", ".join(map(describe, arguments))
            note_refused_call(error, f"{self._describe_hook(hook)} is called with {count}: {given}")
            raise
        return await _await_result(result) if inspect.isawaitable(result) else result

    async def _call_exclusively(self, hook: Callable[..., Any], *arguments: Any) -> Any:
        """Call a hook; no further node starts until it has ended."""
        group = self.group
        if group is None:
            # In a blocking backward nothing runs beside it.
            return await self._call(hook, *arguments)
        group.pause()
        try:
            return await self._call(hook, *arguments)
        finally:
            group.resume()

    def _lend(self, grads: list[Any]) -> tuple[Any, ...]:
        """Return gradients as hooks get them, who may write into them."""
        prepare_all_to_lend(grads)
        device = self.node.device
        return tuple(grad if grad.__class__ is ValueGradient else values.wrap(grad, device) for grad in grads)

    def _unwrap(self, grad: Any) -> Any:
        """Return a gradient that a hook was given, and may have changed in place, as the engine keeps it."""
        return grad if self.graph_task.create_graph else values.raw(grad)

    def _check_results(self, results: Any, before: tuple[Any, ...], hook: Callable[..., Any]) -> list[Any]:
        """Return the gradients that replace `before` after a node hook returned `results`; raise if they do not fit."""
        if results is None:
            return [self._unwrap(grad) for grad in before]
        if not isinstance(results, tuple):
            raise HookTypeError(
                f"{self._describe_hook(hook)} must return None or a tuple of gradients, not {describe(results)}: "
                f"write a tuple of {len(before)}, with None where there is no gradient"
            )
        if len(results) != len(before):
            raise HookError(
                f"{self._describe_hook(hook)} returned {values.counted(len(results), 'gradient')}, not {len(before)}: "
                "return one for each gradient that it gets, None where there is none, or None in place of the tuple"
            )
        return [
            None if result is None else self._check_replacement(result, old, hook)
            for result, old in zip(results, before, strict=True)
        ]

    def _check_replacement(self, result: Any, old: Any, hook: Callable[..., Any]) -> Any:
        """Return the gradient that replaces `old` after a hook returned `result`; raise if it does not fit."""
        where, device = self._describe_hook(hook), self.node.device
        if old.__class__ is ValueGradient:
            return replaced(old, result, where)
        if old is None:
            raise HookError(f"{where} returned {describe(result)} where there was none: return None for it")
        if isinstance(result, TensorBase) and device not in (None, result._device):
            raise HookError(
                f"{where} returned a gradient on '{result._device}' for one on '{device}': "
                f"write return grad.to('{device}')"
            )
        if self.graph_task.create_graph:
            result = values.wrap(result, device)
        else:
            result = values.given_on_device(values.raw(result), device)
        if not hasattr(old, "dtype") and type(result) is type(old):
            return result
        if not hasattr(result, "dtype"):
            raise HookTypeError(f"{where} must return None or a tensor, not {describe(result)}")
        if result.shape != old.shape or result.dtype != old.dtype:
            raise HookError(
                f"{where} returned {describe(result)} for a gradient of shape {old.shape} and dtype {old.dtype}: "
                "return one of the same shape and dtype"
            )
        return result

    def _describe_hook(self, hook: Callable[..., Any]) -> str:
        return f"{name_hook(hook)} of {identify(self.node)}"


def may_suspend(node: Node) -> bool:
    """Tell whether a node has an async body or hook, or anything else that its run may have to wait for."""
    meta = node.meta
    if node.is_async or node.waits_for_saved():
        return True
    if meta is not None and meta.takes_values and may_await_merge(node):
        return True
    if has_custom_run(node.device) and (
        node.device.max_in_flight is not None or is_kind(inspect.iscoroutinefunction, node.device.run_body)
    ):
        return True
    if meta is not None and meta.stream is not None and not meta.stream.is_free():
        return True
    return any(is_kind(inspect.iscoroutinefunction, hook) for hook in _all_hooks(node, meta))


def _refuse_write(node: Node, error: Exception) -> None:
    """Raise what the error of a concurrent node means, if it is that of NumPy for a write into what was saved."""
    # So NumPy says it: "assignment destination is read-only", or "output array is read-only".
    if type(error) is ValueError and str(error).endswith(("destination is read-only", "array is read-only")):
        raise ChangedTensorError(
            f"{identify(node)} writes into what it has saved, and says concurrent = True: other runs of it read the "
            "same memory at that time. Write into a copy, t = t.copy(), or leave out concurrent"
        ) from error


def _move_to_input(grad: TensorBase, target: Node, input_nr: int) -> Any:
    """Return a gradient on the device of input `input_nr` of `target`."""
    metadata = target.input_metadata[input_nr]
    place = target.device if metadata is None or metadata.device is None else metadata.device
    return grad if place is None or grad._device is place else values.move(grad, grad._device, place)


async def _await_result(awaitable: Awaitable[Any]) -> Any:
    """Await the awaitable that a hook returned, and return its result.

    A blocking backward makes an event loop before it runs an `async def`. It cannot know of a plain function that
    returns an awaitable, which gets a loop here.
    """
    return run_on_own_loop(awaitable) if _needs_own_loop() else await awaitable


def _needs_own_loop() -> bool:
    return BLOCKING.get() and not loop_is_running()


def _all_hooks(node: Node, meta: NodeMeta | None) -> list[Callable[..., Any]]:
    lists = []
    if meta is not None:
        if meta.pre_hooks or meta.post_hooks or meta.tensor_pre_hooks:
            lists = [meta.pre_hooks, meta.post_hooks, *(hooks for _, hooks in meta.tensor_pre_hooks)]
        elif node.order != LEAF_ORDER:
            # The most common case: no hooks.
            return []
    if isinstance(node, Leaf):
        leaf_meta = node.variable._autograd_meta()
        lists += [leaf_meta.hooks, leaf_meta.post_accumulate_hooks]
    return [hook for hooks in lists if hooks is not None for hook in hooks.snapshot()]
