"""One call of a checkpointed function: its arguments, its context and its random streams, and how it is made again."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context, ContextVar
from types import AsyncGeneratorType, GeneratorType
from typing import Any, NamedTuple, final

import numpy as np

from ...core.engine.dependents import HELD
from ...core.engine.device_limit import PERMIT
from ...core.engine.loops import MAX_NESTED_ON_STACK, run_on_new_stack
from ...core.graph.background import background
from ...core.graph.creation import observe_nodes
from ...core.graph.saved import version_of
from ...core.settings.arguments import describe, must_be
from ...core.settings.context import (
    ANOMALY,
    BLOCKING,
    CALLERS,
    CURRENT_GRAPH_TASK,
    CURRENT_NODE,
    LOOP_BELOW,
    RECOMPUTING,
    SAVED_TENSORS_HOOKS,
    is_kind,
    set_grad_mode,
)
from ...core.settings.loop_turn import keep_pace
from ...core.tensor import Tensor
from ...core.tree.structure import leaves
from ...errors import ArgumentError, ArgumentTypeError, InPlaceError
from ...random import generator
from ...transforms.arguments import require_tensor
from .pytree import flatten, unflatten
from .rng import RandomStreams, StreamReplay
from .steps import ContextAwaitable, Steps

__all__ = [
    "CheckpointOptions",
    "CheckpointedCall",
    "ForwardContext",
    "call_directly",
    "call_function",
    "check_result",
    "context_managers",
    "is_async",
    "name_of",
    "run_within",
    "user_hooks",
]


class CheckpointOptions(NamedTuple):
    """The options of `ag.checkpoint`, but for the kind; see there."""

    preserve_rng: bool = True
    generators: tuple[Any, ...] = ()
    early_stop: bool = True
    determinism_check: str = "default"
    context_fn: Callable[[], Any] | None = None
    debug: bool = False


def name_of(fn: Any) -> str:
    """Return the name of a function for error messages."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return str(getattr(fn, "__qualname__", None) or getattr(fn, "__name__", type(fn).__name__))


def is_async(fn: Callable[..., Any]) -> bool:
    """Tell whether a function is known, before it is called, to return an awaitable."""
    code = getattr(fn, "__code__", None)
    if code is not None:
        return bool(code.co_flags & inspect.CO_COROUTINE) or inspect.iscoroutinefunction(fn)
    return is_kind(inspect.iscoroutinefunction, fn)


# --- calling a function, nested to any depth ---------------------------------------------------------

#: How many checkpointed functions are being called, each inside the one before.
NESTED: ContextVar[int] = ContextVar("asyncgrad_nested_checkpoints", default=0)


