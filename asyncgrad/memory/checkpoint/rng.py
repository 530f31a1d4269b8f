"""Random streams: a recomputation draws the numbers that the forward drew, and leaves every stream as it found it."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable
from typing import Any, final

import numpy as np

from ...core.settings.arguments import takes
from ...core.settings.process import has_effect, set_random_state
from ...errors import ArgumentTypeError
from ...numpy.random.sampling import Sampler

__all__ = ["STREAM_TYPES", "RandomStreams", "StreamReplay", "check_streams"]

#: The type of the lock that its holder may take again.
_REENTRANT = type(threading.RLock())

#: The types of random streams that are found among arguments.
STREAM_TYPES = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, Sampler)


@final
class RandomStreams:
    """NumPy's global stream and some others, with the states they have when this is made.

    Args:
        sources: Generators, RandomStates and BitGenerators besides the global stream, which is always included.
    """

    __slots__ = ("_sources", "start")

    def __init__(self, sources: Iterable[Any]) -> None:
        bare = [source.numpy_source if isinstance(source, Sampler) else source for source in sources]
        self._sources = tuple({id(source): source for source in bare}.values())
        self.start: list[Any] = self.states()

    def states(self) -> list[Any]:
        """Return the current states of the streams."""
        return [_GLOBAL.state() if has_effect("random") else None, *map(_get_state, self._sources)]

    def exchange(self, states: list[Any]) -> list[Any]:
        """Set the states of the streams; return those they had."""
        before = self.states()
        if before[0] is not states[0]:
            set_random_state(states[0])
        for source, state in zip(self._sources, states[1:], strict=True):
            _set_state(source, state)
        return before


@final
class StreamReplay:
    """Runs calls one after the other on replayed streams; between the calls the streams have their own states.

    Args:
        streams: the streams to replay.
        states: their states at the beginning of the first call.
    """

    __slots__ = ("_streams", "states")

    def __init__(self, streams: RandomStreams, states: list[Any]) -> None:
        self._streams = streams
        #: The states at the beginning of the next call.
        self.states: list[Any] = states

    def run(self, call: Callable[..., Any], *args: Any) -> Any:
        """Return `call(*args)`, called on the replayed streams."""
        outside = self._streams.exchange(self.states)
        try:
            return call(*args)
        finally:
            self.states = self._streams.exchange(outside)


@final
class GlobalStream:
    """NumPy's global stream, with its state cached.

    Reading the state takes 0.1 ms, for every checkpointed call, and most draw nothing from this stream. So the memory
    of the bit generator is compared with what it was at the last reading. One part of the state is not in that memory:
    normal numbers are drawn in pairs, and the second one may be kept for the next call. It can change alone: where it
    is taken, or where someone sets a state. So it is asked for each time, see `_kept_normal`
    (`test_a_state_that_differs_by_a_kept_normal_number_alone_is_replayed`).
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: tuple[Any, bytes, Any] = (None, b"", None)

    def state(self) -> Any:
        """Return the state; the same object as before where nothing has been drawn."""
        bits = np.random.mtrand.get_bit_generator()
        memory = _memory(bits)
        known, before, last = self._last
        is_same = known is bits and memory is not None and memory == before
        # Before NumPy 2.4 the lock is not reentrant, and a draw would wait for its own caller: then all of it is read.
        if is_same and isinstance(bits.lock, _REENTRANT):
            kept = _kept_normal(bits, memory)
            if (kept is not None) == last["has_gauss"] and (kept is None or kept == last["gauss"]):
                return last
        state = np.random.get_state(legacy=False)  # noqa: NPY002
        if is_same and (state["has_gauss"], state["gauss"]) == (last["has_gauss"], last["gauss"]):
            return last
        if memory is not None and memory == _memory(bits):
            self._last = bits, memory, state
        return state


def _memory(bits: Any) -> bytes | None:
    """Return the memory of a Mersenne Twister, 624 words and a position; None for any other bit generator."""
    return ctypes.string_at(bits.ctypes.state_address, 625 * 4) if type(bits) is np.random.MT19937 else None


def _kept_normal(bits: Any, memory: bytes) -> float | None:
    """Return the normal number that the global stream keeps for the next call; None where it keeps none.

    Only a draw tells. One that leaves `memory` as it is took the kept number, which is put back with the state. Any
    other drew two and kept the second: that is taken as well, and the memory put back.
    """
    with bits.lock:
        first = np.random.standard_normal()  # noqa: NPY002
        if _memory(bits) == memory:
            state = np.random.get_state(legacy=False)  # noqa: NPY002
            set_random_state({**state, "has_gauss": 1, "gauss": first})
            return first
        np.random.standard_normal()  # noqa: NPY002
        ctypes.memmove(bits.ctypes.state_address, memory, len(memory))
        return None


#: A process has one global stream.
_GLOBAL = GlobalStream()


def check_streams(given: Any) -> tuple[Any, ...]:
    """Return the argument `generators=` as a tuple of streams.

    Raises:
        ArgumentTypeError: it is not a sequence, or something in it is not a random stream.
    """
    if isinstance(given, STREAM_TYPES):
        return (given,)
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise ArgumentTypeError(takes("generators", "a sequence of NumPy's Generators", given))
    streams = tuple(given)
    for stream in streams:
        if not isinstance(stream, STREAM_TYPES):
            raise ArgumentTypeError(
                takes("generators", "NumPy's Generators", stream, "write np.random.default_rng(seed)")
            )
    return streams


def _get_state(source: Any) -> Any:
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
