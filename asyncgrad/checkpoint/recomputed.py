"""The kind on saved-tensor hooks: the forward is recorded and saves nothing, and what is missing is recomputed once.

A `Frame` is one checkpointed call. In the forward each tensor that a node saves is replaced by a `Holder`, which knows
its place in the order of saving. The first of them that a backward asks for has the function called again, and what
that saves is, in the same order, what was not saved. The function's own inputs are saved as everything else: in the
frame around this one, where calls are nested.

Source: the checkpoint without reentrant autograd of PyTorch, and its note on nesting.
"""

from __future__ import annotations

import inspect
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, final

from ..context import CURRENT_GRAPH_TASK, SAVED_TENSORS_HOOKS
from ..errors import HookError
from ..function_context import FunctionContext, save
from ..graph.creation import announce, observe_nodes
from ..graph.node import Node, NodeMeta
from ..graph.packed import Packed, unpack_all
from ..graph.saved import Saved, version_of
from ..graph.tensor_base import TensorBase
from ..saving_node import SavingNode
from .attempt import Attempt, Holder, only_stops
from .call import Call, hooks_of_the_user
from .deep_calls import called
from .driving import Steps, driven, driven_later
from .node import check_result
from .report import Noted, Operations
from .surroundings import contexts, surrounded

__all__ = ["Frame", "call_recomputed"]


