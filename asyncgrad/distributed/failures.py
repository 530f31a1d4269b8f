"""Errors on their way home: each arrives with its type, the remote traceback, its notes and the worker's address."""

from __future__ import annotations

import builtins
import logging
import os
import sys
import traceback
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from ..core.engine.notes import add_note
from ..errors import ArgumentError, RemoteError
from .definition import Program
from .payload import pack

__all__ = ["describe_error", "describe_to_stranger", "restore_error", "unknown_worker"]

_LOG = logging.getLogger("asyncgrad.distributed")
_HERE = str(Path(__file__).parent) + os.sep
_PACKAGE = str(Path(__file__).parent.parent) + os.sep
#: What makes, calls and packs the owner's things, and shows them in its errors. The code itself: a name may change.
_OF_THE_OWNER = frozenset((Program.__init__.__code__, Program.call.__code__, pack.__code__))


def unknown_worker(worker: Any, known: Iterable[str]) -> ArgumentError:
    """Return the error for an address that no worker has or has had."""
    return ArgumentError(f"there is no worker {worker!r}; there are {sorted(known)}")


def describe_error(error: BaseException, dumps: Callable[[Any], bytes] | None) -> dict[str, Any]:
    """Return JSON that describes an error.

    Args:
        error: what was raised at the host.
        dumps: pickles the error for a home that trusts this host; None leaves that out.
    """
    args = _arguments(error)
    fields: dict[str, Any] = {
        "type": type(error).__qualname__,
        "module": type(error).__module__,
        "args": [_shown(one) for one in args],
        "text": _text(error),
        "notes": [str(note) for note in getattr(error, "__notes__", ())],
        "traceback": "".join(traceback.format_tb(error.__traceback__)),
    }
    if dumps is not None:
        try:
            # Not the error itself: many cannot be unpickled, since they take other arguments than they keep.
            fields["pickle"] = dumps((type(error), args, vars(error))).hex()
        except Exception:
            # It arrives by its type and arguments then.
            fields["pickle"] = None
    return fields


def describe_to_stranger(error: BaseException) -> dict[str, Any]:
    """Return JSON that tells a client whom this host does not trust the type of an error, and an id for the log.

    A text is told where this package has made it, of the request. One that the owner's functions raised may have
    arguments, paths or values in it.
    """
    identifier = uuid.uuid4().hex
    _LOG.error("error %s of a stage", identifier, exc_info=error)
    kind = type(error)
    is_known = kind.__module__ in ("builtins", "asyncgrad.errors")
    text = _text(error) if _is_of_the_request(error) else "the stage has failed"
    text = f"{text} (error {identifier})"
    return {
        "type": kind.__qualname__ if is_known else kind.__name__,
        "module": kind.__module__ if is_known else "",
        "args": [text],
        "text": text,
        "notes": [],
        "traceback": "",
        "id": identifier,
    }


def _is_of_the_request(error: BaseException) -> bool:
    if type(error).__module__ != "asyncgrad.errors":
        return False
    codes = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    if not codes:
        return True
    # Guarded by test_no_error_shows_what_an_owner_s_function_returned.
    is_told = codes[-1].co_filename.startswith(_HERE) and _OF_THE_OWNER.isdisjoint(codes)
    return is_told and all(code.co_filename.startswith(_PACKAGE) for code in codes)


def restore_error(fields: dict[str, Any], worker: str, load: Callable[[bytes], Any]) -> BaseException:
    """Return the error that `describe_error` described, with notes that say where it was raised.

    An error that is not unpickled is made by its type only if that is known here already: nothing is imported.
    """
    error = _unpickled(fields, load) or _rebuilt(fields)
    for note in fields["notes"]:
        if note not in getattr(error, "__notes__", ()):
            add_note(error, f"at {worker}: {note}")
    known = getattr(error, "__notes__", None)
    if known:
        notes = [note if note.startswith("at ") else f"at {worker}: {note}" for note in known]
        known[:] = list(dict.fromkeys(notes))
    if not isinstance(identifier := fields.get("id"), str):
        add_note(error, f"at {worker}, remote traceback:\n{fields['traceback']}")
    else:
        add_note(error, f"at {worker}: its log tells more of error {identifier[:64]}: ask the owner of {worker}")
    return error


def _unpickled(fields: dict[str, Any], load: Callable[[bytes], Any]) -> BaseException | None:
    if not fields.get("pickle"):
        return None
    try:
        found = load(bytes.fromhex(fields["pickle"]))
        return None if found is None else _make(*found)
    except Exception:
        # Its class cannot be made here; it arrives by its name then.
        return None


def _rebuilt(fields: dict[str, Any]) -> BaseException:
    module, name = fields["module"], fields["type"]
    kind: Any = builtins if module == "builtins" else sys.modules.get(module)
    for part in name.split("."):
        kind = getattr(kind, part, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return _make(kind, fields["args"], {})
        except Exception:
            # It takes other arguments than those that it keeps, or keeps more than its arguments.
            kind = None
    return RemoteError(f"{f'{module}.{name}'.lstrip('.')}: {fields['text']}")


def _arguments(error: BaseException) -> tuple[Any, ...]:
    """Return what an exception was made with: an OSError keeps the names of files beside its `args`."""
    if type(error).__module__ == "builtins":
        return tuple(error.__reduce__()[1])
    return error.args


def _make(kind: Any, args: Sequence[Any], attributes: dict[str, Any]) -> BaseException:
    """Return an exception with these arguments, without a call of its `__init__`, which may take others.

    Those of Python's own take what they keep, and some of them, such as UnicodeDecodeError, keep it in no other way.
    """
    error: BaseException
    if issubclass(kind, StopAsyncIteration):
        # It would end an `async for` of whoever awaits the stage, as if all were well; Python makes a RuntimeError of a
        # StopIteration (test_no_error_of_a_host_ends_a_loop_at_home).
        raise TypeError(f"{kind.__name__} is no error to raise where a stage is awaited")
    if kind.__module__ == "builtins":
        error = kind(*args)
    else:
        error = kind.__new__(kind, *args)
        error.args = tuple(args)
    vars(error).update(attributes)
    # Raises where its text needs what has not come along, as that of NumPy's UFuncTypeError does.
    str(error)
    return error


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(its __str__ raises)"


def _shown(argument: Any) -> Any:
    """Return what JSON holds of an argument: itself, or what it looks like."""
    # JSON writes no whole number of thousands of digits.
    is_short = not isinstance(argument, int) or abs(argument) < 1 << 64
    if argument is None or (isinstance(argument, (bool, int, float, str)) and is_short):
        return argument
    try:
        return repr(argument)
    except Exception:
        return "(its __repr__ raises)"
