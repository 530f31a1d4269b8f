"""Call: one call of a checkpointed function, and what it takes to make it again."""

from __future__ import annotations

import contextvars
import functools
import inspect
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Any, NamedTuple, final

from ..context import (
    ANOMALY,
    BLOCKING,
    CURRENT_GRAPH_TASK,
    CURRENT_NODE,
    LOOP_BELOW,
    SAVED_TENSORS_HOOKS,
    is_kind,
    set_grad_mode,
)
from ..graph.creation import observe_nodes
from .deep_calls import NESTED, called
from .driving import Guided
from .random_streams import Replay, Streams
from .structure import filled, taken_apart

__all__ = ["Call", "Options", "SavedContext", "hooks_of_the_user", "is_async", "name_of", "plainly"]

#: What a recomputation has from the backward that it runs in, and not from the forward.
_OF_THE_BACKWARD = (CURRENT_GRAPH_TASK, CURRENT_NODE, BLOCKING, LOOP_BELOW, NESTED)


class Options(NamedTuple):
    """How a function is checkpointed."""

    preserve_rng: bool = True
    generators: tuple[Any, ...] = ()
    early_stop: bool = True
    determinism_check: str = "default"
    context_fn: Callable[[], Any] | None = None
    debug: bool = False


def name_of(fn: Any) -> str:
    """Return what errors call a function."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return str(getattr(fn, "__qualname__", type(fn).__name__))


def is_async(fn: Callable[..., Any]) -> bool:
    """Tell whether a function is known to return an awaitable."""
    code = getattr(fn, "__code__", None)
    if code is not None:
        return bool(code.co_flags & inspect.CO_COROUTINE) or inspect.iscoroutinefunction(fn)
    return is_kind(inspect.iscoroutinefunction, fn)


@final
class SavedContext:
    """The context that a function was called in, for what calls it again in a backward."""

    __slots__ = ("_context",)

    def __init__(self) -> None:
        context = contextvars.copy_context()
        if CURRENT_GRAPH_TASK.get() is not None:
            # A backward that has ended is not to be kept.
            context.run(_forget_the_backward)
        self._context = context

    def for_recomputation(self, keeper: Any = None) -> Context:
        """Return that context once more, within the backward that runs now, with recording on.

        Args:
            keeper: what sees the tensors that nodes save, in place of the hooks that there were.
        """
        now = [(variable, variable.get()) for variable in _OF_THE_BACKWARD]
        context = self._context.copy()
        context.run(_enter, now, ANOMALY.get(), keeper)
        return context


def hooks_of_the_user() -> Any:
    """Return the saved-tensor hooks that a user has set here, around the checkpointed functions that are called."""
    hooks = SAVED_TENSORS_HOOKS.get()
    return getattr(hooks, "around", hooks)


def _forget_the_backward() -> None:
    CURRENT_GRAPH_TASK.set(None)
    CURRENT_NODE.set(None)


def _enter(now: Sequence[tuple[Any, Any]], anomaly: Any, keeper: Any) -> None:
    for variable, value in now:
        variable.set(value)
    if ANOMALY.get() is None:
        ANOMALY.set(anomaly)
    SAVED_TENSORS_HOOKS.set(hooks_of_the_user() if keeper is None else keeper)
    observe_nodes()
    set_grad_mode(True)


@final
class Call:
    """One call of a checkpointed function.

    Args:
        fn: the function.
        args: its positional arguments.
        kwargs: its keyword arguments.
        options: how it is checkpointed.
    """

    __slots__ = ("_fn", "args", "context", "is_async", "kwargs", "name", "options", "streams", "tensors")

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], options: Options) -> None:
        self._fn = fn
        self.options = options
        self.name = name_of(fn)
        #: Whether the function is known to return an awaitable.
        self.is_async = is_async(fn)
        #: The tensors among the arguments, in order; only until the function has been called.
        self.tensors: list[Any] = []
        found: list[Any] = []
        #: The arguments, with places for the tensors.
        self.args = taken_apart(args, self.tensors, found)
        self.kwargs = taken_apart(kwargs, self.tensors, found) if kwargs else kwargs
        self.context = SavedContext()
        self.streams = Streams([*found, *options.generators]) if options.preserve_rng else None

    def first(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function in the forward, on the arguments as they came."""
        return called(self._fn, args, kwargs)

    def again(self, tensors: Sequence[Any], keeper: Any = None, within: Callable[..., Any] | None = None) -> Any:
        """Call the function once more, in the context of the first call, with recording on; return what it returns.

        Args:
            tensors: what stands for the tensors of the first call.
            keeper: what sees the tensors that nodes save.
            within: called with the function and its arguments, in place of the function.
        """
        context = self.context.for_recomputation(keeper)
        streams = self.streams
        around = plainly if streams is None else Replay(streams, streams.start).run
        args, kwargs = filled(self.args, tensors), filled(self.kwargs, tensors)
        result = context.run(around, called if within is None else within, self._fn, args, kwargs)
        return Guided(result, context, around) if inspect.isawaitable(result) else result


def plainly(call: Callable[..., Any], *args: Any) -> Any:
    """Return what `call(*args)` does."""
    return call(*args)
