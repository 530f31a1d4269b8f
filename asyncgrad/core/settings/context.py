"""The state of the current context: grad mode, anomaly mode, the running GraphTask and Node.

Each is a ContextVar, so that asyncio tasks do not share it.
"""

from __future__ import annotations

import functools
import inspect
from contextvars import Context, ContextVar, copy_context
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, final, overload

import numpy as np

from .arguments import truth

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Mapping, Sequence

__all__ = [
    "ANOMALY",
    "BLOCKING",
    "CALLERS",
    "CURRENT_GRAPH_TASK",
    "CURRENT_NODE",
    "DEFAULT_DEVICE",
    "DEFAULT_DTYPE",
    "CURRENT_STREAMS",
    "GENERATOR",
    "GRAD_MODE",
    "IN_TRANSFORM",
    "LOOP_BELOW",
    "RECOMPUTING",
    "RECORDING",
    "ROW",
    "RowLike",
    "SAVED_TENSORS_HOOKS",
    "COPY_ON_WRITE",
    "CallerLike",
    "TRAINING_STEPS",
    "TrainingStepLike",
    "UNRECORDED",
    "LoopBelow",
    "Mode",
    "RunningBackward",
    "SeededGenerator",
    "Watcher",
    "current_node",
    "enable_grad",
    "is_grad_enabled",
    "is_kind",
    "no_grad",
    "set_grad_enabled",
    "set_grad_mode",
    "switch_back",
    "set_observer",
    "watched_no_grad",
]

F = TypeVar("F", bound="Callable[..., Any]")


@final
class SeededGenerator:
    """A NumPy generator of a seed, made by the first draw: most calls draw nothing, and making one takes 20 µs.

    Contexts that share this share the generator. Whoever draws at the same time on another thread gets the same one.

    Args:
        seed: what `np.random.default_rng` takes.
    """

    __slots__ = ("_made", "_seed")

    def __init__(self, seed: int | Sequence[int]) -> None:
        self._seed = seed
        self._made: dict[str, np.random.Generator] = {}

    def generator(self) -> np.random.Generator:
        """Return the generator; the same one each time."""
        found = self._made.get("generator")
        # `setdefault`: of two threads that make one, both draw from that of the first.
        return self._made.setdefault("generator", np.random.default_rng(self._seed)) if found is None else found


@final
class LoopBelow(NamedTuple):
    """The ids of a thread that only provides a further stack, and of the loop's thread, which waits; see LOOP_BELOW."""

    stack: int
    loop: int


class RowLike(Protocol):
    """The part of one of several backward passes through one graph, which run together, that nodes and warnings use."""

    @property
    def together(self) -> object:
        """What the backward passes that run together have in common."""

    @property
    def around(self) -> object:
        """The backward in whose body or hook they were started; None outside of one."""

    def is_here(self) -> bool:
        """Tell whether the running event loop is that of these backward passes."""

    @property
    def scheduler(self) -> Any:
        """The DepthScheduler that counts those of these backward passes that run."""

    def ask(
        self,
        node: Any,
        grads: Sequence[Any],
        answer: Callable[[list[Any]], Awaitable[Sequence[Any]]],
        keep: Callable[[Any], object] | None,
    ) -> Awaitable[Any]:
        """Return the answer for this row; `answer` gets the gradients of all rows that are ready at `node` together.

        If this row has been cancelled by then, `keep` gets its answer.
        """

    def numbers(self, outer: object) -> bool:
        """Tell whether what a backward inside of `outer` records is numbered with the other rows."""

    def note_out_of_order(self) -> None:
        """Note that what is numbered so may have been recorded in the order of waits."""

    def keep_warning(self, message: str, category: type[Warning]) -> bool:
        """Keep a warning until it can be issued where the rows are awaited; return False once they have ended."""


class CallerLike(Protocol):
    """The part of a caller that waits for a request which locks use."""

    @property
    def backward(self) -> Any:
        """The backward in which it has asked; None outside of one."""

    @property
    def node(self) -> Any:
        """The node in whose body or hook it has asked; None outside of one."""

    @property
    def context(self) -> Context:
        """That in which it has asked."""


