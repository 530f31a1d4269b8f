"""Observers of new nodes: anomaly mode, saved-tensor hooks, creation hooks, streams and profiles.

All of them belong to the context. If there is any, the value of grad mode is an Observer instead of True, so that an
operation without observers pays nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Protocol, final

from ...errors import GraphError, HookError, HookTypeError
from ..settings.arguments import describe
from ..settings.context import (
    ANOMALY,
    CURRENT_STREAMS,
    GRAD_MODE,
    RECORDING,
    SAVED_TENSORS_HOOKS,
    Mode,
    is_kind,
    set_observer,
)
from .naming import name_hook
from .wrappers import override, register_wrapper, restore

if TYPE_CHECKING:
    from .node_like import NodeLike

__all__ = [
    "ForwardRecorder",
    "HOOKS",
    "RECORDERS",
    "announce",
    "call_unseen",
    "is_watched",
    "node_creation_hook",
    "observe_nodes",
    "record_everywhere",
    "show",
]

#: A profile of the whole process replaces it: see wrappers.py.
_recording = RECORDING.get
register_wrapper(globals())

#: The creation hooks of this context, outermost first.
HOOKS: ContextVar[tuple[Callable[[Any], Any], ...]] = ContextVar("asyncgrad_creation_hooks", default=())


class ForwardRecorder(Protocol):
    """What a profile does with each new node."""

    #: Takes a node that has its edges and all its saved tensors, while the user's line is on the call stack.
    created: Callable[[Any], None]
    #: For each node, one after the other: its plan, order and id, the shape, dtype and device of its result, the code
    #: object and the instruction of the call, its thread (a bool is the main thread), the time, and the id of the node
    #: of each argument; then, for a superlinear function, the specs of what it has saved, or None. They do not stand in
    #: tuples, which the garbage collector would visit.
    plain_calls: list[Any]
    #: A list of one: the code object of the user's that has called last. None once the profile has ended.
    last_code: list[CodeType | None]
    #: Takes a frame and its code; returns the innermost frame, from that one on, that is not asyncgrad's own. None
    #: where `created` is to be called instead.
    caller: Callable[[FrameType, CodeType], FrameType | None]
    #: Returns the time.
    clock: Callable[[], float]

    def note(self, node: Any) -> None:
        """Note that the call has begun that makes the node; the user's line is on the call stack."""

    def announce(self, node: Any) -> None:
        """Note that the call has ended, and that the node has saved everything."""


#: What records the new nodes of this context, outermost first.
RECORDERS: ContextVar[tuple[ForwardRecorder, ...]] = ContextVar("asyncgrad_forward_recorders", default=())


def _nobody(frame: FrameType, code: CodeType) -> None:
    """Stand for no caller."""


@final
class Observer:
    """Passes each new node of a context to anomaly mode, the saved-tensor hooks, profiles and the creation hooks.

    Creation hooks are called outermost first. The observer also stores the stream that a node is made on.
    """

    __slots__ = ("_anomaly", "_hooks", "_packing", "_recorders", "_streams")

    #: Operations pass each node to `created`: see RecordingOnly.
    last_code: Sequence[CodeType | None] = (None,)
    caller: Callable[[FrameType, CodeType], None] = staticmethod(_nobody)

    def __init__(
        self,
        anomaly: Any,
        packing: Any,
        hooks: tuple[Callable[[Any], Any], ...],
        streams: Mapping[Any, Any],
        recorders: tuple[ForwardRecorder, ...] = (),
    ) -> None:
        self._anomaly = anomaly
        self._packing = packing
        self._streams = streams
        self._hooks = hooks
        self._recorders = recorders

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
            set_observer(self)

    def is_watched(self) -> bool:
        """Tell whether there are creation hooks."""
        return bool(self._hooks)

    def with_hook(self, hook: Callable[[Any], Any]) -> Observer:
        """Return an observer like this one whose only creation hook is `hook`."""
        return Observer(self._anomaly, self._packing, (hook,), self._streams, self._recorders)

    def with_recorder(self, recorder: ForwardRecorder) -> Observer:
        """Return an observer like this one that passes nodes to one more recorder."""
        recorders = (recorder, *self._recorders)
        return Observer(self._anomaly, self._packing, self._hooks, self._streams, recorders)


@final
class RecordingOnly:
    """The observer of a context in which one profile records, and nothing else observes: one call for each node."""

    __slots__ = ("_recorder", "announce", "caller", "clock", "created", "last_code", "note", "plain_calls")

    def __init__(self, recorder: ForwardRecorder) -> None:
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

    def with_recorder(self, recorder: ForwardRecorder) -> Observer:
        """Return an observer that passes nodes to one more recorder."""
        return Observer(None, None, (), {}, (recorder, self._recorder))


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


def announce(node: NodeLike) -> None:
    """Pass a new node to the observer of this context, whatever grad mode is."""
    observer = _recording()
    if observer is not True:
        observer.created(node)


def is_watched() -> bool:
    """Tell whether this context has creation hooks."""
    observer = RECORDING.get()
    return isinstance(observer, Observer) and observer.is_watched()


def call_unseen(function: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, list[Any]]:
    """Call a function without creation hooks; return its result, and the nodes that it made, for `show`.

    Anomaly mode and saved-tensor hooks do see the nodes. Use it where it is not known yet which nodes will be in the
    graph: a CopySlices replaces the node of a write into a view, and is then shown in its place.
    """
    observer, made = RECORDING.get(), list[Any]()
    set_observer(observer.with_hook(made.append))
    try:
        result = function(*args, **options)
    finally:
        set_observer(observer)
    return result, made


def show(nodes: Iterable[NodeLike]) -> None:
    """Call the creation hooks for nodes that `call_unseen` returned."""
    for node in nodes:
        RECORDING.get().show(node)


def observe_nodes() -> None:
    """Set the observer of this context from its current modes."""
    anomaly, packing, hooks = ANOMALY.get(), SAVED_TENSORS_HOOKS.get(), HOOKS.get()
    streams, recorders = CURRENT_STREAMS.get(), RECORDERS.get()
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


def record_everywhere(recorders: Sequence[ForwardRecorder]) -> None:
    """Pass the new nodes of all contexts to these recorders, beside what observes them there; of none, end that."""
    if not recorders:
        restore("_grad_mode", GRAD_MODE.get)
        restore("_recording", RECORDING.get)
        return
    alone: Any = RecordingOnly(recorders[0])
    for recorder in recorders[1:]:
        alone = alone.with_recorder(recorder)

    def beside(mode: Any) -> Any:
        if mode is True:
            return alone
        if not mode or mode is _REFUSAL:
            return mode
        for recorder in reversed(recorders):
            mode = mode.with_recorder(recorder)
        return mode

    override("_grad_mode", lambda: beside(GRAD_MODE.get()))
    override("_recording", lambda: beside(RECORDING.get()))


@final
class node_creation_hook(Mode):
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

    def __init__(self, hook: Callable[..., None]) -> None:
        if not callable(hook):
            raise HookTypeError(f"a node creation hook must be callable, not {describe(hook)}: pass a function")
        if is_kind(inspect.iscoroutinefunction, hook):
            raise HookTypeError(
                f"node creation {name_hook(hook)} is an async def, and an operation that makes a node cannot await it: "
                "pass a plain function"
            )
        self._hook = hook

    def _get(self) -> Any:
        return HOOKS.get()

    def _set(self, value: Any, /) -> None:
        HOOKS.set(value)
        observe_nodes()

    def _value(self) -> Any:
        return (*HOOKS.get(), self._hook)

    def _clone(self) -> Mode:
        return node_creation_hook(self._hook)
