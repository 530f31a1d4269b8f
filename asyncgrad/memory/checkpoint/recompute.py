"""Checkpoints that are not reentrant: the forward is recorded as usual but saves nothing, and is run again once.

A CheckpointFrame is one call. In its forward each tensor that a node saves is replaced by a Holder, which knows its
index in the order of saving. The first holder that a backward asks for has the function called again; the tensors saved
then are, in the same order, those that were left out. The inputs of the call are saved as any other tensors: by
reference, or, where calls are nested, in the frame of the call around it.

Source: the checkpoint of PyTorch with use_reentrant=False, and its note on nesting (torch/utils/checkpoint.py).
"""

from __future__ import annotations

import contextlib
import inspect
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

from ...core.arrays.tensor_base import TensorBase
from ...core.function.function_context import FunctionContext, save
from ...core.function.saving_node import SavingNode
from ...core.graph.creation import announce, observe_nodes
from ...core.graph.node import Node, NodeMeta
from ...core.graph.packed import Packed, unpack_all, unpacked_entries
from ...core.graph.saved import version_of
from ...core.settings.context import CURRENT_GRAPH_TASK, SAVED_TENSORS_HOOKS, RunningBackward
from ...errors import HookError
from .call import CheckpointedCall, call_function, check_result, context_managers, run_within
from .recomputation import ForwardRecord, Holder, Recomputation
from .steps import Steps, run_steps, run_steps_async

__all__ = ["call_recomputed"]


