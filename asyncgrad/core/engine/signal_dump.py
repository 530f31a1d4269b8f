"""dump_on_signal: the description of all running backward passes, written whenever the process gets a signal."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self, final

from ...errors import ArgumentError, ArgumentTypeError
from ..settings.arguments import must_be
from ..settings.process import set_signal_handler
from .describe import describe_running

if TYPE_CHECKING:
    from typing import TextIO


__all__ = ["SignalDump", "dump_on_signal"]


@final
class SignalDump:
    """What `dump_on_signal` returns: ends the dumps by `close()`, or at the end of its `with` block."""

    __slots__ = ("_file", "_former", "_is_open", "signal")

    def __init__(self, number: signal.Signals, file: TextIO | None) -> None:
        #: The signal.
        self.signal: signal.Signals = number
        self._file = file
        self._is_open = True
        self._former: Any = set_signal_handler(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Write the description, and call the former handler; called in the main thread between two lines of it."""
        if self._is_open:
            # Whatever it raised would be raised at some line of the program that has nothing to do with it.
            with contextlib.suppress(Exception):
                _write(f"{describe_running()}\n", sys.stderr if self._file is None else self._file)
        if callable(self._former):
            self._former(number, frame)

    def close(self) -> None:
        """Write nothing any more, and restore the former handler unless another one has taken this one's place.

        Raises:
            ArgumentError: this is not the main thread.
        """
        self._is_open = False
        if signal.getsignal(self.signal) == self._handle:
            _check_thread()
            former = self._former
            # One that was set before this one may have been closed before it.
            while isinstance(owner := getattr(former, "__self__", None), SignalDump) and not owner._is_open:
                former = owner._former
            # None is the handler of a program in C, which Python cannot restore.
            set_signal_handler(self.signal, signal.SIG_DFL if former is None else former)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def dump_on_signal(signal: signal.Signals | int | None = None, file: TextIO | None = None) -> SignalDump:
    """Write `describe_running()` to a file whenever this process gets a signal; return a handle that ends that.

    `kill -USR1 PID` then shows what a process that hangs waits for, also while its event loop is blocked, or all tasks
    wait. Python runs the handler in the main thread, between two lines: a call into C that never returns, such as a
    product of huge matrices, has to end first. The former handler, if any, is called afterwards.

    Args:
        signal: the signal; None for SIGUSR1.
        file: the open file to write to; None for `sys.stderr` at that time.

    Returns:
        A SignalDump: call its `close()`, or use it as a context manager.

    Raises:
        ArgumentError: this is not the main thread; or the system has no such signal, or does not let it be handled.
        ArgumentTypeError: `signal` is no signal, or `file` cannot be written to.

    Example:
        >>> import io, signal, asyncgrad as ag
        >>> file = io.StringIO()
        >>> with ag.engine.dump_on_signal(signal.SIGTERM, file):
        ...     signal.raise_signal(signal.SIGTERM)
        >>> print(file.getvalue(), end="")
        No backward is running in this process.
    """
    number = _signal_of(signal)
    if file is not None and not hasattr(file, "write"):
        raise ArgumentTypeError(
            must_be("file of ag.engine.dump_on_signal", "an open text file", file, "write open(path, 'a')")
        )
    try:
        _check_thread()
        return SignalDump(number, file)
    except OSError as error:
        raise ArgumentError(f"the system does not let {number.name} be handled: take another signal") from error


def _check_thread() -> None:
    if threading.current_thread() is not threading.main_thread():
        raise ArgumentError(
            "Python sets the handlers of signals in the main thread only, and this is "
            f"{threading.current_thread().name}: call ag.engine.dump_on_signal(), and close it, in the main thread"
        )


def _signal_of(given: Any) -> signal.Signals:
    if given is None:
        number = getattr(signal, "SIGUSR1", None)
        if number is None:
            raise ArgumentError(
                "this system has no SIGUSR1: name a signal that it has, as in "
                "ag.engine.dump_on_signal(signal.SIGBREAK) on Windows"
            )
        return signal.Signals(number)
    if isinstance(given, bool) or not isinstance(given, int):
        raise ArgumentTypeError(
            must_be("signal of ag.engine.dump_on_signal", "a signal", given, "write signal.SIGUSR1")
        )
    try:
        return signal.Signals(given)
    except ValueError as error:
        raise ArgumentError(f"this system has no signal {given}: write signal.SIGUSR1") from error


def _write(text: str, file: Any) -> None:
    """Write a text, past the buffer of the file: the signal may have come in the middle of a write into that."""
    try:
        number = file.fileno()
    except (AttributeError, OSError, ValueError):
        file.write(text)
        return
    data = text.encode("utf-8", "backslashreplace")
    while data:
        data = data[os.write(number, data) :]