def call_recomputed(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what the function returns, recorded as ever, but for what is saved; an awaitable where it is async."""
    steps = _forward(call, args, kwargs)
    return driven_later(steps) if call.is_async else driven(steps)


def _forward(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Steps:
    tensors, call.tensors = call.tensors, []
    versions = list(map(version_of, tensors))
    inside, again = contexts(call)
    frame = Frame(call, tensors, again)
    with FrameMode(frame):
        result = yield from surrounded(inside, call.is_async, frame.first, args, kwargs)
    check_result(call.name, result, versions, tensors)
    frame.is_complete = True
    return result


@final
class Inputs(SavingNode):
    """Saves the inputs of a checkpointed call, as any node saves: no gradient ever flows through it."""

    __slots__ = ()

    def __init__(self, tensors: Sequence[Any]) -> None:
        self._connect(())
        self.shape = None
        self.dtype = None
        self.device = tensors[0]._device if tensors else None
        self.meta = NodeMeta()
        self.ctx = FunctionContext(self)
        self.ctx.save_for_backward(*tensors)
        save(self.ctx, (), {}, self)
        announce(self)

    @property
    def name(self) -> str:
        """What errors and reports call it."""
        return "checkpoint"

    @property
    def input_metadata(self) -> tuple[Any, ...]:
        """It has no outputs."""
        return ()

    def apply(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return nothing."""
        return ()


@final
class FrameMode:
    """Inside, what nodes save is replaced by the holders of a frame.

    No Mode, since those keep a list of all that are open, which would be copied for each of very many nested.

    Raises:
        HookError: on entering, where hooks are forbidden.
    """

    __slots__ = ("_before", "_keeping")

    def __init__(self, frame: Frame) -> None:
        self._keeping = Keeping(frame)

    def __enter__(self) -> None:
        self._before = SAVED_TENSORS_HOOKS.get()
        if isinstance(self._before, str):
            raise HookError(self._before)
        SAVED_TENSORS_HOOKS.set(self._keeping)
        observe_nodes()

    def __exit__(self, *exception: object) -> None:
        # A coroutine that is closed may end in another context.
        if SAVED_TENSORS_HOOKS.get() is self._keeping:
            SAVED_TENSORS_HOOKS.set(self._before)
            observe_nodes()


@final
class Frame:
    """One checkpointed call: its inputs, what it has not saved, and what has been recomputed for whom.

    Args:
        call: the call.
        tensors: its inputs.
        again: what surrounds the function when it is called again, if anything does.
    """

    __slots__ = (
        "__weakref__",
        "_again",
        "_attempts",
        "_call",
        "_guard",
        "_inputs",
        "_requires",
        "around",
        "holders",
        "is_complete",
        "noted",
        "operations",
        "outer",
        "waits",
    )

    def __init__(self, call: Call, tensors: Sequence[TensorBase], again: Any) -> None:
        keeping = SAVED_TENSORS_HOOKS.get()
        #: The user's hooks that the call was made under.
        self.around = hooks_of_the_user()
        self._call = call
        self._again = again
        self._requires = tuple(tensor._requires_grad() for tensor in tensors)
        #: The frame that this call's inputs were saved in, if it is nested.
        self.outer: Frame | None = keeping.frame if isinstance(keeping, Keeping) else None
        self._inputs = Inputs(tensors)
        #: Whether recomputing has, or may have, something to wait for.
        self.waits = call.is_async or self._inputs.waits_for_saved()
        #: What stands for the tensors saved in the forward, in order; weak, since they refer to this.
        self.holders: list[weakref.ref[Holder]] = []
        #: What those tensors looked like, and whose they were.
        self.noted: list[Noted] = []
        #: The operations of the forward, where they are to be reported.
        self.operations = Operations() if call.options.debug else None
        #: Whether the forward has ended: a backward inside of the function may come before.
        self.is_complete = False
        self._attempts: weakref.WeakKeyDictionary[Any, Attempt] = weakref.WeakKeyDictionary()
        self._guard = threading.Lock()

    @property
    def options(self) -> Any:
        """How the call is checkpointed."""
        return self._call.options

    @property
    def name(self) -> str:
        """What errors call the function."""
        return self._call.name

    def first(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function in the forward."""
        result = self._call.first(args, kwargs)
        if inspect.isawaitable(result):
            self.waits = True
        return result

    def fetch(self, holder: Holder) -> Steps:
        """Return the array of a holder, recomputed for the backward that runs, if it has not been yet.

        It is given out once: no reference stays here.
        """
        task = CURRENT_GRAPH_TASK.get()
        while True:
            attempt = Attempt(self) if task is None else self._attempt_for(task)
            if not attempt.is_done:
                yield from self._recompute(task, attempt)
            value = attempt.take(holder)
            if value is not None:
                return value
            # Somebody has asked for it before, in the same backward: that is recomputed once more.
            self._forget(task, attempt)

    def _attempt_for(self, task: Any) -> Attempt:
        with self._guard:
            attempt = self._attempts.get(task)
            if attempt is None:
                attempt = self._attempts[task] = Attempt(self)
            return attempt

    def _forget(self, task: Any, attempt: Attempt) -> None:
        with self._guard:
            if task is not None and self._attempts.get(task) is attempt:
                del self._attempts[task]

    def _recompute(self, task: Any, attempt: Attempt) -> Steps:
        """Recompute, the frames around this one first: without recursion, since they may be many."""
        frames = [(self, attempt)]
        outer = self.outer
        while outer is not None and task is not None:
            around = outer._attempt_for(task)
            if around.is_done:
                break
            frames.append((outer, around))
            outer = outer.outer
        while frames:
            frame, attempt = frames.pop()
            yield from attempt.once(frame._run)

    def _run(self, attempt: Attempt) -> Steps:
        """Call the function again, and let `attempt` see what it saves."""
        inputs = yield unpack_all(self._inputs, self._inputs.saved_entries() or ())
        detached = [
            tensor.detach().requires_grad_() if requires else tensor.detach()
            for tensor, requires in zip(inputs, self._requires, strict=True)
        ]
        del inputs
        try:
            yield self._call.again(detached, attempt, self._again_within)
        except BaseException as error:
            if not (attempt.has_all and only_stops(error)):
                raise
        attempt.finish()

    def _again_within(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        return driven(surrounded(self._again, self._call.is_async, called, fn, args, kwargs))


@final
class Keeping:
    """What sees the nodes of the forward: it keeps none of what they save.

    Args:
        frame: whose forward runs.
    """

    __slots__ = ("frame",)

    def __init__(self, frame: Frame) -> None:
        self.frame = frame

    @property
    def around(self) -> Any:
        """The user's hooks that the checkpointed call was made under."""
        return self.frame.around

    @property
    def unpacks_async(self) -> bool:
        """Whether what `unpack` returns has to be awaited."""
        return self.frame.waits

    def pack_saved(self, node: Node) -> None:
        """Put a holder in the place of each tensor that a new node has saved."""
        frame = self.frame
        if frame.operations is not None:
            frame.operations.note(node)
        for index, saved in enumerate(node.saved_entries() or ()):
            if isinstance(saved, Saved) and saved.tensor is not None:
                node.make_meta()
                node.keep_packed(index, Packed(node, saved, saved.tensor, self))

    def keep(self, node: Node, shown: TensorBase) -> Holder:
        """Return the holder of one more tensor."""
        frame = self.frame
        holder = Holder(frame, len(frame.holders))
        frame.holders.append(weakref.ref(holder))
        frame.noted.append(Noted.of(node, shown))
        return holder

    def unpack(self, holder: Holder) -> Any:
        """Return the array that a holder stands for, or an awaitable of it."""
        steps = self.frame.fetch(holder)
        return driven_later(steps) if self.frame.waits else driven(steps)
