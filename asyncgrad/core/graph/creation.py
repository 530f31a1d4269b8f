"""Observers of new nodes: profiles and creation hooks, beside anomaly mode, saved-tensor hooks and streams.

If there is any in a context, the value of grad mode there is an Observer instead of True, so that an operation without
observers pays nothing. Those of all of the process are added where operations look up that value: see wrappers.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, final

from ...errors import GraphError, HookError, HookTypeError
from ..settings.arguments import check_callable, describe
from ..settings.context import (
    ANOMALY,
    CURRENT_STREAMS,
    GRAD_MODE,
    RECORDING,
    SAVED_TENSORS_HOOKS,
    is_kind,
    set_observer,
)
from ..settings.observers import CREATION_HOOKS, NEW_NODES, CreationHook, NodeRecorder, ObserverBlock
from .naming import name_hook
from .wrappers import override, register_wrapper, restore

if TYPE_CHECKING:
    from ..settings.context import Mode
    from .node_like import NodeLike

__all__ = [
    "announce",
    "call_unseen",
    "is_watched",
    "node_creation_hook",
    "observe_nodes",
    "show",
]

#: Observers of the whole process replace it: see wrappers.py.
_recording = RECORDING.get
register_wrapper(globals())


def _nobody(frame: FrameType, code: CodeType) -> None:
    """Stand for no caller."""


@final
class Observer:
    """Passes each new node of a context to anomaly mode, the saved-tensor hooks, profiles and the creation hooks.

    Creation hooks are called outermost first. The observer also stores the stream that a node is made on.
    """

    __slots__ = ("_anomaly", "_hooks", "_is_aside", "_packing", "_recorders", "_streams")

    #: Operations pass each node to `created`: see RecordingOnly.
    last_code: Sequence[CodeType | None] = (None,)
    caller: Callable[[FrameType, CodeType], None] = staticmethod(_nobody)

    def __init__(
        self,
        anomaly: Any,
        packing: Any,
        hooks: tuple[CreationHook, ...],
        streams: Mapping[Any, Any],
        recorders: tuple[NodeRecorder, ...] = (),
        is_aside: bool = False,
    ) -> None:
        self._anomaly = anomaly
        self._packing = packing
        self._streams = streams
        self._hooks = hooks
        self._recorders = recorders
        #: Whether no other creation hooks are to see the nodes: see `call_unseen`.
        self._is_aside = is_aside

    def created(self, node: NodeLike) -> None:
        """Handle a node that has its edges and all its saved tensors."""
        self.note(node)
        self.announce(node)

    def note(self, node: NodeLike) -> None:
        """Store the node's creation stack and stream; called while the user's line is on the call stack."""
        if self._anomaly is not None:
            self._anomaly.note(node)
        if self._streams:
            stream = self._streams.get(node.device)
            if stream is not None:
                node.make_meta().stream = stream
        for recorder in self._recorders:
            recorder.note(node)

    def announce(self, node: NodeLike) -> None:
        """Pack the node's saved tensors and call the creation hooks; the node must have saved everything."""
        if self._packing is not None:
            self._packing.pack_saved(node)
        for recorder in self._recorders:
            recorder.announce(node)
        self.show(node)

    def show(self, node: NodeLike) -> None:
        """Call the creation hooks."""
        if not self._hooks:
            return
        before = RECORDING.get()
        set_observer(_REFUSAL)
        try:
            for hook in self._hooks:
                result = hook(node)
                if result is not None:
                    if inspect.iscoroutine(result):
                        result.close()
                    raise HookError(
                        f"node creation {name_hook(hook)} must return None, not {describe(result)}: it is called for "
                        f"{node.name} to look at it, and cannot replace it"
                    )
        finally:
            set_observer(before)

    def is_watched(self) -> bool:
        """Tell whether there are creation hooks."""
        return bool(self._hooks)

    def aside(self, hook: CreationHook) -> Observer:
        """Return an observer like this one whose only creation hook is `hook`, also where the process has others."""
        return Observer(self._anomaly, self._packing, (hook,), self._streams, self._recorders, True)

    def beside(self, recorders: tuple[NodeRecorder, ...], hooks: tuple[CreationHook, ...]) -> Observer:
        """Return an observer like this one that passes nodes to others too, and to these first."""
        hooks = self._hooks if self._is_aside else (*hooks, *self._hooks)
        recorders = (*recorders, *self._recorders)
        return Observer(self._anomaly, self._packing, hooks, self._streams, recorders, self._is_aside)


@final
class RecordingOnly:
    """The observer of a context in which one profile records, and nothing else observes: one call for each node."""

    __slots__ = ("_recorder", "announce", "caller", "clock", "created", "last_code", "note", "plain_calls")

    def __init__(self, recorder: NodeRecorder) -> None:
        self._recorder = recorder
        self.plain_calls: list[Any] = recorder.plain_calls
        self.last_code: list[CodeType | None] = recorder.last_code
        self.caller: Callable[[FrameType, CodeType], FrameType | None] = recorder.caller
        self.clock: Callable[[], float] = recorder.clock
        self.created: Callable[[Any], None] = recorder.created
        self.note: Callable[[Any], None] = recorder.note
        self.announce: Callable[[Any], None] = recorder.announce

    def show(self, node: NodeLike) -> None:
        """Do nothing: there are no creation hooks."""

    def aside(self, hook: CreationHook) -> Observer:
        """Return an observer like this one with a creation hook: see Observer."""
        return Observer(None, None, (hook,), {}, (self._recorder,), True)

    def beside(self, recorders: tuple[NodeRecorder, ...], hooks: tuple[CreationHook, ...]) -> Observer:
        """Return an observer that passes nodes to more recorders and to creation hooks."""
        return Observer(None, None, hooks, {}, (*recorders, self._recorder))