def call_recomputed(call: CheckpointedCall, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of a call, recorded without what its nodes save; an awaitable where the function is async."""
    steps = _forward(call, args, kwargs)
    return run_steps_async(steps) if call.is_async else run_steps(steps)


def _forward(call: CheckpointedCall, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Steps:
    tensors, call.tensors = call.tensors, []
    versions = list(map(version_of, tensors))
    manager, recompute_manager = context_managers(call)
    frame = CheckpointFrame(call, tensors, recompute_manager)
    with _use_hooks(CheckpointHooks(frame)):
        result = yield from run_within(manager, call.is_async, frame.call_forward, args, kwargs)
    check_result(call.name, result, versions, tensors)
    frame.record.is_complete = True
    return result


@contextlib.contextmanager
def _use_hooks(hooks: CheckpointHooks) -> Iterator[None]:
    """Let `hooks` be the saved-tensor hooks.

    This is no Mode: those list all that are open, and a list would be copied for each of very many nested calls.

    Raises:
        HookError: hooks are forbidden here.
    """
    before = SAVED_TENSORS_HOOKS.get()
    if isinstance(before, str):
        raise HookError(before)
    SAVED_TENSORS_HOOKS.set(hooks)
    observe_nodes()
    try:
        yield
    finally:
        # A coroutine that is closed may end in another context.
        if SAVED_TENSORS_HOOKS.get() is hooks:
            SAVED_TENSORS_HOOKS.set(before)
            observe_nodes()


@final
class SavedInputs(SavingNode):
    """A node that saves the inputs of a call. It has no edges and no outputs; no backward runs it."""

    __slots__ = ()

    def __init__(self, tensors: Sequence[Any]) -> None:
        self._connect(())
        self.shape = None
        self.dtype: Any = None
        self.device: Any = tensors[0]._device if tensors else None
        self.meta = NodeMeta()
        self.ctx = FunctionContext(self)
        self.ctx.save_for_backward(*tensors)
        save(self.ctx, (), {}, self)
        announce(self)

    @property
    def name(self) -> str:
        """Its name in errors and reports."""
        return "checkpoint"

    @property
    def input_metadata(self) -> tuple[Any, ...]:
        """Nothing: it has no outputs."""
        return ()

    def apply(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return nothing."""
        return ()


@final
class CheckpointFrame:
    """One checkpointed call: its inputs, the record of its forward, and its recomputations by backward.

    Args:
        call: the call.
        tensors: its inputs.
        manager: the context manager around the function in a recomputation, or None.
    """

    __slots__ = (
        "__weakref__",
        "_call",
        "_inputs",
        "_lock",
        "_manager",
        "_outer",
        "_recomputations",
        "_requires",
        "record",
    )

    def __init__(self, call: CheckpointedCall, tensors: Sequence[TensorBase], manager: Any) -> None:
        hooks = SAVED_TENSORS_HOOKS.get()
        #: The frame that this call is nested in, which holds the inputs.
        self._outer: CheckpointFrame | None = hooks.frame if isinstance(hooks, CheckpointHooks) else None
        self._call = call
        self._manager = manager
        self._requires = tuple(tensor._requires_grad() for tensor in tensors)
        self._inputs = SavedInputs(tensors)
        self.record: ForwardRecord = ForwardRecord(
            call.name, call.options, call.is_async or self._inputs.waits_for_saved()
        )
        #: By GraphTask: each backward recomputes for itself.
        self._recomputations: weakref.WeakKeyDictionary[RunningBackward, Recomputation] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def call_forward(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function in the forward."""
        result = self._call.forward(args, kwargs)
        if inspect.isawaitable(result):
            self.record.waits = True
        return result

    def fetch(self, holder: Holder) -> Steps:
        """Return the array of a holder, recomputed for the current backward unless that has been done.

        The array is handed out once: no reference to it stays here.
        """
        task = CURRENT_GRAPH_TASK.get()
        while True:
            recomputation = Recomputation(self.record) if task is None else self._recomputation_for(task)
            if not recomputation.is_done:
                yield from self._recompute(task, recomputation)
            value = recomputation.take(holder)
            if value is not None:
                return value
            # The array has been handed out before in this backward: it is recomputed once more.
            self._forget(task, recomputation)

    def _recomputation_for(self, task: RunningBackward) -> Recomputation:
        with self._lock:
            recomputation = self._recomputations.get(task)
            if recomputation is None:
                recomputation = self._recomputations[task] = Recomputation(self.record)
            return recomputation

    def _forget(self, task: RunningBackward | None, recomputation: Recomputation) -> None:
        with self._lock:
            if task is not None and self._recomputations.get(task) is recomputation:
                del self._recomputations[task]

    def _recompute(self, task: RunningBackward | None, recomputation: Recomputation) -> Steps:
        """Recompute this frame after the frames around it, which have its inputs.

        A loop and no recursion, since calls may be nested deeper than the stack allows.
        """
        pending = [(self, recomputation)]
        outer = self._outer
        while outer is not None and task is not None:
            around = outer._recomputation_for(task)
            if around.is_done:
                break
            pending.append((outer, around))
            outer = outer._outer
        while pending:
            frame, recomputation = pending.pop()
            yield from recomputation.run_once(frame._call_again)

    def _call_again(self, recomputation: Recomputation) -> Steps:
        """Call the function on its saved inputs, with the recomputation as saved-tensor hooks."""
        tensors = yield unpack_all(self._inputs, self._inputs.saved_entries() or ())
        leaves = [
            tensor.detach().requires_grad_() if requires else tensor.detach()
            for tensor, requires in zip(tensors, self._requires, strict=True)
        ]
        del tensors
        yield self._call.recompute(leaves, recomputation, self._call_within_manager)

    def _call_within_manager(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        return run_steps(run_within(self._manager, self._call.is_async, call_function, fn, args, kwargs))


@final
class CheckpointHooks:
    """Saved-tensor hooks of a forward that save nothing: they put a holder in the place of each tensor.

    Args:
        frame: the call whose forward runs.
    """

    __slots__ = ("frame",)

    def __init__(self, frame: CheckpointFrame) -> None:
        self.frame: CheckpointFrame = frame

    @property
    def user_hooks(self) -> Any:
        """The user's saved-tensor hooks in the forward."""
        return self.frame.record.user_hooks

    @property
    def unpacks_async(self) -> bool:
        """Whether `unpack` returns an awaitable."""
        return self.frame.record.waits

    def pack_saved(self, node: Node) -> None:
        """Put a holder in the place of each tensor that a new node has saved."""
        operations = self.frame.record.operations
        if operations is not None:
            operations.add(node)
        for index, saved, tensor in unpacked_entries(node):
            node.make_meta()
            node.keep_packed(index, Packed(node, saved, tensor, self))

    def keep(self, node: Node, shown: TensorBase) -> Holder:
        """Return the holder of one more tensor."""
        return self.frame.record.add(node, shown)

    def unpack(self, holder: Holder) -> Any:
        """Return the array that a holder stands for, or an awaitable of it."""
        steps = self.frame.fetch(holder)
        return run_steps_async(steps) if self.frame.record.waits else run_steps(steps)
