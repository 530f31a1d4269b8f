"""What looks at nodes as they are made: anomaly mode's notes, saved-tensor hooks, and creation hooks.

All belong to the context. Where any is there, the value of grad mode is an observer in place of True, so that an
operation that nobody looks at pays for none.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, final

from ..arguments import describe
from ..context import ANOMALY, CURRENT_STREAMS, RECORDING, SAVED_TENSORS_HOOKS, Mode, is_kind, set_observer
from ..errors import GraphError, HookError, HookTypeError
from .naming import name_hook

if TYPE_CHECKING:
    from .node_like import NodeLike

__all__ = ["announce", "call_unseen", "is_watched", "node_creation_hook", "observe_nodes", "show"]

#: The creation hooks of this context, outermost first.
_HOOKS: ContextVar[tuple[Callable[[Any], Any], ...]] = ContextVar("asyncgrad_creation_hooks", default=())


@final
class Observer:
    """Sees each new node of a context: first anomaly mode, then what packs, then the hooks, outermost first.

    It also notes the stream that a node is made on.
    """

    __slots__ = ("_anomaly", "_hooks", "_packing", "_streams")

    def __init__(
        self, anomaly: Any, packing: Any, hooks: tuple[Callable[[Any], Any], ...], streams: Mapping[Any, Any]
    ) -> None:
        self._anomaly = anomaly
        self._packing = packing
        self._streams = streams
        self._hooks = hooks

    def created(self, node: NodeLike) -> None:
        """See a node that has its edges and all that it saves."""
        self.note(node)
        self.announce(node)

    def note(self, node: NodeLike) -> None:
        """Keep where the node is made, for anomaly mode: called while the user's line is on the stack."""
        if self._anomaly is not None:
            self._anomaly.note(node)
        if self._streams:
            stream = self._streams.get(node.device)
            if stream is not None:
                node.make_meta().stream = stream

    def announce(self, node: NodeLike) -> None:
        """Pack what the node saves, and call the hooks, now that it has all of it."""
        if self._packing is not None:
            self._packing.pack_saved(node)
        self.show(node)

    def show(self, node: NodeLike) -> None:
        """Call the hooks."""
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
        """Tell whether there are hooks."""
        return bool(self._hooks)

    def with_hook(self, hook: Callable[[Any], Any]) -> Observer:
        """Return an observer that differs by having one hook alone."""
        return Observer(self._anomaly, self._packing, (hook,), self._streams)


@final
class Refusal:
    """The observer while a creation hook runs: no node may be made then."""

    __slots__ = ()

    def created(self, node: NodeLike) -> None:
        """Raise."""
        raise GraphError(
            f"a node creation hook made a node itself, {node.name}, which would be shown to it in turn: "
            "compute under ag.no_grad(), or on t.detach() or t.numpy()"
        )

    note = announce = created


_REFUSAL = Refusal()


def announce(node: NodeLike) -> None:
    """Show a node that was made, whatever grad mode says, to what looks at new nodes in this context."""
    observer = RECORDING.get()
    if observer is not True:
        observer.created(node)


def is_watched() -> bool:
    """Tell whether creation hooks look at the nodes of this context."""
    observer = RECORDING.get()
    return isinstance(observer, Observer) and observer.is_watched()


def call_unseen(function: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, list[Any]]:
    """Call a function; return its result, and the nodes that it made, for `show`: no creation hook has seen them.

    All else that looks at new nodes has. It is for who does not know yet which of them will stand in the graph: a
    CopySlices takes the node of a write into a view, and is shown in its place.
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
    """Let this context's new nodes be seen by what its modes are now."""
    anomaly, packing, hooks = ANOMALY.get(), SAVED_TENSORS_HOOKS.get(), _HOOKS.get()
    streams = CURRENT_STREAMS.get()
    if isinstance(packing, str):
        packing = None
    # A hook that enters a mode is still not to make nodes.
    if RECORDING.get() is not _REFUSAL:
        unobserved = anomaly is None and packing is None and not hooks and not streams
        set_observer(True if unobserved else Observer(anomaly, packing, hooks, streams))


@final
class node_creation_hook(Mode):
    """Inside, `hook(node)` is called for every node that is made, once, when it has all that it saves.

    Nodes of a backward that is recorded are among them, and a leaf's AccumulateGrad when the first operation on the
    leaf makes it. A node of your own is shown at the end of `Node.__init__`. A context manager and a decorator, which
    holds for the current context only. Where several are nested, the outer hook is called first.

    Args:
        hook: a function that returns None. It may not record operations; an `async def` cannot be one, since it is
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

    def __init__(self, hook: Callable[[Any], None]) -> None:
        if not callable(hook):
            raise HookTypeError(f"a node creation hook must be callable, not {describe(hook)}: pass a function")
        if is_kind(inspect.iscoroutinefunction, hook):
            raise HookTypeError(
                f"node creation {name_hook(hook)} is an async def, and nodes are made where nothing can be awaited: "
                "pass a plain function"
            )
        self._hook = hook

    def _get(self) -> Any:
        return _HOOKS.get()

    def _set(self, value: Any, /) -> None:
        _HOOKS.set(value)
        observe_nodes()

    def _value(self) -> Any:
        return (*_HOOKS.get(), self._hook)

    def _clone(self) -> Mode:
        return node_creation_hook(self._hook)
