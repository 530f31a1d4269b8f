"""Every effect that asyncgrad has on the process around it, beyond objects of its own; no other module has any.

Each has a name, by which the environment variable ASYNCGRAD_WITHOUT switches it off: ASYNCGRAD_WITHOUT="warnings exit".
docs/process.md says what is lost then. `tests/core/settings/test_process.py` holds this module to be all.
"""

from __future__ import annotations

import atexit
import gc
import linecache
import logging
import os
import signal
import sys
import threading
import time
import types
import warnings
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, final

import numpy as np

from ...errors import ArgumentError

__all__ = [
    "EFFECTS",
    "call_at_exit",
    "call_in_forked_children",
    "forget_lines",
    "has_effect",
    "hold_in_forks",
    "keep_lines",
    "replace_display_of_warnings",
    "set_collection_thresholds",
    "set_module",
    "set_random_state",
    "set_signal_handler",
    "set_state_of_torch",
    "set_trace_function",
    "silence_unconfigured_logs",
    "without_warnings",
]

#: What happens, and why, by the name that switches it off. The last six happen by functions that the user calls.
EFFECTS = {
    "warnings": "Python shows warnings by a function of asyncgrad, which names the line that called asyncgrad",
    "filters": "warnings are ignored while NumPy computes again what has warned before",
    "source": "linecache keeps the lines of generated source, so that tracebacks show them",
    "log": "the logger `asyncgrad` has a handler that drops records, so that a program without logging shows none",
    "exit": "the exit of the interpreter waits for bodies on workers and for the kernel that is being compiled",
    "fork": "a forked child starts its own workers, devices and stores, whose threads and locks are its parent's, "
    "and a fork waits until no thread compiles",
    "random": "a recomputation of `ag.checkpoint` sets the state that `np.random` had before, and puts its own back",
    "signal": "`ag.engine.dump_on_signal` sets the handler of a signal, and puts the former one back",
    "collector": "`ag.no_full_collections` sets a threshold of the garbage collector, and puts the former one back",
    "calls": "`ag.jit` has Python tell it which functions run in the traced run, and puts the former observer back",
    "torch": "`asyncgrad.interop.torch` seeds PyTorch's generator for a call, and puts the state back that it had",
    "modules": "`asyncgrad.hips.install` puts modules of asyncgrad into `sys.modules` under HIPS autograd's names",
}


def _switched_off() -> frozenset[str]:
    name = "ASYNCGRAD_WITHOUT"
    given = frozenset(os.environ.get(name, "").replace(",", " ").split())
    unknown = sorted(given - EFFECTS.keys())
    if unknown:
        raise ArgumentError(
            f"the environment variable {name} has {', '.join(unknown)}: it takes names of {', '.join(EFFECTS)}, with "
            "blanks between them"
        )
    return given


_OFF = _switched_off()


def has_effect(name: str) -> bool:
    """Tell whether an effect is not switched off."""
    return name not in _OFF


def replace_display_of_warnings(make: Callable[[Callable[[Any], None]], Callable[[Any], None]]) -> None:
    """Have Python show warnings by what `make` returns of the function that shows them now."""
    if "warnings" not in _OFF:
        warnings._showwarnmsg = make(warnings._showwarnmsg)  # type: ignore[attr-defined]


def without_warnings(function: Callable[[], Any]) -> Any:
    """Return what a function returns; no warning is shown meanwhile, in any thread."""
    if "filters" in _OFF:
        return function()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function()


def keep_lines(name: str, lines: list[str]) -> None:
    """Have tracebacks show the lines of a file that is not on disk."""
    if "source" not in _OFF:
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)


def forget_lines(name: str) -> None:
    """Keep the lines of a file no longer."""
    linecache.cache.pop(name, None)


def silence_unconfigured_logs() -> None:
    """Show no record of asyncgrad's loggers in a program that has configured no logging."""
    if "log" not in _OFF:
        logging.getLogger("asyncgrad").addHandler(logging.NullHandler())


def call_at_exit(function: Callable[[], Any]) -> None:
    """Call a function at the exit of the interpreter."""
    if "exit" not in _OFF:
        atexit.register(function)