class RunningBackward(Protocol):
    """The part of the running GraphTask that graph, functions and checkpoints use; they do not import the engine."""

    #: The ReadAhead that prefetches saved tensors; None until there is something to prefetch.
    read_ahead: Any
    #: The changes that the backward has made to the gradients of tensors, in order.
    changes: list[Any]

    @property
    def is_running(self) -> bool:
        """Whether the backward has not ended."""

    @property
    def reentrant_depth(self) -> int:
        """The number of backward passes inside of which this one runs."""

    @property
    def limits(self) -> Any:
        """The ExecInfos that say which nodes run; None if all nodes run."""

    def will_reach(self, node: Any) -> bool:
        """Tell whether gradients arrive at a node in this backward, or have arrived there."""

    def execution_order(self) -> list[Any]:
        """Return the nodes in the order in which they run if no node suspends."""

    def can_checkpoint(self) -> bool:
        """Tell whether a reentrant checkpoint may recompute."""

    def complete_with(self) -> Any:
        """Return the Completion of the backward; make it on the first call."""


class TrainingStepLike(Protocol):
    """The part of a training step of an optimizer that a backward uses."""

    @property
    def tracker(self) -> Any:
        """What knows the open steps of the optimizer; None if the optimizer is gone."""

    def backward_begins(self) -> None:
        """Note that a backward of this step has begun."""

    def backward_ends(self, has_gradients: bool) -> None:
        """Note that it has ended, with gradients or by an error."""


#: Whether operations record nodes: the value of RECORDING if they do, else that of UNRECORDED, which is false. So an
#: operation reads only one variable; without an observer, it only tests whether the value is True.
GRAD_MODE: ContextVar[Any] = ContextVar("asyncgrad_grad_mode", default=True)
#: GRAD_MODE where operations record: True, or an observer whose `created(node)` is called for each new node.
RECORDING: ContextVar[Any] = ContextVar("asyncgrad_recording", default=True)
#: The value of GRAD_MODE where operations record nothing: False, or a Watcher.
UNRECORDED: ContextVar[Any] = ContextVar("asyncgrad_unrecorded", default=False)
#: None outside of anomaly mode; inside, an object whose `check_nan` tells whether gradients are checked.
ANOMALY: ContextVar[Any] = ContextVar("asyncgrad_anomaly", default=None)
#: The hooks that pack the tensors that new nodes save; None without hooks; a message where they are disabled.
SAVED_TENSORS_HOOKS: ContextVar[Any] = ContextVar("asyncgrad_saved_tensors_hooks", default=None)
#: Whether a checkpointed function is called again, so that what its first call has counted must not be counted twice.
RECOMPUTING: ContextVar[bool] = ContextVar("asyncgrad_recomputing", default=False)
#: The CopyOnWrite that copies saved tensors before a write into them; None without one.
COPY_ON_WRITE: ContextVar[Any] = ContextVar("asyncgrad_copy_on_write", default=None)
#: The GraphTask whose node, hook or callback runs; None outside of a backward.
CURRENT_GRAPH_TASK: ContextVar[RunningBackward | None] = ContextVar("asyncgrad_graph_task", default=None)
#: The Node whose body or hook runs; None outside of one.
CURRENT_NODE: ContextVar[Any] = ContextVar("asyncgrad_node", default=None)
#: The current stream of each device in this context; a device without an entry uses its default stream. The mapping
#: is replaced, never written into, since contexts share it.
CURRENT_STREAMS: ContextVar[Mapping[Any, Any]] = ContextVar("asyncgrad_streams", default=MappingProxyType({}))
#: The callers that wait for the request that runs here, which is outside of their backward passes.
CALLERS: ContextVar[Iterable[CallerLike]] = ContextVar("asyncgrad_callers", default=())
#: The device that new tensors live on; None for the cpu.
DEFAULT_DEVICE: ContextVar[Any] = ContextVar("asyncgrad_default_device", default=None)
#: The floating dtype of new tensors of Python's numbers; None for float64.
DEFAULT_DTYPE: ContextVar[Any] = ContextVar("asyncgrad_default_dtype", default=None)
#: What functions draw from that are not given a generator; None before the first draw.
GENERATOR: ContextVar[np.random.Generator | SeededGenerator | None] = ContextVar("asyncgrad_generator", default=None)
#: Whether the caller is a blocking function of `asyncgrad.sync`, which must not suspend.
BLOCKING: ContextVar[bool] = ContextVar("asyncgrad_blocking", default=False)
#: Whether a transform differentiates the function that runs.
IN_TRANSFORM: ContextVar[bool] = ContextVar("asyncgrad_in_transform", default=False)
#: The training steps, one of an optimizer, that a backward called from this context belongs to.
TRAINING_STEPS: ContextVar[tuple[TrainingStepLike, ...]] = ContextVar("asyncgrad_training_steps", default=())
#: The backward that this context belongs to, if it is one of several that run together, one for each row of a batch.
ROW: ContextVar[RowLike | None] = ContextVar("asyncgrad_row", default=None)
#: Set in a thread that continues, on a stack of its own, the work of a thread that runs an event loop.
LOOP_BELOW: ContextVar[LoopBelow | None] = ContextVar("asyncgrad_loop_below", default=None)


