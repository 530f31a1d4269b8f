"""What a recomputation draws at random is what the forward drew, and nobody else's stream is moved by that."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import Any, final

import numpy as np

from ..arguments import describe
from ..errors import ArgumentTypeError
from .structure import RANDOM

__all__ = ["Replay", "Streams", "checked_streams"]


@final
class Streams:
    """NumPy's global stream and some others, and where they were when this was made.

    Args:
        sources: Generators, RandomStates and BitGenerators; the global stream comes by itself.
    """

    __slots__ = ("_sources", "start")

    def __init__(self, sources: Iterable[Any]) -> None:
        self._sources = tuple({id(source): source for source in sources}.values())
        self.start = self.now()

    def now(self) -> list[Any]:
        """Return the states of the streams."""
        return [_GLOBAL.state(), *map(_state_of, self._sources)]

    def exchange(self, states: list[Any]) -> list[Any]:
        """Give the streams these states; return those until now."""
        now = self.now()
        if now[0] is not states[0]:
            np.random.set_state(states[0])  # noqa: NPY002
        for source, state in zip(self._sources, states[1:], strict=True):
            _set_state(source, state)
        return now


@final
class Replay:
    """Runs calls one after the other on streams of their own, and leaves the streams around them as they are.

    Args:
        streams: which.
        states: where the first call begins.
    """

    __slots__ = ("_streams", "inside")

    def __init__(self, streams: Streams, states: list[Any]) -> None:
        self._streams = streams
        self.inside = states

    def run(self, call: Callable[..., Any], *args: Any) -> Any:
        """Return what `call(*args)` does."""
        outside = self._streams.exchange(self.inside)
        try:
            return call(*args)
        finally:
            self.inside = self._streams.exchange(outside)


@final
class GlobalStream:
    """NumPy's global stream, whose state takes long to read: 0.1 ms, for each of very many that draw nothing from it.

    So its memory is compared with what it was when the state was last read. The one thing that may change without that,
    a normal number kept for the next call, does so only where there is one.
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: tuple[Any, bytes, Any] = (None, b"", None)

    def state(self) -> Any:
        """Return the state; the same object as before where nothing has been drawn."""
        bits = np.random.mtrand.get_bit_generator()
        memory = _memory(bits)
        known, before, state = self._last
        if known is bits and memory is not None and memory == before and not state["has_gauss"]:
            return state
        state = np.random.get_state(legacy=False)  # noqa: NPY002
        if memory is not None and memory == _memory(bits):
            self._last = bits, memory, state
        return state


def _memory(bits: Any) -> bytes | None:
    """Return what a Mersenne Twister's state consists of: 624 words and a position."""
    return ctypes.string_at(bits.ctypes.state_address, 625 * 4) if type(bits) is np.random.MT19937 else None


#: There is one global stream.
_GLOBAL = GlobalStream()


def checked_streams(given: Any) -> tuple[Any, ...]:
    """Return the streams that a caller named.

    Raises:
        ArgumentTypeError: one of them is none.
    """
    if isinstance(given, RANDOM):
        return (given,)
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise ArgumentTypeError(f"generators takes a sequence of NumPy's Generators, not {describe(given)}")
    streams = tuple(given)
    for stream in streams:
        if not isinstance(stream, RANDOM):
            raise ArgumentTypeError(
                f"generators takes NumPy's Generators, not {describe(stream)}: make one by np.random.default_rng(seed)"
            )
    return streams


def _state_of(source: Any) -> Any:
    if isinstance(source, np.random.RandomState):
        return source.get_state(legacy=False)
    bits = source.bit_generator if isinstance(source, np.random.Generator) else source
    return bits.state


def _set_state(source: Any, state: Any) -> None:
    if isinstance(source, np.random.RandomState):
        source.set_state(state)
        return
    bits = source.bit_generator if isinstance(source, np.random.Generator) else source
    bits.state = state