def call_in_forked_children(function: Callable[[], Any]) -> None:
    """Call a function in each child that is forked from now on, where there are such."""
    if "fork" not in _OFF and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


class Lock(Protocol):
    """What a thread holds, and no other meanwhile."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Hold it; return whether that was possible."""

    def release(self) -> None:
        """Hold it no longer."""


LockType = TypeVar("LockType", bound=Lock)


@final
class _LocksOfForks:
    """Locks that the thread that forks holds meanwhile, so that none is left taken in a child by another thread.

    It has all of them at once or none: who waits for one holds no other, so two threads never wait for each other.
    """

    __slots__ = ("_held", "_locks")

    def __init__(self) -> None:
        self._locks: list[Lock] = []
        #: By thread, which it holds; those who fork one after the other may let go in another order.
        self._held: dict[int, tuple[Lock, ...]] = {}

    def add(self, lock: Lock) -> None:
        """Have one more."""
        if not self._locks:
            # The first to go on in a child and the last to begin: other functions of forks may need the locks.
            os.register_at_fork(before=self.acquire, after_in_parent=self.release, after_in_child=self.release)
        # In one step: two threads may import, or compile for the first time, at once.
        self._locks.append(lock)

    def acquire(self) -> None:
        """Hold all of them, or none where that takes too long."""
        locks, end = tuple(self._locks), time.monotonic() + _LONGEST_WAIT
        while (taken := self._tried(locks)) is not None:
            if time.monotonic() > end:
                locks = ()
                break
            if taken.acquire(timeout=_LONGEST_WAIT):
                taken.release()
        self._held[threading.get_ident()] = locks

    def _tried(self, locks: tuple[Lock, ...]) -> Lock | None:
        """Hold all of them and return None, or hold none and return one that another thread holds."""
        for index, lock in enumerate(locks):
            if not lock.acquire(False):
                for one in locks[:index]:
                    one.release()
                return lock
        return None

    def release(self) -> None:
        """Hold none any more."""
        for lock in self._held.pop(threading.get_ident(), ()):
            lock.release()


#: How many seconds a fork waits for locks. What holds one longer has been interrupted in its midst.
_LONGEST_WAIT = 10.0
_LOCKS = _LocksOfForks()


def hold_in_forks(lock: LockType) -> LockType:
    """Return a lock that no thread but the one that forks holds in a fork, so that it is free in the child."""
    if "fork" not in _OFF and hasattr(os, "register_at_fork"):
        _LOCKS.add(lock)
    return lock


def set_signal_handler(number: signal.Signals, handler: Any) -> Any:
    """Set the handler of a signal, and return the former one.

    Raises:
        ArgumentError: it is switched off.
    """
    if "signal" in _OFF:
        raise ArgumentError("ASYNCGRAD_WITHOUT has signal, so no handler is set: take it out of the variable")
    return signal.signal(number, handler)


def set_collection_thresholds(young: int, middle: int, old: int) -> None:
    """Set the thresholds of Python's garbage collector."""
    if "collector" not in _OFF:
        gc.set_threshold(young, middle, old)


def set_trace_function(function: Any) -> bool:
    """Have Python call a function at the begin of each function of this thread; return whether it does."""
    if "calls" in _OFF:
        return False
    sys.settrace(function)
    return True


def set_random_state(state: Any) -> None:
    """Set the state of NumPy's global stream, `np.random`."""
    np.random.set_state(state)  # noqa: NPY002


def set_state_of_torch(set_state: Callable[[], object]) -> None:
    """Call what sets the state of PyTorch's generator, from which all threads draw."""
    if "torch" not in _OFF:
        set_state()


def set_module(name: str, module: types.ModuleType) -> None:
    """Have imports of a name find a module.

    Raises:
        ArgumentError: it is switched off, or another module has the name.
    """
    if "modules" in _OFF:
        raise ArgumentError("ASYNCGRAD_WITHOUT has modules, so no module gets a name: take it out of the variable")
    if sys.modules.setdefault(name, module) is not module:
        raise ArgumentError(f"the module {name} has been imported already: call this before anything imports it")
