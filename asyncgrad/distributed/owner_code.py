"""What a host runs of a stage's owner: whatever that raises fails one request, and is no answer of the host itself."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from ..core.engine.notes import add_note
from ..core.settings.awaiting import is_cancelled
from ..errors import RemoteError, UnknownCallError, UnknownStageError, WorkerLostError

__all__ = ["owner_code"]

#: By which a host tells home that it has lost something. Home then brings it there, or computes it, again.
_OF_HOSTS = (UnknownCallError, UnknownStageError, WorkerLostError)


@contextmanager
def owner_code() -> Iterator[None]:
    """Run what an owner has written, as its function or optimizer.

    Raises:
        RemoteError: it raised what would mean something else coming from a host, a CancelledError though nobody has
            cancelled it, or what is no Exception. An exit of the process is let through.
    """
    try:
        yield
    except asyncio.CancelledError as error:
        if is_cancelled(error):
            raise
        raise _own(error) from error
    except _OF_HOSTS as error:
        raise _own(error) from error
    except (Exception, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise _own(error) from error


def _own(error: BaseException) -> RemoteError:
    # Its text is in a note, which strangers are not sent.
    found = RemoteError(f"a function of the stage raised {type(error).__name__} by itself")
    for note in getattr(error, "__notes__", ()):
        add_note(found, str(note))
    add_note(found, "".join(traceback.format_exception(error)))
    return found
