"""How long the functions of operations take on the host: while something times them, each call is intercepted.

At all other times nothing here is called. What times is put among CALLS (`core/settings/observers.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any

from ..settings.observers import CALLS, CallRecorder
from ..settings.process import hold_in_forks
from .interception import TIMES, Interceptor, intercept, stop_intercepting

__all__: list[str] = []

#: What the interceptor in use was made for; None where nothing is timed.
_made_for: list[tuple[CallRecorder, ...] | None] = [None]
_mutex = hold_in_forks(threading.RLock())


def _update(whole_process: bool) -> None:
    with _mutex:
        recorders: tuple[CallRecorder, ...] | None = tuple(CALLS.all_put) or None
        if recorders == _made_for[0]:
            return
        _made_for[0] = recorders
        if recorders is None:
            stop_intercepting(TIMES)
        elif len(recorders) == 1 and CALLS.of_context() == recorders:
            intercept(TIMES, _timed_by_one(CALLS.of_context()))
        else:
            intercept(TIMES, _timed)


CALLS.when_changed(_update)


def _timed_by_one(known: tuple[CallRecorder, ...]) -> Interceptor:
    """Return an interceptor for one recorder, of a context: the only one there is.

    Args:
        known: what that context and those that are copied of it have; any other has another tuple.
    """
    (recorder,) = known
    of_context, clock, extend = CALLS.of_context, recorder.clock, recorder.timed_calls.extend

    def timed_by_one(function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            # As few calls as can be: what is timed may take no longer than two of them.
            if of_context() is not known:
                return _timed_by_all(CALLS.found(), name, function, args, kwargs)
            began = clock()
            result = function(*args, **kwargs)
            extend((name, get_ident(), began, clock()))
            return result

        return timed

    return timed_by_one


def _timed(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    calls, of_context = CALLS, CALLS.of_context

    def timed(*args: Any, **kwargs: Any) -> Any:
        recorders = of_context()
        if len(recorders) != 1 or calls.of_process:
            return _timed_by_all(calls.found(), name, function, args, kwargs)
        recorder = recorders[0]
        clock, times = recorder.clock, recorder.timed_calls
        began = clock()
        result = function(*args, **kwargs)
        times += (name, get_ident(), began, clock())
        return result

    return timed


def _timed_by_all(
    recorders: Sequence[CallRecorder],
    name: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    times = [recorder.clock() for recorder in recorders]
    result = function(*args, **kwargs)
    for recorder, began in zip(recorders, times, strict=True):
        recorder.timed_calls.extend((name, get_ident(), began, recorder.clock()))
    return result
