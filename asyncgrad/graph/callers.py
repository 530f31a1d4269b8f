"""The line of the user's code that called asyncgrad, in tracebacks and warnings.

NumPy issues its warnings in C, for the frame that called it. That is a generated function of asyncgrad, which shows no
one where an operation overflowed. Python shows each warning by a function of the module `warnings`, which is looked up
each time: the one of this module issues a warning of a generated function again, for the line that called asyncgrad.
So a call without a warning costs nothing.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from types import CodeType, FrameType, TracebackType
from typing import Any

__all__ = ["shorten_traceback", "show_warnings_at_the_caller"]

# Not by pathlib, which takes longer to load than this module.
_PACKAGE = __file__.rsplit(os.sep, 2)[0] + os.sep
#: What the file names of generated code begin with.
_GENERATED = ("<asyncgrad: ", "<derivative of ", "<compiled backward ")

#: Modules that run tasks and threads.
_RUNNERS = {"asyncio", "concurrent", "threading", "uvloop"}


def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith((_PACKAGE, *_GENERATED))


def shorten_traceback(error: BaseException) -> None:
    """Remove asyncgrad's own frames from the traceback of one of its errors: they are not where the mistake is.

    With ASYNCGRAD_TRACEBACKS=full in the environment all frames stay.
    """
    if os.environ.get("ASYNCGRAD_TRACEBACKS") == "full":
        return
    entries = []
    entry = error.__traceback__
    while entry is not None:
        if not _is_ours(entry.tb_frame.f_code):
            entries.append(entry)
        entry = entry.tb_next
    shortened: TracebackType | None = None
    for entry in reversed(entries):
        shortened = TracebackType(shortened, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    error.__traceback__ = shortened


def show_warnings_at_the_caller() -> None:
    """From now on have warnings of generated functions shown at the line that called asyncgrad."""
    show: Callable[[warnings.WarningMessage], None] = warnings._showwarnmsg  # type: ignore[attr-defined]

    def show_at_the_caller(message: warnings.WarningMessage) -> None:
        frame = _caller() if message.filename.startswith((_PACKAGE, *_GENERATED)) else None
        if frame is None:
            show(message)
        else:
            _issue_again(message, frame)

    warnings._showwarnmsg = show_at_the_caller  # type: ignore[attr-defined]


def _caller() -> FrameType | None:
    """Return the frame that called asyncgrad; None where that is an event loop or a thread of asyncgrad's own."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and not _is_ours(frame.f_code):
        frame = frame.f_back
    while frame is not None and _is_ours(frame.f_code):
        # Python would not show a second warning of one line of the generated function.
        registry = frame.f_globals.get("__warningregistry__")
        if registry is not None:
            registry.clear()
        frame = frame.f_back
    if frame is None or str(frame.f_globals.get("__name__")).partition(".")[0] in _RUNNERS:
        return None
    return frame


def _issue_again(message: warnings.WarningMessage, frame: FrameType) -> None:
    """Issue a warning for the line of a frame; the filters are asked again, now about that line and its module."""
    namespace: dict[str, Any] = frame.f_globals
    text = message.message
    assert isinstance(text, Warning)
    warnings.warn_explicit(
        text,
        message.category,
        frame.f_code.co_filename,
        frame.f_lineno,
        module=namespace.get("__name__") or "<unknown>",
        registry=namespace.setdefault("__warningregistry__", {}),
        source=message.source,
    )