@final
class Refusal:
    """The observer while a creation hook runs: it refuses every new node."""

    __slots__ = ()

    last_code: Sequence[CodeType | None] = (None,)
    caller: Callable[[FrameType, CodeType], None] = staticmethod(_nobody)

    def created(self, node: NodeLike) -> None:
        """Raise."""
        raise GraphError(
            f"a node creation hook made a node itself, {node.name}, and would be called for it in turn: "
            "compute under ag.no_grad(), or on t.detach() or t.numpy()"
        )

    note = announce = created


_REFUSAL = Refusal()
#: Stands for the observer of a context that has none.
_NO_OBSERVER = Observer(None, None, (), {})


def announce(node: NodeLike) -> None:
    """Pass a new node to the observer of this context, whatever grad mode is."""
    observer = _recording()
    if observer is not True:
        observer.created(node)


def is_watched() -> bool:
    """Tell whether creation hooks see the nodes of this context."""
    observer = _recording()
    return isinstance(observer, Observer) and observer.is_watched()


def call_unseen(function: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, list[Any]]:
    """Call a function without creation hooks; return its result, and the nodes that it made, for `show`.

    Anomaly mode and saved-tensor hooks do see the nodes. Use it where it is not known yet which nodes will be in the
    graph: a CopySlices replaces the node of a write into a view, and is then shown in its place.
    """
    observer, made = RECORDING.get(), list[Any]()
    set_observer((_NO_OBSERVER if observer is True else observer).aside(made.append))
    try:
        result = function(*args, **options)
    finally:
        set_observer(observer)
    return result, made


def show(nodes: Iterable[NodeLike]) -> None:
    """Call the creation hooks for nodes that `call_unseen` returned."""
    for node in nodes:
        _recording().show(node)


def observe_nodes() -> None:
    """Set the observer of this context from its current modes."""
    anomaly, packing, hooks = ANOMALY.get(), SAVED_TENSORS_HOOKS.get(), CREATION_HOOKS.of_context()
    streams, recorders = CURRENT_STREAMS.get(), NEW_NODES.of_context()
    if isinstance(packing, str):
        packing = None
    # A creation hook that enters a mode still must not make nodes.
    if RECORDING.get() is not _REFUSAL:
        unobserved = anomaly is None and packing is None and not hooks and not streams
        observer: Any = True
        if unobserved and len(recorders) == 1:
            observer = RecordingOnly(recorders[0])
        elif recorders or not unobserved:
            observer = Observer(anomaly, packing, hooks, streams, recorders)
        set_observer(observer)


def _observe_everywhere() -> None:
    """Pass the new nodes of all contexts to the observers of the process, beside what observes them there."""
    recorders, hooks = NEW_NODES.of_process, CREATION_HOOKS.of_process
    if not recorders and not hooks:
        restore("_grad_mode", GRAD_MODE.get)
        restore("_recording", RECORDING.get)
        return
    alone: Any = _NO_OBSERVER.beside(recorders, hooks)
    if len(recorders) == 1 and not hooks:
        alone = RecordingOnly(recorders[0])

    def beside(mode: Any) -> Any:
        if mode is True:
            return alone
        return mode if not mode or mode is _REFUSAL else mode.beside(recorders, hooks)

    override("_grad_mode", lambda: beside(GRAD_MODE.get()))
    override("_recording", lambda: beside(RECORDING.get()))


def _renew(whole_process: bool) -> None:
    if whole_process:
        _observe_everywhere()
    else:
        observe_nodes()


NEW_NODES.when_changed(_renew)
CREATION_HOOKS.when_changed(_renew)


@final
class node_creation_hook(ObserverBlock):
    """Inside, `hook(node)` is called once for every new node, as soon as the node has all its saved tensors.

    This includes the nodes of a backward that is recorded, and a leaf's AccumulateGrad, which the first operation on
    the leaf makes. For a Node subclass of your own the hook is called at the end of `Node.__init__`. It is a context
    manager and a decorator, and holds for the current context only. Of nested hooks the outer one is called first.

    Args:
        hook: a function that returns None. It must not record operations. It cannot be an `async def`, since it is
            called in the middle of an operation.

    Raises:
        HookTypeError: `hook` cannot be called, or is an `async def`.

    Source: torch.autograd.graph.node_creation_hook.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0], requires_grad=True)
        >>> with ag.graph.node_creation_hook(lambda node: print(node.name)):
        ...     y = (x * 2).sum()
        AccumulateGrad
        MultiplyBackward
        SumBackward
    """

    __slots__ = ("_hook",)
    _observers = CREATION_HOOKS

    def __init__(self, hook: Callable[..., None]) -> None:
        check_callable(hook, "a node creation hook", instead="pass a function")
        if is_kind(inspect.iscoroutinefunction, hook):
            raise HookTypeError(
                f"node creation {name_hook(hook)} is an async def, and an operation that makes a node cannot await it: "
                "pass a plain function"
            )
        self._hook = hook

    def _value(self) -> Any:
        return (*CREATION_HOOKS.of_context(), self._hook)

    def _clone(self) -> Mode:
        return node_creation_hook(self._hook)
