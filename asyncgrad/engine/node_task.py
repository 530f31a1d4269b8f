"""NodeTask: one careful run of a node, with hooks around its body, as a coroutine.

It suspends only where a hook or the body does.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, final

from ..context import CURRENT_NODE
from ..errors import GradientTypeError, HookError, HookTypeError
from ..graph import values
from ..graph.grad_change import change_grad
from ..graph.leaf import AccumulateGrad
from ..graph.metadata import conform
from .counted import wrong_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..graph.node import Node, Special
    from .graph_task import GraphTask

__all__ = ["NodeTask"]


@final
class NodeTask:
    """One run of one node in one GraphTask.

    Args:
        graph_task: whose node it is.
        node: the node.
        grads: what has arrived at its inputs; the NodeTask owns the list.
    """

    __slots__ = ("grads", "graph_task", "node")

    def __init__(self, graph_task: GraphTask, node: Node, grads: list[Any]) -> None:
        self.graph_task = graph_task
        self.node = node
        self.grads = grads

    def may_suspend(self) -> bool:
        """Tell whether the body or a hook is an `async def`."""
        node, special = self.node, self.node.special
        if node.is_async:
            return True
        return any(inspect.iscoroutinefunction(hook) for hook in _all_hooks(node, special))

    async def run(self) -> tuple[Any, ...] | None:
        """Run hooks, body, checks and release in PyTorch's order; return the gradients for the edges.

        None where the body is not to run, since this backward only captures here.
        """
        graph_task, node, special = self.graph_task, self.node, self.node.special
        CURRENT_NODE.set(node)
        # What the post-hooks see; where there are none, the body is to hold the only reference to its gradients.
        inputs: tuple[Any, ...] = ()
        if special is not None:
            if not await self._run_pre_hooks(special):
                return None
            if special.post_hooks:
                inputs = self._wrapped(self.grads)
        outputs = await self._run_body()
        if special is not None and special.post_hooks:
            for hook in special.post_hooks.snapshot():
                outputs = tuple(self._checked(await self._call(hook, self._wrapped(outputs), inputs), outputs, hook))
        if not graph_task.keep_graph:
            node.release_variables()
        return outputs

    async def _run_pre_hooks(self, special: Special) -> bool:
        """Run all that comes before the body, and capture; tell whether the body is to run."""
        graph_task, node, grads = self.graph_task, self.node, self.grads
        needed = graph_task.exec_info is None or graph_task.exec_info[node].needed
        # PyTorch captures the raw gradient of a node whose body runs too, and the hooked one otherwise.
        if needed:
            graph_task.capture(node, grads)
        await self._run_tensor_hooks(special)
        self._retain_grads(special)
        if not needed:
            graph_task.capture(node, grads)
            return False
        if special.pre_hooks:
            for hook in special.pre_hooks.snapshot():
                grads[:] = self._checked(await self._call(hook, self._wrapped(grads)), grads, hook)
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
        outputs = node.apply(grads)
        if inspect.isawaitable(outputs):
            outputs = await outputs
        del grads
        if not isinstance(outputs, (tuple, list)):
            raise GradientTypeError(
                f"{node.name} (node #{node.sequence_nr}) returned {values.describe(outputs)}: "
                "apply must return a tuple with a gradient for each input"
            )
        return self._conforming(outputs)

    async def _accumulate(self, leaf: AccumulateGrad) -> None:
        change = self.graph_task.accumulate(leaf, self.grads)
        hooks = leaf.variable._autograd_meta().post_accumulate_hooks
        if not hooks:
            return
        try:
            for hook in hooks.snapshot():
                result = await self._call(hook, leaf.variable)
                if result is not None and result is not leaf.variable:
                    returned = values.describe(result)
                    raise HookError(f"post-accumulate-grad {_called(hook)} must return None, not {returned}")
        finally:
            # A hook may have set the gradient to something else: an optimizer that steps within the backward does.
            if change is not None:
                change.look_again()

    def _conforming(self, outputs: Any) -> tuple[Any, ...]:
        """Return what the body returned as the next nodes take it, for post-hooks to see."""
        node = self.node
        if len(outputs) != len(node.next_nodes):
            raise wrong_count(node, outputs)
        conforming = []
        for edge, (target, input_nr, grad) in enumerate(zip(node.next_nodes, node.input_nrs, outputs, strict=True)):
            value = values.wrap(grad, node.device) if self.graph_task.create_graph else values.raw(grad)
            if value is not None and target is not None:
                value = conform(node, edge, target, input_nr, value)
            conforming.append(value)
        return tuple(conforming)

    async def _run_tensor_hooks(self, special: Special) -> None:
        hook_lists = special.tensor_pre_hooks
        if isinstance(self.node, AccumulateGrad):
            hooks = self.node.variable._autograd_meta().hooks
            hook_lists = [(0, hooks)] if hooks else []
        for input_nr, hooks in hook_lists:
            for hook in hooks.snapshot():
                grad = self.grads[input_nr]
                result = await self._call(hook, values.wrap(grad, self.node.device))
                if result is not None:
                    self.grads[input_nr] = self._replacement(result, grad, hook)

    def _retain_grads(self, special: Special) -> None:
        for input_nr, reference in special.retains_grad_hooks.items():
            tensor, grad = reference(), self.grads[input_nr]
            if tensor is None or grad is None:
                continue
            self.graph_task.changes.append(change_grad(tensor, grad, sole=False, listed=True, retained=True))

    async def _call(self, hook: Callable[..., Any], *arguments: Any) -> Any:
        result = hook(*arguments)
        return await result if inspect.isawaitable(result) else result

    def _wrapped(self, grads: Any) -> tuple[Any, ...]:
        return tuple(values.wrap(grad, self.node.device) for grad in grads)

    def _checked(self, results: Any, before: Any, hook: Callable[..., Any]) -> list[Any]:
        if results is None:
            return list(before)
        if not isinstance(results, (tuple, list)):
            raise HookTypeError(f"{_called(hook)} of {self.node.name} must return None or a tuple of gradients")
        if len(results) != len(before):
            raise HookError(f"{_called(hook)} of {self.node.name} returned {len(results)} gradients, not {len(before)}")
        return [
            None if result is None else self._replacement(result, old, hook)
            for result, old in zip(results, before, strict=True)
        ]

    def _replacement(self, result: Any, old: Any, hook: Callable[..., Any]) -> Any:
        """Return what a hook returned in place of gradient `old`, if it may stand there."""
        where = f"{_called(hook)} of {self.node.name} (node #{self.node.sequence_nr})"
        if old is None:
            raise HookError(f"{where} returned a gradient where there was none")
        result = values.wrap(result, self.node.device) if self.graph_task.create_graph else values.raw(result)
        if not hasattr(old, "dtype") and type(result) is type(old):
            return result
        if not hasattr(result, "dtype"):
            raise HookTypeError(f"{where} must return None or a tensor, not {values.describe(result)}")
        if result.shape != old.shape or result.dtype != old.dtype:
            raise HookError(
                f"{where} returned {values.describe(result)} for a gradient of shape {old.shape} and dtype {old.dtype}"
            )
        return result


def _called(hook: Callable[..., Any]) -> str:
    return f"hook {getattr(hook, '__qualname__', type(hook).__name__)}"


def _all_hooks(node: Node, special: Special | None) -> list[Callable[..., Any]]:
    lists = [] if special is None else [special.pre_hooks, special.post_hooks]
    if special is not None:
        lists += [hooks for _, hooks in special.tensor_pre_hooks]
    if isinstance(node, AccumulateGrad):
        meta = node.variable._autograd_meta()
        lists += [meta.hooks, meta.post_accumulate_hooks]
    return [hook for hooks in lists if hooks is not None for hook in hooks.snapshot()]