#: The open blocks of this context, outermost first, each with the value to set at its end. The manager does not hold
#: the value, since several tasks may be inside of one manager at a time.
_OPEN_BLOCKS: ContextVar[tuple[tuple[Mode, Any], ...]] = ContextVar("asyncgrad_open_blocks", default=())

#: What a call of the library switches for its own time, with its value where nobody has set it.
_SWITCHED: dict[ContextVar[Any], Any] = {
    GRAD_MODE: True,
    RECORDING: True,
    UNRECORDED: False,
    ANOMALY: None,
    SAVED_TENSORS_HOOKS: None,
    RECOMPUTING: False,
    COPY_ON_WRITE: None,
    CURRENT_GRAPH_TASK: None,
    CURRENT_NODE: None,
    BLOCKING: False,
    IN_TRANSFORM: False,
    ROW: None,
    LOOP_BELOW: None,
    _OPEN_BLOCKS: (),
}


def switch_back(before: Context) -> None:
    """Set everything that a call switches to what it was in a copy of this context, made before the call.

    An interrupt may come at any line, the first one of an `__exit__` among them, which then switches nothing back. So
    who is called by users does, where an exception leaves the call: see
    test_an_interrupt_at_any_line_leaves_nothing_switched.
    """
    for variable, default in _SWITCHED.items():
        value = before.get(variable, default)
        if variable.get() is not value:
            variable.set(value)


def is_grad_enabled() -> bool:
    """Tell whether operations in this context record nodes.

    Example:
        >>> import asyncgrad as ag
        >>> ag.is_grad_enabled()
        True
    """
    return bool(GRAD_MODE.get())


def set_grad_mode(enabled: bool) -> None:
    """Turn the recording of nodes in this context on or off; the context's observer, if any, sees new nodes."""
    GRAD_MODE.set(RECORDING.get() if enabled else UNRECORDED.get())


def set_observer(observer: Any) -> None:
    """Call `observer.created(node)` for each node that this context makes from now on; True means no observer."""
    RECORDING.set(observer)
    if GRAD_MODE.get():
        GRAD_MODE.set(observer)


def current_node() -> Any:
    """Return the node whose body or hook runs in this context; None outside of one.

    Source: torch._C._current_autograd_node.

    Example:
        >>> import asyncgrad as ag
        >>> seen = []
        >>> x = ag.tensor(1.0, requires_grad=True)
        >>> y = x * 2
        >>> handle = y.register_hook(lambda grad: seen.append(ag.graph.current_node()))
        >>> ag.sync.backward(y)
        >>> seen[0] is y.grad_fn, ag.graph.current_node()
        (True, None)
    """
    return CURRENT_NODE.get()


