"""What belongs to the current context: grad mode, anomaly mode, the running GraphTask and Node.

Every piece of it is a ContextVar, so that asyncio tasks never see each other's.
"""

from __future__ import annotations

import functools
import inspect
import os
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, final

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator

__all__ = [
    "ANOMALY_MODE",
    "BLOCKING",
    "CURRENT_GRAPH_TASK",
    "CURRENT_NODE",
    "GRAD_MODE",
    "LOOP_BUDGET",
    "AnomalyMode",
    "detect_anomaly",
    "enable_grad",
    "is_grad_enabled",
    "no_grad",
    "set_grad_enabled",
]

F = TypeVar("F", bound="Callable[..., Any]")


class AnomalyMode(NamedTuple):
    """Whether anomaly mode is on in this context, and whether it looks for NaNs."""

    enabled: bool = False
    check_nan: bool = False


#: Whether operations record nodes.
GRAD_MODE: ContextVar[bool] = ContextVar("asyncgrad_grad_mode", default=True)
ANOMALY_MODE: ContextVar[AnomalyMode] = ContextVar("asyncgrad_anomaly_mode", default=AnomalyMode())  # noqa: B039
#: The GraphTask whose node, hook or callback runs; None outside of a backward.
CURRENT_GRAPH_TASK: ContextVar[Any] = ContextVar("asyncgrad_graph_task", default=None)
#: The Node whose body or hook runs.
CURRENT_NODE: ContextVar[Any] = ContextVar("asyncgrad_node", default=None)
#: Whether the caller is a blocking function of `asyncgrad.sync`, which must not suspend.
BLOCKING: ContextVar[bool] = ContextVar("asyncgrad_blocking", default=False)
#: Seconds for which a backward may run before it lets the event loop breathe.
LOOP_BUDGET: ContextVar[float] = ContextVar(
    "asyncgrad_loop_budget", default=float(os.environ.get("ASYNCGRAD_LOOP_BUDGET_MS", "1")) / 1000
)


class Mode:
    """Abstract base of the mode managers: `with` block, or decorator of any kind of function."""

    __slots__ = ("_previous",)
    _variable: ContextVar[Any]

    def __init__(self) -> None:
        self._previous: list[Any] = []

    def _value(self) -> Any:
        """Return the value that the context variable has inside the block."""
        raise NotImplementedError

    def _clone(self) -> Mode:
        return type(self)()

    def __enter__(self) -> None:
        self._previous.append(self._variable.get())
        self._variable.set(self._value())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Set rather than reset by token: a generator may be closed in another context than it was started in.
        self._variable.set(self._previous.pop())

    def __call__(self, function: F) -> F:
        return _under(self._clone, function)


def _under(mode: Callable[[], Mode], function: F) -> F:
    """Return `function` so wrapped that its body, and only its body, runs under `mode()`."""
    wrapper: Any
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
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

    elif inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            with mode():
                return await function(*args, **kwargs)

    elif inspect.isgeneratorfunction(function):

        @functools.wraps(function)
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

    else:

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with mode():
                return function(*args, **kwargs)

    return wrapper  # type: ignore[no-any-return]


@final
class no_grad(Mode):
    """Inside, operations record nothing, and their results do not require grad.

    A context manager, and a decorator of functions, generators and their async kinds. It holds for the
    current context only: other asyncio tasks are not touched.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0], requires_grad=True)
        >>> with ag.no_grad():
        ...     y = x * 2
        >>> y.requires_grad
        False
    """

    __slots__ = ()
    _variable = GRAD_MODE

    def _value(self) -> bool:
        return False


@final
class enable_grad(Mode):
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
    _variable = GRAD_MODE

    def _value(self) -> bool:
        return True


@final
class set_grad_enabled(Mode):
    """Set grad mode at once; as a `with` block or a decorator, set it back afterwards.

    Args:
        mode: True records, False does not.

    Example:
        >>> import asyncgrad as ag
        >>> with ag.set_grad_enabled(False):
        ...     ag.is_grad_enabled()
        False
    """

    __slots__ = ("_at_call", "_mode")
    _variable = GRAD_MODE

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self._mode = bool(mode)
        self._at_call = GRAD_MODE.get()
        GRAD_MODE.set(self._mode)

    def _value(self) -> bool:
        return self._mode

    def _clone(self) -> Mode:
        previous = GRAD_MODE.get()
        clone = set_grad_enabled(self._mode)
        GRAD_MODE.set(previous)
        return clone

    def __enter__(self) -> None:
        # The constructor has already switched: what the block gives back is the mode before that.
        self._previous.append(self._at_call if not self._previous else GRAD_MODE.get())
        GRAD_MODE.set(self._mode)

    def __call__(self, function: F) -> F:
        GRAD_MODE.set(self._at_call)
        return _under(self._clone, function)


@final
class detect_anomaly(Mode):
    """Inside, nodes remember where they were created, and a backward that makes a NaN raises.

    Args:
        check_nan: look at every gradient for NaNs; without it only the creation stacks are kept.

    Example:
        >>> import asyncgrad as ag
        >>> with ag.detect_anomaly():
        ...     x = ag.tensor([1.0], requires_grad=True)
    """

    __slots__ = ("_mode",)
    _variable = ANOMALY_MODE

    def __init__(self, check_nan: bool = True) -> None:
        super().__init__()
        self._mode = AnomalyMode(True, check_nan)

    def _value(self) -> AnomalyMode:
        return self._mode

    def _clone(self) -> Mode:
        return detect_anomaly(self._mode.check_nan)


def is_grad_enabled() -> bool:
    """Tell whether operations in this context record nodes.

    Example:
        >>> import asyncgrad as ag
        >>> ag.is_grad_enabled()
        True
    """
    return GRAD_MODE.get()