def call_function(fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Return `fn(*args, **kwargs)`.

    Checkpointed functions may call one another to a depth that only memory bounds: of so many nested calls, one is made
    on a new stack.
    """
    depth = NESTED.get() + 1
    NESTED.set(depth)
    try:
        if depth % MAX_NESTED_ON_STACK:
            result = fn(*args, **kwargs)
        else:
            result = run_on_new_stack(functools.partial(fn, *args, **kwargs))
    finally:
        NESTED.set(depth - 1)
    return _await_at_depth(result, depth) if inspect.isawaitable(result) else result


async def _await_at_depth(result: Awaitable[Any], depth: int) -> Any:
    before = NESTED.get()
    NESTED.set(depth)
    try:
        if depth % MAX_NESTED_ON_STACK:
            found = await result
            # Not before: a coroutine that is cancelled there would never have been awaited.
            await keep_pace()
            return found
        work = background().start(
            _await_in_next_turn(result), contextvars.copy_context(), "a checkpointed function", _ignore
        )
        try:
            await work.wait()
        except BaseException as error:
            await background().end_all([work], error)
            raise
        return work.take()
    finally:
        NESTED.set(before)


async def _await_in_next_turn(result: Awaitable[Any]) -> Any:
    # The first step of a background task runs on the caller's stack; the next one, which the loop runs, does not.
    await asyncio.sleep(0)
    return await result


def _ignore(work: Any) -> None:
    """Do nothing when the work ends: the caller waits for it."""


def call_directly(call: Callable[..., Any], *args: Any) -> Any:
    """Return `call(*args)`; stands where `StreamReplay.run` would if random streams were replayed."""
    return call(*args)


# --- the context of the forward ----------------------------------------------------------------------

#: Context variables that a recomputation takes from the backward it runs in, and not from the forward.
_OF_BACKWARD = (CURRENT_GRAPH_TASK, CURRENT_NODE, BLOCKING, LOOP_BELOW, NESTED, PERMIT, HELD, CALLERS)


def user_hooks() -> Any:
    """Return the saved-tensor hooks that the user has set, beneath those of checkpoints."""
    hooks = SAVED_TENSORS_HOOKS.get()
    return getattr(hooks, "user_hooks", hooks)


@final
class ForwardContext:
    """A copy of the context in which a function is called in the forward, for calling it again in a backward."""

    __slots__ = ("_context",)

    def __init__(self) -> None:
        context = contextvars.copy_context()
        if CURRENT_GRAPH_TASK.get() is not None:
            # The copy would keep the backward that runs now in memory after its end.
            context.run(_clear_backward)
        self._context = context

    def for_recomputation(self, hooks: Any = None) -> Context:
        """Return another copy, with grad mode on, and with what belongs to a backward taken from the one that runs now.

        Args:
            hooks: the saved-tensor hooks in it; by default the user's hooks of the forward.
        """
        of_backward = [(variable, variable.get()) for variable in _OF_BACKWARD]
        context = self._context.copy()
        context.run(_enter_recomputation, of_backward, ANOMALY.get(), hooks)
        return context


def _clear_backward() -> None:
    CURRENT_GRAPH_TASK.set(None)
    CURRENT_NODE.set(None)


def _enter_recomputation(of_backward: Sequence[tuple[Any, Any]], anomaly: Any, hooks: Any) -> None:
    for variable, value in of_backward:
        variable.set(value)
    if ANOMALY.get() is None:
        ANOMALY.set(anomaly)
    SAVED_TENSORS_HOOKS.set(user_hooks() if hooks is None else hooks)
    RECOMPUTING.set(True)
    observe_nodes()
    set_grad_mode(True)


# --- the call ----------------------------------------------------------------------------------------


@final
class CheckpointedCall:
    """One call of a checkpointed function.

    Args:
        fn: the function.
        args: its positional arguments.
        kwargs: its keyword arguments.
        options: how it is checkpointed.
    """

    __slots__ = ("_args", "_kwargs", "context", "function", "is_async", "name", "options", "streams", "tensors")

    def __init__(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], options: CheckpointOptions
    ) -> None:
        self.function = fn
        self.options: CheckpointOptions = options
        self.name: str = name_of(fn)
        #: Whether the function is known to return an awaitable.
        self.is_async: bool = is_async(fn)
        #: The tensors among the arguments, in order. Whoever records the call takes them: they are kept as saved
        #: tensors, and not here.
        self.tensors: list[Any] = []
        streams: list[Any] = []
        # Without the tensors.
        self._args = flatten(args, self.tensors, streams)
        self._kwargs = flatten(kwargs, self.tensors, streams) if kwargs else None
        # That of the context is made here, if it has none yet: the function may draw from it.
        given = [generator(), *streams, *options.generators] if options.preserve_rng else None
        self.context: ForwardContext = ForwardContext()
        self.streams: RandomStreams | None = None if given is None else RandomStreams(given)

    def forward(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function for the first time, on its arguments as they were given."""
        return call_function(self.function, args, kwargs)

    def recompute(self, tensors: Sequence[Any], hooks: Any = None, caller: Callable[..., Any] | None = None) -> Any:
        """Call the function again, in the context of the forward and with grad mode on; return its result.

        Args:
            tensors: take the places of the tensors among the arguments.
            hooks: the saved-tensor hooks; by default the user's of the forward.
            caller: called with the function, its args and kwargs, and calls it; `call_function` by default.
        """
        context = self.context.for_recomputation(hooks)
        streams = self.streams
        around = call_directly if streams is None else StreamReplay(streams, streams.start).run
        count = len(self._args.positions)
        args = unflatten(self._args, tensors[:count])
        kwargs = {} if self._kwargs is None else unflatten(self._kwargs, tensors[count:])
        result = context.run(around, call_function if caller is None else caller, self.function, args, kwargs)
        return ContextAwaitable(result, context, around) if inspect.isawaitable(result) else result


def check_result(name: str, result: Any, versions: Sequence[int], tensors: Sequence[Any]) -> None:
    """Check that a function has done nothing that would make a second call differ from the first.

    Args:
        name: of the function.
        result: what it returned.
        versions: of its arguments, before the call.
        tensors: its arguments.

    Raises:
        InPlaceError: it wrote into an argument.
        ArgumentTypeError: it is a generator function, whose body has not run.
        GradientTypeError: an argument requires grad, and it returned numbers or arrays, whose gradient would be lost.
    """
    if isinstance(result, (GeneratorType, AsyncGeneratorType)):
        raise ArgumentTypeError(
            f"{name} is a generator function, whose body runs only when its result is iterated over: checkpoint a "
            "function that returns its results, for example as a list"
        )
    for before, tensor in zip(versions, tensors, strict=True):
        if version_of(tensor) != before:
            raise InPlaceError(
                f"{name} is checkpointed and wrote into its argument, {describe(tensor)}, in place: when the backward "
                "calls it again, it would get the changed argument. Let it write into a copy, t = t.copy()"
            )
    if not isinstance(result, Tensor) and any(tensor._requires_grad() for tensor in tensors):
        found = leaves(result)
        if found and all(isinstance(leaf, (int, float, complex, np.ndarray, np.generic)) for leaf in found):
            require_tensor(result, f"{name} is checkpointed and")


# --- context_fn --------------------------------------------------------------------------------------


def context_managers(call: CheckpointedCall) -> tuple[Any, Any]:
    """Return the context managers of `context_fn`, for the forward and for recomputations; two Nones without it.

    Raises:
        ArgumentTypeError: `context_fn` returned something else.
    """
    context_fn = call.options.context_fn
    if context_fn is None:
        return None, None
    pair = context_fn()
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise ArgumentTypeError(
            f"context_fn returns two context managers, for the forward and for the recomputation, not {describe(pair)}"
        )
    for manager, when in zip(pair, ("forward", "recomputation"), strict=True):
        if not _is_plain_manager(manager) and not (call.is_async and _is_async_manager(manager)):
            only = " of a plain function" if _is_async_manager(manager) else ""
            raise ArgumentTypeError(
                must_be(
                    f"what context_fn returns for the {when}{only}",
                    "a context manager",
                    manager,
                    "write a class with __enter__ and __exit__, or use contextlib.contextmanager",
                )
            )
    return pair[0], pair[1]


def run_within(manager: Any, allows_async: bool, function: Callable[..., Any], *args: Any) -> Steps:
    """Return the result of `function(*args)`, called and awaited inside a context manager.

    Args:
        manager: the context manager, or None.
        allows_async: whether an async one is entered as such.
        function: called with `args`.
        *args: its arguments.

    Raises:
        ArgumentError: the manager suppressed an error of the function.
    """
    if manager is None:
        return (yield function(*args))
    if allows_async and _is_async_manager(manager):
        yield manager.__aenter__()
        try:
            result = yield function(*args)
        except BaseException as error:
            if not (yield manager.__aexit__(type(error), error, error.__traceback__)):
                raise
            raise _suppressed_error() from error
        yield manager.__aexit__(None, None, None)
        return result
    with manager:
        return (yield function(*args))
    raise _suppressed_error()


def _suppressed_error() -> ArgumentError:
    return ArgumentError(
        "a context manager of context_fn suppressed what the checkpointed function raised, so there is no result to "
        "return: let __exit__ return False"
    )


def _is_plain_manager(manager: Any) -> bool:
    return hasattr(type(manager), "__enter__") and hasattr(type(manager), "__exit__")


def _is_async_manager(manager: Any) -> bool:
    return hasattr(type(manager), "__aenter__") and hasattr(type(manager), "__aexit__")