class Watcher:
    """Abstract: sees the arguments of operations while grad mode is off.

    It is false, since it is then the value of GRAD_MODE.
    """

    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def used(self, *values: Any) -> None:
        """See arguments of an operation, tensors or anything else."""
        raise NotImplementedError

    def in_backward(self) -> Watcher | bool:
        """Return what sees the operations of a backward that begins here; False for nothing.

        Its rules use what the graph has saved, which gets its gradients by this very backward.
        """
        return False


class Mode:
    """Abstract base of the modes: managers of `with` blocks, and decorators of any kind of function."""

    __slots__ = ()

    def _get(self) -> Any:
        """Return the value that the mode has in this context."""
        raise NotImplementedError

    def _set(self, value: Any, /) -> None:
        """Set the mode to `value` in this context."""
        raise NotImplementedError

    def _value(self) -> Any:
        """Return the value that the mode has inside the block."""
        raise NotImplementedError

    def _before(self) -> Any:
        """Return the value to set when the block that begins now ends."""
        return self._get()

    def _clone(self) -> Mode:
        return type(self)()

    def __enter__(self) -> None:
        before = copy_context()
        try:
            _OPEN_BLOCKS.set((*_OPEN_BLOCKS.get(), (self, self._before())))
            self._set(self._value())
        except BaseException:
            # The block does not begin, and so never ends.
            switch_back(before)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Set rather than reset by token, and search rather than pop: a block in a generator ends when the generator is
        # closed, which may happen inside a later block, or in another context, whose mode must not change.
        blocks = _OPEN_BLOCKS.get()
        for index in reversed(range(len(blocks))):
            manager, before = blocks[index]
            if manager is self:
                _OPEN_BLOCKS.set(blocks[:index] + blocks[index + 1 :])
                manager._set(before)
                return

    def __call__(self, function: F) -> F:
        """Return `function` wrapped so that its body runs in the mode."""
        return _wrap(self._clone, function)


def _wrap(mode: Callable[[], Mode], function: F) -> F:
    """Return `function` wrapped so that its body, and only its body, runs under `mode()`."""
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(_wrap(mode, function.__func__))
    if inspect.isclass(function) or not callable(function):
        hint = ": decorate its methods" if inspect.isclass(function) else ": write `with` around what it holds for"
        raise TypeError(f"a mode decorates functions, not {function!r}{hint}")
    wrap: Any = _wrap_call
    if is_kind(inspect.isasyncgenfunction, function):
        wrap = _wrap_async_generator
    elif is_kind(inspect.iscoroutinefunction, function):
        wrap = _wrap_coroutine
    elif is_kind(inspect.isgeneratorfunction, function):
        wrap = _wrap_generator
    return functools.wraps(function)(wrap(mode, function))  # type: ignore[return-value]


def is_kind(test: Callable[[Any], bool], function: Any) -> bool:
    """Tell whether a function, that of a partial, or the `__call__` of an object passes one of inspect's tests."""
    while isinstance(function, functools.partial):
        function = function.func
    return test(function) or test(getattr(type(function), "__call__", None))  # noqa: B004


