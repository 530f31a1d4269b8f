"""How long the functions of operations take on the host: while something times them, each call is intercepted.

At all other times nothing here is called. What times is put among CALLS (`core/settings/observers.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any

from ..settings.observers import CALLS, CallRecorder
from .interception import TIMES, intercept, stop_intercepting

__all__: list[str] = []

_is_on = [False]
_mutex = threading.RLock()


def _update(whole_process: bool) -> None:
    with _mutex:
        is_on = CALLS.are_put()
        if is_on == _is_on[0]:
            return
        _is_on[0] = is_on
        if is_on:
            intercept(TIMES, _timed)
        else:
            stop_intercepting(TIMES)


CALLS.when_changed(_update)


def _timed(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    calls, of_context = CALLS, CALLS.of_context

    def timed(*args: Any, **kwargs: Any) -> Any:
        # As few calls as can be: what is timed may take no longer than two of them.
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
