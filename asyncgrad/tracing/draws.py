"""Random numbers that a traced function draws: the program draws them anew, in the same order from the same stream."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ..core.settings.context import GENERATOR
from ..core.settings.process import call_in_forked_children
from ..random import generator
from .trace import Trace, Untraceable

__all__ = ["Draw", "TracedGenerator", "drawing_from", "traced_generator"]


#: How many rows of a map may be in one program.
_MOST_ROWS = 16


@final
class Draw:
    """A method of the current generator, which is that of the context in which the program runs."""

    __slots__ = ("__name__", "method")

    #: Its result is another one each time.
    is_random = True

    def __init__(self, method: str) -> None:
        self.method = method
        self.__name__ = f"generator.{method}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Draw."""
        found: Any = generator()
        return getattr(found.real if type(found) is TracedGenerator else found, self.method)(*args, **kwargs)


@final
class TracedGenerator:
    """The generator of a trace, which notes what is drawn from the real one."""

    __slots__ = ("_trace", "real")

    def __init__(self, trace: Trace, real: np.random.Generator) -> None:
        self._trace = trace
        self.real: np.random.Generator = real

    if not TYPE_CHECKING:
        # Type checkers know of no object with two classes. Rules take it for NumPy's own.
        @property
        def __class__(self):
            return np.random.Generator

    def check_rows(self, count: int) -> None:
        """Raise where a map of so many rows would make a program of too many calls.

        Raises:
            Untraceable: it would.
        """
        if count > _MOST_ROWS:
            self._trace.broken = f"it maps {count} rows, and a program of all of them would be long"
            raise Untraceable(self._trace.broken)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in ("bit_generator", "spawn", "shuffle"):
            raise Untraceable(f"it uses generator.{name}")

        def draw(*args: Any, **kwargs: Any) -> Any:
            if kwargs.get("out") is not None:
                raise Untraceable(f"it draws random numbers into an array, by generator.{name}(out=...)")
            found = self._trace.call(Draw(name), args, kwargs)
            if not isinstance(found, np.ndarray):
                raise Untraceable(f"it draws a single number, by generator.{name}")
            return found

        return draw


@contextmanager
def traced_generator(trace: Trace) -> Iterator[None]:
    """Note what is drawn in the block, and leave the stream as it was."""
    real = generator()
    with _drawing_as_before(trace):
        recorder: Any = TracedGenerator(trace, real)
        token = GENERATOR.set(recorder)
        try:
            yield
        finally:
            GENERATOR.reset(token)


@contextmanager
def _drawing_as_before(trace: Trace) -> Iterator[None]:
    """Put back, at the end of the block, what asyncgrad, NumPy and Python draw next without a given generator."""
    found = generator()
    state = found.bit_generator.state
    before = _process_streams.enter()
    try:
        yield
    finally:
        found.bit_generator.state = state
        if _process_streams.leave(before):
            trace.broken = "it draws or seeds random numbers without ag.random"


@final
class _ProcessStreams:
    """The streams of NumPy and of Python, which all threads share, while functions are traced."""

    __slots__ = ("_at_first", "_count", "_lock")

    def __init__(self) -> None:
        self.start_anew()

    def start_anew(self) -> None:
        """Begin without traces: those of other threads do not go on in a child process."""
        self._lock = threading.Lock()
        #: How many traces are under way, and the states before the first of them.
        self._count = 0
        self._at_first: Any = None

    def enter(self) -> Any:
        """Begin a trace; return the states that it leaves if it neither draws nor seeds."""
        with self._lock:
            if not self._count:
                self._at_first = _states()
                # A function that seeds them would leave the state that its last call has left. Only once: another
                # trace that is under way would take that for a draw of its function.
                np.random.mtrand.get_bit_generator().random_raw()
                random.random()
            self._count += 1
            return _states()

    def leave(self, before: Any) -> bool:
        """End a trace; put back what is drawn next, and tell whether it has drawn or seeded."""
        with self._lock:
            has_drawn: bool = _comparable(before) != _comparable(_states())
            # A function that forks ends its trace in the child too, where none is counted.
            self._count = max(self._count - 1, 0)
            if not self._count and self._at_first is not None:
                _put_back(self._at_first)
                self._at_first = None
            elif has_drawn:
                _put_back(before)
            return has_drawn


def _states() -> tuple[Any, Any]:
    return np.random.mtrand.get_bit_generator().state, random.getstate()


def _put_back(states: tuple[Any, Any]) -> None:
    np.random.mtrand.get_bit_generator().state = states[0]
    random.setstate(states[1])


_process_streams = _ProcessStreams()
call_in_forked_children(_process_streams.start_anew)


@contextmanager
def drawing_from(state: Any) -> Iterator[None]:
    """Draw in the block from a stream of its own that begins with a state, whichever generator the context has."""
    found: object = generator()
    current = type((found.real if isinstance(found, TracedGenerator) else generator()).bit_generator)
    # A class of the user's is found nowhere else.
    kind = current if current.__name__ == state["bit_generator"] else getattr(np.random, state["bit_generator"])
    made = np.random.Generator(kind(0))
    made.bit_generator.state = state
    token = GENERATOR.set(made)
    try:
        yield
    finally:
        GENERATOR.reset(token)


def _comparable(state: Any) -> Any:
    """Return the state of a bit generator with the bytes of its arrays, which compare as one."""
    if isinstance(state, dict):
        return {name: _comparable(one) for name, one in state.items()}
    if isinstance(state, tuple):
        return tuple(map(_comparable, state))
    return state.tobytes() if isinstance(state, np.ndarray) else state