def _wrap_call(mode: Callable[[], Mode], function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        before = copy_context()
        try:
            with mode():
                return function(*args, **kwargs)
        except BaseException:
            switch_back(before)
            raise

    return wrapper


def _wrap_coroutine(mode: Callable[[], Mode], function: Callable[..., Any]) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        with mode():
            return await function(*args, **kwargs)

    return wrapper


def _wrap_generator(mode: Callable[[], Mode], function: Callable[..., Any]) -> Callable[..., Any]:
    # Each step enters the mode anew, so that the caller's mode holds between steps.
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        generator = function(*args, **kwargs)
        step: Any = generator.__next__
        arguments: tuple[Any, ...] = ()
        try:
            while True:
                with mode():
                    try:
                        value = step(*arguments)
                    except StopIteration as end:
                        return end.value
                try:
                    sent = yield value
                    step, arguments = generator.send, (sent,)
                except GeneratorExit:
                    raise
                except BaseException as error:
                    step, arguments = generator.throw, (error,)
        finally:
            with mode():
                generator.close()

    return wrapper


def _wrap_async_generator(mode: Callable[[], Mode], function: Callable[..., Any]) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        generator = function(*args, **kwargs)
        step = generator.__anext__
        arguments: tuple[Any, ...] = ()
        try:
            while True:
                with mode():
                    try:
                        value = await step(*arguments)
                    except StopAsyncIteration:
                        return
                try:
                    sent = yield value
                    step, arguments = generator.asend, (sent,)
                except GeneratorExit:
                    raise
                except BaseException as error:
                    step, arguments = generator.athrow, (error,)
        finally:
            with mode():
                await generator.aclose()

    return wrapper


class GradSwitch(Mode):
    """Abstract base of `no_grad` and `enable_grad`, which decorate with and without parentheses."""

    __slots__ = ()
    _get = staticmethod(is_grad_enabled)
    _set = staticmethod(set_grad_mode)

    @overload
    def __new__(cls) -> GradSwitch: ...
    @overload
    def __new__(cls, function: F, /) -> F: ...  # type: ignore[misc]
    def __new__(cls: Any, function: Any = None, /) -> Any:  # type: ignore[misc]
        """Return a manager, or `function` decorated if one is given."""
        manager = object.__new__(cls)
        return manager if function is None else manager(function)


@final
class no_grad(GradSwitch):
    """Inside, operations record nothing, and their results do not require grad.

    A context manager, and a decorator of functions, generators and their async kinds. It holds for the
    current context only; other asyncio tasks keep their mode.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0], requires_grad=True)
        >>> with ag.no_grad():
        ...     y = x * 2
        >>> y.requires_grad
        False
    """

    __slots__ = ()

    def _value(self) -> bool:
        return False


@final
class watched_no_grad(Mode):
    """Inside, operations record nothing, and a watcher sees their arguments; False means no watcher.

    The watcher also sees a `no_grad` block inside, but not an `enable_grad` block.
    """

    __slots__ = ("_watcher",)

    def __init__(self, watcher: Watcher | bool) -> None:
        self._watcher = watcher

    def _get(self) -> Any:
        return UNRECORDED.get(), is_grad_enabled()

    def _set(self, value: Any, /) -> None:
        watcher, enabled = value
        UNRECORDED.set(watcher)
        set_grad_mode(enabled)

    def _value(self) -> Any:
        return self._watcher, False


@final
class enable_grad(GradSwitch):
    """Inside, operations record nodes again, also within a `no_grad` block.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0], requires_grad=True)
        >>> with ag.no_grad(), ag.enable_grad():
        ...     y = x * 2
        >>> y.requires_grad
        True
    """

    __slots__ = ()

    def _value(self) -> bool:
        return True


@final
class set_grad_enabled(Mode):
    """Set grad mode at once; as a `with` block or a decorator, set it back afterwards.

    Args:
        mode: True records, False does not.

    Raises:
        ArgumentTypeError: `mode` is neither.

    Example:
        >>> import asyncgrad as ag
        >>> with ag.set_grad_enabled(False):
        ...     ag.is_grad_enabled()
        False
    """

    __slots__ = ("_mode", "_mode_before")
    _get = staticmethod(is_grad_enabled)
    _set = staticmethod(set_grad_mode)

    def __init__(self, mode: bool) -> None:
        self._mode = truth(mode, "the mode of ag.set_grad_enabled(mode)")
        #: The mode before the constructor; None once a block is to restore it.
        self._mode_before: bool | None = is_grad_enabled()
        set_grad_mode(self._mode)

    def _value(self) -> bool:
        return self._mode

    def _before(self) -> bool:
        before, self._mode_before = self._mode_before, None
        return is_grad_enabled() if before is None else before

    def _clone(self) -> Mode:
        before = is_grad_enabled()
        clone = set_grad_enabled(self._mode)
        set_grad_mode(before)
        return clone

    def __call__(self, function: F) -> F:
        """Return `function` wrapped; restore the mode that the constructor changed, since only calls run in it."""
        if self._mode_before is not None:
            set_grad_mode(self._mode_before)
            self._mode_before = None
        return _wrap(self._clone, function)
